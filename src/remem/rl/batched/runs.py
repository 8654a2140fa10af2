"""Phases of many runs on frozen features: the steps of an episode, each for all runs at once.

Equal to `Episode` on a task of fidelity `features`, up to rounding. Herding depends on features and rows alone, so its
rankings are shared by all runs of a task.
"""

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from remem.action import Action
from remem.codecs.table import CODECS, RAW
from remem.errors import BudgetError
from remem.evaluation.metrics import accuracy
from remem.memory.allocator import Allocator, fit_bytes
from remem.memory.budget import PhaseFacts as PhaseCounts
from remem.methods.describe import Described
from remem.methods.learner import balanced_quota
from remem.methods.method import Method, PhaseFacts
from remem.methods.settings import TrainSettings
from remem.methods.stage import Stage
from remem.nets.heads import HEADS, Head
from remem.rl.batched.heads import HeadOnly, StackedHead
from remem.rl.batched.training import HeldSet, both, train_heads
from remem.rl.feature_bank import FeatureBank
from remem.rl.paths import Task
from remem.runs.heap import return_freed_memory
from remem.runs.prepared import Prepared
from remem.seeding import Streams
from remem.selection.difficulty import class_entropy, split
from remem.selection.ranking import SELECTIONS
from remem.types import EMPTY, Allocation, Group, IntArray, Phase, Samples

CHUNK_BYTES = 2**28  # of tables and temporary tensors; more runs are trained in several chunks
FREED_BYTES = 2**27  # stay with the process between two chunks
SLICE = 2**17  # scores of all proxies that are computed at a time: temporary tensors that fit the cache
HEAD_COPIES = 16  # of all weights of a head: old, new, teacher, momenta, gradients, unit rows, temporaries; measured
WORTHWHILE = 64  # runs in a chunk: more gain nothing, since their tensors no longer fit the cache


def can_batch(method: Method, train: TrainSettings) -> bool:
    """Whether the runs of a method on frozen features can be trained together, with equal results."""
    plain = method.per_sample and method.replay == "budget" and not method.restarts
    return plain and train.optimizer.lower() == "sgd" and train.device in ("auto", "cpu")


@dataclass(frozen=True)
class RunState:
    """A run after a phase: its held rows by class, the allocation state, and the head."""

    held: Mapping[int, IntArray]  # old classes best first, the latest ones in order of their rows
    groups: tuple[Group, ...]
    old_tenths: int
    head: Head
    rung: int = 0
    table: int = 0  # place of the table that the features of held samples come from; 0: exact samples

    @property
    def nbytes(self) -> int:
        return sum(rows.nbytes for rows in self.held.values()) + sum(p.nbytes for p in self.head.parameters())


class Ranked(NamedTuple):
    """What a ranking depends on. A class's rows are those that are loaded first, so their number is enough."""

    table: int
    label: int
    rows: int


class FeatureTask:
    """A pseudo task on frozen features, its settings, and the rankings that its runs share."""

    def __init__(self, task: Task, prepared: Prepared) -> None:
        config, bank = prepared.config, task.scenario.bank
        self.task, self.method, self.train, self.finetune = task, prepared.method, config.train, config.finetune
        self.streams = Streams(config.seed, task.key.stream)
        assert isinstance(bank, FeatureBank)
        self.bank, self.ladder = bank, prepared.ladder
        self.encodes_phase0 = config.memory.codec_phase0
        self.codecs = (RAW, *(codec for codec in prepared.ladder if codec != RAW))  # of the tables
        self.tables = [bank.table(codec) for codec in self.codecs]
        self.rows = len(self.tables[0])
        self.head = HEADS[self.method.head.name].build(self.method.head, self.width)
        self.inputs = self.head.prepare(torch.from_numpy(np.concatenate(self.tables)))  # one table after another
        self._selection = SELECTIONS[config.memory.selection]
        self._rankings: dict[Ranked, IntArray] = {}

    @property
    def width(self) -> int:
        return int(self.tables[0].shape[1])

    @property
    def nbytes(self) -> int:
        return sum(table.nbytes for table in self.tables)

    def table_of(self, rung: int) -> int:
        return self.codecs.index(self.ladder[rung])

    @property
    def phases(self) -> Sequence[Phase]:
        return self.task.scenario.phases

    def facts(self, phase: int) -> PhaseFacts:
        classes = self.phases[phase].classes
        return PhaseFacts(phase, classes[0], len(classes), self.streams)

    def signature(self, phase: int) -> tuple[object, ...]:
        """Runs with equal signatures can be trained together."""
        facts = self.facts(phase)
        return facts.old_classes, facts.new_classes, self.width, repr(self.train), repr(self.finetune)

    def rank(self, held: Mapping[int, IntArray], table: int, phase: int, purpose: str) -> dict[int, IntArray]:
        """The rows of every class, best first."""
        if self._selection.draws:
            groups = list(held.values())
            ranked = self._selection.rank(self.tables[table], groups, self.streams.numpy(phase, purpose), 1)
            return dict(zip(held, ranked, strict=True))
        return {label: self._rankings[Ranked(table, label, len(rows))] for label, rows in held.items()}

    def unranked(self, held: Mapping[int, IntArray], table: int) -> dict[Ranked, IntArray]:
        """Classes that no run has ranked yet. How many rows of a class were loaded decides which ones."""
        if self._selection.draws:
            return {}
        keys = {Ranked(table, label, len(rows)): rows for label, rows in held.items()}
        return {key: rows for key, rows in keys.items() if key not in self._rankings}

    def rank_all(self, wanted: Mapping[Ranked, IntArray]) -> None:
        """Ranks many classes, all of a table in one call."""
        rng = self.streams.numpy(0, "unused")  # this selection draws nothing
        for table in sorted({key.table for key in wanted}):
            own = {key: rows for key, rows in wanted.items() if key.table == table}
            ranked = self._selection.rank(self.tables[table], list(own.values()), rng, 1)
            self._rankings.update(zip(own, ranked, strict=True))


@dataclass
class _Run:
    """One run of a chunk while its phase is trained."""

    task: FeatureTask
    before: RunState | None
    action: Action | None
    base: int  # where the features of its task begin
    held: dict[int, IntArray] = field(default_factory=dict)
    groups: tuple[Group, ...] = ()
    old_tenths: int = 0
    rung: int = 0
    table: int = 0
    head: Head = field(init=False)

    @property
    def start(self) -> int:
        """Where the features of its held samples begin."""
        return self.base + self.table * self.task.rows

    def samples(self) -> Samples:
        labels = sorted(self.held)
        counts = [len(self.held[label]) for label in labels]
        return Samples(np.concatenate([self.held[label] for label in labels]), np.repeat(labels, counts))


def train_phase(
    phase: int, runs: Sequence[tuple[FeatureTask, RunState | None, Action | None]]
) -> Iterator[tuple[RunState, float]]:
    """Trains one phase of runs with equal signatures, in chunks. Yields their states and rewards, in order.

    Runs of a task must follow each other.
    """
    tasks = {id(task): task for task, _, _ in runs}
    together = sum(task.nbytes for task in tasks.values()) <= CHUNK_BYTES // 2
    for _, members in groupby(runs, key=lambda run: None if together else id(run[0])):
        alike, size = list(members), chunk_size(phase, runs[0][0])
        for start in range(0, len(alike), size):
            yield from Chunk(phase, alike[start : start + size]).train()
            return_freed_memory(FREED_BYTES)


def chunk_size(phase: int, task: FeatureTask) -> int:
    """How many runs fit the limit together; at least one."""
    facts, arriving = task.facts(phase), task.phases[phase].arriving
    budget = task.task.budget
    held = max(
        budget.total(facts.old_classes, arriving, phase=phase, rung=rung) if phase else arriving
        for rung in range(budget.rungs)
    )
    evaluated = sum(len(past.eval_samples) for past in task.phases[: phase + 1])
    classes, width = facts.old_classes + facts.new_classes, task.width
    columns: int = classes * math.prod(task.head.row[:-1])  # of all proxies
    tables = held * (2 * classes + width) + evaluated * (3 * columns + width)
    step = task.train.batch_size * (8 * columns + 2 * width)
    head = HEAD_COPIES * columns * width
    orders = 32 * held  # bytes of places, labels and weights of the batches of one epoch
    per_run: int = 4 * (tables + step + head) + orders
    return max(1, min(WORTHWHILE, CHUNK_BYTES // per_run))


class Chunk:
    """Runs that are trained together. Their tasks' features are in one table."""

    def __init__(self, phase: int, runs: Sequence[tuple[FeatureTask, RunState | None, Action | None]]) -> None:
        self._phase = phase
        tasks = list({id(task): task for task, _, _ in runs}.values())
        starts = np.cumsum([0, *(len(task.inputs) for task in tasks)])
        bases = {id(task): int(start) for task, start in zip(tasks, starts, strict=False)}
        self._features = tasks[0].inputs if len(tasks) == 1 else torch.cat([task.inputs for task in tasks])
        self._tasks = tasks
        self._runs = [_Run(task, before, action, bases[id(task)]) for task, before, action in runs]
        self._facts, self._settings = tasks[0].facts(phase), tasks[0].train
        self._method, self._finetune = tasks[0].method, tasks[0].finetune

    def train(self) -> list[tuple[RunState, float]]:
        """Algorithm 1, lines 12-19, for every run."""
        splits = self._rank_latest() if self._phase else [None] * len(self._runs)
        for run, halves in zip(self._runs, splits, strict=True):
            allocation = None if halves is None else self._allocate(run, *halves)
            if not self._phase and run.task.encodes_phase0:
                run.table = run.task.table_of(0)
            self._load(run, allocation)
            self._grow(run)
        self._train("main", [run.samples() for run in self._runs])
        if self._phase and self._finetune.epochs:
            self._rank_missing([self._latest(run, self._phase) for run in self._runs])
            self._train("balanced", [self._balanced(run) for run in self._runs])
        rewards = self._evaluate()
        states = [RunState(run.held, run.groups, run.old_tenths, run.head, run.rung, run.table) for run in self._runs]
        return list(zip(states, rewards, strict=True))

    def _latest(self, run: _Run, phase: int) -> dict[int, IntArray]:
        """The held rows of the classes of a phase."""
        held = run.held if phase == self._phase or run.before is None else run.before.held
        return {label: held[label] for label in run.task.phases[phase].classes}

    def _rank_missing(self, held: Sequence[Mapping[int, IntArray]]) -> None:
        """Ranks the classes that no run has ranked yet, all classes of a task in one call."""
        for task in self._tasks:
            wanted: dict[Ranked, IntArray] = {}
            for run, rows in zip(self._runs, held, strict=True):
                if run.task is task:
                    wanted |= task.unranked(rows, run.table)
            task.rank_all(wanted)

    def _rank_latest(self) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
        """Ranks the classes of the previous phase and returns their harder and easier halves, for every run."""
        latest = [self._latest(run, self._phase - 1) for run in self._runs]
        for run in self._runs:
            assert run.before is not None
            run.groups, run.old_tenths = run.before.groups, run.before.old_tenths
            run.rung, run.table = run.before.rung, run.before.table
        self._rank_missing(latest)
        for run, rows in zip(self._runs, latest, strict=True):
            assert run.before is not None
            run.held = dict(run.before.held) | run.task.rank(rows, run.table, self._phase, "rank")
        return self._halves(latest)

    def _halves(self, latest: Sequence[Mapping[int, IntArray]]) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
        """The harder and the easier half of every run's latest classes; once for all runs with the same past."""
        found: dict[int, tuple[tuple[int, ...], tuple[int, ...]]] = {}
        for run, rows in zip(self._runs, latest, strict=True):
            assert run.before is not None
            if id(run.before) not in found:
                logits = self._logits(run.before.head, np.concatenate(list(rows.values())) + run.start)
                labels = np.repeat(list(rows), [len(own) for own in rows.values()])
                found[id(run.before)] = split(class_entropy(logits, labels))
        return [found[id(run.before)] for run in self._runs]

    def _allocate(self, run: _Run, harder: tuple[int, ...], easier: tuple[int, ...]) -> Allocation:
        """Eq. 1 and 2."""
        assert run.action is not None
        phase, sizes = run.task.phases[self._phase], [len(past.classes) for past in run.task.phases[: self._phase]]
        allocator = Allocator(run.task.task.budget, sizes, run.groups, run.old_tenths, run.rung)
        state = allocator.observe(PhaseCounts(len(phase.classes), phase.arriving))
        allocator.split(harder, easier, run.action)
        decision = allocator.decide(state, run.action)
        held = {label: len(run.held[label]) for label in sorted(run.held)}
        arriving = {label: len(rows) for label, rows in phase.train.items()}
        run.groups, run.old_tenths, run.rung = allocator.groups, allocator.old_tenths, allocator.rung
        run.table = run.task.table_of(run.rung)
        allocation = allocator.allocate(state, decision, held=held, arriving=arriving)
        return self._fit(run, allocation, partial(allocator.shrink, held=held, arriving=arriving))

    def _fit(self, run: _Run, allocation: Allocation, shrink: Callable[[Allocation, int], Allocation]) -> Allocation:
        """Drops samples until their bytes fit, as `Episode` does."""
        task, limit = run.task, run.task.task.budget.bytes
        codec = task.ladder[run.rung]
        if limit is None or CODECS[codec].size(task.bank.stored_shape) is not None:
            return allocation
        old = {label: run.held[label][:quota] for label, quota in allocation.old.items()}
        new = {label: self._drawn(run, label)[:quota] for label, quota in allocation.new.items()}
        sizes = [{label: task.bank.measure(own, codec) for label, own in part.items()} for part in (old, new)]
        return fit_bytes(allocation, limit, sizes[0], sizes[1], shrink)

    def _drawn(self, run: _Run, label: int) -> IntArray:
        """The training rows of a new class in the order in which they are loaded."""
        rows = run.task.phases[self._phase].train[label]
        return rows[run.task.streams.numpy(self._phase, f"load/{label}").permutation(len(rows))]

    def _load(self, run: _Run, allocation: Allocation | None) -> None:
        """Cuts old classes to their quotas and loads new data, as `Episode` does: lines 15-17."""
        if allocation is not None:
            run.held = {label: run.held[label][:quota] for label, quota in allocation.old.items()}
        for label in run.task.phases[self._phase].train:
            drawn = self._drawn(run, label)
            quota = len(drawn) if allocation is None else allocation.new[label]
            run.held[label] = np.sort(drawn[:quota])
        if allocation is not None:
            self._require_within(run, allocation.budget)

    def _require_within(self, run: _Run, bound: int) -> None:
        rows, budget = run.samples().rows, run.task.task.budget
        if len(rows) > bound:
            raise BudgetError(f"{len(rows)} samples are held, but the budget is {bound}")
        stored = int(run.task.bank.measure(rows, run.task.ladder[run.rung]).sum()) if budget.bytes is not None else 0
        if budget.bytes is not None and stored > budget.bytes:
            raise BudgetError(f"{stored} bytes are held, but the budget is {budget.bytes}")

    def _grow(self, run: _Run) -> None:
        """A head with rows for the new classes, initialised by the method."""
        task, facts = run.task, run.task.facts(self._phase)
        run.head = copy.deepcopy(task.head if run.before is None else run.before.head)
        generator = torch.Generator().manual_seed(task.streams.integer(self._phase, "head"))
        run.head.grow(facts.new_classes, generator)

        def describe(samples: Samples) -> Described:
            return Described(task.tables[run.table][samples.rows], np.empty((len(samples), 0), np.float32))

        task.method.begin(HeadOnly(run.head).as_network, facts, run.samples(), describe)

    def _train(self, name: str, samples: Sequence[Samples]) -> None:
        """Runs a stage for all runs together."""
        pairs = sorted(zip(self._runs, samples, strict=True), key=lambda pair: -len(pair[1]))
        head = StackedHead([run.head for run, _ in pairs])
        before = [run.before.head for run, _ in pairs if run.before is not None]
        train_heads(
            self._stage(name, head),
            head,
            [HeldSet(part.rows + run.start, part.labels, run.task.streams) for run, part in pairs],
            self._features,
            settings=self._settings,
            phase=self._phase,
            teacher=StackedHead(before) if before else None,
        )
        head.unstack()

    def _stage(self, name: str, head: StackedHead) -> Stage:
        network = HeadOnly(head).as_network
        [main] = self._method.stages(self._facts, network, EMPTY, self._settings)
        return main if name == "main" else self._method.balanced(main, network, EMPTY, self._finetune)

    def _balanced(self, run: _Run) -> Samples:
        """All old exemplars, and for each new class as many of its best samples as an old class has on average."""
        old = {label: rows for label, rows in run.held.items() if label < self._facts.old_classes}
        quota = balanced_quota(sum(map(len, old.values())), self._facts.old_classes)
        ranked = run.task.rank(self._latest(run, self._phase), run.table, self._phase, "balance")
        parts = {label: old[label] for label in sorted(old)} | {label: rows[:quota] for label, rows in ranked.items()}
        labels = np.repeat(list(parts), [len(rows) for rows in parts.values()])
        return Samples(np.concatenate(list(parts.values())), labels)

    def _evaluate(self) -> list[float]:
        """Accuracies of the heads on the evaluation samples of all seen classes: line 19."""
        seen = {id(task): _seen(task, self._phase) for task in self._tasks}
        found = []
        for run in self._runs:
            part = seen[id(run.task)]
            found.append(accuracy(part.labels, self._logits(run.head, part.rows + run.base).argmax(axis=1)))
        return found

    def _logits(self, head: Head, places: IntArray) -> NDArray[np.float32]:
        """Logits (n, C) of the features at these places."""
        stacked = StackedHead([head])
        parameters, few = both(stacked), max(1, SLICE // (head.classes * math.prod(head.row[:-1])))
        with torch.no_grad():
            parts = [self._features[None, some] for some in torch.from_numpy(places).split(few)]
            scores = torch.cat([stacked.class_scores(part, parameters) for part in parts], dim=1)
            logits: NDArray[np.float32] = head.scaled(scores[0]).numpy()
        return logits


def _seen(task: FeatureTask, phase: int) -> Samples:
    """Evaluation samples of all classes up to a phase."""
    parts = [past.eval_samples for past in task.phases[: phase + 1]]
    return Samples(np.concatenate([part.rows for part in parts]), np.concatenate([part.labels for part in parts]))
