# SPDX-License-Identifier: Apache-2.0
"""Captures on Linux interfaces: one pcapng file each, as the engine writes them for its ports."""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from detour.base.errors import DetourError
from detour.base.files import naming
from detour.engine.capture import (
    INBOUND,
    OUTBOUND,
    CaptureFiles,
    capture_file,
    capture_header,
    incomplete,
    packet_block,
)
from detour.fabric.linux.netns import Namespace

_ETH_P_ALL = 0x0003
_PACKET_OUTGOING = 4
_BUFFER_BYTES = 4 << 20
_LONGEST = 65536
_FLUSH_S = 1.0


class Sniffer:
    """Writes what passes interfaces of a namespace into `folder`, from now until `close`."""

    def __init__(self, namespace: Namespace, interfaces: Mapping[str, str], folder: Path) -> None:
        """`interfaces`: name of the capture -> interface. Raises DetourError: a file cannot be written."""
        self._taps: dict[int, tuple[socket.socket, Path]] = {}
        self._folder, self._files = folder, CaptureFiles()
        self.error: DetourError | None = None
        """what has ended the writing, if anything has"""
        self._poll = select.epoll()
        self._wake, self._waker = socket.socketpair()
        self._poll.register(self._wake.fileno(), select.EPOLLIN)
        self._thread = threading.Thread(target=self._run, name="sniffer", daemon=True)
        try:
            with naming(folder):
                folder.mkdir(parents=True, exist_ok=True)
                for name, interface in interfaces.items():
                    path = folder / capture_file(name)
                    self._files.make(path, capture_header(name))
                    sock = namespace.run(_open, interface)
                    self._taps[sock.fileno()] = sock, path
                    self._poll.register(sock.fileno(), select.EPOLLIN)
        except DetourError:
            self._release()
            raise
        self._thread.start()

    def _run(self) -> None:
        try:
            while True:
                for fd, _ in self._poll.poll(_FLUSH_S):
                    if fd == self._wake.fileno():
                        self._drain()
                        return
                    self._take(fd)
                self._files.flush(_FLUSH_S)
        except DetourError as error:
            self.error = incomplete(self._folder, error)

    def _take(self, fd: int) -> bool:
        sock, path = self._taps[fd]
        try:
            frame, sender = sock.recvfrom(_LONGEST)
        except BlockingIOError:
            return False
        direction = OUTBOUND if sender[2] == _PACKET_OUTGOING else INBOUND
        self._files.add(path, packet_block(time.time_ns(), direction, frame, len(frame)))
        return True

    def _drain(self) -> None:
        """Take in the frames that arrived before the end, which belong to the capture."""
        for fd in self._taps:
            while self._take(fd):
                pass
        self._files.flush()

    def close(self) -> None:
        """Complete the files; an error that happened on the way is raised here. May be called twice."""
        if self._thread.is_alive():
            self._waker.send(b"x")
            self._thread.join()
        self._release()
        error, self.error = self.error, None
        if error is not None:
            raise error

    def _release(self) -> None:
        for sock, _ in self._taps.values():
            sock.close()
        self._taps = {}
        self._wake.close()
        self._waker.close()
        self._poll.close()


def _open(interface: str) -> socket.socket:
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK, 0)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
    sock.bind((interface, _ETH_P_ALL))
    return sock
