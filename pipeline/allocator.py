"""Memory that a process has freed, kept for its next tensors."""

import ctypes
import platform

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # options of glibc's mallopt, as malloc.h numbers them
_LARGEST = 32 * 2**20
"""Bytes of the largest block that glibc can keep; larger ones always come from the system."""
_NEVER = 2**31 - 1


def keep_freed_memory() -> None:
    """Let the C library keep freed blocks of up to 32 MB, instead of returning them to the system.

    The system clears every page that it hands out. A training allocates tensors of about the same sizes at every step,
    so that without this much of what a step frees is cleared for the next one. The process keeps the most memory that
    it has used. Other C libraries than glibc are left as they are.
    """
    if platform.libc_ver()[0] == "glibc":
        library = ctypes.CDLL(None)
        library.mallopt(_MMAP_THRESHOLD, _LARGEST)
        library.mallopt(_TRIM_THRESHOLD, _NEVER)
