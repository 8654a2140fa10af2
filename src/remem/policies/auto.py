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
    source, method = facts[name]["source"], facts[name]["method"]
    assert isinstance(source, Mapping)
    assert isinstance(method, Mapping)
    phases = ", ".join(map(str, source["phases"]))
    same = "the same data set" if source["data"] == wanted.data else "another data set"
    learned = f"learned on {source['data']} ({same}) for {method['name']}, N = {phases}"
    return Choice(name, f"policy auto: {name}, {learned}; this run has {wanted.method}, N = {wanted.phases}")


def _distance(wanted: Conditions, facts: Mapping[str, object]) -> tuple[float, bool, bool]:
    source, method = facts["source"], facts["method"]
    assert isinstance(source, Mapping)
    assert isinstance(method, Mapping)
    phases = min(abs(math.log(wanted.phases / number)) for number in source["phases"])
    return phases, source["data"] != wanted.data, method["name"] != wanted.method
