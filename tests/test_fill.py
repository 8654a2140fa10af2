"""results/fill.py: makes what is missing, stores it, and copies what another study has with the same settings."""

import json
from pathlib import Path

import pytest

from factories import timeless
from remem.studies.grid import plan_study, read_study_file
from scripts import TINY, load_script

STUDY = f"""{TINY}
[memory]
budget = 60
exemplars = 30
[study]
policies = ["static", "crossval-fixed-pseudo"]
seeds = [0, 1]
[learn]
pool = 1
"""


FILL = load_script("results/fill.py")


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "one.toml"
    path.write_text(STUDY)
    return path


def fill(study: Path, tmp_path: Path, *options: str) -> int:
    code: int = FILL.main(
        [str(study), "--out", str(tmp_path / "out"), "--results", str(tmp_path / "results"), *options]
    )
    return code


def test_missing_runs_are_made_once_and_stored(study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert fill(study, tmp_path, "--only", "crossval-fixed-pseudo+seed-0", "static+seed-1") == 0
    name = "crossval-fixed-pseudo"
    assert capsys.readouterr().out.splitlines() == [
        "2 of 4 runs to make",
        "static_seed-1",
        f"learned seed-0/{name}",
        f"{name}_seed-0",
    ]
    store = tmp_path / "results" / "unfinished" / "one"
    assert sorted(path.stem for path in (store / "runs").iterdir()) == [f"{name}_seed-0", "static_seed-1"]
    assert (store / "policies" / "seed-0" / name / "policy.json").exists()
    assert fill(study, tmp_path, "--only", "static+seed-1") == 0
    assert capsys.readouterr().out == "0 of 4 runs to make\n"


def test_what_another_study_has_is_copied(study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert fill(study, tmp_path, "--only", "seed-0") == 0
    other = tmp_path / "two.toml"
    other.write_text(STUDY.replace("seeds = [0, 1]", "seeds = [0]"))
    capsys.readouterr()
    assert fill(other, tmp_path) == 0
    assert capsys.readouterr().out == "0 of 2 runs to make\n"
    stored = tmp_path / "results" / "unfinished"
    for policy in ("static", "crossval-fixed-pseudo"):
        one, two = (
            json.loads((stored / path).read_text())
            for path in (f"one/runs/{policy}_seed-0.json", f"two/runs/{policy}.json")
        )
        assert timeless(one) == timeless(two)
    policies = [stored / path / "crossval-fixed-pseudo" for path in ("one/policies/seed-0", "two/policies")]
    assert read_policy(policies[0]) == read_policy(policies[1])


def test_a_policy_that_a_stored_run_lacks_is_copied(study: Path, tmp_path: Path) -> None:
    assert fill(study, tmp_path, "--only", "seed-0") == 0
    stored = tmp_path / "results" / "unfinished" / "one" / "policies" / "seed-0" / "crossval-fixed-pseudo"
    before, elsewhere = read_policy(stored), stored.parents[3] / "two" / "policies" / "a"
    elsewhere.parent.mkdir(parents=True)
    stored.rename(elsewhere)
    assert fill(study, tmp_path, "--only", "seed-0") == 0
    assert read_policy(stored) == before


def read_policy(folder: Path) -> dict[str, bytes]:
    found = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert "policy.json" in found
    return found


def test_other_settings_of_a_policy_are_another_run(study: Path, tmp_path: Path) -> None:
    assert fill(study, tmp_path, "--only", "crossval-fixed-pseudo+seed-0") == 0
    study.write_text(STUDY.replace("pool = 1", "pool = 2"))
    planned = plan_study(read_study_file(study))
    results = tmp_path / "results"
    left = list(FILL.missing(planned, planned.runs, results, results / "unfinished" / "one"))
    assert [run.name for run in left] == [run.name for run in planned.runs]


def test_an_unknown_study_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert fill(tmp_path / "nothing.toml", tmp_path) == 2
    assert capsys.readouterr().err.startswith("error: ")
