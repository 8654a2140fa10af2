"""A stream that goes on where a finished run has ended, with its network and its exemplars."""

from pathlib import Path

import numpy as np
import torch

from remem.codecs.table import RAW
from remem.data.settings import DataSettings
from remem.errors import InputError
from remem.estimator.arrivals import sample_ids
from remem.estimator.build import NAME
from remem.estimator.episode import Record, key_of
from remem.estimator.stream import Stream
from remem.events import ignore
from remem.runs.build import open_episode, prepare
from remem.runs.config import validate
from remem.runs.devices import open_fabric
from remem.runs.migrations import migrate_checkpoint
from remem.runs.results import load_result
from remem.runs.run import RUN
from remem.runs.writer import CHECKPOINT, HISTORY
from remem.storage.generations import load_generation
from remem.storage.tensorfile import Snapshot
from remem.storage.workdir import WorkDir


def stream_from_run(folder: str | Path) -> Stream:
    """The stream that a finished run's folder begins. Needs the run's data once, to take its exemplars over.

    Labels are the names of the run's classes, and the budget is the run's.
    """
    place = Path(folder)
    if not load_result(place).complete:
        raise InputError(f"{place}: this run is not finished; go on with `remem resume {place}`")
    config = validate(WorkDir(place, RUN).read().settings)
    checkpoint = load_generation(place / CHECKPOINT, lambda _: None, migrate_checkpoint)
    if checkpoint is None:
        raise InputError(f"{place}: no {CHECKPOINT}; expected the folder of a finished run")
    prepared = prepare(config)
    episode = open_episode(prepared, open_fabric(prepared.config.train), ignore)
    tensors = {name: value for name, value in checkpoint.tensors.items() if not name.startswith(HISTORY)}
    snapshot = Snapshot(checkpoint.facts["episode"], tensors)
    episode.restore(snapshot)
    stream = Stream(prepared.config.model_copy(update={"data": DataSettings(name=NAME)}))
    stream.classes = prepared.scenario.class_names
    stream.updates = episode.next_phase
    stream.open(prepared.scenario.bank.shape)
    rows = tensors["memory/rows"].numpy()
    values = episode.bank.read(rows)
    update_of = {label: update for update, phase in enumerate(snapshot.facts["phases"], start=1) for label in phase}
    labels = np.repeat(tensors["memory/labels"].numpy(), tensors["memory/counts"].numpy()).tolist()
    records = {
        row: Record(key_of(identity), update_of[label])
        for row, (identity, label) in enumerate(zip(sample_ids(values), labels, strict=True))
    }
    stream.restore(_moved(snapshot, stream, values), records)
    stream.set_budget(stream.budget_setting)  # records are billed as well, so that a few samples may have to go
    return stream


def _moved(snapshot: Snapshot, stream: Stream, values: np.ndarray) -> Snapshot:
    """The snapshot with samples that belong to the stream, numbered in their stored order."""
    numbers, nothing = torch.arange(len(values)), torch.empty(0, dtype=torch.int64)
    codec = snapshot.facts.get("codec", RAW)
    facts = snapshot.facts | {
        "codec": codec,
        "rung": snapshot.facts.get("rung", 0),
        "next_row": len(values),
        "evaluated": [0] * len(snapshot.facts["phases"]),
        "origin": stream.episode.snapshot_origin,
    }
    dropped = ("evaluated/", "owned/")
    tensors = {name: value for name, value in snapshot.tensors.items() if not name.startswith(dropped)}
    tensors |= {"memory/rows": numbers, "memory/freed": nothing, "evaluated/rows": nothing, "evaluated/labels": nothing}
    tensors["memory/bound"] = torch.tensor([-1, 0])
    tensors.pop("memory/byte_bound", None)
    if codec == RAW:
        tensors |= {"owned/rows": numbers, "owned/values": torch.from_numpy(np.ascontiguousarray(values))}
    return Snapshot(facts, tensors)
