# SPDX-License-Identifier: Apache-2.0
"""How the C library keeps memory that has been freed, in a process that serves clients for a long time."""

from __future__ import annotations

import ctypes
import sys

_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8  # <malloc.h>
_LARGE_BYTES = 256 << 10
_ARENAS = 2


def give_back_large_blocks() -> None:
    """Large blocks go back to the system when they are freed, and threads share two heaps.

    By default glibc raises the size from which it does so to that of the largest block that was freed (up to 32 MiB),
    and gives every thread a heap of its own, up to eight times the cores: what messages of megabytes leave is spread
    over all of them and kept. Elsewhere than with glibc nothing happens.
    """
    if sys.platform != "linux":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
        mallopt(_M_ARENA_MAX, _ARENAS)
