"""Factories for tests of `remem.rl`: tasks of small numbers, and policy learnings that take a second."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from factories import VECTORS, blobs
from remem.action import Action, State
from remem.data.pseudo import pseudo_scenario, sealed
from remem.data.settings import ScenarioSettings
from remem.episode import Episode
from remem.events import Event
from remem.memory.allocator import Allocator
from remem.memory.budget import Budget
from remem.rl.config import LearnConfig, compose_learning
from remem.rl.paths import ActionPath, Task, TaskKey
from remem.rl.prefix_tree import PrefixTrainer
from remem.rl.snapshot_cache import SnapshotCache
from remem.seeding import Streams
from remem.storage.event_log import read_log
from remem.storage.tensorfile import Snapshot
from remem.types import Phase

DATA = sealed(blobs(classes=8, per_class=10))

LEARN = {
    **{"epochs": 2, "tasks": 2, "runs": 3, "pool": 2, "fidelity": "full"},
    **{"hidden": 4, "lr_eta": 0.3, "lr_phi": 0.3, "entropy": 0.0},
}
SNAPSHOT_BYTES = 1000  # of the tensors of a fake episode's snapshot
RUNS = 2 * 2 * 3  # of a whole learning: epochs, tasks, runs
PHASES = 3  # of one run: 0, 1, 2


def make_task(number: int = 0, *, phases: int = 2, budget: int = 40, base: int | None = None, run: str = "") -> Task:
    """Eight classes of 9 training samples each: four in phase 0, the others evenly over the later phases."""
    division = ScenarioSettings(phases=phases, base_classes=base)
    scenario = pseudo_scenario(DATA, range(8), division, Streams(0, f"pseudo {number}"))
    return Task(TaskKey(number, "full", run), scenario, Budget("fixed", budget, 16))


def make_path(*keys: tuple[int, int]) -> ActionPath:
    """The path with these keys: old share and split of every phase, in tenths."""
    return tuple(map(Action.from_key, keys))


def observe(task: Task, phase: int, old_tenths: int = 0) -> State:
    """The state before a phase if the phase before it had that old share."""
    classes = [facts.classes for facts in task.phases[:phase]]
    return Allocator(task.budget, classes, old_tenths=old_tenths).observe(task.phases[phase])


@dataclass(frozen=True)
class FakeResult:
    """The two accuracies that a reward can be."""

    accuracy: float
    accuracy_cnn: float


class FakeEpisode:
    """An episode without training: its accuracy is a pseudo-random number derived from all actions so far."""

    def __init__(self) -> None:
        self.actions: list[list[int]] = []
        self.restored = 0

    def advance(self, phase: Phase, action: Action | None) -> FakeResult:
        assert phase.index == len(self.actions)
        assert (action is None) == (phase.index == 0)
        self.actions.append([0, 0] if action is None else list(action.key()))
        accuracy = fake_accuracy(self.actions)
        return FakeResult(accuracy, accuracy / 2)

    def snapshot(self) -> Snapshot:
        return Snapshot({"actions": list(self.actions)}, {"x": torch.zeros(SNAPSHOT_BYTES, dtype=torch.uint8)})

    def restore(self, snapshot: Snapshot) -> None:
        self.restored += 1
        self.actions = [list(action) for action in snapshot.facts["actions"]]


def fake_accuracy(actions: Sequence[Sequence[int]]) -> float:
    """A number in [0, 1) that depends on every action."""
    return float(np.random.default_rng(np.ravel(actions)).random())


def fake_rewards(path: ActionPath) -> tuple[float, ...]:
    """The rewards of a fake episode that takes this path from its beginning."""
    actions = [(0, 0), *(action.key() for action in path)]
    return tuple(fake_accuracy(actions[:depth]) for depth in range(1, len(actions) + 1))


class FakeTrainer(PrefixTrainer):
    """Trains fake episodes, and keeps them so that tests can look at them."""

    def __init__(self, cache: SnapshotCache) -> None:
        super().__init__(self._open_fake, cache)
        self.episodes: list[FakeEpisode] = []

    @property
    def restored(self) -> int:
        return sum(episode.restored for episode in self.episodes)

    def _open_fake(self, task: Task) -> Episode:
        self.episodes.append(FakeEpisode())
        return cast(Episode, self.episodes[-1])


@dataclass(frozen=True)
class Learning:
    """A learning that was never stopped: its folder and its events. Tests only read it."""

    out: Path
    events: list[Event]


def learn_config(npz: Path, layer: dict[str, Any] | None = None, **learn: Any) -> LearnConfig:
    """Tasks of 3 + 2 + 1 classes."""
    quick = {
        "scenario": {"phases": 2, "base_classes": 6, "order": "natural"},
        "train": {"epochs": 1, "batch_size": 16},
        "finetune": {"epochs": 0},
        "net": {"hidden": [8]},
    }
    return compose_learning(
        VECTORS, quick, {"data": {"name": f"npz:{npz}"}}, layer or {}, {"learn": {**LEARN, **learn}}
    )


def reward_lines(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "rewards.jsonl").read_text().splitlines()]


def log_entries(out: Path) -> list[dict[str, Any]]:
    """The log without what depends on the session."""
    entries = read_log(out / "log.jsonl")
    return [{key: value for key, value in entry.items() if key not in ("left", "trained")} for entry in entries]


def assert_same_learning(out: Path, whole: Path) -> None:
    """The same policy to the last bit, the same reward of every node, the same log and no other files."""
    assert (out / "policy.json").read_bytes() == (whole / "policy.json").read_bytes()
    assert (out / "policy.safetensors").read_bytes() == (whole / "policy.safetensors").read_bytes()
    found, expected = (
        {repr((line["task"], line["path"])): line["reward"] for line in reward_lines(folder)} for folder in (out, whole)
    )
    assert found == expected
    assert log_entries(out) == log_entries(whole)
    assert sorted(path.name for path in out.iterdir()) == sorted(path.name for path in whole.iterdir())
