"""Policies that a study trains before it uses them: their settings by name, and which runs share one."""

import json
from collections.abc import Mapping
from typing import Any

from remem.errors import InputError
from remem.rl.config import LearnConfig, normalized
from remem.rl.settings import LearnSettings
from remem.runs.config import RunConfig
from remem.types import Json

LEARNED: Mapping[str, Mapping[str, Any]] = {  # protocol 3; those trained on the target are oracles
    "rmm-learned": {"source": "phase0", "levels": 2},
    "rmm-one-level-learned": {"source": "phase0", "levels": 1},
    "rmm-codec-learned": {"source": "phase0", "levels": 3},  # also chooses codecs; needs a budget in bytes
    "rmm-transferred": {"levels": 2},  # from the data set of learn.source
    "rmm-upper-bound": {"source": "target", "levels": 2},
    "crossval-fixed-pseudo": {"source": "phase0", "crossval_fixed": True},
    "crossval-fixed-codec-pseudo": {"source": "phase0", "crossval_fixed": True, "levels": 3},  # shares and codecs
    "crossval-fixed": {"source": "target", "crossval_fixed": True},
}


def stand_in(policy: str) -> str:
    """Returns a registered policy of the same kind, for checks before training."""
    return "fixed-0.5" if LEARNED[policy].get("crossval_fixed") else "rmm-untrained"


def check_shared_settings(given: Mapping[str, Any], learn: LearnSettings, policies: tuple[str, ...]) -> None:
    """Checks the `learn` section, which all policies of a study share. Their names set the differences."""
    for name in ("levels", "crossval_fixed"):
        if name in given:
            raise InputError(
                f"learn.{name}: {given[name]!r} given, but in a study the policy's name says it; "
                f"expected one of {', '.join(LEARNED)} in study.policies"
            )
    named = learn.source.startswith("dataset:")
    if ("source" in given and not named) or ("rmm-transferred" in policies and not named):
        raise InputError(
            f"learn.source: '{learn.source}' given; expected dataset:NAME, where rmm-transferred is learned in a study"
        )


def learning_of(policy: str, config: RunConfig, learn: LearnSettings) -> LearnConfig | None:
    """Returns how the policy is trained for a run, or None if it already exists.

    Settings without effect are reset, so runs that can share a policy get equal answers.
    """
    if policy not in LEARNED:
        return None
    own = learn.model_copy(update=LEARNED[policy])
    update: Json = {"scenario": config.scenario.model_copy(update={"validation": 0.0})}
    if own.source.startswith("dataset:"):  # the other data set has its own M and E
        update["memory"] = config.memory.model_copy(update={"budget": None, "exemplars": None})
    return normalized(LearnConfig(target=config.model_copy(update=update), learn=own))


def identity(learning: LearnConfig) -> str:
    """Returns equal strings for equal policy trainings."""
    return json.dumps(learning.model_dump(mode="json"), sort_keys=True)
