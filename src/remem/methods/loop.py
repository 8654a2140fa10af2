"""The only training loop: runs one Stage with Fabric. Independent of methods, memory and data sets."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from remem.data.augment import AugmentPlan, augment
from remem.data.batches import SMALLEST, batches, prefetched, shard
from remem.errors import InputError
from remem.events import Emit
from remem.methods.events import EpochEnded
from remem.methods.hoarding import HoardWatch
from remem.methods.keeping import EpochState, Keeper, Place, restore, save_if_due, snapshot_of, stop
from remem.methods.schedule import lr_factor
from remem.methods.settings import TrainSettings
from remem.methods.stage import Marks, ParameterGroup, Stage
from remem.nets.base import Output
from remem.nets.network import Network
from remem.seeding import Streams
from remem.storage.tensorfile import Snapshot
from remem.types import IntArray, Reader, Samples

if TYPE_CHECKING:  # a model predicts without Fabric, which takes as long to import as torch
    from lightning_fabric import Fabric

AfterStep = Callable[[Callable[[], EpochState]], None]


@dataclass(frozen=True)
class TrainContext:
    """What all stages of an episode share: settings, augmentation, devices, random streams and the event callback."""

    settings: TrainSettings
    plan: AugmentPlan
    fabric: "Fabric"
    streams: Streams
    emit: Emit
    keeper: Keeper | None = None  # saves training inside phases; None where a phase is short


@dataclass(frozen=True)
class StageStart:
    """Which stage of its phase it is, and what was saved inside it before a stop."""

    number: int = 0
    saved: Snapshot | None = None
    keeps_samples: bool = False  # whether the stage's samples depend on training, so that they are saved as well


def run_stage(
    stage: Stage,
    network: Network,
    reader: Reader,
    context: TrainContext,
    *,
    phase: int,
    teacher: Network | None,
    start: StageStart = StageStart(),  # noqa: B008  (immutable)
) -> None:
    """Trains all epochs of a stage; all randomness derives from `context.streams`."""
    stages = [stage] if stage.after_epoch is None else [stage, stage.after_epoch]
    runners = [StageRunner(each, network, reader, context, phase, teacher) for each in stages]
    saved, begun, first, turn = start.saved, None, 0, 0
    if saved is not None:
        begun = restore(saved, network, [runner.optimizer for runner in runners], context.fabric)
        first, turn = saved.facts["epoch"], saved.facts["runner"]
        for runner, step in zip(runners, saved.facts["steps"], strict=True):
            runner.step = step
    watch = HoardWatch(network, *(each.objective for each in stages))
    for epoch in range(first, stage.epochs):
        for place, runner in enumerate(runners):
            if (epoch, place) >= (first, turn):
                keep = partial(_keep, Place(phase, start.number, epoch, place), stage, network, runners, context, start)
                runner.epoch(epoch, watch, begun, None if context.keeper is None else keep)
                begun = None
    watch.check(f"phase {phase}, stage {stage.name}", context.fabric)
    _synchronise_statistics(network, context.fabric)


def _keep(
    place: Place,
    stage: Stage,
    network: Network,
    runners: "Sequence[StageRunner]",
    context: TrainContext,
    start: StageStart,
    state: Callable[[], EpochState],
) -> None:
    """Saves training after a step if it is time to, or if a signal asks to stop."""
    assert context.keeper is not None
    due, number = save_if_due(context.keeper, context.fabric)
    if not due:
        return
    optimizers, steps = [runner.optimizer for runner in runners], [runner.step for runner in runners]
    snapshot = snapshot_of(place, state(), network, optimizers, steps, context.fabric)
    if start.keeps_samples:
        own = {"samples/rows": stage.samples.rows, "samples/labels": stage.samples.labels}
        snapshot.tensors.update({name: torch.from_numpy(value.copy()) for name, value in own.items()})
    context.keeper.save(snapshot)
    if number:
        stop(number)


class StageRunner:
    """Runs a stage epoch by epoch; holds its optimiser and counts its steps."""

    def __init__(
        self, stage: Stage, network: Network, reader: Reader, context: TrainContext, phase: int, teacher: Network | None
    ) -> None:
        self._stage, self._network, self._reader, self._context = stage, network, reader, context
        self._phase, self._teacher = phase, teacher if stage.needs_teacher else None
        _choose_parameters(stage, network)
        self.optimizer = build_optimizer(stage, context.settings)  # as it is without Fabric
        self._module, self._optimizer = _set_up(network, self.optimizer, context)
        self._each = SMALLEST if stage.updates_statistics and _has_batch_norm(network) else 1
        self._steps = sum(1 for _ in self._batches(None))  # per epoch
        self.step = 0  # since the first epoch
        self._draws = torch.Generator()  # of augmentations
        self._scale = 1 / self._total_factor() if stage.lr_is_total else 1.0

    def epoch(
        self, epoch: int, watch: HoardWatch, begun: EpochState | None = None, after_step: AfterStep | None = None
    ) -> None:
        """One pass over the samples, or what is left of one that was stopped."""
        stage, started = self._stage, time.perf_counter()
        _choose_parameters(stage, self._network)
        # A single sample has no variance: batch norm then uses its running statistics.
        self._module.train(stage.updates_statistics and len(stage.samples) > 1)
        totals: dict[str, Tensor] = {} if begun is None else dict(begun.totals)
        with self._seeded(epoch, begun):
            for done, (inputs, labels, own) in self._inputs(epoch, begun):
                for name, term in self._step_on(inputs, labels, own, epoch).items():
                    totals[name] = term + totals.get(name, 0.0)  # stays on the device: reading a value would block
                watch.after_batch(len(labels))
                if after_step is not None:
                    after_step(partial(self._state, done, totals))
        if self._context.fabric.world_size > 1:
            joined: Any = self._context.fabric.all_reduce(totals, reduce_op="mean")
            totals = joined
        means = {name: total.item() / self._steps for name, total in totals.items()}
        if not all(math.isfinite(mean) for mean in means.values()):
            where = f"phase {self._phase}, stage {stage.name}, epoch {epoch + 1}"
            raise InputError(f"train.lr: training diverged in {where}; expected a lower rate than {stage.lr:g}")
        seconds = time.perf_counter() - started
        self._context.emit(
            EpochEnded(self._phase, stage.name, epoch + 1, stage.epochs, len(stage.samples), means, seconds)
        )

    def _step_on(self, inputs: Tensor, labels: Tensor, own: "Shard", epoch: int) -> dict[str, Tensor]:
        """One optimiser step; returns the detached loss terms."""
        stage, fabric = self._stage, self._context.fabric
        self._set_lr(epoch)
        terms = stage.objective(self._module(inputs), labels, self._teacher_output(inputs))
        if fabric.world_size > 1:
            terms = {name: own.weight(stage.counted.get(name)) * term for name, term in terms.items()}
        self._optimizer.zero_grad()
        fabric.backward(torch.stack(tuple(terms.values())).sum())
        if stage.clamp is not None:  # through Fabric, which unscales fp16 gradients first
            fabric.clip_gradients(self._module, self._optimizer, clip_val=stage.clamp)
        self._optimizer.step()
        _project(stage.groups)
        return {name: term.detach() for name, term in terms.items()}

    def _state(self, done: int, totals: dict[str, Tensor]) -> EpochState:
        """The epoch after so many steps."""
        cuda = self._context.fabric.device.type == "cuda"
        noise = torch.cuda.get_rng_state(self._context.fabric.device) if cuda else torch.default_generator.get_state()
        return EpochState(done, totals, self._draws.get_state(), noise)

    @contextmanager
    def _seeded(self, epoch: int, begun: EpochState | None) -> Iterator[None]:
        """Seeds the network's own randomness, such as dropout, from the run's streams."""
        fabric, name = self._context.fabric, f"{self._stage.name}/network/{self._context.fabric.global_rank}"
        with torch.random.fork_rng(devices=[fabric.device] if fabric.device.type == "cuda" else []):
            seed = self._context.streams.integer(self._phase, name, epoch)
            # Not torch.manual_seed, which also prepares unused devices: 2 ms, more than a small step.
            torch.default_generator.manual_seed(seed)
            if fabric.device.type == "cuda":
                torch.cuda.manual_seed(seed)
                if begun is not None:
                    torch.cuda.set_rng_state(begun.noise, fabric.device)
            elif begun is not None:
                torch.default_generator.set_state(begun.noise)
            yield

    def _batches(self, order: np.random.Generator | None) -> Iterator[Samples]:
        """The global batches of one epoch, over all processes."""
        world = self._context.fabric.world_size
        return batches(self._stage.samples, self._context.settings.batch_size, order, world=world, each=self._each)

    def _inputs(self, epoch: int, begun: EpochState | None) -> Iterator[tuple[int, tuple[Tensor, Tensor, "Shard"]]]:
        """An epoch of numbered batches, from 1: augmented inputs and labels, this process's shard of each."""
        name, context, fabric = self._stage.name, self._context, self._context.fabric
        first = 0 if begun is None else begun.batch
        parts = list(self._batches(context.streams.numpy(self._phase, f"{name}/order", epoch)))[first:]
        shards = [shard(len(part), fabric.global_rank, fabric.world_size) for part in parts]
        own = (part.take(places) for part, places in zip(parts, shards, strict=True))
        self._draws.manual_seed(context.streams.integer(self._phase, f"{name}/augment", epoch))
        if begun is not None:
            self._draws.set_state(begun.draws)
        read = prefetched(self._reader, own)
        batches_read = zip(parts, shards, read, strict=True)
        for done, (part, places, (values, labels)) in enumerate(batches_read, start=first + 1):
            images = fabric.to_device(torch.from_numpy(values))
            inputs = augment(images, context.plan, self._draws, start=places.start, batch=len(part))
            taken = Shard(part.labels, places, fabric.world_size)
            yield done, (inputs, fabric.to_device(torch.from_numpy(labels)), taken)

    def _set_lr(self, epoch: int) -> None:
        factor = self._scale * self._factor(self.step, epoch)
        for group in self._optimizer.param_groups:
            group["lr"] = group["peak"] * factor
        self.step += 1

    def _factor(self, step: int, epoch: int) -> float:
        """The schedule's factor at a step of an epoch."""
        stage, settings = self._stage, self._context.settings
        steps = stage.epochs * self._steps
        return lr_factor(stage.schedule, settings, step=step, steps=steps, epoch=epoch, epochs=stage.epochs)

    def _total_factor(self) -> float:
        """The sum of the schedule's factors over all steps of the stage."""
        return sum(self._factor(step, step // self._steps) for step in range(self._stage.epochs * self._steps))

    def _teacher_output(self, inputs: Tensor) -> Output | None:
        if self._teacher is None:
            return None
        # Entering autocast takes as long as a small step, even if it changes nothing.
        autocast = nullcontext() if self._context.settings.precision == "fp32" else self._context.fabric.autocast()
        with torch.no_grad(), autocast:
            output: Output = self._teacher(inputs)
        return output


@dataclass(frozen=True)
class Shard:
    """One process's part of a batch."""

    batch: IntArray  # labels of the whole batch
    places: slice
    world: int

    def weight(self, marks: Marks | None) -> float:
        """The factor of a mean over this shard. Processes average their gradients, so a mean over more samples must
        weigh more."""
        counts = np.ones(len(self.batch), np.bool_) if marks is None else marks(self.batch)
        return self.world * int(counts[self.places].sum()) / max(1, int(counts.sum()))


def build_optimizer(stage: Stage, settings: TrainSettings) -> torch.optim.Optimizer:
    """A new optimiser for a stage; no momentum is carried over from earlier stages."""
    groups = [
        {
            "params": list(group.parameters),
            "lr": stage.lr * group.lr_scale,
            "peak": stage.lr * group.lr_scale,
            "weight_decay": settings.weight_decay if group.weight_decay is None else group.weight_decay,
        }
        for group in stage.groups
    ]
    if settings.optimizer.lower() == "sgd":
        return torch.optim.SGD(groups, momentum=settings.momentum, nesterov=settings.nesterov and settings.momentum > 0)
    return optimizer_class(settings.optimizer)(groups, **settings.options)


def check_optimizer(settings: TrainSettings) -> None:
    """Raises before training if the optimiser cannot be built or cannot train a network."""
    name, options = settings.optimizer, settings.options
    if name.lower() == "sgd":
        if options:
            raise InputError(f"train.options: {options} given; sgd takes train.momentum, train.nesterov and no options")
        return
    make = optimizer_class(name)
    weight = torch.nn.Parameter(torch.ones(2, 2))
    try:
        optimizer = make([{"params": [weight], "lr": settings.lr}], **options)
        weight.sum().backward()
        for lr in (settings.lr, 0.0):  # schedules end near zero
            optimizer.param_groups[0]["lr"] = lr
            optimizer.step()
    except Exception as error:  # an optimiser can raise anything
        first = str(error).splitlines()[0]
        raise InputError(
            f"train.optimizer: '{name}' with options {options} cannot train a network ({first})"
        ) from error


def optimizer_class(name: str) -> Callable[..., torch.optim.Optimizer]:
    """The class of this name in torch.optim, ignoring case."""
    known = {
        key.lower(): value
        for key, value in vars(torch.optim).items()
        if isinstance(value, type) and issubclass(value, torch.optim.Optimizer) and value is not torch.optim.Optimizer
    }
    if name.lower() not in known:
        raise InputError(f"train.optimizer: '{name}' given, expected one of {', '.join(sorted(known))}")
    return known[name.lower()]


def _set_up(
    network: Network, optimizer: torch.optim.Optimizer, context: TrainContext
) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    """Wraps network and optimiser with Fabric, unless plain fp32 on one CPU process makes the wrappers useless."""
    if context.settings.precision == "fp32" and context.fabric.world_size == 1 and context.fabric.device.type == "cpu":
        return network, optimizer
    module, wrapped = context.fabric.setup(network, optimizer)
    return module, wrapped


def _choose_parameters(stage: Stage, network: Network) -> None:
    """Enables gradients for the stage's parameters and freezes all others."""
    chosen = {id(parameter) for group in stage.groups for parameter in group.parameters}
    for parameter in network.parameters():
        parameter.requires_grad_(id(parameter) in chosen)


def _project(groups: tuple[ParameterGroup, ...]) -> None:
    """Moves parameters that have bounds to the nearest values inside them."""
    with torch.no_grad():
        for group in groups:
            if group.bounds is not None:
                for parameter in group.parameters:
                    parameter.clamp_(*group.bounds)


def _has_batch_norm(network: Network) -> bool:
    return any(isinstance(part, torch.nn.modules.batchnorm._BatchNorm) for part in network.modules())


def _synchronise_statistics(network: Network, fabric: "Fabric") -> None:
    """Copies the first process's batch-norm statistics to all processes, since each has seen other samples."""
    if fabric.world_size > 1:
        for buffer in network.buffers():
            buffer.copy_(fabric.broadcast(buffer, src=0))
