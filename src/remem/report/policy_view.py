"""What a policy would do, in numbers: action probabilities over the state space, and paths through known scenarios."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from remem.action import CHANGES, Decision
from remem.codecs.table import CODECS
from remem.memory.allocator import follow
from remem.memory.budget import Budget, PhaseFacts
from remem.policies.learned import Learned
from remem.policies.policy import ChoosesCodec, Policy
from remem.policies.rmm import SHARES, SPLITS, Choice, TwoLevelPolicy
from remem.types import Json

FloatArray = NDArray[np.float64]

RATIOS = (0.02, 0.05, 0.1, 0.2, 0.5)  # new / old classes, from the end of N = 25 to phases half as large as all before
CUSTOMARY = {5: 7000, 10: 4500, 25: 3000}  # N -> M of the paper's CIFAR-100
BASE, LATER, PER_CLASS, EXEMPLARS = 50, 50, 500, 2000  # its classes in phase 0 and after it, samples of each, E
SHAPE = (16, 16, 3)  # of its images, for policies that choose codecs
WEBP_SAVES = 7  # raw bytes for each byte of a code of variable size, about
SPLIT_RATIO = 0.1  # new / old classes at which level 2 is shown


def network_of(policy: Policy) -> TwoLevelPolicy | None:
    """The networks of a policy with probabilities; None for other policies."""
    return policy.core if isinstance(policy, Learned) and isinstance(policy.core, TwoLevelPolicy) else None


def path(policy: Policy, phases: int, budget: int) -> list[Decision]:
    """Its decisions in phases 1..N of CIFAR-100 as in the paper; nothing is trained.

    A policy that chooses codecs has the bytes of that many raw samples at 16 px.
    """
    new = LATER // phases
    sizes = [PhaseFacts(BASE, BASE * PER_CLASS), *[PhaseFacts(new, new * PER_CLASS)] * phases]
    memory, rungs = Budget("fixed", budget, EXEMPLARS), codecs_of(policy)
    if len(rungs) > 1:
        raw = int(np.prod(SHAPE))
        stored = tuple((CODECS[codec].size(SHAPE) or raw // WEBP_SAVES,) for codec in rungs)
        memory = Budget("bytes", budget * raw, EXEMPLARS, stored)
    return [step.decision for step in follow(memory, sizes, policy.act)]


def codecs_of(policy: Policy) -> tuple[str, ...]:
    """The ladder of a policy that chooses codecs, or its only codec; else nothing."""
    return policy.codecs if isinstance(policy, ChoosesCodec) else ()


def first_shares(network: TwoLevelPolicy, ratios: Sequence[float] = RATIOS) -> FloatArray:
    """Level 1 in phase 1 where every share is feasible: (ratio, share)."""
    return network.chances([_first(ratio) for ratio in ratios])[0]


def changes(network: TwoLevelPolicy, ratios: Sequence[float] = RATIOS, shares: Sequence[int] = SHARES) -> FloatArray:
    """Level 1 later, where only shares below 0.1 and above 0.9 are infeasible: (ratio, old share, change)."""
    chances = network.chances([_later(ratio, share) for ratio in ratios for share in shares])[0]
    return chances[:, : len(CHANGES)].reshape(len(ratios), len(shares), len(CHANGES))


def first_splits(network: TwoLevelPolicy, ratio: float = SPLIT_RATIO) -> FloatArray:
    """Level 2 in phase 1: (share that level 1 chose, split)."""
    return network.chances([_first(ratio, place) for place in range(len(SHARES))])[1]


def later_splits(network: TwoLevelPolicy, ratio: float = SPLIT_RATIO) -> FloatArray:
    """Level 2 later: (change that level 1 chose, old share before it, split); NaN where that change is impossible."""
    chances = np.full((len(CHANGES), len(SHARES), len(SPLITS)), np.nan)
    for place, change in enumerate(CHANGES):
        fits = [share + change in SHARES for share in SHARES]
        chances[place, fits] = network.chances(
            [_later(ratio, share, place) for share, fit in zip(SHARES, fits, strict=True) if fit]
        )[1]
    return chances


def as_tree(policy: Policy) -> Json:
    """Everything as JSON, for scripts."""
    tree: Json = {"provenance": policy.provenance(), "oracle": policy.oracle}
    tree["paths"] = [_path_entry(policy, phases, budget) for phases, budget in CUSTOMARY.items()]
    network = network_of(policy)
    if network is None:
        return tree
    shares, steps = [share / 10 for share in SHARES], [change / 10 for change in CHANGES]
    tree["level1_first"] = {"ratios": list(RATIOS), "shares": shares, "probabilities": first_shares(network).tolist()}
    tree["level1_change"] = {
        "ratios": list(RATIOS),
        "old_shares": shares,
        "changes": steps,
        "probabilities": changes(network).tolist(),
    }
    if network.settings.levels == 2:
        splits = [split / 10 for split in SPLITS]
        tree["level2_first"] = {
            "ratio": SPLIT_RATIO,
            "shares": shares,
            "splits": splits,
            "probabilities": first_splits(network).tolist(),
        }
        tree["level2_later"] = {
            "ratio": SPLIT_RATIO,
            "changes": steps,
            "old_shares": shares,
            "splits": splits,
            "probabilities": [
                [None if np.isnan(cell[0]) else cell.tolist() for cell in row] for row in later_splits(network)
            ],
        }
    return tree


def _path_entry(policy: Policy, phases: int, budget: int) -> Json:
    rungs = codecs_of(policy)
    steps = [
        {**d.to_json(), "old_total": d.old_total, **({"codec": rungs[d.rung]} if len(rungs) > 1 else {})}
        for d in path(policy, phases, budget)
    ]
    return {"phases": phases, "budget": budget, "steps": steps}


def _first(ratio: float, place: int | None = None) -> Choice:
    return Choice((ratio, 0.0), True, (True,) * len(SHARES), place, None)


def _later(ratio: float, share: int, place: int | None = None) -> Choice:
    feasible = tuple(share + change in SHARES for change in CHANGES)
    return Choice((ratio, share / 10), False, feasible, place, None)
