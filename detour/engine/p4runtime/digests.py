# SPDX-License-Identifier: Apache-2.0
"""From digests of packets to DigestList messages (spec, "DigestEntry"). Belongs to the event loop's thread.

Duplicates are left out: those in the list that is being filled, and those that were sent and are neither
acknowledged nor older than the ack time-out. Time-outs go by the wall clock, since it is the controllers that wait;
a list is stamped with the time of its latest digest, in virtual time with that.

What is remembered is counted in bytes. When the budget is used up, the oldest list that waits for its acknowledgement
is forgotten, as if its time had passed: the same digest may come again then, which the spec lets happen.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from finsy.proto import p4r

from detour.engine.p4runtime.errors import log
from detour.engine.p4runtime.limits import Budget, Limits
from detour.engine.p4runtime.schema import Digest
from detour.engine.p4runtime.store import EntityStore

_MAX_BUFFER = 1 << 12  # digests in a list at most, whatever the client wants
_DIGEST_BYTES = 256  # of a digest that is remembered, beside its bytes
_LIST_BYTES = 512  # of a list


@dataclass(slots=True)
class _Stream:
    """One digest that is enabled. `sent` has list id -> (when, data); `unacknowledged` is all data in it."""

    info: Digest
    widths: tuple[int, ...]
    buffer: dict[bytes, None] = field(default_factory=dict)
    timer: asyncio.TimerHandle | None = None
    sent: dict[int, tuple[float, list[bytes]]] = field(default_factory=dict)
    latest_ps: int | None = None
    unacknowledged: set[bytes] = field(default_factory=set)


class Digester:
    """All digests of one device under one store. `deliver` hands a list to the primaries."""

    def __init__(
        self,
        store: EntityStore,
        deliver: Callable[[p4r.DigestList], None],
        budget: Budget | None = None,
        stamp: Callable[[int | None], int] = lambda _: time.time_ns(),
    ) -> None:
        """`stamp`: timestamp of a list whose latest digest is of that loop time."""
        self._store, self._deliver, self._stamp = store, deliver, stamp
        self._budget = budget or Budget(Limits().digests)
        self._next_list = 0
        self._streams: dict[int, _Stream] = {}
        for info in store.schema.digests.values():
            if info.type is not None:
                widths = tuple((leaf.bits + 7) // 8 for leaf in info.type.leaves())
                self._streams[info.list_id] = _Stream(info, widths)
        self._by_id = {s.info.id: s for s in self._streams.values()}

    def take(self, list_id: int, data: bytes, time_ps: int | None = None) -> None:
        """A packet caused a digest, at that loop time."""
        stream = self._streams.get(list_id)
        if stream is None:
            return
        stream.latest_ps = time_ps
        config = self._store.digests.get(stream.info.id)
        if config is None:
            self._forget(stream)
            return
        self._expire(stream, config.ack_timeout_ns)
        if data in stream.buffer or data in stream.unacknowledged:
            return
        if len(data) != sum(stream.widths):
            log.error("digest %s: %d bytes instead of %d", stream.info.name, len(data), sum(stream.widths))
            return
        if not self._room(stream, len(data) + _DIGEST_BYTES):
            return  # "The P4Runtime server may drop digest messages" (spec, "DigestEntry")
        stream.buffer[data] = None
        limit = min(config.max_list_size or _MAX_BUFFER, _MAX_BUFFER)
        if len(stream.buffer) >= limit or not config.max_timeout_ns:
            self._send(stream, config)
        elif stream.timer is None:
            loop = asyncio.get_running_loop()
            stream.timer = loop.call_later(config.max_timeout_ns / 1e9, self._timeout, stream)

    def _timeout(self, stream: _Stream) -> None:
        stream.timer = None
        config = self._store.digests.get(stream.info.id)
        if config is None:
            self._forget(stream)
        elif stream.buffer:
            self._send(stream, config)

    def _send(self, stream: _Stream, config: p4r.DigestEntry.Config) -> None:
        if stream.timer is not None:
            stream.timer.cancel()
            stream.timer = None
        self._next_list += 1
        message = p4r.DigestList(
            digest_id=stream.info.id, list_id=self._next_list, timestamp=self._stamp(stream.latest_ps)
        )
        data = list(stream.buffer)
        stream.buffer.clear()
        size = sum(map(len, data)) + len(data) * _DIGEST_BYTES
        assert stream.info.type is not None
        for each in data:
            stream.info.type.encode(_integers(each, stream.widths), message.data.add())
        if config.ack_timeout_ns and self._room(stream, _LIST_BYTES):
            stream.sent[self._next_list] = (time.monotonic(), data)
            stream.unacknowledged.update(data)
        else:
            self._budget.give(size)
        self._deliver(message)

    def _room(self, stream: _Stream, size: int) -> bool:
        """Take bytes of the budget, if need be from the stream's oldest lists."""
        while not self._budget.take(size):
            if not stream.sent:
                return False
            self._drop(stream, next(iter(stream.sent)))
        return True

    def _expire(self, stream: _Stream, ack_timeout_ns: int) -> None:
        oldest = time.monotonic() - ack_timeout_ns / 1e9
        while stream.sent:
            list_id = next(iter(stream.sent))
            if stream.sent[list_id][0] > oldest:
                return
            self._drop(stream, list_id)

    def _drop(self, stream: _Stream, list_id: int) -> None:
        _, data = stream.sent.pop(list_id)
        stream.unacknowledged.difference_update(data)
        self._budget.give(_LIST_BYTES + sum(map(len, data)) + len(data) * _DIGEST_BYTES)

    def _forget(self, stream: _Stream) -> None:
        """The digest was disabled."""
        self._budget.give(sum(map(len, stream.buffer)) + len(stream.buffer) * _DIGEST_BYTES)
        stream.buffer.clear()
        for list_id in list(stream.sent):
            self._drop(stream, list_id)

    def acknowledge(self, ack: p4r.DigestListAck) -> bool:
        """False if there is no such digest. A list that is not known may have expired."""
        stream = self._by_id.get(ack.digest_id)
        if stream is None:
            return ack.digest_id in self._store.schema.digests
        if ack.list_id in stream.sent:
            self._drop(stream, ack.list_id)
        return True

    def close(self) -> None:
        """Stop timers and forget everything."""
        for stream in self._streams.values():
            if stream.timer is not None:
                stream.timer.cancel()
            self._forget(stream)


def _integers(data: bytes, widths: tuple[int, ...]):  # type: ignore[no-untyped-def]
    """The fields of a serialised digest."""
    at = 0
    for width in widths:
        yield int.from_bytes(data[at : at + width], "big")
        at += width
