"""A study in its folder: equal to runs one after another, phase 0 trained once, resumable, checked before it starts."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from remem.errors import InputError
from remem.runs.build import prepare
from remem.parallel.pool import WorkerPool, open_pool
from remem.runs.run import run_in_folder
from remem.rl.learn import learn_in_folder
from remem.runs.results import load_result
from remem.events import ignore
from remem.studies.grid import Study, plan_study
from remem.studies.run import check_runs, make_jobs, read_study, study_in_folder
from factories import blobs, timeless, write_npz

TINY: dict[str, Any] = {
    "data": {"name": "digits"},
    "scenario": {"phases": 2},
    "memory": {"budget": 60, "exemplars": 30},
    "net": {"name": "small", "width": 4, "blocks": [1, 1]},
    "train": {"epochs": 1, "batch_size": 64},
    "finetune": {"epochs": 1},
    "study": {"policies": ["static", "fixed-0.6", "crossval-fixed-pseudo"], "seeds": [0, 1]},
    "learn": {"fidelity": "features", "pool": 1},
}


@dataclass(frozen=True)
class Done:
    """A study that was carried out, and what it said on the way."""

    study: Study
    out: Path
    events: list[dict[str, Any]]


@pytest.fixture(scope="module")
def crew() -> Iterator[WorkerPool]:
    with open_pool(2, None) as workers:
        yield workers


@pytest.fixture(scope="module")
def done(crew: WorkerPool, tmp_path_factory: pytest.TempPathFactory) -> Done:
    out, events = tmp_path_factory.mktemp("study") / "out", list[dict[str, Any]]()
    study = plan_study(TINY)
    study_in_folder(study, out, crew, events.append)
    return Done(study, out, events)


def nobody() -> WorkerPool:
    """A crew that is never asked: it would have to start somebody."""
    return open_pool(1, None)


def test_every_run_equals_the_same_run_alone(done: Done, tmp_path: Path) -> None:
    for run in done.study.runs:
        policy = run.policy if run.learning is None else str(done.out / "policies" / run.learning)
        prepared = prepare(run.config.model_copy(update={"policy": policy}))
        run_in_folder(prepared, tmp_path / run.name)
        alone, here = tmp_path / run.name, done.out / "runs" / run.name
        assert timeless(load_result(here).data) == timeless(load_result(alone).data)
        for name in ("model.safetensors", "predictions.npz"):
            assert (here / name).read_bytes() == (alone / name).read_bytes()


def test_a_learned_policy_equals_one_that_was_learned_alone(done: Done, tmp_path: Path) -> None:
    assert list(done.study.learnings) == ["seed-0/crossval-fixed-pseudo", "seed-1/crossval-fixed-pseudo"]
    for name, learning in done.study.learnings.items():
        learn_in_folder(learning, tmp_path / name, ignore)
        here, alone = ((folder / name / "policy.json").read_text() for folder in (done.out / "policies", tmp_path))
        assert here == alone


def test_phase_0_is_trained_once_for_all_that_begin_alike(done: Done) -> None:
    trained = [
        (event["name"], event["what"]["phase"])
        for event in done.events
        if event["event"] == "job" and event["what"]["event"] == "evaluated"
    ]
    runs = [(run.name, phase) for run in done.study.runs for phase in (1, 2)]
    assert sorted(trained) == sorted([("phase 0 of static_seed-0", 0), ("phase 0 of static_seed-1", 0), *runs])
    assert not (done.out / "phase0").exists()


def test_events_tell_what_will_happen_and_what_has(done: Done) -> None:
    begin, *_ = done.events
    assert (begin["event"], begin["runs"], begin["done"]) == ("begin", 6, 0)
    assert begin["learnings"] == list(done.study.learnings)
    assert [len(outline["phases"]) for outline in begin["jobs"].values()] == [1, 3, 3, 3] * 2
    assert {outline["done"] for name, outline in begin["jobs"].items() if "phase 0" not in name} == {1}
    ended = {event["name"]: event for event in done.events if event["event"] == "ended"}
    result = load_result(done.out / "runs" / "fixed-0.6_seed-1")
    assert ended["fixed-0.6_seed-1"]["average_accuracy"] == result.average_accuracy
    assert ended["fixed-0.6_seed-1"]["last_accuracy"] == result.last_accuracy
    assert [event["name"] for event in done.events if event["event"] == "learned"] == list(done.study.learnings)


def test_a_complete_study_is_only_read(done: Done) -> None:
    stamps = {path: path.stat().st_mtime_ns for path in done.out.rglob("result.json")}
    events = list[dict[str, Any]]()
    results = study_in_folder(read_study(done.out), done.out, nobody(), events.append)
    assert [(event["event"], event["done"], event["jobs"]) for event in events] == [("begin", 6, {})]
    assert list(results) == [run.name for run in done.study.runs]
    assert {path: path.stat().st_mtime_ns for path in stamps} == stamps
    assert len(stamps) == 6


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"study": {"seeds": [0, 1, 2]}}, "study.seeds is [0, 1, 2], but this run began with [0, 1]"),
        ({"learn": {"pool": 2}}, "learn.pool is 2, but this run began with 1"),
        ({"train": {"epochs": 2}}, "runs.crossval-fixed-pseudo_seed-0.train.epochs is 2, but this run began with 1"),
    ],
)
def test_changed_settings_are_refused(changes: dict[str, Any], message: str, done: Done) -> None:
    with pytest.raises(InputError) as caught:
        study_in_folder(plan_study(TINY, changes), done.out, nobody(), ignore)
    assert message in str(caught.value)


def test_settings_that_mean_the_same_are_accepted(done: Done) -> None:
    same = plan_study(TINY, {"scenario": {"order": "seed:0"}, "study": {"methods": ["icarl"]}})
    with pytest.raises(InputError, match=r"study\.methods"):  # another grid in words is another study
        study_in_folder(same, done.out, nobody(), ignore)
    written_out = plan_study(TINY, {"scenario": {"order": "seed:0"}})
    assert study_in_folder(written_out, done.out, nobody(), ignore)


def test_what_is_left_is_done_and_nothing_else(done: Done, crew: WorkerPool, tmp_path: Path) -> None:
    """As after a stop: one run complete, one in the middle, one that has not begun."""
    study = plan_study(TINY, {"study": {"policies": ["static", "fixed-0.6", "fixed-0.3"], "seeds": [0]}})
    study_in_folder(study, tmp_path, crew, ignore)
    wanted = {name: timeless(result.data) for name, result in results_of(study, tmp_path).items()}
    runs = tmp_path / "runs"
    for path in (runs / "fixed-0.3").iterdir():
        path.unlink()
    middle = json.loads((runs / "fixed-0.6" / "result.json").read_text())
    (runs / "fixed-0.6" / "result.json").write_text(json.dumps({**middle, "status": "running"}))
    events = list[dict[str, Any]]()
    study_in_folder(study, tmp_path, crew, events.append)
    assert (events[0]["done"], list(events[0]["jobs"])) == (1, ["fixed-0.6", "fixed-0.3"])
    assert {name: timeless(result.data) for name, result in results_of(study, tmp_path).items()} == wanted


def results_of(study: Study, out: Path) -> Mapping[str, Any]:
    return {run.name: load_result(out / "runs" / run.name) for run in study.runs}


def test_a_phase_0_on_the_shelf_is_used_by_a_single_run_too(tmp_path: Path) -> None:
    study = plan_study(TINY, {"study": {"policies": ["static"], "seeds": [0]}})
    (job,) = make_jobs(study.runs, check_runs(study.runs, tmp_path), tmp_path)
    assert (job.kind, job.after, "phase0" in job.order) == ("run", (), False)
    key = check_runs(study.runs, tmp_path)["run"].phase0
    (tmp_path / "phase0").mkdir()
    (tmp_path / "phase0" / f"phase0-{key}.safetensors").touch()
    (job,) = make_jobs(study.runs, check_runs(study.runs, tmp_path), tmp_path)
    assert (job.kind, job.after, job.order["phase0"]) == ("run", (), str(tmp_path / "phase0"))


def test_methods_do_not_share_phase_0_and_numbers_of_phases_do(tmp_path: Path) -> None:
    axes = {"policies": ["static"], "methods": ["icarl", "lucir"], "phases": [1, 2], "seeds": [0]}
    study = plan_study(TINY, {"study": axes})
    jobs = make_jobs(study.runs, check_runs(study.runs, tmp_path), tmp_path)
    assert [(job.name, job.after) for job in jobs] == [
        ("phase 0 of icarl_phases-1", ()),
        ("icarl_phases-1", ("phase 0 of icarl_phases-1",)),
        ("icarl_phases-2", ("phase 0 of icarl_phases-1",)),
        ("phase 0 of lucir_phases-1", ()),
        ("lucir_phases-1", ("phase 0 of lucir_phases-1",)),
        ("lucir_phases-2", ("phase 0 of lucir_phases-1",)),
    ]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"study": {"policies": ["static", "fixd-0.6"]}}, "fixd-0.6_seed-0: policy: no folder 'fixd-0.6'"),
        (
            {"study": {"vary": {"memory.budget": [60, 5]}}},
            "static_budget-5_seed-0: budget: 5 samples are less than one",
        ),
        ({"study": {"phases": [2, 9]}}, "static_phases-9_seed-0: phases: 9 given"),
        ({"train": {"devices": 2}}, "static_seed-0: train.devices: 2 given; runs of a study have one each, expected 1"),
        (
            {"study": {"policies": ["rmm-learned"]}, "method": {"name": "joint"}},
            "seed-0/rmm-learned: method: joint given",
        ),
        ({"study": {"vary": {"data.name": ["digits", "npz:no.npz"]}}}, "no.npz"),
    ],
)
def test_a_mistake_in_any_run_leaves_nothing_behind(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        study_in_folder(plan_study(TINY, changes), tmp_path / "out", nobody(), ignore)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["result.json", "learning.json", "runs"])
def test_folders_of_something_else_are_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / name).touch()
    with pytest.raises(InputError, match=f"holds a {name} of something else"):
        study_in_folder(plan_study(TINY), tmp_path, nobody(), ignore)
    with pytest.raises(InputError, match="is a file; expected a folder"):
        study_in_folder(plan_study(TINY), tmp_path / name, nobody(), ignore)


def test_other_data_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "vectors.npz"
    write_npz(path, blobs())
    vectors = {"data": {"name": f"npz:{path}"}, "net": {"name": "mlp", "hidden": [8]}, "scenario": {"phases": 2}}
    study = plan_study({**TINY, **vectors}, {"study": {"policies": ["static"], "seeds": [0]}})
    with pytest.raises(RuntimeError, match="stop here"):
        study_in_folder(study, tmp_path / "out", nobody(), stop_here)
    write_npz(path, blobs(seed=1))
    with pytest.raises(InputError, match="the data have changed since this study began"):
        study_in_folder(study, tmp_path / "out", nobody(), ignore)


def stop_here(event: dict[str, Any]) -> None:
    raise RuntimeError("stop here")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}", "study.json: not the settings of a study"),
        ('{"format": 2}', "study.json: format 2, expected 1"),
        ('{"format": 1, "settings": 3, "data_fingerprints": {}}', "study.json: not the settings of a study"),
        ('{"format": 1, "settings": {"sed": 1}, "data_fingerprints": {}}', "study.json: sed: no such setting"),
    ],
)
def test_a_damaged_file_is_said_to_be_one(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "study.json").write_text(text)
    with pytest.raises(InputError) as caught:
        read_study(tmp_path)
    assert message in str(caught.value)
