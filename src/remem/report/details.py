"""What a run folder keeps beside its result: losses, confusion and, for policies, the course of learning."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from remem.errors import InputError
from remem.evaluation.metrics import confusion
from remem.runs.identity import require_own_predictions
from remem.runs.results import RunResult, load_predictions
from remem.storage.event_log import LOG, read_log
from remem.types import IntArray, Json

PREDICTIONS = "predictions.npz"
MOST_CLASSES = 100  # of a confusion matrix with a cell for every pair of classes
MOST_PAIRS = 20
MOST_EPOCHS = 3000


def losses(folder: Path | None) -> list[Json]:
    """Every epoch of a run: phase, stage, epoch, and the sum of its loss terms."""
    if folder is None:
        return []
    epochs = [entry for entry in read_log(folder / LOG) if entry.get("event") == "epoch"]
    kept = ("phase", "stage", "epoch")
    return [
        {**{key: entry.get(key) for key in kept}, "loss": _rounded(sum(_numbers(entry.get("loss"))))}
        for entry in epochs[:MOST_EPOCHS]
    ]


def course(folder: Path) -> Json:
    """Reward, entropy and gradient norm of every epoch of a policy's learning; empty if nothing was logged."""
    epochs = [entry for entry in read_log(folder / LOG) if entry.get("event") == "policy"]
    return {key: [entry.get(key) for entry in epochs] for key in ("epoch", "reward", "best", "entropy", "grad_norm")}


def confusions(folder: Path | None, run: RunResult) -> Json | None:
    """Confusion after every phase, by the phases in which classes arrived; after the last one by classes, too."""
    path = None if folder is None else folder / PREDICTIONS
    if path is None or not path.is_file():
        return None
    try:
        arrays = load_predictions(path)
        require_own_predictions(path, arrays, run)
        labels = {phase.phase: arrays[f"labels_{phase.phase}"].astype(np.int64) for phase in run.phases}
        predicted = {phase.phase: arrays[f"{run.head}_{phase.phase}"].astype(np.int64) for phase in run.phases}
    except (InputError, KeyError):  # predictions come with complete runs only
        return None
    arrived = arrival(run)
    by_phase = [confusion(arrived[labels[p]], arrived[predicted[p]], p + 1).tolist() for p in labels]
    last = max(labels)
    whole = confusion(labels[last], predicted[last], len(run.class_names))
    few = len(run.class_names) <= MOST_CLASSES
    return {"phases": by_phase, "classes": whole.tolist() if few else None, "pairs": _pairs(whole, run.class_names)}


def arrival(run: RunResult) -> IntArray:
    """The phase in which every class arrived, by its position in the class order."""
    seen = [0, *(phase.classes_seen for phase in run.phases)]
    return np.repeat(np.arange(len(run.phases)), np.diff(seen)).astype(np.int64)


def _pairs(whole: IntArray, names: Sequence[str]) -> list[list[Any]]:
    """The most frequent mistakes: true class, predicted class, how often, and the share of the true class."""
    wrong = whole.copy()
    np.fill_diagonal(wrong, 0)
    order = np.argsort(-wrong, axis=None, kind="stable")[:MOST_PAIRS]
    pairs = []
    for place in order.tolist():
        row, column = divmod(place, len(names))
        if wrong[row, column]:
            share = wrong[row, column] / max(1, whole[row].sum())
            pairs.append([names[row], names[column], int(wrong[row, column]), f"{100 * share:.1f}"])
    return pairs


def _numbers(terms: Any) -> list[float]:
    values = terms.values() if isinstance(terms, dict) else ()
    return [float(value) for value in values if isinstance(value, int | float)]


def _rounded(value: float) -> float | None:
    return round(value, 5) if np.isfinite(value) else None
