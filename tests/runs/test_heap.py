"""Freed memory is kept where the C library lets us, and nothing breaks where it does not."""

import ctypes
import platform
import subprocess
import sys

import pytest

from remem.runs.heap import keep_freed_memory

PROBE = """
import resource, sys
import numpy as np
from remem.runs.heap import keep_freed_memory
if sys.argv[1] == "keep":
    assert keep_freed_memory()
def use():
    for block in [np.empty(2**20) for _ in range(4)]:
        block.fill(1.0)
use()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    use()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
def test_kept_memory_is_not_fetched_again() -> None:
    """Four blocks of 8 MB, freed and taken again ten times: 81920 pages of 4 kB, or 160 where pages have 2 MB."""

    def faults(mode: str) -> int:
        return int(subprocess.run([sys.executable, "-c", PROBE, mode], capture_output=True, check=True).stdout)

    kept = faults("keep")
    assert kept < 100 < faults("default")


def test_a_c_library_without_the_setting_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    assert not keep_freed_memory.__wrapped__()
