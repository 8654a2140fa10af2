"""Weights & Biases: files in `wandb/` of the output folder; they go to the service if $WANDB_MODE is `online`."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Literal

from remem.tracking.tracker import Tracker

PROJECT = "remem"


class WeightsAndBiases(Tracker):
    """One W&B run per run; `wandb sync` sends its files later."""

    _open: ClassVar[int] = 0  # in this process

    def __init__(self, name: str, out: Path) -> None:
        import wandb

        out.mkdir(parents=True, exist_ok=True)
        mode: Literal["online", "offline"] = "online" if os.environ.get("WANDB_MODE") == "online" else "offline"
        quiet = wandb.Settings(silent=True, console="off", x_disable_stats=True)
        self._run = wandb.init(project=PROJECT, name=name, dir=str(out), mode=mode, reinit="create_new", settings=quiet)
        WeightsAndBiases._open += 1

    def write(self, key_values: Mapping[str, float], step: int) -> None:
        # Steps of phases and of epochs differ; W&B takes only growing ones, so the step is a number among others.
        self._run.log({**key_values, "step": step})

    def close(self) -> None:
        import wandb

        self._run.finish()
        WeightsAndBiases._open -= 1
        if not WeightsAndBiases._open:
            wandb.teardown()  # `finish` returns before the service has written the file; this waits for it
