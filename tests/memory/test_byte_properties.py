"""Random scenarios with a budget in bytes: codecs, sizes and refined samples, in the order in which an episode acts."""

from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pytest

from remem.action import Action, State
from remem.errors import InputError
from remem.memory.allocator import Allocator, fit_bytes
from remem.memory.budget import BudgetSpec, PhaseFacts, resolve
from remem.memory.store import Memory
from remem.types import Allocation, IntArray

BLOCKS, PER_BLOCK = 6, 400


@dataclass
class World:
    """A scenario, what each sample costs at each rung, and the limit that may never be exceeded."""

    rng: np.random.Generator
    data: list[dict[int, IntArray]]  # phase -> class -> rows
    sizes: IntArray  # rung, row; the second half of the rows are refined samples
    even: bool  # all samples of a rung have one size, as raw pixels do
    limit: int
    allocator: Allocator
    memory: Memory = field(default_factory=Memory)
    rung: int = 0
    refined: int = 0

    def bytes_of(self, rows: IntArray) -> IntArray:
        sizes: IntArray = self.sizes[self.rung, rows]
        return sizes


def random_data(rng: np.random.Generator) -> list[dict[int, IntArray]]:
    counts = rng.integers(1, 5, int(rng.integers(2, 7))).tolist()
    lengths = rng.integers(1, int(rng.choice([1, 3, 12, 40])) + 1, sum(counts))
    rows = np.split(rng.permutation(int(lengths.sum())), np.cumsum(lengths)[:-1])
    ends = np.cumsum(counts).tolist()
    return [{label: rows[label] for label in range(end - count, end)} for count, end in zip(counts, ends, strict=True)]


def random_sizes(rng: np.random.Generator, rows: int, *, even: bool) -> IntArray:
    """One to three rungs, the finest first, of equal sizes, similar ones, or anything up to the largest."""
    largest = np.sort(rng.integers(1, 200, int(rng.integers(1, 4))))[::-1]
    lowest = largest if even else (largest + 1) // 2 if rng.random() < 0.5 else np.ones_like(largest)
    return rng.integers(lowest[:, None], largest[:, None] + 1, (len(largest), rows))


def random_world(seed: int) -> World:
    """Budgets from a sample per class, of the size that is expected, to more than all data."""
    rng = np.random.default_rng(seed)
    data, even = random_data(rng), bool(rng.random() < 0.3)
    seen = [np.concatenate([own for phase in data[: i + 1] for own in phase.values()]) for i in range(len(data))]
    sizes = random_sizes(rng, 2 * len(seen[-1]), even=even)
    means = tuple(tuple(-(-int(own[rows].sum()) // len(rows)) for rows in seen) for own in sizes)
    classes, whole = sum(map(len, data)), int(sizes[0, : len(seen[-1])].sum())
    least = max(sum(map(len, data[: i + 1])) * min(own[i] for own in means) for i in range(len(data)))
    most = (classes, classes * int(sizes.max()), classes + whole)[int(rng.integers(3))]
    limit = int(rng.integers(least, least + most))
    facts = [PhaseFacts(len(phase), sum(map(len, phase.values()))) for phase in data]
    budget = resolve(BudgetSpec("bytes", limit), None, facts, row_bytes=int(sizes.max()), sizes=means)
    return World(rng, data, sizes, even, limit, Allocator(budget))


def check(world: World, bound: int) -> None:
    """From the rows themselves and not from the store's own counters."""
    rows = world.memory.samples().rows
    assert len(rows) == len(np.unique(rows)) <= bound
    assert world.memory.total_bytes == int(world.bytes_of(rows).sum()) <= world.memory.byte_peak <= world.limit


def refine_some(world: World) -> None:
    """Replaces some samples by others of another size, if that fits."""
    for label, count in world.memory.counts().items():
        if world.rng.random() < 0.2 and world.refined < world.sizes.shape[1] // 2:
            old = int(world.memory.rows(label)[world.rng.integers(count)])
            new = world.sizes.shape[1] // 2 + world.refined
            size = int(world.bytes_of(np.array([new]))[0])
            if world.memory.can_replace(old, size):
                world.memory.replace(label, old, new, size)
                world.refined += 1


def fit(world: World, allocation: Allocation, drawn: dict[int, IntArray], held: dict[int, int]) -> Allocation | None:
    """The allocation whose bytes fit; None if the best sample of every class takes more than the limit."""
    if world.even:
        return allocation
    old = {label: world.bytes_of(world.memory.rows(label)[:quota]) for label, quota in allocation.old.items()}
    new = {label: world.bytes_of(drawn[label][:quota]) for label, quota in allocation.new.items()}
    arriving = {label: len(rows) for label, rows in drawn.items()}
    try:
        return fit_bytes(
            allocation, world.limit, old, new, partial(world.allocator.shrink, held=held, arriving=arriving)
        )
    except InputError:
        assert sum(int(own[0]) for part in (old, new) for own in part.values()) > world.limit
        return None


def holds_a_sample_per_class(state: State) -> bool:
    budgets = [rung.budget for rung in state.rungs[state.rung :]] or [state.budget]
    return max(budgets) >= state.old_classes + state.new_classes


def run_phase(world: World, phase: int) -> bool:
    """Rank, refine, fit, cut, store by the phase's codec, set the bounds, load. False: a run would end here."""
    memory, allocator, rng = world.memory, world.allocator, world.rng
    drawn = {label: rng.permutation(rows) for label, rows in world.data[phase].items()}
    held, arriving = memory.counts(), {label: len(rows) for label, rows in drawn.items()}
    state = allocator.observe(PhaseFacts(len(arriving), sum(arriving.values())))
    if not holds_a_sample_per_class(state):
        return False
    action = Action(int(rng.integers(1, 10)), int(rng.integers(1, 10)), int(rng.integers(len(world.sizes))))
    latest = rng.permutation(list(world.data[phase - 1])).tolist()
    for label in latest:
        memory.rank(label, rng.permutation(held[label]))
    half = (len(latest) + 1) // 2
    allocator.split(tuple(latest[:half]), tuple(latest[half:]), action)
    allocation = allocator.allocate(state, allocator.decide(state, action), held=held, arriving=arriving)
    refine_some(world)
    world.rung = allocation.rung
    fitted = fit(world, allocation, drawn, held)
    if fitted is None:
        return False
    memory.cut(fitted.old)
    rows = memory.samples().rows
    memory.resize(rows, world.bytes_of(rows))
    memory.open(fitted.budget, world.limit)
    check(world, fitted.budget)
    for label, quota in fitted.new.items():
        own = drawn[label][:quota]
        memory.load(label, own, world.bytes_of(own))
        check(world, fitted.budget)
    assert memory.counts() == dict(fitted.old) | dict(fitted.new)
    assert min(memory.counts().values()) >= 1
    allocator.add_phase(len(arriving))
    return True


def play(seed: int) -> int:
    """Plays a scenario to its end, or until no sample of every class fits; returns the phases played."""
    world = random_world(seed)
    for label, rows in world.data[0].items():
        world.memory.load(label, rows, world.bytes_of(rows))
    world.allocator.add_phase(len(world.data[0]))
    for phase in range(1, len(world.data)):
        if not run_phase(world, phase):
            return phase - 1
        if world.rng.random() < 0.2:  # as a snapshot brings it back
            world.memory = Memory.from_state(world.memory.state(), world.bytes_of(world.memory.samples().rows))
            check(world, world.memory.bound or 0)
    return len(world.data) - 1


@pytest.mark.parametrize("block", range(BLOCKS))
def test_no_scenario_ever_holds_more_bytes_than_its_budget(block: int) -> None:
    assert sum(play(seed) for seed in range(block * PER_BLOCK, (block + 1) * PER_BLOCK)) > PER_BLOCK


def test_scenarios_contain_the_rare_cases() -> None:
    seen = {"ended": 0, "several codecs": 0, "one size": 0, "less than all data": 0}
    for seed in range(400):
        world = random_world(seed)
        seen["ended"] += play(seed) < len(world.data) - 1
        seen["several codecs"] += len(world.sizes) > 1
        seen["one size"] += world.even
        seen["less than all data"] += world.limit < int(world.sizes[0, : world.sizes.shape[1] // 2].sum())
    assert min(seen.values()) >= 10, seen
