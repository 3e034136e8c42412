# SPDX-License-Identifier: Apache-2.0
"""Devices hand packet-ins and digests to streams in round robin, and everybody else runs in between.

gRPC accepts one call in each iteration of the event loop. If a device delivered in each iteration, then a flood of
packet-ins would let in one call a delivery.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

_PAUSE = 12  # iterations of the event loop after a delivery; one in which nothing happens takes 20 us


class RoundRobin:
    """Which device of a server delivers next. Belongs to the event loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: dict[Callable[[], bool], None] = {}  # in order; each once, however often it asks
        self._running = False

    def ask(self, deliver: Callable[[], bool]) -> None:
        """Calls `deliver` when it is due, and again for as long as it returns True (there is more)."""
        self._waiting[deliver] = None
        if not self._running:
            self._running = True
            self._loop.call_soon(self._next)

    def _next(self) -> None:
        if not self._waiting:
            self._running = False
            return
        deliver = next(iter(self._waiting))
        del self._waiting[deliver]
        if deliver():
            self._waiting[deliver] = None
        self._loop.call_soon(self._pause, _PAUSE)

    def _pause(self, iterations: int) -> None:
        if iterations:
            self._loop.call_soon(self._pause, iterations - 1)
        else:
            self._next()
