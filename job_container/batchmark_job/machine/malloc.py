"""How glibc's malloc treats freed memory; with another C library nothing here does anything."""

from __future__ import annotations

import ctypes

M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4  # as in malloc.h


def keep_freed_memory() -> None:
    """Let malloc give each call the pages that the last one freed, until they are returned.

    Otherwise it depends on the rest of the heap whether a call pays for the pages of its output
    (docs/decisions/0011).
    """
    if mallopt := getattr(ctypes.CDLL(None), "mallopt", None):
        mallopt(M_MMAP_MAX, 0)
        mallopt(M_TRIM_THRESHOLD, -1)
