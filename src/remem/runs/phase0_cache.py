"""Cache of trained phases 0. Phase 0 depends on no policy, budget or number of phases, so runs can share it."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree

import numpy as np

from remem.errors import DamagedFileError
from remem.runs.migrations import migrate_checkpoint
from remem.runs.prepared import Prepared
from remem.storage.atomic import folder_lock, sweep
from remem.storage.tensorfile import Snapshot, load_snapshot, save_snapshot

DEPENDS_ON = ("seed", "augment", "net", "train")  # memory and fine-tuning start in phase 1


def phase0_key(prepared: Prepared) -> str:
    """Returns equal keys for runs whose phase 0 is the same computation on the same samples."""
    scenario, config = prepared.scenario, prepared.config.with_effect()
    first, method = scenario.phases[0], prepared.method
    digest = hashlib.sha256()
    facts = {name: config[name] for name in DEPENDS_ON}
    facts["data"] = [scenario.bank.fingerprint, scenario.eval_bank.fingerprint, repr(scenario.preprocessing)]
    shared = [method.phase0, method.readout, method.head.model_dump(mode="json")]
    facts["method"] = config["method"] if method.phase0 is None else shared
    if prepared.config.memory.codec_phase0:
        facts["codec"] = prepared.ladder[0]
    facts["classes"] = list(scenario.class_order[: len(first.classes)])
    digest.update(json.dumps(facts, sort_keys=True).encode())
    for rows in (*first.train.values(), first.eval_samples.rows):
        digest.update(np.ascontiguousarray(rows, dtype="<i8").tobytes())
    return digest.hexdigest()[:32]


class Phase0Cache:
    """A folder of checkpoints after phase 0, by key."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def has(self, prepared: Prepared) -> bool:
        return self._file(prepared).exists()

    def find(self, prepared: Prepared) -> Snapshot | None:
        """Returns a checkpoint for this run to continue from, or None if it has not been trained yet."""
        if not self.has(prepared):
            return None
        try:
            found = load_snapshot(self._file(prepared), migrate_checkpoint)
        except DamagedFileError:  # it is only a cache: the run trains its own
            return None
        if found.facts.get("key", phase0_key(prepared)) != phase0_key(prepared):
            return None
        return Snapshot({**found.facts, "config": prepared.config.model_dump(mode="json")}, found.tensors)

    def put(self, prepared: Prepared, checkpoint: Snapshot, log: str) -> None:
        """Stores a run's checkpoint and log after phase 0."""
        self._folder.mkdir(parents=True, exist_ok=True)
        facts = {**checkpoint.facts, "log": log, "key": phase0_key(prepared)}
        save_snapshot(self._file(prepared), Snapshot(facts, checkpoint.tensors))

    @contextmanager
    def scratch(self, prepared: Prepared) -> Iterator[Path]:
        """Creates a folder inside the cache, for training; after a stop, the same one goes on."""
        folder = self._folder / f"training-{phase0_key(prepared)}"
        folder.mkdir(parents=True, exist_ok=True)
        with folder_lock(folder):
            sweep(folder)
            yield folder
        rmtree(folder, ignore_errors=True)

    def _file(self, prepared: Prepared) -> Path:
        return self._folder / f"phase0-{phase0_key(prepared)}.safetensors"
