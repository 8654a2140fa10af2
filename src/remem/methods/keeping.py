"""Training that can be saved between any two steps: the state inside a phase, and who decides when it is saved."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

from remem.interrupts import request as request_stop
from remem.interrupts import requested, stop_if_requested
from remem.storage.tensorfile import Snapshot
from remem.types import Json

if TYPE_CHECKING:  # a model predicts without Fabric, which takes as long to import as torch
    from lightning_fabric import Fabric


class Keeper(Protocol):
    """Decides when training is saved inside a phase, and keeps what is saved."""

    def resume(self, phase: int) -> Snapshot | None:
        """What was saved inside this phase before a stop; given away once."""

    def due(self) -> bool:
        """Whether it is time to save."""

    def save(self, snapshot: Snapshot) -> None:
        """Called in all processes; the first one writes."""


@dataclass(frozen=True)
class EpochState:
    """An epoch after some of its steps."""

    batch: int  # steps done
    totals: Mapping[str, Tensor]  # sums of the loss terms so far
    draws: Tensor  # state of the generator of augmentations
    noise: Tensor  # state of the network's own randomness, such as dropout, in this process


@dataclass(frozen=True)
class Place:
    """Where a phase stands: which stage, which epoch, and which of two alternating stages."""

    phase: int
    stage: int
    epoch: int
    runner: int


def save_if_due(keeper: Keeper, fabric: "Fabric") -> tuple[bool, int]:
    """Whether to save now, and the signal that asks to stop (0: none). All processes get the same answer."""
    wanted = [int(keeper.due()), requested() or 0]
    if fabric.world_size > 1:
        flags = torch.tensor(wanted, device=fabric.device)
        torch.distributed.all_reduce(flags, op=torch.distributed.ReduceOp.MAX)
        wanted = flags.tolist()
    due, number = wanted
    return bool(due or number), number


def stop(number: int) -> None:
    """Stops this process as the signal asks, also where another process has got it."""
    request_stop(number)
    stop_if_requested()


def snapshot_of(
    place: Place,
    state: EpochState,
    network: torch.nn.Module,
    optimizers: Sequence[torch.optim.Optimizer],
    steps: Sequence[int],
    fabric: "Fabric",
) -> Snapshot:
    """All that training needs to go on from here to the bit. All processes must call it."""
    numbers: list[Json] = []
    tensors = {f"network/{name}": value for name, value in network.state_dict().items()}
    for runner, optimizer in enumerate(optimizers):
        moments, plain = _moments(optimizer)
        tensors |= {f"optimizer/{runner}/{name}": value for name, value in moments.items()}
        numbers.append(plain)
    tensors |= {f"totals/{name}": value for name, value in state.totals.items()}
    tensors["draws"] = state.draws
    for rank, noise in enumerate(_gathered(state.noise, fabric)):
        tensors[f"ranks/{rank}/noise"] = noise
    if fabric.world_size > 1:  # every process has its own statistics of batch norm until the end of a stage
        for name, buffer in network.named_buffers():
            tensors |= {f"ranks/{r}/buffer/{name}": value for r, value in enumerate(_gathered(buffer, fabric))}
    facts = {**vars(place), "batch": state.batch, "steps": list(steps), "optimizers": numbers}
    return Snapshot(facts, {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()})


def restore(
    snapshot: Snapshot, network: torch.nn.Module, optimizers: Sequence[torch.optim.Optimizer], fabric: "Fabric"
) -> EpochState:
    """Loads what `snapshot_of` has saved; returns the epoch that was going on."""
    tensors, rank = snapshot.tensors, fabric.global_rank
    network.load_state_dict(below("network/", tensors))
    buffers = below(f"ranks/{rank}/buffer/", tensors)
    with torch.no_grad():
        for name, buffer in network.named_buffers():
            if name in buffers:
                buffer.copy_(buffers[name])
    for runner, optimizer in enumerate(optimizers):
        _load_moments(optimizer, below(f"optimizer/{runner}/", tensors), snapshot.facts["optimizers"][runner])
    totals = {name: value.to(fabric.device) for name, value in below("totals/", tensors).items()}
    return EpochState(snapshot.facts["batch"], totals, tensors["draws"], tensors[f"ranks/{rank}/noise"])


def below(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Those whose names begin so, by the rest of their names."""
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def _gathered(value: Tensor, fabric: "Fabric") -> list[Tensor]:
    """The value of every process."""
    if fabric.world_size == 1:
        return [value]
    own = value.to(fabric.device).contiguous()
    others = [torch.empty_like(own) for _ in range(fabric.world_size)]
    torch.distributed.all_gather(others, own)
    return others


def _moments(optimizer: torch.optim.Optimizer) -> tuple[dict[str, Tensor], Json]:
    """The optimiser's state: tensors by parameter and name, and its plain numbers."""
    tensors: dict[str, Tensor] = {}
    plain: Json = {}
    for parameter, values in optimizer.state_dict()["state"].items():
        for name, value in values.items():
            (tensors if isinstance(value, Tensor) else plain)[f"{parameter}/{name}"] = value
    return tensors, plain


def _load_moments(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor], plain: Mapping[str, Any]) -> None:
    tree = optimizer.state_dict()
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for key, value in {**tensors, **plain}.items():
        place, _, name = key.partition("/")
        if isinstance(value, Tensor) and value.shape == parameters[int(place)].shape:
            value = torch.empty_like(parameters[int(place)], dtype=value.dtype).copy_(value)  # in the same layout
        tree["state"].setdefault(int(place), {})[name] = value
    optimizer.load_state_dict(tree)
