# SPDX-License-Identifier: Apache-2.0
"""Opening what a port may be attached to outside: UNIX datagram sockets, packet sockets, TAP devices."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import logging
import mmap
import os
import platform
import socket
import struct
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from detour.base.addresses import too_long
from detour.base.errors import DetourError
from detour.base.unix_listener import UnixServerSocket
from detour.engine.loop.layout import IO_PACKET, IO_TAP, IO_UNIX
from detour.engine.loop.layout import MOST_RINGS as MOST_RINGS
from detour.engine.loop.layout import RING_SLOT_BYTES as RING_SLOT_BYTES
from detour.engine.loop.layout import RING_SLOTS as RING_SLOTS

_log = logging.getLogger(__name__)
_BUFFER_BYTES = 4 << 20
_NAME_LIMIT = 15
_ETH_P_ALL = 0x0003
_SOL_PACKET, _PACKET_AUXDATA, _PACKET_IGNORE_OUTGOING = 263, 8, 23
_PACKET_RX_RING, _PACKET_COPY_THRESH, _PACKET_VERSION, _TPACKET_V2 = 5, 7, 10, 1
_BLOCK_BYTES = 1 << 16
_TUNSETIFF, _IFF_TAP, _IFF_NO_PI = 0x400454CA, 0x0002, 0x1000
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 0x1
_EPOLL_ADD, _EPOLLIN = 1, 1


@dataclass
class Attachment:
    """An open descriptor, and what to clean up when it is closed."""

    fd: int
    family: int
    name: str
    peer: np.ndarray = field(default_factory=lambda: np.zeros(0, np.uint8))
    """`struct sockaddr_un` of where frames go, empty for interfaces"""
    place: UnixServerSocket | None = None
    longest: int = 0
    """bytes of the longest frame that may come in by it; longer ones are dropped and counted. 0: whatever fits"""
    send_fd: int = -1
    """another socket, to send by"""
    ring: mmap.mmap | None = None
    """memory that the kernel puts frames into"""

    @property
    def ring_address(self) -> int:
        """Return where the ring begins, 0 if there is none."""
        return 0 if self.ring is None else np.frombuffer(self.ring, np.uint8).ctypes.data

    def rebind(self, index: int) -> None:
        """Let a packet socket use the interface with this number, which has come in place of its own."""
        if self.family != IO_PACKET:
            return
        for fd, protocol in ((self.fd, _ETH_P_ALL), (self.send_fd, 0)):
            if fd >= 0:
                with socket.socket(fileno=os.dup(fd)) as sock, suppress(OSError):  # it may be gone again
                    _bind(sock, self.name, index, protocol)

    def close(self) -> None:
        """Remove the socket's file and close the descriptor. May be called twice."""
        if self.place is not None:
            self.place.remove()
        if self.ring is not None:
            self.ring.close()  # which has a descriptor of its own
            self.ring = None
        for fd in (self.fd, self.send_fd):
            if fd >= 0:
                os.close(fd)
        self.fd = self.send_fd = -1


def watch(epoll_fd: int, fd: int, index: int) -> None:
    """Let an epoll report `index` when `fd` has something to read (Python's own API can report only `fd`)."""
    layout = "=Iq" if platform.machine() == "x86_64" else "@Iq"
    event = ctypes.create_string_buffer(struct.pack(layout, _EPOLLIN, index))
    if ctypes.CDLL(None, use_errno=True).epoll_ctl(epoll_fd, _EPOLL_ADD, fd, event) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def open_unix(path: Path, peer: Path) -> Attachment:
    """A datagram socket bound to `path`; a file that a dead process left there is replaced."""
    if why := too_long(peer):
        raise DetourError(f"socket {peer}: {why}")
    place = UnixServerSocket(path, "socket")
    sock = place.bind_datagram()
    _enlarge(sock)
    address = struct.pack("=H", socket.AF_UNIX) + os.fsencode(peer) + b"\0"
    return Attachment(sock.detach(), IO_UNIX, str(path), np.frombuffer(address, np.uint8).copy(), place)


def _enlarge(sock: socket.socket) -> None:
    """Ask for large buffers: beyond the system's limit as root, up to it otherwise."""
    so_sndbufforce, so_rcvbufforce = 32, 33
    for force, plain in ((so_sndbufforce, socket.SO_SNDBUF), (so_rcvbufforce, socket.SO_RCVBUF)):
        try:
            sock.setsockopt(socket.SOL_SOCKET, force, _BUFFER_BYTES)
        except OSError:
            sock.setsockopt(socket.SOL_SOCKET, plain, _BUFFER_BYTES)


def open_interface(name: str, ring: bool = False) -> Attachment:
    """A raw packet socket on the interface, or a new TAP device if there is no such interface."""
    if not name or len(name) > _NAME_LIMIT or "/" in name:
        raise DetourError(f"{name!r} is not an interface name (1 to {_NAME_LIMIT} characters, no '/')")
    try:
        index = socket.if_nametoindex(name)
    except OSError:
        return open_tap(name)
    return open_packet(name, index, ring)


def open_packet(name: str, index: int, ring: bool = False) -> Attachment:
    """A raw packet socket on an interface of the calling thread's namespace. `ring`: the loop reads frames without
    system calls, if the kernel has memory for that.

    Raises:
        DetourError: why there can be none.
    """
    attachment = Attachment(-1, IO_PACKET, name)
    sock = _packet_socket(name)
    try:
        sock.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
        sock.setsockopt(_SOL_PACKET, _PACKET_AUXDATA, 1)
        if ring:
            attachment.ring = _ring(sock, name)
            # A socket is told of every frame of its own that is gone, and that would wake who waits for others.
            with _packet_socket(name) as sender:
                _bind(sender, name, index, 0)
                attachment.send_fd = sender.detach()
        _bind(sock, name, index, _ETH_P_ALL)
    except OSError as error:
        sock.close()
        attachment.close()
        raise DetourError(f"interface {name} cannot be used: {error.strerror}") from None
    attachment.fd = sock.detach()
    return attachment


def _bind(sock: socket.socket, name: str, index: int, protocol: int) -> None:
    """Bind a packet socket, one that receives (`protocol` other than 0) promiscuously: frames to other addresses pass
    through a switch."""
    if protocol:
        sock.setsockopt(_SOL_PACKET, 1, struct.pack("=iHH8s", index, 1, 0, b""))
    sock.bind((name, protocol))


def _packet_socket(name: str) -> socket.socket:
    try:
        sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK, 0)
    except PermissionError:
        raise DetourError(f"interface {name}: packet sockets need root (or CAP_NET_RAW)") from None
    _enlarge(sock)
    return sock


def _ring(sock: socket.socket, name: str) -> mmap.mmap | None:
    """Memory into which the kernel puts what the socket receives, or None, which is logged."""
    size = RING_SLOTS * RING_SLOT_BYTES
    try:
        sock.setsockopt(_SOL_PACKET, _PACKET_VERSION, _TPACKET_V2)
        terms = struct.pack("=4I", _BLOCK_BYTES, size // _BLOCK_BYTES, RING_SLOT_BYTES, RING_SLOTS)
        sock.setsockopt(_SOL_PACKET, _PACKET_RX_RING, terms)
        sock.setsockopt(_SOL_PACKET, _PACKET_COPY_THRESH, 1)  # longer frames: to the socket's queue
        return mmap.mmap(sock.fileno(), size)
    except OSError as error:
        with suppress(OSError):
            sock.setsockopt(_SOL_PACKET, _PACKET_RX_RING, bytes(16))
        _log.warning("interface %s has no receive ring (%s): frames are read one by one", name, error.strerror)
        return None


def open_tap(name: str, up: bool = True) -> Attachment:
    """A new TAP device in the calling thread's namespace. It goes when it is closed, or with this process.

    Raises:
        DetourError: why there can be none.
    """
    try:
        fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise DetourError(f"interface {name} does not exist and /dev/net/tun: {error.strerror}") from None
    try:
        fcntl.ioctl(fd, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _IFF_TAP | _IFF_NO_PI))
        if up:
            _bring_up(name)
    except OSError as error:
        os.close(fd)
        why = "that needs root" if error.errno == errno.EPERM else error.strerror
        raise DetourError(f"interface {name} does not exist and cannot be made as a TAP device: {why}") from None
    return Attachment(fd, IO_TAP, name)


def _bring_up(name: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        request = struct.pack("16sH22x", name.encode(), 0)
        flags = struct.unpack_from("H", fcntl.ioctl(sock, _SIOCGIFFLAGS, request), 16)[0]
        fcntl.ioctl(sock, _SIOCSIFFLAGS, struct.pack("16sH22x", name.encode(), flags | _IFF_UP))


def close_all(attachments: Iterable[Attachment]) -> None:
    """Close all, whatever happens to one of them."""
    for attachment in attachments:
        with suppress(OSError):
            attachment.close()
