"""cost.py: what a study costs is worked out by hand from trials that are given."""

from dataclasses import replace
from typing import Any

import pytest

from factories import VECTORS, blobs, write_npz
from remem.rl.config import LearnConfig
from remem.rl.cost import STARTING, LearningSizes, learning_cost
from remem.runs.build import prepare
from remem.runs.cost import Machine, Range
from remem.runs.estimate import Trial, estimate_left
from remem.runs.events import PhaseSize, RunStarted
from remem.runs.prepared import Prepared
from remem.runs.timing import Spread
from remem.runs.trials import Trials
from remem.studies.cost import job_ranges, side_by_side, study_cost, trained_samples
from remem.studies.events import StudyStarted
from remem.studies.grid import Study, plan_study

TRIAL = Trial({"main": 0.01}, {"main": 0.02, "balanced": 0.03}, 0.0, 1, 1, 1, 1, 8, Spread(0.5, 2.0))
RUN = RunStarted(
    0, (PhaseSize(100, None), PhaseSize(50, 50)), epochs=4, epochs_later=2, balanced_epochs=1, teacher=True
)
QUIET = Machine(4, 0.0)


def test_samples_that_are_left() -> None:
    assert [trained_samples(replace(RUN, done=done)) for done in (0, 1, 2)] == [400 + 150, 150, 0]


def test_jobs_by_hand() -> None:
    """Phase 0: 100 x 4 x 0.01 s. Phase 1: 50 x 2 x 0.02 s, and half of the 50, balanced, x 0.03 s."""
    jobs = {"a": RUN, "b": replace(RUN, done=1)}
    trials: dict[str, Trial | None] = dict.fromkeys(jobs, TRIAL)
    found = job_ranges(jobs, trials, QUIET, needed=1)
    assert {name: (cost.low, cost.high) for name, cost in found.items()} == {
        "a": pytest.approx((3.375, 13.5)),
        "b": pytest.approx((1.375, 5.5)),
    }
    busy = job_ranges(jobs, trials, Machine(4, 6.0), needed=2)  # 8 cores are wanted, twice as many as there are
    assert busy["b"].high == pytest.approx(11.0)


def test_jobs_without_a_trial_are_scaled() -> None:
    """550 samples take 3.375 to 13.5 s, so 150 take 3 / 11 of that."""
    found = job_ranges({"a": RUN, "b": replace(RUN, done=1)}, {"a": TRIAL, "b": None}, QUIET, needed=1)
    assert (found["b"].low, found["b"].high) == pytest.approx((3.375 * 3 / 11, 13.5 * 3 / 11))


def test_side_by_side() -> None:
    jobs = [Range(1.0, 2.0), Range(4.0, 10.0), Range(1.0, 3.0)]
    assert side_by_side(jobs, 1) == Range(6.0, 15.0)
    assert side_by_side(jobs, 2) == Range(4.0, 7.5 + 5.0)  # not faster than the longest
    assert side_by_side([Range(1.0, 2.0)] * 4, 2) == Range(2.0, 5.0)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("data") / "blobs.npz"
    write_npz(path, blobs(classes=8))
    return {**VECTORS, "data": {"name": f"npz:{path}"}, "scenario": {"phases": 2, "base_classes": 4}}


def begun(study: Study, *learnings: str, shared: bool = True) -> StudyStarted:
    """A study of which nothing is done; all runs share one phase 0 unless `shared` is false."""
    jobs: dict[str, RunStarted] = {}
    for run in study.runs:
        whole = RunStarted.of(prepare(run.config))
        if shared:
            jobs.setdefault(f"phase 0 of {study.runs[0].name}", replace(whole, phases=whole.phases[:1]))
            whole = replace(whole, done=1)
        jobs[run.name] = whole
    return StudyStarted(len(study.runs), 0, learnings, jobs)


def test_a_study_by_hand(data: dict[str, Any]) -> None:
    """A phase 0 and two runs that continue from it, on two of four cores."""
    study = plan_study(data, {"study": {"policies": ["static", "fixed-0.6"]}})
    started, tried = begun(study), list[Prepared]()

    def try_one(prepared: Prepared) -> Trial:
        tried.append(prepared)
        return TRIAL

    cost = study_cost(study, started, Trials(try_one), QUIET, workers=2)
    assert cost is not None
    seconds = [estimate_left(run, TRIAL) for run in started.jobs.values()]
    expected = STARTING + side_by_side([Range(0.5 * each, 2.0 * each) for each in seconds], 2)
    assert (cost.study.low, cost.study.high) == pytest.approx((expected.low, expected.high))
    whole = seconds[0] + seconds[1]
    assert (cost.run.low, cost.run.high) == pytest.approx((0.5 * whole, 2.0 * whole))
    assert (len(tried), cost.not_tried) == (1, 0)


def test_policies_that_differ_in_their_seed_are_tried_out_once(
    data: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    learn = {"epochs": 2, "tasks": 1, "runs": 2, "pool": 1, "fidelity": "full"}
    axes = {"policies": ["rmm-learned"], "seeds": [0, 1, 2], "order_by_seed": True}
    study = plan_study(data, {"study": axes, "learn": learn})
    sized: list[LearnConfig] = []

    def size(config: LearnConfig) -> LearningSizes:
        sized.append(config)
        return LearningSizes(config)

    monkeypatch.setattr("remem.studies.cost.LearningSizes", size)
    assert len(study.learnings) == 3
    started = begun(study, *study.learnings, shared=False)
    cost = study_cost(study, started, Trials(lambda prepared: TRIAL), QUIET, workers=1)
    assert cost is not None
    assert len(sized) == 1
    runs = [estimate_left(run, TRIAL) for run in started.jobs.values()]
    sizes = LearningSizes(next(iter(study.learnings.values())))
    one = learning_cost(sizes, Trials(lambda prepared: TRIAL), QUIET, done=0, workers=1)
    assert one is not None
    expected = STARTING + Range(0.5 * sum(runs), 2.0 * sum(runs)) + one.learning * 3
    assert (cost.study.low, cost.study.high) == pytest.approx((expected.low, expected.high))
    few = study_cost(study, started, Trials(lambda prepared: TRIAL, most=1), QUIET, workers=1)
    assert few is not None
    assert few.not_tried == 3


def test_settings_beyond_the_limit_are_counted(data: dict[str, Any]) -> None:
    study = plan_study(data, {"study": {"methods": ["icarl", "lucir", "finetune"]}})
    cost = study_cost(study, begun(study, shared=False), Trials(lambda p: TRIAL, most=2), QUIET, workers=1)
    assert cost is not None
    assert cost.not_tried == 1


def test_a_study_without_runs_left_costs_nothing(data: dict[str, Any]) -> None:
    study = plan_study(data)
    assert study_cost(study, StudyStarted(1, 1, (), {}), Trials(lambda p: TRIAL), QUIET, workers=1) is None
