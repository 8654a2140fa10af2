"""Weights & Biases: files in `wandb/` of the output folder; they go to the service if $WANDB_MODE is `online`."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Literal

from remem.tracking.ledger import Ledger
from remem.tracking.tracker import Tracker

PROJECT = "remem"


class WeightsAndBiases(Tracker):
    """One W&B run per run; `wandb sync` sends its files later. Resumed work has files of its own, of the same run."""

    _open: ClassVar[int] = 0  # in this process

    def __init__(self, name: str, out: Path) -> None:
        import wandb

        out.mkdir(parents=True, exist_ok=True)
        self._ledger = Ledger(out, "wandb", name)
        known = self._ledger.read()
        self._steps: dict[str, int] = dict(known.get("steps", {}))  # files cannot be read while they are written
        mode: Literal["online", "offline"] = "online" if os.environ.get("WANDB_MODE") == "online" else "offline"
        quiet = wandb.Settings(silent=True, console="off", x_disable_stats=True)
        self._run = wandb.init(
            project=PROJECT,
            name=name,
            dir=str(out),
            mode=mode,
            id=known.get("id"),
            resume="allow" if mode == "online" else None,
            reinit="create_new",
            settings=quiet,
        )
        self._keep_steps()
        WeightsAndBiases._open += 1

    def write(self, key_values: Mapping[str, float], step: int) -> None:
        # Steps of phases and of epochs differ; W&B takes only growing ones, so the step is a number among others.
        self._run.log({**key_values, "step": step})
        self._steps |= dict.fromkeys(key_values, step)
        self._keep_steps()

    def close(self) -> None:
        import wandb

        self._run.finish()
        WeightsAndBiases._open -= 1
        if not WeightsAndBiases._open:
            wandb.teardown()  # `finish` returns before the service has written the file; this waits for it

    def last_steps(self) -> Mapping[str, int]:
        return dict(self._steps)

    def _keep_steps(self) -> None:
        self._ledger.write({"id": self._run.id, "steps": self._steps})
