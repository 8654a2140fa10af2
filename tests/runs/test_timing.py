"""timing.py: attempts, paces, spreads and gains are worked out by hand; no test depends on a real clock."""

from dataclasses import dataclass, field

import pytest

from remem.runs.timing import (
    FEWEST,
    LEAST_SPREAD,
    MOST_BATCHES,
    PATIENCE,
    Clock,
    Gain,
    Lap,
    Spread,
    Stopwatch,
    Timing,
    assumed_gain,
    gain_of,
    repeat,
    spread_of,
    stretch_of,
)


@dataclass
class FakeWork:
    """Work that takes `fixed` and `each` CPU seconds, on a machine that takes `stretch` times as long."""

    fixed: float
    each: float
    stretch: float = 1.0
    work: float = 0.0
    wall: float = 0.0
    counts: list[int] = field(default_factory=list)

    def attempt(self, count: int) -> dict[str, Lap]:
        took = self.fixed + self.each * count
        self.counts.append(count)
        self.work += took
        self.wall += took * self.stretch
        return {"main": Lap(took, took * self.stretch)}

    @property
    def clock(self) -> Clock:
        return Clock(lambda: self.work, lambda: self.wall)


def test_attempts_grow_up_to_the_limit_and_are_repeated() -> None:
    work = FakeWork(0.0, 1e-6)
    timing = repeat(work.attempt, 10, 1.0, work.clock)
    assert work.counts == [2, 2, 8, 30, 80, 80, 80, 80, 80]  # a warm-up, whole batches from 10 on, five repeats
    assert (timing.count, len(timing.repeats)) == (MOST_BATCHES * 10, 5)


def test_attempts_stop_growing_when_two_more_would_take_too_long() -> None:
    """0.1 s for each sample: 1.2 s until 8 samples are done. Two with 32 samples would take 6.4 s more."""
    work = FakeWork(0.0, 0.1)
    repeat(work.attempt, 1000, 7.5, work.clock)
    assert work.counts == [2, 2, 8, 8, 8, 8, 8]  # five repeats; a sixth would be too many
    work = FakeWork(0.0, 0.1)
    repeat(work.attempt, 1000, 7.7, work.clock)
    assert work.counts == [2, 2, 8, 32, 32]


def test_what_is_fixed_does_not_grow() -> None:
    """1 s for each attempt: the fourth size is due after 4 s, and two of them end at 6 s."""
    for seconds, counts in ((5.9, [2, 2, 8, 32, 32]), (6.1, [2, 2, 8, 32, 128, 128])):
        work = FakeWork(1.0, 0.0)
        repeat(work.attempt, 1000, seconds, work.clock)
        assert work.counts == counts


def test_what_takes_too_long_is_still_repeated() -> None:
    work = FakeWork(10.0, 0.0)
    assert len(repeat(work.attempt, 1000, 1.0, work.clock).repeats) == 2
    assert work.counts == [FEWEST] * 3  # not even a second size


@pytest.mark.parametrize("stretch", [1.0, PATIENCE - 0.01])
def test_a_busy_machine_tries_as_much_as_a_quiet_one(stretch: float) -> None:
    work = FakeWork(0.0, 0.001, stretch)
    timing = repeat(work.attempt, 100, 1.0, work.clock)
    assert work.counts == [2, 2, 8, 32, 100, 400, 400]
    assert timing.paces() == pytest.approx({"main": 0.001})


def test_patience_with_a_very_busy_machine_ends() -> None:
    quiet, busy = FakeWork(0.0, 0.001), FakeWork(0.0, 0.001, 10 * PATIENCE)
    for work in (quiet, busy):
        repeat(work.attempt, 100, 1.0, work.clock)
    assert max(busy.counts) < max(quiet.counts)
    assert busy.wall < PATIENCE * 1.0


def laps(*work: float, stage: str = "main", stretch: float = 1.0) -> tuple[dict[str, Lap], ...]:
    return tuple({stage: Lap(seconds, seconds * stretch)} for seconds in work)


def test_the_pace_is_that_of_the_median_repeat() -> None:
    assert Timing(10, 5, laps(1.0, 9.0, 2.0)).paces() == {"main": 0.2}


def test_a_batch_is_extrapolated_from_two_attempts() -> None:
    """0.2 s for 4 samples and 0.5 s for 16: 0.1 s and 0.025 s for each, so 100 samples take 2.6 s."""
    [smaller] = laps(0.2)
    assert Timing(16, 100, laps(0.5), (4, smaller)).paces()["main"] == pytest.approx(0.026)
    assert Timing(16, 16, laps(0.5), (4, smaller)).paces()["main"] == pytest.approx(0.5 / 16)
    assert Timing(16, 100, laps(0.5)).paces()["main"] == pytest.approx(0.5 / 16)


def test_noise_does_not_make_a_batch_free_or_dearer_than_its_parts() -> None:
    [cheap], [dear] = laps(0.001), laps(0.7)
    assert Timing(16, 160, laps(0.8), (4, cheap)).paces()["main"] == pytest.approx(0.05)  # 0.8 / 16
    # At least a quarter of 0.05 for each sample, and so at most 0.6 s for a step.
    assert Timing(16, 160, laps(0.8), (4, dear)).paces()["main"] == pytest.approx(0.0125 + 0.6 / 160)


def test_every_stage_has_its_own_pace() -> None:
    both = {"main": Lap(2.0, 2.0), "mixture": Lap(1.0, 1.0)}
    assert Timing(10, 10, (both,)).paces() == {"main": 0.2, "mixture": 0.1}


def test_the_spread_is_that_of_all_repeats_or_the_least_one() -> None:
    wide, narrow = Timing(1, 1, laps(1.0, 2.0, 6.0)), Timing(1, 1, laps(1.9, 2.0, 2.1))
    assert spread_of([wide]) == (0.5, 3.0)
    assert spread_of([narrow]) == LEAST_SPREAD == Spread(0.8, 1.3)
    assert spread_of([wide, narrow]) == pytest.approx((2.9 / 4, 8.1 / 4))
    interrupted = Timing(1, 1, (*laps(2.0, 2.0), *laps(2.0, stretch=50.0)))
    assert spread_of([interrupted]) == LEAST_SPREAD


def test_the_stretch_is_clock_time_over_cpu_time() -> None:
    timings = [Timing(1, 1, laps(1.0, 1.0, stretch=2.0)), Timing(1, 1, laps(2.0, stretch=3.0))]
    assert stretch_of(timings) == 10.0 / 4.0
    assert stretch_of([Timing(1, 1, laps(1.0, stretch=0.5))]) == 1.0  # helper threads


def test_gain_of_threads() -> None:
    """One thread: 6 s. Two take 8 s of CPU time, 4 s each, in 4.8 s."""
    assert gain_of(Lap(6.0, 6.0), Lap(8.0, 4.8), 2) == pytest.approx(Gain(1.5, 1.5, 1.25))
    assert gain_of(Lap(6.0, 9.0), Lap(90.0, 90.0), 2) == Gain(1.0, 1.0, 0.5)  # both wait for each other
    assert gain_of(Lap(6.0, 9.0), Lap(2.0, 1.0), 2) == Gain(2.0, 2.0, 2.0)
    assert assumed_gain(4) == Gain(4, 2.0, 0.5)


def test_a_stopwatch_returns_the_time_since_its_last_lap() -> None:
    work = FakeWork(1.0, 0.0, stretch=2.0)
    watch = Stopwatch(work.clock)
    work.attempt(1)
    assert watch.lap() == (1.0, 2.0)
    assert watch.lap() == (0.0, 0.0)
