"""MLflow: its file store in `mlflow/` of the output folder, or the server of $MLFLOW_TRACKING_URI."""

import os
from collections.abc import Mapping
from pathlib import Path

from remem.tracking.ledger import Ledger
from remem.tracking.tracker import Tracker

EXPERIMENT = "remem"


class MLflow(Tracker):
    """One MLflow run per run; resumed work goes on with it."""

    def __init__(self, name: str, out: Path) -> None:
        from mlflow import MlflowClient

        self._client = MlflowClient(tracking_uri=os.environ.get("MLFLOW_TRACKING_URI") or _store(out))
        ledger = Ledger(out, "mlflow", name)
        self._run = self._reopened(ledger.read().get("id")) or self._created(name)
        ledger.write({"id": self._run})

    def write(self, key_values: Mapping[str, float], step: int) -> None:
        for key, value in key_values.items():
            self._client.log_metric(self._run, key, value, step=step)

    def close(self) -> None:
        self._client.set_terminated(self._run)

    def last_steps(self) -> Mapping[str, int]:
        keys = self._client.get_run(self._run).data.metrics
        return {key: max(m.step for m in self._client.get_metric_history(self._run, key)) for key in keys}

    def _created(self, name: str) -> str:
        known = self._client.get_experiment_by_name(EXPERIMENT)
        experiment = self._client.create_experiment(EXPERIMENT) if known is None else known.experiment_id
        return str(self._client.create_run(experiment, run_name=name).info.run_id)

    def _reopened(self, run: str | None) -> str | None:
        """The run of an earlier session; None if there was none, or if it is no longer in the store."""
        from mlflow.exceptions import MlflowException

        if run is None:
            return None
        try:
            self._client.update_run(run, status="RUNNING")
        except MlflowException:
            return None
        return run


def _store(out: Path) -> str:
    os.environ.setdefault(
        "MLFLOW_ALLOW_FILE_STORE", "true"
    )  # newer versions ask for this; plain files need no database
    folder = out / "mlflow"
    folder.mkdir(parents=True, exist_ok=True)
    return folder.absolute().as_uri()
