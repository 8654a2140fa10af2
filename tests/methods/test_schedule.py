"""schedule.py: one-cycle equals torch's; the other schedules by hand."""

import math

import pytest
import torch

from remem.methods.schedule import lr_factor
from remem.methods.settings import TrainSettings


def factors(schedule: str, *, epochs: int, per_epoch: int, settings: TrainSettings | None = None) -> list[float]:
    """The factor of every step of a stage."""
    steps = epochs * per_epoch
    chosen = settings or TrainSettings()
    return [
        lr_factor(schedule, chosen, step=step, steps=steps, epoch=step // per_epoch, epochs=epochs)
        for step in range(steps)
    ]


@pytest.mark.parametrize("warmup", [0.0, 0.1, 0.2, 0.3, 0.9])
@pytest.mark.parametrize("steps", [1, 2, 7, 40])
def test_one_cycle_equals_torch(warmup: float, steps: int) -> None:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
    torchs = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=1.0, total_steps=steps, pct_start=warmup, cycle_momentum=False, anneal_strategy="cos"
    )
    expected = []
    for _ in range(steps):
        expected.append(torchs.get_last_lr()[0])
        if len(expected) < steps:
            optimizer.step()  # torch warns otherwise; there is no gradient, so nothing moves
            torchs.step()
    ours = factors("one-cycle", epochs=1, per_epoch=steps, settings=TrainSettings(warmup=warmup))
    assert ours == pytest.approx(expected, rel=1e-12, abs=1e-15)  # the same cosines, in double precision


def test_one_cycle_ends() -> None:
    ours = factors("one-cycle", epochs=5, per_epoch=8, settings=TrainSettings(warmup=0.25))
    assert ours[0] == pytest.approx(1 / 25, rel=1e-12)
    assert ours[9] == pytest.approx(1.0, rel=1e-12)  # 0.25 x 40 steps: the tenth runs at the peak
    assert ours[-1] == pytest.approx(1 / 25 / 10_000, rel=1e-9)
    assert max(ours) == ours[9]


def test_a_warmup_of_one_step_starts_at_the_peak() -> None:
    """0.2 x 5 steps: the warmup has one step, where torch's formula divides by zero."""
    ours = factors("one-cycle", epochs=1, per_epoch=5, settings=TrainSettings(warmup=0.2))
    assert ours[0] == 1.0
    assert ours == sorted(ours, reverse=True)


def test_cosine() -> None:
    expected = [(1 + math.cos(math.pi * share)) / 2 for share in (0, 1 / 6, 2 / 6, 3 / 6, 4 / 6, 5 / 6)]
    assert factors("cosine", epochs=2, per_epoch=3) == pytest.approx(expected, rel=1e-12)
    assert expected[3] == pytest.approx(0.5)


def test_step() -> None:
    settings = TrainSettings(milestones=(0.5, 0.75), decay=0.1)
    by_epoch = factors("step", epochs=8, per_epoch=2, settings=settings)[::2]
    assert by_epoch == pytest.approx([1, 1, 1, 1, 0.1, 0.1, 0.01, 0.01], rel=1e-12)
    imagenet = TrainSettings(milestones=(0.3334, 0.6667), decay=0.1)
    by_epoch = factors("step", epochs=90, per_epoch=1, settings=imagenet)
    assert [by_epoch.index(value) for value in sorted(set(by_epoch), reverse=True)] == [0, 30, 60]


def test_constant() -> None:
    assert factors("constant", epochs=2, per_epoch=3) == [1.0] * 6
