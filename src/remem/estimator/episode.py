"""The episode of a stream: it owns its samples, and between phases memory is cut, samples and classes are deleted."""

import hashlib
from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

import numpy as np

from remem.action import Action, State
from remem.data.bank import Bank
from remem.data.source import ArraySource
from remem.episode import Episode
from remem.memory.allocator import Allocator
from remem.memory.budget import Budget, PhaseFacts
from remem.methods.learner import Learner
from remem.seeding import Streams
from remem.types import Group, IntArray, Json, Phase, Samples, Values

KEY_BYTES = 8
RECORD_BYTES = KEY_BYTES + 4  # what is stored with every sample: the key of its identity, and its update

Act = Callable[[State], Action]


class Record(NamedTuple):
    """What is known of a stored sample."""

    key: bytes  # of its identity, see `key_of`
    update: int  # the update that brought it, counted from 1


def key_of(identity: str) -> bytes:
    """The first 64 bits of an identity's SHA-256: enough to find a sample, and billed with it."""
    return hashlib.sha256(identity.encode("utf-8", "surrogateescape")).digest()[:KEY_BYTES]


class StreamBank(Bank):
    """Rows that a stream owns; there is no data set behind them. A row costs its code and its record."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        empty = np.empty((0, *shape), np.uint8 if len(shape) == 3 else np.float32)
        super().__init__(ArraySource(empty, np.empty(0, np.int64)))

    def measure(self, rows: IntArray, codec: str) -> IntArray:
        return super().measure(rows, codec) + RECORD_BYTES


class StreamEpisode(Episode):
    """Episode, and what happens between the phases of a stream (protocol 7)."""

    def __init__(
        self, bank: StreamBank, learner: Learner, budget: Budget, streams: Streams, ladder: tuple[str, ...]
    ) -> None:
        super().__init__(bank, learner, budget, streams, ladder=ladder)
        self._counts_bytes = True
        self.records: dict[int, Record] = {}  # of all held rows

    def use_budget(self, budget: Budget) -> None:
        """The budget from the next load on. Its exemplar part and the mean size of codes move with the stream."""
        self._budget, self._allocator = budget, self._allocator.with_budget(budget)

    def replace_budget(self, budget: Budget, act: Act) -> None:
        """A user's new budget, at once: shrinking cuts by the rankings."""
        self.use_budget(budget)
        self._memory.lift()
        self.settle(act)

    def settle(self, act: Act) -> None:
        """Cuts the memory to the budget with nothing arriving. The action splits the classes of the latest phase."""
        harder, easier = self._rank_latest(self._hand_over())
        state = self._allocator.observe(PhaseFacts(0, 0))
        action = act(state)
        if harder:
            self._allocator.split(harder, easier, action)
        decision = self._allocator.decide_between(state, action)
        allocation = self._allocator.allocate(state, decision, held=self._memory.counts(), arriving={})
        self._keep_exemplars(Phase(self.next_phase, (), {}), allocation)
        self._allocator.settle()
        self._returned = ()

    @property
    def snapshot_origin(self) -> Json:
        """The origin that a snapshot must have to be restored here."""
        return self._origin

    def held(self) -> Samples:
        return self._memory.samples()

    @property
    def codec(self) -> str:
        """How all held samples are stored."""
        return self._codec

    def bytes_of(self, rows: IntArray) -> int:
        return int(self._memory.sizes(rows).sum())

    def half_of(self, label: int) -> str | None:
        """Whether a class is in the harder or the easier half of its phase; None as long as that is not decided."""
        for group in self._allocator.groups:
            if label in group.classes:
                return "harder" if label in group.hard else "easier"
        return None

    def discard(self, rows: IntArray) -> None:
        """Deletes single samples."""
        self._memory.discard(rows)
        self._bank.drop(rows)
        self._described = None

    def discard_classes(self, classes: Collection[int]) -> None:
        """Deletes classes: their samples and their rows of the head. The others move up."""
        self.discard(self._memory.samples().of(classes).rows)
        kept = [label for label in sorted(self._memory.counts()) if label not in classes]
        places = {label: place for place, label in enumerate(kept)}
        self._memory.relabel(places)
        self._learner.network.head.keep(kept)

        def moved(labels: Iterable[int]) -> tuple[int, ...]:
            return tuple(places[label] for label in labels if label in places)

        self._phases, self._returned = [moved(phase) for phase in self._phases], moved(self._returned)
        groups = [Group(moved(group.hard), moved(group.easy), group.level2_tenths) for group in self._allocator.groups]
        self._allocator = Allocator(
            self._budget,
            [len(phase) for phase in self._phases],
            [group for group in groups if group.classes],
            self._allocator.old_tenths,
            self._allocator.rung,
            settled=self._allocator.settled,
        )
        self._described = None

    def relearn(self, act: Act) -> None:
        """Trains a new network on what is held, as phase 0 of a stream that begins here."""
        self.settle(act)
        samples = self._memory.samples()
        classes = tuple(sorted(self._memory.counts()))
        phase = Phase(0, classes, {label: self._memory.rows(label) for label in classes})
        self._learner.fit(phase, samples, self._held)
        groups, rung = self._allocator.groups, self._allocator.rung
        self._phases, self._evaluated = [classes], self._evaluated[:1]
        self._allocator = Allocator(self._budget, [len(classes)], groups, 0, rung, settled=True)
        self._described = None

    def keep_records(self) -> None:
        """Drops the records of samples that are not held any more."""
        rows = self._memory.samples().rows.tolist()
        self.records = {row: self.records[row] for row in rows}

    def _replace(self, samples: Samples, values: Values) -> IntArray:
        rows = super()._replace(samples, values)
        self.records |= {new: self.records[old] for old, new in zip(samples.rows.tolist(), rows.tolist(), strict=True)}
        return rows
