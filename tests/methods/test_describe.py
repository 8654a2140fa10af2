"""describe.py: large tables are stored in files. The forward pass itself is tested with the learner."""

import os

import numpy as np
import pytest

from remem.methods import describe as module
from remem.methods.describe import table


def test_small_tables_are_in_memory_and_large_ones_in_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LARGEST", 4 * 12)
    small, large = table(4, 3), table(5, 3)
    assert not isinstance(small, np.memmap)
    assert isinstance(large, np.memmap)
    for made in (small, large):
        assert made.dtype == np.float32
        assert not made.any()
        made[1:3] = 7.0
        assert made.sum() == 2 * 3 * 7


def test_on_a_full_disk_the_table_stays_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "LARGEST", 0)
    monkeypatch.setattr(os, "posix_fallocate", full)
    made = table(5, 3)
    assert not isinstance(made, np.memmap)
    assert made.shape == (5, 3)
    assert table(0, 3).shape == (0, 3)
