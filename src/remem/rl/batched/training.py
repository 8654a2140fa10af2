"""Trains the heads of many runs together: one step is one batch of every run."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from remem.data.batches import batch_starts
from remem.errors import InputError
from remem.methods.loop import build_optimizer, project
from remem.methods.schedule import lr_factor
from remem.methods.settings import TrainSettings
from remem.methods.stage import SampleObjective, Stage
from remem.nets.base import Output
from remem.rl.batched.heads import StackedHead
from remem.seeding import Streams
from remem.types import IntArray

# Optimisers that treat every element alike; several heads in one tensor are then trained like each of them alone.
ELEMENTWISE = frozenset({"sgd", "adam", "adamw", "adamax", "nadam", "radam", "adagrad", "adadelta", "rmsprop", "asgd"})


@dataclass(frozen=True)
class HeldSet:
    """The samples that one run trains on in one stage: positions in its task's features, labels, and its streams."""

    rows: IntArray  # (n,) rows of `features`
    labels: IntArray  # (n,)
    streams: Streams


def count_steps(samples: int, batch: int) -> int:
    """Steps per epoch; runs can be trained together if they have equally many."""
    return len(batch_starts(samples, batch))


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

    `features` are prepared for the head, (rows, d). All runs have the same number of steps. What does not change during
    a stage is computed once: the teacher's logits, and the scores of old classes where their rows are frozen.
    """
    parameters = [parameter for group in stage.groups for parameter in group.parameters]
    for parameter in head.parameters():
        parameter.requires_grad_(any(parameter is other for other in parameters))
    table = _Table(held, features)
    frozen = advice = None
    if head.old.shape[1] and not any(parameter.requires_grad for parameter in head.old_parameters()):
        frozen = table.scores(head, head.old_parameters())
    if teacher is not None and stage.needs_teacher:
        advice = table.scores(teacher, both(teacher))
        advice = teacher.scaled(advice.unflatten(0, (table.runs, -1))).flatten(0, 1)
    optimizer = build_optimizer(stage, settings)
    steps = count_steps(len(held[0].rows), settings.batch_size)
    step, total = 0, torch.zeros(())
    for epoch in range(stage.epochs):
        plan = table.epoch(stage, settings.batch_size, phase, epoch)
        for number in range(steps):
            factor = lr_factor(
                stage.schedule, settings, step=step, steps=stage.epochs * steps, epoch=epoch, epochs=stage.epochs
            )
            for group in optimizer.param_groups:
                group["lr"] = group["peak"] * factor
            loss = _loss(stage, head, table, plan, number, frozen=frozen, advice=advice)
            for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
                parameter.grad = gradient
            if stage.clamp is not None:
                torch.nn.utils.clip_grad_value_(parameters, stage.clamp)
            optimizer.step()
            project(stage.groups)
            total += loss.detach()
            step += 1
    if not math.isfinite(total.item()):
        where = f"phase {phase}, stage {stage.name}"
        raise InputError(f"train.lr: training diverged in {where}; expected a lower rate than {stage.lr:g}")


def _loss(
    stage: Stage,
    head: StackedHead,
    table: "_Table",
    plan: "_EpochPlan",
    number: int,
    *,
    frozen: Tensor | None,
    advice: Tensor | None,
) -> Tensor:
    """The sum over runs of each run's own loss in one step."""
    places = plan.places[number]
    inputs = table.features.index_select(0, table.rows.index_select(0, places)).unflatten(0, (table.runs, -1))
    if frozen is None:
        scores = head.class_scores(inputs, both(head))
    else:
        known = frozen.index_select(0, places).unflatten(0, (table.runs, -1))
        scores = torch.cat((known, head.class_scores(inputs, head.new_parameters())), dim=2)
    # Terms that compare features with the teacher's are constant, since both are frozen: a column of ones will do.
    output = Output(plan.ones, (), scores.flatten(0, 1), head.scaled(scores).flatten(0, 1))
    teacher = None
    if advice is not None:
        logits = advice.index_select(0, places)
        teacher = Output(plan.ones, (), logits, logits)
    objective = cast(SampleObjective, stage.objective)
    terms = objective(output, plan.labels[number], teacher, reduction="none")
    return torch.stack([(plan.weight(name, number) * term).sum() for name, term in terms.items()]).sum()


def both(head: StackedHead) -> list[Tensor]:
    """The parameters of all classes."""
    pairs = zip(head.old_parameters(), head.new_parameters(), strict=True)
    return [torch.cat(pair, dim=1) for pair in pairs]


@dataclass(frozen=True)
class _EpochPlan:
    """The batches of one epoch: step, then run, then sample; shorter batches are padded with weights of zero."""

    places: Tensor  # (steps, R x width) positions in the table
    labels: Tensor  # (steps, R x width)
    weights: Mapping[str | None, Tensor]  # (steps, R x width) by loss term; None: all others
    ones: Tensor  # (R x width, 1)

    def weight(self, name: str, number: int) -> Tensor:
        return self.weights.get(name, self.weights[None])[number]


class _Table:
    """The held samples of all runs, one after another, padded to equal length."""

    def __init__(self, held: Sequence[HeldSet], features: Tensor) -> None:
        self.runs, self.features = len(held), features
        self._held = held
        self._longest = max(len(part.rows) for part in held)
        self.rows, self._labels = padded([part.rows for part in held]), padded([part.labels for part in held])

    def scores(self, head: StackedHead, parameters: Sequence[Tensor]) -> Tensor:
        """Scores of some classes for all held samples, run after run, (R x n, C)."""
        with torch.no_grad():
            parts = [
                head.class_scores(self.features.index_select(0, rows)[None], [part[run, None] for part in parameters])
                for run, rows in enumerate(self.rows.unflatten(0, (self.runs, -1)))
            ]
            return torch.cat(parts).flatten(0, 1)

    def epoch(self, stage: Stage, batch: int, phase: int, epoch: int) -> _EpochPlan:
        """The same batches that each run would have alone."""
        name = f"{stage.name}/order"
        orders = [_order(part.streams, phase, name, epoch, len(part.rows), batch) for part in self._held]
        width = max(order.shape[1] for order, _ in orders)
        places = np.zeros((orders[0][0].shape[0], self.runs, width), np.int64)
        weights = np.zeros(places.shape, np.float32)
        for run, (order, sizes) in enumerate(orders):
            places[:, run, : order.shape[1]] = order + run * self._longest
            weights[:, run] = (np.arange(width) < sizes[:, None]) / sizes[:, None].astype(np.float32)
        chosen = torch.from_numpy(places).flatten(1)
        labels = self._labels[chosen]
        by_term: dict[str | None, Tensor] = {None: torch.from_numpy(weights).flatten(1)}
        for term, marks in stage.counted.items():
            counts = marks(labels.numpy().ravel()).reshape(weights.shape) & (weights > 0)
            shares = counts / np.maximum(1, counts.sum(axis=2, keepdims=True)).astype(np.float32)
            by_term[term] = torch.from_numpy(shares.astype(np.float32)).flatten(1)
        return _EpochPlan(chosen, labels, by_term, torch.ones(chosen.shape[1], 1))


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
