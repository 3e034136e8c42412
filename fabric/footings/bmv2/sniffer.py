# SPDX-License-Identifier: Apache-2.0
"""Captures on Linux interfaces: one pcapng file each, as the engine writes them for its ports."""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

from detour.base.errors import DetourError
from detour.engine import pcapng
from detour.fabric.footings.bmv2.netns import Namespace

_ETH_P_ALL = 0x0003
_PACKET_OUTGOING = 4
_BUFFER_BYTES = 4 << 20
_LONGEST = 65536


class Sniffer:
    """Writes what passes interfaces of a namespace into `folder`, from now until `close`."""

    def __init__(self, namespace: Namespace, interfaces: Mapping[str, str], folder: Path) -> None:
        """`interfaces`: name of the capture -> interface.

        Raises:
            DetourError: a file cannot be written.
        """
        self._taps: dict[int, tuple[socket.socket, BinaryIO]] = {}
        self._poll = select.epoll()
        self._wake, self._waker = socket.socketpair()
        self._poll.register(self._wake.fileno(), select.EPOLLIN)
        self._thread = threading.Thread(target=self._run, name="sniffer", daemon=True)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for name, interface in interfaces.items():
                file = (folder / f"{name}.pcapng").open("wb")
                file.write(pcapng.header(name))
                sock = namespace.run(_open, interface)
                self._taps[sock.fileno()] = sock, file
                self._poll.register(sock.fileno(), select.EPOLLIN)
        except OSError as error:
            self._release()
            raise DetourError(f"captures cannot be written to {folder}: {error.strerror}") from None
        self._thread.start()

    def _run(self) -> None:
        while True:
            for fd, _ in self._poll.poll():
                if fd == self._wake.fileno():
                    self._drain()
                    return
                self._take(fd)

    def _take(self, fd: int) -> bool:
        sock, file = self._taps[fd]
        try:
            frame, sender = sock.recvfrom(_LONGEST)
        except BlockingIOError:
            return False
        direction = pcapng.OUTBOUND if sender[2] == _PACKET_OUTGOING else pcapng.INBOUND
        file.write(pcapng.packet(time.time_ns(), direction, frame, len(frame)))
        return True

    def _drain(self) -> None:
        """What had arrived before the end belongs to the capture."""
        for fd in self._taps:
            while self._take(fd):
                pass

    def close(self) -> None:
        """Completes the files. May be called twice."""
        if self._thread.is_alive():
            self._waker.send(b"x")
            self._thread.join()
        self._release()

    def _release(self) -> None:
        for sock, file in self._taps.values():
            sock.close()
            file.close()
        self._taps = {}
        self._wake.close()
        self._waker.close()
        self._poll.close()


def _open(interface: str) -> socket.socket:
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK, 0)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
    sock.bind((interface, _ETH_P_ALL))
    return sock
