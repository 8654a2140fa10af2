"""One class-incremental episode: observe, allocate, load, train, evaluate. Nothing else adds or removes samples."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from remem.action import Action, State
from remem.clock import Clock
from remem.codecs.table import CODECS, RAW
from remem.data.bank import Bank
from remem.errors import DamagedFileError, InputError
from remem.evaluation import metrics
from remem.memory.allocator import Allocator, fit_bytes
from remem.memory.budget import Budget, PhaseFacts
from remem.memory.store import HeldView, Memory
from remem.methods.describe import Described, keeps
from remem.methods.learner import Learner
from remem.methods.method import Measures
from remem.seeding import Streams
from remem.selection.difficulty import class_entropy, split
from remem.storage.tensorfile import Snapshot
from remem.types import Allocation, Group, IntArray, Json, Phase, PhaseResult, Predictions, Samples, Values, joined


@dataclass(frozen=True)
class TrainedPhase:
    """A phase that was trained in this process and can be evaluated."""

    phase: Phase
    allocation: Allocation | None
    measures: Measures
    clock: Clock


@dataclass(frozen=True)
class HeldDescribed:
    """What the network says of the held samples. Valid until one of them changes."""

    means: metrics.FloatArray  # (C, d), of all seen classes
    latest: Described | None  # samples of the latest phase's classes; None if they are too many to be kept


class Episode:
    """The state of a run between phases. Target runs, pseudo tasks and user streams are all episodes."""

    def __init__(
        self,
        bank: Bank,
        learner: Learner,
        budget: Budget,
        streams: Streams,
        *,
        eval_bank: Bank | None = None,
        ladder: tuple[str, ...] = (RAW,),
        encodes_phase0: bool = False,
    ) -> None:
        self._bank = bank
        self._eval_bank = bank if eval_bank is None else eval_bank
        self._learner = learner
        self._budget = budget
        self._streams = streams
        self._ladder = ladder  # codecs, from exact to coarse
        self._codec = ladder[0] if encodes_phase0 else RAW  # of all held samples
        self._counts_bytes = budget.bytes is not None or ladder != (RAW,)
        self._memory = Memory()
        self._held = HeldView(self._memory, bank)
        self._allocator = Allocator(budget)
        self._phases: list[tuple[int, ...]] = []  # classes of each phase so far
        self._returned: tuple[int, ...] = ()  # earlier classes that brought samples to the latest phase (streams)
        self._evaluated: list[Samples] = []  # evaluation samples of each phase so far
        self._latest: TrainedPhase | None = None
        self._described: HeldDescribed | None = None  # since the last change of network and memory

    @property
    def next_phase(self) -> int:
        return len(self._phases)

    @property
    def learner(self) -> Learner:
        return self._learner

    @property
    def bank(self) -> Bank:
        """The rows of this episode. A user stream adds its samples here."""
        return self._bank

    @property
    def samples_peak(self) -> int:
        """The most samples held at once in phases 1..N, measured at every load; all samples if there is no budget."""
        if self._memory.bound is None and len(self._phases) > 1:
            return self._memory.total
        return self._memory.peak

    @property
    def bytes_peak(self) -> int | None:
        """The most bytes held at once in phases 1..N; None where samples are counted and stored as they are."""
        if not self._counts_bytes:
            return None
        return self._memory.byte_peak or (self._memory.total_bytes if len(self._phases) > 1 else 0)

    @property
    def _origin(self) -> Json:
        """Data, seed and task. A snapshot fits only episodes of the same origin."""
        return {"data": self._bank.fingerprint, "seed": self._streams.seed, "task": self._streams.task}

    def observe(self, phase: Phase) -> State:
        """Returns s_i and everything else that a policy may know before phase i >= 1 (Algorithm 1, line 11)."""
        return self._allocator.observe(PhaseFacts(len(phase.classes), phase.arriving))

    def advance(self, phase: Phase, action: Action | None) -> PhaseResult:
        """Trains and evaluates one phase: Algorithm 1, lines 12-19."""
        self.train(phase, action)
        return self.evaluate()

    def train(self, phase: Phase, action: Action | None) -> None:
        """Trains one phase: lines 12-18. Phase 0 takes no action and uses all of its data."""
        if phase.index != self.next_phase:
            raise ValueError(f"phase {phase.index} was given, phase {self.next_phase} is next")
        self._latest, clock = None, Clock()
        allocation = self._allocate(phase, action, self._hand_over(), clock)  # Eq. 1 and 2
        with clock("select"):
            allocation, refined = self._keep_exemplars(phase, allocation)  # lines 15-16; frees the rest
            self._load_new(phase, allocation)  # line 17
        with clock("train"):
            self._learner.fit(phase, self._memory.samples(), self._held)  # line 18
        self._phases.append(phase.classes)
        self._returned = tuple(sorted(phase.train.keys() - set(phase.classes)))
        self._evaluated.append(phase.eval_samples)
        self._allocator.add_phase(len(phase.classes))
        measures = {**refined, **self._learner.method.measures(self._learner.network)}
        self._latest = TrainedPhase(phase, allocation, measures, clock)

    def evaluate(self) -> PhaseResult:
        """Evaluates both readouts on all seen classes after the latest phase: line 19."""
        if self._latest is None:
            raise ValueError("no phase has been trained since this episode began or was restored")
        with self._latest.clock("evaluate"):
            predictions = self._predict()
        return self._result(self._latest, predictions)

    def class_means(self) -> metrics.FloatArray | None:
        """Returns the class means of the nearest-mean readout, or None if a seen class holds no sample."""
        if not all(self._memory.counts().values()):
            return None
        if self._described is None:
            self._described = self._describe_held()
        return self._described.means

    def describe_held(self) -> tuple[Described, IntArray]:
        """Features of every held sample, and its class. Several processes divide the work, so all must call it."""
        samples = self._memory.samples()
        return self._learner.describe(self._held, samples, mirror=self._learner.mirrors), samples.labels

    def snapshot(self) -> Snapshot:
        """Returns everything needed to continue from here, in this process or another."""
        owned = self._bank.owned()
        facts = {
            "phases": [list(classes) for classes in self._phases],
            "groups": [asdict(group) for group in self._allocator.groups],
            "old_tenths": self._allocator.old_tenths,
            "evaluated": [len(samples) for samples in self._evaluated],
            "next_row": self._bank.next_row,
            "origin": self._origin,
        }
        if self._returned or self._allocator.settled:  # only in streams
            facts |= {"returned": list(self._returned), "settled": self._allocator.settled}
        if self._counts_bytes:
            facts |= {"codec": self._codec, "rung": self._allocator.rung}
        seen = joined(self._evaluated)
        tensors = {f"network/{name}": value for name, value in self._learner.state().items()}
        tensors |= {f"memory/{name}": torch.from_numpy(value) for name, value in self._memory.state().items()}
        tensors |= {"evaluated/rows": torch.from_numpy(seen.rows), "evaluated/labels": torch.from_numpy(seen.labels)}
        if self._codec != RAW:
            arrays = self._bank.code_state(self._memory.samples().rows, self._codec)
            tensors |= {f"codes/{name}": torch.from_numpy(value) for name, value in arrays.items()}
        if owned:
            tensors["owned/rows"] = torch.tensor(list(owned))
            tensors["owned/values"] = torch.from_numpy(np.stack(list(owned.values())))
        return Snapshot(facts, tensors)

    def restore(self, snapshot: Snapshot) -> None:
        """Restores a snapshot. The next `advance` then gives bit-identical results."""
        facts, parts = snapshot.facts, snapshot.parts()
        if facts["origin"] != self._origin:
            raise InputError(f"snapshot: taken from {facts['origin']}, expected {self._origin}")
        self._learner.load(parts["network"])
        owned = parts.get("owned", {"rows": torch.empty(0), "values": torch.empty(0)})
        numbers = map(int, owned["rows"].tolist())
        self._bank.restore_owned(dict(zip(numbers, owned["values"].numpy(), strict=True)), facts["next_row"])
        self._memory = self._restore_memory(facts.get("codec", RAW), parts)
        self._held = HeldView(self._memory, self._bank)
        self._phases = [tuple(classes) for classes in facts["phases"]]
        self._returned = tuple(facts.get("returned", ()))
        groups = [Group(tuple(g["hard"]), tuple(g["easy"]), g["level2_tenths"]) for g in facts["groups"]]
        seen = [len(classes) for classes in self._phases]
        share, rung, settled = facts["old_tenths"], facts.get("rung", 0), facts.get("settled", False)
        self._allocator = Allocator(self._budget, seen, groups, share, rung, settled=settled)
        cuts = np.cumsum(facts["evaluated"])[:-1]
        rows, labels = (np.split(parts["evaluated"][name].numpy(), cuts) for name in ("rows", "labels"))
        self._evaluated = [Samples(r, y) for r, y in zip(rows, labels, strict=True)]
        self._latest = self._described = None

    def _restore_memory(self, codec: str, parts: Mapping[str, Mapping[str, Tensor]]) -> Memory:
        """Restores the held rows, and their codes if they have any."""
        state = {name: value.numpy() for name, value in parts["memory"].items()}
        arrays = {name: value.numpy() for name, value in parts.get("codes", {}).items()}
        rows = state["rows"]
        try:
            self._bank.restore_codes(arrays, rows, codec)
        except (KeyError, ValueError) as error:
            raise DamagedFileError(f"snapshot: {codec}: {error}") from error
        self._codec = codec
        return Memory.from_state(state, self._bank.measure(rows, codec) if self._counts_bytes else None)

    def _describe_held(self) -> HeldDescribed:
        """Reads and describes every held sample once.

        The latest classes are described apart, in the same batches as by `_rank_latest` of a restored episode, where
        nothing is kept: the last bit of a logit can depend on its batch.
        """
        latest = self._latest_classes()
        earlier = tuple(label for label in chain(*self._phases) if label not in latest)
        parts = [(classes, *self._describe_classes(classes)) for classes in (earlier, latest) if classes]
        means = np.empty((len(earlier) + len(latest), parts[0][2].shape[1]))
        for classes, _, own in parts:
            means[list(classes)] = own
        if not latest:
            return HeldDescribed(means, None)
        described = parts[-1][1]
        kept = keeps(len(described.logits), described.features.shape[1] + described.logits.shape[1])
        return HeldDescribed(means, described._replace(mirrored=None) if kept else None)

    def _latest_classes(self) -> tuple[int, ...]:
        """The classes of the latest phase and those that returned in it, until they are ranked."""
        return () if self._allocator.settled else tuple(sorted((*self._phases[-1], *self._returned)))

    def _describe_classes(self, classes: tuple[int, ...]) -> tuple[Described, metrics.FloatArray]:
        """Describes the held samples of some classes. Returns the class means as well."""
        samples = self._memory.samples().of(classes)
        # iCaRL averages over exemplars and their mirror images
        described = self._learner.describe(self._held, samples, mirror=self._learner.mirrors)
        return described, metrics.class_means(described.features, samples.labels, classes, described.mirrored)

    def _hand_over(self) -> Described | None:
        """Gives away what is kept of the latest classes: what follows changes the memory and the network."""
        described, self._described = self._described, None
        return None if described is None else described.latest

    def _allocate(
        self, phase: Phase, action: Action | None, latest: Described | None, clock: Clock
    ) -> Allocation | None:
        """Computes the quotas of a phase; None if nothing is limited (phase 0, and methods that keep all data)."""
        replay = self._learner.replay
        if phase.index == 0 or replay == "all":
            return None
        state = self.observe(phase)
        held, arriving = self._memory.counts(), {label: len(rows) for label, rows in phase.train.items()}
        if replay == "none":
            for label in self._latest_classes():
                self._memory.rank(label, np.arange(held[label]))
            return self._allocator.allocate_new_only(state, held=held, arriving=arriving)
        if action is None:
            raise ValueError(f"phase {phase.index} needs an action")
        with clock("select"):
            harder, easier = self._rank_latest(latest)
        with clock("policy"):
            if harder:
                self._allocator.split(harder, easier, action)
            decision = self._allocator.decide(state, action)
            return self._allocator.allocate(state, decision, held=held, arriving=arriving)

    def _rank_latest(self, described: Described | None) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Ranks the classes of the previous phase and returns the harder and easier half of those that it brought."""
        classes = self._latest_classes()
        if not classes:
            return (), ()
        samples = self._memory.samples().of(classes)
        if described is None:
            described = self._learner.describe(self._held, samples)
        ranking = self._learner.rank(described.features, samples.labels, phase=self.next_phase, purpose="rank")
        for label, order in ranking.items():
            self._memory.rank(label, order)
        entropy = class_entropy(described.logits, samples.labels)
        return split({label: entropy[label] for label in self._phases[-1]})

    def _keep_exemplars(self, phase: Phase, allocation: Allocation | None) -> tuple[Allocation | None, Measures]:
        """Cuts every old class to its quota and frees the rest: lines 15-16. The method may refine what is kept.

        Returns the allocation that fits the budget in bytes.
        """
        if allocation is None:
            self._memory.open(None)
            return None, {}
        refined = self._refine(allocation) if self._allocator.groups else {}
        allocation = self._fit(phase, allocation)
        self._bank.drop(self._memory.cut(allocation.old))
        if self._counts_bytes:
            rows, self._codec = self._memory.samples().rows, self._ladder[allocation.rung]
            self._memory.resize(rows, self._bank.keep(rows, self._codec))  # encoded from what was decoded so far
        self._memory.open(allocation.budget, self._budget.bytes)
        return allocation, refined

    def _fit(self, phase: Phase, allocation: Allocation) -> Allocation:
        """Drops samples from the end of their rankings until their real bytes fit, where codes differ in size."""
        limit, codec = self._budget.bytes, self._ladder[allocation.rung]
        if limit is None or CODECS[codec].size(self._bank.stored_shape) is not None:
            return allocation
        old = {label: self._memory.rows(label)[:quota] for label, quota in allocation.old.items()}
        new = {label: self._drawn(phase, label)[:quota] for label, quota in allocation.new.items()}
        sizes = [{label: self._bank.measure(own, codec) for label, own in part.items()} for part in (old, new)]
        arriving = {label: len(own) for label, own in phase.train.items()}
        shrink = partial(self._allocator.shrink, held=self._memory.counts(), arriving=arriving)
        return fit_bytes(allocation, limit, sizes[0], sizes[1], shrink)

    def _refine(self, allocation: Allocation) -> Measures:
        """Lets the method refine the exemplars to be kept, while everything is still held."""
        latest, kept = self._latest_classes(), self._memory.best(allocation.old)
        new, old = kept.of(latest), kept.take(~np.isin(kept.labels, latest))
        held = self._memory.samples().of(latest)
        return self._learner.refine(new, old, held, self._held, self._replace, self.next_phase)

    def _replace(self, samples: Samples, values: Values) -> IntArray:
        """Replaces rows by their refined versions and returns the new row numbers.

        A row whose refined version needs more bytes than the budget has left stays as it is.
        """
        rows = self._bank.own(values)
        sizes = self._bank.keep(rows, self._codec).tolist() if self._counts_bytes else [None] * len(rows)
        fits = np.ones(len(rows), np.bool_)
        numbers = samples.labels.tolist(), samples.rows.tolist(), rows.tolist()
        for place, (label, old, new, size) in enumerate(zip(*numbers, sizes, strict=True)):
            fits[place] = self._memory.can_replace(old, size)
            if fits[place]:
                self._memory.replace(label, old, new, size)
        self._bank.drop(np.where(fits, samples.rows, rows))
        return np.where(fits, rows, samples.rows)

    def _load_new(self, phase: Phase, allocation: Allocation | None) -> None:
        """Loads new data at random, without replacement. A larger quota draws a superset of the rows."""
        for label in phase.train:
            if label not in phase.classes:
                self._memory.reopen(label)
            drawn = self._drawn(phase, label)
            quota = len(drawn) if allocation is None else allocation.new[label]
            rows = np.sort(drawn[:quota])
            self._memory.load(label, rows, self._bank.keep(rows, self._codec) if self._counts_bytes else None)
            self._bank.drop(drawn[quota:])

    def _drawn(self, phase: Phase, label: int) -> IntArray:
        """The training rows of a new class in the order in which they are loaded."""
        rows = phase.train[label]
        return rows[self._streams.numpy(phase.index, f"load/{label}").permutation(len(rows))]

    def _predict(self) -> Predictions:
        seen = joined(self._evaluated)
        if not len(seen):
            raise ValueError("no phase so far has samples to evaluate on")
        described, means = self._learner.describe(self._eval_bank, seen), self.class_means()
        nme = None if means is None else metrics.nearest_mean(described.features, means)
        return Predictions(seen.labels, described.logits.argmax(axis=1), nme)

    def _result(self, latest: TrainedPhase, predictions: Predictions) -> PhaseResult:
        phase, allocation = latest.phase, latest.allocation
        labels, own = predictions.labels, predictions.nme if self._learner.method.readout == "nme" else predictions.cnn
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
            accuracy_cnn=metrics.accuracy(labels, predictions.cnn),
            accuracy_nme=None if predictions.nme is None else metrics.accuracy(labels, predictions.nme),
            accuracy_by_phase=tuple(metrics.accuracy_by_phase(labels, own, phase_of_class)),
            accuracy_old=old,
            accuracy_new=new,
            accuracy_per_class=metrics.accuracy_per_class(labels, own),
            decision=None if allocation is None else allocation.decision,
            budget=None if allocation is None else allocation.budget,
            held_old=sum(counts.values()) - held_new,
            held_new=held_new,
            held_per_class=counts,
            measures=latest.measures,
            seconds=latest.clock.seconds,
            predictions=predictions,
            codec=self._codec if self._counts_bytes else None,
            budget_bytes=None if allocation is None else self._budget.bytes,
            held_bytes=self._memory.total_bytes if self._counts_bytes else None,
        )
