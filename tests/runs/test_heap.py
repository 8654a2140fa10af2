"""heap.py: freed memory is kept with glibc, and other C libraries are unaffected."""

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


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")
def test_freed_memory_is_reused_without_page_faults() -> None:
    """Four blocks of 8 MB, freed and allocated ten times: 81920 pages of 4 kB, or 160 pages of 2 MB."""

    def faults(mode: str) -> int:
        return int(subprocess.run([sys.executable, "-c", PROBE, mode], capture_output=True, check=True).stdout)

    kept = faults("keep")
    assert kept < 100 < faults("default")


def test_c_library_without_mallopt_is_left_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    assert not keep_freed_memory.__wrapped__()
