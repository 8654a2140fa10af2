"""benchmarks/shared_prefixes.py: how many phases shared prefixes save."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from rl_factories import make_path

FILE = Path(__file__).parents[2] / "benchmarks" / "shared_prefixes.py"


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    spec = importlib.util.spec_from_file_location("shared_prefixes", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_even_a_uniform_policy_trains_a_fifth_less(benchmark: ModuleType) -> None:
    """160 runs of 6 phases; with a pool of 4, phase 0 alone saves 156 of them."""
    row = benchmark.count(benchmark.make_tasks(), levels=2, learning=False)
    assert row.alone == 2 * 8 * 10 * 6
    assert row.shared <= row.alone - 156
    assert row.ratio >= 1.2


def test_a_policy_that_learns_shares_more(benchmark: ModuleType) -> None:
    tasks = benchmark.make_tasks()
    uniform, learned = (benchmark.count(tasks, levels=1, learning=learning) for learning in (False, True))
    assert learned.alone == uniform.alone
    assert learned.ratio > uniform.ratio >= 1.5


def test_fake_rewards_by_hand(benchmark: ModuleType) -> None:
    paths = [make_path(*keys) for keys in ([], [(6, 7)], [(4, 7)], [(6, 7), (7, 5)])]
    assert [benchmark.fake_reward(path) for path in paths] == pytest.approx([0.7, 0.7, 0.62, 0.66])
