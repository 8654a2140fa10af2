"""dry_run.py and estimate.py: a plan equals a real run; times and bytes are worked out by hand."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
import torch

from factories import NO_REPLAY, blobs, opened, pictures, play, ready
from remem.action import Action, State
from remem.data.arrays import from_arrays
from remem.methods.table import METHODS
from remem.runs.dry_run import Plan, plan, plan_entry
from remem.runs.estimate import PROGRAM_BYTES, Trial, estimate_bytes, estimate_left, estimate_seconds, try_out
from remem.runs.events import RunStarted
from remem.runs.prepared import Prepared
from remem.runs.timing import LEAST_SPREAD, Clock


@dataclass(frozen=True)
class Uneven:
    """A two-level policy: the old share varies, and the harder half gets more."""

    shares: tuple[int, ...] = (6, 6)
    level2_tenths: int = 8
    name: str = "uneven"
    oracle: bool = False

    def act(self, state: State) -> Action:
        return Action(old_tenths=self.shares[state.phase - 1], level2_tenths=self.level2_tenths)

    def provenance(self) -> dict[str, object]:
        return {"name": self.name}


def uneven(prepared: Prepared, *shares: int) -> Prepared:
    return replace(prepared, policy=Uneven(shares))


def test_quotas_by_hand() -> None:
    """Two classes of 20 samples in each of three phases, M = 40, an old share of 0.6, 0.8 of it to the harder half."""
    first, second, third = plan(uneven(ready(blobs()), 6, 6)).phases
    assert (first.budget, first.decision, first.held_old, first.new) == (None, None, 0, (20, 20))
    # 24 old samples: 19.2 and 4.8; 16 new ones.
    [old] = second.old
    assert (old.phase, old.harder, old.easier) == (0, (19,), (5,))
    assert (second.new, second.held_old, second.held_new, second.budget) == ((8, 8), 24, 16, 40)
    # 12 for each earlier phase: 9.6 and 2.4; phase 1 has no more than 8 of a class.
    assert [(old.phase, old.harder, old.easier) for old in third.old] == [(0, (10,), (2,)), (1, (8,), (4,))]
    assert (third.classes_seen, third.arriving, third.held_old, third.new) == (6, 40, 24, (8, 8))


def test_harder_half_has_one_class_more_if_the_number_is_odd() -> None:
    prepared = ready(blobs(), {"scenario": {"base_classes": 3}})
    assert [[len(old.harder), len(old.easier)] for old in plan(prepared).phases[2].old] == [[2, 1], [1, 1]]
    alone = ready(blobs(), {"scenario": {"phases": 4}})
    assert plan(alone).phases[2].old[1].easier == ()


SETTINGS: dict[str, list[dict[str, Any]]] = {
    "static": [],
    "fixed": [{"policy": "fixed-0.3"}],
    "learned": [{"policy": "rmm"}],
    "random": [{"policy": "random", "scenario": {"base_classes": 3}}],
    "growing": [{"policy": "fixed-0.7", "memory": {"budget": "growing:5", "exemplars": None}}],
    "tight": [{"policy": "fixed-0.1", "memory": {"budget": 7, "exemplars": 3}}],
    "generous": [{"policy": "fixed-0.2", "memory": {"budget": 500, "exemplars": 20}}],
    "one class a phase": [{"policy": "fixed-0.5", "scenario": {"phases": 4}}],
    "from scratch": [{"policy": "fixed-0.5", "scenario": {"base_classes": 0, "phases": 3}}],
    "all": [{"method": {"name": "joint"}}],
    "none": [{"method": {"name": "finetune", "replay": False}, "memory": {"budget": 33, "exemplars": 20}}],
}


def compare(prepared: Prepared) -> None:
    """Totals, decisions and quotas equal those of a real run, except for which classes turn out to be harder."""
    results = play(opened(prepared), prepared)
    planned = plan(prepared).phases
    assert len(planned) == len(results)
    phases = prepared.scenario.phases
    for real, mine in zip(results, planned, strict=True):
        assert (mine.held_old, mine.held_new) == (real.held_old, real.held_new)
        assert (mine.budget, mine.decision, mine.classes_seen) == (real.budget, real.decision, real.classes_seen)
        assert list(mine.new) == [real.held_per_class[label] for label in phases[mine.phase].classes]
        for old in mine.old:
            counts = [real.held_per_class[label] for label in phases[old.phase].classes]
            assert sorted(old.harder + old.easier) == sorted(counts)


@pytest.mark.parametrize("name", SETTINGS)
def test_plan_equals_a_real_run(name: str) -> None:
    short = {"train": {"epochs": 1}, "finetune": {"epochs": 0}}
    compare(ready(blobs(), short, *SETTINGS[name]))


def test_plan_of_a_two_level_policy_equals_a_real_run() -> None:
    compare(uneven(ready(blobs(), {"train": {"epochs": 1}, "scenario": {"base_classes": 3}}), 4, 5))


def test_totals_equal_a_real_run_if_classes_differ_in_size() -> None:
    """The harder classes change single quotas, but neither the totals nor the quotas of new classes."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(6), [4, 25, 9, 14, 30, 6])
    values = rng.standard_normal((len(labels), 6)) + 3 * labels[:, None]
    prepared = uneven(ready(from_arrays(values, labels, values[::2], labels[::2]), {"train": {"epochs": 1}}), 7, 6)
    for real, mine in zip(play(opened(prepared), prepared), plan(prepared).phases, strict=True):
        assert (mine.held_old, mine.held_new) == (real.held_old, real.held_new)


def test_phase_as_json() -> None:
    prepared = uneven(ready(blobs(), {"scenario": {"base_classes": 3}, "memory": {"budget": 41}}), 6, 7)
    entries = [plan_entry(phase) for phase in plan(prepared).phases]
    assert entries[0] == {
        "phase": 0,
        "classes_seen": 3,
        "arriving": 60,
        "budget": None,
        "action": None,
        "held_old": 0,
        "held_new": 60,
        "per_new_class": {"least": 20, "most": 20},
        "per_old_class": [],
    }
    # 25 of 41: 16 / 18 of it for two harder classes (22.2), 2 / 18 for one easier (2.8); 16 for two new ones.
    assert entries[1]["action"] == {"old_share": 0.6, "level1": 0.6, "level2": 0.8, "clamped": False}
    assert (entries[1]["held_old"], entries[1]["per_new_class"]) == (25, {"least": 8, "most": 8})
    [old] = entries[1]["per_old_class"]
    assert old == {"phase": 0, "harder": {"least": 11, "most": 11}, "easier": {"least": 3, "most": 3}}
    single = plan_entry(plan(ready(blobs(), {"scenario": {"phases": 4}})).phases[2])
    assert single["per_old_class"][1]["easier"] is None


TRIAL = Trial(
    first={"main": 0.01},
    later={"main": 0.02, "mixture": 0.5, "balanced": 0.03},
    describe=0.001,
    model_bytes=100,
    teacher_bytes=90,
    training_bytes=80,
    batch_bytes=70,
    width=8,
)


def test_seconds_by_hand() -> None:
    prepared = uneven(ready(blobs(), {"train": {"epochs": 10}, "finetune": {"epochs": 4}}), 6, 6)
    seconds = estimate_seconds(prepared, plan(prepared), TRIAL)
    # Phase 0: 40 samples, 10 epochs; forward passes of 16 test samples and 40 held ones.
    assert seconds[0] == pytest.approx(0.01 * 10 * 40 + 0.001 * (16 + 40))
    # Phase 1: 24 + 16 are held; balanced, 24 old ones (12 per class) and all 8 of both new classes. Forward passes: 32
    # test samples, 40 held, and 16 new ones ranked for fine-tuning. Those of phase 0 were described when it ended.
    training = 0.02 * 10 * 40 + 0.5 * 10 * 40 + 0.03 * 4 * 40
    assert seconds[1] == pytest.approx(training + 0.001 * (32 + 40 + 16))
    # Phase 2: 24 of four classes, 6 per class, and 6 of the 8 of both new ones.
    training = 0.02 * 10 * 40 + 0.5 * 10 * 36 + 0.03 * 4 * 36
    assert seconds[2] == pytest.approx(training + 0.001 * (48 + 40 + 16))


def test_what_is_too_large_to_be_kept_is_described_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """40 samples of phase 0 have 8 features and 2 logits, 20 of phase 1 have 8 and 4."""
    prepared = ready(blobs())
    kept = estimate_seconds(prepared, plan(prepared), TRIAL)
    for limit, again in ((4 * 400, (0, 0)), (4 * 400 - 1, (40, 0)), (4 * 240 - 1, (40, 20))):
        monkeypatch.setattr("remem.methods.describe.KEPT_BYTES", limit)
        seconds = estimate_seconds(prepared, plan(prepared), TRIAL)
        assert [b - a for a, b in zip(kept, seconds, strict=True)] == pytest.approx([0, *(0.001 * n for n in again)])


def test_forward_passes_without_exemplars_or_fine_tuning() -> None:
    """Without exemplars there are no class means from phase 1 on; without fine-tuning, new classes are not ranked."""
    nothing = replace(TRIAL, first={"main": 0.0}, later={"main": 0.0, "balanced": 0.0})
    alone = ready(blobs(), NO_REPLAY)
    assert estimate_seconds(alone, plan(alone), nothing) == pytest.approx([0.056, 0.032, 0.048])
    plain = ready(blobs(), {"finetune": {"epochs": 0}})
    assert estimate_seconds(plain, plan(plain), nothing) == pytest.approx([0.056, 0.072, 0.088])


def test_restarting_method_trains_every_phase_like_the_first() -> None:
    prepared = ready(blobs(), {"method": {"name": "joint"}, "train": {"epochs": 10}})
    seconds = estimate_seconds(prepared, plan(prepared), TRIAL)
    expected = [0.01 * 10 * held + 0.001 * (evaluated + held) for held, evaluated in ((40, 16), (80, 32), (120, 48))]
    assert seconds == pytest.approx(expected)


def test_mirror_images_cost_forward_passes() -> None:
    seconds = [
        estimate_seconds(prepared, plan(prepared), TRIAL)[0]
        for prepared in (ready(pictures(flip=flip)) for flip in (False, True))
    ]
    assert seconds[1] - seconds[0] == pytest.approx(0.001 * 2 * 14)


def test_bytes_by_hand() -> None:
    prepared = ready(blobs())  # 120 + 48 vectors of 6 floats
    counted = estimate_bytes(prepared, plan(prepared), TRIAL)
    assert (counted.held, counted.data) == (40 * 24, 168 * 24)
    assert counted.peak == 168 * 24 + 100 + 90 + 80 + 70 + PROGRAM_BYTES
    validated = ready(blobs(), {"scenario": {"validation": 0.1}})  # no test data in memory
    assert estimate_bytes(validated, plan(validated), TRIAL).data == 120 * 24
    everything = ready(blobs(), {"method": {"name": "joint"}})
    assert estimate_bytes(everything, plan(everything), TRIAL).held == 120 * 24
    growing = ready(blobs(), {"memory": {"budget": "growing:5", "exemplars": None}})
    assert estimate_bytes(growing, plan(growing), TRIAL).held == (5 * 4 + 40) * 24


def tried(*layers: dict[str, Any]) -> tuple[Prepared, Plan, Trial]:
    prepared = ready(pictures(), *layers)
    planned = plan(prepared)
    return prepared, planned, try_out(prepared, planned, seconds=0.1)


@pytest.mark.parametrize(
    ("method", "stages"),
    [
        ({"name": "icarl"}, {"main", "balanced"}),
        ({"name": "pod-aanets", "mixture_lr": 0.1}, {"main", "mixture", "balanced"}),
        ({"name": "finetune", "replay": False}, {"main"}),
        ({"name": "joint"}, {"main"}),
    ],
    ids=lambda value: value.get("name") if isinstance(value, dict) else "",
)
def test_a_trial_measures_every_stage(method: dict[str, Any], stages: set[str]) -> None:
    prepared, planned, trial = tried({"method": method})
    assert trial.first.keys() == {"main"}
    assert trial.later.keys() == stages
    paces = [trial.describe, *trial.first.values(), *trial.later.values()]
    assert all(0 < pace < 1 for pace in paces)  # far below a second per sample for a tiny network
    assert all(seconds > 0 for seconds in estimate_seconds(prepared, planned, trial))
    assert (trial.teacher_bytes > 0) == (method["name"] in ("icarl", "pod-aanets"))


@pytest.mark.parametrize("method", [*METHODS, "lwf without replay"])
def test_every_method_can_be_tried_out(method: str) -> None:
    name, alone, _ = method.partition(" without replay")
    prepared, planned, trial = tried({"method": {"name": name} | ({"replay": False} if alone else {})})
    assert len(estimate_seconds(prepared, planned, trial)) == 3
    assert trial.batch_bytes > trial.training_bytes / 100 > 0


@pytest.mark.parametrize("method", ["icarl", "lucir-aanets", "joint"])
def test_model_bytes_equal_those_of_the_last_phase(method: str) -> None:
    prepared, _, trial = tried({"method": {"name": method}, "train": {"epochs": 1}, "finetune": {"epochs": 0}})
    episode = opened(prepared)
    play(episode, prepared)
    assert trial.model_bytes == sum(value.nbytes for value in episode.learner.state().values())


def test_gradients_and_optimiser_by_hand() -> None:
    """Besides the gradient, SGD with momentum keeps one number per weight, Adam two (and its step counts)."""
    plain = {"method": {"name": "joint"}, "train": {"momentum": 0.0}}
    _, _, sgd = tried(plain)
    _, _, momentum = tried(plain, {"train": {"momentum": 0.9}})
    _, _, adam = tried(plain, {"train": {"optimizer": "adam"}})
    assert momentum.training_bytes == 2 * sgd.training_bytes
    assert 3 * sgd.training_bytes < adam.training_bytes < 3.2 * sgd.training_bytes


def test_batch_bytes_grow_with_the_batch_size() -> None:
    sizes = [tried({"train": {"batch_size": size}})[2].batch_bytes for size in (4, 16)]
    assert sizes[1] == pytest.approx(4 * sizes[0], rel=0.1)
    assert sizes[0] > 4 * 8 * 8 * 3 * 4  # at least the images themselves, as floats


def test_trial_does_not_change_results() -> None:
    prepared = ready(blobs(), {"train": {"epochs": 1}})
    before = play(opened(prepared), prepared)
    try_out(prepared, plan(prepared), seconds=0.05)
    after = play(opened(prepared), prepared)
    assert [r.predictions.cnn.tolist() for r in before] == [r.predictions.cnn.tolist() for r in after]


@dataclass
class Ticks:
    """A clock that goes on by the same steps whenever it is read, so that nothing depends on a real one."""

    stretch: float
    work: float = 0.0
    wall: float = 0.0
    threads: set[int] = field(default_factory=set)  # whenever it was read

    @property
    def clock(self) -> Clock:
        return Clock(self._work, self._wall)

    def _work(self) -> float:
        self.threads.add(torch.get_num_threads())
        self.work += 0.001
        return self.work

    def _wall(self) -> float:
        self.wall += 0.001 * self.stretch
        return self.wall


def timed(ticks: Ticks, **train: int) -> Trial:
    prepared = ready(pictures(), {"train": train})
    return try_out(prepared, plan(prepared), seconds=0.05, clock=ticks.clock)


@pytest.fixture
def one_thread() -> Iterator[None]:
    """For the tests after it."""
    yield
    torch.set_num_threads(1)


def test_times_are_cpu_times_and_the_clock_shows_the_load() -> None:
    """Equal ticks: every repeat takes equally long, whatever the machine does."""
    quiet, busy = timed(Ticks(1.0)), timed(Ticks(3.0))
    assert (quiet.stretch, busy.stretch) == pytest.approx((1.0, 3.0))
    assert quiet.spread == busy.spread == LEAST_SPREAD
    assert busy.first == pytest.approx(quiet.first)
    assert busy.later == pytest.approx(quiet.later)
    assert busy.describe == pytest.approx(quiet.describe)


@pytest.mark.usefixtures("one_thread")
def test_several_threads_are_measured_on_a_quiet_machine_alone() -> None:
    """On these clocks two threads take as many seconds as one, so each of them takes half."""
    quiet, busy = Ticks(1.0), Ticks(3.0)
    one, two = timed(Ticks(1.0)), timed(quiet, threads=2)
    assert two.first["main"] == pytest.approx(one.first["main"] / 2)
    assert two.spread == pytest.approx((0.8, 1.3 * 2))  # the clock shows no gain
    assert quiet.threads == {1, 2}
    assumed = timed(busy, threads=2)
    assert assumed.first["main"] == pytest.approx(one.first["main"] / 2**0.5)
    assert assumed.spread == pytest.approx((0.8 * 2**0.5 / 2, 1.3 * 2**0.5 * 2))
    assert busy.threads == {1}
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("one_thread")
def test_a_trial_that_fails_leaves_the_threads_as_the_run_wants_them() -> None:
    prepared = ready(pictures(), {"train": {"threads": 2}})
    with pytest.raises(ZeroDivisionError):
        try_out(prepared, plan(prepared), clock=Clock(lambda: 1 / 0))
    assert torch.get_num_threads() == 2


def test_a_trial_takes_no_random_numbers_from_anyone() -> None:
    def states() -> tuple[Any, ...]:
        return random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()  # type: ignore[index]  # noqa: NPY002

    before = states()
    timed(Ticks(1.0))
    assert states() == before


def test_work_that_is_left_by_hand() -> None:
    """40 samples in phase 0 and, at most, 40 in the others, half of them balanced; 10 epochs, 6 later, 4 of tuning."""
    epochs = {"epochs": 10, "epochs_later": 6}
    started = RunStarted.of(ready(blobs(), {"train": epochs, "finetune": {"epochs": 4}}))
    later = 40 * (6 * 0.02 + 2 * 0.001) + 20 * (6 * 0.5 + 4 * 0.03)
    assert estimate_left(started, TRIAL) == pytest.approx(40 * (10 * 0.01 + 2 * 0.001) + 2 * later)
    assert estimate_left(replace(started, done=2), TRIAL) == pytest.approx(later)
    assert estimate_left(replace(started, done=3), TRIAL) == 0


@pytest.mark.parametrize("tenths", [2, 3, 4, 5])
def test_static_with_another_e_holds_what_a_fixed_share_holds_where_memory_is_scarce(tenths: int) -> None:
    """Protocol 1.3: less memory (30) than the new data of a phase (40). Above M / 2 the exemplar part has no effect."""
    kept = {"memory": {"budget": 30, "exemplars": 3 * tenths}, "policy": "static"}
    shared = {"memory": {"budget": 30}, "policy": f"fixed-0.{tenths}"}
    static, fixed, most = (
        [(phase.old, phase.new) for phase in plan(ready(blobs(), layer)).phases]
        for layer in (kept, shared, {"memory": {"budget": 30, "exemplars": 29}, "policy": "static"})
    )
    assert static == fixed
    assert (static == most) == (tenths == 5)
