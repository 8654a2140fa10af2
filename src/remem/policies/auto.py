"""`auto`: the shipped policy that was learned under the most similar conditions."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from remem.policies.policy import Policy

AUTO = "auto"
NOT_FINETUNED = ", no balanced fine-tuning"


@dataclass(frozen=True)
class Conditions:
    """What a policy is wanted for."""

    data: str
    method: str
    phases: int  # N
    preset: str = ""
    network: str = ""
    finetuned: bool = True  # a balanced fine-tuning ends every phase

    def __str__(self) -> str:
        schedule = f", preset {self.preset}" if self.preset else ""
        network = f", network {self.network}" if self.network else ""
        tuning = "" if self.finetuned else NOT_FINETUNED
        return f"this run has {self.method}{schedule}{network}{tuning}, N = {self.phases}"


@dataclass(frozen=True)
class Choice:
    """The name of a policy, and why it was chosen, for the user."""

    name: str
    reason: str


def nearest_policy(wanted: Conditions, shipped: Mapping[str, Policy]) -> Choice:
    """Chooses by balanced fine-tuning, then by the number of phases, the data set and the method; ties go to the first.

    A fine-tuning balances classes by itself; without one, old classes need more of the memory. With the number of
    phases the best share changes as well, while policies carry over between data sets.
    """
    facts = {name: policy.provenance() for name, policy in shipped.items()}
    name = min(facts, key=lambda name: _distance(wanted, facts[name]))
    return Choice(name, f"policy auto: {name}, {learned_on(facts[name], wanted)}; {wanted}")


def learned_on(facts: Mapping[str, object], wanted: Conditions) -> str | None:
    """What a policy was learned on, in words; None if it has learned nothing or does not say."""
    source, method, target = facts.get("source"), facts.get("method"), _target(facts)
    if not (isinstance(source, Mapping) and isinstance(method, Mapping)):
        return None
    same = "the same data set" if source["data"] == wanted.data else "another data set"
    phases = ", ".join(map(str, source["phases"]))
    schedule = tuning = ""
    if target is not None:
        net = str(target["net"]["name"])
        schedule = f", preset {target['preset']}" + ("" if net == "auto" else f", network {net}")
        tuning = "" if _finetuned(facts) else NOT_FINETUNED
    return f"learned on {source['data']} ({same}) for {method['name']}{schedule}{tuning}, N = {phases}"


def _target(facts: Mapping[str, object]) -> Mapping[str, Any] | None:
    """The settings of the run that a policy was learned for, if it says."""
    settings = facts.get("settings")
    target = settings.get("target") if isinstance(settings, Mapping) else None
    return target if isinstance(target, Mapping) else None


def _finetuned(facts: Mapping[str, object]) -> bool:
    target = _target(facts)
    return target is None or target["finetune"]["epochs"] > 0


def _distance(wanted: Conditions, facts: Mapping[str, object]) -> tuple[bool, float, bool, bool]:
    source, method = facts["source"], facts["method"]
    assert isinstance(source, Mapping)
    assert isinstance(method, Mapping)
    phases = min(abs(math.log(wanted.phases / number)) for number in source["phases"])
    return _finetuned(facts) != wanted.finetuned, phases, source["data"] != wanted.data, method["name"] != wanted.method
