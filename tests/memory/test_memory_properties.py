"""Random scenarios and random actions through allocator and store, in the order in which an episode calls them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import pytest

from remem.action import Action, Decision, State
from remem.errors import BudgetError, NotHeldError
from remem.memory.allocation import allocate, decide, feasible_tenths
from remem.memory.allocator import Allocator, fit_bytes
from remem.memory.budget import Budget, BudgetSpec, PhaseFacts, resolve
from remem.memory.store import Memory
from remem.types import Allocation, Group, IntArray

BLOCKS, PER_BLOCK = 12, 1000


@dataclass
class World:
    """One random scenario, and what an independent observer remembers of it."""

    rng: np.random.Generator
    data: list[dict[int, IntArray]]  # phase -> class -> rows
    budget: Budget
    allocator: Allocator
    memory: Memory = field(default_factory=Memory)
    groups: list[Group] = field(default_factory=list)
    freed: set[int] = field(default_factory=set)
    ranking: dict[int, list[int]] = field(default_factory=dict)
    nominal: int = 0
    level1_total: float | None = 0.0


def random_world(seed: int) -> World:
    """Uneven classes, phases of one class, budgets from one sample per class to more than all data."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 5, int(rng.integers(2, 6))).tolist()
    if rng.random() < 0.2:
        counts = [int(rng.integers(8, 20))] + [1] * len(counts[1:])  # hardly room for a tenth of new memory
    most = int(rng.choice([1, 3, 12, 40]))
    sizes = rng.integers(1, most + 1, sum(counts)).tolist()
    numbers = rng.permutation(sum(sizes)).astype(np.int64)
    rows = dict(enumerate(np.split(numbers, np.cumsum(sizes)[:-1])))
    labels = iter(rows)
    data = [{label: rows[label] for label in (next(labels) for _ in range(count))} for count in counts]
    facts = [PhaseFacts(len(phase), sum(map(len, phase.values()))) for phase in data]
    kind = int(rng.integers(5))
    spec = {
        0: None,
        1: BudgetSpec("fixed", sum(counts)),
        2: BudgetSpec("fixed", sum(counts) + int(rng.integers(0, 2 * sum(counts)))),
        3: BudgetSpec("fixed", int(rng.integers(sum(counts), sum(counts) + sum(sizes) + 9))),
        4: BudgetSpec("growing", int(rng.integers(1, 6))),
    }[kind]
    exemplars = None if kind == 4 or rng.random() < 0.5 else int(rng.integers(1, 3 * sum(counts)))
    if spec is None and exemplars is not None:
        exemplars = max(exemplars, sum(counts))  # so that the default budget has room for every class
    budget = resolve(spec, exemplars, facts, row_bytes=1)
    return World(rng, data, budget, Allocator(budget))


def observe(world: World, phase: int) -> State:
    """What the allocator must report, from the scenario and the store."""
    arriving = sum(map(len, world.data[phase].values()))
    old, new = len(world.memory.counts()), len(world.data[phase])
    total = world.budget.total(old, arriving)
    feasible = feasible_tenths(total, old_classes=old, new_classes=new, arriving=arriving)
    splits = len(world.data[phase - 1]) > 1
    return State(phase, new, old, world.nominal, total, world.budget.exemplar_part(old), arriving, feasible, splits)


def random_action(rng: np.random.Generator, state: State) -> Action:
    level2 = int(rng.integers(1, 10))
    if rng.random() < 0.3:
        return Action(old_total=int(rng.integers(0, state.budget + 3)), level2_tenths=level2)
    if state.reachable and rng.random() < 0.5:
        return Action(old_tenths=int(rng.choice(state.reachable)), level2_tenths=level2)
    return Action(old_tenths=int(rng.integers(0, 11)), level2_tenths=level2)


def random_group(rng: np.random.Generator, labels: Mapping[int, IntArray], level2: int) -> Group:
    shuffled = rng.permutation(list(labels)).tolist()
    half = (len(shuffled) + 1) // 2
    return Group(tuple(shuffled[:half]), tuple(shuffled[half:]), level2)


def check_decision(world: World, state: State, action: Action, decision: Decision) -> None:
    assert state.old_classes <= decision.old_total <= state.budget - state.new_classes
    assert 1 <= decision.old_tenths <= 9
    assert (decision.level2 is None) == (not state.splits)
    if action.old_total is None and state.feasible:
        assert decision.old_tenths in state.feasible
        assert decision.clamped == (action.old_tenths not in state.feasible)
        assert decision.old_total == (state.budget * decision.old_tenths + 5) // 10
    if decision.level1 is None:
        world.level1_total = None  # after an exact number level 1 no longer tells the whole share
    elif world.level1_total is not None:
        world.level1_total += decision.level1
        assert world.level1_total == pytest.approx(decision.old_share)


def check_allocation(state: State, allocation: Allocation, held: dict[int, int], arriving: dict[int, int]) -> None:
    old_sum, new_sum = sum(allocation.old.values()), sum(allocation.new.values())
    assert allocation.old.keys() == held.keys()
    assert allocation.new.keys() == arriving.keys()
    assert old_sum + new_sum == min(state.budget, sum(held.values()) + sum(arriving.values()))
    assert all(1 <= quota <= held[label] for label, quota in allocation.old.items())
    assert all(1 <= quota <= arriving[label] for label, quota in allocation.new.items())
    # A share moves to the other side only if its own side cannot use it.
    assert allocation.decision is not None
    wanted = allocation.decision.old_total
    assert old_sum <= wanted or new_sum == sum(arriving.values())
    assert old_sum >= wanted or old_sum == sum(held.values())
    # Within the new data nobody gets more than another that could still use more.
    for label, quota in allocation.new.items():
        assert quota == arriving[label] or quota >= max(allocation.new.values()) - 1


def check_even_halves(allocation: Allocation, group: Group, held: dict[int, int]) -> None:
    for half in (group.hard, group.easy):
        most = max((allocation.old[label] for label in half), default=0)
        assert all(allocation.old[label] in (held[label], most, most - 1) for label in half)


def check_memory(world: World, bound: int) -> None:
    """Everything that may never happen, from the rows themselves and not from the store's own counters."""
    samples = world.memory.samples()
    rows = samples.rows.tolist()
    assert len(rows) == len(set(rows)) == world.memory.total <= bound
    assert not world.freed.intersection(rows)


def run_phase(world: World, phase: int) -> None:
    """Protocol 2 in its order: observe, split, decide, allocate, rank, cut, then the new bound, then load."""
    memory, allocator, rng = world.memory, world.allocator, world.rng
    held, arriving = memory.counts(), {label: len(rows) for label, rows in world.data[phase].items()}
    state = allocator.observe(PhaseFacts(len(arriving), sum(arriving.values())))
    assert state == observe(world, phase)
    action = random_action(rng, state)
    group = random_group(rng, world.data[phase - 1], action.level2_tenths)
    world.groups.append(group)
    allocator.split(group.hard, group.easy, action)
    decision = allocator.decide(state, action)
    assert decision == decide(state, action)
    check_decision(world, state, action, decision)
    world.nominal = decision.old_tenths
    allocation = allocator.allocate(state, decision, held=held, arriving=arriving)
    assert allocation == allocate(state.budget, decision, world.groups, held=held, arriving=arriving)
    check_allocation(state, allocation, held, arriving)

    for label in world.data[phase - 1]:
        memory.rank(label, rng.permutation(held[label]))
        world.ranking[label] = memory.rows(label).tolist()
    before = set(memory.samples().rows.tolist())
    freed = set(memory.cut(allocation.old).tolist())
    assert freed == before - set(memory.samples().rows.tolist())
    world.freed |= freed
    for group in world.groups:
        check_even_halves(allocation, group, held)
    memory.open(state.budget)
    check_memory(world, state.budget)
    for label, quota in allocation.new.items():
        memory.load(label, rng.permutation(world.data[phase][label])[:quota])
        check_memory(world, state.budget)

    assert memory.counts() == dict(allocation.old) | dict(allocation.new)  # so no seen class vanishes
    for label, quota in allocation.old.items():
        assert memory.rows(label).tolist() == world.ranking[label][:quota]
    allocator.add_phase(len(arriving))


def resume(world: World, phase: int) -> None:
    """Store and allocator as a snapshot would bring them back after a phase."""
    world.memory = Memory.from_state(world.memory.state())
    classes = [len(data) for data in world.data[: phase + 1]]
    world.allocator = Allocator(world.budget, classes, world.allocator.groups, world.allocator.old_tenths)


def play(seed: int) -> int:
    """Plays a scenario; returns its phases after phase 0."""
    world = random_world(seed)
    for label, rows in world.data[0].items():
        world.memory.load(label, rows)
    world.allocator.add_phase(len(world.data[0]))
    bounds = []
    for phase in range(1, len(world.data)):
        run_phase(world, phase)
        bounds.append(world.memory.bound or 0)
        if world.rng.random() < 0.2:
            resume(world, phase)
    assert 0 < world.memory.peak <= max(bounds)
    if world.freed:
        gone = np.array([min(world.freed)], np.int64)
        with pytest.raises(NotHeldError, match="was freed and is gone"):
            Memory.from_state(world.memory.state() | {"bound": np.array([-1, 0])}).load(999, gone)
    return len(bounds)


@pytest.mark.parametrize("block", range(BLOCKS))
def test_random_scenarios_keep_all_invariants(block: int) -> None:
    for seed in range(block * PER_BLOCK, (block + 1) * PER_BLOCK):
        play(seed)


def test_random_scenarios_contain_the_rare_cases() -> None:
    seen = {"infeasible": 0, "one-class phase": 0, "tight": 0, "growing": 0, "more quota than data": 0}
    for seed in range(400):
        world = random_world(seed)
        classes = sum(len(phase) for phase in world.data)
        samples = sum(len(rows) for phase in world.data for rows in phase.values())
        new, arriving = len(world.data[-1]), sum(map(len, world.data[-1].values()))
        total = world.budget.total(classes - new, arriving)
        feasible = feasible_tenths(total, old_classes=classes - new, new_classes=new, arriving=arriving)
        seen["infeasible"] += not feasible
        seen["one-class phase"] += any(len(phase) == 1 for phase in world.data)
        seen["growing"] += world.budget.kind == "growing"
        seen["tight"] += world.budget.kind == "fixed" and world.budget.amount == classes
        seen["more quota than data"] += total > samples
    assert min(seen.values()) >= 10, seen


@pytest.mark.parametrize("block", range(BLOCKS))
def test_samples_of_any_size_are_dropped_from_the_end_until_their_bytes_fit(block: int) -> None:
    for seed in range(block * 50, block * 50 + 50):
        rng = np.random.default_rng(seed)
        old, new = int(rng.integers(1, 6)), int(rng.integers(1, 4))
        held = {label: int(rng.integers(1, 30)) for label in range(old)}
        arriving = {label: int(rng.integers(1, 40)) for label in range(old, old + new)}
        allocator = Allocator(
            Budget("fixed", 1), [old], [Group(tuple(range((old + 1) // 2)), tuple(range((old + 1) // 2, old)))]
        )
        samples = int(rng.integers(old + new, old + new + 60))
        state = allocator.observe(PhaseFacts(new, sum(arriving.values())))
        state = replace(state, budget=samples, feasible=())
        decision = decide(state, Action(int(rng.integers(1, 10))))
        whole = allocator.allocate(state, decision, held=held, arriving=arriving)
        sizes = {
            label: rng.integers(1, 100, quota).astype(np.int64) for label, quota in {**whole.old, **whole.new}.items()
        }
        least = sum(int(own[0]) for own in sizes.values())
        limit = int(rng.integers(least, least + 2 + sum(int(own.sum()) for own in sizes.values())))
        shrink = partial(allocator.shrink, held=held, arriving=arriving)

        def used(allocation: Allocation, sizes: dict[int, IntArray] = sizes) -> int:
            quotas = {**allocation.old, **allocation.new}
            return sum(int(sizes[label][:quota].sum()) for label, quota in quotas.items())

        fitted = fit_bytes(whole, limit, sizes, sizes, shrink)
        assert used(fitted) <= limit
        for before, after in ((whole.old, fitted.old), (whole.new, fitted.new)):
            assert all(1 <= after[label] <= before[label] for label in before)
        if fitted.budget < whole.budget and fitted != whole:
            assert used(shrink(whole, fitted.budget + 1)) > limit  # nothing is dropped that fits
        else:
            assert fitted == whole


@pytest.mark.parametrize("block", range(BLOCKS))
def test_rows_of_any_size_are_replaced_within_the_bytes(block: int) -> None:
    """After every single replacement the bytes are those of the rows, and within the bound."""
    refused = 0
    for seed in range(block * 50, block * 50 + 50):
        rng = np.random.default_rng(seed)
        memory, count = Memory(), int(rng.integers(1, 30))
        sizes = dict(enumerate(rng.integers(1, 100, count).tolist()))
        memory.load(0, np.arange(count), np.array(list(sizes.values())))
        bound = sum(sizes.values()) + int(rng.integers(0, 50))
        memory.open(count, bound)
        for new in range(count, count + 40):
            old, size = int(rng.choice(list(sizes))), int(rng.integers(1, 150))
            fits = sum(sizes.values()) - sizes[old] + size <= bound
            assert memory.can_replace(old, size) == fits
            if fits:
                memory.replace(0, old, new, size)
                del sizes[old]
                sizes[new] = size
            else:
                refused += 1
                with pytest.raises(BudgetError, match=f"replacing row {old} would hold"):
                    memory.replace(0, old, new, size)
            assert memory.total_bytes == sum(sizes.values()) <= memory.byte_peak <= bound
            assert sorted(memory.rows(0).tolist()) == sorted(sizes)
    assert refused > 50
