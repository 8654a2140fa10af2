"""The only training loop: runs one Stage over Fabric. It knows no method, no memory and no data set."""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from lightning_fabric import Fabric
from torch import Tensor

from remem.data.augment import AugmentPlan, augment
from remem.data.batches import SMALLEST, batches, prefetched, share
from remem.errors import InputError
from remem.methods.schedule import rate_factor
from remem.methods.settings import TrainSettings
from remem.methods.stage import Marks, Stage
from remem.nets.contract import Output
from remem.nets.network import Network
from remem.seeding import Streams
from remem.types import IntArray, Reader, Samples

Report = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class Workshop:
    """What every stage of an episode shares: settings, pictures, devices, random streams and who is told."""

    settings: TrainSettings
    plan: AugmentPlan
    fabric: Fabric
    streams: Streams
    report: Report


def run_stage(
    stage: Stage, network: Network, reader: Reader, shop: Workshop, *, phase: int, teacher: Network | None
) -> None:
    """Trains the stage's parameters on its samples, all epochs; everything random derives from `shop.streams`."""
    work = Work(stage, network, reader, shop, phase, teacher)
    other = None if stage.after_epoch is None else Work(stage.after_epoch, network, reader, shop, phase, teacher)
    for epoch in range(stage.epochs):
        work.epoch(epoch)
        if other is not None:
            other.epoch(epoch)
    _agree(network, shop.fabric)


class Work:
    """A stage under way: its optimiser, and how many steps it has taken."""

    def __init__(
        self, stage: Stage, network: Network, reader: Reader, shop: Workshop, phase: int, teacher: Network | None
    ) -> None:
        self._stage, self._network, self._reader, self._shop = stage, network, reader, shop
        self._phase, self._teacher = phase, teacher if stage.needs_teacher else None
        _choose_parameters(stage, network)
        self._module, self._optimizer = _set_up(network, build_optimizer(stage, shop.settings), shop)
        self._each = SMALLEST if stage.updates_statistics and _has_batch_norm(network) else 1
        self._steps = sum(1 for _ in self._batches(None))  # in an epoch
        self._step = 0

    def epoch(self, epoch: int) -> None:
        """One pass over the samples."""
        stage, started = self._stage, time.perf_counter()
        _choose_parameters(stage, self._network)
        # A single sample has no variance: batch norm then keeps the statistics that it has.
        self._module.train(stage.updates_statistics and len(stage.samples) > 1)
        totals: dict[str, Tensor] = {}
        with self._seeded(epoch):
            for inputs, labels, mine in self._pictures(epoch):
                for name, term in self._step_on(inputs, labels, mine, epoch).items():
                    totals[name] = term + totals.get(name, 0.0)  # on the device: reading a value makes a step wait
        if self._shop.fabric.world_size > 1:
            joined: Any = self._shop.fabric.all_reduce(totals, reduce_op="mean")
            totals = joined
        means = {name: total.item() / self._steps for name, total in totals.items()}
        if not all(math.isfinite(mean) for mean in means.values()):
            where = f"phase {self._phase}, stage {stage.name}, epoch {epoch + 1}"
            raise InputError(f"train.rate: training diverged in {where}; expected a lower rate than {stage.rate:g}")
        self._shop.report(
            {"event": "epoch", "phase": self._phase, "stage": stage.name, "epoch": epoch + 1, "epochs": stage.epochs}
            | {"samples": len(stage.samples), "loss": means, "seconds": time.perf_counter() - started}
        )

    def _step_on(self, inputs: Tensor, labels: Tensor, mine: "Share", epoch: int) -> dict[str, Tensor]:
        """One step of the optimiser; the loss terms, detached."""
        stage, fabric = self._stage, self._shop.fabric
        self._set_rates(epoch)
        terms = stage.objective(self._module(inputs), labels, self._ask(inputs))
        if fabric.world_size > 1:
            terms = {name: mine.weight(stage.counted.get(name)) * term for name, term in terms.items()}
        self._optimizer.zero_grad()
        fabric.backward(torch.stack(tuple(terms.values())).sum())
        if stage.clamp is not None:  # through Fabric, which undoes the scaling of fp16 first
            fabric.clip_gradients(self._module, self._optimizer, clip_val=stage.clamp)
        self._optimizer.step()
        return {name: term.detach() for name, term in terms.items()}

    @contextmanager
    def _seeded(self, epoch: int) -> Iterator[None]:
        """Whatever a network draws by itself (dropout) derives from the run's streams too."""
        fabric, name = self._shop.fabric, f"{self._stage.name}/network/{self._shop.fabric.global_rank}"
        with torch.random.fork_rng(devices=[fabric.device] if fabric.device.type == "cuda" else []):
            seed = self._shop.streams.integer(self._phase, name, epoch)
            # torch.manual_seed would also note for devices that nobody uses who called it: 2 ms, more than a small step
            torch.default_generator.manual_seed(seed)
            if fabric.device.type == "cuda":
                torch.cuda.manual_seed(seed)
            yield

    def _batches(self, order: np.random.Generator | None) -> Iterator[Samples]:
        """One epoch's batches of all processes together."""
        world = self._shop.fabric.world_size
        return batches(self._stage.samples, self._shop.settings.batch_size, order, world=world, each=self._each)

    def _pictures(self, epoch: int) -> Iterator[tuple[Tensor, Tensor, "Share"]]:
        """One epoch of augmented inputs and labels; with several processes, this one's share of each batch."""
        name, shop, fabric = self._stage.name, self._shop, self._shop.fabric
        parts = list(self._batches(shop.streams.numpy(self._phase, f"{name}/order", epoch)))
        shares = [share(len(part), fabric.global_rank, fabric.world_size) for part in parts]
        mine = (part.take(places) for part, places in zip(parts, shares, strict=True))
        draws = torch.Generator().manual_seed(shop.streams.integer(self._phase, f"{name}/augment", epoch))
        read = prefetched(self._reader, mine)
        for part, places, (values, labels) in zip(parts, shares, read, strict=True):
            images = fabric.to_device(torch.from_numpy(values))
            inputs = augment(images, shop.plan, draws, start=places.start, batch=len(part))
            yield inputs, fabric.to_device(torch.from_numpy(labels)), Share(part.labels, places, fabric.world_size)

    def _set_rates(self, epoch: int) -> None:
        stage, steps = self._stage, self._stage.epochs * self._steps
        settings, step = self._shop.settings, self._step
        factor = rate_factor(stage.schedule, settings, step=step, steps=steps, epoch=epoch, epochs=stage.epochs)
        for group in self._optimizer.param_groups:
            group["lr"] = group["peak"] * factor
        self._step += 1

    def _ask(self, inputs: Tensor) -> Output | None:
        if self._teacher is None:
            return None
        # Entering a context that changes nothing costs as much as a small step.
        casting = nullcontext() if self._shop.settings.precision == "fp32" else self._shop.fabric.autocast()
        with torch.no_grad(), casting:
            advice: Output = self._teacher(inputs)
        return advice


@dataclass(frozen=True)
class Share:
    """What one of several processes has of a batch."""

    batch: IntArray  # labels of the whole batch
    places: slice
    world: int

    def weight(self, marks: Marks | None) -> float:
        """What a mean over this share must be multiplied with: processes average their gradients, so that a mean over
        more samples than another process has must weigh more."""
        counts = np.ones(len(self.batch), np.bool_) if marks is None else marks(self.batch)
        return self.world * int(counts[self.places].sum()) / max(1, int(counts.sum()))


def build_optimizer(stage: Stage, settings: TrainSettings) -> torch.optim.Optimizer:
    """The optimiser of a stage, fresh: no momentum is carried from one stage to the next."""
    groups = [
        {
            "params": list(group.parameters),
            "lr": stage.rate * group.rate_scale,
            "peak": stage.rate * group.rate_scale,
            "weight_decay": settings.weight_decay if group.weight_decay is None else group.weight_decay,
        }
        for group in stage.groups
    ]
    if settings.optimizer.lower() == "sgd":
        return torch.optim.SGD(groups, momentum=settings.momentum, nesterov=settings.nesterov and settings.momentum > 0)
    return optimizer_class(settings.optimizer)(groups, **settings.options)


def check_optimizer(settings: TrainSettings) -> None:
    """An optimiser that cannot be made, or cannot train a network, is said to be so before any training."""
    name, options = settings.optimizer, settings.options
    if name.lower() == "sgd":
        if options:
            raise InputError(f"train.options: {options} given; sgd takes train.momentum, train.nesterov and no options")
        return
    make = optimizer_class(name)
    weight = torch.nn.Parameter(torch.ones(2, 2))
    try:
        optimizer = make([{"params": [weight], "lr": settings.rate}], **options)
        weight.sum().backward()
        for rate in (settings.rate, 0.0):  # schedules end near nothing
            optimizer.param_groups[0]["lr"] = rate
            optimizer.step()
    except Exception as error:  # whatever an optimiser of torch or of somebody else may raise
        first = str(error).splitlines()[0]
        raise InputError(
            f"train.optimizer: '{name}' with options {options} cannot train a network ({first})"
        ) from error


def optimizer_class(name: str) -> Callable[..., torch.optim.Optimizer]:
    """torch.optim's class of this name, whatever its capitals."""
    known = {
        key.lower(): value
        for key, value in vars(torch.optim).items()
        if isinstance(value, type) and issubclass(value, torch.optim.Optimizer) and value is not torch.optim.Optimizer
    }
    if name.lower() not in known:
        raise InputError(f"train.optimizer: '{name}' given, expected one of {', '.join(sorted(known))}")
    return known[name.lower()]


def _set_up(
    network: Network, optimizer: torch.optim.Optimizer, shop: Workshop
) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    """Through Fabric for mixed precision and several processes; else its wrappers only cost time."""
    if shop.settings.precision == "fp32" and shop.fabric.world_size == 1 and shop.fabric.device.type == "cpu":
        return network, optimizer
    module, wrapped = shop.fabric.setup(network, optimizer)
    return module, wrapped


def _choose_parameters(stage: Stage, network: Network) -> None:
    """Only the stage's own parameters ask for gradients: the rest is frozen, and costs nothing."""
    chosen = {id(parameter) for group in stage.groups for parameter in group.parameters}
    for parameter in network.parameters():
        parameter.requires_grad_(id(parameter) in chosen)


def _has_batch_norm(network: Network) -> bool:
    return any(isinstance(part, torch.nn.modules.batchnorm._BatchNorm) for part in network.modules())


def _agree(network: Network, fabric: Fabric) -> None:
    """Batch-norm statistics of several processes differ after their last step: all take the first one's."""
    if fabric.world_size > 1:
        for buffer in network.buffers():
            buffer.copy_(fabric.broadcast(buffer, src=0))
