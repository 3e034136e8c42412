# SPDX-License-Identifier: Apache-2.0
"""One StreamChannel: who is at the other end, and what waits to be sent to it. Belongs to the event loop's thread."""

from __future__ import annotations

import asyncio
from collections import deque

from finsy.proto import p4r

from detour.engine.p4runtime.errors import Code, Refused
from detour.engine.p4runtime.limits import Budgets, Limits

_OVERHEAD = 64  # what a message costs beyond its bytes
_OWN = 16 << 10  # bytes that a stream may have waiting whatever the others have
_READ_SHARE = 8  # a client is not listened to while more than this part of its backlog is used


class StreamSession:
    """The sending end of a stream, and the role that its client bids for."""

    def __init__(self, peer: str = "", budgets: Budgets | None = None) -> None:
        self.peer = peer
        self.role = p4r.Role()
        self.role_name = ""
        self.role_bytes = 0  # of the server's budget for roles
        self.election: int | None = None
        self.reason: Refused | None = None
        self.dropped = 0
        self._budgets = budgets or Budgets(Limits())
        self.limits = self._budgets.limits
        self._waiting: deque[bytes] = deque()
        self._bytes = 0
        self._changed = asyncio.Event()
        self._drained = asyncio.Event()
        self._drained.set()
        self._closed = asyncio.Event()

    def send(self, message: p4r.StreamMessageResponse | bytes, droppable: bool = True) -> None:
        """Queue a message. From a client that does not read, droppable ones are kept back (and counted); one that
        must not be lost ends its stream."""
        if self._closed.is_set():
            return
        data = message if isinstance(message, bytes) else message.SerializeToString()
        size = len(data) + _OVERHEAD
        if not self._take(size):
            self.dropped += 1
            if not droppable:
                self._clear()
                self.close(Refused(Code.RESOURCE_EXHAUSTED, "the stream is not read: its backlog is full"))
            return
        self._waiting.append(data)
        if self._bytes > self.limits.stream // _READ_SHARE:
            self._drained.clear()
        self._changed.set()

    def _take(self, size: int) -> bool:
        """Count a message; the bytes above `_OWN` are of the common budget."""
        if self._bytes + size > self.limits.stream:
            return False
        shared = max(self._bytes + size - _OWN, 0) - max(self._bytes - _OWN, 0)
        if shared and not self._budgets.streams.take(shared):
            return False
        self._bytes += size
        return True

    def _give(self, size: int) -> None:
        self._budgets.streams.give(max(self._bytes - _OWN, 0) - max(self._bytes - size - _OWN, 0))
        self._bytes -= size
        if self._bytes <= self.limits.stream // _READ_SHARE:
            self._drained.set()

    def _clear(self) -> None:
        self._waiting.clear()
        self._give(self._bytes)

    async def next(self) -> bytes | None:
        """The next message to send, serialised; None when the stream is closed and all is sent."""
        while not self._waiting:
            if self._closed.is_set():
                return None
            self._changed.clear()
            await self._changed.wait()
        data = self._waiting.popleft()
        self._give(len(data) + _OVERHEAD)
        return data

    async def closed(self) -> None:
        """Wait until no more messages will come."""
        await self._closed.wait()

    async def drained(self) -> None:
        """Wait while much is unsent: a client that does not read is not listened to either."""
        await self._drained.wait()

    def close(self, reason: Refused | None = None) -> None:
        """No more messages will come; `reason`: the server ends the stream with that status."""
        self.reason = self.reason or reason
        self._closed.set()
        self._changed.set()
        self._drained.set()

    def discard(self) -> None:
        """The stream is gone: what waits for it goes as well."""
        self.close()
        self._clear()
