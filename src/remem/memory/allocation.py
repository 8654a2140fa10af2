"""Integer arithmetic of memory allocation: feasible shares, decisions and quotas (protocol 2.2-2.6)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from remem.action import TENTHS, Action, Decision, Rung, State, nearest_value
from remem.errors import InputError
from remem.memory.budget import Budget, PhaseFacts
from remem.types import Allocation, Group


def old_memory(budget: int, tenths: int) -> int:
    """Returns |M_old| in samples for an old share in tenths."""
    return (budget * tenths + 5) // 10


def feasible_tenths(budget: int, *, old_classes: int, new_classes: int, arriving: int) -> tuple[int, ...]:
    """Returns the feasible old shares in tenths (protocol 2.2).

    A feasible share leaves at least one sample per class, and less than one grid step of new memory unused.
    """
    lowest = max((t for t in TENTHS if budget - old_memory(budget, t) >= arriving), default=TENTHS[0])
    return tuple(t for t in TENTHS if t >= lowest and old_classes <= old_memory(budget, t) <= budget - new_classes)


def make_state(budget: Budget, seen: Sequence[int], new: PhaseFacts, old_tenths: int, rung: int = 0) -> State:
    """Returns the state that a policy observes before phase i >= 1 (protocol 2.1).

    `seen` has the number of classes of each phase 0..i-1. States depend on counts only, so they need no training.
    """
    old = sum(seen)

    def stored_at(place: int) -> Rung:
        total = budget.total(old, new.samples, phase=len(seen), rung=place)
        shares = feasible_tenths(total, old_classes=old, new_classes=new.classes, arriving=new.samples)
        return Rung(total, shares)

    rungs = tuple(stored_at(place) for place in range(budget.rungs))
    total, feasible = rungs[rung]
    return State(
        phase=len(seen),
        new_classes=new.classes,
        old_classes=old,
        old_tenths=old_tenths,
        budget=total,
        exemplars=budget.exemplar_part(old),
        arriving=new.samples,
        feasible=feasible,
        splits=seen[-1] > 1,
        rung=rung,
        rungs=rungs if len(rungs) > 1 else (),
    )


def decide(state: State, action: Action) -> Decision:
    """Returns the decision for an action. An infeasible action becomes the nearest feasible one, marked `clamped`."""
    rung = nearest_value(action.rung, state.reachable_rungs)
    decision = _decide_levels(state.at(rung), action)
    return replace(decision, rung=rung, clamped=True) if rung != action.rung else replace(decision, rung=rung)


def _decide_levels(state: State, action: Action) -> Decision:
    classes = state.old_classes + state.new_classes
    if state.budget < classes:
        raise InputError(
            f"budget: {state.budget} samples are less than one for each of the {classes} classes of phases "
            f"0 to {state.phase}"
        )
    if action.level2_tenths not in TENTHS:
        raise InputError(f"action: got level 2 of {action.level2_tenths} tenths, expected 1 to 9")
    level2 = action.level2_tenths / 10 if state.splits else None
    if action.old_total is None:
        return _decide_share(state, action.old_tenths, level2)
    old_total = _within_floors(state, action.old_total)
    tenths = _nearest_tenth(old_total, state.budget)
    clamped = old_total != action.old_total
    return Decision(old_total, old_total / state.budget, tenths, None, level2, clamped)


def _decide_share(state: State, wanted: int, level2: float | None) -> Decision:
    if state.feasible:
        tenths = min(state.feasible, key=lambda t: (abs(t - wanted), t))
        old_total, clamped = old_memory(state.budget, tenths), tenths != wanted
    else:
        old_total, clamped = _within_floors(state, old_memory(state.budget, wanted)), True
        tenths = _nearest_tenth(old_total, state.budget)
    # From phase 2 on, level 1 is the change of the share, so its sum over the phases is the nominal share.
    level1 = tenths if state.phase == 1 else tenths - state.old_tenths
    return Decision(old_total, tenths / 10, tenths, level1 / 10, level2, clamped)


def _within_floors(state: State, old_total: int) -> int:
    return min(max(old_total, state.old_classes), state.budget - state.new_classes)


def _nearest_tenth(old_total: int, budget: int) -> int:
    return min(TENTHS, key=lambda t: (abs(10 * old_total - t * budget), t))


def apportion(total: int, weights: Sequence[int], lower: Sequence[int], upper: Sequence[int]) -> list[int]:
    """Apportions `total` exactly, by bounded largest remainders.

    Each quota is the floor of clip(lam * w, l, u). The rest goes to the largest remainders, ties to the lower index.
    """
    if any(w < 1 for w in weights) or not sum(lower) <= total <= sum(upper):
        raise ValueError(f"cannot apportion {total} between {sum(lower)} and {sum(upper)} with weights {weights}")
    quotas = [0] * len(weights)
    free, rest = list(range(len(weights))), total
    while True:
        scale = sum(weights[i] for i in free)  # lam = rest / scale once no bound is active
        low = {i: lower[i] for i in free if rest * weights[i] < lower[i] * scale}
        high = {i: upper[i] for i in free if rest * weights[i] > upper[i] * scale}
        missing = sum(bound * scale - rest * weights[i] for i, bound in low.items())
        excess = sum(rest * weights[i] - bound * scale for i, bound in high.items())
        # If clipping assigns too much, the true lam is smaller: indices at the lower bound stay there. And vice versa.
        settled = (low if missing >= excess else {}) | (high if excess >= missing else {})
        if not settled:
            break
        for i, bound in settled.items():
            quotas[i] = bound
            rest -= bound
        free = [i for i in free if i not in settled]
    for i in free:
        quotas[i] = rest * weights[i] // scale
    by_remainder = sorted(free, key=lambda i: -(rest * weights[i] % scale))
    for i in by_remainder[: total - sum(quotas)]:
        quotas[i] += 1
    return quotas


def allocate(
    budget: int, decision: Decision, groups: Sequence[Group], *, held: Mapping[int, int], arriving: Mapping[int, int]
) -> Allocation:
    """Computes the quotas of one phase: M_old -> phases -> halves -> classes. Unused memory goes to the other side.

    A class that is held and arrives again has two quotas. Only unseen classes are sure of a sample among the new ones.
    """
    held_total, arriving_total = sum(held.values()), sum(arriving.values())
    new_total = min(budget - min(decision.old_total, held_total), arriving_total)
    old_total = min(budget - new_total, held_total)

    old: dict[int, int] = {}
    phases = [group.classes for group in groups]
    for group, quota in zip(groups, _share_out(old_total, [len(p) for p in phases], phases, held), strict=True):
        old.update(_split_phase(quota, group, held))
    labels = sorted(arriving)
    lower, upper = [int(label not in held) for label in labels], [arriving[label] for label in labels]
    new = apportion(new_total, [1] * len(labels), lower, upper)
    quotas = dict(sorted(old.items())), dict(zip(labels, new, strict=True))
    return Allocation(budget, decision, *quotas, decision.rung)


def _split_phase(quota: int, group: Group, held: Mapping[int, int]) -> dict[int, int]:
    tenths = group.level2_tenths
    weighted = [(tenths * len(group.hard), group.hard), ((10 - tenths) * len(group.easy), group.easy)]
    # Ties go to the half with the earlier class.
    halves = sorted((tuple(sorted(classes)), weight) for weight, classes in weighted if classes)
    quotas = _share_out(quota, [weight for _, weight in halves], [classes for classes, _ in halves], held)
    result: dict[int, int] = {}
    for (classes, _), part in zip(halves, quotas, strict=True):
        even = _share_out(part, [1] * len(classes), [(label,) for label in classes], held)
        result.update(zip(classes, even, strict=True))
    return result


def _share_out(
    total: int, weights: Sequence[int], parts: Sequence[tuple[int, ...]], available: Mapping[int, int]
) -> list[int]:
    """Apportions among sets of classes: at least one sample per class, at most the available samples."""
    upper = [sum(available[label] for label in part) for part in parts]
    return apportion(total, weights, [len(part) for part in parts], upper)
