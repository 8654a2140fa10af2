"""Trials of several runs: one for all runs whose steps are alike."""

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

from remem.runs.config import RunConfig

if TYPE_CHECKING:  # estimate.py, which makes trials, imports this module
    from remem.runs.estimate import Trial
    from remem.runs.prepared import Prepared

MOST = 6  # trials of one command: they must take seconds
NOT_STEPS = ("seed", "policy", "policy_sha256", "sample_actions", "memory", "scenario", "finetune")
NOT_TRAIN = ("epochs", "epochs_later", "lr", "lr_later", "schedule", "warmup", "milestones", "decay")  # of `train`


class Trials:
    """Tries out what is needed, up to a limit."""

    def __init__(self, try_one: "Callable[[Prepared], Trial]", most: int = MOST) -> None:
        self._try, self._most = try_one, most
        self._known: dict[str, Trial] = {}

    def find(self, config: RunConfig, make: "Callable[[], Prepared]") -> "Trial | None":
        """Returns the trial of a run, or None if it would be one too many. `make` is called for a new trial."""
        key = steps_key(config)
        if key not in self._known:
            if len(self._known) >= self._most:
                return None
            self._known[key] = self._try(make())
        return self._known[key]

    @property
    def stretch(self) -> float:
        """The most that the load of the machine has stretched a trial."""
        return max((trial.stretch for trial in self._known.values()), default=1.0)


def steps_key(config: RunConfig) -> str:
    """Returns equal strings for runs whose steps take equally long. How many steps they have does not matter."""
    tree = {name: value for name, value in config.model_dump(mode="json").items() if name not in NOT_STEPS}
    tree["train"] = {name: value for name, value in tree["train"].items() if name not in NOT_TRAIN}
    return json.dumps([tree, config.finetune.epochs > 0], sort_keys=True)
