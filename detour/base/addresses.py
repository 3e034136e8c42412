# SPDX-License-Identifier: Apache-2.0
"""Addresses that servers listen on: `host:port`, `[IPv6]:port`, `unix:path`. Nothing is opened here."""

from __future__ import annotations

import ipaddress
import os
import socket
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from detour.base.errors import DetourError

UNIX_PATH_BYTES = 107
"""What `struct sockaddr_un` holds, less the byte that ends it."""


@dataclass(frozen=True)
class TcpAddress:
    """A host by name or number, without brackets, and a port; port 0: any that is free."""

    host: str
    port: int

    def __str__(self) -> str:
        return joined(self.host, self.port)

    @property
    def is_loopback(self) -> bool:
        """Return whether only this machine can reach it. Names other than `localhost` are not looked up: they may
        change."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def numeric(self) -> list[str]:
        """The host's addresses by number. `localhost` has both loopback addresses, whatever the machine's files say: a
        client may try either of them. Raises `OSError`: nobody knows the name."""
        if self.host == "localhost":
            return ["127.0.0.1", "::1"]
        entries = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        names = (socket.getnameinfo(entry[4], socket.NI_NUMERICHOST | socket.NI_NUMERICSERV)[0] for entry in entries)
        return list(dict.fromkeys(names))


@dataclass(frozen=True)
class UnixAddress:
    """A UNIX socket's file, or a name in Linux's abstract name space, which has none."""

    path: Path
    abstract: bool = False

    def __str__(self) -> str:
        """As gRPC reads it, which decodes percent signs."""
        scheme = "unix-abstract" if self.abstract else "unix"
        return f"{scheme}:{str(self.path).replace('%', '%25')}"


Address = TcpAddress | UnixAddress


def joined(host: str, port: int) -> str:
    """`host:port`; IPv6 addresses in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse(text: str, what: str) -> Address:
    """Understand an address as gRPC does. `what` listens there, for the error. Raises `DetourError`: it is none."""
    scheme, _, rest = text.partition(":")
    if scheme in ("unix", "unix-abstract"):
        path = unquote(rest.removeprefix("//") if rest.startswith("///") else rest)
        if path and "\0" not in path:
            return UnixAddress(Path(path), abstract=scheme != "unix")
    else:
        host, colon, port = text.rpartition(":")
        bare = host.removeprefix("[").removesuffix("]")
        closed = (":" in bare) == (host != bare)  # brackets around IPv6 addresses and nothing else
        if colon and closed and port.isascii() and port.isdigit() and int(port) <= 0xFFFF:
            return TcpAddress(bare, int(port))
    raise DetourError(f"{what}: '{text}' is not an address; give host:port, [IPv6]:port or unix:path")


def too_long(path: Path) -> str:
    """Why the path cannot be a UNIX socket's, if it is too long."""
    length = len(os.fsencode(path))
    if length <= UNIX_PATH_BYTES:
        return ""
    return f"its path has {length} bytes, longer than a socket's {UNIX_PATH_BYTES}: choose a shorter one"


def refusal(what: str, address: Address, why: str) -> DetourError:
    """The one line that says that `what` cannot listen there."""
    where = f"unix:{address.path}" if isinstance(address, UnixAddress) and not address.abstract else str(address)
    return DetourError(f"{what}: cannot bind {where}: {why}")
