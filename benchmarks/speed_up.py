"""How much faster learning a policy and a study get with more workers: jobs scheduled on paper, nothing is trained.

Jobs are those that `remem learn-policy` and `remem study` hand out: a node of a prefix tree follows its parent, an
epoch of REINFORCE waits for all of its runs, and runs of a study that differ in the policy alone share phase 0.
"""

import argparse
import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

WORKERS = (1, 2, 4, 10, 32, 100, 316, 1000)
WORKER_COUNTS = (2, 10, 100, 1000)  # columns of the table
TASKS, POOL, EPOCHS, PHASES = 2, 4, 10, 5  # K, P, m, N
TEACHER = 1.3  # cost of a sample where a teacher is asked, in samples without one
PHASE0, LATER = 25 * 450, TEACHER * 3150  # samples in one epoch of a pseudo task of CIFAR-100, M = 7000
FIGURE = Path(__file__).parents[1] / "docs" / "reports" / "speed-up.svg"

Node = tuple[int, tuple[tuple[int, int], ...]]  # a task, and the shares and splits of phases 1, 2, ...


@dataclass(frozen=True)
class Job:
    """One phase: its cost, and the place of the job that it follows in the list; None: nothing."""

    cost: float
    after: int | None


def makespan(jobs: Sequence[Job], workers: int) -> float:
    """When the last job ends if a free worker always takes the first job that is ready."""
    children: dict[int | None, list[int]] = {}
    for place, job in enumerate(jobs):
        children.setdefault(job.after, []).append(place)
    ready, running, now = children.get(None, []).copy(), list[tuple[float, int]](), 0.0
    heapq.heapify(ready)
    while ready or running:
        while ready and len(running) < workers:
            place = heapq.heappop(ready)
            heapq.heappush(running, (now + jobs[place].cost, place))
        now, done = heapq.heappop(running)
        for child in children.get(done, []):
            heapq.heappush(ready, child)
    return now


def drawn_path(rng: np.random.Generator) -> tuple[tuple[int, int], ...]:
    """Of a policy that stays uniform, which shares least: any share first, then a tenth more or less; any split."""
    share, path = int(rng.integers(1, 10)), []
    for phase in range(PHASES):
        share = min(9, max(1, share + int(rng.integers(-1, 2)))) if phase else share
        path.append((share, int(rng.integers(1, 10))))
    return tuple(path)


def epochs(runs: int, seed: int, later: float) -> Iterator[list[Job]]:
    """The jobs of every epoch: what no epoch before has trained."""
    known: set[Node] = set()
    rng = np.random.default_rng(seed)
    for epoch in range(EPOCHS):
        wanted: set[Node] = set()
        for place in range(TASKS):
            number = (TASKS * epoch + place) % POOL
            paths = [drawn_path(rng) for _ in range(runs)]
            wanted |= {(number, path[:depth]) for path in paths for depth in range(PHASES + 1)}
        nodes = sorted(wanted - known)
        places = {node: place for place, node in enumerate(nodes)}
        yield [Job(later if path else PHASE0, places.get((key, path[:-1])) if path else None) for key, path in nodes]
        known |= wanted


def learning(learnings: int = 1, *, runs: int = 8, ahead: bool = False, later: float = LATER) -> list[list[Job]]:
    """Barriers and the jobs before each: 10 epochs of K = 2 tasks; `ahead` trains phase 0 of the whole pool first."""
    barriers = [_joined(parts) for parts in zip(*(epochs(runs, seed, later) for seed in range(learnings)), strict=True)]
    if not ahead:
        return barriers
    first = [Job(PHASE0, None)] * (POOL * learnings)
    return [first, *([Job(0.0 if job.cost == PHASE0 else job.cost, job.after) for job in jobs] for jobs in barriers)]


def study(settings: int = 25, policies: int = 4) -> list[list[Job]]:
    """`settings` are pairs of method and seed, each with all policies; a target has twice the data of a pseudo task."""
    jobs: list[Job] = []
    for _ in range(settings):
        first = len(jobs)
        jobs.append(Job(2 * PHASE0, None))
        for _ in range(policies):
            for phase in range(PHASES):
                jobs.append(Job(2 * LATER, len(jobs) - 1 if phase else first))
    return [jobs]


def _joined(parts: Sequence[Sequence[Job]]) -> list[Job]:
    """Side by side: all parts wait for each other at the end."""
    jobs: list[Job] = []
    for part in parts:
        start = len(jobs)
        jobs += [Job(job.cost, None if job.after is None else job.after + start) for job in part]
    return jobs


CASES: dict[str, Callable[[], list[list[Job]]]] = {
    "learning, K x Z = 2 x 8": learning,
    "the same, pool trained ahead": lambda: learning(ahead=True),
    "the same, `short` later phases": lambda: learning(later=LATER / 4),
    "learning, K x Z = 2 x 64": lambda: learning(runs=64),
    "eight learnings at once, 2 x 8 each": lambda: learning(8),
    "study of 25 x 4 runs": study,
}


@cache
def case(name: str) -> list[list[Job]]:
    return CASES[name]()


def speed_up(barriers: Sequence[Sequence[Job]], workers: int) -> float:
    work = sum(job.cost for jobs in barriers for job in jobs)
    return work / sum(makespan(jobs, workers) for jobs in barriers)


def table() -> str:
    """Markdown: the speed-up over one worker, and what it can be at most."""
    lines = [
        f"| | phases trained | {' | '.join(f'{n} workers' for n in WORKER_COUNTS)} | at most |",
        "| :-- " + 6 * "| --: " + "|",
    ]
    for name in CASES:
        barriers = case(name)
        numbers = [speed_up(barriers, workers) for workers in (*WORKER_COUNTS, 10**9)]
        phases = sum(job.cost > 0 for jobs in barriers for job in jobs)
        lines.append(f"| {name} | {phases} | {' | '.join(f'{number:.1f}' for number in numbers)} |")
    return "\n".join(lines)


def draw(path: Path) -> None:
    """Speed-up over workers, both on logarithmic axes."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    axes.plot(WORKERS, WORKERS, color="0.7", linestyle=":", label="as many times as workers")
    for name in CASES:
        barriers = case(name)
        axes.plot(
            WORKERS, [speed_up(barriers, workers) for workers in WORKERS], marker=".", label=name.replace("`", "")
        )
    axes.set(xscale="log", yscale="log", xlabel="workers", ylabel="speed-up over one worker", ylim=(0.9, 300))
    axes.legend(fontsize="x-small", frameon=False)
    with mpl.rc_context({"svg.hashsalt": "remem", "svg.fonttype": "none"}):
        figure.savefig(path, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--figure", type=Path, default=FIGURE)
    draw(parser.parse_args().figure)
    print(table())


if __name__ == "__main__":
    main()
