# SPDX-License-Identifier: Apache-2.0
"""Limits of the memory that clients and packets can make the server hold, in bytes.

Everything that waits for somebody (a controller that reads, a worker, the lock of a device) is counted, since whoever
it waits for may never come. The budgets are those of a server: its devices share them.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from detour.engine.endpoint import MAX_MESSAGE_BYTES, RPCS
from detour.engine.p4runtime.errors import Code, Refused

_MIB = 1 << 20


@dataclass(frozen=True)
class Limits:
    """Budgets in bytes, but for what says otherwise."""

    message: int = MAX_MESSAGE_BYTES
    """the longest request; p4c's JSON with P4Info is below 10 MiB in every program that is known to us"""
    stream_message: int = _MIB
    """the longest message of a stream; frames are shorter by far"""
    batch: int = 1 << 18
    """updates or entities in a request (not bytes)"""
    receiving: int = 3
    """requests, and first messages of streams, that are received at the same time (not bytes); the others wait in
    their connections"""
    receive_s: float = 60.0
    """seconds that a request may take to arrive"""
    requests: int = 32 * _MIB
    """requests that have come and are not answered"""
    working: int = 128 * _MIB
    """requests taken apart, while they are carried out"""
    stream: int = 8 * _MIB
    """messages that wait for the controller at the other end of one stream"""
    streams: int = 64 * _MIB
    """... of all streams"""
    inbox: int = 32 * _MIB
    """packet-ins and digests on their way from the data plane to streams"""
    digests: int = 32 * _MIB
    """digests that wait for their list to be full, or for its acknowledgement"""
    reads: int = 96 * _MIB
    """snapshots and pieces of answers of Reads that are under way"""
    patience_s: float = 60.0
    """seconds that a Read or Write waits for room"""
    roles: int = 16 * _MIB
    """roles that controllers hold, with their configs"""
    role_name: int = 255
    """the longest name of a role"""
    role_config: int = 64 << 10
    """the longest config of a role"""
    vacated_roles: int = 256
    """roles of a device that nobody holds and whose highest election id is remembered (not bytes)"""
    rpcs: int = RPCS
    """calls, streams among them, at the same time (not bytes)"""


class Budget:
    """Bytes that may be held at once for one purpose. Any thread may use it."""

    def __init__(self, limit: int) -> None:
        self.limit, self.held, self.peak = limit, 0, 0
        self._lock = threading.Lock()

    def take(self, size: int) -> bool:
        """Take bytes; False, and nothing is taken, if there are not so many left."""
        with self._lock:
            if self.held + size > self.limit:
                return False
            self.held += size
            self.peak = max(self.peak, self.held)
            return True

    def require(self, size: int) -> None:
        """Take bytes; RESOURCE_EXHAUSTED if there are not so many left."""
        if not self.take(size):
            raise Refused(Code.RESOURCE_EXHAUSTED, "too many requests wait for an answer; try again")

    def give(self, size: int) -> None:
        """Give bytes back."""
        with self._lock:
            self.held -= size

    @contextmanager
    def holding(self, size: int) -> Iterator[None]:
        """`require`, for as long as the block lasts."""
        self.require(size)
        try:
            yield
        finally:
            self.give(size)


class Lane:
    """A budget for which tasks of the event loop queue, first come, first served. What alone exceeds the limit is let
    in when nobody else is inside: it is one request, and those have limits."""

    def __init__(self, limit: int, patience_s: float, what: str) -> None:
        """`what` names the purpose in the refusal."""
        self.limit, self.held = limit, 0
        self._patience_s, self._what = patience_s, what
        self._queue: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def enter(self, size: int) -> None:
        """Take bytes, as soon as there are so many left; RESOURCE_EXHAUSTED if that takes too long."""
        if not size:
            return
        if not self._queue and self._fits(size):
            self.held += size
            return
        place = (size, asyncio.get_running_loop().create_future())
        self._queue.append(place)
        try:
            await asyncio.wait_for(asyncio.shield(place[1]), self._patience_s)
        except BaseException as error:
            if place[1].done():
                self.leave(size)  # it was its turn at that very moment
            else:
                self._queue.remove(place)
                self._admit()
            if isinstance(error, TimeoutError):
                raise Refused(
                    Code.RESOURCE_EXHAUSTED, f"{self._what}: no memory became free within {self._patience_s:g} s"
                ) from None
            raise

    def leave(self, size: int) -> None:
        """Give bytes back."""
        self.held -= size
        self._admit()

    def _fits(self, size: int) -> bool:
        return not self.held or self.held + size <= self.limit

    def _admit(self) -> None:
        while self._queue and self._fits(self._queue[0][0]):
            size, turn = self._queue.popleft()
            self.held += size
            turn.set_result(None)


class Budgets:
    """The budgets of one server."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.requests = Budget(limits.requests)
        self.streams = Budget(limits.streams)
        self.inbox = Budget(limits.inbox)
        self.digests = Budget(limits.digests)
        self.roles = Budget(limits.roles)
        self.working = Lane(limits.working, limits.patience_s, "too many large requests at once")
        self.reads = Lane(limits.reads, limits.patience_s, "too many Reads at once")
