"""run.py: a study equals its runs alone, phase 0 is trained once, everything is checked first, and it resumes."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from shutil import copytree, rmtree
from typing import Any

import pytest

from factories import blobs, timeless, write_npz
from remem.errors import DamagedFileError, InputError
from remem.events import Event, ignore
from remem.parallel.backend import Messages, Worker
from remem.parallel.pool import WorkerPool, open_pool
from remem.rl.events import LearningStarted
from remem.rl.learn import learn_in_folder
from remem.runs.build import prepare
from remem.runs.events import PhaseEvaluated, RunStarted
from remem.runs.jobs import RUN
from remem.runs.results import RunResult, load_result
from remem.runs.run import run_in_folder
from remem.storage.jsonfile import write_json
from remem.studies.events import JobEnded, JobProgress, LearningProgress, PolicyLearned, StudyStarted
from remem.studies.grid import Study, plan_study
from remem.studies.run import check_runs, make_jobs, read_study, study_in_folder

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
class Finished:
    """A study that is complete, and its events. Tests only read it."""

    study: Study
    out: Path
    events: list[Event]


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    with open_pool(2, None) as workers:
        yield workers


@pytest.fixture(scope="module")
def finished(pool: WorkerPool, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    out, events = tmp_path_factory.mktemp("study") / "out", list[Event]()
    study = plan_study(TINY)
    study_in_folder(study, out, pool, events.append)
    return Finished(study, out, events)


class NoBackend:
    """Fails if a worker is needed."""

    about = "no workers"

    def open(self, threads: int) -> int:
        raise AssertionError("a job was submitted")

    def start(self, messages: Messages, threads: int) -> Worker:
        raise AssertionError("a worker was started")

    def close(self) -> None:
        """Nothing was opened."""


def no_workers() -> WorkerPool:
    """A pool for studies that must not run anything."""
    return WorkerPool(NoBackend())


def test_every_run_equals_the_same_run_alone(finished: Finished, tmp_path: Path) -> None:
    for run in finished.study.runs:
        policy = run.policy if run.learning is None else str(finished.out / "policies" / run.learning)
        prepared = prepare(run.config.model_copy(update={"policy": policy}))
        run_in_folder(prepared, tmp_path / run.name)
        alone, here = tmp_path / run.name, finished.out / "runs" / run.name
        assert timeless(load_result(here).to_json()) == timeless(load_result(alone).to_json())
        for name in ("model.safetensors", "predictions.npz"):
            assert (here / name).read_bytes() == (alone / name).read_bytes()


def test_a_learned_policy_equals_one_that_was_learned_alone(finished: Finished, tmp_path: Path) -> None:
    assert list(finished.study.learnings) == ["seed-0/crossval-fixed-pseudo", "seed-1/crossval-fixed-pseudo"]
    for name, learning in finished.study.learnings.items():
        learn_in_folder(learning, tmp_path / name, ignore)
        here, alone = ((folder / name / "policy.json").read_text() for folder in (finished.out / "policies", tmp_path))
        assert here == alone


def test_phase_0_is_trained_once_for_all_runs_that_share_it(finished: Finished) -> None:
    trained = [
        (event.name, event.progress.phase)
        for event in finished.events
        if isinstance(event, JobProgress) and isinstance(event.progress, PhaseEvaluated)
    ]
    runs = [(run.name, phase) for run in finished.study.runs for phase in (1, 2)]
    assert sorted(trained) == sorted([("phase 0 of static_seed-0", 0), ("phase 0 of static_seed-1", 0), *runs])
    assert not (finished.out / "phase0").exists()


def test_events_report_what_will_happen_and_what_has_happened(finished: Finished) -> None:
    started, *others = finished.events
    names = list(finished.study.learnings)
    assert isinstance(started, StudyStarted)
    assert (started.runs, started.done, started.learnings) == (6, 0, tuple(names))
    assert [len(job.phases) for job in started.jobs.values()] == [1, 3, 3, 3] * 2
    assert {job.done for name, job in started.jobs.items() if "phase 0" not in name} == {1}
    ended = {event.name: event for event in others if isinstance(event, JobEnded)}
    assert ended.keys() == started.jobs.keys()
    result = load_result(finished.out / "runs" / "fixed-0.6_seed-1")
    assert ended["fixed-0.6_seed-1"].average_accuracy == result.average_accuracy
    assert ended["fixed-0.6_seed-1"].last_accuracy == result.last_accuracy
    assert ended["phase 0 of static_seed-0"] == JobEnded("phase 0 of static_seed-0")
    assert [event.name for event in others if isinstance(event, PolicyLearned)] == names
    learning = [event for event in others if isinstance(event, LearningProgress)]
    assert [event.name for event in learning if isinstance(event.progress, LearningStarted)] == names


def test_runs_that_share_a_phase_0_report_it_as_done(finished: Finished) -> None:
    begun = {
        event.name: event.progress
        for event in finished.events
        if isinstance(event, JobProgress) and isinstance(event.progress, RunStarted)
    }
    started = finished.events[0]
    assert isinstance(started, StudyStarted)
    assert begun == started.jobs


def test_a_complete_study_is_only_read(finished: Finished) -> None:
    stamps = {path: path.stat().st_mtime_ns for path in finished.out.rglob("result.json")}
    events = list[Event]()
    results = study_in_folder(read_study(finished.out), finished.out, no_workers(), events.append)
    assert events == [StudyStarted(runs=6, done=6, learnings=(), jobs={})]
    assert list(results) == [run.name for run in finished.study.runs]
    assert {path: path.stat().st_mtime_ns for path in stamps} == stamps
    assert len(stamps) == 6


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"study": {"seeds": [0, 1, 2]}}, "study.seeds is [0, 1, 2], but this study began with [0, 1]"),
        ({"learn": {"pool": 2}}, "learn.pool is 2, but this study began with 1"),
        ({"train": {"epochs": 2}}, "runs.crossval-fixed-pseudo_seed-0.train.epochs is 2, but this study began with 1"),
    ],
)
def test_changed_settings_are_refused(changes: dict[str, Any], message: str, finished: Finished) -> None:
    with pytest.raises(InputError) as caught:
        study_in_folder(plan_study(TINY, changes), finished.out, no_workers(), ignore)
    assert message in str(caught.value)


def test_settings_that_mean_the_same_are_accepted(finished: Finished) -> None:
    same = plan_study(TINY, {"scenario": {"order": "seed:0"}, "study": {"methods": ["icarl"]}})
    with pytest.raises(InputError, match=r"study\.methods"):  # another grid in words is another study
        study_in_folder(same, finished.out, no_workers(), ignore)
    written_out = plan_study(TINY, {"scenario": {"order": "seed:0"}})
    assert study_in_folder(written_out, finished.out, no_workers(), ignore)


def test_a_resumed_study_runs_only_what_is_left(pool: WorkerPool, tmp_path: Path) -> None:
    """As after a stop: one run complete, one in the middle, one that has not begun."""
    study = plan_study(TINY, {"study": {"policies": ["static", "fixed-0.6", "fixed-0.3"], "seeds": [0]}})
    study_in_folder(study, tmp_path, pool, ignore)
    wanted = {name: timeless(result.to_json()) for name, result in results_of(study, tmp_path).items()}
    runs = tmp_path / "runs"
    for path in (runs / "fixed-0.3").iterdir():
        path.unlink()
    middle = json.loads((runs / "fixed-0.6" / "result.json").read_text())
    write_json(runs / "fixed-0.6" / "result.json", {**middle, "status": "running"})
    events = list[Event]()
    study_in_folder(study, tmp_path, pool, events.append)
    assert isinstance(events[0], StudyStarted)
    assert (events[0].done, list(events[0].jobs)) == (1, ["fixed-0.6", "fixed-0.3"])
    assert {name: timeless(result.to_json()) for name, result in results_of(study, tmp_path).items()} == wanted


def results_of(study: Study, out: Path) -> dict[str, RunResult]:
    return {run.name: load_result(out / "runs" / run.name) for run in study.runs}


def test_a_cached_phase_0_is_used_by_a_single_run_too(tmp_path: Path) -> None:
    study = plan_study(TINY, {"study": {"policies": ["static"], "seeds": [0]}})
    (job,) = make_jobs(study.runs, check_runs(study.runs, tmp_path), tmp_path)
    assert (job.kind, job.after, "phase0" in job.payload) == (RUN, (), False)
    key = check_runs(study.runs, tmp_path)["run"].phase0
    (tmp_path / "phase0").mkdir()
    (tmp_path / "phase0" / f"phase0-{key}.safetensors").touch()
    (job,) = make_jobs(study.runs, check_runs(study.runs, tmp_path), tmp_path)
    assert (job.kind, job.after, job.payload["phase0"]) == (RUN, (), str(tmp_path / "phase0"))


def test_phase_0_is_shared_between_numbers_of_phases_and_not_between_methods(tmp_path: Path) -> None:
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
        study_in_folder(plan_study(TINY, changes), tmp_path / "out", no_workers(), ignore)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["result.json", "learning.json", "runs"])
def test_folders_of_something_else_are_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / name).touch()
    with pytest.raises(InputError, match=f"holds a {name} of something else"):
        study_in_folder(plan_study(TINY), tmp_path, no_workers(), ignore)
    with pytest.raises(InputError, match="is a file; expected a folder"):
        study_in_folder(plan_study(TINY), tmp_path / name, no_workers(), ignore)


def test_changed_data_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "vectors.npz"
    write_npz(path, blobs())
    vectors = {"data": {"name": f"npz:{path}"}, "net": {"name": "mlp", "hidden": [8]}, "scenario": {"phases": 2}}
    study = plan_study({**TINY, **vectors}, {"study": {"policies": ["static"], "seeds": [0]}})
    with pytest.raises(RuntimeError, match="stop here"):
        study_in_folder(study, tmp_path / "out", no_workers(), stop_here)
    write_npz(path, blobs(seed=1))
    with pytest.raises(InputError, match="the data have changed since this study began"):
        study_in_folder(study, tmp_path / "out", no_workers(), ignore)


def stop_here(event: Event) -> None:
    raise RuntimeError("stop here")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}", "study.json: not the settings of a study"),
        ('{"format": 2}', "study.json: not the settings of a study ('settings')"),
        ('{"format": 3}', "study.json: format 3, expected 2"),
        ('{"format": 2, "settings": {"sed": 1}, "fingerprints": {}}', "study.json: sed: no such setting"),
        ('{"format": 1, "settings": 3, "data_fingerprints": {}}', "study.json: not the settings of a study"),
        ('{"format": 1, "settings": {"sed": 1}, "data_fingerprints": {}}', "study.json: sed: no such setting"),
    ],
)
def test_a_damaged_settings_file_is_reported(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "study.json").write_text(text)
    with pytest.raises(DamagedFileError) as caught:
        read_study(tmp_path)
    assert message in str(caught.value)


def test_a_study_may_move_while_it_is_half_done(finished: Finished, pool: WorkerPool, tmp_path: Path) -> None:
    """Its learned policies move with it. One of its runs has stopped after its last phase, one has not begun."""
    copytree(finished.out, there := tmp_path / "moved" / "there")
    stopped, absent = (there / "runs" / f"crossval-fixed-pseudo_seed-{seed}" for seed in (0, 1))
    (stopped / "result.json").unlink()
    rmtree(absent)
    study_in_folder(read_study(there), there, pool, ignore)
    for run in finished.study.runs:
        here, before = (load_result(folder / "runs" / run.name).to_json() for folder in (there, finished.out))
        assert timeless(here) == timeless(before)


def test_exchanged_results_are_noticed(pool: WorkerPool, tmp_path: Path) -> None:
    """Of two runs the results alone, or the folders as a whole."""
    study, runs = plan_study(TINY, {"study": {"policies": ["static"], "seeds": [0, 1]}}), tmp_path / "runs"
    study_in_folder(study, tmp_path, pool, ignore)
    one, other, aside = runs / "seed-0", runs / "seed-1", tmp_path / "aside"

    def exchange(name: str) -> None:
        (one / name).rename(aside)
        (other / name).rename(one / name)
        aside.rename(other / name)

    exchange("result.json")
    with pytest.raises(
        DamagedFileError, match=r"seed-0/result.json: the result of another run \(seed is 1, expected 0\)"
    ):
        study_in_folder(study, tmp_path, pool, ignore)
    exchange("config.json")
    with pytest.raises(DamagedFileError, match=r"config.json: the settings of another run \(seed is 1, expected 0\)"):
        study_in_folder(study, tmp_path, pool, ignore)
