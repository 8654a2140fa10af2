"""Reported runs: every file is complete and within its budget, and the documentation prints what the files say."""

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from remem.policies.files import load_policy
from remem.report.tables import hundredths
from remem.runs.config import compose
from remem.runs.presets import read_toml
from remem.runs.renamed import current_names
from remem.runs.results import load_result
from remem.studies.grid import plan_study, read_study_file

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "results").glob("*/*.json"))
FOLDERS = sorted({path.parent.name for path in FILES})
STUDIES = sorted((ROOT / "results" / "studies").iterdir())
LEARNED = sorted((ROOT / "results" / "studies").glob("*/policies/*/*/policy.json"))
FIDELITY = sorted((ROOT / "results").glob("fidelity-*.json"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_reported_run_is_complete_and_within_its_budget(path: Path) -> None:
    result = load_result(path)
    assert result.complete
    assert len(result.phases) == result.config["scenario"]["phases"] + 1
    for phase in result.phases:
        assert sum(phase.held_per_class.values()) == phase.held_old + phase.held_new
        assert phase.budget is None or phase.held_old + phase.held_new <= phase.budget
    assert result.oracle == (result.method_name == "joint")


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_reported_run_has_a_config_that_gives_its_settings(path: Path) -> None:
    """What a config says, and the seed in the file's name, is what the run had."""
    name, _, seed = path.stem.rpartition("-")
    tree = read_toml(Path(path.parent.name) / name)
    ran = current_names(load_result(path).config)  # settings that have been renamed since the run
    assert ran["seed"] == int(seed)
    expected = compose(tree).public()
    for section in ("policy", "preset", "method", "finetune"):
        assert ran[section] == expected[section]
    for section in ("data", "scenario", "memory", "train"):
        given = current_names(tree).get(section, {})
        assert {key: ran[section][key] for key in given} == given
    assert ran["train"]["epochs"] == expected["train"]["epochs"]
    assert ran["data"]["image_size"] == expected["data"]["image_size"]


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_documentation_prints_what_the_files_say(folder: str) -> None:
    assert script("tables").table(folder) in page("results")


@pytest.mark.parametrize("folder", STUDIES, ids=lambda path: path.name)
def test_a_reported_study_is_complete_and_as_planned(folder: Path) -> None:
    planned = plan_study(read_study_file(Path(folder.name)))
    assert {path.stem for path in (folder / "runs").iterdir()} == {run.name for run in planned.runs}
    for run in planned.runs:
        result = load_result(folder / "runs" / f"{run.name}.json")
        assert result.complete
        for phase in result.phases[1:]:
            assert phase.budget is not None
            assert sum(phase.held_per_class.values()) == phase.held_old + phase.held_new <= phase.budget
        ran = current_names(result.config)
        assert resolved_like(run.config.public() | {"policy": run.policy}, ran) == ran
        assert not result.oracle
        assert not result.policy_saw_classes


@pytest.mark.parametrize("folder", STUDIES, ids=lambda path: path.name)
def test_the_documentation_prints_a_study_as_its_files_say(folder: Path) -> None:
    assert script("tables").study(folder.name) in page("results")


@pytest.mark.parametrize("path", LEARNED, ids=lambda path: "/".join(path.parts[-5:-1]))
def test_a_policy_that_a_study_learned_is_there_and_is_the_one_that_was_used(path: Path) -> None:
    policy = load_policy(path.parent)
    study, seed = path.parents[3], path.parents[1].name
    result = load_result(study / "runs" / f"{path.parent.name}_{seed}.json")
    assert result.policy == policy.provenance()


def test_the_documentation_prints_how_steps_move_the_best_share() -> None:
    assert script("tables").steps() in page("policy-learning")


@pytest.mark.parametrize("path", FIDELITY, ids=lambda path: path.stem)
def test_the_documentation_prints_how_well_cheap_rewards_order_paths(path: Path) -> None:
    found = json.loads(path.read_text(encoding="utf-8"))
    assert len(found["paths"]) >= 30
    assert all(len(rewards) == len(found["paths"]) for rewards in found["rewards"].values())
    assert script("fidelity").summary(found) in page("policy-learning")


def resolved_like(tree: Any, ran: Any) -> Any:
    """Settings in which everything left open (None or auto) is as in the run."""
    if isinstance(tree, dict):
        return {key: resolved_like(value, ran[key]) for key, value in tree.items()}
    return ran if tree in (None, "auto") else tree


def script(name: str) -> Any:
    """A module beside the results."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "results" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def page(name: str) -> str:
    return (ROOT / "docs" / "reports" / f"{name}.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", sorted((ROOT / "results" / "cifar100-methods").glob("*.json")), ids=lambda p: p.stem)
def test_a_methods_page_has_its_numbers(path: Path) -> None:
    name, result = path.stem.rpartition("-")[0], load_result(path)
    page = "aanets" if name.endswith("aanets") else result.method_name
    text = (ROOT / "docs" / "reference" / "methods" / f"{page}.md").read_text(encoding="utf-8")
    average, last = hundredths(result.average_accuracy), hundredths(result.last_accuracy)
    assert f"`{name}`: average accuracy {average} %, last {last} %" in text
