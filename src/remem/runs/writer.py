"""Writes the files of a run's folder: the log, checkpoints, the result, the model and the predictions."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from remem.data.scenario import Scenario
from remem.episode import Episode
from remem.evaluation.metrics import FloatArray
from remem.methods.events import EpochEnded
from remem.policies.policy import Policy
from remem.runs.events import PhaseEvaluated
from remem.runs.model import SCALE, save_model
from remem.runs.phase0_cache import Phase0Cache
from remem.runs.prepared import Prepared
from remem.runs.results import PhaseRecord, RunFacts, RunResult, save_predictions, save_result
from remem.storage.event_log import LOG, EventLog
from remem.storage.generations import previous, save_generation
from remem.storage.tensorfile import Snapshot
from remem.types import IntArray, Predictions

RESULT, CHECKPOINT = "result.json", "checkpoint.safetensors"
HISTORY = "history/"  # prefix of earlier phases' predictions in a checkpoint


class RunWriter:
    """Writes all files of a run folder except its settings."""

    def __init__(
        self, prepared: Prepared, out: Path, checkpoint: Snapshot | None, phase0: Phase0Cache | None, log_lines: int
    ) -> None:
        self._out, self._phase0, self._prepared = out, phase0, prepared
        tensors: Mapping[str, Tensor] = {} if checkpoint is None else checkpoint.tensors
        self._history = {name: value for name, value in tensors.items() if name.startswith(HISTORY)}
        self.log = EventLog(self._out / LOG, (EpochEnded, PhaseEvaluated))
        if checkpoint is not None and checkpoint.facts["log"] is not None:  # copies the log of a shared phase 0
            self.log.write_text(checkpoint.facts["log"])
        done = 0 if checkpoint is None else len(checkpoint.facts["entries"])
        # Lines of the phase that goes on are kept as far as its training was saved.
        self.log.trim(lambda entry: isinstance(entry.get("phase"), int) and entry["phase"] < done, first=log_lines)

    def save_phase(self, episode: Episode, records: list[PhaseRecord], predictions: Predictions) -> None:
        """Saves a checkpoint and the result so far at the end of a phase."""
        phase = len(records) - 1
        readouts = {"labels": predictions.labels, "cnn": predictions.cnn, "nme": predictions.nme}
        for name, value in readouts.items():
            if value is not None:
                self._history[f"{HISTORY}{name}_{phase}"] = torch.from_numpy(value.astype(np.int32))
        snapshot = episode.snapshot()
        facts = {
            "episode": snapshot.facts,
            "config": self._prepared.config.model_dump(mode="json"),
            "data": self._prepared.scenario.fingerprint,
            "entries": [record.model_dump(mode="json") for record in records],
        }
        checkpoint = Snapshot(facts, snapshot.tensors | self._history)
        save_generation(self._out / CHECKPOINT, checkpoint)
        if phase == 0 and self._phase0 is not None:
            self._phase0.put(self._prepared, checkpoint, (self._out / LOG).read_text(encoding="utf-8"))
        self._save_result(episode, records, complete=False)

    def finish(
        self, episode: Episode, records: list[PhaseRecord], means: FloatArray | None, scale: float | None
    ) -> None:
        """Saves the model, the predictions and the complete result at the end of the run."""
        scenario = self._prepared.scenario
        facts = {**public_facts(self._prepared, episode).model_dump(mode="json"), "shape": list(scenario.bank.shape)}
        if scale is not None:
            facts[SCALE] = scale
        save_model(self._out / "model.safetensors", facts, episode.learner.state(), means)
        predictions: dict[str, IntArray] = {
            name.removeprefix(HISTORY): value.numpy().astype(np.int64) for name, value in self._history.items()
        }
        save_predictions(self._out / "predictions.npz", predictions, len(scenario.class_order))
        self._save_result(episode, records, complete=True)
        previous(self._out / CHECKPOINT).unlink(missing_ok=True)

    def _save_result(self, episode: Episode, records: list[PhaseRecord], *, complete: bool) -> None:
        result = RunResult.of(
            public_facts(self._prepared, episode),
            records,
            peak=episode.samples_peak,
            bytes_peak=episode.bytes_peak,
            complete=complete,
        )
        save_result(self._out / RESULT, result)


def public_facts(prepared: Prepared, episode: Episode | None = None) -> RunFacts:
    """Returns the facts about a run for `result.json`. What the episode has kept decides what is an oracle."""
    replay = prepared.method.replay if episode is None else episode.learner.replay
    scenario, method, policy = prepared.scenario, prepared.method, prepared.policy
    config = prepared.config.public()
    return RunFacts(
        config=config,
        head=method.readout,
        oracle=policy.oracle or replay == "all",
        policy_saw_classes=saw_classes(policy, scenario, config["data"]["name"]),
        policy=policy.provenance(),
        memory=prepared.memory_in_words,
        data_fingerprint=scenario.fingerprint,
        class_order=scenario.class_order,
        class_names=scenario.class_names,
    )


def saw_classes(policy: Policy, scenario: Scenario, data_name: str) -> bool:
    """Returns whether the policy was trained on classes that arrive after phase 0 (protocol 3), at any image size."""
    source = policy.provenance().get("source")
    if not isinstance(source, Mapping) or source.get("data") != data_name:
        return False
    later = scenario.class_names[len(scenario.phases[0].classes) :]
    return not set(later).isdisjoint(source.get("classes", ()))
