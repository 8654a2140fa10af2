"""`remem run --set data.image_size=auto`: the choice is shown, stored, and never made again."""

import json
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Command
from factories import pictures, write_npz
from remem.rl import image_size
from remem.rl.image_size import SizeTrial

QUICK = ("--set", "train.epochs=1", "--set", "finetune.epochs=0", "--set", "net.width=4", "--set", "net.blocks=[1, 1]")


@pytest.fixture
def command(tmp_path: Path) -> tuple[str, ...]:
    write_npz(tmp_path / "x.npz", pictures(side=16))
    out = ("--out", str(tmp_path / "run"))
    return ("run", "--dataset", f"npz:{tmp_path / 'x.npz'}", "--phases", "2", *QUICK, *out)


def test_the_choice_is_shown_stored_and_kept(
    remem: Command, command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trials = {16: (0.5, 0.25), 11: (0.75, 0.5), 8: (0.25, 0.5)}
    monkeypatch.setattr(image_size, "try_side", lambda config, side: SizeTrial(side, 40, trials[side]))
    said = remem(*command, "--set", "data.image_size=auto")
    assert said.code == 0
    assert said.out.splitlines()[:6] == [
        "image size  samples  task 0 %  task 1 %  average %",
        "----------  -------  --------  --------  ---------",
        "        16       40     50.00     25.00      37.50",
        "        11       40     75.00     50.00      62.50",
        "         8       40     25.00     50.00      37.50",
        "image size 11: the best on pseudo tasks of phase 0, without test data",
    ]
    stored = json.loads((tmp_path / "run" / "config.json").read_text())
    assert stored["settings"]["data"]["image_size"] == 11
    assert json.loads((tmp_path / "run" / "result.json").read_text())["config"]["data"]["image_size"] == 11

    def never(config: Any, side: int) -> SizeTrial:
        raise AssertionError("chosen again")

    monkeypatch.setattr(image_size, "try_side", never)
    again = remem(*command, "--set", "data.image_size=auto")
    assert (again.code, again.err.count("\n")) == (2, 1)
    assert "holds this run already; go on with `remem resume" in again.err
    assert remem("resume", tmp_path / "run").code == 0


@pytest.mark.parametrize("name", ["plan", "learn-policy"])
def test_other_commands_want_a_number(name: str, remem: Command, command: tuple[str, ...]) -> None:
    arguments = command[1:-2] if name == "plan" else command[1:]
    said = remem(name, *arguments, "--set", "data.image_size=auto")
    assert (said.code, said.err) == (
        2,
        "error: data.image_size: auto given, which only `remem run` can choose; expected a number\n",
    )


def test_other_words_are_refused(remem: Command, command: tuple[str, ...]) -> None:
    said = remem(*command, "--set", "data.image_size=large")
    assert (said.code, said.err.count("\n")) == (2, 1)
    assert said.err.startswith("error: data.image_size: 'large' given;")
