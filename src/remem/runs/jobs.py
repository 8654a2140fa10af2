"""Job kinds of runs: a whole run in its folder, and a phase 0 shared by several runs."""

import gc
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from remem.errors import InputError
from remem.events import Emit
from remem.parallel.jobs import Job, job_kind
from remem.policies.table import policy_folder
from remem.runs.build import prepare
from remem.runs.config import RunConfig, validate, with_absolute_paths
from remem.runs.events import RunStarted
from remem.runs.phase0_cache import Phase0Cache
from remem.runs.prepared import Prepared
from remem.runs.results import phases_done
from remem.runs.run import run_or_resume, train_phase0
from remem.types import Json

RUN, PHASE0 = f"{__name__}:run", f"{__name__}:phase0"


def run_job(name: str, config: RunConfig, out: Path, *, phase0: Path | None = None, after: tuple[str, ...] = ()) -> Job:
    """Returns the job of a run in `out`: started, resumed or, if complete, reused.

    `phase0` is the folder of a Phase0Cache to start from. The answer has `average_accuracy` and `last_accuracy`; the
    full result is in the folder.
    """
    folder = policy_folder(config.policy)
    if folder is not None:
        config = config.model_copy(update={"policy": str(folder.absolute())})
    payload = {"config": _portable(config), "out": str(out.absolute())}
    if phase0 is not None:
        payload["phase0"] = str(phase0.absolute())
    return Job(name, RUN, payload, after, threads=config.train.threads, folder=out.absolute())


def phase0_job(name: str, config: RunConfig, cache_folder: Path, *, after: tuple[str, ...] = ()) -> Job:
    """Returns the job that trains phase 0 into a Phase0Cache. It needs no policy: that may not exist yet."""
    config = config.model_copy(update={"policy": "static", "policy_sha256": None, "sample_actions": False})
    payload = {"config": _portable(config), "cache": str(cache_folder.absolute())}
    return Job(name, PHASE0, payload, after, threads=config.train.threads, folder=cache_folder.absolute())


@job_kind("run")
def run(payload: Mapping[str, Any], emit: Emit) -> Json:
    """Starts, resumes or reuses the run in a folder."""
    try:
        return _run(payload, emit)
    finally:
        gc.collect()  # a data set in a reference cycle would stay in memory while the next job loads its own


@job_kind("phase0")
def phase0(payload: Mapping[str, Any], emit: Emit) -> Json:
    """Trains phase 0 unless the cache has it."""
    try:
        return _phase0(payload, emit)
    finally:
        gc.collect()


def _run(payload: Mapping[str, Any], emit: Emit) -> Json:
    prepared, out = _prepare(payload), Path(payload["out"])
    cache = Phase0Cache(Path(payload["phase0"])) if "phase0" in payload else None
    emit(RunStarted.of(prepared, phases_done(out)))
    result = run_or_resume(prepared, out, emit, phase0=cache)
    return {"average_accuracy": result.average_accuracy, "last_accuracy": result.last_accuracy}


def _phase0(payload: Mapping[str, Any], emit: Emit) -> Json:
    prepared, cache = _prepare(payload), Phase0Cache(Path(payload["cache"]))
    cached = cache.has(prepared)
    started = RunStarted.of(prepared, int(cached))
    emit(replace(started, phases=started.phases[:1]))
    if not cached:
        train_phase0(prepared, cache, emit)
    return {}


def _prepare(payload: Mapping[str, Any]) -> Prepared:
    config = validate(payload["config"])
    if config.train.devices > 1:  # Fabric would start copies of this process
        devices = config.train.devices
        raise InputError(f"train.devices: {devices} given; runs side by side have one device each, expected 1")
    return prepare(config)


def _portable(config: RunConfig) -> Json:
    """Returns settings that do not depend on the working directory."""
    return with_absolute_paths(config).model_dump(mode="json")
