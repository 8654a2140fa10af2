"""Reported runs: every file is complete and within its budget, and the documentation prints what the files say."""

import importlib.util
from pathlib import Path

import pytest

from remem.report.tables import hundredths
from remem.runs.config import compose, read_toml
from remem.runs.results import load_result

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "results").glob("*/*.json"))
FOLDERS = sorted({path.parent.name for path in FILES})


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_reported_run_is_complete_and_within_its_budget(path: Path) -> None:
    result = load_result(path)
    assert result.complete
    assert len(result.phases) == result.data["config"]["scenario"]["phases"] + 1
    for phase in result.phases:
        assert sum(phase.held_per_class.values()) == phase.held_old + phase.held_new
        assert phase.budget is None or phase.held_old + phase.held_new <= phase.budget
    assert result.data["oracle"] == (result.data["config"]["method"]["name"] == "joint")


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_reported_run_has_a_config_that_gives_its_settings(path: Path) -> None:
    """What a config says, and the seed in the file's name, is what the run had."""
    name, _, seed = path.stem.rpartition("-")
    tree = read_toml(Path(path.parent.name) / name)
    ran = load_result(path).data["config"]
    assert ran["seed"] == int(seed)
    expected = compose(tree).public()
    for section in ("policy", "preset", "method", "finetune"):
        assert ran[section] == expected[section]
    for section in ("data", "scenario", "memory", "train"):
        given = tree.get(section, {})
        assert {key: ran[section][key] for key in given} == given
    assert ran["train"]["epochs"] == expected["train"]["epochs"]
    assert ran["data"]["image_size"] == expected["data"]["image_size"]


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_documentation_prints_what_the_files_say(folder: str) -> None:
    spec = importlib.util.spec_from_file_location("reported_tables", ROOT / "results" / "tables.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.table(folder) in (ROOT / "docs" / "results.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", sorted((ROOT / "results" / "cifar100-methods").glob("*.json")), ids=lambda p: p.stem)
def test_a_methods_page_has_its_numbers(path: Path) -> None:
    name, result = path.stem.rpartition("-")[0], load_result(path)
    page = "aanets" if name.endswith("aanets") else result.data["config"]["method"]["name"]
    text = (ROOT / "docs" / "methods" / f"{page}.md").read_text(encoding="utf-8")
    average, last = hundredths(result.average_accuracy), hundredths(result.last_accuracy)
    assert f"`{name}`: average accuracy {average} %, last {last} %" in text
