"""Trains the heads of many runs together: one step is one batch of every run."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from remem.data.batches import batch_starts
from remem.errors import InputError
from remem.methods.schedule import lr_factor
from remem.methods.settings import TrainSettings
from remem.methods.stage import ParameterGroup, SampleObjective, Stage
from remem.nets.base import Output
from remem.rl.batched.heads import StackedHead
from remem.seeding import Streams
from remem.types import IntArray


@dataclass(frozen=True)
class HeldSet:
    """The samples that one run trains on in one stage: positions in its task's features, labels, and its streams."""

    rows: IntArray  # (n,) rows of `features`
    labels: IntArray  # (n,)
    streams: Streams


def train_heads(
    stage: Stage,
    head: StackedHead,
    held: Sequence[HeldSet],
    features: Tensor,
    *,
    settings: TrainSettings,
    phase: int,
    teacher: StackedHead | None,
) -> None:
    """Trains all epochs of a stage, one batch of every run in each step, and changes `head` in place.

    `features` are prepared for the head, (rows, d). Runs come in descending order of their numbers of samples: those
    that have no more batches in an epoch are the last ones, and wait. What does not change during a stage is computed
    once: the teacher's logits, and the scores of old classes where their rows are frozen.
    """
    table = _Table(held, features, settings.batch_size)
    sgd = StackedSGD(stage, head, settings)
    frozen = advice = None
    if head.old.shape[1] and not sgd.trains(head.old):
        frozen = table.scores(head, head.old_parameters())
    if teacher is not None and stage.needs_teacher:
        advice = table.scores(teacher, both(teacher))
        advice = teacher.scaled(advice.unflatten(0, (table.runs, -1))).flatten(0, 1)
    total = torch.zeros(())
    for epoch in range(stage.epochs):
        rates = _rates(stage, settings, table.steps, epoch)
        for step, batch in enumerate(table.epoch(stage, phase, epoch)):
            loss = _loss(stage, head, table, batch, frozen=frozen, advice=advice)
            sgd.step(loss, batch.runs, rates[step, : batch.runs])
            total += loss.detach()
    if not math.isfinite(total.item()):
        where = f"phase {phase}, stage {stage.name}"
        raise InputError(f"train.lr: training diverged in {where}; expected a lower rate than {stage.lr:g}")


class StackedSGD:
    """torch's SGD for the first runs of a stack, each with its own learning rate."""

    def __init__(self, stage: Stage, head: StackedHead, settings: TrainSettings) -> None:
        self._settings, self._clamp = settings, stage.clamp
        self._groups = [(parameter, group) for group in stage.groups for parameter in group.parameters]
        self._momenta = [torch.zeros_like(parameter) for parameter, _ in self._groups]
        for parameter in head.parameters():
            parameter.requires_grad_(self.trains(parameter))

    def trains(self, parameter: Tensor) -> bool:
        return any(parameter is own for own, _ in self._groups)

    def step(self, loss: Tensor, runs: int, rates: Tensor) -> None:
        """One step of the first `runs` runs; the others have no part in the loss and stay as they are."""
        gradients = torch.autograd.grad(loss, [parameter for parameter, _ in self._groups])
        with torch.no_grad():
            for (parameter, group), gradient, momentum in zip(self._groups, gradients, self._momenta, strict=True):
                self._update(parameter[:runs], gradient[:runs], momentum[:runs], group, rates)

    def _update(self, value: Tensor, gradient: Tensor, momentum: Tensor, group: ParameterGroup, rates: Tensor) -> None:
        settings = self._settings
        if self._clamp is not None:
            gradient.clamp_(-self._clamp, self._clamp)
        decay = settings.weight_decay if group.weight_decay is None else group.weight_decay
        gradient = gradient.add(value, alpha=decay)
        momentum.mul_(settings.momentum).add_(gradient)
        nesterov = settings.nesterov and settings.momentum > 0
        direction = gradient.add_(momentum, alpha=settings.momentum) if nesterov else momentum
        value.sub_(direction * (group.lr_scale * rates).view(-1, *[1] * (value.dim() - 1)))
        if group.bounds is not None:
            value.clamp_(*group.bounds)


def _rates(stage: Stage, settings: TrainSettings, steps: Sequence[int], epoch: int) -> Tensor:
    """The learning rate of every step and run of an epoch, (steps, R)."""

    @cache
    def rates(own: int) -> list[float]:
        each = range(epoch * own, (epoch + 1) * own)
        epochs = {"epoch": epoch, "epochs": stage.epochs, "steps": stage.epochs * own}
        return [stage.lr * lr_factor(stage.schedule, settings, step=step, **epochs) for step in each]

    return torch.tensor([rates(own) + [0.0] * (steps[0] - own) for own in steps]).T


def _loss(
    stage: Stage, head: StackedHead, table: "_Table", batch: "_Batch", *, frozen: Tensor | None, advice: Tensor | None
) -> Tensor:
    """The sum over runs of each run's own loss in one step."""
    runs, places = batch.runs, batch.places
    inputs = table.features.index_select(0, table.rows.index_select(0, places)).unflatten(0, (runs, -1))
    if frozen is None:
        scores = head.class_scores(inputs, [part[:runs] for part in both(head)])
    else:
        known = frozen.index_select(0, places).unflatten(0, (runs, -1))
        scores = torch.cat((known, head.class_scores(inputs, [part[:runs] for part in head.new_parameters()])), dim=2)
    features = inputs.flatten(0, 1)
    output = Output(features, (), scores.flatten(0, 1), head.scaled(scores).flatten(0, 1))
    teacher = None
    if advice is not None:
        logits = advice.index_select(0, places)
        teacher = Output(features, (), logits, logits)
    objective = cast(SampleObjective, stage.objective)
    terms = objective(output, batch.labels, teacher, reduction="none")
    return torch.stack(
        [torch.dot(batch.weights.get(name, batch.weights[None]), term) for name, term in terms.items()]
    ).sum()


def both(head: StackedHead) -> list[Tensor]:
    """The parameters of all classes."""
    pairs = zip(head.old_parameters(), head.new_parameters(), strict=True)
    return [torch.cat(pair, dim=1) for pair in pairs]


@dataclass(frozen=True)
class _Batch:
    """One step: a batch of each of the first runs, shorter ones padded with samples of weight zero."""

    runs: int
    places: Tensor  # (runs x width,) positions in the table
    labels: Tensor  # (runs x width,)
    weights: Mapping[str | None, Tensor]  # (runs x width,) by loss term; None: all others


class _Table:
    """The held samples of all runs, one after another, padded to equal length."""

    def __init__(self, held: Sequence[HeldSet], features: Tensor, batch: int) -> None:
        self.runs, self.features = len(held), features
        self._held, self._batch, self._longest = held, batch, len(held[0].rows)
        self.steps = [len(batch_starts(len(part.rows), batch)) for part in held]  # per epoch, descending
        self.rows, self._labels = padded([part.rows for part in held]), padded([part.labels for part in held])

    def scores(self, head: StackedHead, parameters: Sequence[Tensor]) -> Tensor:
        """Scores of some classes for all held samples, run after run, (R x n, C)."""
        with torch.no_grad():
            parts = [
                head.class_scores(self.features.index_select(0, rows)[None], [part[run, None] for part in parameters])
                for run, rows in enumerate(self.rows.unflatten(0, (self.runs, -1)))
            ]
            return torch.cat(parts).flatten(0, 1)

    def epoch(self, stage: Stage, phase: int, epoch: int) -> Iterator[_Batch]:
        """The same batches that each run would have alone."""
        name = f"{stage.name}/order"
        orders = [_order(part.streams, phase, name, epoch, len(part.rows), self._batch) for part in self._held]
        width = max(order.shape[1] for order, _ in orders)
        places = np.zeros((self.steps[0], self.runs, width), np.int64)
        sizes = np.zeros((self.steps[0], self.runs, 1), np.float32)
        for run, (order, counts) in enumerate(orders):
            places[: len(order), run, : order.shape[1]] = order + run * self._longest
            sizes[: len(order), run, 0] = counts
        real = np.arange(width) < sizes
        labels = self._labels[torch.from_numpy(places)]
        weights: dict[str | None, Tensor] = {None: _shares(real)}
        for term, marks in stage.counted.items():
            weights[term] = _shares(marks(labels.numpy().ravel()).reshape(real.shape) & real)
        chosen = torch.from_numpy(places)
        for step in range(self.steps[0]):
            runs = sum(own > step for own in self.steps)
            own = {term: weight[step, :runs].flatten() for term, weight in weights.items()}
            yield _Batch(runs, chosen[step, :runs].flatten(), labels[step, :runs].flatten(), own)


def _shares(counted: NDArray[np.bool_]) -> Tensor:
    """Weights of a mean over the marked samples of every batch."""
    return torch.from_numpy(counted / np.maximum(1, counted.sum(axis=2, keepdims=True)).astype(np.float32))


def padded(parts: Sequence[IntArray]) -> Tensor:
    """Rows of different lengths, each padded with its first value to the longest, one after another."""
    longest = max(map(len, parts))
    whole: Any = np.concatenate([np.concatenate([part, np.repeat(part[:1], longest - len(part))]) for part in parts])
    return torch.from_numpy(whole)


@lru_cache(maxsize=512)  # runs of a task hold equally many samples in most phases
def _order(streams: Streams, phase: int, name: str, epoch: int, samples: int, batch: int) -> tuple[IntArray, IntArray]:
    """Positions of every batch of an epoch, (steps, width), shorter ones padded with 0, and the size of each."""
    order = streams.numpy(phase, name, epoch).permutation(samples)
    starts = batch_starts(samples, batch)
    sizes = np.diff([*starts, samples])
    places = np.zeros((len(starts), int(sizes.max())), np.int64)
    places[np.arange(places.shape[1]) < sizes[:, None]] = order
    return places, sizes
