"""MLflow: its file store in `mlflow/` of the output folder, or the server of $MLFLOW_TRACKING_URI."""

import os
from collections.abc import Mapping
from pathlib import Path

from remem.tracking.tracker import Tracker

EXPERIMENT = "remem"


class MLflow(Tracker):
    """One MLflow run per run."""

    def __init__(self, name: str, out: Path) -> None:
        from mlflow import MlflowClient

        self._client = MlflowClient(tracking_uri=os.environ.get("MLFLOW_TRACKING_URI") or _store(out))
        known = self._client.get_experiment_by_name(EXPERIMENT)
        experiment = self._client.create_experiment(EXPERIMENT) if known is None else known.experiment_id
        self._run = self._client.create_run(experiment, run_name=name).info.run_id

    def write(self, key_values: Mapping[str, float], step: int) -> None:
        for key, value in key_values.items():
            self._client.log_metric(self._run, key, value, step=step)

    def close(self) -> None:
        self._client.set_terminated(self._run)


def _store(out: Path) -> str:
    os.environ.setdefault(
        "MLFLOW_ALLOW_FILE_STORE", "true"
    )  # newer versions ask for this; plain files need no database
    folder = out / "mlflow"
    folder.mkdir(parents=True, exist_ok=True)
    return folder.absolute().as_uri()
