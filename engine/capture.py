# SPDX-License-Identifier: Apache-2.0
"""Captures: one pcapng file a port, written by a thread from what the loop took down.

Who looks while it goes on sees what is older than a second; after `close` every file is complete.
The loop waits when the writer is far behind, so a capture has no holes; `Network.lag_ps` shows what that costs.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Container
from pathlib import Path

from detour.base.errors import DetourError
from detour.engine import pcapng
from detour.engine.loop.layout import UP_SENT
from detour.engine.records import records

_FLUSH_BYTES = 1 << 18
_FLUSH_S = 1.0
_MAX_PENDING_BYTES = 256 << 20


class Capture:
    """Writes files into `folder`, named `<name>.pcapng` by what `name_of(port index)` says.

    Data of a port is collected and appended to its file from time to time, so that thousands of ports need no open
    files. Every file is complete after `close`.
    """

    def __init__(
        self, folder: Path, name_of: Callable[[int], str], epoch_ns: int = 0, only: Container[str] | None = None
    ) -> None:
        """`epoch_ns`: what stamps count from, ns since 1970, when the loop's time is 0. `only`: names of ports that are
        wanted (None: all)."""
        self._epoch_ns, self._only = epoch_ns, only
        self._open: set[int] = set()
        self._flushed = 0.0
        self._folder = folder
        self._name_of = name_of
        self._buffers: dict[int, bytearray] = {}
        self._chunks: list[bytes] = []
        self._pending = 0
        self._closing = False
        self._error: OSError | None = None
        self._changed = threading.Condition()
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DetourError(f"captures cannot be written to {folder}: {error.strerror}") from None
        self._thread = threading.Thread(target=self._write, name="capture", daemon=True)
        self._thread.start()

    def open_port(self, port: int) -> None:
        """Makes the file of a port (also if it never sees a frame), if that is wanted. Before frames of that port are
        put."""
        if self._only is not None and self._name_of(port) not in self._only:
            return
        self._open.add(port)
        path = self._path(port)
        try:
            path.write_bytes(pcapng.header(self._name_of(port)))
        except OSError as error:
            raise DetourError(f"the capture {path} cannot be written: {error.strerror}") from None

    def _path(self, port: int) -> Path:
        return self._folder / f"{self._name_of(port)}.pcapng"

    def put(self, chunk: bytes) -> None:
        """Takes a log of the loop; waits while the writer is far behind."""
        with self._changed:
            while self._pending > _MAX_PENDING_BYTES and self._error is None:
                self._changed.wait()
            self._chunks.append(chunk)
            self._pending += len(chunk)
            self._changed.notify_all()

    def close(self) -> None:
        """Completes all files. An error of the file system that happened on the way is raised here."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join()
        if self._error is not None:
            raise DetourError(f"captures in {self._folder} are incomplete: {self._error.strerror}")

    def _next_chunks(self) -> list[bytes]:
        with self._changed:
            while not self._chunks and not self._closing:
                self._changed.wait()
            chunks, self._chunks = self._chunks, []
            return chunks

    def _write(self) -> None:
        try:
            while chunks := self._next_chunks():
                for chunk in chunks:
                    self._collect(chunk)
                    with self._changed:
                        self._pending -= len(chunk)
                        self._changed.notify_all()
                if time.monotonic() - self._flushed > _FLUSH_S:
                    self._flush_all()
            self._flush_all()
        except OSError as error:
            with self._changed:
                self._error = error
                self._changed.notify_all()

    def _collect(self, chunk: bytes) -> None:
        for record in records(chunk):
            if record.index not in self._open:
                continue
            buffer = self._buffers.setdefault(record.index, bytearray())
            direction = pcapng.OUTBOUND if record.kind == UP_SENT else pcapng.INBOUND
            buffer += pcapng.packet(self._epoch_ns + record.time_ps // 1000, direction, record.data, record.wire)
            if len(buffer) > _FLUSH_BYTES:
                self._flush(record.index)

    def _flush_all(self) -> None:
        for port, buffer in self._buffers.items():
            if buffer:
                self._flush(port)
        self._flushed = time.monotonic()

    def _flush(self, port: int) -> None:
        with self._path(port).open("ab") as file:
            file.write(self._buffers[port])
        self._buffers[port].clear()
