"""One class-incremental run: the loop over phases, in memory or in a folder that can be resumed after any stop."""

import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path

import numpy as np
from lightning_fabric import Fabric

from remem import interrupts
from remem.action import Action
from remem.episode import Episode
from remem.errors import DamagedFileError, InputError, listed
from remem.events import Emit, Notice, fan_out, ignore
from remem.runs.build import open_episode, prepare
from remem.runs.calibrate import fit_held
from remem.runs.config import RunConfig, validate
from remem.runs.devices import open_fabric
from remem.runs.events import PhaseEvaluated, PhaseStarted
from remem.runs.identity import require_own_result
from remem.runs.inside import INSIDE, PhaseKeeper, load_inside
from remem.runs.migrations import migrate_checkpoint, migrate_run
from remem.runs.phase0_cache import Phase0Cache
from remem.runs.prepared import Prepared
from remem.runs.results import PhaseRecord, RunResult, load_result
from remem.runs.versions import versions
from remem.runs.writer import CHECKPOINT, HISTORY, RESULT, RunWriter, public_facts
from remem.storage.generations import has_generation, load_generation
from remem.storage.tensorfile import Snapshot
from remem.storage.workdir import WorkDir, WorkKind
from remem.types import PhaseResult

RUN = WorkKind("run", "config.json", {1: migrate_run})
Say = Callable[[str], None]


def phases(episode: Episode, prepared: Prepared, emit: Emit) -> Iterator[PhaseResult]:
    """Runs the remaining phases in order: observe, act, train, evaluate."""
    for phase in prepared.scenario.phases[episode.next_phase :]:
        emit(PhaseStarted(phase.index, len(phase.classes)))
        started = time.perf_counter()
        action = whole_numbers(prepared.policy.act(episode.observe(phase))) if phase.index else None
        acting = time.perf_counter() - started
        result = episode.advance(phase, action)
        result = replace(result, seconds={**result.seconds, "policy": result.seconds["policy"] + acting})
        emit(PhaseEvaluated(phase.index, result.accuracy))
        yield result


def whole_numbers(action: Action) -> Action:
    """The action of any policy with Python's own numbers: those of numpy are no JSON."""
    given = ((item.name, getattr(action, item.name)) for item in fields(action))
    return replace(action, **{name: int(value) for name, value in given if isinstance(value, np.integer)})


def run(prepared: Prepared, emit: Emit = ignore) -> RunResult:
    """Runs in memory and writes no files."""
    result: RunResult = open_fabric(prepared.config.train).launch(partial(_in_memory, prepared=prepared, emit=emit))
    return result


def _in_memory(fabric: Fabric, prepared: Prepared, emit: Emit) -> RunResult:
    emit = emit if fabric.is_global_zero else ignore
    episode = open_episode(prepared, fabric, emit)
    records = [PhaseRecord.of(result) for result in phases(episode, prepared, emit)]
    return RunResult.of(
        public_facts(prepared, episode),
        records,
        peak=episode.samples_peak,
        bytes_peak=episode.bytes_peak,
        complete=True,
    )


def run_in_folder(
    prepared: Prepared, out: Path, emit: Emit = ignore, *, phase0: Phase0Cache | None = None
) -> RunResult:
    """Starts a new run. Refuses a folder that already holds one. Skips phase 0 if `phase0` has it."""
    fabric = open_fabric(prepared.config.train)
    checkpoint = None if phase0 is None else phase0.find(prepared)
    job = FolderRun(prepared, out, checkpoint, phase0)
    if not fabric.is_global_zero:  # only the first process checks and writes
        return job.launch(fabric, emit)
    folder, now = WorkDir(out, RUN), prepared.config.model_dump(mode="json")
    with folder.claim():
        folder.require_free()
        kept = has_generation(out / CHECKPOINT) or (out / RESULT).exists() or (out / INSIDE).exists()
        if folder.exists and kept:
            folder.require_same_settings(read_config(out)[0].model_dump(mode="json"), now)
            raise InputError(f"--out: {out} holds this run already; go on with `remem resume {out}`")
        folder.begin(now, {"data": prepared.scenario.fingerprint}, versions())
        return job.launch(fabric, emit)


def run_or_resume(
    prepared: Prepared, out: Path, emit: Emit = ignore, *, phase0: Phase0Cache | None = None
) -> RunResult:
    """Starts this run, resumes it after its last complete phase or, if it is complete, loads its result.

    A resumed run equals an uninterrupted one. Changed settings or data are refused.
    """
    folder = WorkDir(out, RUN)
    if not folder.exists:
        return run_in_folder(prepared, out, emit, phase0=phase0)
    begun, (config, fingerprint) = folder.read(), read_config(out)
    config = moved_policy(config, prepared.config)
    now = prepared.config.model_dump(mode="json")
    folder.require_same_settings(config.model_dump(mode="json"), now)
    _require_same_data(prepared, out, fingerprint)
    fabric = open_fabric(prepared.config.train)
    say: Say = (lambda text: emit(Notice(text))) if fabric.is_global_zero else (lambda text: None)
    if (result := finished_result(out, config, fingerprint, say)) is not None:
        return result
    if (changed := folder.changed_versions(begun.versions, versions())) is not None:
        say(changed)
    with folder.claim() if fabric.is_global_zero else nullcontext():
        kept = load_generation(out / CHECKPOINT, say, migrate_checkpoint)
        if kept is not None:
            before = moved_policy(validate(kept.facts["config"]), prepared.config)
            folder.require_same_settings(before.model_dump(mode="json"), now)
            checkpoint: Snapshot | None = replace(kept, facts={**kept.facts, "log": None})
        else:  # stopped before the end of phase 0
            checkpoint = None if phase0 is None else phase0.find(prepared)
        inside = load_inside(out, prepared, _phases_in(checkpoint), say)
        return FolderRun(prepared, out, checkpoint, phase0, inside).launch(fabric, emit)


def _require_same_data(prepared: Prepared, out: Path, fingerprint: str) -> None:
    """Raises if the data have changed. New classes are for `remem update`, which needs no run to begin again."""
    try:
        WorkDir(out, RUN).require_same_data({"data": fingerprint}, {"data": prepared.scenario.fingerprint})
    except InputError as error:
        known = load_result(out).class_names if (out / RESULT).is_file() else ()
        new = [name for name in prepared.scenario.class_names if name not in known] if known else []
        if not new and ":" not in prepared.config.data.name:
            raise
        if not new:
            raise InputError(f"{error}; for data that keep growing there is `remem update MODEL DATA`") from error
        raise InputError(
            f"{out}: the data have new classes since this run began ({listed(new)}), and a run cannot take them in; "
            "put them elsewhere to go on, or let a model learn them as they come: `remem update MODEL DATA`"
        ) from error


def _phases_in(checkpoint: Snapshot | None) -> int:
    return 0 if checkpoint is None else len(checkpoint.facts["entries"])


def finished_result(out: Path, config: RunConfig, fingerprint: str, say: Say = lambda text: None) -> RunResult | None:
    """Returns the result of a run folder if the run is complete. Raises if the result is another run's.

    If it is damaged and the checkpoint is there, it is not complete: its last part is done again.
    """
    path = out / RESULT
    if not path.is_file():
        return None
    try:
        result = load_result(path)
    except DamagedFileError as error:
        if not has_generation(out / CHECKPOINT):
            raise DamagedFileError(
                f"{error}; move {out} away and train again, or put a copy of the file back"
            ) from error
        say(f"{error}; it is made again from the checkpoint")
        return None
    if not result.complete:  # what goes on is the checkpoint, which is compared with the settings
        return None
    require_own_result(path, result, config, fingerprint)
    return result


def moved_policy(before: RunConfig, now: RunConfig) -> RunConfig:
    """The settings that a run began with; if its policy's folder has moved, at its new place. Its digest decides."""
    if before.policy_sha256 is None or before.policy_sha256 != now.policy_sha256:
        return before
    return before.model_copy(update={"policy": now.policy})


def resume_in_folder(out: Path, emit: Emit = ignore, *, root: Path | None = None) -> RunResult:
    """Resumes the run in a folder. `root` replaces the stored data root."""
    return run_or_resume(prepare(read_config(out, root)[0]), out, emit)


def train_phase0(prepared: Prepared, cache: Phase0Cache, emit: Emit = ignore) -> None:
    """Trains only phase 0, into the cache, exactly as a whole run does."""
    first = replace(prepared, scenario=replace(prepared.scenario, phases=prepared.scenario.phases[:1]))
    with cache.scratch(prepared) as out:
        inside = load_inside(out, prepared, 0, lambda text: emit(Notice(text)))
        FolderRun(first, out, None, cache, inside).launch(open_fabric(prepared.config.train), emit)


def read_config(out: Path, root: Path | None = None) -> tuple[RunConfig, str]:
    """Returns the settings and the data fingerprint of a run folder. `root` replaces the stored data root."""
    begun = WorkDir(out, RUN).read()
    try:
        settings = validate(begun.settings)
    except InputError as error:
        raise DamagedFileError(f"{out / RUN.settings_file}: {error}") from error
    if root is not None:
        settings = settings.model_copy(update={"data": settings.data.model_copy(update={"root": root})})
    return settings, begun.fingerprints.get("data", "")


@dataclass(frozen=True)
class FolderRun:
    """A run in its folder, starting from a checkpoint. Every process trains; the first one writes."""

    prepared: Prepared
    out: Path
    checkpoint: Snapshot | None
    phase0: Phase0Cache | None = None
    inside: Snapshot | None = None  # what was saved inside the phase that comes next

    def launch(self, fabric: Fabric, emit: Emit) -> RunResult:
        result: RunResult = fabric.launch(partial(self._train, emit=emit))
        return result

    def _train(self, fabric: Fabric, emit: Emit) -> RunResult:
        with interrupts.deferred():  # a signal stops training between two steps, where all can be saved
            return self._train_phases(fabric, emit)

    def _train_phases(self, fabric: Fabric, emit: Emit) -> RunResult:
        keeper = PhaseKeeper(self.out, self.prepared, self.inside, writes=fabric.is_global_zero)
        first = (self.prepared, self.out, self.checkpoint, self.phase0, keeper.log_lines)
        writer = RunWriter(*first) if fabric.is_global_zero else None
        emit = ignore if writer is None else fan_out(writer.log, emit)
        episode = open_episode(self.prepared, fabric, emit, keeper=keeper)
        records: list[PhaseRecord] = []
        if self.checkpoint is not None:
            records = [PhaseRecord.model_validate(entry) for entry in self.checkpoint.facts["entries"]]
            tensors = {name: v for name, v in self.checkpoint.tensors.items() if not name.startswith(HISTORY)}
            episode.restore(Snapshot(self.checkpoint.facts["episode"], tensors))
        for result in phases(episode, self.prepared, emit):
            records.append(PhaseRecord.of(result))
            if writer is not None:
                writer.save_phase(episode, records, result.predictions)
                keeper.clear()
            if fabric.world_size == 1 and episode.next_phase < len(self.prepared.scenario.phases):
                interrupts.stop_if_requested()  # several processes stop together, between two steps
        means = episode.class_means()  # all processes must call it
        scale = None if means is None else fit_held(episode, means)
        if writer is not None:
            writer.finish(episode, records, means, scale)
        return RunResult.of(
            public_facts(self.prepared, episode),
            records,
            peak=episode.samples_peak,
            bytes_peak=episode.bytes_peak,
            complete=True,
        )
