"""A run in a folder: settings, a checkpoint after every phase, the log; at the end result, model, predictions."""

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lightning_fabric import Fabric

import remem
from remem.episode import Episode, Snapshot
from remem.errors import DamagedFileError, InputError
from remem.evaluation.metrics import FloatArray
from remem.methods.loop import Report
from remem.runs.build import Prepared, open_episode, open_fabric, prepare
from remem.runs.checkpoint import load_snapshot, save_snapshot, write_atomically
from remem.runs.config import RunConfig, validate
from remem.runs.model import save_model
from remem.runs.phase0 import Phase0Shelf
from remem.runs.results import RunResult, load_result, phase_entry, save_predictions, save_result, summarise
from remem.runs.single import phases, public_facts, silent
from remem.types import IntArray, Judgement

FORMAT = 1
LOGGED = ("epoch", "judged")
OURS = (
    *("result.json", "log.jsonl", "predictions.npz", "model.safetensors", "checkpoint.safetensors"),
    *("learning.json", "study.json"),
)


def run_in_folder(
    prepared: Prepared, out: Path, report: Report = silent, *, phase0: Phase0Shelf | None = None
) -> RunResult:
    """A new run; refuses a folder that holds one already. Whatever `phase0` has of it is not trained again."""
    fabric = open_fabric(prepared.config.train)
    begun = None if phase0 is None else phase0.find(prepared)
    if not fabric.is_global_zero:  # several processes all come here; the first one checks and writes for all
        return _launch(fabric, prepared, out, begun, report)
    try:
        if out.exists() and not out.is_dir():
            raise InputError(f"--out: {out} is a file; expected a folder")
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--out: {out} cannot be written ({error.strerror})") from error
    with alone_in(out):
        _begin(prepared, out)
        _copy_log(begun, out)
        return _launch(fabric, prepared, out, begun, report, phase0)


def _copy_log(begun: Snapshot | None, out: Path) -> None:
    """What a shared phase 0 said of itself, as if it had been trained here."""
    if begun is not None:
        write_atomically(out / "log.jsonl", begun.facts["log"].encode())


def _begin(prepared: Prepared, out: Path) -> None:
    _require_free(out, prepared.config)
    try:
        head = {"format": FORMAT, "remem": remem.__version__, "data_fingerprint": prepared.scenario.fingerprint}
        text = json.dumps({**head, "config": prepared.config.model_dump(mode="json")}, indent=1)
        write_atomically(out / "config.json", text.encode())
    except OSError as error:
        raise InputError(f"--out: {out} cannot be written ({error.strerror})") from error


def resume_in_folder(out: Path, report: Report = silent, *, root: Path | None = None) -> RunResult:
    """Goes on after the last complete phase; the result equals that of a run that was never stopped."""
    config, _ = read_config(out, root)
    return go_on_in_folder(prepare(config), out, report)


def train_phase0(prepared: Prepared, shelf: Phase0Shelf, report: Report = silent) -> None:
    """Phase 0 alone, onto the shelf: what a run would have put there that went on afterwards."""
    first = replace(prepared, scenario=replace(prepared.scenario, phases=prepared.scenario.phases[:1]))
    with shelf.scratch() as out:
        _launch(open_fabric(prepared.config.train), first, out, None, report, shelf)


def go_on_in_folder(
    prepared: Prepared, out: Path, report: Report = silent, *, phase0: Phase0Shelf | None = None
) -> RunResult:
    """Begins, resumes or, where it is complete, only reads this very run; refuses other settings and other data."""
    if not (out / "config.json").exists():
        return run_in_folder(prepared, out, report, phase0=phase0)
    config, fingerprint = read_config(out)
    require_same(out, config.model_dump(mode="json"), prepared.config.model_dump(mode="json"))
    if prepared.scenario.fingerprint != fingerprint:
        raise InputError(f"{out}: the data have changed since this run began; a resumed run needs the same data")
    if (out / "result.json").is_file() and (result := load_result(out)).complete:
        return result
    fabric = open_fabric(prepared.config.train)
    with alone_in(out) if fabric.is_global_zero else nullcontext():
        path = out / "checkpoint.safetensors"
        if path.exists():
            checkpoint: Snapshot | None = (kept := load_snapshot(path))
            require_same(out, kept.facts["config"], prepared.config.model_dump(mode="json"))
        else:  # stopped before the end of phase 0
            checkpoint = None if phase0 is None else phase0.find(prepared)
            _copy_log(checkpoint, out)
        return _launch(fabric, prepared, out, checkpoint, report, phase0)


@contextmanager
def alone_in(out: Path) -> Iterator[None]:
    """A lock on the folder for as long as a run writes there; the system drops it however the process ends."""
    if sys.platform == "win32":  # has no such lock
        yield
        return
    import fcntl

    folder = os.open(out, os.O_RDONLY)
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InputError(f"--out: {out} is in use by another process; expected a folder of its own") from error
        yield
    finally:
        os.close(folder)


def read_config(out: Path, root: Path | None = None) -> tuple[RunConfig, str]:
    """The settings and the data fingerprint that a run folder began with; `root` is where the data lie now."""
    path = out / "config.json"
    try:
        tree = json.loads(path.read_text(encoding="utf-8"))
        config, fingerprint = tree["config"], str(tree["data_fingerprint"])
        if tree["format"] != FORMAT:
            raise DamagedFileError(f"{path}: format {tree['format']}, expected {FORMAT}")
    except FileNotFoundError as error:
        raise DamagedFileError(f"{path}: no such file; expected the folder of a run") from error
    except DamagedFileError:
        raise
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DamagedFileError(f"{path}: not the config of a run ({error})") from error
    try:
        settings = validate(config)
    except InputError as error:
        raise DamagedFileError(f"{path}: {error}") from error
    if root is not None:
        settings = settings.model_copy(update={"data": settings.data.model_copy(update={"root": root})})
    return settings, fingerprint


def _launch(
    fabric: Fabric,
    prepared: Prepared,
    out: Path,
    checkpoint: Snapshot | None,
    report: Report,
    phase0: Phase0Shelf | None = None,
) -> RunResult:
    job = partial(_go_on, prepared=prepared, out=out, checkpoint=checkpoint, report=report, phase0=phase0)
    result: RunResult = fabric.launch(job)
    return result


def _go_on(
    fabric: Fabric,
    prepared: Prepared,
    out: Path,
    checkpoint: Snapshot | None,
    report: Report,
    phase0: Phase0Shelf | None,
) -> RunResult:
    """All phases that are left; every process trains, the first one writes."""
    journal = Journal(out, prepared, checkpoint, phase0) if fabric.is_global_zero else None
    told = silent if journal is None else journal.reporting(report)
    episode = open_episode(prepared, fabric, told)
    if checkpoint is not None:
        episode.restore(_without_history(checkpoint))
    entries = [] if checkpoint is None else list(checkpoint.facts["entries"])
    for result in phases(episode, prepared, told):
        entries.append(phase_entry(result))
        if journal is not None:
            journal.keep(episode, entries, result.judgement)
    means = episode.class_means()  # all processes take part in it
    if journal is not None:
        journal.finish(episode, means, entries)
    return summarise(public_facts(prepared), entries, peak=episode.samples_peak, complete=True)


class Journal:
    """Everything that the first process writes into a run folder."""

    def __init__(self, out: Path, prepared: Prepared, checkpoint: Snapshot | None, phase0: Phase0Shelf | None) -> None:
        self._out = out
        self._phase0 = phase0
        self._prepared = prepared
        tensors = {} if checkpoint is None else checkpoint.tensors
        self._history = {name: value for name, value in tensors.items() if name.startswith("history/")}
        done = -1 if checkpoint is None else len(checkpoint.facts["entries"]) - 1
        self._trim_log(done)

    def reporting(self, report: Report) -> Report:
        """A report that is also written to `log.jsonl`."""

        def tell(event: dict[str, Any]) -> None:
            if event["event"] in LOGGED:
                with open(self._out / "log.jsonl", "a", encoding="utf-8") as file:
                    file.write(json.dumps(event) + "\n")
            report(event)

        return tell

    def keep(self, episode: Episode, entries: list[dict[str, Any]], judgement: Judgement) -> None:
        """The end of a phase: a checkpoint to go on from, and the result so far."""
        phase = len(entries) - 1
        heads = {"labels": judgement.labels, "cnn": judgement.cnn, "nme": judgement.nme}
        for name, value in heads.items():
            if value is not None:
                self._history[f"history/{name}_{phase}"] = torch.from_numpy(value.astype(np.int32))
        snapshot = episode.snapshot()
        config = self._prepared.config.model_dump(mode="json")
        facts = {"episode": snapshot.facts, "config": config, "entries": entries}
        checkpoint = Snapshot(facts, snapshot.tensors | self._history)
        save_snapshot(self._out / "checkpoint.safetensors", checkpoint)
        if phase == 0 and self._phase0 is not None:
            self._phase0.put(self._prepared, checkpoint, (self._out / "log.jsonl").read_text(encoding="utf-8"))
        save_result(self._out / "result.json", self._summary(episode, entries, complete=False))

    def finish(self, episode: Episode, means: FloatArray | None, entries: list[dict[str, Any]]) -> None:
        scenario = self._prepared.scenario
        facts = {**public_facts(self._prepared), "shape": scenario.bank.shape}
        save_model(self._out / "model.safetensors", facts, episode.learner.state(), means)
        judgements: dict[str, IntArray] = {
            name.removeprefix("history/"): value.numpy().astype(np.int64) for name, value in self._history.items()
        }
        save_predictions(self._out / "predictions.npz", judgements, len(scenario.class_order))
        save_result(self._out / "result.json", self._summary(episode, entries, complete=True))

    def _summary(self, episode: Episode, entries: list[dict[str, Any]], *, complete: bool) -> RunResult:
        return summarise(public_facts(self._prepared), entries, peak=episode.samples_peak, complete=complete)

    def _trim_log(self, last_phase: int) -> None:
        """A phase that was cut off is trained anew, so its half of the log goes."""
        path = self._out / "log.jsonl"
        text = path.read_text(encoding="utf-8", errors="replace") if last_phase >= 0 and path.exists() else ""
        lines = [line + "\n" for line in text.split("\n")]
        kept = [line for line in lines if _phase_of(line) <= last_phase]
        write_atomically(path, "".join(kept).encode())


def _phase_of(line: str) -> float:
    """The phase that a line of the log speaks of; a line that was damaged is of none."""
    with suppress(ValueError, TypeError, KeyError):
        return float(json.loads(line)["phase"])
    return float("inf")


def _without_history(checkpoint: Snapshot) -> Snapshot:
    tensors = {name: value for name, value in checkpoint.tensors.items() if not name.startswith("history/")}
    return Snapshot(checkpoint.facts["episode"], tensors)


def _require_free(out: Path, config: RunConfig) -> None:
    """A folder is free if this run would destroy nothing: empty, without files of ours, or never trained in."""
    if (out / "checkpoint.safetensors").exists() and (out / "config.json").exists():
        require_same(out, read_config(out)[0].model_dump(mode="json"), config.model_dump(mode="json"))
        raise InputError(f"--out: {out} holds this run already; go on with `remem resume {out}`")
    for name in OURS:
        if (out / name).exists() and not (out / "config.json").exists():
            raise InputError(f"--out: {out} holds a {name} that is not of a run; expected a new folder")


def require_same(out: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Settings may not change within a run; where the data lie is not one of them."""
    for key, old, new in _differences(before, now):
        if not key.endswith("data.root"):
            raise InputError(f"{out}: {key} is {new!r}, but this run began with {old!r}; settings cannot change")


def _differences(before: Any, now: Any, key: str = "") -> list[tuple[str, Any, Any]]:
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        names = sorted(before.keys() | now.keys())
        parts = (_differences(before.get(n), now.get(n), f"{key}.{n}" if key else n) for n in names)
        return [difference for part in parts for difference in part]
    return [] if before == now else [(key, before, now)]
