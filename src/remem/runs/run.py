"""One class-incremental run: the loop over phases, in memory or in a folder that can be resumed after any stop."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from lightning_fabric import Fabric
from torch import Tensor

from remem.action import Action
from remem.data.scenario import Scenario
from remem.episode import Episode
from remem.errors import DamagedFileError, InputError
from remem.evaluation.metrics import FloatArray
from remem.events import Emit, Notice, fan_out, ignore
from remem.methods.events import EpochEnded
from remem.policies.policy import Policy
from remem.runs.build import open_episode, prepare
from remem.runs.config import RunConfig, validate
from remem.runs.devices import open_fabric
from remem.runs.events import PhaseEvaluated, PhaseStarted
from remem.runs.identity import require_own_result
from remem.runs.migrations import migrate_checkpoint, migrate_run
from remem.runs.model import save_model
from remem.runs.phase0_cache import Phase0Cache
from remem.runs.prepared import Prepared
from remem.runs.results import PhaseRecord, RunFacts, RunResult, load_result, save_predictions, save_result
from remem.runs.versions import versions
from remem.storage.event_log import LOG, EventLog
from remem.storage.generations import has_generation, load_generation, previous, save_generation
from remem.storage.tensorfile import Snapshot
from remem.storage.workdir import WorkDir, WorkKind
from remem.types import IntArray, PhaseResult, Predictions

RUN = WorkKind("run", "config.json", {1: migrate_run})
RESULT, CHECKPOINT = "result.json", "checkpoint.safetensors"
Say = Callable[[str], None]
HISTORY = "history/"  # prefix of earlier phases' predictions in a checkpoint


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
    return RunResult.of(public_facts(prepared), records, peak=episode.samples_peak, complete=True)


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
        if folder.exists and (has_generation(out / CHECKPOINT) or (out / RESULT).exists()):
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
    folder.require_same_data({"data": fingerprint}, {"data": prepared.scenario.fingerprint})
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
        return FolderRun(prepared, out, checkpoint, phase0).launch(fabric, emit)


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
    with cache.scratch() as out:
        FolderRun(first, out, None, cache).launch(open_fabric(prepared.config.train), emit)


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

    def launch(self, fabric: Fabric, emit: Emit) -> RunResult:
        result: RunResult = fabric.launch(partial(self._train, emit=emit))
        return result

    def _train(self, fabric: Fabric, emit: Emit) -> RunResult:
        writer = RunWriter(self) if fabric.is_global_zero else None
        emit = ignore if writer is None else fan_out(writer.log, emit)
        episode = open_episode(self.prepared, fabric, emit)
        records: list[PhaseRecord] = []
        if self.checkpoint is not None:
            records = [PhaseRecord.model_validate(entry) for entry in self.checkpoint.facts["entries"]]
            tensors = {name: v for name, v in self.checkpoint.tensors.items() if not name.startswith(HISTORY)}
            episode.restore(Snapshot(self.checkpoint.facts["episode"], tensors))
        for result in phases(episode, self.prepared, emit):
            records.append(PhaseRecord.of(result))
            if writer is not None:
                writer.save_phase(episode, records, result.predictions)
        means = episode.class_means()  # all processes must call it
        if writer is not None:
            writer.finish(episode, means, records)
        return RunResult.of(public_facts(self.prepared), records, peak=episode.samples_peak, complete=True)


class RunWriter:
    """Writes all files of a run folder except its settings."""

    def __init__(self, run: FolderRun) -> None:
        self._out, self._phase0, self._prepared = run.out, run.phase0, run.prepared
        checkpoint = run.checkpoint
        tensors: Mapping[str, Tensor] = {} if checkpoint is None else checkpoint.tensors
        self._history = {name: value for name, value in tensors.items() if name.startswith(HISTORY)}
        self.log = EventLog(self._out / LOG, (EpochEnded, PhaseEvaluated))
        if checkpoint is not None and checkpoint.facts["log"] is not None:  # copies the log of a shared phase 0
            self.log.write_text(checkpoint.facts["log"])
        done = 0 if checkpoint is None else len(checkpoint.facts["entries"])
        self.log.trim(lambda entry: isinstance(entry.get("phase"), int) and entry["phase"] < done)

    def save_phase(self, episode: Episode, records: list[PhaseRecord], predictions: Predictions) -> None:
        """Saves a checkpoint and the result so far at the end of a phase."""
        phase = len(records) - 1
        readouts = {"labels": predictions.labels, "cnn": predictions.cnn, "nme": predictions.nme}
        for name, value in readouts.items():
            if value is not None:
                self._history[f"{HISTORY}{name}_{phase}"] = torch.from_numpy(value.astype(np.int32))
        snapshot = episode.snapshot()
        facts = {
            "episode": snapshot.facts,
            "config": self._prepared.config.model_dump(mode="json"),
            "entries": [record.model_dump(mode="json") for record in records],
        }
        checkpoint = Snapshot(facts, snapshot.tensors | self._history)
        save_generation(self._out / CHECKPOINT, checkpoint)
        if phase == 0 and self._phase0 is not None:
            self._phase0.put(self._prepared, checkpoint, (self._out / LOG).read_text(encoding="utf-8"))
        self._save_result(episode, records, complete=False)

    def finish(self, episode: Episode, means: FloatArray | None, records: list[PhaseRecord]) -> None:
        """Saves the model, the predictions and the complete result at the end of the run."""
        scenario = self._prepared.scenario
        facts = {**public_facts(self._prepared).model_dump(mode="json"), "shape": list(scenario.bank.shape)}
        save_model(self._out / "model.safetensors", facts, episode.learner.state(), means)
        predictions: dict[str, IntArray] = {
            name.removeprefix(HISTORY): value.numpy().astype(np.int64) for name, value in self._history.items()
        }
        save_predictions(self._out / "predictions.npz", predictions, len(scenario.class_order))
        self._save_result(episode, records, complete=True)
        previous(self._out / CHECKPOINT).unlink(missing_ok=True)

    def _save_result(self, episode: Episode, records: list[PhaseRecord], *, complete: bool) -> None:
        facts = public_facts(self._prepared)
        save_result(self._out / RESULT, RunResult.of(facts, records, peak=episode.samples_peak, complete=complete))


def public_facts(prepared: Prepared) -> RunFacts:
    """Returns the facts about a run for `result.json`."""
    scenario, method, policy = prepared.scenario, prepared.method, prepared.policy
    config = prepared.config.public()
    return RunFacts(
        config=config,
        head=method.readout,
        oracle=policy.oracle or method.replay == "all",
        policy_saw_classes=saw_classes(policy, scenario, config["data"]["name"]),
        policy=policy.provenance(),
        memory=prepared.memory_in_words,
        data_fingerprint=scenario.fingerprint,
        class_order=scenario.class_order,
        class_names=scenario.class_names,
    )


def saw_classes(policy: Policy, scenario: Scenario, data_name: str) -> bool:
    """Returns whether the policy was trained on classes that arrive after phase 0 (protocol 3), at any image size."""
    source = policy.provenance().get("source")
    if not isinstance(source, Mapping) or source.get("data") != data_name:
        return False
    later = scenario.class_names[len(scenario.phases[0].classes) :]
    return not set(later).isdisjoint(source.get("classes", ()))
