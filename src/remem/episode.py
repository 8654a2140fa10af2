"""One class-incremental learning episode: observe, allocate, load, learn, judge. It alone moves samples in and out."""

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from remem.data.bank import Bank
from remem.errors import InputError
from remem.evaluation import metrics
from remem.memory.allocation import allocate, apportion, decide, outlook
from remem.memory.budget import Budget, PhaseFacts
from remem.memory.store import HeldView, Memory
from remem.methods.learner import Learner
from remem.seeding import Streams
from remem.selection.difficulty import class_entropy, split
from remem.types import (
    Action,
    Allocation,
    Group,
    IntArray,
    Judgement,
    Phase,
    PhaseResult,
    Samples,
    State,
    Values,
)


@dataclass(frozen=True)
class Snapshot:
    """An episode at the end of a phase: plain facts and tensors, no code. Enough to go on exactly, anywhere."""

    facts: dict[str, Any]  # JSON
    tensors: dict[str, Tensor]


class Clock:
    """Seconds by purpose."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(("train", "select", "policy", "evaluate"), 0.0)

    @contextmanager
    def __call__(self, purpose: str) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[purpose] += time.perf_counter() - started


class Episode:
    """The state of a run between phases; a target run, a pseudo task and a user's stream are all episodes."""

    def __init__(self, bank: Bank, judge: Bank, learner: Learner, budget: Budget, streams: Streams) -> None:
        self._bank = bank
        self._judge_bank = judge
        self._learner = learner
        self._budget = budget
        self._streams = streams
        self._memory = Memory()
        self._held = HeldView(self._memory, bank)
        self._groups: list[Group] = []  # one per phase whose classes are old
        self._phases: list[tuple[int, ...]] = []  # classes of every phase so far
        self._judged: list[Samples] = []  # judging samples of every phase so far
        self._old_tenths = 0

    @property
    def next_phase(self) -> int:
        return len(self._phases)

    @property
    def learner(self) -> Learner:
        return self._learner

    @property
    def bank(self) -> Bank:
        """This episode's own rows; a user's stream hands its samples to it."""
        return self._bank

    @property
    def samples_peak(self) -> int:
        """The most samples held at once in phases 1..N, as every load counted them; all, where nothing is limited."""
        if self._memory.bound is None and len(self._phases) > 1:
            return self._memory.total
        return self._memory.peak

    @property
    def _origin(self) -> dict[str, Any]:
        """What an episode's rows and random streams hang on: a snapshot fits no other."""
        return {"data": self._bank.fingerprint, "seed": self._streams.seed, "task": self._streams.task}

    def observe(self, phase: Phase) -> State:
        """s_i and all that a policy may know before phase i >= 1 (Algorithm 1, line 11)."""
        seen = [len(classes) for classes in self._phases]
        return outlook(self._budget, seen, PhaseFacts(len(phase.classes), phase.arriving), self._old_tenths)

    def advance(self, phase: Phase, action: Action | None) -> PhaseResult:
        """One phase: Algorithm 1, lines 12-19. Phase 0 takes no action and sees all of its data."""
        if phase.index != self.next_phase:
            raise ValueError(f"phase {phase.index} was given, phase {self.next_phase} is next")
        clock = Clock()
        allocation = self._allocate(phase, action, clock)  # Eq. 1 and 2, whole numbers
        with clock("select"):
            self._keep_exemplars(allocation)  # line 15-16; frees the rest
            self._load_new(phase, allocation)  # line 17
        with clock("train"):
            self._learner.fit(phase, self._memory.samples(), self._held)  # line 18
        self._phases.append(phase.classes)
        self._judged.append(phase.judge)
        with clock("evaluate"):
            judgement = self._judge()  # line 19
        return self._result(phase, allocation, judgement, clock)

    def class_means(self) -> metrics.FloatArray | None:
        """What nearest-mean readout compares with: the mean of every seen class; None where one holds no sample."""
        held, counts = self._memory.samples(), self._memory.counts()
        if not all(counts.values()):
            return None
        features = self._learner.describe(self._held, held).features
        mirrored = None
        if self._learner.mirrors:  # iCaRL's means are over the exemplars and their mirror images
            mirrored = self._learner.describe(self._held, held, mirrored=True).features
        return metrics.class_means(features, held.labels, list(counts), mirrored)

    def snapshot(self) -> Snapshot:
        """Everything needed to go on from here, in this process or another."""
        owned = self._bank.owned()
        facts = {
            "phases": [list(classes) for classes in self._phases],
            "groups": [asdict(group) for group in self._groups],
            "old_tenths": self._old_tenths,
            "judged": [len(samples) for samples in self._judged],
            "next_row": self._bank.next_row,
            "origin": self._origin,
        }
        judged = {"rows": _join(s.rows for s in self._judged), "labels": _join(s.labels for s in self._judged)}
        tensors = {f"network/{name}": value for name, value in self._learner.state().items()}
        tensors |= {f"memory/{name}": torch.from_numpy(value) for name, value in self._memory.state().items()}
        tensors |= {f"judged/{name}": torch.from_numpy(value) for name, value in judged.items()}
        if owned:
            tensors["owned/rows"] = torch.tensor(list(owned))
            tensors["owned/values"] = torch.from_numpy(np.stack(list(owned.values())))
        return Snapshot(facts, tensors)

    def restore(self, snapshot: Snapshot) -> None:
        """Becomes the episode that the snapshot was taken of; the next `advance` gives equal results, bit for bit."""
        facts, parts = snapshot.facts, _by_room(snapshot.tensors)
        if facts["origin"] != self._origin:
            raise InputError(f"snapshot: it is of {facts['origin']}, expected {self._origin}")
        self._learner.load(parts["network"])
        owned = parts.get("owned", {"rows": torch.empty(0), "values": torch.empty(0)})
        numbers = map(int, owned["rows"].tolist())
        self._bank.restore_owned(dict(zip(numbers, owned["values"].numpy(), strict=True)), facts["next_row"])
        self._memory = Memory.from_state({name: value.numpy() for name, value in parts["memory"].items()})
        self._held = HeldView(self._memory, self._bank)
        self._phases = [tuple(classes) for classes in facts["phases"]]
        self._groups = [Group(tuple(g["hard"]), tuple(g["easy"]), g["level2_tenths"]) for g in facts["groups"]]
        self._old_tenths = facts["old_tenths"]
        cuts = np.cumsum(facts["judged"])[:-1]
        rows, labels = (np.split(parts["judged"][name].numpy(), cuts) for name in ("rows", "labels"))
        self._judged = [Samples(r, y) for r, y in zip(rows, labels, strict=True)]

    def _allocate(self, phase: Phase, action: Action | None, clock: Clock) -> Allocation | None:
        """Who may hold how much in this phase; None where nothing is limited (phase 0, and methods that keep all)."""
        regime = self._learner.method.regime
        if phase.index == 0 or regime == "all":
            return None
        state = self.observe(phase)
        arriving = {label: len(rows) for label, rows in phase.train.items()}
        if regime == "none":
            return self._forget_all(state, arriving)
        if action is None:
            raise ValueError(f"phase {phase.index} needs an action")
        with clock("select"):
            self._groups.append(self._rank_latest(action.level2_tenths))
        with clock("policy"):
            decision = decide(state, action)
            self._old_tenths = decision.old_tenths
            held = self._memory.counts()
            return allocate(state.budget, decision, self._groups, held=held, arriving=arriving)

    def _forget_all(self, state: State, arriving: Mapping[int, int]) -> Allocation:
        """No exemplars: old classes keep nothing, the new data may fill the budget."""
        held = self._memory.counts()
        for label in self._phases[-1]:
            self._memory.rank(label, np.arange(held[label]))
        total = min(state.budget, state.arriving)
        ones = [1] * len(arriving)
        quotas = apportion(total, ones, lower=ones, upper=list(arriving.values()))
        return Allocation(state.budget, None, dict.fromkeys(held, 0), dict(zip(arriving, quotas, strict=True)))

    def _rank_latest(self, level2_tenths: int) -> Group:
        """Ranks the classes of the phase before for ever, and splits them into a harder and an easier half."""
        samples = self._memory.samples().of(self._phases[-1])
        described, ranking = self._learner.rank(self._held, samples, self.next_phase, "rank")
        for label, order in ranking.items():
            self._memory.rank(label, order)
        hard, easy = split(class_entropy(described.logits, samples.labels))
        return Group(hard, easy, level2_tenths)

    def _keep_exemplars(self, allocation: Allocation | None) -> None:
        """Lines 15-16: every old class is cut to its quota, the rest is freed; a method may refine what stays."""
        if allocation is None:
            self._memory.open(None)
            return
        if self._groups:
            self._refine(allocation)
        self._bank.drop(self._memory.cut(allocation.old))
        self._memory.open(allocation.budget)

    def _refine(self, allocation: Allocation) -> None:
        """While everything is still held, the method may give what will be kept better values."""
        latest = set(self._phases[-1])
        kept = {label: self._memory.rows(label)[:quota] for label, quota in allocation.old.items()}
        new = _samples({label: rows for label, rows in kept.items() if label in latest})
        old = _samples({label: rows for label, rows in kept.items() if label not in latest})
        held = self._memory.samples().of(latest)
        self._learner.refine(new, old, held, self._held, self._replace, self.next_phase)

    def _replace(self, samples: Samples, values: Values) -> IntArray:
        """Refined rows take the places of their originals; their numbers."""
        rows = self._bank.own(values)
        for label, old, new in zip(samples.labels.tolist(), samples.rows.tolist(), rows.tolist(), strict=True):
            self._memory.replace(label, old, new)
        self._bank.drop(samples.rows)
        return rows

    def _load_new(self, phase: Phase, allocation: Allocation | None) -> None:
        """New data at random without replacement. A larger quota draws the same rows and more."""
        for label, rows in phase.train.items():
            quota = len(rows) if allocation is None else allocation.new[label]
            order = self._streams.numpy(phase.index, f"load/{label}").permutation(len(rows))
            self._memory.load(label, np.sort(rows[order[:quota]]))
            self._bank.drop(rows[order[quota:]])

    def _judge(self) -> Judgement:
        """Both readouts on the judging samples of all seen classes."""
        seen = Samples(_join(s.rows for s in self._judged), _join(s.labels for s in self._judged))
        described, means = self._learner.describe(self._judge_bank, seen), self.class_means()
        nme = None if means is None else metrics.nearest_mean(described.features, means)
        return Judgement(seen.labels, described.logits.argmax(axis=1), nme)

    def _result(self, phase: Phase, allocation: Allocation | None, judged: Judgement, clock: Clock) -> PhaseResult:
        labels, own = judged.labels, judged.nme if self._learner.method.readout == "nme" else judged.cnn
        if own is None:
            raise ValueError("a method that keeps no exemplars cannot read out by nearest means")
        phase_of_class = {label: index for index, classes in enumerate(self._phases) for label in classes}
        old, new = metrics.old_new_accuracy(labels, own, phase.classes[0])
        counts = self._memory.counts()
        held_new = sum(counts[label] for label in phase.classes)
        return PhaseResult(
            phase=phase.index,
            classes_seen=len(phase_of_class),
            accuracy=metrics.accuracy(labels, own),
            accuracy_cnn=metrics.accuracy(labels, judged.cnn),
            accuracy_nme=None if judged.nme is None else metrics.accuracy(labels, judged.nme),
            accuracy_by_phase=tuple(metrics.accuracy_by_phase(labels, own, phase_of_class)),
            accuracy_old=old,
            accuracy_new=new,
            accuracy_per_class=metrics.accuracy_per_class(labels, own),
            decision=None if allocation is None else allocation.decision,
            budget=None if allocation is None else allocation.budget,
            held_old=sum(counts.values()) - held_new,
            held_new=held_new,
            held_per_class=counts,
            seconds=clock.seconds,
            judgement=judged,
        )


def _join(parts: Iterable[IntArray]) -> IntArray:
    return np.concatenate(list(parts))


def _samples(rows: Mapping[int, IntArray]) -> Samples:
    if not rows:
        return Samples(np.empty(0, np.int64), np.empty(0, np.int64))
    return Samples(_join(rows.values()), np.repeat(list(rows), [len(part) for part in rows.values()]))


def _by_room(tensors: Mapping[str, Tensor]) -> dict[str, dict[str, Tensor]]:
    """'memory/rows' -> ['memory']['rows']."""
    rooms: dict[str, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        room, _, rest = name.partition("/")
        rooms.setdefault(room, {})[rest] = value
    return rooms
