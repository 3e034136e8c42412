# SPDX-License-Identifier: Apache-2.0
"""When devices hand packet-ins and digests to streams: one after the other, and everybody else in between.

gRPC accepts one call each time that the event loop goes round. Were the devices to have a turn in each round, then
during a flood of packet-ins a call would be let in as seldom as a whole delivery ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

_ROUNDS = 12  # of the event loop after a turn; one in which nothing happens takes 20 us


class Turns:
    """The turns of one server's devices. Belongs to the event loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: dict[Callable[[], bool], None] = {}  # in order; each once, however often it asks
        self._running = False

    def ask(self, turn: Callable[[], bool]) -> None:
        """Calls `turn` when it is due, and again for as long as it returns True (there is more)."""
        self._waiting[turn] = None
        if not self._running:
            self._running = True
            self._loop.call_soon(self._next)

    def _next(self) -> None:
        if not self._waiting:
            self._running = False
            return
        turn = next(iter(self._waiting))
        del self._waiting[turn]
        if turn():
            self._waiting[turn] = None
        self._loop.call_soon(self._rest, _ROUNDS)

    def _rest(self, rounds: int) -> None:
        if rounds:
            self._loop.call_soon(self._rest, rounds - 1)
        else:
            self._next()
