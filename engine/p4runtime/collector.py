# SPDX-License-Identifier: Apache-2.0
"""Python's cyclic garbage collector, held off while a batch is worked on.

An entry is some ten objects that live as long as it does. The collector sees them come, looks at each several times
on its way to the oldest generation and finds nothing: a third of the time that an insertion takes, some of it while
packets wait. What a batch drops is freed by reference counts, so a collection may as well come after it. Where batches
overlap without end, what is new is collected now and then all the same.
"""

from __future__ import annotations

import gc
import threading
import time
from types import TracebackType

_LONGEST_S = 1.0


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

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
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
