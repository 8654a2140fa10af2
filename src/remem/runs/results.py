"""The results of a run: `result.json` as typed records, and `predictions.npz`."""

import hashlib
import io
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

import remem
from remem.data.arrays import read_npz
from remem.errors import DamagedFileError, is_damage
from remem.evaluation.metrics import confusion, forgetting, mean_interval
from remem.runs.renamed import current_names
from remem.storage.atomic import write_atomically
from remem.storage.jsonfile import read_json, write_json
from remem.types import IntArray, Json, PhaseResult

FORMAT = 1


class Record(BaseModel):
    """A part of `result.json`. Fields added by later versions are kept."""

    model_config = ConfigDict(frozen=True, extra="allow")


class Spread(Record):
    """A mean over seeds and half of its 95 % interval; None for a single seed."""

    mean: float
    half_width: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> Self:
        mean, half = mean_interval(values)
        return cls(mean=mean, half_width=half)


class ActionRecord(Record):
    """The decision of a phase."""

    old_share: float  # nominal
    level1: float | None  # the share (phase 1) or its change; None if the policy gave an exact number
    level2: float | None  # None if there was nothing to split
    clamped: bool


class PhaseRecord(Record):
    """One phase. Accuracies are fractions; classes are positions in the class order."""

    phase: int
    classes_seen: int
    accuracy: float
    accuracy_cnn: float
    accuracy_nme: float | None
    accuracy_by_phase: tuple[float, ...]
    accuracy_old: float | None
    accuracy_new: float
    accuracy_per_class: dict[str, float]
    action: ActionRecord | None
    budget: int | None
    held_old: int
    held_new: int
    held_per_class: dict[str, int]
    measures: dict[str, tuple[float, ...]] = {}  # of the method's own, such as AANets' branch weights
    seconds: dict[str, float]
    codec: str | None = None  # None, and left out of the file, where samples are counted and stored as they are
    budget_bytes: int | None = None  # None where the budget is in samples
    held_bytes: int | None = None  # as stored

    @classmethod
    def of(cls, result: PhaseResult) -> Self:
        given = {name: getattr(result, name) for name in cls.model_fields if hasattr(result, name)}
        by_class = {name: {str(k): v for k, v in value.items()} for name, value in given.items() if name in _BY_CLASS}
        action = None if result.decision is None else ActionRecord.model_validate(result.decision.to_json())
        return cls(
            **{
                **given,
                **by_class,
                "measures": dict(result.measures),
                "seconds": dict(result.seconds),
                "action": action,
            }
        )


_BY_CLASS = ("accuracy_per_class", "held_per_class")
_IN_BYTES = ("codec", "budget_bytes", "held_bytes", "bytes_peak")  # left out of the file where they are None


class RunFacts(Record):
    """The facts about a run in `result.json`, without its numbers."""

    config: Json  # resolved settings, without the machine's paths
    head: str
    oracle: bool
    policy_saw_classes: bool
    policy: Json  # provenance
    memory: str = ""  # M and E in words, with the paper's budget where they differ from it
    data_fingerprint: str
    class_order: tuple[int, ...]
    class_names: tuple[str, ...]


class RunResult(RunFacts):
    """A complete run, or its phases so far."""

    format: Literal[1]
    remem: str
    status: Literal["complete", "running"]
    average_accuracy: float
    last_accuracy: float
    forgetting: float
    average_accuracy_cnn: float
    average_accuracy_nme: float | None
    phases: tuple[PhaseRecord, ...] = Field(min_length=1)
    samples_peak: int
    bytes_peak: int | None = None

    @classmethod
    def of(
        cls,
        facts: RunFacts,
        phases: Sequence[PhaseRecord],
        *,
        peak: int,
        complete: bool,
        bytes_peak: int | None = None,
    ) -> Self:
        """Computes the summary. `peak` is the most samples held at once in phases 1..N, measured at every load."""
        nme = [phase.accuracy_nme for phase in phases if phase.accuracy_nme is not None]
        return cls(
            **facts.model_dump(),
            format=1,
            remem=remem.__version__,
            status="complete" if complete else "running",
            average_accuracy=_mean([phase.accuracy for phase in phases]),
            last_accuracy=phases[-1].accuracy,
            forgetting=forgetting([list(phase.accuracy_by_phase) for phase in phases]),
            average_accuracy_cnn=_mean([phase.accuracy_cnn for phase in phases]),
            average_accuracy_nme=_mean(nme) if len(nme) == len(phases) else None,
            phases=tuple(phases),
            samples_peak=peak,
            bytes_peak=bytes_peak,
        )

    @property
    def complete(self) -> bool:
        return self.status == "complete"

    @property
    def policy_name(self) -> str:
        return str(self.config["policy"])

    @property
    def method_name(self) -> str:
        return str(self.config["method"]["name"])

    @property
    def label(self) -> str:
        """`icarl / static`, with oracles marked; `-` if no policy decides anything."""
        later = self.phases[1:]
        policy = "-" if later and all(phase.action is None for phase in later) else self.policy_name
        return f"{self.method_name} / {policy}" + (" (oracle)" if self.oracle else "")

    def __str__(self) -> str:
        """What came out, in two lines; `to_json` has everything."""
        later, data = len(self.phases) - 1, self.config.get("data", {}).get("name", "its data")
        many = "1 phase" if later == 1 else f"{later} phases"
        numbers = {"average": self.average_accuracy, "last": self.last_accuracy}
        shown = ", ".join(f"{name} {100 * share:.2f} %" for name, share in numbers.items())
        so_far = "" if self.complete else " (not complete, so far)"
        return (
            f"{self.label} on {data}: {self.phases[-1].classes_seen} classes, {many} after the first{so_far}\n"
            f"accuracy: {shown}; forgetting {100 * self.forgetting:.2f} points"
        )

    def __repr__(self) -> str:
        return f"<RunResult {' | '.join(str(self).splitlines())}>"

    def to_json(self) -> Json:
        """Returns the fields in documented order: the facts of the run, its numbers, its phases."""
        tree = self.model_dump(mode="json")
        for part in (tree, *tree["phases"]):
            for name in _IN_BYTES:
                if part.get(name, "") is None:
                    del part[name]
        first = ("format", "remem", "status")
        return {name: tree[name] for name in first} | {name: v for name, v in tree.items() if name not in first}


def _mean(values: Sequence[float]) -> float:
    """Averages over phases 0..N."""
    return sum(values) / len(values)


def save_result(path: Path, result: RunResult) -> None:
    write_json(path, result.to_json())


def load_result(folder: Path) -> RunResult:
    """Loads the result of a run folder, or of a file."""
    path = folder / "result.json" if folder.is_dir() else folder
    tree = read_json(path, "result of a run", format=FORMAT)
    try:
        return RunResult.model_validate({**tree, "config": current_names(tree.get("config", {}))})
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise DamagedFileError(f"{path}: '{where}': {first['msg']}; expected the result of a run") from error


def phases_done(out: Path) -> int:
    """Returns the number of complete phases in a run folder; 0 if it has no result."""
    return len(load_result(out).phases) if (out / "result.json").is_file() else 0


def save_predictions(path: Path, predictions: Mapping[str, IntArray], classes: int) -> None:
    """Saves labels and predictions of every phase, and the confusion matrix after the last one, as plain arrays."""
    arrays: dict[str, NDArray[Any]] = {name: predictions[name].astype(np.int32) for name in sorted(predictions)}
    last = max(int(name.rsplit("_", 1)[1]) for name in predictions)
    for head in ("cnn", "nme"):
        if f"{head}_{last}" in predictions:
            labels, predicted = predictions[f"labels_{last}"], predictions[f"{head}_{last}"]
            arrays[f"confusion_{head}"] = confusion(labels, predicted, classes)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    with zipfile.ZipFile(buffer, "a") as archive:  # the arrays have checksums of their own, but not their names
        archive.comment = _digest(arrays).encode()
    write_atomically(path, buffer.getvalue())


def load_predictions(path: Path) -> dict[str, NDArray[Any]]:
    """Loads all arrays. A damaged file raises DamagedFileError; files of earlier versions have no digest."""
    try:
        with zipfile.ZipFile(path) as archive:
            names, comment = archive.namelist(), archive.comment.decode("latin-1")
    except (OSError, zipfile.BadZipFile, ValueError, RuntimeError) as error:
        if not is_damage(error):
            raise
        raise DamagedFileError(f"{path}: not the predictions of a run ({error})") from error
    arrays = read_npz(path, [name.removesuffix(".npy") for name in names])
    if comment not in ("", _digest(arrays)):
        raise DamagedFileError(f"{path}: the content does not match its checksum; the file is damaged")
    return arrays


def _digest(arrays: Mapping[str, NDArray[Any]]) -> str:
    """SHA-256 of all arrays, with names, types and shapes."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        digest.update(f"{name}{arrays[name].dtype.str}{arrays[name].shape}".encode())
        digest.update(np.ascontiguousarray(arrays[name]).tobytes())
    return digest.hexdigest()
