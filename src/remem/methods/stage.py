"""Stage: one run of the training loop. A method returns a list of stages; loop.py runs them."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from remem.methods.losses import Reduction
from remem.nets.base import Output
from remem.types import IntArray, Samples

Losses = dict[str, Tensor]
Objective = Callable[[Output, Tensor, Output | None], Losses]
"""(student's output, labels, teacher's output or None) -> named loss terms; the loss is their sum."""


class SampleObjective(Protocol):
    """An objective that can also return one value per sample, so that heads of many runs are trained together."""

    def __call__(
        self, output: Output, labels: Tensor, teacher: Output | None, *, reduction: Reduction = "mean"
    ) -> Losses: ...


Marks = Callable[[IntArray], NDArray[np.bool_]]
"""Labels of a batch -> mask of the samples that count."""


@dataclass(frozen=True)
class ParameterGroup:
    """Parameters that share a learning rate."""

    parameters: tuple[torch.nn.Parameter, ...]
    lr_scale: float = 1.0  # factor of the stage's learning rate
    weight_decay: float | None = None  # None: as in the settings
    bounds: tuple[float, float] | None = None  # every step is followed by a projection into this interval


def whole(module: torch.nn.Module) -> tuple[ParameterGroup, ...]:
    """All parameters of a module in one group."""
    return group(module.parameters())


def group(parameters: Iterable[torch.nn.Parameter]) -> tuple[ParameterGroup, ...]:
    return (ParameterGroup(tuple(parameters)),)


@dataclass(frozen=True)
class Stage:
    """Samples, loss terms, parameters, epochs, schedule and batch-norm mode of one run of the loop."""

    name: str
    samples: Samples
    objective: Objective
    groups: tuple[ParameterGroup, ...]
    epochs: int
    lr: float
    schedule: str
    lr_is_total: bool = False  # `lr` is the sum over all steps, so that it means the same at any length
    needs_teacher: bool = False
    updates_statistics: bool = True  # False keeps batch norm in evaluation mode
    clamp: float | None = None  # clips every element of every gradient
    after_epoch: "Stage | None" = None  # a stage with the same number of epochs; alternates with this one
    counted: Mapping[str, Marks] = field(default_factory=dict)  # loss terms that average over part of a batch
