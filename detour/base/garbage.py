# SPDX-License-Identifier: Apache-2.0
"""Python's cyclic garbage collector, held off while many objects are made that live on.

An entry of a table is some ten objects that live as long as it does. The collector sees them come, looks at each
several times on its way to the oldest generation and finds nothing: a third of the time that an insertion takes, some
of it while packets wait. What is dropped meanwhile is freed by reference counts, so a collection may as well come
later. Where such times overlap without end, what is new is collected now and then all the same.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

_LONGEST_S = 1.0

_cycles_left = _kept = False


def keep_all() -> None:
    """All that there is stays until the process ends: no collection looks at it from now on."""
    global _kept
    _kept = True
    gc.freeze()


def leave_cycles() -> None:
    """Objects in cycles, with arrays that are large, are no longer needed. Old objects are hardly ever looked at, so
    the next `no_collection` collects them first."""
    global _cycles_left
    _cycles_left = True


class _HeldOff:
    """A context manager that threads may be in at the same time, and one thread more than once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._was_on = False
        self._since = 0.0

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._was_on = gc.isenabled()
                gc.disable()
                self._since = time.monotonic()
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside and self._was_on:
                gc.enable()
            overdue = self._inside and self._was_on and time.monotonic() - self._since > _LONGEST_S
            if overdue:
                self._since = time.monotonic()
        if overdue:
            gc.collect(1)


HELD_OFF = _HeldOff()
"""`with HELD_OFF:` no collection begins inside, in any thread; whether the collector was on is restored."""


@contextmanager
def no_collection() -> Iterator[None]:
    """The same for making many objects and no cycles, which then count as old, so that no collection looks at them
    next thing."""
    global _cycles_left
    if _cycles_left:
        _cycles_left = False
        gc.collect()
    with HELD_OFF:
        try:
            yield
        finally:
            if not _kept:
                gc.freeze()
                gc.unfreeze()
