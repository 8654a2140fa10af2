"""loop.py: one stage against a training loop written by hand, and which parameters it changes."""

import copy
import json
import math
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from lightning_fabric import Fabric
from torch import Tensor

from remem.data.augment import AugmentPlan
from remem.errors import InputError
from remem.events import Emit, Event, ignore
from remem.methods import loop
from remem.methods.events import EpochEnded
from remem.methods.loop import TrainContext, build_optimizer, optimizer_class, run_stage
from remem.methods.losses import classify
from remem.methods.settings import TrainSettings
from remem.methods.stage import Losses, ParameterGroup, Stage, group, whole
from remem.nets.base import Output
from remem.nets.network import Network, build_network
from remem.nets.settings import HeadSettings, NetSettings
from remem.seeding import Streams
from remem.types import IntArray, Samples, Values

CLASSES, SIZE = 3, 4
STREAMS = Streams(11)


class Table:
    """A reader of vectors that records the rows of every batch."""

    def __init__(self, values: Values) -> None:
        self.values = values
        self.asked: list[list[int]] = []

    def read(self, rows: IntArray) -> Values:
        self.asked.append(rows.tolist())
        return np.asarray(self.values[rows])


def toy(count: int = 37) -> tuple[Table, Samples]:
    """Vectors whose label is the index of the largest of the first entries, so that a linear network can learn it."""
    values = np.random.default_rng(0).standard_normal((count, SIZE)).astype(np.float32)
    return Table(values), Samples(np.arange(count), values[:, :CLASSES].argmax(axis=1))


def linear(hidden: tuple[int, ...] = (), *, batch_norm: bool = False) -> Network:
    net = NetSettings(name="mlp", hidden=hidden, width=5, batch_norm=batch_norm)
    network = build_network(net, (SIZE,), HeadSettings(name="linear"), 7)
    network.head.grow(CLASSES, torch.Generator().manual_seed(8))
    return network


def train_context(emit: Emit = ignore, **settings: Any) -> TrainContext:
    train = TrainSettings(**{"batch_size": 8, "weight_decay": 0.01, **settings})
    fabric = Fabric(accelerator="cpu", devices=1)
    return TrainContext(train, AugmentPlan(), fabric, STREAMS, emit)


def loss(output: Output, labels: Tensor, teacher: Output | None) -> Losses:
    return {"classify": classify(output.logits, labels)}


def staged(network: Network, samples: Samples, **changes: Any) -> Stage:
    stage = Stage("main", samples, loss, whole(network), epochs=4, lr=0.2, schedule="step")
    return replace(stage, **changes)


def weights(network: Network) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in network.state_dict().items()}


def moved(before: dict[str, Tensor], network: Network) -> set[str]:
    return {name for name, value in network.state_dict().items() if not torch.equal(before[name], value)}


def hand_loop(network: Network, table: Table, samples: Samples, cuts: Iterable[tuple[int, int]]) -> Network:
    """Four epochs of SGD on two linear layers; from epoch 2 on, the learning rate is a tenth."""
    done = copy.deepcopy(network)
    parameters = dict(done.named_parameters())
    weight, bias = parameters["backbone.levels.0.0.weight"], parameters["backbone.levels.0.0.bias"]
    rows, row_bias = parameters["head.new"], parameters["head.new_bias"]
    optimizer = torch.optim.SGD([weight, bias, rows, row_bias], lr=0.2, momentum=0.9, nesterov=True, weight_decay=0.01)
    for epoch in range(4):
        optimizer.param_groups[0]["lr"] = 0.2 * (1.0 if epoch < 2 else 0.1)
        order = STREAMS.numpy(2, "main/order", epoch).permutation(len(samples))
        for start, stop in cuts:
            chosen = order[start:stop]
            inputs, labels = torch.from_numpy(table.values[chosen]), torch.from_numpy(samples.labels[chosen])
            value = F.cross_entropy(F.linear(F.linear(inputs, weight, bias), rows, row_bias), labels)
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
    return done


def test_a_stage_equals_the_hand_written_loop_bit_for_bit() -> None:
    table, samples = toy(37)
    network = linear()
    expected = hand_loop(network, table, samples, [(0, 8), (8, 16), (16, 24), (24, 32), (32, 37)])
    before = weights(network)
    context = train_context(milestones=(0.5,), decay=0.1, momentum=0.9, nesterov=True)
    run_stage(staged(network, samples), network, table, context, phase=2, teacher=None)
    names = {"backbone.levels.0.0.weight", "backbone.levels.0.0.bias", "head.new", "head.new_bias"}
    assert moved(before, network) == names
    for name, value in expected.state_dict().items():
        assert torch.equal(network.state_dict()[name], value), name


def test_a_last_batch_of_one_is_merged() -> None:
    table, samples = toy(33)
    network = linear()
    expected = hand_loop(network, table, samples, [(0, 8), (8, 16), (16, 24), (24, 33)])
    run_stage(staged(network, samples), network, table, train_context(milestones=(0.5,)), phase=2, teacher=None)
    assert [len(rows) for rows in table.asked] == [8, 8, 8, 9] * 4
    assert sorted(row for rows in table.asked[:4] for row in rows) == list(range(33))
    assert torch.equal(network.head.new, expected.head.new)


def test_the_order_depends_on_phase_stage_and_epoch_only() -> None:
    def order(phase: int, name: str) -> list[list[int]]:
        table, samples = toy(20)
        network = linear()
        stage = staged(network, samples, name=name, epochs=2)
        run_stage(stage, network, table, train_context(), phase=phase, teacher=None)
        return table.asked

    first = order(1, "main")
    assert first == order(1, "main")
    assert first[:3] != first[3:]  # two epochs of three batches
    assert first != order(2, "main")
    assert first != order(1, "balanced")


def test_only_the_parameters_of_the_stage_move() -> None:
    table, samples = toy()
    network = linear(hidden=(6,))
    before = weights(network)
    stage = staged(network, samples, groups=group(network.head.new_parameters()))
    run_stage(stage, network, table, train_context(), phase=0, teacher=None)
    assert moved(before, network) == {"head.new", "head.new_bias"}
    assert {name for name, p in network.named_parameters() if p.requires_grad} == {"head.new", "head.new_bias"}
    run_stage(staged(network, samples), network, table, train_context(), phase=0, teacher=None)
    assert "backbone.levels.0.0.weight" in moved(before, network)  # a later stage can train what this one froze


@pytest.mark.parametrize("updates", [True, False])
def test_batch_norm_mode(updates: bool) -> None:
    table, samples = toy()
    network = linear(hidden=(6,), batch_norm=True)
    before = weights(network)
    stage = staged(network, samples, updates_statistics=updates)
    run_stage(stage, network, table, train_context(), phase=0, teacher=None)
    statistics = {name for name in moved(before, network) if "running" in name or "num_batches" in name}
    assert len(statistics) == (6 if updates else 0)  # two layers with mean, variance and count
    assert "backbone.levels.0.1.weight" in moved(before, network)


def test_weight_decay_and_learning_rate_per_group() -> None:
    network = linear()
    _, samples = toy()
    head, body = tuple(network.head.parameters()), tuple(network.backbone.parameters())
    groups = (ParameterGroup(head, lr_scale=0.5, weight_decay=0.0), ParameterGroup(body))
    optimizer = build_optimizer(staged(network, samples, groups=groups), TrainSettings(weight_decay=0.03))
    assert [g["weight_decay"] for g in optimizer.param_groups] == [0.0, 0.03]
    assert [g["peak"] for g in optimizer.param_groups] == [0.1, 0.2]

    def constant(output: Output, labels: Tensor, teacher: Output | None) -> Losses:
        return {"nothing": 0.0 * output.logits.sum()}

    before = weights(network)
    table, samples = toy(8)  # one batch: one step
    stage = staged(network, samples, groups=groups, objective=constant, epochs=1, schedule="constant")
    context = train_context(weight_decay=0.03, momentum=0.0)
    run_stage(stage, network, table, context, phase=0, teacher=None)
    after = network.state_dict()
    assert torch.equal(after["head.new"], before["head.new"])  # no gradient, no decay
    body_name = "backbone.levels.0.0.weight"
    expected = before[body_name] * (1 - 0.2 * 0.03)
    torch.testing.assert_close(after[body_name], expected, rtol=1e-6, atol=0)  # two roundings of float32


def test_any_optimiser_of_torch() -> None:
    table, samples = toy()
    network, twin = linear(), linear()
    options = {"betas": (0.8, 0.9), "eps": 1e-6}
    context = train_context(optimizer="adamw", options=options, weight_decay=0.02)
    run_stage(staged(network, samples, schedule="constant"), network, table, context, phase=2, teacher=None)
    optimizer = torch.optim.AdamW(twin.parameters(), lr=0.2, weight_decay=0.02, betas=(0.8, 0.9), eps=1e-6)
    for epoch in range(4):
        order = STREAMS.numpy(2, "main/order", epoch).permutation(len(samples))
        for start in range(0, 37, 8):
            chosen = order[start : start + 8]
            output = twin(torch.from_numpy(table.values[chosen]))
            value = F.cross_entropy(output.logits, torch.from_numpy(samples.labels[chosen]))
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
    for name, value in twin.state_dict().items():
        assert torch.equal(network.state_dict()[name], value), name


def test_unknown_optimiser() -> None:
    assert optimizer_class("adamw") is torch.optim.AdamW
    with pytest.raises(InputError, match=r"train.optimizer: 'adamv' given, expected one of .*adamw.*sgd"):
        optimizer_class("adamv")
    with pytest.raises(InputError, match="'optimizer' given"):  # the base class is not an optimiser
        optimizer_class("optimizer")


def test_the_loss_falls_and_every_epoch_is_reported() -> None:
    emitted: list[Event] = []
    table, samples = toy(64)
    network = linear()
    run_stage(staged(network, samples, epochs=6), network, table, train_context(emitted.append), phase=3, teacher=None)
    events = [event.to_json() for event in emitted]
    assert [event["epoch"] for event in events] == [1, 2, 3, 4, 5, 6]
    first = {key: value for key, value in events[0].items() if key not in ("loss", "seconds")}
    assert first == {"event": "epoch", "phase": 3, "stage": "main", "epoch": 1, "epochs": 6, "samples": 64}
    losses = [event["loss"]["classify"] for event in events]
    assert losses[-1] < 0.6 * losses[0]
    json.dumps(events)  # can be logged


def test_the_teacher_runs_only_if_needed_and_never_changes() -> None:
    table, samples = toy()
    network, teacher = linear(), linear()
    teacher.requires_grad_(False).eval()
    before = weights(teacher)
    asked: list[bool | None] = []  # whether the teacher's output has gradients; None if there is no output

    def listening(output: Output, labels: Tensor, advice: Output | None) -> Losses:
        asked.append(None if advice is None else advice.logits.requires_grad)
        return loss(output, labels, advice)

    for needs in (False, True):
        stage = staged(network, samples, objective=listening, epochs=1, needs_teacher=needs)
        run_stage(stage, network, table, train_context(), phase=1, teacher=teacher)
    assert asked == [None] * 5 + [False] * 5
    assert moved(before, teacher) == set()


def test_the_reported_loss_is_the_mean_over_the_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of 8, 8 and 4 with losses 8, 8 and 4; the clock shows 100 and then 102.5 seconds."""

    def size(output: Output, labels: Tensor, teacher: Output | None) -> Losses:
        return {"size": len(labels) + 0.0 * output.logits.sum()}

    monkeypatch.setattr(loop, "time", SimpleNamespace(perf_counter=iter([100.0, 102.5]).__next__))
    emitted: list[Event] = []
    table, samples = toy(20)
    network = linear()
    stage = staged(network, samples, objective=size, epochs=1)
    run_stage(stage, network, table, train_context(emitted.append), phase=0, teacher=None)
    (event,) = emitted
    assert isinstance(event, EpochEnded)
    assert event.loss == {"size": pytest.approx(20 / 3, rel=1e-6)}  # float32
    assert event.seconds == 2.5


def test_randomness_of_the_network_comes_from_the_streams() -> None:
    """Every epoch has a seed of its own, and the global stream stays where it was."""
    drawn: list[float] = []

    def drawing(output: Output, labels: Tensor, teacher: Output | None) -> Losses:
        drawn.append(torch.rand(()).item())
        return loss(output, labels, teacher)

    table, samples = toy(8)  # one batch
    network = linear()
    before = torch.get_rng_state()
    stage = staged(network, samples, objective=drawing, epochs=2)
    run_stage(stage, network, table, train_context(), phase=3, teacher=None)
    seeds = [STREAMS.integer(3, "main/network/0", epoch) for epoch in (0, 1)]
    assert drawn == [torch.rand((), generator=torch.Generator().manual_seed(seed)).item() for seed in seeds]
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(("slope", "step"), [(3.0, 0.5), (-3.0, -0.5), (0.25, 0.25)])
def test_gradients_are_clipped_element_by_element(slope: float, step: float) -> None:
    """A gradient of 3 everywhere and a limit of 0.5: one step at learning rate 0.2 moves every weight by 0.1."""
    table, samples = toy(8)
    network = linear()
    before = network.head.new.detach().clone()
    rows = group(network.head.new_parameters()[:1])

    def steep(output: Output, labels: Tensor, teacher: Output | None) -> Losses:
        return {"slope": slope * network.head.new.sum()}

    stage = staged(network, samples, objective=steep, groups=rows, epochs=1, schedule="constant", clamp=0.5)
    context = train_context(momentum=0.0, weight_decay=0.0)
    run_stage(stage, network, table, context, phase=0, teacher=None)
    expected = before - 0.2 * step
    torch.testing.assert_close(network.head.new.detach(), expected, rtol=0, atol=1e-6)  # float32 of order 1


@pytest.mark.parametrize("count", [1, 2])
def test_statistics_need_two_samples(count: int) -> None:
    table, samples = toy(count)
    network = linear(hidden=(6,), batch_norm=True)
    before = weights(network)
    run_stage(staged(network, samples, epochs=1), network, table, train_context(), phase=0, teacher=None)
    assert ("backbone.levels.0.1.running_mean" in moved(before, network)) == (count == 2)


def test_the_schedule_advances_with_every_step() -> None:
    """A gradient of 1 everywhere: a step moves every weight by its learning rate. Cosine over two epochs of 3 steps."""
    table, samples = toy(24)
    network = linear()
    seen: list[float] = []

    def slope(output: Output, labels: Tensor, teacher: Output | None) -> Losses:
        seen.append(network.head.new[0, 0].item())
        return {"slope": network.head.new.sum()}

    rows = group(network.head.new_parameters()[:1])
    stage = staged(network, samples, objective=slope, groups=rows, epochs=2, schedule="cosine")
    context = train_context(momentum=0.0, weight_decay=0.0)
    run_stage(stage, network, table, context, phase=0, teacher=None)
    moves = [before - after for before, after in pairwise([*seen, network.head.new[0, 0].item()])]
    expected = [0.2 * (1 + math.cos(math.pi * step / 6)) / 2 for step in range(6)]
    assert moves == pytest.approx(expected, abs=1e-6)  # differences of float32 numbers of order 1
