"""Policies that a study learns before it uses them, by name: what each is learned from, and which runs share one."""

import json
from collections.abc import Mapping
from typing import Any

from remem.errors import InputError
from remem.rl.config import LearnConfig, LearnSettings, normalized
from remem.runs.config import RunConfig
from remem.types import Json

LEARNED: Mapping[str, Mapping[str, Any]] = {  # protocol 3; those on the target are oracles
    "rmm-learned": {"source": "phase0", "levels": 2},
    "rmm-one-level-learned": {"source": "phase0", "levels": 1},
    "rmm-transferred": {"levels": 2},  # from the data set of learn.source
    "rmm-upper-bound": {"source": "target", "levels": 2},
    "crossval-fixed-pseudo": {"source": "phase0", "crossval_fixed": True},
    "crossval-fixed": {"source": "target", "crossval_fixed": True},
}


def stand_in(policy: str) -> str:
    """A registered policy of the same kind, for checks before anything is learned."""
    return "fixed-0.5" if LEARNED[policy].get("crossval_fixed") else "rmm-untrained"


def check_shared_settings(given: Mapping[str, Any], learn: LearnSettings, policies: tuple[str, ...]) -> None:
    """A study has one section `learn` for all of its policies; what tells them apart is in their names."""
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
    """How the policy is learned for a run, without any setting that changes nothing in it; None: it is there already.

    Equal answers are one learning, so runs that differ in nothing that matters share it.
    """
    if policy not in LEARNED:
        return None
    own = learn.model_copy(update=LEARNED[policy])
    update: Json = {"scenario": config.scenario.model_copy(update={"validation": 0.0})}
    if own.source.startswith("dataset:"):  # M and E are the other data set's own
        update["memory"] = config.memory.model_copy(update={"budget": None, "exemplars": None})
    return normalized(LearnConfig(target=config.model_copy(update=update), learn=own))


def identity(learning: LearnConfig) -> str:
    """Equal for equal learnings."""
    return json.dumps(learning.model_dump(mode="json"), sort_keys=True)
