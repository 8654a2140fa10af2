"""in_threads: ordered results, errors in their place, and bounded look-ahead."""

import threading
from collections.abc import Iterator

import pytest

from remem import threads
from remem.threads import in_threads


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "BLOCK", 3)
    monkeypatch.setattr(threads, "THREADS", 2)


@pytest.mark.parametrize("count", [0, 1, 3, 100])
def test_results_come_in_the_order_of_the_items(count: int) -> None:
    assert list(in_threads(lambda item: item * item, range(count))) == [item * item for item in range(count)]


def test_threads_are_reused() -> None:
    def name(item: int) -> str:
        return threading.current_thread().name

    seen = [set(in_threads(name, range(60))) for _ in range(5)]
    assert len(set.union(*seen)) <= 2


def test_items_are_taken_only_a_few_blocks_ahead() -> None:
    taken = 0

    def items() -> Iterator[int]:
        nonlocal taken
        for item in range(1000):
            taken += 1
            yield item

    results = in_threads(str, items())
    assert [next(results) for _ in range(2)] == ["0", "1"]
    assert taken == threads.AHEAD * 2 * 3


def test_an_error_is_raised_in_its_place() -> None:
    def halve(item: int) -> int:
        if item % 2:
            raise ValueError(f"{item} is odd")
        return item // 2

    results = in_threads(halve, [0, 2, 4, 6, 8, 11, 12, 13])
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="11 is odd"):
        list(results)
