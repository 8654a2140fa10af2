"""Keeps freed memory in the process, for the next training step to reuse, and returns it where it is too much."""

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


class MallInfo2(ctypes.Structure):
    """What glibc says of its heap."""

    _fields_ = [
        ("arena", ctypes.c_size_t),
        ("ordblks", ctypes.c_size_t),
        ("smblks", ctypes.c_size_t),
        ("hblks", ctypes.c_size_t),
        ("hblkhd", ctypes.c_size_t),
        ("usmblks", ctypes.c_size_t),
        ("fsmblks", ctypes.c_size_t),
        ("uordblks", ctypes.c_size_t),
        ("fordblks", ctypes.c_size_t),  # free bytes
        ("keepcost", ctypes.c_size_t),
    ]


def return_freed_memory(beyond: int) -> bool:
    """Returns freed memory to the system if it is more than this, and whether it was. Other C libraries: never.

    Tensors that are kept lie between freed ones. The holes fit no larger tensor, and add up.
    """
    try:
        library = ctypes.CDLL(None)
        library.mallinfo2.restype = MallInfo2
        return bool(library.mallinfo2().fordblks > beyond and library.malloc_trim(ctypes.c_size_t(0)))
    except (OSError, TypeError, AttributeError):  # no C library, or one without mallinfo2 (glibc before 2.33)
        return False
