"""heap.py: freed memory is kept with glibc, and other C libraries are unaffected."""

import ctypes
import platform
import subprocess
import sys

import pytest

from remem.runs.heap import keep_freed_memory

PROBE = """
import ctypes, sys
import numpy as np
from remem.runs.heap import keep_freed_memory

class Info(ctypes.Structure):
    names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    _fields_ = [(name, ctypes.c_size_t) for name in names.split()]

mallinfo2 = ctypes.CDLL(None).mallinfo2
mallinfo2.restype = Info
if sys.argv[1] == "keep":
    assert keep_freed_memory()
mapped, free = mallinfo2().hblkhd, mallinfo2().fordblks
blocks = [np.ones(2**20) for _ in range(4)]
mapped = mallinfo2().hblkhd - mapped
del blocks
print(mapped, mallinfo2().fordblks - free)
"""
MEBIBYTES = 2**20


def has_mallinfo2() -> bool:
    return platform.libc_ver()[0] == "glibc" and hasattr(ctypes.CDLL(None), "mallinfo2")


@pytest.mark.skipif(not has_mallinfo2(), reason="needs glibc 2.33 or newer")
def test_freed_memory_stays_with_the_process() -> None:
    """Four blocks of 8 MiB: glibc maps each from the system and returns it, unless it is told to keep them."""

    def probe(mode: str) -> tuple[int, int]:
        found = subprocess.run([sys.executable, "-c", PROBE, mode], capture_output=True, check=True, text=True).stdout
        mapped, kept = map(int, found.split())
        return mapped, kept

    mapped, kept = probe("keep")
    assert mapped < MEBIBYTES
    assert kept > 31 * MEBIBYTES
    mapped, kept = probe("default")
    assert mapped > 31 * MEBIBYTES
    assert kept < MEBIBYTES


def test_c_library_without_mallopt_is_left_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    assert not keep_freed_memory.__wrapped__()
