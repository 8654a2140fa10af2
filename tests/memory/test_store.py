"""store.py: the bound holds at every load, freed rows never come back, and states are restored exactly."""

import subprocess
import sys

import numpy as np
import pytest

from remem.errors import BudgetError, DamagedFileError, NotHeldError
from remem.memory.store import HeldView, Memory
from remem.types import IntArray


def rows(*numbers: int) -> IntArray:
    return np.array(numbers, np.int64)


class Doubler:
    """A reader whose output shows which rows were read."""

    def read(self, rows: IntArray) -> IntArray:
        return rows * 2


@pytest.fixture
def memory() -> Memory:
    """Two old classes, ranked: 3 rows of class 0, 2 of class 1, and 2 of class 1 already freed."""
    memory = Memory()
    memory.load(1, rows(20, 21, 22, 23))
    memory.load(0, rows(10, 11, 12))
    memory.rank(0, rows(2, 0, 1))
    memory.rank(1, rows(3, 1, 0, 2))
    memory.cut({0: 3, 1: 2})
    return memory


def test_samples_come_by_class_then_rank(memory: Memory) -> None:
    samples = memory.samples()
    assert samples.rows.tolist() == [12, 10, 11, 23, 21]
    assert samples.labels.tolist() == [0, 0, 0, 1, 1]
    assert memory.counts() == {0: 3, 1: 2}
    assert memory.total == 5
    assert memory.rows(1).tolist() == [23, 21]
    assert len(Memory().samples()) == 0


def test_cut_keeps_the_best_and_returns_the_rest(memory: Memory) -> None:
    assert memory.cut({0: 1, 1: 1}).tolist() == [10, 11, 21]
    assert memory.samples().rows.tolist() == [12, 23]
    assert memory.total == 2


def test_phase_zero_is_exempt_and_later_loads_are_not(memory: Memory) -> None:
    assert memory.bound is None
    assert memory.peak == 0
    memory.open(6)
    assert memory.peak == 5
    memory.load(2, rows(30))
    assert memory.peak == 6
    with pytest.raises(BudgetError, match=r"loading 2 samples of class 3 would hold 8 at the same time, .* is 6"):
        memory.load(3, rows(40, 41))
    assert memory.total == 6
    assert memory.holds(rows(40, 41)).tolist() == [False, False]
    memory.cut({0: 1})
    memory.load(3, rows(40, 41))
    assert memory.peak == 6


def test_a_bound_below_what_is_held_cannot_be_opened(memory: Memory) -> None:
    with pytest.raises(BudgetError, match="5 samples are held, but the budget is 4"):
        memory.open(4)
    assert memory.bound is None


def test_a_bound_cannot_be_lifted(memory: Memory) -> None:
    memory.open(9)
    memory.open(5)
    with pytest.raises(BudgetError, match="cannot be lifted"):
        memory.open(None)
    assert memory.bound == 5


def test_the_bound_holds_under_optimised_python() -> None:
    program = """
import numpy as np
from remem.errors import BudgetError, NotHeldError
from remem.memory.store import HeldView, Memory
assert False, "asserts must be off"
memory = Memory()
memory.load(0, np.arange(4))
memory.open(5)
try:
    memory.load(1, np.arange(10, 12))
except BudgetError as error:
    print("BudgetError", error)
try:
    HeldView(memory, None).read(np.array([3, 9]))
except NotHeldError as error:
    print("NotHeldError", error)
print(memory.total)
"""
    done = subprocess.run([sys.executable, "-O", "-c", program], capture_output=True, text=True, check=True)
    first, second, third = done.stdout.splitlines()
    assert first.startswith("BudgetError loading 2 samples of class 1 would hold 6")
    assert second == "NotHeldError row 9 is not held"
    assert third == "4"


def test_freed_rows_never_come_back(memory: Memory) -> None:
    with pytest.raises(NotHeldError, match="row 20 was freed and is gone"):
        memory.load(2, rows(30, 20))
    with pytest.raises(NotHeldError, match="row 12 is held already"):
        memory.load(2, rows(12))
    assert memory.total == 5
    assert memory.holds(rows(30)).tolist() == [False]


@pytest.mark.parametrize("bad", [[30, 30], [-1]])
def test_rows_must_be_distinct_numbers(memory: Memory, bad: list[int]) -> None:
    with pytest.raises(ValueError, match="distinct"):
        memory.load(2, rows(*bad))


def test_old_classes_keep_their_ranking(memory: Memory) -> None:
    with pytest.raises(ValueError, match="a ranking never changes"):
        memory.rank(0, rows(0, 1, 2))
    with pytest.raises(ValueError, match="old classes never return"):
        memory.load(0, rows(99))
    memory.load(2, rows(30, 31))
    with pytest.raises(ValueError, match="must be ranked before"):
        memory.cut({2: 1})
    with pytest.raises(ValueError, match="not a permutation"):
        memory.rank(2, rows(0, 0))
    assert memory.cut({2: 0}).tolist() == [30, 31]  # dropping a whole class needs no ranking


def test_a_class_that_keeps_all_its_rows_needs_no_ranking(memory: Memory) -> None:
    memory.load(2, rows(30, 31))
    assert memory.cut({2: 2}).tolist() == []
    assert memory.rows(2).tolist() == [30, 31]
    assert memory.cut({}).tolist() == []
    assert memory.total == 7


@pytest.mark.parametrize("quota", [-1, 4])
def test_cut_refuses_impossible_quotas(memory: Memory, quota: int) -> None:
    with pytest.raises(ValueError, match=f"holds 3 rows, which cannot be cut to {quota}"):
        memory.cut({1: 1, 0: quota})
    assert memory.counts() == {0: 3, 1: 2}


def test_a_refined_row_takes_the_place_of_its_original(memory: Memory) -> None:
    memory.open(5)
    memory.replace(0, 10, 1000)
    assert memory.rows(0).tolist() == [12, 1000, 11]
    assert memory.holds(rows(10, 1000)).tolist() == [False, True]
    assert memory.total == 5
    with pytest.raises(NotHeldError, match="row 10 of class 0"):
        memory.replace(0, 10, 1001)
    with pytest.raises(NotHeldError, match="row 20 was freed"):
        memory.replace(0, 12, 20)
    assert memory.rows(0).tolist() == [12, 1000, 11]


def test_the_view_reads_held_rows_only(memory: Memory) -> None:
    view = HeldView(memory, Doubler())
    assert view.read(rows(23, 10, 10)).tolist() == [46, 20, 20]
    assert view.read(rows()).tolist() == []
    for missing in (20, 9, 10**9, -1):  # freed, never held, beyond every row, negative
        with pytest.raises(NotHeldError, match=f"row {missing} is not held"):
            view.read(rows(10, missing, 22))


def test_a_restored_memory_continues_exactly(memory: Memory) -> None:
    memory.open(6)
    memory.load(2, rows(700))
    state = memory.state()
    assert {array.dtype for array in state.values()} == {np.dtype(np.int64)}
    twin = Memory.from_state(state)
    for key, array in state.items():
        assert np.array_equal(twin.state()[key], array), key
    for one in (memory, twin):
        assert one.samples().rows.tolist() == [12, 10, 11, 23, 21, 700]
        assert (one.bound, one.peak, one.total) == (6, 6, 6)
        with pytest.raises(NotHeldError, match="row 22 was freed"):
            one.replace(0, 12, 22)
        with pytest.raises(BudgetError):
            one.load(3, rows(800))
        with pytest.raises(ValueError, match="ranked already"):
            one.rank(1, rows(0, 1))
        one.rank(2, rows(0))
        assert one.cut({0: 2, 1: 1, 2: 1}).tolist() == [11, 21]


def test_an_empty_memory_can_be_restored() -> None:
    twin = Memory.from_state(Memory().state())
    assert (twin.total, twin.bound, twin.peak) == (0, None, 0)
    twin.load(0, rows(0, 5))
    assert twin.holds(rows(0, 5, 6)).tolist() == [True, True, False]


def test_nothing_is_held_at_first() -> None:
    assert Memory().holds(rows(0, 1, 7, -1)).tolist() == [False] * 4


def test_a_state_says_in_whole_numbers_that_there_is_no_bound(memory: Memory) -> None:
    """-1 stands for none; the rows 20 and 22 are freed, one bit each."""
    state = memory.state()
    assert state["bound"].tolist() == [-1, 0]
    assert state["freed"].tolist() == [2**20 + 2**22]


def test_a_class_without_rows_is_restored(memory: Memory) -> None:
    memory.load(2, rows(130))
    memory.cut({2: 0})
    twin = Memory.from_state(memory.state())
    assert twin.counts() == {0: 3, 1: 2, 2: 0}
    assert twin.state()["freed"].tolist() == [2**20 + 2**22, 0, 2**2]  # 130 = 2 x 64 + 2


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("rows", rows(12, 10, 11, 23)),  # one short
        ("rows", rows(12, 10, 11, 23, 20)),  # a freed row
        ("rows", rows(12, 10, 11, 23, 23)),  # twice
        ("counts", rows(6, -1)),
        ("labels", rows(0)),
        ("bound", rows(4, 5)),  # more held than allowed
        ("bound", rows(4)),
    ],
)
def test_a_damaged_state_is_refused(memory: Memory, key: str, value: IntArray) -> None:
    with pytest.raises(DamagedFileError, match="memory state"):
        Memory.from_state(memory.state() | {key: value})


def test_a_state_with_a_part_missing_is_refused(memory: Memory) -> None:
    state = memory.state()
    del state["freed"]
    with pytest.raises(DamagedFileError, match="freed"):
        Memory.from_state(state)


def test_a_class_that_returns_is_ranked_over_all_that_it_holds(memory: Memory) -> None:
    with pytest.raises(ValueError, match="class 1 is ranked already: old classes never return"):
        memory.load(1, rows(24))
    memory.reopen(1)
    memory.load(1, rows(24))
    assert memory.rows(1).tolist() == [23, 21, 24]
    assert memory.state()["ranked"].tolist() == [0]
    with pytest.raises(NotHeldError, match="row 20 was freed and is gone"):
        memory.load(1, rows(20))
    memory.rank(1, rows(2, 0, 1))
    assert memory.rows(1).tolist() == [24, 23, 21]
    assert memory.state()["ranked"].tolist() == [0, 1]


def test_discarded_rows_are_gone_wherever_they_were_ranked(memory: Memory) -> None:
    memory.discard(rows(10, 21, 999))
    assert memory.samples().rows.tolist() == [12, 11, 23]
    assert memory.total == 3
    with pytest.raises(NotHeldError, match="row 10 was freed"):
        memory.load(2, rows(10))


def test_classes_get_other_numbers_only_if_no_sample_loses_its_class(memory: Memory) -> None:
    with pytest.raises(ValueError, match="3 held rows would lose their class"):
        memory.relabel({1: 0})
    memory.discard(memory.rows(0))
    memory.relabel({1: 0})
    assert memory.counts() == {0: 2}
    assert memory.state()["ranked"].tolist() == [0]


def test_another_budget_takes_the_place_of_the_old_one(memory: Memory) -> None:
    memory.open(9, 100)
    memory.lift()
    memory.open(6)
    memory.load(2, rows(30))
    with pytest.raises(BudgetError):
        memory.load(3, rows(31))
