"""The schedules behind docs/reports/scaling.md: by hand, and the document prints what the script prints."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    spec = importlib.util.spec_from_file_location("speed_up", ROOT / "benchmarks" / "speed_up.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["speed_up"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_makespan_by_hand(benchmark: ModuleType) -> None:
    """A chain of 2 + 3 beside single jobs of 4 and 1."""
    jobs = [benchmark.Job(2.0, None), benchmark.Job(3.0, 0), benchmark.Job(4.0, None), benchmark.Job(1.0, None)]
    assert [benchmark.makespan(jobs, workers) for workers in (1, 2, 3, 9)] == [10.0, 5.0, 5.0, 5.0]
    assert benchmark.makespan([], 3) == 0.0


def test_speed_up_is_bounded_by_workers_and_by_the_longest_chain(benchmark: ModuleType) -> None:
    barriers = benchmark.learning()
    first = [job for job in barriers[0] if job.after is None]
    assert len(first) == benchmark.TASKS  # phase 0 of the first two tasks
    speeds = [benchmark.speed_up(barriers, workers) for workers in (1, 2, 10, 10**6)]
    assert speeds[0] == pytest.approx(1.0, rel=1e-12)
    assert speeds == sorted(speeds)
    assert speeds[1] <= 2
    # Phase 0 of the pool comes in the first two epochs; from the third on a path is N phases long at most.
    work = sum(job.cost for jobs in barriers for job in jobs)
    longest = 2 * benchmark.PHASE0 + 10 * benchmark.PHASES * benchmark.LATER
    assert speeds[3] == pytest.approx(work / longest, rel=1e-12)


def test_the_document_prints_the_table(benchmark: ModuleType) -> None:
    text = (ROOT / "docs" / "reports" / "scaling.md").read_text(encoding="utf-8")
    assert benchmark.table() in text
    assert "(speed-up.svg)" in text
    assert (ROOT / "docs" / "reports" / "speed-up.svg").is_file()
