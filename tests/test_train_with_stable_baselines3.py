"""examples/train_with_stable_baselines3.py: an agent is trained and then used as the policy of a run."""

import re
import runpy
from itertools import pairwise
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[1] / "examples" / "train_with_stable_baselines3.py"


def test_the_example_trains_an_agent_and_runs_it(capsys: pytest.CaptureFixture[str]) -> None:
    main = runpy.run_path(str(EXAMPLE))["main"]
    main(["--steps", "8", "--rollout", "4", "--pool", "1", "--runs", "1", "--epochs", "1"])
    static, ppo = capsys.readouterr().out.splitlines()
    form = r"{} +average accuracy (\d+\.\d\d) %, old shares (0\.\d, 0\.\d, 0\.\d)"
    assert re.fullmatch(form.format("static"), static)
    told = re.fullmatch(form.format("ppo"), ppo)
    assert told is not None
    assert 10 < float(told[1]) <= 100
    shares = [round(10 * float(share)) for share in told[2].split(", ")]
    assert all(abs(after - before) <= 1 for before, after in pairwise(shares))
