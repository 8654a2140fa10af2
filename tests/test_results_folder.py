"""Reported runs: every file is there, complete and as its config says, and the documentation prints its numbers."""

import json
import os
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from remem.data.datasets import load_dataset
from remem.data.scenario import build_scenario
from remem.methods.table import METHODS
from remem.policies.files import load_policy
from remem.report.groups import flat
from remem.report.tables import hundredths
from remem.rl.config import LearnConfig, read_stored_learn_settings
from remem.runs.config import validate
from remem.runs.presets import shipped_configs
from remem.runs.results import RunResult, load_result
from remem.studies.grid import plan_study
from report_factories import make_run
from scripts import load_script

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"


def script(name: str) -> Any:
    """A module beside the results."""
    return load_script(f"results/{name}.py")


TABLES, REMAKE = script("tables"), script("remake")
FILES = REMAKE.catalogue()
RUNS = [name for name, file in FILES.items() if not isinstance(file.config, LearnConfig)]
POLICIES = [name for name, file in FILES.items() if isinstance(file.config, LearnConfig)]
STUDIES = [name.removeprefix("studies/") for name in shipped_configs() if name.startswith("studies/")]
# an example of a study, without a table, and studies for GPUs
UNREPORTED = ("digits-policies", "paper-table-1", "paper-table-2")
UNFINISHED = (  # still running
    "aanets-without-finetuning",
    "cifar100-shares",
    *(name for name in STUDIES if name.startswith("codecs-")),
    "figure-4",
    "from-scratch",
    "from-scratch-small",
    "methods-without-finetuning",
    "resnet32",
    "shares",
    "table-1",
    "table-1-imagenet",
    "table-2",
    "uneven",
    "without-finetuning",
)
TUNING_TINY = ("tuning-recipe", "tuning-shipped")  # at preset `tiny`, which is fp32
FIDELITY = sorted(RESULTS.glob("fidelity-*.json"))
SHARES = {
    kind: sorted(RESULTS.glob(f"shares-{kind}*.json"), key=lambda path: path.stem) for kind in ("cifar100", "tiny")
}
SEARCHES = sorted(RESULTS.glob("search-*.json"))
COMPARED = plan_study(REMAKE.shipped("studies/cifar100-methods")).settings.methods or ()
NEEDS_DATA = (
    pytest.mark.realdata,
    pytest.mark.skipif("REMEM_DATA" not in os.environ, reason="REMEM_DATA is not set"),
)


@cache
def result(name: str) -> RunResult:
    return load_result(RESULTS / f"{name}.json")


def kind_of(name: str) -> str:
    """`studies`, `unfinished`, `tuning`, `demo` or `two-devices`."""
    return name.partition("/")[0]


def table_of(name: str) -> str:
    """The table that shows a run: tuning studies share tables, and so do the studies on CIFAR-100."""
    study = name.split("/")[1]
    if kind_of(name) == "unfinished":
        return study
    if kind_of(name) == "tuning":
        return study if study in TUNING_TINY else "tuning"
    return (study if study.startswith("glyphs") else "cifar100") if kind_of(name) == "studies" else kind_of(name)


def page(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def files_below(folder: str) -> set[str]:
    return {path.relative_to(RESULTS).as_posix().removesuffix(".json") for path in (RESULTS / folder).rglob("*.json")}


def test_there_are_no_other_folders_of_results() -> None:
    folders = {path.name for path in RESULTS.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders == {"studies", "tuning", "two-devices", "demo", "unfinished"}


@pytest.mark.parametrize("study", [study for study in STUDIES if study not in (*UNREPORTED, *UNFINISHED)])
def test_every_run_and_every_policy_of_a_study_is_reported_and_nothing_else(study: str) -> None:
    folder = f"tuning/{study}" if study.startswith("tuning-") else f"studies/{study}"
    planned = plan_study(REMAKE.shipped(f"studies/{study}"))
    runs = {f"{folder}/runs/{run.name}" for run in planned.runs}
    policies = {f"{folder}/policies/{learning}/policy" for learning in planned.learnings}
    assert files_below(folder) == runs | policies


def test_no_other_study_is_reported() -> None:
    reported = {path.name for path in (*RESULTS.glob("studies/*"), *RESULTS.glob("tuning/*"))}
    assert reported == {*STUDIES} - {*UNREPORTED, *UNFINISHED}


@pytest.mark.parametrize("study", UNFINISHED)
def test_the_runs_of_an_unfinished_study_are_complete_and_planned(study: str) -> None:
    planned = {run.name: run.config for run in plan_study(REMAKE.shipped(f"studies/{study}")).runs}
    for path in (RESULTS / "unfinished" / study / "runs").glob("*.json"):
        run, config = load_result(path), planned[path.stem]
        assert run.complete
        assert validate(run.config).scenario == config.scenario
        assert (run.config["seed"], run.method_name) == (config.seed, config.method.name)


def test_runs_of_the_evidence_that_begin_alike_have_the_same_phase_0() -> None:
    """Differences are paired by class order. Two kinds of processors round differently, and then pairs share less."""
    found: dict[str, dict[float, list[str]]] = {}
    for name in RUNS:
        if kind_of(name) == "unfinished":
            config = result(name).config
            scenario = {key: value for key, value in config["scenario"].items() if key != "phases"}
            parts = [config[key] for key in ("data", "net", "train", "method", "seed")]
            start = json.dumps([*parts, scenario, config["memory"].get("codec")], sort_keys=True)
            found.setdefault(start, {}).setdefault(result(name).phases[0].accuracy, []).append(name)
    assert [list(accuracies.values()) for accuracies in found.values() if len(accuracies) > 1] == []


def test_both_numbers_of_devices_are_reported_with_the_same_seeds() -> None:
    assert files_below("two-devices") == {f"two-devices/{name}-{seed}" for name in ("one", "two") for seed in (0,)}


def test_all_runs_of_the_demo_are_reported() -> None:
    assert files_below("demo") == {"demo/static", "demo/fixed-0.6", "demo/rmm-glyphs"}


@pytest.mark.parametrize("name", RUNS)
def test_a_reported_run_is_complete_and_within_its_budget(name: str) -> None:
    run = result(name)
    assert run.complete
    assert len(run.phases) == run.config["scenario"]["phases"] + 1
    policy = set(name.split("/")[-1].split("_")) & {"rmm-upper-bound", "crossval-fixed"}  # learned on the target itself
    assert run.oracle == (run.method_name == "joint" or bool(policy))
    # a policy that ships, and was learned on these data with another class order
    assert run.policy_saw_classes == bool(policy) or run.policy_name == "rmm-cifar100"
    for phase in run.phases:
        held = phase.held_old + phase.held_new
        assert sum(phase.held_per_class.values()) == held
        assert phase.phase == 0 or run.oracle or (phase.budget is not None and held <= phase.budget)


@pytest.mark.parametrize("name", RUNS)
def test_a_reported_run_has_the_settings_of_its_config(name: str) -> None:
    ran = validate(result(name).config).public()  # a setting that did not exist then has its default
    if codec := FILES[name].config.policy.partition("@")[2]:
        assert ran["memory"].pop("codec") == codec
    assert resolved_like(FILES[name].config.public(), ran) == ran


def resolved_like(tree: Any, ran: Any) -> Any:
    """Settings in which everything left open (None or auto) is as in the run."""
    if isinstance(tree, dict):
        return {key: resolved_like(value, ran[key]) for key, value in tree.items()}
    return ran if tree in (None, "auto") else tree


@pytest.mark.parametrize("name", RUNS)
def test_only_tuning_is_evaluated_on_validation_data(name: str) -> None:
    assert (result(name).config["scenario"]["validation"] > 0) == (kind_of(name) == "tuning")


def test_tuning_uses_seeds_and_class_orders_that_no_other_run_uses() -> None:
    tuning = [result(name).config for name in RUNS if kind_of(name) == "tuning"]
    others = [result(name).config for name in RUNS if kind_of(name) != "tuning"]
    others += [FILES[name].config.target.public() for name in POLICIES]
    assert {config["seed"] for config in tuning}.isdisjoint(config["seed"] for config in others)
    orders = {config["scenario"]["order"] for config in tuning}
    assert orders.isdisjoint(config["scenario"]["order"] for config in others)


@pytest.mark.parametrize("name", RUNS)
def test_a_reported_run_names_the_papers_budget_unless_its_config_sets_another(name: str) -> None:
    memory, run = FILES[name].config.memory, result(name)
    if run.method_name == "joint":
        assert run.memory == ""  # it keeps everything
    elif memory.budget is None and memory.exemplars is None:
        assert run.memory.startswith(f"M = {run.config['memory']['budget']} samples, the paper's budget (")
        assert "; " not in run.memory
    elif str(memory.budget).endswith("B"):
        assert run.memory.startswith(f"B = {str(memory.budget).removesuffix('B')} bytes, ")
        assert "; the paper's M is " in run.memory
    else:
        assert f"M = {memory.budget} samples, not the paper's " in run.memory


def fingerprint_cases() -> list[Any]:
    """Every run; those on other data than the embedded glyphs need the data."""
    glyphs = {name for name in RUNS if FILES[name].config.data.name == "glyphs"}
    return [pytest.param(name, marks=() if name in glyphs else NEEDS_DATA) for name in RUNS]


@pytest.mark.parametrize("name", fingerprint_cases())
def test_a_reported_run_was_made_with_todays_data(name: str) -> None:
    config, run = validate(result(name).config), result(name)
    assert run.data_fingerprint == fingerprint(config.data.model_dump_json(), config.scenario.model_dump_json())


@cache
def fingerprint(data: str, scenario: str) -> str:
    config = validate({"data": json.loads(data), "scenario": json.loads(scenario)})
    return build_scenario(load_dataset(config.data), config.scenario, config.data).fingerprint


@pytest.mark.parametrize("table", sorted({table_of(name) for name in RUNS}))
def test_all_runs_of_a_table_have_one_precision(table: str) -> None:
    precisions = {result(name).config["train"]["precision"] for name in RUNS if table_of(name) == table}
    assert precisions in ({"bf16"}, {"fp32"})


@pytest.mark.parametrize("title", TABLES.TABLES)
def test_the_documentation_prints_what_the_files_say(title: str) -> None:
    name = "tuning" if title.startswith("tuning: ") else "results"
    assert TABLES.TABLES[title]() in page(f"docs/reports/{name}.md")


def test_the_readme_prints_what_the_demo_prints() -> None:
    assert TABLES.demo() in page("README.md")


@pytest.mark.parametrize("question", TABLES.QUESTIONS, ids=lambda question: question.title)
def test_candidates_of_a_question_differ_only_in_what_it_asks_for(question: Any) -> None:
    """By seed: the same classes in the same order, and the same value of every setting that both runs have."""
    reference, *others = map(TABLES.runs_of, question.candidates)
    for other in others:
        assert other.keys() & reference.keys()
        for seed in other.keys() & reference.keys():
            one, two = reference[seed], other[seed]
            assert one.data_fingerprint == two.data_fingerprint
            assert one.class_order == two.class_order
            left, right = dict(flat(one.config)), dict(flat(two.config))
            differ = {key for key in left.keys() & right.keys() if left[key] != right[key]}
            assert differ <= {*question.keys, "method.name"}


def candidate_run(average: float, method: str, weights: tuple[float, ...], **settings: float) -> RunResult:
    """A run of a candidate that never happened; it has branch weights after its last phase only."""
    run = make_run(method, "static", [average, average], method=settings)
    last = run.phases[-1].model_copy(update={"measures": {"branch_weights": weights}})
    return run.model_copy(update={"config": {**run.config, "preset": "small"}, "phases": (run.phases[0], last)})


def test_a_tuning_table_pairs_the_seeds_that_all_candidates_have(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two seeds: t is 12.7062, so that the half widths are 6.3531 times the difference of both values."""
    name, default = "lucir-aanets", METHODS["lucir-aanets"].settings().model_dump()["mixture_lr"]
    runs = {
        "low": {7: candidate_run(0.50, name, (0.1, 0.2), mixture_lr=default), 8: candidate_run(0.54, name, (0.2, 0.4))},
        "high": {
            6: candidate_run(0.99, name, (0.9, 0.9), mixture_lr=default + 1),
            7: candidate_run(0.53, name, (0.5, 0.7), mixture_lr=default + 1),
            8: candidate_run(0.55, name, (0.5, 0.8), mixture_lr=default + 1),
        },
    }
    monkeypatch.setattr(TABLES, "runs_of", lambda candidate: runs[candidate.label])
    candidates = tuple(TABLES.Candidate(label, "a study") for label in runs)
    table = TABLES.tuning(TABLES.Question("Which rate", name, ("method.mixture_lr",), candidates))
    assert table.splitlines() == [
        "| candidate | seeds | validation average % | average - first row | final branch weights | default |",
        "| :-- | --: | --: | --: | --: | --: |",
        "| low | 2 | 52.00 ± 25.41 | - | 0.15, 0.30 | yes |",
        "| high | 2 | 54.00 ± 12.71 | +2.00 ± 12.71 | 0.50, 0.75 | no |",
    ]


def test_a_candidate_may_stand_for_settings_of_another_method() -> None:
    """`lucir` is `mnemonics` without refinement, which is the default only if its number of steps is 0."""
    steps = METHODS["mnemonics"].settings().model_dump()["refine_steps"]
    run = candidate_run(0.5, "lucir", ())
    for given, expected in ((steps, True), (steps + 1, False)):
        candidate = TABLES.Candidate("lucir", "a study", {}, {"method.refine_steps": given})
        question = TABLES.Question("How far", "mnemonics", ("method.refine_steps",), (candidate,))
        assert TABLES.is_default(question, candidate, run) == expected


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_that_a_study_learned_is_there_and_is_the_one_that_was_used(name: str) -> None:
    policy = load_policy((RESULTS / name).parent)
    assert result(FILES[name].run).policy == policy.provenance()


@pytest.mark.parametrize("name", POLICIES)
def test_a_reported_policy_was_learned_with_the_settings_of_its_study(name: str) -> None:
    learned, config = load_policy((RESULTS / name).parent).facts["settings"], FILES[name].config
    # Settings that did not exist when a policy was learned have their defaults.
    assert read_stored_learn_settings(learned["learn"]) == config.learn
    assert validate(learned["target"]).public() == config.target.public()


@pytest.mark.parametrize("path", FIDELITY, ids=lambda path: path.stem)
def test_the_documentation_prints_how_well_cheap_rewards_order_paths(path: Path) -> None:
    found = json.loads(path.read_text(encoding="utf-8"))
    assert len(found["paths"]) >= 30
    assert all(len(rewards) == len(found["paths"]) for rewards in found["rewards"].values())
    assert script("fidelity").summary(found) in page("docs/reports/policy-learning.md")


@pytest.mark.parametrize("kind", SHARES)
def test_the_documentation_prints_which_shares_rewards_prefer(kind: str) -> None:
    files = [json.loads(path.read_text(encoding="utf-8")) for path in SHARES[kind]]
    assert all(len(rewards) == len(files[0]["paths"]) for found in files for rewards in found["rewards"].values())
    assert {json.dumps(found["paths"]) for found in files} == {json.dumps(files[0]["paths"])}
    assert script("fidelity").shares(*files) in page("docs/reports/policy-learning.md")


@pytest.mark.parametrize("path", SEARCHES, ids=lambda path: path.stem)
def test_the_documentation_prints_how_searches_compare(path: Path) -> None:
    found = json.loads(path.read_text(encoding="utf-8"))
    assert script("search").summary(found) in page("docs/reports/policy-learning.md")


def test_the_documentation_prints_what_codecs_of_vectors_give() -> None:
    found = json.loads((RESULTS / "vectors.json").read_text(encoding="utf-8"))
    assert script("vectors").summary(found) in page("docs/reports/results.md")


@pytest.mark.parametrize("name", [*COMPARED, TABLES.NO_REPLAY])
def test_a_methods_page_has_its_numbers(name: str) -> None:
    runs = TABLES.by_method()[name]
    method = "aanets" if name.endswith("aanets") else runs[0].method_name
    average = hundredths(fmean(run.average_accuracy for run in runs))
    last = hundredths(fmean(run.last_accuracy for run in runs))
    assert f"`{name}`: average accuracy {average} %, last {last} %" in page(f"docs/reference/methods/{method}.md")
