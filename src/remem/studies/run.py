"""Runs a study in a folder: checks everything, trains policies, then runs the grid in a worker pool."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import rmtree

from remem.data.datasets import load_dataset
from remem.data.scenario import Scenario, build_scenario
from remem.errors import DamagedFileError, InputError
from remem.events import Emit, Event, Notice
from remem.parallel.jobs import Job
from remem.parallel.pool import WorkerPool
from remem.rl.config import LearnConfig
from remem.rl.learn import POLICY, check_learning, learn_in_folder
from remem.rl.pseudo_tasks import PseudoTasks
from remem.rl.snapshot_cache import MemorySnapshotCache
from remem.runs.build import prepare
from remem.runs.config import RunConfig
from remem.runs.events import RunStarted
from remem.runs.identity import require_planned
from remem.runs.jobs import PHASE0 as PHASE0_JOB
from remem.runs.jobs import phase0_job, run_job
from remem.runs.phase0_cache import Phase0Cache, phase0_key
from remem.runs.results import RunResult, load_result, phases_done
from remem.runs.run import RUN, finished_result, read_config
from remem.runs.versions import versions
from remem.storage.workdir import WorkDir, WorkKind
from remem.studies.events import JobEnded, JobProgress, LearningProgress, PolicyLearned, StudyStarted
from remem.studies.grid import Study, StudyRun, plan_study
from remem.types import Json

RUNS, POLICIES, PHASE0 = "runs", "policies", "phase0"


def _migrate(document: Json) -> Json:
    """Migrates a `study.json` of format 1. `plan_study` accepts the older names of settings."""
    return {"format": 2, "settings": document["settings"], "fingerprints": document["data_fingerprints"]}


STUDY = WorkKind("study", "study.json", {1: _migrate})


@dataclass(frozen=True)
class RunCheck:
    """Facts about a run and its data before it starts."""

    started: RunStarted
    phase0: str  # equal for runs that can share a phase 0
    cached: bool  # whether that phase 0 is already trained
    fingerprint: str
    notes: tuple[str, ...]  # on the data and the policy, for the user


def study_in_folder(study: Study, out: Path, pool: WorkerPool, emit: Emit) -> dict[str, RunResult]:
    """Starts or resumes this study or, if it is complete, loads its results. Returns results by run name."""
    folder = WorkDir(out, STUDY)
    if folder.exists:
        _require_same_study(study, folder)
    else:
        folder.require_free()
    left = [run for run in study.runs if finished(out, run) is None]
    checks = check_runs(left, out)
    wanted = dict.fromkeys(run.learning for run in left if run.learning is not None)
    to_learn = {name: study.learnings[name] for name in wanted if not (out / POLICIES / name / POLICY).exists()}
    check_learnings(to_learn)
    with folder.claim():
        _begin_or_check(study, folder, emit, {name: check.fingerprint for name, check in checks.items()})
        jobs = make_jobs(left, checks, out)
        for note in dict.fromkeys(note for check in checks.values() for note in check.notes):
            emit(Notice(note))
        emit(_started(study, checks, jobs, tuple(to_learn)))
        for name, learning in to_learn.items():
            _learn(name, learning, out, pool, emit)
        _run(jobs, pool, emit)
        rmtree(out / PHASE0, ignore_errors=True)
    return {run.name: load_result(out / RUNS / run.name) for run in study.runs}


def finished(out: Path, run: StudyRun) -> RunResult | None:
    """Returns the result of a run if it is complete. Raises if the folder or the result is another run's."""
    folder = out / RUNS / run.name
    if not (folder / RUN.settings_file).is_file():
        return None
    begun, fingerprint = read_config(folder)
    policy = Path(run.config.policy).name if run.learning is None else run.learning
    require_planned(folder / RUN.settings_file, run.config, begun, policy)
    return finished_result(folder, begun, fingerprint)


def read_study(out: Path, root: Path | None = None) -> Study:
    """Plans the stored study of a folder again. `root` replaces the stored data root."""
    settings = WorkDir(out, STUDY).read().settings
    try:
        study = plan_study(settings)
    except InputError as error:
        raise DamagedFileError(f"{out / STUDY.settings_file}: {error}") from error
    return study if root is None else plan_study(study.tree, {"data": {"root": str(root.absolute())}})


def check_runs(runs: Sequence[StudyRun], out: Path) -> dict[str, RunCheck]:
    """Raises if any run is invalid, before the first one starts. Data sets are read once."""
    scenarios: dict[str, Scenario] = {}
    cache = Phase0Cache(out / PHASE0)
    checks = {}
    for run in runs:
        try:
            checks[run.name] = _check(run.config, scenarios, cache, phases_done(out / RUNS / run.name))
        except InputError as error:
            raise type(error)(f"{run.name}: {error}") from error
    return checks


def _check(config: RunConfig, scenarios: dict[str, Scenario], cache: Phase0Cache, done: int) -> RunCheck:
    if config.train.devices > 1:
        raise InputError(f"train.devices: {config.train.devices} given; runs of a study have one each, expected 1")
    key = config.data.model_dump_json() + config.scenario.model_dump_json()
    if key not in scenarios:
        scenarios[key] = build_scenario(load_dataset(config.data), config.scenario, config.data)
    prepared = prepare(config, scenario=scenarios[key])
    started, key = RunStarted.of(prepared, done), phase0_key(prepared)
    notes = (*prepared.scenario.notes, *prepared.notes)
    return RunCheck(started, key, cache.has(prepared), prepared.scenario.fingerprint, notes)


def check_learnings(learnings: Mapping[str, LearnConfig]) -> None:
    """Raises if any policy training is invalid."""
    for name, learning in learnings.items():
        try:
            check_learning(learning, PseudoTasks(learning, MemorySnapshotCache(0)))  # nothing is trained
        except InputError as error:
            raise type(error)(f"{name}: {error}") from error


def make_jobs(runs: Sequence[StudyRun], checks: Mapping[str, RunCheck], out: Path) -> list[Job]:
    """Returns one job per run, and before them one for each phase 0 that several runs share."""
    cache = out / PHASE0
    users = Counter(checks[run.name].phase0 for run in runs if not checks[run.name].started.done)
    phase0_jobs: dict[str, str] = {}
    jobs = []
    for run in runs:
        check, folder, config = checks[run.name], out / RUNS / run.name, run.config
        if run.learning is not None:
            config = config.model_copy(update={"policy": str(out.absolute() / POLICIES / run.learning)})
        if check.started.done or (users[check.phase0] == 1 and not check.cached):
            jobs.append(run_job(run.name, config, folder))
            continue
        if not check.cached and check.phase0 not in phase0_jobs:
            phase0_jobs[check.phase0] = f"phase 0 of {run.name}"
            jobs.append(phase0_job(phase0_jobs[check.phase0], config, cache))
        after = () if check.cached else (phase0_jobs[check.phase0],)
        jobs.append(run_job(run.name, config, folder, phase0=cache, after=after))
    return jobs


def _learn(name: str, learning: LearnConfig, out: Path, pool: WorkerPool, emit: Emit) -> None:
    def emit_own(event: Event) -> None:
        emit(LearningProgress(name, event))

    learn_in_folder(learning, out / POLICIES / name, emit_own, pool, out / PHASE0)
    emit(PolicyLearned(name))


def _run(jobs: Sequence[Job], pool: WorkerPool, emit: Emit) -> None:
    def emit_job(job: Job, event: Event) -> None:
        if isinstance(event, RunStarted):
            event = _with_shared_phase0(job, event)
        emit(JobProgress(job.name, event))

    for job, answer in pool.run(jobs, emit_job):
        emit(JobEnded(job.name, answer.get("average_accuracy"), answer.get("last_accuracy")))


def _with_shared_phase0(job: Job, started: RunStarted) -> RunStarted:
    """Counts phase 0 as done if another job trains it."""
    return replace(started, done=max(1, started.done)) if "phase0" in job.payload else started


def _started(
    study: Study,
    checks: Mapping[str, RunCheck],
    jobs: Sequence[Job],
    learnings: tuple[str, ...],
) -> StudyStarted:
    sizes: dict[str, RunStarted] = {}
    for job in jobs:
        if job.kind == PHASE0_JOB:
            whole = checks[job.name.removeprefix("phase 0 of ")].started
            sizes[job.name] = replace(whole, phases=whole.phases[:1])
        else:
            sizes[job.name] = _with_shared_phase0(job, checks[job.name].started)
    return StudyStarted(len(study.runs), len(study.runs) - len(checks), learnings, sizes)


def _begin_or_check(study: Study, folder: WorkDir, emit: Emit, fingerprints: Mapping[str, str]) -> None:
    if folder.exists:
        begun = folder.read()
        folder.require_same_data(begun.fingerprints, fingerprints)
        if fingerprints and (changed := folder.changed_versions(begun.versions, versions())) is not None:
            emit(Notice(changed))
    else:
        folder.begin(study.tree, fingerprints, versions())


def _require_same_study(study: Study, folder: WorkDir) -> None:
    """Compares the plans, since different files may describe the same study."""
    before = read_study(folder.path)
    for old, new in zip(_planned(before), _planned(study), strict=True):
        folder.require_same_settings(old, new)


def _planned(study: Study) -> list[Json]:
    """Returns the plan as JSON, the grid first: run names depend on it."""
    runs = {run.name: run.config.model_dump(mode="json") for run in study.runs}
    return [
        {"study": study.settings.model_dump(mode="json")},
        {"learn": study.learn.model_dump(mode="json")} if study.learnings else {},
        {"runs": runs},
    ]
