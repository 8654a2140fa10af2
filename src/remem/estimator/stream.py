"""A stream: a model that takes samples of any classes, one update after another, within one budget (protocol 7)."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import nn

from remem.action import Action, State
from remem.data.arrays import as_rows, as_values
from remem.errors import InputError
from remem.estimator.account import Label, MemoryRow, MemoryTable
from remem.estimator.arrivals import sample_ids
from remem.estimator.build import (
    budget_spec,
    open_stream_episode,
    prepare_stream,
    sizes_of,
    stream_budget,
    stream_method,
)
from remem.estimator.episode import Record, StreamBank, StreamEpisode, key_of
from remem.evaluation.calibration import PLAIN_SCALE
from remem.events import Emit, Event, ignore
from remem.memory.budget import Budget, BudgetSpec, PhaseFacts, parse_budget, require_a_sample_per_class
from remem.runs.calibrate import fit_held
from remem.runs.config import RunConfig
from remem.runs.model import Model
from remem.runs.prepared import Prepared
from remem.runs.run import whole_numbers
from remem.storage.tensorfile import Snapshot
from remem.types import IntArray, Phase, Values


@dataclass(frozen=True)
class UpdateReport:
    """What an update brought, and what is held after it."""

    update: int
    samples: int
    new_classes: tuple[Label, ...]
    known_classes: tuple[Label, ...]
    held: int
    held_bytes: int
    budget: str
    seconds: float


@dataclass(frozen=True)
class _Before:
    """Everything that an update changes, to go back to if it fails."""

    snapshot: Snapshot
    records: dict[int, Record]
    classes: tuple[Label, ...]
    budget: BudgetSpec


class Stream:
    """Learns from updates. What an update does not keep is gone; a failed update changes nothing."""

    def __init__(self, config: RunConfig, module: nn.Module | None = None, *, keeps_backbone: bool = False) -> None:
        """The first update decides the shape of the samples. `keeps_backbone` trains the head alone in it."""
        stream_method(config)
        self._config, self._module, self._keeps_backbone = config, module, keeps_backbone
        self._spec = budget_spec(config)
        self._emit: Emit = ignore
        self._prepared: Prepared | None = None
        self._episode: StreamEpisode | None = None
        self._bank: StreamBank | None = None
        self._model: Model | None = None  # until the next change
        self.classes: tuple[Label, ...] = ()  # in their order of arrival
        self.updates = 0

    @property
    def config(self) -> RunConfig:
        """The settings with the present budget, resolved once there are samples."""
        config = self._config if self._prepared is None else self._prepared.config
        return config.model_copy(update={"memory": config.memory.model_copy(update={"budget": self.budget_setting})})

    @property
    def prepared(self) -> Prepared:
        if self._prepared is None:
            raise InputError("this model has seen no samples yet; expected an update first")
        return self._prepared

    @property
    def episode(self) -> StreamEpisode:
        if self._episode is None:
            raise InputError("this model has seen no samples yet; expected an update first")
        return self._episode

    @property
    def shape(self) -> tuple[int, ...]:
        return self.prepared.scenario.bank.shape

    @property
    def budget_setting(self) -> str:
        """The budget as a setting: `2000`, `2000000B` or `growing:20`."""
        amount = self._spec.amount
        return {"fixed": f"{amount}", "bytes": f"{amount}B", "growing": f"growing:{amount}"}[self._spec.kind]

    def open(self, shape: tuple[int, ...]) -> None:
        """Builds everything that needs the shape of the samples."""
        self._prepared = prepare_stream(self._config, shape, self._module)
        self._episode = open_stream_episode(self._prepared, self._relay, keeps_backbone=self._keeps_backbone)
        assert isinstance(self._episode.bank, StreamBank)
        self._bank = self._episode.bank

    def update(
        self, values: ArrayLike, labels: ArrayLike, ids: Sequence[str] | None = None, emit: Emit = ignore
    ) -> UpdateReport:
        """Learns from samples of unseen and known classes (protocol 7)."""
        started = time.perf_counter()
        given, names = self._samples(values), as_labels(labels)
        if len(names) != len(given):
            raise InputError(f"y: {len(names)} labels for {len(given)} samples; expected one for each")
        keys = sample_ids(np.asarray(values)) if ids is None else list(map(str, ids))
        if len(keys) != len(given):
            raise InputError(f"ids: {len(keys)} given for {len(given)} samples; expected one for each")
        with self._transaction(given.shape[1:], emit):
            arriving = set(names)
            new = tuple(sorted(arriving - set(self.classes), key=_order))
            self._train(given, names, keys, new)
        known = tuple(label for label in self.classes if label in arriving and label not in new)
        memory = self.memory()
        return UpdateReport(
            update=self.updates,
            samples=len(given),
            new_classes=new,
            known_classes=known,
            held=memory.total_samples,
            held_bytes=memory.total_bytes,
            budget=memory.budget,
            seconds=time.perf_counter() - started,
        )

    def model(self) -> Model:
        """The present model, for prediction."""
        if self._model is None:
            self._model = self._build_model()
        return self._model

    def _build_model(self) -> Model:
        names, means = tuple(map(str, self.classes)), self.episode.class_means()
        return Model(
            config=self.config,
            readout=self.prepared.method.readout,
            class_names=names,
            class_order=tuple(range(len(names))),
            shape=self.shape,
            class_means=means,
            _learner=self.episode.learner,
            scale=PLAIN_SCALE if means is None else fit_held(self.episode, means),
        )

    def memory(self) -> MemoryTable:
        """What is held of every class."""
        episode, held = self.episode, self.episode.held()
        rows = []
        for place, label in enumerate(self.classes):
            own = held.of([place]).rows
            updates = [episode.records[row].update for row in own.tolist()]
            since = min(updates), max(updates)
            size = episode.bytes_of(own)
            rows.append(MemoryRow(label, len(own), size, episode.codec, since, episode.half_of(place)))
        limit = self._spec.amount if self._spec.kind == "bytes" else None
        return MemoryTable(tuple(rows), self.budget_setting, limit)

    def held(self, label: Label) -> tuple[Values, list[str]]:
        """The stored samples of a class as they are read, best first, and the keys of their identities in hex."""
        rows = self.episode.held().of([self.place_of(label)]).rows
        keys = [self.episode.records[row].key.hex() for row in rows.tolist()]
        return self.episode.bank.read(rows), keys

    def place_of(self, label: Label) -> int:
        """The position of a known class."""
        for place, known in enumerate(self.classes):
            if known == label or str(known) == label:
                return place
        listed = ", ".join(map(str, self.classes[:8])) + (", ..." if len(self.classes) > 8 else "")
        raise InputError(f"class: {label!r} is not known; there are {listed}")

    def set_budget(self, budget: int | str, emit: Emit = ignore) -> None:
        """Another budget from now on. A smaller one cuts what is held, by the rankings."""
        spec = parse_budget(budget)
        if spec is None:
            raise InputError("budget: none given; expected samples (2000), bytes (2MB) or growing:K")
        with self._transaction(self.shape, emit):
            self._spec = spec
            now = self._budget(len(self.classes), np.empty(0, np.int64))
            require_a_sample_per_class(now, [PhaseFacts(len(self.classes), 0), PhaseFacts(0, 0)])
            self.episode.replace_budget(now, self._act)
            self.episode.keep_records()

    def delete(self, classes: Sequence[int], rows: IntArray, *, retrain: bool, emit: Emit = ignore) -> None:
        """Deletes classes, given by position, and single samples. A class that is left without samples goes as well."""
        with self._transaction(self.shape, emit):
            episode = self.episode
            episode.discard(rows)
            counts = {place: len(episode.held().of([place])) for place in range(len(self.classes))}
            gone = {place for place, count in counts.items() if not count} | set(classes)
            if len(gone) == len(self.classes):
                raise InputError("forget: nothing would be left; expected at least one class to stay")
            if gone:
                episode.discard_classes(gone)
                self.classes = tuple(label for place, label in enumerate(self.classes) if place not in gone)
            if retrain:
                episode.relearn(self._act)
            episode.keep_records()

    def _samples(self, values: ArrayLike) -> Values:
        if self._prepared is None:
            return as_values(values, "X", self._config.data.side)
        return as_rows(values, "X", self.shape)

    def _train(self, values: Values, names: list[Label], keys: list[str], new: tuple[Label, ...]) -> None:
        episode, update = self.episode, self.updates + 1
        known = {label: place for place, label in enumerate((*self.classes, *new))}
        rows, places = episode.bank.own(values), np.array([known[name] for name in names], np.int64)
        episode.records |= {row: Record(key_of(key), update) for row, key in zip(rows.tolist(), keys, strict=True)}
        classes = tuple(known[label] for label in new)
        train = {place: rows[places == place] for place in np.unique(places).tolist()}
        phase = Phase(episode.next_phase, classes, train)
        budget = self._budget(len(known), rows)
        if phase.index == 0:
            require_a_sample_per_class(budget, [PhaseFacts(len(new), len(rows)), PhaseFacts(0, 0)])
        episode.use_budget(budget)
        episode.train(phase, self._act(episode.observe(phase)) if phase.index else None)
        if phase.index == 0:
            episode.settle(self._act)
        episode.keep_records()
        self.classes, self.updates = (*self.classes, *new), update

    def _budget(self, classes: int, arriving: IntArray) -> Budget:
        assert self._bank is not None
        rows = np.concatenate([self.episode.held().rows, arriving])
        sizes = sizes_of(self._bank, rows, self.prepared.ladder)
        return stream_budget(self._spec, self.config.memory.exemplars, classes, sizes)

    def _act(self, state: State) -> Action:
        return whole_numbers(self.prepared.policy.act(state))

    def _relay(self, event: Event) -> None:
        self._emit(event)

    @contextmanager
    def _transaction(self, shape: tuple[int, ...], emit: Emit) -> Iterator[None]:
        """Whatever ends a change early, the stream is as before."""
        before = None if self._episode is None else self._save_point()
        if before is None:
            self.open(shape)
        self._emit, self._model = emit, None
        try:
            yield
        except BaseException:
            if before is None:
                self._prepared = self._episode = self._bank = None
            else:
                self._go_back(before)
            raise
        finally:
            self._emit = ignore

    def _save_point(self) -> _Before:
        return _Before(self.episode.snapshot(), dict(self.episode.records), self.classes, self._spec)

    def _go_back(self, before: _Before) -> None:
        self.classes, self._spec = before.classes, before.budget
        self.open(self.shape)
        self.restore(before.snapshot, before.records)

    def restore(self, snapshot: Snapshot, records: dict[int, Record]) -> None:
        """Restores an episode under the budget of the stream."""
        self.episode.use_budget(self._budget(len(self.classes), np.empty(0, np.int64)))
        self.episode.restore(snapshot)
        self.episode.records, self._model = dict(records), None
        self.episode.use_budget(self._budget(len(self.classes), np.empty(0, np.int64)))


def as_labels(labels: ArrayLike) -> list[Label]:
    """Labels as Python's own strings and numbers."""
    array: NDArray[Any] = np.asarray(labels)
    if array.ndim != 1:
        raise InputError(f"y: shape {array.shape}; expected (n,), one label for each sample")
    found: list[Label] = array.tolist()
    for label in found:
        if not isinstance(label, str | int | float | bool) or label != label:
            raise InputError(f"y: label {label!r} of type {type(label).__name__}; expected strings or numbers")
    return found


def _order(label: Label) -> tuple[bool, Any]:
    """Numbers before strings, both ascending."""
    return isinstance(label, str), label
