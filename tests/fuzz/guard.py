# SPDX-License-Identifier: Apache-2.0
"""Memory that tells on whoever touches what is not his: pages without any permission around it, canaries inside."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import numpy as np

from detour.engine import state
from detour.engine.compiler import log_ring
from detour.engine.tables import arrays, hashing, rows, sliced

PAGE = mmap.PAGESIZE
CANARY = 0xC5
_NONE = 0
_LARGE = 16 << 20  # arrays that are better left to the system, which gives zeros without touching them
_LIBC = ctypes.CDLL(None, use_errno=True)
_STATEFUL = (state, arrays, hashing, log_ring, rows, sliced)


def _pages(size: int) -> int:
    return (size + PAGE - 1) // PAGE


class Region:
    """Room for `size` bytes, at the rear end of its memory or at the front, where the next byte is forbidden.

    On the other side at least one page of canaries follows before another forbidden page.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._usable = (_pages(size) + 1) * PAGE
        self._map = mmap.mmap(-1, self._usable + 2 * PAGE)
        self._all = np.frombuffer(self._map, np.uint8)
        low: int = self._all.ctypes.data
        for at in (low, low + PAGE + self._usable):
            if _LIBC.mprotect(ctypes.c_void_p(at), ctypes.c_size_t(PAGE), _NONE):
                raise OSError(ctypes.get_errno(), "mprotect")
        self._bytes = self._all[PAGE : PAGE + self._usable]

    def use(self, rear: bool) -> np.ndarray:
        """The room at one of the ends; everything, also outside of it, becomes canaries."""
        self._bytes[:] = CANARY
        self._rear = rear
        return self._bytes[self._usable - self.size :] if rear else self._bytes[: self.size]

    def intact(self) -> bool:
        """Whether the canaries live."""
        free = self._usable - self.size
        outside = self._bytes[:free] if self._rear else self._bytes[self.size :]
        return bool((outside == CANARY).all())


def guarded(array: np.ndarray) -> np.ndarray:
    """A copy that ends where forbidden memory begins."""
    room = Region(array.nbytes).use(rear=True)
    copy = room.view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


class GuardedNumpy:
    """NumPy as modules whose arrays are guarded see it: those of switch state while `guarded_state` holds."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    @staticmethod
    def zeros(shape: Any, dtype: Any = float) -> np.ndarray:
        array = np.zeros(shape, dtype)
        return guarded(array) if array.nbytes <= _LARGE else array

    @staticmethod
    def frombuffer(data: Any, dtype: Any = float) -> np.ndarray:
        return guarded(np.frombuffer(data, dtype))


@contextmanager
def guarded_state() -> Iterator[None]:
    """Every array of a switch's state made meanwhile (tables, registers, meters, ...) ends at forbidden memory."""
    with ExitStack() as stack:
        for module in _STATEFUL:
            stack.enter_context(mock.patch.object(module, "np", GuardedNumpy()))
        yield
