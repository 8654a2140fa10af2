"""loop.py with several processes, which share every batch: weights of losses, statistics, and what they report."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from remem.data.augment import AugmentPlan
from remem.events import Emit, Event, ignore
from remem.methods import loop
from remem.methods.events import EpochEnded
from remem.methods.loop import Shard, TrainContext, run_stage
from remem.methods.settings import TrainSettings
from remem.methods.stage import Objective, Stage, group, whole
from remem.nets.network import Network, build_network
from remem.nets.settings import HeadSettings, NetSettings
from remem.seeding import Streams
from remem.types import IntArray, Samples, Values

CLASSES, SIZE = 3, 4


class Table:
    """A reader of vectors that records the rows of every batch."""

    def __init__(self, values: Values) -> None:
        self.values = values
        self.asked: list[list[int]] = []

    def read(self, rows: IntArray) -> Values:
        self.asked.append(rows.tolist())
        return np.asarray(self.values[rows])


def toy(count: int) -> tuple[Table, Samples]:
    values = np.random.default_rng(0).standard_normal((count, SIZE)).astype(np.float32)
    return Table(values), Samples(np.arange(count), np.arange(count) % CLASSES)


def linear(hidden: tuple[int, ...] = (), *, batch_norm: bool = False) -> Network:
    net = NetSettings(name="mlp", hidden=hidden, width=5, batch_norm=batch_norm)
    network = build_network(net, (SIZE,), HeadSettings(name="linear"), 7)
    network.head.grow(CLASSES, torch.Generator().manual_seed(8))
    return network


def run(stage: Stage, network: Network, table: Table, fabric: Any, *, batch_size: int = 8, emit: Emit = ignore) -> None:
    """Trains a stage in one of several processes."""
    context = TrainContext(TrainSettings(batch_size=batch_size), AugmentPlan(), fabric, Streams(11), emit)
    run_stage(stage, network, table, context, phase=0, teacher=None)


def constant(value: float) -> Objective:
    """An objective of one term with this value and no gradient."""
    return lambda output, labels, teacher: {"one": value + 0.0 * output.logits.sum()}


def staged(network: Network, samples: Samples, value: float = 1.0) -> Stage:
    """One epoch."""
    return Stage("main", samples, constant(value), whole(network), epochs=1, lr=0.2, schedule="constant")


class FirstOfTwo:
    """A fake Fabric of the first of two processes; records the losses."""

    global_rank, world_size, device = 0, 2, torch.device("cpu")

    def __init__(self) -> None:
        self.losses: list[float] = []

    def setup(self, module: Any, optimizer: Any) -> tuple[Any, Any]:
        return module, optimizer

    def to_device(self, value: Tensor) -> Tensor:
        return value

    def backward(self, value: Tensor) -> None:
        self.losses.append(value.item())
        value.backward()

    def broadcast(self, value: Tensor, src: int) -> Tensor:
        return value

    def all_reduce(self, values: dict[str, Tensor], reduce_op: str) -> dict[str, Tensor]:
        return values


@pytest.mark.parametrize("batch_norm", [True, False])
@pytest.mark.parametrize("rest", [0, 1, 2, 3, 4, 7])
def test_shards_are_weighted_by_their_size(rest: int, batch_norm: bool) -> None:
    """With batch norm, a last batch of 2 or 3 is too small for two processes and is merged; otherwise two processes
    train on the same batches as one."""
    table, samples = toy(18 + rest)
    fabric, network = FirstOfTwo(), linear(hidden=(6,), batch_norm=batch_norm)
    run(staged(network, samples), network, table, fabric, batch_size=9)
    sizes = [9, 9 + rest] if rest < (4 if batch_norm else 2) else [9, 9, rest]
    # Gradients are averaged over processes, so weights of 2 x shard / batch give the mean over the whole batch.
    assert fabric.losses == pytest.approx([2 * (size // 2) / size for size in sizes if size])
    assert [len(rows) for rows in table.asked] == [size // 2 for size in sizes]


def test_a_mean_over_some_samples_is_weighted_by_their_number() -> None:
    """Three samples of class 0 or 1 in the batch, two of them in the first half and one in the second."""
    labels = np.array([0, 1, 5, 0, 6, 7])
    halves = [Shard(labels, places, 2) for places in (slice(0, 3), slice(3, 6))]
    assert [half.weight(lambda labels: labels < 2) for half in halves] == [2 * 2 / 3, 2 * 1 / 3]
    assert [half.weight(lambda labels: labels < 0) for half in halves] == [0, 0]  # no samples: the term is zero anyway
    assert [half.weight(None) for half in halves] == [1, 1]


def test_the_mean_of_all_processes_is_reported() -> None:
    """Two batches of 8. Here every loss is 3; in the other process it is 1."""

    class Averaging(FirstOfTwo):
        def all_reduce(self, values: dict[str, Tensor], reduce_op: str) -> dict[str, Tensor]:
            assert reduce_op == "mean"
            assert {name: value.item() for name, value in values.items()} == {"one": 3.0 + 3.0}
            return {name: (value + 2.0) / 2 for name, value in values.items()}

    emitted: list[Event] = []
    table, samples = toy(16)
    network = linear()
    run(staged(network, samples, 3.0), network, table, Averaging(), emit=emitted.append)
    (event,) = emitted
    assert isinstance(event, EpochEnded)
    assert event.loss == {"one": 2.0}


def test_the_first_process_hands_its_statistics_to_all() -> None:
    class Sending(FirstOfTwo):
        def broadcast(self, value: Any, src: int) -> Any:
            assert src == 0
            return torch.full_like(value, 5) if isinstance(value, Tensor) else value

    table, samples = toy(16)
    network = linear(hidden=(6,), batch_norm=True)
    run(staged(network, samples), network, table, Sending())
    buffers = dict(network.named_buffers())
    assert {"backbone.levels.0.1.running_mean", "backbone.levels.0.1.running_var"} <= buffers.keys()
    assert all((buffer == 5).all() for buffer in buffers.values())


def test_processes_are_set_up_with_the_parameters_that_the_stage_trains() -> None:
    """DDP exchanges the gradients of those parameters that need one when it wraps the network."""
    chosen: list[set[str]] = []

    class Wrapping(FirstOfTwo):
        def setup(self, module: Any, optimizer: Any) -> tuple[Any, Any]:
            chosen.append({name for name, parameter in module.named_parameters() if parameter.requires_grad})
            return module, optimizer

    table, samples = toy(16)
    network = linear()
    stage = replace(staged(network, samples), groups=group(network.head.new_parameters()))
    run(stage, network, table, Wrapping())
    assert chosen == [{"head.new", "head.new_bias"}]


def test_processes_draw_the_augmentation_of_the_whole_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 9 samples, the first process takes 4 and the second 5; both know their place in the batch."""
    asked: list[tuple[int, int, int]] = []

    def spy(images: Tensor, plan: AugmentPlan, draws: torch.Generator, *, start: int, batch: int) -> Tensor:
        asked.append((len(images), start, batch))
        return images

    monkeypatch.setattr(loop, "augment", spy)
    table, samples = toy(9)
    for rank in (0, 1):
        fabric, network = FirstOfTwo(), linear()
        fabric.global_rank = rank
        run(staged(network, samples), network, table, fabric, batch_size=9)
    assert asked == [(4, 0, 9), (5, 4, 9)]
