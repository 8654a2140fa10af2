"""What tables, figures and pages are made of: results in run folders, study folders and stored files."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel

from remem.errors import InputError
from remem.methods.table import METHODS
from remem.report.groups import REFERENCE
from remem.runs.config import RunConfig
from remem.runs.results import RunResult, load_result
from remem.types import Json

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
    results = with_all_settings([run.result for run in found.values()])
    return _each_once(StoredRun(result, run.path) for result, run in zip(results, found.values(), strict=True))


def with_all_settings(runs: Sequence[RunResult]) -> list[RunResult]:
    """Settings that did not exist when a run was made get their defaults, so that it is comparable with newer ones."""
    sections = {name: field.annotation for name, field in RunConfig.model_fields.items()}
    layouts: dict[str, set[frozenset[str]]] = {}
    for run in runs:
        layouts.setdefault(run.method_name, set()).add(frozenset(run.config["method"]))
    completed = []
    for run in runs:
        config = {**run.config}
        for name, section in sections.items():
            if name == "method" and len(layouts[run.method_name]) > 1 and run.method_name in METHODS:
                section = METHODS[run.method_name].settings  # imports the method, and torch
            if isinstance(config.get(name), dict) and isinstance(section, type) and issubclass(section, BaseModel):
                config[name] = _defaults(section) | config[name]
        completed.append(run.model_copy(update={"config": config}))
    return completed


def _defaults(section: type[BaseModel]) -> Json:
    fields = section.model_fields.items()
    return {name: field.get_default(call_default_factory=True) for name, field in fields if not field.is_required()}


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


def _each_once(runs: Iterable[StoredRun]) -> list[StoredRun]:
    """Without copies of a run, which would be counted as other seeds; two different results of one run are refused."""
    seen: dict[str, StoredRun] = {}
    for run in runs:
        key = json.dumps([run.result.config, run.result.policy, run.result.data_fingerprint], sort_keys=True)
        first = seen.setdefault(key, run)
        if first.result != run.result:
            raise InputError(f"{run.path}: the same settings and seed as {first.path}; expected every run once")
    return list(seen.values())
