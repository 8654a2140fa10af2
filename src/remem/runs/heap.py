"""Keeps freed memory in the process, for the next training step to reuse."""

import ctypes
from functools import cache

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # from glibc's malloc.h
KEPT = 2**29  # bytes that may stay free at the top of the heap
LARGEST = 2**25  # bytes of the largest tensor on the heap: the maximum that glibc guarantees


@cache
def keep_freed_memory() -> bool:
    """Configures malloc, once per process, and returns whether that worked. Other C libraries stay unchanged.

    By default, glibc returns freed activations to the system, which clears every page before it is used again. That
    takes about a twelfth of a step.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, TypeError, AttributeError):  # no C library, or one without mallopt
        return False
    return bool(mallopt(M_MMAP_THRESHOLD, LARGEST) and mallopt(M_TRIM_THRESHOLD, KEPT))
