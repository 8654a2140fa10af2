"""Freed memory stays with the process: the next step of training takes it again instead of asking the system for it."""

import ctypes
from functools import cache

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h
KEPT = 2**29  # bytes that may lie free at the top of the heap
LARGEST = 2**25  # bytes of one tensor that still comes from the heap: the most that glibc promises to allow


@cache
def keep_freed_memory() -> bool:
    """Once per process; whether the C library took it. One without these settings goes on as it does.

    By itself, glibc hands the activations of a step back when they are freed, and every page that comes back is cleared
    by the system first: about a twelfth of a step.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, TypeError, AttributeError):  # not a C library that has it, or none to be asked
        return False
    return bool(mallopt(M_MMAP_THRESHOLD, LARGEST) and mallopt(M_TRIM_THRESHOLD, KEPT))
