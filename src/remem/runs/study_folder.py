"""A study in a folder: everything is checked first, then policies are learned, then all runs go through the crew."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from typing import Any

import remem
from remem.data.datasets import load_dataset
from remem.data.scenario import Scenario, build_scenario
from remem.errors import DamagedFileError, InputError
from remem.runs.build import prepare
from remem.runs.checkpoint import write_atomically
from remem.runs.config import RunConfig
from remem.runs.crew import Crew, Job, phase0_job, run_job
from remem.runs.folder import alone_in, require_same
from remem.runs.learning import LearnConfig
from remem.runs.outline import outline, phases_done
from remem.runs.phase0 import Phase0Shelf, phase0_key
from remem.runs.policy_learning import POLICY, learn_in_folder
from remem.runs.results import RunResult, load_result
from remem.runs.shelf import DiskShelf
from remem.runs.study import Study, StudyRun, plan_study
from remem.runs.tasks import Workplace

FORMAT = 1
SETTINGS, RUNS, POLICIES, PHASE0 = "study.json", "runs", "policies", "phase0"
# Without settings of ours these are somebody else's.
OTHERS = (RUNS, POLICIES, PHASE0, "summary.json", "config.json", "result.json", "learning.json", "policy.json")

Report = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class Facts:
    """What the data say of a run before it begins."""

    outline: dict[str, Any]
    phase0: str  # equal for runs that can share one
    on_shelf: bool  # whether it has been trained already
    fingerprint: str


def study_in_folder(study: Study, out: Path, crew: Crew, report: Report) -> dict[str, RunResult]:
    """Begins, goes on with, or where it is complete only reads this very study; the results by name of run."""
    if (out / SETTINGS).exists():
        _require_same_study(study, out)
    else:
        _require_free(out)
    left = [run for run in study.runs if finished(out, run) is None]
    facts = check_runs(left, out)
    wanted = dict.fromkeys(run.learning for run in left if run.learning is not None)
    to_learn = {name: study.learnings[name] for name in wanted if not (out / POLICIES / name / POLICY).exists()}
    check_learnings(to_learn)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--out: {out} cannot be written ({error.strerror})") from error
    with alone_in(out):
        _begin_or_check(study, out, facts)
        jobs = make_jobs(left, facts, out)
        report(_begin_event(study, left, facts, jobs, learnings=list(to_learn)))
        for name, learning in to_learn.items():
            _learn(name, learning, out, crew, report)
        _run(jobs, crew, report)
        rmtree(out / PHASE0, ignore_errors=True)
    return {run.name: load_result(out / RUNS / run.name) for run in study.runs}


def finished(out: Path, run: StudyRun) -> RunResult | None:
    """The result of a run that is complete."""
    folder = out / RUNS / run.name
    result = load_result(folder) if (folder / "result.json").is_file() else None
    return result if result is not None and result.complete else None


def read_study(out: Path, root: Path | None = None) -> Study:
    """The study that a folder began with, planned again; `root` is where the data lie now."""
    try:
        study = plan_study(_read(out)["settings"])
    except DamagedFileError:
        raise
    except InputError as error:
        raise DamagedFileError(f"{out / SETTINGS}: {error}") from error
    return study if root is None else plan_study(study.tree, {"data": {"root": str(root.absolute())}})


def check_runs(runs: Sequence[StudyRun], out: Path) -> dict[str, Facts]:
    """Everything that can be wrong with any of them is said before one begins. Data sets are read once."""
    scenarios: dict[str, Scenario] = {}
    shelf = Phase0Shelf(out / PHASE0)
    facts = {}
    for run in runs:
        try:
            facts[run.name] = _facts(run.config, scenarios, shelf, phases_done(out / RUNS / run.name))
        except InputError as error:
            raise type(error)(f"{run.name}: {error}") from error
    return facts


def _facts(config: RunConfig, scenarios: dict[str, Scenario], shelf: Phase0Shelf, done: int) -> Facts:
    if config.train.devices > 1:
        raise InputError(f"train.devices: {config.train.devices} given; runs of a study have one each, expected 1")
    key = config.data.model_dump_json() + config.scenario.model_dump_json()
    if key not in scenarios:
        scenarios[key] = build_scenario(load_dataset(config.data), config.scenario, config.data)
    prepared = prepare(config, scenario=scenarios[key])
    return Facts(outline(prepared, done), phase0_key(prepared), shelf.has(prepared), prepared.scenario.fingerprint)


def check_learnings(learnings: Mapping[str, LearnConfig]) -> None:
    """The same for what must be learned first."""
    for name, learning in learnings.items():
        try:
            Workplace(learning, DiskShelf(Path(name), 0)).check()  # nothing is trained, so the shelf stays empty
        except InputError as error:
            raise type(error)(f"{name}: {error}") from error


def make_jobs(runs: Sequence[StudyRun], facts: Mapping[str, Facts], out: Path) -> list[Job]:
    """A job for every run, and before them one for every phase 0 that several of them begin with."""
    shelf = out / PHASE0
    users = Counter(facts[run.name].phase0 for run in runs if not facts[run.name].outline["done"])
    lenders: dict[str, str] = {}
    jobs = []
    for run in runs:
        known, folder, config = facts[run.name], out / RUNS / run.name, run.config
        if run.learning is not None:
            config = config.model_copy(update={"policy": str(out.absolute() / POLICIES / run.learning)})
        if known.outline["done"] or (users[known.phase0] == 1 and not known.on_shelf):
            jobs.append(run_job(run.name, config, folder))
            continue
        if not known.on_shelf and known.phase0 not in lenders:
            lenders[known.phase0] = f"phase 0 of {run.name}"
            jobs.append(phase0_job(lenders[known.phase0], config, shelf))
        after = () if known.on_shelf else (lenders[known.phase0],)
        jobs.append(run_job(run.name, config, folder, phase0=shelf, after=after))
    return jobs


def _learn(name: str, learning: LearnConfig, out: Path, crew: Crew, report: Report) -> None:
    def tell(event: dict[str, Any]) -> None:
        report({"event": "learning", "name": name, "what": event})

    learn_in_folder(learning, out / POLICIES / name, tell, crew=crew)
    report({"event": "learned", "name": name})


def _run(jobs: Sequence[Job], crew: Crew, report: Report) -> None:
    def tell(job: Job, event: dict[str, Any]) -> None:
        if event["event"] == "begin" and "phase0" in job.order:  # which is behind it
            event = {**event, "done": max(1, event["done"])}
        report({"event": "job", "name": job.name, "what": event})

    for job, answer in crew.run(jobs, tell):
        numbers = {key: answer["result"][key] for key in ("average_accuracy", "last_accuracy") if "result" in answer}
        report({"event": "ended", "name": job.name, **numbers})


def _begin_event(
    study: Study, left: Sequence[StudyRun], facts: Mapping[str, Facts], jobs: Sequence[Job], learnings: list[str]
) -> dict[str, Any]:
    """What is going to happen; with every job its outline, from which the time that is left is guessed."""
    outlines: dict[str, dict[str, Any]] = {}
    for job in jobs:
        if job.kind == "phase0":
            whole = facts[job.name.removeprefix("phase 0 of ")].outline
            outlines[job.name] = {**whole, "phases": whole["phases"][:1]}
        else:
            whole = facts[job.name].outline
            outlines[job.name] = {**whole, "done": max(whole["done"], 1 if "phase0" in job.order else 0)}
    done = len(study.runs) - len(left)
    return {"event": "begin", "runs": len(study.runs), "done": done, "learnings": learnings, "jobs": outlines}


def _require_free(out: Path) -> None:
    if out.exists() and not out.is_dir():
        raise InputError(f"--out: {out} is a file; expected a folder")
    for name in OTHERS:
        if (out / name).exists():
            raise InputError(f"--out: {out} holds a {name} of something else; expected a new folder")


def _begin_or_check(study: Study, out: Path, facts: Mapping[str, Facts]) -> None:
    """Settings and fingerprints of the data are kept; whoever goes on must have the same."""
    if (out / SETTINGS).exists():
        before = _read(out)["data_fingerprints"]
        if any(before.get(name) != known.fingerprint for name, known in facts.items()):
            raise InputError(f"{out}: the data have changed since this study began; going on needs the same data")
        return
    tree = {
        "format": FORMAT,
        "remem": remem.__version__,
        "settings": study.tree,
        "data_fingerprints": {name: known.fingerprint for name, known in facts.items()},
    }
    try:
        write_atomically(out / SETTINGS, json.dumps(tree, indent=1).encode())
    except OSError as error:
        raise InputError(f"--out: {out} cannot be written ({error.strerror})") from error


def _require_same_study(study: Study, out: Path) -> None:
    """Compared as planned: a file may be written differently and mean the same."""
    before = read_study(out)
    for old, new in zip(_planned(before), _planned(study), strict=True):
        require_same(out, old, new)


def _planned(study: Study) -> list[dict[str, Any]]:
    """The grid first, since other runs are no other settings of the same runs."""
    runs = {run.name: run.config.model_dump(mode="json") for run in study.runs}
    return [
        {"study": study.settings.model_dump(mode="json")},
        {"learn": study.learn.model_dump(mode="json")} if study.learnings else {},
        {"runs": runs},
    ]


def _read(out: Path) -> dict[str, Any]:
    path = out / SETTINGS
    try:
        tree = json.loads(path.read_text(encoding="utf-8"))
        if tree["format"] != FORMAT:
            raise DamagedFileError(f"{path}: format {tree['format']}, expected {FORMAT}")
        if not isinstance(tree["settings"], dict) or not isinstance(tree["data_fingerprints"], dict):
            raise DamagedFileError(f"{path}: not the settings of a study")
    except FileNotFoundError as error:
        raise DamagedFileError(f"{path}: no such file; expected the folder of a study") from error
    except DamagedFileError:
        raise
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DamagedFileError(f"{path}: not the settings of a study ({error})") from error
    return dict(tree)
