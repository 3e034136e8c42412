# SPDX-License-Identifier: Apache-2.0
"""Link state of Linux interfaces on ports.

Netlink tells that some interface has changed; then the kernel is asked for the state of each one that is watched. An
interface has a link while it is running (RFC 2863's operational status up or unknown), which is what BMv2 reads from
`/sys/class/net/NAME/operstate`.
"""

from __future__ import annotations

import fcntl
import os
import select
import socket
import struct
import threading
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Generic, NamedTuple, TypeVar

from detour.base.errors import DetourError
from detour.base.interrupting import join_thread

P = TypeVar("P", bound=Hashable)
_RTMGRP_LINK = 1
_SIOCGIFFLAGS, _IFF_RUNNING = 0x8913, 0x40


class CarrierState(NamedTuple):
    """State of an interface: the kernel's number (0: there is none of that name), and whether it is up and has
    carrier."""

    index: int
    up: bool

    @classmethod
    def of(cls, name: str) -> CarrierState:
        """An interface of the calling thread's namespace."""
        request = struct.pack("16sH22x", name.encode(), 0)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock, suppress(OSError):
            flags = struct.unpack_from("H", fcntl.ioctl(sock, _SIOCGIFFLAGS, request), 16)[0]
            return cls(socket.if_nametoindex(name), bool(flags & _IFF_RUNNING))
        return cls(0, False)


class CarrierMonitor(Generic[P]):
    """Watches the interfaces at ports, from a thread of its own."""

    def __init__(self, changed: Callable[[P, CarrierState, bool], None]) -> None:
        """`changed` is called with a port, its new state, and whether it is another interface of the same name."""
        self._changed = changed
        self._lock = threading.Lock()
        self._watched: dict[P, tuple[str, CarrierState]] = {}
        self._thread: threading.Thread | None = None
        self._wake_fd = -1

    def watch(self, port: P, name: str) -> bool:
        """Begin to watch an interface of the calling thread's namespace; return whether it has a link."""
        if self._thread is None:
            netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, socket.NETLINK_ROUTE)
            netlink.bind((0, _RTMGRP_LINK))
            self._wake_fd = os.eventfd(0, os.EFD_CLOEXEC)
            self._thread = threading.Thread(target=self._main, args=(netlink,), name="carrier", daemon=True)
            self._thread.start()
        carrier = CarrierState.of(name)  # netlink was there before: a change after this is told
        with self._lock:
            self._watched[port] = name, carrier
        return carrier.up

    def forget(self, port: P) -> None:
        """Cease to watch the interface of a port, if there is one."""
        with self._lock:
            self._watched.pop(port, None)

    def close(self) -> None:
        """End the thread. May be called twice."""
        thread, self._thread = self._thread, None
        if thread is not None:
            os.eventfd_write(self._wake_fd, 1)
            join_thread(thread)
            os.close(self._wake_fd)

    def _main(self, netlink: socket.socket) -> None:
        with netlink, suppress(DetourError):  # the network's loop has ended
            while True:
                ready, _, _ = select.select([netlink, self._wake_fd], [], [])
                if self._wake_fd in ready:
                    return
                with suppress(OSError):  # nothing is left, or messages were lost: what they say is not read anyway
                    while netlink.recv(1 << 16):
                        pass
                self._look()

    def _look(self) -> None:
        with self._lock:
            watched = list(self._watched.items())
        for port, (name, before) in watched:
            now = CarrierState.of(name)
            if not now.index:  # it may come back
                now = CarrierState(before.index, False)
            if now == before:
                continue
            with self._lock:
                if self._watched.get(port) != (name, before):  # it was detached meanwhile
                    continue
                self._watched[port] = name, now
            self._changed(port, now, now.index != before.index)
