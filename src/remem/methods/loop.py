"""The only training loop: runs one Stage over Fabric. It knows no method, no memory and no data set."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor

from remem.data.augment import AugmentPlan, augment
from remem.data.batches import batches, prefetched
from remem.errors import InputError
from remem.methods.schedule import rate_factor
from remem.methods.settings import TrainSettings
from remem.methods.stage import Stage
from remem.nets.network import Network
from remem.seeding import Streams
from remem.types import Reader

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
    settings, fabric = shop.settings, shop.fabric
    _choose_parameters(stage, network)
    module, optimizer = fabric.setup(network, build_optimizer(stage, settings))
    sizes = [len(part) for part in batches(stage.samples, settings.batch_size, None)]  # of the global batches
    steps, step = stage.epochs * len(sizes), 0
    for epoch in range(stage.epochs):
        started = time.perf_counter()
        module.train(stage.updates_statistics)
        totals: dict[str, Tensor] = {}
        for size, (inputs, labels) in zip(sizes, _pictures(stage, reader, shop, phase, epoch), strict=True):
            factor = rate_factor(stage.schedule, settings, step=step, steps=steps, epoch=epoch, epochs=stage.epochs)
            for group in optimizer.param_groups:
                group["lr"] = group["peak"] * factor
            advice = _ask(teacher, inputs, fabric) if stage.needs_teacher else None
            terms = stage.objective(module(inputs), labels, advice)
            optimizer.zero_grad()
            # Processes average their gradients; a slice that is larger than another must weigh more.
            weight = len(labels) * fabric.world_size / size
            fabric.backward(torch.stack(tuple(terms.values())).sum() * weight)
            optimizer.step()
            for name, term in terms.items():  # added up on the device: reading a value here would make every step wait
                totals[name] = term.detach() + totals.get(name, 0.0)
            step += 1
        means = {name: total.item() / len(sizes) for name, total in totals.items()}
        shop.report(
            {"event": "epoch", "phase": phase, "stage": stage.name, "epoch": epoch + 1, "epochs": stage.epochs}
            | {"samples": len(stage.samples), "loss": means, "seconds": time.perf_counter() - started}
        )
    _agree(network, fabric)


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
    if settings.optimizer == "sgd":
        return torch.optim.SGD(groups, momentum=settings.momentum, nesterov=settings.nesterov and settings.momentum > 0)
    return optimizer_class(settings.optimizer)(groups, **settings.options)


def optimizer_class(name: str) -> Callable[..., torch.optim.Optimizer]:
    """torch.optim's class of this name, whatever its capitals."""
    known = {
        key.lower(): value
        for key, value in vars(torch.optim).items()
        if isinstance(value, type) and issubclass(value, torch.optim.Optimizer) and value is not torch.optim.Optimizer
    }
    if name not in known:
        raise InputError(f"train.optimizer: '{name}' given, expected one of {', '.join(sorted(known))}")
    return known[name]


def _choose_parameters(stage: Stage, network: Network) -> None:
    """Only the stage's own parameters ask for gradients: the rest is frozen, and costs nothing."""
    chosen = {id(parameter) for group in stage.groups for parameter in group.parameters}
    for parameter in network.parameters():
        parameter.requires_grad_(id(parameter) in chosen)


def _pictures(stage: Stage, reader: Reader, shop: Workshop, phase: int, epoch: int) -> Any:
    """One epoch of augmented inputs and labels on the device; with several processes, this one's slices."""
    fabric = shop.fabric
    order = shop.streams.numpy(phase, f"{stage.name}/order", epoch)
    draws = torch.Generator().manual_seed(
        shop.streams.integer(phase, f"{stage.name}/augment/{fabric.global_rank}", epoch)
    )
    size = shop.settings.batch_size
    shares = batches(stage.samples, size, order, rank=fabric.global_rank, world=fabric.world_size)
    for values, labels in prefetched(reader, shares):
        inputs = augment(fabric.to_device(torch.from_numpy(values)), shop.plan, draws)
        yield inputs, fabric.to_device(torch.from_numpy(labels))


def _ask(teacher: Network | None, inputs: Tensor, fabric: Fabric) -> Any:
    if teacher is None:
        return None
    with torch.no_grad(), fabric.autocast():
        return teacher(inputs)


def _agree(network: Network, fabric: Fabric) -> None:
    """Batch-norm statistics of several processes differ after their last step: all take the first one's."""
    if fabric.world_size > 1:
        for buffer in network.buffers():
            buffer.copy_(fabric.broadcast(buffer, src=0))
