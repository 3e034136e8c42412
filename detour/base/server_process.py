# SPDX-License-Identifier: Apache-2.0
"""Settings of a process that serves clients for a long time: how long a thread keeps the interpreter, and how the C
library keeps memory that has been freed."""

from __future__ import annotations

import ctypes
import sys

_SWITCH_INTERVAL_S = 0.0005


def shorten_switch_interval() -> None:
    """Threads that compute release the GIL ten times as often as by default.

    An event loop waits for one interval of each of them in each of its iterations, and gRPC accepts one call an
    iteration.
    """
    sys.setswitchinterval(min(_SWITCH_INTERVAL_S, sys.getswitchinterval()))


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
