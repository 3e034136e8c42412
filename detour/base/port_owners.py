# SPDX-License-Identifier: Apache-2.0
"""Find the process that holds a TCP port or a UNIX socket, as far as the system shows it to this user (Linux's
/proc)."""

from __future__ import annotations

import errno
import ipaddress
import os
import pwd
import socket
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_LISTEN, _TIME_WAIT = 0x0A, 0x06
_OPEN = frozenset({0x01, 0x02, 0x03})  # established, SYN sent, SYN received
_USER_HZ = os.sysconf("SC_CLK_TCK")

Ip = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True)
class PortUse:
    """A TCP socket whose own port is the one that was asked about."""

    state: int
    local: str
    remote: str
    uid: int
    inode: int
    seconds_left: float
    """until the system lets go of a connection that is over (TIME_WAIT)"""

    @property
    def listens(self) -> bool:
        """Return whether it is a server's. Otherwise it is one end of a connection, which ends some day."""
        return self.state == _LISTEN

    def __str__(self) -> str:
        if self.listens:
            return f"{_somebody(self.inode, self.uid)} listens there"
        if self.local == self.remote:
            return f"{_somebody(self.inode, self.uid)} called this port when nobody listened and got itself"
        if self.state == _TIME_WAIT:
            return f"a connection from it to {self.remote} has ended: it stays taken for {self.seconds_left:.0f} s"
        if self.state in _OPEN:
            return f"{_somebody(self.inode, self.uid)} has an outgoing connection from it to {self.remote}"
        return f"a connection from it to {self.remote} is being closed"


def port_uses(host: str, port: int) -> list[PortUse]:
    """TCP sockets of this network namespace that have the port at this address, servers first. `host`: by number."""
    address = _plain(ipaddress.ip_address(host.partition("%")[0]))
    uses = []
    for name, width in (("tcp", 4), ("tcp6", 16)):
        for fields in _rows(Path("/proc/net") / name):
            local, own_port = _endpoint(fields[1], width)
            if own_port != port or not (local == address or local.is_unspecified or address.is_unspecified):
                continue
            remote, remote_port = _endpoint(fields[2], width)
            left = int(fields[5].partition(":")[2], 16) / _USER_HZ
            state, uid, inode = int(fields[3], 16), int(fields[7]), int(fields[9])
            uses.append(PortUse(state, f"{local}:{own_port}", f"{remote}:{remote_port}", uid, inode, left))
    return sorted(uses, key=lambda use: not use.listens)


def _rows(path: Path) -> Iterator[list[str]]:
    try:
        lines = path.read_text().splitlines()[1:]
    except OSError:  # not Linux, or no IPv6
        return
    yield from (line.split() for line in lines)


def _endpoint(text: str, width: int) -> tuple[Ip, int]:
    """`0100007F:C383`: the address is printed as words in the machine's own order."""
    digits, _, port = text.partition(":")
    words = [int(digits[at : at + 8], 16) for at in range(0, len(digits), 8)]
    order = "<" if sys.byteorder == "little" else ">"
    return _plain(ipaddress.ip_address(struct.pack(f"{order}{width // 4}I", *words))), int(port, 16)


def _plain(address: Ip) -> Ip:
    """IPv4 that is dressed up as IPv6 is IPv4."""
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def _somebody(inode: int, uid: int) -> str:
    pid = _owner(inode)
    return named(pid) if pid else f"a process of {user(uid)}"


def _owner(inode: int) -> int:
    """The process that has the socket open; 0 if it is somebody else's to see, or nobody's."""
    link = f"socket:[{inode}]"
    for process in Path("/proc").iterdir() if inode else ():
        if not process.name.isdigit():
            continue
        try:
            if any(os.readlink(entry) == link for entry in os.scandir(process / "fd")):
                return int(process.name)
        except OSError:
            continue
    return 0


def named(pid: int) -> str:
    """`process 4711 (detour)`."""
    try:
        name = Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return f"process {pid}"
    return f"process {pid} ({name})"


def user(uid: int) -> str:
    """`user alice`, or by number."""
    try:
        return f"user {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"user {uid}"


def socket_owner(path: Path) -> str | None:
    """Name the process that serves the UNIX socket at `path`; None if no process does any more. Raises `OSError`: that
    cannot be found out."""
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
        with socket.socket(socket.AF_UNIX, kind | socket.SOCK_NONBLOCK) as probe:
            try:
                probe.connect(os.fspath(path))
            except ConnectionRefusedError:
                return None
            except OSError as error:
                if error.errno == errno.EPROTOTYPE:  # a socket of another kind
                    continue
                # Otherwise so many wait to be heard that there is no room for one more, or it hears only one peer.
                if error.errno not in (errno.EAGAIN, errno.EPERM):
                    raise
            else:
                pid = struct.unpack("3i", probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
                if pid > 0:
                    return named(pid)
            return _bound_to(path)
    return _bound_to(path)


def _bound_to(path: Path) -> str:
    for fields in _rows(Path("/proc/net/unix")):
        if len(fields) == 8 and fields[7] == str(path) and (pid := _owner(int(fields[6]))):
            return named(pid)
    return "another process"
