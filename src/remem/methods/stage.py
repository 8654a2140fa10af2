"""A Stage: one stretch of training for the shared loop. Methods are lists of these; the loop is in loop.py."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from remem.nets.contract import Output
from remem.types import IntArray, Samples

Losses = dict[str, Tensor]
Objective = Callable[[Output, Tensor, Output | None], Losses]
"""(student's output, labels, teacher's output or None) -> named loss terms, which are added up."""
Marks = Callable[[IntArray], NDArray[np.bool_]]
"""Labels of a batch -> which of its samples count."""


@dataclass(frozen=True)
class ParameterGroup:
    """Parameters that share a learning rate."""

    parameters: tuple[torch.nn.Parameter, ...]
    rate_scale: float = 1.0  # of the stage's rate
    weight_decay: float | None = None  # None: the settings' own


def whole(module: torch.nn.Module) -> tuple[ParameterGroup, ...]:
    """All parameters of a module in one group."""
    return group(module.parameters())


def group(parameters: Iterable[torch.nn.Parameter]) -> tuple[ParameterGroup, ...]:
    return (ParameterGroup(tuple(parameters)),)


@dataclass(frozen=True)
class Stage:
    """What the loop runs: samples, loss terms, parameters, epochs, schedule and batch-norm mode."""

    name: str
    samples: Samples
    objective: Objective
    groups: tuple[ParameterGroup, ...]
    epochs: int
    rate: float
    schedule: str
    needs_teacher: bool = False
    updates_statistics: bool = True  # False keeps batch norm in evaluation mode
    clamp: float | None = None  # bound of every element of every gradient
    after_epoch: "Stage | None" = None  # a stage of as many epochs, one of which follows each of this one's
    counted: Mapping[str, Marks] = field(default_factory=dict)  # loss terms that are means over a part of a batch
