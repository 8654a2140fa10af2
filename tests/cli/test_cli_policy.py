"""`remem policy show`, and policies as `--policy` takes them."""

import json
from pathlib import Path

import pytest

from cli.conftest import TINY, Command
from remem.policies.files import save_policy
from remem.policies.fixed import Fixed

FACTS = {"name": "mine", "oracle": False, "source": None, "method": {}, "settings": {}, "seed": 0, "rewards": []}


def test_show_prints_provenance_and_paths(remem: Command) -> None:
    said = remem("policy", "show", "rmm-untrained")
    assert (said.code, said.err) == (0, "")
    assert said.out.splitlines()[0].split() == ["policy", "rmm-untrained"]
    assert "Level 1 in phase 1" in said.out
    assert "N = 25  M = 3000  old share     6 6" in said.out


def test_show_as_json(remem: Command) -> None:
    tree = json.loads(remem("policy", "show", "random", "--json").out)
    assert tree["provenance"]["name"] == "random"
    assert tree["level1_first"]["probabilities"][0] == pytest.approx([1 / 9] * 9)
    assert tree["level2_later"]["probabilities"][0][0] is None  # 0.1 cannot become 0.0
    assert tree["level2_later"]["probabilities"][0][1] == pytest.approx([1 / 9] * 9)
    assert [(path["phases"], path["budget"], len(path["steps"])) for path in tree["paths"]] == [
        (5, 7000, 5),
        (10, 4500, 10),
        (25, 3000, 25),
    ]
    fixed = json.loads(remem("policy", "show", "fixed-0.6", "--json").out)
    assert [step["old_total"] for step in fixed["paths"][0]["steps"]] == [4200] * 5


def test_show_draws(remem: Command, tmp_path: Path) -> None:
    save_policy(tmp_path / "mine", Fixed(4), FACTS)
    out = tmp_path / "pictures" / "mine.PNG"
    said = remem("policy", "show", tmp_path / "mine", "--out", out)
    assert (said.code, said.err) == (0, "")
    assert said.out.splitlines()[-1] == f"picture: {out}"
    assert out.read_bytes().startswith(b"\x89PNG")
    said = remem("policy", "show", tmp_path / "mine", "--json", "--out", tmp_path / "x.svg")
    assert json.loads(said.out)["provenance"]["old_tenths"] == 4
    assert said.err == f"picture: {tmp_path / 'x.svg'}\n"


def test_mistakes_are_one_line(remem: Command, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    mistakes = {
        ("rrm",): "policy: no folder 'rrm', and no policy named 'rrm'; did you mean 'rmm'?",
        (tmp_path / "absent",): f"{tmp_path / 'absent'}: no such folder; expected the folder of a policy",
        (tmp_path,): f"{tmp_path}: no policy.json in it; expected the folder of a policy",
        ("rmm", "--out", "rmm.pdf"): "--out: rmm.pdf given, expected a name that ends in .png, .svg, .html",
        ("static", "--out", tmp_path / "file" / "x.png"): f"--out: {tmp_path / 'file' / 'x.png'} cannot be written",
    }
    for arguments, message in mistakes.items():
        said = remem("policy", "show", *arguments)
        assert (said.code, said.err.count("\n")) == (2, 1)
        assert said.err.startswith(f"error: {message}")


def test_a_run_takes_a_policy_folder(remem: Command, vectors: str, tmp_path: Path) -> None:
    save_policy(tmp_path / "mine", Fixed(4), FACTS)
    out = tmp_path / "run"
    said = remem("run", "--dataset", vectors, *TINY, "--policy", tmp_path / "mine", "--out", out)
    assert (said.code, said.err) == (0, "")
    result = json.loads((out / "result.json").read_text())
    assert (result["config"]["policy"], result["policy"]["name"]) == ("mine", "mine")
    refused = remem("run", "--dataset", vectors, *TINY, "--set", "sample_actions=true", "--out", tmp_path / "other")
    assert refused.code == 2
    assert "sample_actions: true given, but policy 'static' has no probabilities" in refused.err
