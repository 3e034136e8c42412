# SPDX-License-Identifier: Apache-2.0
"""Captures: one pcapng file a port, written by a thread from what the loop took down.

Who looks while it goes on sees what is older than a second; after `close` every file is complete. Where there is no
room any more a file ends with the last packet that is in it as a whole.
The loop waits when the writer is far behind, so a capture has no holes; `Network.lag_ps` shows what that costs.
"""

from __future__ import annotations

import logging
import os
import struct
import time
from collections.abc import Callable, Container
from pathlib import Path
from urllib.parse import quote

from detour.base.errors import DetourError, WriteError
from detour.base.files import naming
from detour.engine.loop.layout import UP_SENT
from detour.engine.upcalls import Backlog, records

_FLUSH_BYTES = 1 << 18
_FLUSH_S = 1.0
_FILE_CHARACTERS = " !#$&'()*+,:;=?@[]"  # and letters, digits, `_.-~`
_MAX_PENDING_BYTES = 256 << 20
_log = logging.getLogger(__name__)

# -- the pcapng file format, as much as captures need: one section, one interface, enhanced packet blocks

_LINKTYPE_ETHERNET = 1
_OPTION_END = struct.pack("<HH", 0, 0)
_IF_NAME, _IF_TSRESOL, _EPB_FLAGS = 2, 9, 2
_NANOSECONDS = 9
INBOUND = 1
OUTBOUND = 2


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def _option(code: int, value: bytes) -> bytes:
    return struct.pack("<HH", code, len(value)) + _padded(value)


def _block(kind: int, body: bytes) -> bytes:
    length = struct.pack("<I", 12 + len(body))
    return struct.pack("<I", kind) + length + body + length


def capture_header(interface: str) -> bytes:
    """Section header and the description of an Ethernet interface whose time stamps are in ns."""
    section = struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)
    options = _option(_IF_NAME, interface.encode()) + _option(_IF_TSRESOL, bytes([_NANOSECONDS])) + _OPTION_END
    description = struct.pack("<HHI", _LINKTYPE_ETHERNET, 0, 0) + options
    return _block(0x0A0D0D0A, section) + _block(1, description)


def packet_block(time_ns: int, direction: int, frame: bytes, wire_length: int) -> bytes:
    """A captured frame; `direction` is `INBOUND` or `OUTBOUND`, `wire_length` counts elided payload as well."""
    head = struct.pack("<IIIII", 0, time_ns >> 32, time_ns & 0xFFFFFFFF, len(frame), wire_length)
    flags = struct.pack("<HHIHH", _EPB_FLAGS, 4, direction, 0, 0)
    return _block(6, head + _padded(frame) + flags)


# -- files


def capture_file(name: str) -> str:
    """The file of a port's capture, by the port's name; `%2F` for what no file's name can have."""
    return f"{quote(name, safe=_FILE_CHARACTERS)}.pcapng"


class CaptureFiles:
    """Files that grow by whole packets. Data of a file is collected and appended from time to time, so that thousands
    of them need not be open. Methods raise what `naming` does."""

    def __init__(self) -> None:
        self._buffers: dict[Path, bytearray] = {}
        self._flushed = 0.0

    def make(self, path: Path, head: bytes) -> None:
        """An empty capture; there is none if its head cannot be written."""
        with naming(path):
            path.write_bytes(b"")
            try:
                _append(path, head)
            except OSError:
                path.unlink()
                raise

    def add(self, path: Path, packet: bytes) -> None:
        buffer = self._buffers.setdefault(path, bytearray())
        buffer += packet
        if len(buffer) > _FLUSH_BYTES:
            self._flush(path, buffer)

    def flush(self, seconds: float = 0.0) -> None:
        """Write what there is, if the last time was so long ago."""
        if time.monotonic() - self._flushed >= seconds:
            for path, buffer in self._buffers.items():
                self._flush(path, buffer)
            self._flushed = time.monotonic()

    def _flush(self, path: Path, buffer: bytearray) -> None:
        if buffer:
            with naming(path):
                _append(path, buffer)
            buffer.clear()


def _append(path: Path, data: bytes | bytearray) -> None:
    """Append all of it, or nothing."""
    with path.open("ab", buffering=0) as file:
        begin, rest = file.seek(0, os.SEEK_END), memoryview(data)
        try:
            while rest:
                rest = rest[file.write(rest) :]
        except OSError:
            file.truncate(begin)
            raise
        finally:
            rest.release()


class Capture:
    """Writes files into `folder`, named `<name>.pcapng` by what `name_of(port index)` says. Every file is complete
    after `close`. `error`: what has ended the writing, if anything has."""

    def __init__(
        self, folder: Path, name_of: Callable[[int], str], epoch_ns: int = 0, only: Container[str] | None = None
    ) -> None:
        """`epoch_ns`: what stamps count from, ns since 1970, when the loop's time is 0. `only`: names of ports that are
        wanted (None: all)."""
        self._epoch_ns, self._only = epoch_ns, only
        self._open: set[int] = set()
        self._folder = folder
        self._name_of = name_of
        self._files = CaptureFiles()
        self._backlog = Backlog("capture", self._work, _MAX_PENDING_BYTES)
        self.error: DetourError | None = None
        with naming(folder):
            folder.mkdir(parents=True, exist_ok=True)

    def open_port(self, port: int) -> None:
        """Make the file of a port (also if it never sees a frame), if that is wanted. Before frames of that port are
        put."""
        if self._only is not None and self._name_of(port) not in self._only:
            return
        self._open.add(port)
        self._files.make(self._path(port), capture_header(self._name_of(port)))

    def _path(self, port: int) -> Path:
        return self._folder / capture_file(self._name_of(port))

    def put(self, chunk: bytes) -> None:
        """Take a log of the loop; wait while the writer is far behind."""
        self._backlog.put(chunk, wait=True)

    def close(self) -> None:
        """Complete all files; an error that happened on the way is raised here."""
        self._backlog.close()
        if self.error is None:
            self._write(self._files.flush)
        if self.error is not None:
            raise self.error

    def _write(self, write: Callable[[], None]) -> None:
        try:
            write()
        except DetourError as error:
            self.error = incomplete(self._folder, error)

    def _work(self, chunk: bytes) -> None:
        """In the thread."""
        if self.error is None:
            self._write(lambda: self._collect(chunk))

    def _collect(self, chunk: bytes) -> None:
        for record in records(chunk):
            if record.index not in self._open:
                continue
            direction = OUTBOUND if record.kind == UP_SENT else INBOUND
            packet = packet_block(self._epoch_ns + record.time_ps // 1000, direction, record.data, record.wire)
            self._files.add(self._path(record.index), packet)
        self._files.flush(_FLUSH_S)


def incomplete(folder: Path, error: DetourError) -> WriteError:
    """Return the error that ended the writing of captures, and log it."""
    cause = WriteError(f"captures in {folder} are incomplete since {time.strftime('%H:%M:%S')}: {error}")
    _log.error("%s", cause)
    return cause
