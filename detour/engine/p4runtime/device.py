# SPDX-License-Identifier: Apache-2.0
"""One switch as P4Runtime knows it, a device. Belongs to the event loop's thread, but for what runs in `work`."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

from finsy.proto import p4r

from detour.engine.p4runtime.arbitration import FULL_ACCESS, Arbiter, RoleConfig
from detour.engine.p4runtime.digests import Digester
from detour.engine.p4runtime.entities.common import Ids
from detour.engine.p4runtime.entities.table_read import any_ageing, idle_notifications
from detour.engine.p4runtime.errors import Code, Refused, log
from detour.engine.p4runtime.limits import Budgets, Limits
from detour.engine.p4runtime.pipeline import Pipelines
from detour.engine.p4runtime.session import StreamSession
from detour.engine.p4runtime.store import EntityStore
from detour.engine.target import TargetSwitch

T = TypeVar("T")
_QUANTUM_S = 0.002  # for packet-ins and digests
_PAUSE = 12  # iterations of the event loop after a delivery; one in which nothing happens takes 20 us
_RECORD_BYTES = 128  # of a frame or digest in the inbox, beside its bytes


class RoundRobin:
    """Devices hand packet-ins and digests to streams in turn, and everybody else runs in between: gRPC accepts one call
    in each iteration of the event loop. If a device delivered in each iteration, then a flood of packet-ins would let
    in one call a delivery."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: dict[Callable[[], bool], None] = {}  # in order; each once, however often it asks
        self._running = False

    def ask(self, deliver: Callable[[], bool]) -> None:
        """Call `deliver` when it is due, and again for as long as it returns True (there is more)."""
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


class P4Device:
    """State and notifications of one device.

    `writing` is held by whoever changes anything, from begin to end of the request. That makes requests serializable,
    as the spec wants, and lets a new primary wait for the writes of its predecessor. `lock` is held by whoever reads,
    and by whoever changes what is read: a large Write takes it to copy what it will change, and Reads see the copy,
    `before`, until it is done.
    """

    def __init__(
        self,
        device_id: int,
        target: TargetSwitch,
        loop: asyncio.AbstractEventLoop,
        work: Callable[[Callable[[], Any]], Awaitable[Any]],
        on_change: Callable[[P4Device], None],
        promote_backup: bool,
        budgets: Budgets | None = None,
        round_robin: RoundRobin | None = None,
    ) -> None:
        """`work` runs a function in a worker thread; `on_change` is called at the end of each request that may have
        changed something; budgets and round robin are shared by the devices of a server."""
        self.id, self.target = device_id, target
        self.writing, self.lock = asyncio.Lock(), asyncio.Lock()
        self.before: EntityStore | None = None
        self._budgets = budgets or Budgets(Limits())
        self.arbiter = Arbiter(device_id, self._drain, promote_backup, self._budgets)
        self.pipelines = Pipelines(target)
        self._on_change = on_change
        self._loop, self._work, self._round_robin = loop, work, round_robin or RoundRobin(loop)
        self._digester: Digester | None = None
        self._digested: EntityStore | None = None
        self._inbox: deque[tuple[int, bytes, int]] = deque()
        self._scheduled = False
        self.dropped = 0
        self._tasks: set[asyncio.Future[Any]] = set()
        target.listen(partial(self._post, -1), self._post)

    async def _drain(self) -> None:
        async with self.writing:
            pass

    @property
    def readable(self) -> EntityStore:
        """The state that Reads see: without Writes that are under way."""
        return self.before or self.pipelines.store

    def ids(self, role: str, config: RoleConfig) -> Ids:
        """The objects that a role may write and read: as its config says, else as the program's annotations do."""
        return self.pipelines.store.schema.ids_of(role) if config is FULL_ACCESS else config.ids

    def sees(self, role: str, config: RoleConfig, id_: int) -> bool:
        """Return whether a role gets notifications of that object."""
        ids = self.ids(role, config)
        return ids is None or id_ in ids

    async def exclusively(self, request: Callable[[], Awaitable[T]], *locks: asyncio.Lock) -> T:
        """Await a request while nobody else has the locks (both, unless some are given). It runs in a task of its own:
        a client that goes away cancels its call, but what has begun is finished. What has not is never begun."""
        begun = False
        locks = locks or (self.writing, self.lock)

        async def locked() -> T:
            nonlocal begun
            async with contextlib.AsyncExitStack() as held:
                for lock in locks:
                    await held.enter_async_context(lock)
                begun = True
                if self.writing in locks:
                    held.callback(self._on_change, self)
                return await request()

        task = asyncio.ensure_future(locked())
        self._tasks.add(task)  # the event loop itself keeps no reference
        task.add_done_callback(self._done)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if not begun:
                task.cancel()
            raise

    def _done(self, task: asyncio.Future[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # nobody may be left to hear of it

    def close(self) -> None:
        """No more notifications."""
        self.target.listen(None, None)
        self._empty_inbox()
        if self._digester is not None:
            self._digester.close()

    # -- from the network's threads to the event loop

    def _post(self, kind: int, data: bytes, time_ps: int) -> None:
        """Take a digest of the list `kind`, or for -1 a packet-in. One wake-up for all that comes until the event loop
        gets to it."""
        if not self._budgets.inbox.take(len(data) + _RECORD_BYTES):
            if not self.dropped:
                log.warning("device %d: packet-ins and digests come faster than they can be sent", self.id)
            self.dropped += 1
            return
        self._inbox.append((kind, data, time_ps))
        if not self._scheduled:
            self._scheduled = True
            try:
                self._loop.call_soon_threadsafe(self._round_robin.ask, self._deliver)
            except RuntimeError:  # the server stops
                self._empty_inbox()

    def _empty_inbox(self) -> None:
        while self._inbox:
            self._take()

    def _take(self) -> tuple[int, bytes, int]:
        kind, data, time_ps = self._inbox.popleft()
        self._budgets.inbox.give(len(data) + _RECORD_BYTES)
        return kind, data, time_ps

    def _deliver(self) -> bool:
        """Hand on what came, for one quantum; True if there is more."""
        end = self._loop.time() + _QUANTUM_S
        while self._loop.time() < end:
            if not self._inbox:
                self._scheduled = False
                return bool(self._inbox)  # what came just before the mark was taken away woke nobody
            kind, data, time_ps = self._take()
            if kind < 0:
                self._deliver_packet(data)
            elif (digester := self._current_digester()) is not None:
                digester.take(kind, data, time_ps)
        return True

    def _current_digester(self) -> Digester | None:
        """The one for the live store; pipelines are committed in other threads, so it follows here."""
        live = self.pipelines.live
        if live is not self._digested:
            if self._digester is not None:
                self._digester.close()
            stamp, budget = self.target.stamp_ns, self._budgets.digests
            self._digester = Digester(live, self._deliver_digests, budget, stamp) if live is not None else None
            self._digested = live
        return self._digester

    def _deliver_packet(self, frame: bytes) -> None:
        live = self.pipelines.live
        message = p4r.StreamMessageResponse()
        if live is None or not live.schema.packet_in.unpack(frame, message.packet):
            return
        live.translation.outward(message.packet)
        data = b""
        for session, config in self.arbiter.primaries():
            if config.wants(message.packet):
                data = data or message.SerializeToString()
                session.send(data)

    def _deliver_digests(self, message: p4r.DigestList) -> None:
        response = p4r.StreamMessageResponse(digest=message).SerializeToString()
        for session, config in self.arbiter.primaries():
            if self.sees(session.role_name, config, message.digest_id):
                session.send(response)

    # -- idle time-outs

    @property
    def ages(self) -> bool:
        """Return whether any entry has an idle time-out."""
        live = self.pipelines.live
        return live is not None and any_ageing(live)

    async def scan_idle(self) -> None:
        """Notify of entries that are idle for too long."""
        live = self.pipelines.live
        if live is None:
            return
        for message in await self.exclusively(
            lambda: self._work(lambda: idle_notifications(live, self.target.stamp_ns()))
        ):
            for entry in message.table_entry:
                live.translation.outward(entry)
            response = p4r.StreamMessageResponse(idle_timeout_notification=message).SerializeToString()
            for session, config in self.arbiter.primaries():
                if self.sees(session.role_name, config, message.table_entry[0].table_id):
                    session.send(response)

    # -- what a stream sends

    async def packet_out(self, session: StreamSession, packet: p4r.PacketOut) -> None:
        """Send a packet; raise Refused for a StreamError. A stream's packets keep their order: it waits."""
        self._require_primary(session)
        live = self.pipelines.live
        if live is None:
            raise Refused(Code.FAILED_PRECONDITION, "no forwarding pipeline config has been committed")
        metadata = live.translation.inward(packet, p4r.Update.INSERT).metadata
        frame = live.schema.packet_out.pack(metadata) + packet.payload
        await self._work(lambda: self.target.packet_out(frame))

    def digest_ack(self, session: StreamSession, ack: p4r.DigestListAck) -> None:
        """Note an acknowledgement; raise Refused for a StreamError."""
        self._require_primary(session)
        digester = self._current_digester()
        if digester is None or not digester.acknowledge(ack):
            raise Refused(Code.INVALID_ARGUMENT, f"there is no digest with id {ack.digest_id:#x} in P4Info")

    def _require_primary(self, session: StreamSession) -> None:
        if not self.arbiter.is_primary(session):
            raise Refused(Code.PERMISSION_DENIED, "only the primary may do this")
