# SPDX-License-Identifier: Apache-2.0
"""One StreamChannel: who is at the other end, and what waits to be sent to it. Belongs to the event loop's thread."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from finsy.proto import p4r

from detour.engine.p4runtime.errors import Refused

if TYPE_CHECKING:
    from detour.engine.p4runtime.device import Device

_BACKLOG = 10_000
_READ_BELOW = 1_000


class Session:
    """A stream. It has a device once its first arbitration update is accepted."""

    def __init__(self, peer: str = "") -> None:
        self.peer = peer
        self.device: Device | None = None
        self.role = p4r.Role()
        self.role_name = ""
        self.election: int | None = None
        self.reason: Refused | None = None
        self.dropped = 0
        self._waiting: deque[p4r.StreamMessageResponse] = deque()
        self._changed = asyncio.Event()
        self._drained = asyncio.Event()
        self._drained.set()
        self._closed = False

    def send(self, message: p4r.StreamMessageResponse, droppable: bool = True) -> None:
        """Queues a message. For a client that does not read, droppable ones are dropped (and counted)."""
        if droppable and len(self._waiting) >= _BACKLOG:
            self.dropped += 1
            return
        self._waiting.append(message)
        if len(self._waiting) >= _READ_BELOW:
            self._drained.clear()
        self._changed.set()

    async def next(self) -> p4r.StreamMessageResponse | None:
        """The next message to send; None when the stream is closed and all is sent."""
        while not self._waiting:
            if self._closed:
                return None
            self._changed.clear()
            await self._changed.wait()
        message = self._waiting.popleft()
        if len(self._waiting) < _READ_BELOW:
            self._drained.set()
        return message

    async def drained(self) -> None:
        """Waits while much is unsent: a client that does not read is not listened to either."""
        await self._drained.wait()

    def close(self, reason: Refused | None = None) -> None:
        """No more messages will come; `reason`: the server ends the stream with that status."""
        self.reason = self.reason or reason
        self._closed = True
        self._changed.set()
