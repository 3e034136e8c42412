# SPDX-License-Identifier: Apache-2.0
"""Requests to the system about a process's memory: map it before it is touched, and use huge pages.

The state of hundreds of switches is thousands of small arrays all over the heap. With pages of 4 kB, nearly every
access to another switch's state also misses the TLB, which costs more than the access, above all in a virtual machine.

All of these are wishes: what the system refuses stays as it is.
"""

from __future__ import annotations

import ctypes
import mmap
from contextlib import suppress
from pathlib import Path

import numpy as np

_HUGE = 2 << 20
_POPULATE_WRITE = 23
"""MADV_POPULATE_WRITE, since Linux 5.14"""
_COLLAPSE = 25
"""MADV_COLLAPSE, since Linux 6.1"""


def _advise(begin: int, end: int, advice: int) -> None:
    with suppress(OSError, AttributeError):  # systems without madvise
        ctypes.CDLL(None).madvise(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), advice)


def populate(array: np.ndarray, size: int) -> None:
    """Take the memory of an array's first `size` bytes now instead of when they are touched."""
    begin = array.ctypes.data
    end = begin + min(size, array.nbytes)
    if begin < end:
        _advise(begin // mmap.PAGESIZE * mmap.PAGESIZE, end, _POPULATE_WRITE)


def _heap() -> list[tuple[int, int]]:
    """Begin and end of what this process may write to and shares with nobody, no files; whole huge pages."""
    regions = []
    with suppress(OSError):  # systems other than Linux
        for line in Path("/proc/self/maps").read_text().splitlines():
            place, rights, _, _, inode, *name = line.split()
            if rights == "rw-p" and inode == "0" and (not name or name[0] == "[heap]"):
                begin, end = (int(part, 16) for part in place.split("-"))
                regions.append((-(-begin // _HUGE) * _HUGE, end // _HUGE * _HUGE))
    return [(begin, end) for begin, end in regions if begin < end]


def collapse() -> None:
    """Move this process's heap into huge pages. Memory never touched stays untouched."""
    for begin, end in _heap():
        _advise(begin, end, mmap.MADV_HUGEPAGE)
        _advise(begin, end, _COLLAPSE)
