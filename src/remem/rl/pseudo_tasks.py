"""Pseudo tasks (protocol 4): Algorithm 1, line 6. A number gives the same task in every process."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from lightning_fabric import Fabric

from remem.codecs.codec import Codec
from remem.codecs.table import CODECS, RAW, parse_codecs, resolve_ladder
from remem.data.bank import Bank
from remem.data.batches import SMALLEST
from remem.data.datasets import load_dataset
from remem.data.preprocessing import Preprocessing
from remem.data.pseudo import pseudo_scenario, sealed, training_rows
from remem.data.scenario import Scenario, divide, selected_classes
from remem.data.settings import ScenarioSettings
from remem.data.source import Dataset
from remem.data.stored_codes import mean_sizes
from remem.episode import Episode
from remem.errors import InputError
from remem.events import ignore
from remem.memory.budget import MemorySettings, PhaseFacts, parse_budget, resolve
from remem.methods.settings import FinetuneSettings, MethodSettings, TrainSettings
from remem.methods.table import METHODS
from remem.nets.settings import NetSettings
from remem.rl.batched.nodes import BatchedNodes
from remem.rl.batched.runs import FeatureTask, can_batch
from remem.rl.config import LearnConfig
from remem.rl.feature_bank import CodedFeatures, FeatureBank, Features
from remem.rl.node_keeper import NodeKeeper
from remem.rl.paths import ActionPath, Node, Reward, Task, TaskKey
from remem.rl.prefix_tree import PrefixTrainer, one_by_one
from remem.rl.shared_phase0 import SharedPhase0
from remem.rl.snapshot_cache import DiskSnapshotCache, SnapshotCache
from remem.runs.build import open_episode, prepare
from remem.runs.config import RunConfig
from remem.runs.devices import open_fabric
from remem.runs.prepared import Prepared
from remem.seeding import Streams
from remem.storage.tensorfile import Snapshot
from remem.types import IntArray, Phase, Reader, Samples, Values

FASTEST = 0.5  # of the phase's peak rate: a shortened fine-tuning that is still level with the whole one
KEPT = 64  # tasks kept in memory; others are rebuilt when needed


class PseudoTasks:
    """The tasks of one policy training and their episodes. The test set is sealed from the start."""

    def __init__(self, config: LearnConfig, cache: SnapshotCache, shared: SharedPhase0 | None = None) -> None:
        self._config, self._shared = config, shared
        self._keeper: NodeKeeper | None = None
        if isinstance(cache, DiskSnapshotCache):
            self._keeper = NodeKeeper(cache.folder, 60 * config.target.train.checkpoint_minutes)
        self._trainer = PrefixTrainer(self.open, cache, self._keeper)
        self._prepared: dict[TaskKey, Prepared] = {}
        self._tasks: dict[TaskKey, Task] = {}
        self._fabrics: dict[str, Fabric] = {}  # by precision
        self._feature_tasks: dict[TaskKey, FeatureTask] = {}
        self._batched = BatchedNodes(self._feature_task)

    @cached_property
    def dataset(self) -> Dataset:
        """The data set of the tasks, with its test split sealed."""
        return sealed(load_dataset(self._config.on_source.data))

    @cached_property
    def classes(self) -> tuple[int, ...]:
        """The labels that tasks are made of, in the target's class order."""
        target, source = self._config.target, self._config.learn.source
        if source.startswith("dataset:"):
            return tuple(range(len(self.dataset.class_names)))
        sizes = divide(len(self._order), target.scenario)
        return self._order if source == "target" else self._order[: sizes[0]]

    @cached_property
    def _order(self) -> tuple[int, ...]:
        """The class order of the target, or of the whole other data set that tasks are made of."""
        division = self._config.target.scenario
        if self._config.learn.source.startswith("dataset:"):
            division = division.model_copy(update={"classes": None})
        return selected_classes(division, self.dataset)

    def check(self) -> None:
        """Raises if settings or data are invalid, before anything is trained."""
        target, learn = self._config.target, self._config.learn
        if target.train.devices > 1:
            devices = target.train.devices
            raise InputError(f"train.devices: {devices} given; a policy's runs have one device each, expected 1")
        for number in range(len(learn.phases or (0,))):
            key = self.task(TaskKey(number, "full")).key
            if self._prepared[key].method.replay != "budget":
                raise InputError(
                    f"method: {target.method.name} given, but it shares no memory between old and new; "
                    "expected one that does"
                )

    @cached_property
    def ladder(self) -> tuple[str, ...]:
        """The codecs that rungs stand for, from exact to coarse."""
        key = self.task(TaskKey(0, "full")).key
        return self._prepared[key].ladder

    @property
    def trained(self) -> int:
        """Phases trained so far."""
        return self._trainer.trained + self._batched.trained

    def train(self, key: TaskKey, path: ActionPath) -> dict[ActionPath, float]:
        """Returns the rewards of the path's last phase and of all phases that had to be trained for it."""
        return self._trainer.train(self.task(key), path)

    def train_nodes(self, nodes: Sequence[Node]) -> Iterator[tuple[Node, float]]:
        """Yields the rewards of nodes, given parents first: those on frozen features together, others one by one."""
        alone = [node for node in nodes if not self.batches(node[0])]
        yield from one_by_one(self.train)(alone)
        yield from self._batched.train([node for node in nodes if self.batches(node[0])])

    def batches(self, key: TaskKey) -> bool:
        """Whether runs of this task are trained together."""
        return self._config.learn.batched and key.fidelity == "features" and self._can_batch

    @cached_property
    def _can_batch(self) -> bool:
        config = self._config.target
        return can_batch(METHODS[core_settings(config).name].build(core_settings(config)), config.train)

    def _feature_task(self, key: TaskKey) -> FeatureTask:
        if key not in self._feature_tasks:
            for oldest in list(self._feature_tasks)[: len(self._feature_tasks) - KEPT]:
                del self._feature_tasks[oldest]
            task = self.task(key)
            self._feature_tasks[key] = FeatureTask(task, self._prepared[key])
        return self._feature_tasks[key]

    def task(self, key: TaskKey) -> Task:
        if key not in self._tasks:
            for oldest in list(self._tasks)[: len(self._tasks) - KEPT]:
                del self._tasks[oldest], self._prepared[oldest]
            self._tasks[key] = self._features(key) if key.fidelity == "features" else self._full(key)
        return self._tasks[key]

    def path_task(self, key: TaskKey) -> Task:
        """Returns the task for sampling paths. Its states are known before its features are computed."""
        if key.fidelity != "features":
            return self.task(key)
        return replace(self.task(replace(key, fidelity="full")), key=key)

    def open(self, task: Task) -> Episode:
        prepared = self._prepared[task.key]
        train = prepared.config.train
        if train.precision not in self._fabrics:
            self._fabrics[train.precision] = open_fabric(train)
        fabric = self._fabrics[train.precision]
        return open_episode(prepared, fabric, ignore, task=task.key.stream, keeper=self._keeper)

    def _full(self, key: TaskKey) -> Task:
        config, learn = self._config.target, self._config.learn
        # Class order and validation samples belong to the task, even if its runs share nothing else.
        streams = Streams(config.seed, f"pseudo {key.number}")
        phases = config.scenario.phases if learn.phases is None else learn.phases[key.number % len(learn.phases)]
        whole = config.scenario if learn.source == "target" else ScenarioSettings()
        # a target without a large phase 0 has pseudo tasks without one
        base = 0 if config.scenario.base_classes == 0 else whole.base_classes
        division = ScenarioSettings(phases=phases, base_classes=base, sizes=whole.sizes)
        scenario = pseudo_scenario(self.dataset, self.classes, division, streams, shuffled=learn.source != "target")
        train = self._batches_in_proportion(config.train, scenario)
        tuning = config.finetune
        if key.fidelity != "full":
            train = shortened(train, learn.short_share)
            tuning = shortened_tuning(tuning, round(tuning.epochs * learn.short_share), scale=learn.scale_finetune)
        update = {"memory": self._memory(scenario), "train": train, "finetune": tuning}
        return self._prepare(key, config.model_copy(update=update), scenario)

    def _prepare(self, key: TaskKey, config: RunConfig, scenario: Scenario) -> Task:
        own = {"policy": "static", "policy_sha256": None, "sample_actions": False, "scenario": scenario.settings}
        prepared = prepare(config.model_copy(update=own), scenario=scenario)
        self._prepared[key] = prepared
        # Class means of frozen features hardly depend on the exemplars. The trained head separates paths better.
        reward: Reward = "accuracy_cnn" if key.fidelity == "features" else "accuracy"
        return Task(key, scenario, prepared.budget, reward)

    def _memory(self, scenario: Scenario) -> MemorySettings:
        """Scales M, or B, and E by the share of training samples. Another data set has its own M and E."""
        memory, bank = self._config.target.memory, scenario.bank
        if self._config.learn.source.startswith("dataset:"):
            return memory.model_copy(update={"budget": None, "exemplars": None})
        ladder = resolve_ladder(parse_codecs(memory.codec), bank.stored_shape, files=bank.has_files)
        sizes = mean_sizes(bank, scenario.phases, ladder)
        spec, facts = parse_budget(memory.budget), self._target_facts()
        budget = resolve(spec, memory.exemplars, facts, row_bytes=bank.stored_bytes, sizes=sizes)
        if budget.kind == "growing":
            return memory
        amount, exemplars = (self._in_proportion(number, scenario) for number in (budget.amount, budget.exemplars))
        return memory.model_copy(
            update={"budget": replace(budget, amount=amount).setting, "exemplars": exemplars, "codec": ",".join(ladder)}
        )

    def _batches_in_proportion(self, train: TrainSettings, scenario: Scenario) -> TrainSettings:
        """Scales the batch size with the task, so that a phase has as many steps as on the target.

        After fewer steps, the head favours the latest classes more, and paths rank differently than on the target
        (docs/reports/policy-learning.md).
        """
        if not self._config.learn.scale_batch or self._config.learn.source.startswith("dataset:"):
            return train
        return train.model_copy(update={"batch_size": max(SMALLEST, self._in_proportion(train.batch_size, scenario))})

    def _in_proportion(self, number: int, scenario: Scenario) -> int:
        """Scales a number by the task's share of all training samples, rounded, at least 1."""
        target = training_rows(self.dataset, self._order)
        here = sum(phase.arriving for phase in scenario.phases)
        return max(1, (2 * number * here + target) // (2 * target))

    def _target_facts(self) -> list[PhaseFacts]:
        """Counts classes and training samples of the target's phases, without reading its test set."""
        division, order = self._config.target.scenario, self._order
        facts, start = [], 0
        for size in divide(len(order), division):
            facts.append(PhaseFacts(size, training_rows(self.dataset, order[start : start + size])))
            start += size
        return facts

    def _features(self, key: TaskKey) -> Task:
        """Returns the task with every sample replaced by its features after a phase 0 of the full task."""
        whole, learn = self._base(key), self._config.learn
        ladder, config = self._prepared[whole.key].ladder, self._prepared[whole.key].config
        scenario = featured(whole.scenario, self.open(whole), self._after_phase0(whole), ladder)
        most = max(1, learn.features_steps // steps_per_epoch(whole, config.train.batch_size))
        # bf16 would gain nothing. Phase 0 of the heads costs little and keeps all epochs of the target.
        train = {"epochs": self._config.target.train.epochs, "precision": "fp32"}
        train["epochs_later"] = min(most, self._config.target.train.epochs_of(1))
        update = {
            "net": NetSettings(name="identity"),
            "method": core_settings(config),
            "train": config.train.model_copy(update=train),
            "finetune": shortened_tuning(config.finetune, most, scale=learn.scale_finetune),
            "augment": config.augment.model_copy(update={"kind": "none", "pad": 0, "flip": False, "brightness": 0.0}),
        }
        return self._prepare(key, config.model_copy(update=update), scenario)

    def _after_phase0(self, task: Task) -> Snapshot:
        """The snapshot after a task's phase 0, which another training may have left in the shared folder."""
        if self._shared is None:
            return self._trainer.snapshot(task, ())
        found = self._shared.find(task.key, self._prepared[task.key])
        if found is None:
            found = self._trainer.snapshot(task, ())
            self._shared.put(task.key, self._prepared[task.key], found)
        return found

    def _base(self, key: TaskKey) -> Task:
        """Returns the full task whose phase 0 computes the features, with as many epochs as `learn.phase0_share` says.

        Rewards on its features order paths as well as those after a whole phase 0 (docs/reports/policy-learning.md).
        """
        share, full = self._config.learn.phase0_share, replace(key, fidelity="full")
        if share == 1:
            return self.task(full)
        base = replace(full, run=f"{key.run} phase 0")  # its own snapshot: full runs start from a whole phase 0
        if base not in self._tasks:
            task = self.task(full)
            train = self._prepared[full].config.train
            update = {"epochs": max(1, round(train.epochs * share)), "epochs_later": train.epochs_of(1)}
            config = self._prepared[full].config.model_copy(update={"train": train.model_copy(update=update)})
            self._tasks[base] = self._prepare(base, config, task.scenario)
        return self._tasks[base]


def steps_per_epoch(task: Task, batch: int) -> int:
    """Returns the steps per epoch in the phase that holds the most samples."""
    held, old = 1, 0
    for phase in task.scenario.phases:
        held = max(held, task.budget.total(old, phase.arriving) if phase.index else 0)
        old += len(phase.classes)
    return -(-held // batch)


def shortened(train: TrainSettings, share: float) -> TrainSettings:
    """Shortens the schedule after phase 0. Phase 0 keeps its epochs, since all runs of a task share it."""
    return train.model_copy(update={"epochs_later": max(1, round(train.epochs_of(1) * share))})


def shortened_tuning(tuning: FinetuneSettings, most: int, *, scale: bool) -> FinetuneSettings:
    """Shortens the fine-tuning to at most so many epochs, and with `scale` raises its rate in proportion.

    Fine-tuning decides how balanced the head is in the end. Its set grows with the old share, so fewer epochs at the
    same rate leave low shares unbalanced, and rewards prefer high ones (docs/reports/policy-learning.md). No rate is
    raised above `FASTEST`: more epochs are kept instead.
    """
    if not tuning.epochs:
        return tuning
    fewest = math.ceil(tuning.epochs * min(1.0, tuning.lr_factor / FASTEST)) if scale else 1
    epochs = min(tuning.epochs, max(fewest, most))
    factor = tuning.lr_factor * (tuning.epochs / epochs if scale else 1.0)
    return tuning.model_copy(update={"epochs": epochs, "lr_factor": factor})


@dataclass(frozen=True)
class DecodedView:
    """A reader of samples as they come back from a codec."""

    bank: Bank
    codec: Codec

    def read(self, rows: IntArray) -> Values:
        values = self.bank.read(rows)
        return values if self.codec.from_file else self.codec.decode(self.codec.encode(values), self.bank.shape)


def featured(scenario: Scenario, episode: Episode, snapshot: Snapshot, ladder: tuple[str, ...] = (RAW,)) -> Scenario:
    """Replaces samples by frozen features. Rows are renumbered, since only those of the task have features.

    Every codec of the ladder has a table of its own, of the samples as it stores them.
    """
    episode.restore(snapshot)
    parts = [rows for phase in scenario.phases for rows in (*phase.train.values(), phase.eval_samples.rows)]
    rows = np.unique(np.concatenate(parts))
    samples = Samples(rows, np.zeros(len(rows), np.int64))

    def describe(reader: Reader) -> Features:
        return episode.learner.describe(reader, samples).features.astype(np.float32)

    tables = {
        name: CodedFeatures(describe(DecodedView(scenario.bank, CODECS[name])), scenario.bank.measure(rows, name))
        for name in ladder
        if name != RAW
    }
    features = describe(scenario.bank)
    bank = FeatureBank(features, tables, scenario.bank.stored_shape)
    width = features.shape[1]
    return replace(
        scenario,
        bank=bank,
        eval_bank=bank,
        phases=tuple(_renumbered(phase, rows) for phase in scenario.phases),
        # No normalisation of features: `network_builder` multiplies mean and std by 255.
        preprocessing=Preprocessing(mean=(0.0,) * width, std=(1 / 255,) * width, augment="none", flip=False),
        fingerprint=bank.fingerprint,
    )


def _renumbered(phase: Phase, rows: IntArray) -> Phase:
    train = {label: np.searchsorted(rows, old) for label, old in phase.train.items()}
    evaluated = phase.eval_samples
    return replace(phase, train=train, eval_samples=Samples(np.searchsorted(rows, evaluated.rows), evaluated.labels))


def core_settings(config: RunConfig) -> MethodSettings:
    """Returns the method's settings for frozen features, without two branches and refined exemplars."""
    method = config.method
    core = METHODS[method.name].core
    if core is None:
        return method
    settings = METHODS[core].settings
    shared = {name: value for name, value in method.model_dump().items() if name in settings.model_fields}
    return settings.model_validate({**shared, "name": core})
