"""`auto`: the shipped policy that was learned under the most similar conditions."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from remem.policies.policy import Policy

AUTO = "auto"


@dataclass(frozen=True)
class Conditions:
    """What a policy is wanted for."""

    data: str
    method: str
    phases: int  # N
    preset: str = ""
    network: str = ""

    def __str__(self) -> str:
        schedule = f", preset {self.preset}" if self.preset else ""
        network = f", network {self.network}" if self.network else ""
        return f"this run has {self.method}{schedule}{network}, N = {self.phases}"


@dataclass(frozen=True)
class Choice:
    """The name of a policy, and why it was chosen, for the user."""

    name: str
    reason: str


def nearest_policy(wanted: Conditions, shipped: Mapping[str, Policy]) -> Choice:
    """Chooses by the number of phases, then by the data set, then by the method; ties go to the first.

    The number of phases comes first: with it the best share changes, while policies carry over between data sets.
    """
    facts = {name: policy.provenance() for name, policy in shipped.items()}
    name = min(facts, key=lambda name: _distance(wanted, facts[name]))
    return Choice(name, f"policy auto: {name}, {learned_on(facts[name], wanted)}; {wanted}")


def learned_on(facts: Mapping[str, object], wanted: Conditions) -> str | None:
    """What a policy was learned on, in words; None if it has learned nothing or does not say."""
    source, method, settings = (facts.get(name) for name in ("source", "method", "settings"))
    if not (isinstance(source, Mapping) and isinstance(method, Mapping)):
        return None
    same = "the same data set" if source["data"] == wanted.data else "another data set"
    phases = ", ".join(map(str, source["phases"]))
    target = settings.get("target") if isinstance(settings, Mapping) else None
    schedule = ""
    if isinstance(target, Mapping):
        net = str(target["net"]["name"])
        schedule = f", preset {target['preset']}" + ("" if net == "auto" else f", network {net}")
    return f"learned on {source['data']} ({same}) for {method['name']}{schedule}, N = {phases}"


def _distance(wanted: Conditions, facts: Mapping[str, object]) -> tuple[float, bool, bool]:
    source, method = facts["source"], facts["method"]
    assert isinstance(source, Mapping)
    assert isinstance(method, Mapping)
    phases = min(abs(math.log(wanted.phases / number)) for number in source["phases"])
    return phases, source["data"] != wanted.data, method["name"] != wanted.method
