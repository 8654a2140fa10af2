"""Estimates the time and memory of a run: trains a few batches and extrapolates."""

import copy
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from remem.data.augment import plain, plan_for
from remem.events import Event
from remem.methods.describe import describe, keeps
from remem.methods.events import EpochEnded
from remem.methods.loop import TrainContext, build_optimizer, run_stage
from remem.methods.method import PhaseFacts
from remem.methods.stage import Stage
from remem.nets.network import Network
from remem.runs.build import network_builder
from remem.runs.cost import SQUEEZED, Machine, Range
from remem.runs.devices import limit_threads, open_fabric
from remem.runs.dry_run import Plan, PlannedPhase
from remem.runs.dry_run import plan as plan_run
from remem.runs.events import RunStarted
from remem.runs.prepared import Prepared
from remem.runs.timing import (
    FEWEST,
    LEAST_SPREAD,
    Clock,
    Gain,
    Lap,
    Laps,
    Spread,
    Stopwatch,
    Timing,
    assumed_gain,
    gain_of,
    repeat,
    spread_of,
    stretch_of,
)
from remem.runs.trials import Trials
from remem.seeding import Streams
from remem.types import Samples

SHARES = {"first": 0.3, "later": 0.4, "balanced": 0.2, "describe": 0.1}  # of the time spent on measuring
BALANCED = ("balanced", "mixture")  # stages on equally many samples per old and new class
BALANCED_SHARE = 0.5  # of what is held: on CIFAR-100 with N = 5, 0.34 under `static` and 0.72 under `fixed-0.6`
TINY_LR = 1e-9  # no network diverges at this learning rate
PROGRAM_BYTES = 480_000_000  # Python, torch and other imports, measured on a run of digits


@dataclass(frozen=True)
class Trial:
    """Measurements on a few batches. Times are in seconds per sample and epoch on a quiet machine, by stage."""

    first: Mapping[str, float]  # phase 0
    later: Mapping[str, float]  # phases 1..N, including balanced fine-tuning
    describe: float  # seconds per sample of a forward pass in evaluation mode
    model_bytes: int  # for all classes
    teacher_bytes: int
    training_bytes: int  # gradients and optimiser state
    batch_bytes: int  # kept by one batch for the backward pass
    width: int  # of a feature vector
    spread: Spread = LEAST_SPREAD  # of the times
    stretch: float = 1.0  # how many times as long the same work took under the load of the machine

    def range(self, seconds: float, machine: Machine, needed: float) -> Range:
        """From a quiet machine to the present load, for work on so many cores."""
        slow = self.spread.high * max(self.stretch, machine.crowding(needed))
        return Range(self.spread.low * seconds, slow * seconds)


@dataclass(frozen=True)
class Bytes:
    """Memory by purpose. Held samples are row numbers into the data set, so `held` does not add to the peak."""

    held: int  # the most samples held in any of phases 1..N, as stored
    data: int  # the data set, if it is in memory
    model: int
    teacher: int
    training: int
    batch: int
    program: int = PROGRAM_BYTES

    @property
    def peak(self) -> int:
        return self.data + self.model + self.teacher + self.training + self.batch + self.program


def estimate_seconds(prepared: Prepared, plan: Plan, trial: Trial) -> list[float]:
    """Estimates the seconds of each phase: training, and forward passes for selection, means and evaluation."""
    method, config, seconds = prepared.method, prepared.config, []
    for planned in plan.phases:
        first = 0 if method.restarts else planned.phase
        paces = trial.later if first else trial.first
        total = 0.0
        for stage, pace in paces.items():
            epochs = config.finetune.epochs if stage == "balanced" else config.train.epochs_of(first)
            total += pace * epochs * (_balanced_samples(planned) if stage in BALANCED else planned.held)
        seconds.append(total + trial.describe * _described_samples(prepared, plan, planned, trial.width))
    return seconds


def estimate_left(run: RunStarted, trial: Trial) -> float:
    """Estimates the seconds of the phases of a run that are left, from its sizes alone.

    It counts the most samples that a phase can hold, and that every sample is evaluated or ranked twice.
    """
    total = 0.0
    for index in range(run.done, len(run.phases)):
        per_sample = 2 * trial.describe
        for stage, pace in (trial.later if index else trial.first).items():
            epochs = run.epochs_later if index else run.epochs
            share = BALANCED_SHARE if stage in BALANCED else 1.0
            per_sample += share * pace * (run.balanced_epochs if stage == "balanced" else epochs)
        total += per_sample * run.phases[index].samples
    return total


def _described_samples(prepared: Prepared, plan: Plan, planned: PlannedPhase, width: int) -> int:
    """Forward passes of a phase that train nothing."""
    config, replay = prepared.config, prepared.method.replay
    evaluated = sum(len(phase.eval_samples) for phase in prepared.scenario.phases[: planned.phase + 1])
    if planned.phase and replay == "none":  # old classes hold nothing, so there are no class means
        return evaluated
    held = planned.held * (2 if config.augment.flip else 1)
    if not planned.phase or replay == "all":
        return evaluated + held
    before = plan.phases[planned.phase - 1]
    ranked_again = 0 if keeps(before.held_new, width + before.classes_seen) else before.held_new
    return evaluated + held + ranked_again + (planned.held_new if config.finetune.epochs else 0)


def _balanced_samples(planned: PlannedPhase) -> int:
    """Samples of a balanced stage: all old ones, and of each new class as many as an old class has on average."""
    old_classes = planned.classes_seen - len(planned.new)
    quota = round(planned.held_old / old_classes)
    return planned.held_old + sum(min(quota, count) for count in planned.new)


def estimate_bytes(prepared: Prepared, plan: Plan, trial: Trial) -> Bytes:
    scenario = prepared.scenario
    bank, eval_bank = scenario.bank, scenario.eval_bank
    if prepared.budget.bytes is not None:
        held = prepared.budget.bytes
    else:
        held = prepared.sample_bytes[0] * max(
            planned.held if planned.budget is None else planned.budget for planned in plan.phases[1:]
        )
    own_test = eval_bank.memory_bytes if eval_bank.fingerprint != bank.fingerprint else 0
    return Bytes(
        held=held,
        data=bank.memory_bytes + own_test,
        model=trial.model_bytes,
        teacher=trial.teacher_bytes,
        training=trial.training_bytes,
        batch=trial.batch_bytes,
    )


def try_out(prepared: Prepared, plan: Plan, seconds: float = 2.0, clock: Clock | None = None) -> Trial:
    """Trains the real network on a few batches of phases 0 and 1, in one process, and discards it.

    It measures on one thread, because threads that wait for each other use CPU time, too. What several threads gain is
    measured once, on a quiet machine.
    """
    train = prepared.config.train
    on_cpu = train.device == "cpu"
    if clock is None:
        clock = Clock() if on_cpu else Clock(work=time.perf_counter)
    try:
        limit_threads(1 if on_cpu else train.threads)
        return _measure(Bench(prepared, plan, clock), prepared, seconds)
    finally:
        limit_threads(train.threads)  # results depend on it


def _measure(bench: "Bench", prepared: Prepared, seconds: float) -> Trial:
    first = later = bench.paces(None, seconds * SHARES["first"])
    teacher = None
    if not prepared.method.restarts:
        teacher = bench.grow()
        later = bench.paces(teacher, seconds * SHARES["later"])
        if prepared.method.replay == "budget" and prepared.config.finetune.epochs:
            later |= bench.paces(teacher, seconds * SHARES["balanced"], balanced=True)
    describe = bench.describing(seconds * SHARES["describe"])
    spread, stretch = spread_of(bench.timings), stretch_of(bench.timings)
    gain = bench.gain(teacher, busy=stretch > SQUEEZED)
    batch_bytes, training_bytes = bench.batch_bytes(teacher), bench.training_bytes()
    model_bytes = bench.model_bytes()
    return Trial(
        first={stage: pace / gain.quiet for stage, pace in first.items()},
        later={stage: pace / gain.quiet for stage, pace in later.items()},
        describe=describe / gain.quiet,
        model_bytes=model_bytes,
        teacher_bytes=model_bytes if teacher is not None and prepared.method.asks_teacher else 0,
        training_bytes=training_bytes,
        batch_bytes=batch_bytes,
        width=bench.width,
        spread=Spread(spread.low * gain.quiet / gain.best, spread.high * max(1.0, gain.quiet / gain.now)),
        stretch=stretch,
    )


def short_trials(seconds: float = 1.2) -> Trials:
    """Trials that take a second or two each."""
    return Trials(lambda prepared: try_out(prepared, plan_run(prepared), seconds))


class Bench:
    """The real network and the run's own training samples, for measurements."""

    def __init__(self, prepared: Prepared, plan: Plan, clock: Clock) -> None:
        config, scenario = prepared.config, prepared.scenario
        self._prepared, self._plan, self._reader = prepared, plan, scenario.bank
        self._train = config.train.model_copy(update={"devices": 1, "strategy": "single"})
        self._clock, self._watch = clock, Stopwatch(clock)
        self._laps: dict[str, Lap] = {}
        self.timings: list[Timing] = []
        augment = plan_for(scenario.preprocessing, scenario.bank.shape, config.augment)
        fabric = open_fabric(self._train)
        self._context = TrainContext(self._train, augment, fabric, Streams(config.seed, "trial"), self._note)
        self._network = network_builder(prepared)(0)
        self._generator = torch.Generator().manual_seed(0)
        self._phase = 0
        self._tried = FEWEST  # samples in the largest trial so far
        self._add_classes(len(scenario.phases[0].classes))

    @property
    def width(self) -> int:
        return self._network.backbone.width

    def grow(self) -> Network:
        """Advances to phase 1 and returns a teacher as large as the network, as in all phases from 2 on."""
        self._prepared.method.expand(self._network)
        teacher = copy.deepcopy(self._network).eval().requires_grad_(False)
        self._phase = 1
        self._add_classes(len(self._prepared.scenario.phases[1].classes))
        return teacher

    def paces(self, teacher: Network | None, seconds: float, *, balanced: bool = False) -> dict[str, float]:
        """Measures seconds per sample and epoch, for every stage of a phase or for its balanced fine-tuning."""
        timing = self._timed(lambda count: self._train_on(count, teacher, balanced=balanced), seconds)
        self._tried = timing.count
        return timing.paces()

    def describing(self, seconds: float) -> float:
        """Measures seconds per sample of a forward pass in evaluation mode."""

        def attempt(count: int) -> dict[str, Lap]:
            samples = self._samples(count)
            self._watch.lap()
            describe(self._network, self._reader, samples, plan=self._context.plan, fabric=self._context.fabric)
            return {"describe": self._watch.lap()}

        return self._timed(attempt, seconds).paces()["describe"]

    def gain(self, teacher: Network | None, *, busy: bool) -> Gain:
        """Measures what the run's threads gain over one, on one batch."""
        train = self._train
        if train.threads == 1 or train.device != "cpu":
            return Gain()
        if busy:
            return assumed_gain(train.threads)
        count = min(self._tried, self._batch)

        def time_on(threads: int) -> Lap:
            limit_threads(threads)
            self._train_on(FEWEST, teacher)  # starts the threads
            tries = [list(self._train_on(count, teacher).values()) for _ in range(2)]
            return Lap(
                min(sum(lap.work for lap in laps) for laps in tries),
                min(sum(lap.wall for lap in laps) for laps in tries),
            )

        return gain_of(time_on(1), time_on(train.threads), train.threads)

    def _timed(self, attempt: Callable[[int], Laps], seconds: float) -> Timing:
        timing = repeat(attempt, self._batch, seconds, self._clock)
        self.timings.append(timing)
        return timing

    def _train_on(self, count: int, teacher: Network | None, *, balanced: bool = False) -> dict[str, Lap]:
        """Trains one epoch of every stage and returns their times."""
        self._laps.clear()
        for stage in self._stages(count, balanced=balanced):
            self._watch.lap()
            run_stage(stage, self._network, self._reader, self._context, phase=self._phase, teacher=teacher)
        return dict(self._laps)

    def _note(self, event: Event) -> None:
        if isinstance(event, EpochEnded):
            self._laps[event.stage] = self._watch.lap()

    @property
    def _batch(self) -> int:
        return max(FEWEST, min(self._train.batch_size, self._plan.phases[self._phase].held))

    def _stages(self, count: int, *, balanced: bool = False) -> list[Stage]:
        """Returns the stages of this phase over `count` samples, with one epoch each."""
        method, samples = self._prepared.method, self._samples(count)
        stages = method.stages(self._facts(), self._network, samples, self._train)
        if balanced:
            stages = [method.balanced(stages[0], self._network, samples, self._prepared.config.finetune)]
        return [replace(stage, epochs=1, lr=TINY_LR) for stage in stages]

    def _facts(self) -> PhaseFacts:
        sizes = [len(phase.classes) for phase in self._prepared.scenario.phases]
        return PhaseFacts(self._phase, sum(sizes[: self._phase]), sizes[self._phase], self._context.streams)

    def _samples(self, count: int) -> Samples:
        """Returns training samples of the held phases, repeated if there are too few."""
        oldest = self._phase if self._prepared.method.replay == "none" else 0
        phases = self._prepared.scenario.phases[oldest : self._phase + 1]
        share = -(-count // len(phases))
        parts = []
        for phase in phases:
            rows = np.concatenate(list(phase.train.values()))
            labels = np.repeat(list(phase.train), [len(part) for part in phase.train.values()])
            order = np.resize(self._context.streams.numpy(phase.index, "samples").permutation(len(rows)), share)
            parts.append(Samples(rows[order], labels[order]))
        both = parts[0] if len(parts) == 1 else parts[0].with_(parts[1])
        return both.take(np.argsort(np.arange(len(both)) % share, kind="stable")[:count])

    def batch_bytes(self, teacher: Network | None) -> int:
        """Measures what autograd keeps of one batch for the backward pass, without weights."""
        count = min(self._tried, self._batch)
        [stage, *_] = self._stages(count)
        values = torch.from_numpy(self._reader.read(stage.samples.rows))
        labels = torch.from_numpy(stage.samples.labels)
        fabric = self._context.fabric
        inputs = plain(fabric.to_device(values), self._context.plan)
        weights = {value.untyped_storage().data_ptr() for value in self._network.state_dict().values()}
        kept: dict[int, int] = {}

        def pack(value: Tensor) -> Tensor:
            storage = value.untyped_storage()
            if storage.data_ptr() not in weights:
                kept[storage.data_ptr()] = storage.nbytes()
            return value

        self._network.train()
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda value: value), fabric.autocast():
            teacher_output = teacher(inputs) if teacher is not None and stage.needs_teacher else None
            stage.objective(self._network(inputs), fabric.to_device(labels), teacher_output)
        return sum(kept.values()) * self._batch // count

    def training_bytes(self) -> int:
        """Measures the gradients and the optimiser state of the main stage."""
        [stage, *_] = self._stages(FEWEST)
        optimizer, total = build_optimizer(stage, self._train), 0
        for group in stage.groups:
            for parameter in group.parameters:
                parameter.grad = torch.zeros_like(parameter)
                total += parameter.nbytes
        optimizer.step()
        states = (value for state in optimizer.state.values() for value in state.values())
        return total + sum(value.nbytes for value in states if isinstance(value, Tensor))

    def model_bytes(self) -> int:
        """Measures weights and buffers for all classes. Must be called last, since the network grows."""
        classes = sum(len(phase.classes) for phase in self._prepared.scenario.phases)
        self._add_classes(classes - self._network.head.classes)
        return _bytes_of(self._network)

    def _add_classes(self, count: int) -> None:
        self._network.head.grow(count, self._generator)
        self._network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self._context.fabric.to_device(self._network)


def _bytes_of(module: nn.Module) -> int:
    return sum(value.nbytes for value in module.state_dict().values())
