"""Learning-rate schedules as pure functions: the factor of the peak learning rate at every step."""

import math

from remem.methods.settings import TrainSettings

ONE_CYCLE_START = 1 / 25  # of the peak, as in torch
ONE_CYCLE_END = 1e-4 / 25


def lr_factor(schedule: str, settings: TrainSettings, *, step: int, steps: int, epoch: int, epochs: int) -> float:
    """The factor of one optimiser step; `step` and `epoch` count from 0."""
    if schedule == "constant":
        return 1.0
    if schedule == "step":
        return settings.decay ** sum(epoch >= round(share * epochs) for share in settings.milestones)
    if schedule == "cosine":
        return _cosine(1.0, 0.0, step / steps)
    return _one_cycle(step, steps, settings.warmup)


def _one_cycle(step: int, steps: int, warmup: float) -> float:
    top = warmup * steps - 1  # the step at the peak
    if step <= top:
        return _cosine(ONE_CYCLE_START, 1.0, step / top if top > 0 else 1.0)
    return _cosine(1.0, ONE_CYCLE_END, (step - top) / (steps - 1 - top))


def _cosine(start: float, end: float, share: float) -> float:
    return end + (start - end) * (1 + math.cos(math.pi * share)) / 2
