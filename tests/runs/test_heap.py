"""heap.py: freed memory is kept with glibc, and other C libraries are unaffected."""

import ctypes
import platform
import subprocess
import sys

import pytest

from remem.runs.heap import keep_freed_memory, return_freed_memory

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
# Small blocks between the large ones keep the top of the heap from shrinking: what is freed is holes.
HOLES = """
import os
import numpy as np
from remem.runs.heap import keep_freed_memory, return_freed_memory

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")

assert keep_freed_memory()
blocks = [np.ones(size) for _ in range(16) for size in (2**19, 2**10)]
blocks[::2] = [None] * 16
before = resident()
assert not return_freed_memory(beyond=2**30)
kept = resident()
assert return_freed_memory(beyond=2**25)
print(before - kept, before - resident())
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


@pytest.mark.skipif(not has_mallinfo2(), reason="needs glibc 2.33 or newer")
def test_freed_memory_between_tensors_goes_back_where_it_is_too_much() -> None:
    """Sixteen holes of 4 MiB."""
    found = subprocess.run([sys.executable, "-c", HOLES], capture_output=True, check=True, text=True).stdout
    kept, returned = map(int, found.split())
    assert abs(kept) < MEBIBYTES
    assert returned > 60 * MEBIBYTES


def test_c_library_without_mallopt_is_left_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    assert not keep_freed_memory.__wrapped__()
    assert not return_freed_memory(beyond=0)
