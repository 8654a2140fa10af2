"""Verifies every file of a folder of any kind, for `remem check`. Nothing is changed."""

from collections.abc import Callable, Iterator
from pathlib import Path

from remem.errors import DamagedFileError, InputError
from remem.estimator.deletion import read_receipts
from remem.estimator.saved import load_stream
from remem.policies.files import FACTS, load_policy
from remem.rl.learn import LEARNING, identity, read_learning, require_own_checkpoint, require_own_policy
from remem.rl.reward_log import RewardLog
from remem.runs.config import RunConfig
from remem.runs.identity import require_own_checkpoint as require_own_run_checkpoint
from remem.runs.identity import require_own_predictions
from remem.runs.inside import INSIDE
from remem.runs.migrations import migrate_checkpoint
from remem.runs.model import load_model
from remem.runs.results import RunResult, load_predictions, load_result
from remem.runs.run import RUN, finished_result, read_config
from remem.runs.writer import CHECKPOINT, RESULT
from remem.storage.atomic import PART
from remem.storage.generations import previous
from remem.storage.jsonfile import read_json
from remem.storage.pointer import VERSIONS, read_pointer, version_folder
from remem.storage.tensorfile import Snapshot, load_snapshot
from remem.studies.grid import Study
from remem.studies.run import POLICIES, RUNS, finished, read_study
from remem.studies.summary import summarise_study

PREDICTIONS, SUMMARY = "predictions.npz", "summary.json"


def problems(kind: str, folder: Path) -> list[str]:
    """A line for every problem of a folder, with what to do about it."""
    check = {
        "study": check_study,
        "learning": check_learning,
        "run": check_run,
        "policy": check_policy,
        "model": check_model,
    }[kind]
    return list(dict.fromkeys([*check(folder), *_leftovers(folder)]))


def check_run(folder: Path) -> Iterator[str]:
    again = f"`remem resume {folder}` makes it again from the checkpoint"
    begun: list[tuple[RunConfig, str]] = []
    yield from _problems(lambda: begun.append(read_config(folder)), "its settings are needed: put a copy back")
    if not begun:
        for lines in _checkpoints(folder, lambda path, snapshot: None).values():
            yield from lines
        return
    config, fingerprint = begun[0]
    checkpoints = _checkpoints(
        folder, lambda path, snapshot: require_own_run_checkpoint(path, snapshot.facts, config, fingerprint)
    )
    kept = checkpoints.get(folder / CHECKPOINT) == []
    way = again if kept else f"move {folder} away and run again, or put a copy back"
    results: list[RunResult | None] = []
    yield from _problems(lambda: results.append(finished_result(folder, config, fingerprint, _fail)), way)
    way = f"`remem resume {folder}` goes on from the other one; without one it starts again"
    if results and results[0] is not None:
        way = "the run is complete and needs none: remove it"
    for problem in (line for lines in checkpoints.values() for line in lines):
        yield f"{problem}; {way}"
    if results and (result := results[0]) is not None:
        way = f"remove {RESULT}, then {again}" if kept else f"move {folder} away and run again, or put a copy back"
        path = folder / PREDICTIONS
        yield from _problems(lambda: load_model(folder), way)
        yield from _problems(lambda: require_own_predictions(path, load_predictions(path), result), way)
    elif (folder / INSIDE).exists():
        way = f"`remem resume {folder}` begins the phase again"
        yield from _problems(lambda: load_snapshot(folder / INSIDE), way)


def check_learning(folder: Path) -> Iterator[str]:
    try:
        config, fingerprint = read_learning(folder)
    except InputError as error:
        yield f"{error}; its settings are needed: put a copy back"
        return
    own = identity(config, fingerprint)
    yield from _problems(lambda: RewardLog(folder, own).read(repair=False), "")
    for path in (folder / CHECKPOINT, previous(folder / CHECKPOINT)):
        if path.exists():
            way = f"`remem resume {folder}` goes on from the other one, or from the rewards if you remove both"
            yield from _problems(lambda path=path: require_own_checkpoint(path, load_snapshot(path).facts, own), way)  # type: ignore[misc]
    if (folder / FACTS).exists():
        way = f"remove the files of the policy, and `remem resume {folder}` makes it again from the rewards"
        yield from _problems(lambda: require_own_policy(folder, config), way)


def check_study(folder: Path) -> Iterator[str]:
    try:
        study = read_study(folder)
    except InputError as error:
        yield f"{error}; its settings are needed: put a copy back"
        return
    for run in study.runs:
        there = folder / RUNS / run.name
        if (there / RUN.settings_file).exists():
            yield from _problems(lambda run=run: finished(folder, run), "")  # type: ignore[misc]
            yield from check_run(there)
            yield from _leftovers(there)
    for name in study.learnings:
        if (folder / POLICIES / name / LEARNING.settings_file).exists():
            yield from check_learning(folder / POLICIES / name)
    if (folder / SUMMARY).exists():
        way = f"`remem resume {folder}` writes it again"
        yield from _problems(lambda: _require_own_summary(folder, study), way)


def _require_own_summary(folder: Path, study: Study) -> None:
    """Raises if the numbers of the summary are not those of the runs."""
    path = folder / SUMMARY
    stored = read_json(path, "summary of a study", format=1)
    try:
        results = {run.name: load_result(folder / RUNS / run.name) for run in study.runs}
    except (InputError, OSError):  # a problem of its own
        return
    expected = summarise_study(study, results).model_dump(mode="json")
    if any(stored.get(key) != expected[key] for key in ("rows", "runs")):
        raise DamagedFileError(f"{path}: not the numbers of the runs beside it")


def check_policy(folder: Path) -> Iterator[str]:
    yield from _problems(lambda: load_policy(folder), "put a copy back, or learn it again")


def check_model(folder: Path) -> Iterator[str]:
    try:
        kept = read_pointer(folder)
    except InputError as error:
        yield f"{error}; put a copy back"
        return
    for place, number in enumerate(kept):
        way = f"put a copy back, or let the next update drop it with --keep {len(kept) - place}"
        if number == kept[-1]:
            way = f"put a copy back, or `remem rollback {folder}`" if len(kept) > 1 else "put a copy back"
        version = version_folder(folder, number)
        yield from _problems(lambda version=version: load_stream(version), way)  # type: ignore[misc]
    yield from _problems(lambda: read_receipts(folder), "put a copy back")
    names = {version_folder(folder, number).name for number in kept}
    for entry in sorted((folder / VERSIONS).glob("[0-9]*")):
        if entry.name not in names:
            yield f"{entry}: left by a kill, and harmless; the next change of the model removes it"


def _checkpoints(folder: Path, require_own: Callable[[Path, Snapshot], None]) -> dict[Path, list[str]]:
    """The checkpoints that are there, and what is wrong with each."""

    def read(path: Path) -> None:
        require_own(path, load_snapshot(path, migrate_checkpoint))

    paths = [path for path in (folder / CHECKPOINT, previous(folder / CHECKPOINT)) if path.exists()]
    return {path: list(_problems(lambda path=path: read(path), "")) for path in paths}  # type: ignore[misc]


def _problems(read: Callable[[], object], way: str) -> Iterator[str]:
    try:
        read()
    except InputError as error:
        yield f"{error}; {way}" if way and way not in str(error) else str(error)
    except OSError as error:
        yield f"{error.filename}: cannot be read ({error.strerror}); it may be whole"


def _fail(text: str) -> None:
    raise InputError(text)


def _leftovers(folder: Path) -> Iterator[str]:
    for path in sorted(folder.glob(f"*{PART}")):
        yield f"{path}: left half-written by a kill, and harmless; `remem resume {folder}` removes it"
