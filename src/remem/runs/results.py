"""What a run leaves behind: `result.json`, `predictions.npz`, and the same as a Python value."""

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import remem
from remem.errors import DamagedFileError
from remem.evaluation.metrics import confusion, forgetting
from remem.runs.checkpoint import write_atomically
from remem.types import Decision, IntArray, PhaseResult

FORMAT = 1
NEEDED = ("status", "config", "oracle", "average_accuracy", "last_accuracy", "forgetting", "phases", "samples_peak")


@dataclass(frozen=True)
class PhaseRecord:
    """One phase as `result.json` has it; `data` is that entry, and its fields are attributes."""

    data: Mapping[str, Any]

    def __getattr__(self, name: str) -> Any:
        try:
            return self.data[name]
        except KeyError:
            raise AttributeError(f"a phase has no '{name}'; it has {', '.join(self.data)}") from None


@dataclass(frozen=True)
class RunResult:
    """A whole run; `data` is `result.json`."""

    data: Mapping[str, Any]

    @property
    def phases(self) -> tuple[PhaseRecord, ...]:
        return tuple(PhaseRecord(entry) for entry in self.data["phases"])

    @property
    def average_accuracy(self) -> float:
        return float(self.data["average_accuracy"])

    @property
    def last_accuracy(self) -> float:
        return float(self.data["last_accuracy"])

    @property
    def forgetting(self) -> float:
        return float(self.data["forgetting"])

    @property
    def complete(self) -> bool:
        return bool(self.data["status"] == "complete")

    @property
    def label(self) -> str:
        """`icarl / static`, with oracles marked; `-` where no policy decides anything."""
        config, later = self.data["config"], self.data["phases"][1:]
        policy = "-" if later and all(entry["action"] is None for entry in later) else config["policy"]
        return f"{config['method']['name']} / {policy}" + (" (oracle)" if self.data["oracle"] else "")


def phase_entry(result: PhaseResult) -> dict[str, Any]:
    """A phase for `result.json`."""
    return {
        "phase": result.phase,
        "classes_seen": result.classes_seen,
        "accuracy": result.accuracy,
        "accuracy_cnn": result.accuracy_cnn,
        "accuracy_nme": result.accuracy_nme,
        "accuracy_by_phase": list(result.accuracy_by_phase),
        "accuracy_old": result.accuracy_old,
        "accuracy_new": result.accuracy_new,
        "accuracy_per_class": {str(label): value for label, value in result.accuracy_per_class.items()},
        "action": action_entry(result.decision),
        "budget": result.budget,
        "held_old": result.held_old,
        "held_new": result.held_new,
        "held_per_class": {str(label): count for label, count in result.held_per_class.items()},
        "seconds": dict(result.seconds),
    }


def action_entry(decision: Decision | None) -> dict[str, Any] | None:
    """What was decided in a phase; None where nothing was."""
    if decision is None:
        return None
    shares = {"old_share": decision.old_share, "level1": decision.level1, "level2": decision.level2}
    return {**shares, "clamped": decision.clamped}


def summarise(facts: Mapping[str, Any], phases: Sequence[Mapping[str, Any]], *, peak: int, complete: bool) -> RunResult:
    """`result.json` from what is known of the run and its phases so far; `peak` was measured at every load."""
    return RunResult(
        {
            "format": FORMAT,
            "remem": remem.__version__,
            "status": "complete" if complete else "running",
            **facts,
            "average_accuracy": _mean(phases, "accuracy"),
            "last_accuracy": phases[-1]["accuracy"] if phases else None,
            "forgetting": forgetting([entry["accuracy_by_phase"] for entry in phases]) if phases else None,
            "average_accuracy_cnn": _mean(phases, "accuracy_cnn"),
            "average_accuracy_nme": _mean(phases, "accuracy_nme"),
            "phases": list(phases),
            "samples_peak": peak,
        }
    )


def _mean(phases: Sequence[Mapping[str, Any]], field: str) -> float | None:
    """Over phases 0..N; None where a phase has no such number."""
    values = [entry[field] for entry in phases]
    return None if not values or None in values else sum(values) / len(values)


def save_result(path: Path, result: RunResult) -> None:
    write_atomically(path, (json.dumps(result.data, indent=1) + "\n").encode())


def load_result(folder: Path) -> RunResult:
    """The result of a run folder."""
    path = folder / "result.json" if folder.is_dir() else folder
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["format"] != FORMAT:
            raise DamagedFileError(f"{path}: format {data['format']}, expected {FORMAT}")
        absent = [key for key in NEEDED if key not in data]
        if absent:
            raise DamagedFileError(f"{path}: no '{absent[0]}'; expected a result of remem")
        return RunResult(data)
    except FileNotFoundError as error:
        raise DamagedFileError(f"{path}: no such result; expected the folder of a run") from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        if isinstance(error, DamagedFileError):
            raise
        raise DamagedFileError(f"{path}: not a result of remem ({error})") from error


def save_predictions(path: Path, judgements: Mapping[str, IntArray], classes: int) -> None:
    """Labels and predictions of every phase, and the confusion matrix after the last, as plain arrays."""
    arrays: dict[str, NDArray[Any]] = {name: judgements[name].astype(np.int32) for name in sorted(judgements)}
    last = max(int(name.rsplit("_", 1)[1]) for name in judgements)
    for head in ("cnn", "nme"):
        if f"{head}_{last}" in judgements:
            arrays[f"confusion_{head}"] = confusion(judgements[f"labels_{last}"], judgements[f"{head}_{last}"], classes)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    write_atomically(path, buffer.getvalue())
