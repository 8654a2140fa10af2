"""Learning-rate schedules: the share of a stage that is done -> a factor of its peak rate. Pure functions."""

import math

from remem.methods.settings import TrainSettings

ONE_CYCLE_START = 1 / 25  # of the peak; the customary division at the start of a one-cycle schedule
ONE_CYCLE_END = 1e-4 / 25


def rate_factor(schedule: str, settings: TrainSettings, *, step: int, steps: int, epoch: int, epochs: int) -> float:
    """The factor for one optimiser step; `step` and `epoch` count from 0."""
    if schedule == "constant":
        return 1.0
    if schedule == "step":
        return settings.decay ** sum(epoch >= round(share * epochs) for share in settings.milestones)
    if schedule == "cosine":
        return _cosine(1.0, 0.0, step / steps)
    return _one_cycle(step, steps, settings.warmup)


def _one_cycle(step: int, steps: int, warmup: float) -> float:
    top = warmup * steps - 1  # the step that runs at the peak rate
    if step <= top:
        return _cosine(ONE_CYCLE_START, 1.0, step / top if top > 0 else 1.0)
    return _cosine(1.0, ONE_CYCLE_END, (step - top) / (steps - 1 - top))


def _cosine(start: float, end: float, share: float) -> float:
    return end + (start - end) * (1 + math.cos(math.pi * share)) / 2
