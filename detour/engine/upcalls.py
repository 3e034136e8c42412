# SPDX-License-Identifier: Apache-2.0
"""The loop's logs (`detour.engine.loop.log`) in Python, and callbacks for packet-ins, digests and sinks.

In real time a thread runs them, so that a slow controller does not hold up the fabric; what exceeds its backlog is
dropped and counted. In virtual time they run in the loop's thread at the very event, so that
what they do happens at that time, every time.
"""

from __future__ import annotations

import logging
import struct
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from detour.base.interrupting import join_thread
from detour.engine.loop.layout import UpcallRecord

_MAX_PENDING_BYTES = 64 << 20
_log = logging.getLogger(__name__)
_HEAD = struct.Struct("=7q")


class Record(NamedTuple):
    """One record: `index` is a port or a switch of the loop, `detail` depends on `kind`, `wire` in bytes."""

    kind: int
    index: int
    detail: int
    time_ps: int
    wire: int
    data: bytes


def records(chunk: bytes) -> Iterator[Record]:
    assert _HEAD.size == UpcallRecord.dtype.itemsize
    at = 0
    while at < len(chunk):
        size, kind, index, detail, time, length, wire = _HEAD.unpack_from(chunk, at)
        begin = at + _HEAD.size
        yield Record(kind, index, detail, time, wire, chunk[begin : begin + length])
        at += size


RecordHandler = Callable[[Record], None]


class Backlog:
    """Chunks that a thread works on, one after the other; it is started with the first. At most so many bytes wait.
    `work` must not raise."""

    def __init__(self, name: str, work: Callable[[bytes], None], most_bytes: int) -> None:
        self._name, self._work, self._most = name, work, most_bytes
        self._chunks: deque[bytes] = deque()
        self._pending = 0
        self._closing = False
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def put(self, chunk: bytes, wait: bool = False) -> bool:
        """Take a chunk; False: too many bytes wait already. `wait`: until they do not."""
        with self._changed:
            if wait:
                self._changed.wait_for(lambda: self._pending <= self._most)
            elif self._pending + len(chunk) > self._most:
                return False
            self._chunks.append(chunk)
            self._pending += len(chunk)
            if self._thread is None:
                self._closing = False
                self._thread = threading.Thread(target=self._serve, name=self._name, daemon=True)
                self._thread.start()
            self._changed.notify_all()
            return True

    def flush(self, timeout_s: float) -> bool:
        """Wait until everything that was put has been worked on; False if that takes longer."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._pending, timeout_s)

    def close(self) -> None:
        """Work on what is left and end the thread."""
        with self._changed:
            thread, self._thread = self._thread, None
            self._closing = True
            self._changed.notify_all()
        if thread is not None and thread is not threading.current_thread():
            join_thread(thread)

    def _serve(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._chunks or self._closing)
                if not self._chunks:
                    return
                chunk = self._chunks.popleft()
            self._work(chunk)
            with self._changed:
                self._pending -= len(chunk)
                self._changed.notify_all()


class Upcalls:
    """Hands records to the handler registered for their (kind, index); errors of handlers are logged."""

    def __init__(self, inline: bool) -> None:
        self.handlers: dict[tuple[int, int], RecordHandler] = {}
        self.drops = 0
        self._inline = inline
        self._backlog = Backlog("upcalls", self._handle, _MAX_PENDING_BYTES)
        self.flush, self.close = self._backlog.flush, self._backlog.close

    def put(self, chunk: bytes) -> None:
        if self._inline:
            self._handle(chunk)
        elif not self._backlog.put(chunk):
            self.drops += sum(1 for _ in records(chunk))

    def _handle(self, chunk: bytes) -> None:
        for record in records(chunk):
            handler = self.handlers.get((record.kind, record.index))
            if handler is None:
                self.drops += 1
                continue
            try:
                handler(record)
            except Exception:
                _log.exception("a callback for a frame or digest failed")
