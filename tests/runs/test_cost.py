"""cost.py and trials.py: ranges, busy machines and shared trials, worked out by hand."""

from dataclasses import replace
from typing import Any

import pytest

from factories import blobs, ready
from remem.runs.config import compose
from remem.runs.cost import Machine, Range, machine_now, others_of, parallel
from remem.runs.estimate import Trial
from remem.runs.prepared import Prepared
from remem.runs.timing import Spread
from remem.runs.trials import Trials, steps_key

TRIAL = Trial({"main": 0.01}, {"main": 0.02}, 0.001, 1, 1, 1, 1, 8)


def test_ranges_add_and_scale() -> None:
    one = Range(1.0, 4.0)
    assert one + Range(2.0, 3.0) == Range(3.0, 7.0)
    assert one * 2 == Range(2.0, 8.0)
    assert one * Range(0.5, 2.0) == Range(0.5, 8.0)
    assert one.shares_of(Range(2.0, 5.0)) == Range(0.5, 0.8)
    assert one.shares_of(Range(0.5, 4.0)) == Range(1.0, 2.0)


def test_crowding_is_the_demand_for_cores() -> None:
    machine = Machine(cores=4, others=3.0)
    assert [machine.crowding(needed) for needed in (1, 2, 4, 16)] == [1.0, 1.25, 1.75, 1.75]
    assert [machine.is_crowded(needed) for needed in (1, 2)] == [False, True]
    assert not Machine(4, 0.4).is_crowded(4)  # too little to speak of


def test_others_are_the_load_without_this_program() -> None:
    assert others_of(2.5, own_seconds=30.0) == 2.0
    assert others_of(0.1, own_seconds=30.0) == 0.0


def test_the_load_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.getloadavg", lambda: (2.5, 9.0, 9.0))
    monkeypatch.setattr("time.process_time", lambda: 30.0)
    monkeypatch.setattr("remem.runs.cost.usable_cores", lambda: 3)
    assert machine_now() == Machine(3, 2.0)
    monkeypatch.delattr("os.getloadavg")  # Windows
    assert machine_now() == Machine(3, 0.0)


def test_more_workers_than_cores_or_jobs_gain_nothing() -> None:
    assert parallel(workers=3, jobs=9, threads=1, cores=8) == 3
    assert parallel(workers=3, jobs=2, threads=1, cores=8) == 2
    assert parallel(workers=8, jobs=9, threads=1, cores=2) == 2
    assert parallel(workers=8, jobs=9, threads=4, cores=8) == 2
    assert parallel(workers=8, jobs=9, threads=4, cores=2) == 1


def test_a_range_goes_from_a_quiet_machine_to_the_present_load() -> None:
    """The larger of both signs of load counts, not their product."""
    trial = replace(TRIAL, spread=Spread(0.5, 2.0), stretch=3.0)
    assert trial.range(10.0, Machine(2, 0.0), needed=1) == Range(5.0, 60.0)
    assert trial.range(10.0, Machine(2, 6.0), needed=2) == Range(5.0, 80.0)


def config(**settings: Any) -> Any:
    tree: dict[str, Any] = {"data": {"name": "digits"}}
    return compose(tree, settings)


def test_runs_whose_steps_are_alike_share_a_trial() -> None:
    tried: list[Prepared] = []
    prepared = ready(blobs())

    def try_one(one: Prepared) -> Trial:
        tried.append(one)
        return replace(TRIAL, stretch=float(len(tried)))

    trials = Trials(try_one, most=2)
    assert trials.stretch == 1.0
    first = trials.find(config(), lambda: prepared)
    for alike in (config(seed=3), config(policy="fixed-0.6"), config(memory={"budget": 50}), config(train={"lr": 0.7})):
        assert trials.find(alike, lambda: pytest.fail("already known")) is first
    assert trials.find(config(train={"epochs": 3}), lambda: pytest.fail("already known")) is first
    second = trials.find(config(method={"name": "lucir"}), lambda: prepared)
    assert second is not None
    assert (len(tried), second.stretch, trials.stretch) == (2, 2.0, 2.0)
    assert trials.find(config(train={"batch_size": 7}), lambda: prepared) is None  # one too many
    assert trials.find(config(), lambda: prepared) is first


def test_settings_that_change_a_step_change_the_key() -> None:
    changed = (
        {"method": {"name": "lucir"}},
        {"net": {"width": 4}},
        {"data": {"image_size": 4}},
        {"train": {"batch_size": 7}},
        {"train": {"threads": 2}},
        {"augment": {"flip": True}},
        {"finetune": {"epochs": 0}},  # no balanced stage
    )
    keys = {steps_key(config(**settings)) for settings in ({}, *changed)}
    assert len(keys) == 1 + len(changed)
    assert steps_key(config(finetune={"epochs": 3})) == steps_key(config())
