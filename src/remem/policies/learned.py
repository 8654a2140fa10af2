"""A learned policy with its provenance. It takes the most probable action, or samples on request."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from remem.action import Action, State
from remem.policies.fixed import Fixed
from remem.policies.path import FixedPath
from remem.policies.policy import does_not_sample
from remem.policies.rmm import PolicySettings, TwoLevelPolicy
from remem.policies.rmm_codec import ThreeLevelPolicy
from remem.seeding import Streams

Core = TwoLevelPolicy | ThreeLevelPolicy | Fixed | FixedPath


@dataclass(frozen=True)
class Learned:
    """The network, fixed share or path that acts, and the facts of its `policy.json`; loading is in files.py."""

    core: Core
    facts: Mapping[str, Any]
    seed: int | None = None  # of the run that it samples for; None: the most probable action

    @property
    def name(self) -> str:
        return str(self.facts["name"])

    @property
    def oracle(self) -> bool:
        return bool(self.facts["oracle"])

    @property
    def digest(self) -> str | None:
        """SHA-256 of all facts, which include that of the weights; None for a policy that comes from no file."""
        if "format" not in self.facts:
            return None
        return hashlib.sha256(json.dumps(dict(self.facts), sort_keys=True).encode()).hexdigest()

    @property
    def codecs(self) -> tuple[str, ...]:
        """The ladder that its actions refer to, or the codec that was chosen with its share."""
        return tuple(self.facts.get("codecs", [self.facts["codec"]] if "codec" in self.facts else []))

    def act(self, state: State) -> Action:
        if not isinstance(self.core, TwoLevelPolicy | ThreeLevelPolicy):
            return self.core.act(state)
        rng = None if self.seed is None else Streams(self.seed, "policy").numpy(state.phase, "act")
        return self.core.choose(state, rng)[0]

    def sampling(self, seed: int) -> "Learned":
        """The same policy with sampled actions; the samples of a phase depend on the seed alone."""
        if not isinstance(self.core, TwoLevelPolicy | ThreeLevelPolicy):
            raise does_not_sample(self.name)
        return replace(self, seed=seed)

    def provenance(self) -> dict[str, object]:
        return dict(self.facts) if self.seed is None else {**self.facts, "sampled": True}


def untrained(name: str, *, levels: int = 2) -> Learned:
    """A policy that has not been trained: all feasible actions are equally probable."""
    network = TwoLevelPolicy(PolicySettings(levels=levels))
    facts = {"name": name, "kind": "two-level", "levels": levels, "hidden": network.settings.hidden}
    return Learned(network, {**facts, "oracle": False, "source": None})
