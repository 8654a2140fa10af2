"""Pseudo tasks from settings: the same number always gives the same task, in any process (protocol 4)."""

from dataclasses import replace
from functools import cached_property

import numpy as np
from lightning_fabric import Fabric

from remem.data.arrays import ArraySource
from remem.data.bank import Bank
from remem.data.batches import SMALLEST
from remem.data.datasets import load_dataset
from remem.data.orders import class_order
from remem.data.pseudo import pseudo_scenario, sealed, training_rows
from remem.data.scenario import Scenario, ScenarioSettings, phase_sizes
from remem.data.source import Dataset, Look
from remem.episode import Episode, Snapshot
from remem.errors import InputError
from remem.memory.budget import MemorySettings, PhaseFacts, parse_budget, resolve
from remem.methods.method import MethodSettings
from remem.methods.settings import TrainSettings
from remem.methods.table import METHODS
from remem.nets.contract import NetSettings
from remem.rl.oracles import fixed_paths
from remem.rl.paths import Path, Reward, Task, TaskKey
from remem.rl.tree import Grower, Shelf
from remem.runs.build import Prepared, open_episode, open_fabric, prepare
from remem.runs.config import RunConfig
from remem.runs.learning import LearnConfig
from remem.runs.single import silent
from remem.seeding import Streams
from remem.types import IntArray, Phase, Samples

KEPT = 64  # tasks at hand; others are made anew


class Workplace:
    """Makes tasks and their episodes for one learner; the test set is sealed before anything else happens."""

    def __init__(self, config: LearnConfig, shelf: Shelf) -> None:
        self._config = config
        self._grower = Grower(self.open, shelf)
        self._prepared: dict[TaskKey, Prepared] = {}
        self._tasks: dict[TaskKey, Task] = {}
        self._fabrics: dict[str, Fabric] = {}  # by precision

    @cached_property
    def dataset(self) -> Dataset:
        """What tasks are cut from, its test set out of reach."""
        return sealed(load_dataset(self._config.on_source.data))

    @cached_property
    def classes(self) -> tuple[int, ...]:
        """Labels that tasks are made of, in the target's order."""
        target, source = self._config.target, self._config.learn.source
        count = len(self.dataset.class_names)
        if source.startswith("dataset:"):
            return tuple(range(count))
        order = class_order(target.scenario.order, self.dataset.name, count)
        sizes = phase_sizes(count, target.scenario.phases, target.scenario.base_classes)
        return order if source == "target" else order[: sizes[0]]

    def check(self) -> None:
        """Whatever is wrong with settings or data is said before anything is trained."""
        target, learn = self._config.target, self._config.learn
        if target.train.devices > 1:
            devices = target.train.devices
            raise InputError(f"train.devices: {devices} given; a policy's runs have one device each, expected 1")
        for number in range(len(learn.phases or (0,))):
            key = self.task(TaskKey(number, "full")).key
            if self._prepared[key].method.regime != "budget":
                raise InputError(
                    f"method: {target.method.name} given, but it shares no memory between old and new; "
                    "expected one that does"
                )
        if learn.crossval_fixed and not fixed_paths([self.task(TaskKey(n, "full")) for n in range(learn.pool)]):
            raise InputError(
                "budget: it leaves no fixed share feasible in any phase of any task; expected a larger one"
            )

    @property
    def trained(self) -> int:
        """Phases trained so far."""
        return self._grower.trained

    def grow(self, key: TaskKey, path: Path) -> dict[Path, float]:
        """The rewards of a path's last phase and of all that had to be trained for it."""
        return self._grower.grow(self.task(key), path)

    def task(self, key: TaskKey) -> Task:
        if key not in self._tasks:
            for oldest in list(self._tasks)[: len(self._tasks) - KEPT]:
                del self._tasks[oldest], self._prepared[oldest]
            self._tasks[key] = self._features(key) if key.fidelity == "features" else self._whole(key)
        return self._tasks[key]

    def outline(self, key: TaskKey) -> Task:
        """The task as far as paths are concerned: features need not be there to know its states."""
        if key.fidelity != "features":
            return self.task(key)
        return replace(self.task(replace(key, fidelity="full")), key=key)

    def open(self, task: Task) -> Episode:
        prepared = self._prepared[task.key]
        train = prepared.config.train
        if train.precision not in self._fabrics:
            self._fabrics[train.precision] = open_fabric(train)
        return open_episode(prepared, self._fabrics[train.precision], silent, task=task.key.stream)

    def _whole(self, key: TaskKey) -> Task:
        config, learn = self._config.target, self._config.learn
        # Orders and validation samples are those of the task, even where its runs share nothing else.
        streams = Streams(config.seed, f"pseudo {key.number}")
        phases = config.scenario.phases if learn.phases is None else learn.phases[key.number % len(learn.phases)]
        base = config.scenario.base_classes if learn.source == "target" else None
        division = ScenarioSettings(phases=phases, base_classes=base)
        scenario = pseudo_scenario(self.dataset, self.classes, division, streams, shuffled=learn.source != "target")
        train = self._steps_as_on_the_target(config.train, scenario)
        if key.fidelity != "full":
            train = shortened(train, learn.short_share)
        tuning = config.finetune
        if key.fidelity != "full" and tuning.epochs:
            tuning = tuning.model_copy(update={"epochs": max(1, round(tuning.epochs * learn.short_share))})
        update = {"memory": self._memory(scenario), "train": train, "finetune": tuning}
        return self._settle(key, config.model_copy(update=update), scenario)

    def _settle(self, key: TaskKey, config: RunConfig, scenario: Scenario) -> Task:
        own = {"policy": "static", "policy_sha256": None, "sample_actions": False, "scenario": scenario.settings}
        prepared = prepare(config.model_copy(update=own), scenario=scenario)
        self._prepared[key] = prepared
        # Class means of frozen features hardly move, whatever is kept; the head that learns is what tells paths apart.
        reward: Reward = "accuracy_cnn" if key.fidelity == "features" else "accuracy"
        return Task(key, scenario, prepared.budget, reward)

    def _memory(self, scenario: Scenario) -> MemorySettings:
        """M and E in proportion to the training samples; another data set has its own."""
        memory = self._config.target.memory
        if self._config.learn.source.startswith("dataset:"):
            return memory.model_copy(update={"budget": None, "exemplars": None})
        budget = resolve(
            parse_budget(memory.budget), memory.exemplars, self._target_facts(), row_bytes=scenario.bank.row_bytes
        )
        if budget.kind == "growing":
            return memory
        scaled = {"budget": budget.amount, "exemplars": budget.exemplars}
        return memory.model_copy(update={name: self._in_proportion(n, scenario) for name, n in scaled.items()})

    def _steps_as_on_the_target(self, train: TrainSettings, scenario: Scenario) -> TrainSettings:
        """Batches as much smaller as the task: with fewer steps a head stays nearer to its latest classes, and paths
        are ordered otherwise than on the target (docs/policies.md)."""
        if not self._config.learn.scale_batch or self._config.learn.source.startswith("dataset:"):
            return train
        return train.model_copy(update={"batch_size": max(SMALLEST, self._in_proportion(train.batch_size, scenario))})

    def _in_proportion(self, number: int, scenario: Scenario) -> int:
        """Times the task's share of all training samples, rounded, at least 1."""
        target = training_rows(self.dataset, range(len(self.dataset.class_names)))
        here = sum(phase.arriving for phase in scenario.phases)
        return max(1, (2 * number * here + target) // (2 * target))

    def _target_facts(self) -> list[PhaseFacts]:
        """Classes and training samples of the target's phases, counted without touching its test set."""
        division, count = self._config.target.scenario, len(self.dataset.class_names)
        order = class_order(division.order, self.dataset.name, count)
        facts, start = [], 0
        for size in phase_sizes(count, division.phases, division.base_classes):
            facts.append(PhaseFacts(size, training_rows(self.dataset, order[start : start + size])))
            start += size
        return facts

    def _features(self, key: TaskKey) -> Task:
        """The same task with every picture replaced by its features under the model of the task's full phase 0."""
        whole = self.task(replace(key, fidelity="full"))
        scenario = featured(whole.scenario, self.open(whole), self._grower.snapshot(whole, ()))
        config = self._prepared[whole.key].config
        most = max(1, self._config.learn.features_steps // steps_per_epoch(whole, config.train.batch_size))
        train = {"epochs_later": min(most, config.train.epochs_of(1)), "precision": "fp32"}  # nothing to gain from less
        update = {
            "net": NetSettings(name="identity"),
            "method": core_settings(config),
            "train": config.train.model_copy(update=train),
            "finetune": config.finetune.model_copy(update={"epochs": min(most, config.finetune.epochs)}),
            "augment": config.augment.model_copy(update={"kind": "none", "pad": 0, "flip": False, "brightness": 0.0}),
        }
        return self._settle(key, config.model_copy(update=update), scenario)


def steps_per_epoch(task: Task, batch: int) -> int:
    """Of the phase that holds most."""
    held, old = 1, 0
    for phase in task.scenario.phases:
        held = max(held, task.budget.total(old, phase.arriving) if phase.index else 0)
        old += len(phase.classes)
    return -(-held // batch)


def shortened(train: TrainSettings, share: float) -> TrainSettings:
    """The same schedule in fewer epochs; phase 0, which all runs of a task share, stays as it is."""
    return train.model_copy(update={"epochs_later": max(1, round(train.epochs_of(1) * share))})


def featured(scenario: Scenario, episode: Episode, snapshot: Snapshot) -> Scenario:
    """Frozen features instead of samples; rows are numbered anew, since only those of the task are described."""
    episode.restore(snapshot)
    parts = [rows for phase in scenario.phases for rows in (*phase.train.values(), phase.judge.rows)]
    rows = np.unique(np.concatenate(parts))
    samples = Samples(rows, np.zeros(len(rows), np.int64))
    features = episode.learner.describe(scenario.bank, samples).features.astype(np.float32)
    bank = Bank(ArraySource(features, samples.labels))
    width = features.shape[1]
    return replace(
        scenario,
        bank=bank,
        judge=bank,
        phases=tuple(_renumbered(phase, rows) for phase in scenario.phases),
        # Shown as they are: what a network subtracts and divides by is given on the scale of pictures.
        look=Look(mean=(0.0,) * width, std=(1 / 255,) * width, augment="none", flip=False),
        fingerprint=bank.fingerprint,
    )


def _renumbered(phase: Phase, rows: IntArray) -> Phase:
    train = {label: np.searchsorted(rows, old) for label, old in phase.train.items()}
    return replace(phase, train=train, judge=Samples(np.searchsorted(rows, phase.judge.rows), phase.judge.labels))


def core_settings(config: RunConfig) -> MethodSettings:
    """The method where features are frozen: two branches and refined pictures have nothing to work on."""
    method = config.method
    core = METHODS[method.name].core
    if core is None:
        return method
    settings = METHODS[core].settings
    shared = {name: value for name, value in method.model_dump().items() if name in settings.model_fields}
    return settings.model_validate({**shared, "name": core})
