"""What tables, figures and pages are made of: results in run folders, study folders and stored files."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from remem.errors import InputError
from remem.report.groups import REFERENCE
from remem.runs.results import RunResult, load_result

RESULT = "result.json"
FIELDS = ("format", "config", "phases", "average_accuracy")  # that no other JSON file of remem has together


@dataclass(frozen=True)
class StoredRun:
    """A result and where it was found."""

    result: RunResult
    path: Path  # of the file

    @property
    def folder(self) -> Path | None:
        """The folder of the run, with its log and predictions; None if only the result was kept."""
        return self.path.parent if self.path.name == RESULT else None


def read_runs(paths: Sequence[Path]) -> list[StoredRun]:
    """Reads run folders, study folders, result files, and folders of any of them: every run once.

    Their order is that of the paths; within a folder runs of `static` come first, then the others by name.
    """
    found: dict[Path, StoredRun] = {}
    for path in paths:
        runs = [StoredRun(load_result(file), file) for file in result_files(path)]
        runs.sort(key=lambda run: run.result.policy_name != REFERENCE)
        for run in runs:
            found.setdefault(run.path.resolve(), run)
    _require_different(found.values())
    return list(found.values())


def result_files(path: Path) -> list[Path]:
    """The result of a run folder or file, or all results below any other folder."""
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise InputError(f"{path}: no such file or folder; expected runs, studies or results of runs")
    if (path / RESULT).is_file():
        return [path / RESULT]
    files = [file for file in sorted(path.rglob("*.json")) if file.name == RESULT or _is_result(file)]
    if not files:
        raise InputError(f"{path}: no result of a run in it; expected runs, studies or results of runs")
    return files


def _is_result(file: Path) -> bool:
    try:
        tree = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(tree, dict) and all(name in tree for name in FIELDS)


def _require_different(runs: Iterable[StoredRun]) -> None:
    """Two results of one run would be counted as two seeds."""
    seen: dict[str, Path] = {}
    for run in runs:
        key = json.dumps([run.result.config, run.result.policy, run.result.data_fingerprint], sort_keys=True)
        if key in seen:
            raise InputError(f"{run.path}: the same settings and seed as {seen[key]}; expected every run once")
        seen[key] = run.path
