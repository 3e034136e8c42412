# SPDX-License-Identifier: Apache-2.0
"""Taking the address that a server listens on, wholly or not at all; for all servers of detour.

Every cause is told in words of its own: what the system says, who holds the place where that can be seen, and what
to do.
"""

from __future__ import annotations

from detour.base.addresses import Address, TcpAddress
from detour.base.progress import Progress, silent
from detour.base.tcp_listener import TcpServerSocket, take_tcp
from detour.base.unix_listener import AbstractServerSocket, UnixServerSocket

ServerSocket = TcpServerSocket | UnixServerSocket | AbstractServerSocket


def take(address: Address, what: str, patience_s: float = 0.0, progress: Progress = silent) -> ServerSocket:
    """Take an address for `what`. A port that is only being let go is waited for, `patience_s` long; `progress` hears
    it. Raises `DetourError`: it cannot be had, and why."""
    if isinstance(address, TcpAddress):
        return take_tcp(address, what, patience_s, progress)
    if address.abstract:
        return AbstractServerSocket(address, what)
    return UnixServerSocket(address.path, what)
