# SPDX-License-Identifier: Apache-2.0
"""Huge pages for memory that is there already.

The state of hundreds of switches is thousands of small arrays all over the heap. With pages of 4 kB, nearly every
access to another switch's state also misses the TLB, which costs more than the access, above all in a virtual machine.
"""

from __future__ import annotations

import ctypes
import mmap
from contextlib import suppress
from pathlib import Path

_HUGE = 2 << 20
_MADV_COLLAPSE = 25
"""Since Linux 6.1; earlier ones say EINVAL, and everything stays as it is."""


def _heap() -> list[tuple[int, int]]:
    """Begin and end of what this process may write to and shares with nobody, no files."""
    regions = []
    for line in Path("/proc/self/maps").read_text().splitlines():
        place, rights, _, _, inode, *name = line.split()
        if rights == "rw-p" and inode == "0" and (not name or name[0] == "[heap]"):
            begin, end = (int(part, 16) for part in place.split("-"))
            regions.append((-(-begin // _HUGE) * _HUGE, end // _HUGE * _HUGE))
    return [(begin, end) for begin, end in regions if begin < end]


def collapse() -> None:
    """Moves this process's heap into huge pages, as far as the system can. Memory never touched stays untouched."""
    libc = ctypes.CDLL(None)
    with suppress(OSError, AttributeError):  # systems other than Linux
        for begin, end in _heap():
            arguments = ctypes.c_void_p(begin), ctypes.c_size_t(end - begin)
            libc.madvise(*arguments, mmap.MADV_HUGEPAGE)
            libc.madvise(*arguments, _MADV_COLLAPSE)
