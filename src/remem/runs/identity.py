"""Whether files belong together: the settings, result, checkpoint, model and predictions of one run."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from remem.errors import DamagedFileError, InputError
from remem.evaluation.metrics import accuracy, accuracy_per_class
from remem.runs.config import NO_EFFECT, RunConfig, validate
from remem.runs.results import RunResult
from remem.storage.jsonfile import differences
from remem.types import Json

# Settings that are decided when a run begins, so that a plan does not know them yet.
DECIDED = ("train.device", "train.strategy", "train.precision", "train.threads", "augment", "net.name", "memory")
_NONE = np.empty(0, np.int64)
ELSEWHERE = (*NO_EFFECT, "policy", "policy_sha256")  # policies are compared by their names


def require_own_result(path: Path, result: RunResult, config: RunConfig, fingerprint: str) -> None:
    """Raises if a result is not of the run with these settings and data."""
    try:
        theirs = validate(result.config).public()
    except InputError:  # settings that this version no longer knows; nothing can be said
        return
    found = next(differences(config.public(), theirs), None)
    if found is None and fingerprint and result.data_fingerprint != fingerprint:
        found = ("the data", fingerprint[:12], result.data_fingerprint[:12])
    if found is not None:
        raise foreign(path, "result", found)


def require_own_checkpoint(path: Path, facts: Json, config: RunConfig, fingerprint: str) -> None:
    """Raises if a checkpoint is not of the run with these settings and data; earlier ones do not name their data."""
    try:
        theirs = validate(facts["config"]).public()
    except (InputError, KeyError):  # settings that this version no longer knows; nothing can be said
        return
    found = next(differences(config.public(), theirs), None)
    if found is None and fingerprint and (data := facts.get("data", fingerprint)) != fingerprint:
        found = ("the data", fingerprint[:12], str(data)[:12])
    if found is not None:
        raise foreign(path, "checkpoint", found)


def require_own_predictions(path: Path, arrays: Mapping[str, NDArray[Any]], result: RunResult) -> None:
    """Raises if predictions do not give the accuracies of a result, in any phase, readout or class."""
    for record in result.phases:
        labels = arrays.get(f"labels_{record.phase}", _NONE)
        for head, expected in (("cnn", record.accuracy_cnn), ("nme", record.accuracy_nme)):
            if expected is None:
                continue
            predicted = arrays.get(f"{head}_{record.phase}", _NONE)
            given = accuracy(labels, predicted) if 0 < len(labels) == len(predicted) else None
            if given != expected:
                raise foreign(path, "predictions", (f"the accuracy of phase {record.phase}", expected, given))
            if head == result.head:
                rates = {str(label): rate for label, rate in accuracy_per_class(labels, predicted).items()}
                if rates != record.accuracy_per_class:
                    label, rate = next(iter(rates.items() - record.accuracy_per_class.items()), ("", None))
                    expected = record.accuracy_per_class.get(label)
                    raise foreign(path, "predictions", (f"the accuracy of class {label}", expected, rate))


def require_planned(path: Path, planned: RunConfig, begun: RunConfig, policy: str) -> None:
    """Raises if a folder's run is not the one that a study planned for it; `policy` is the end of its path or name."""
    one, other = (config.model_dump(mode="json") for config in (planned, begun))
    for key, old, new in differences(one, other):
        if not key.startswith((*DECIDED, *ELSEWHERE)):
            raise foreign(path, "settings", (key, old, new))
    if not f"/{begun.policy}".endswith(f"/{policy}"):
        raise foreign(path, "settings", ("policy", policy, begun.policy))


def foreign(path: Path, what: str, found: tuple[str, Any, Any]) -> DamagedFileError:
    key, expected, given = found
    return DamagedFileError(
        f"{path}: the {what} of another run ({key} is {given!r}, expected {expected!r}); put the right file back, or "
        f"move {path.parent} away and train again"
    )
