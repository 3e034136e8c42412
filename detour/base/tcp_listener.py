# SPDX-License-Identifier: Apache-2.0
"""Taking the TCP port that a server listens on.

A name may stand for several addresses (`localhost` for two). If one of them is another process's, clients would reach
this server or that one as they please, so then none is taken. An address that this machine does not have is nobody's
and is left out.
"""

from __future__ import annotations

import errno
import socket
import time
from collections.abc import Sequence
from pathlib import Path

from detour.base.addresses import TcpAddress, joined, refusal
from detour.base.port_owners import PortUse, port_uses
from detour.base.progress import Progress, silent

PATIENCE_S = 5.0
"""how long commands wait for a port that a connection still holds"""
_POLL_S = 0.02
_TRIES = 100
_BACKLOG = 128
_ABSENT = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
_PRIVILEGED = Path("/proc/sys/net/ipv4/ip_unprivileged_port_start")
_OUTGOING = Path("/proc/sys/net/ipv4/ip_local_port_range")


class TcpServerSocket:
    """A port at all addresses of a host, held by bound sockets that do not listen yet. A context manager.

    They allow reuse of the address, so that a server that binds by itself (gRPC's) can join them there; then they are
    closed. A server of Python listens on them.
    """

    def __init__(self, sockets: list[socket.socket]) -> None:
        self.sockets = sockets
        names = [sock.getsockname() for sock in sockets]
        self.port: int = names[0][1]
        self.addresses = [joined(name[0], name[1]) for name in names]
        """by number, one for each socket"""

    def listen(self) -> list[socket.socket]:
        """The sockets, listening. They are the caller's to close from now on."""
        for sock in self.sockets:
            sock.listen(_BACKLOG)
        mine, self.sockets = self.sockets, []
        return mine

    def close(self) -> None:
        """Let go of what is still held."""
        for sock in self.sockets:
            sock.close()
        self.sockets = []

    def __enter__(self) -> TcpServerSocket:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def take_tcp(address: TcpAddress, what: str, patience_s: float = 0.0, progress: Progress = silent) -> TcpServerSocket:
    """Take a port for `what`. One that no server has, but a connection that is there or was there lately, may become
    free within `patience_s`; `progress` hears that it is waited for. Raises `DetourError`: it cannot be had, and
    why."""
    deadline, reported = time.monotonic() + patience_s, False
    while True:
        try:
            return TcpServerSocket(_bind_all(_hosts(address, what), address.port))
        except _TakenError as taken:
            uses = port_uses(taken.host, taken.port)
            if time.monotonic() >= deadline or any(use.listens for use in uses):
                raise refusal(what, address, f"{_said(taken, address)}: {_taken(uses)}") from None
            if not reported:
                reported = True
                progress(f"{what}: {taken.place} is not free yet: {_use(uses)}; waiting up to {patience_s:g} s")
            time.sleep(_POLL_S)
        except _BindError as failed:
            raise refusal(what, address, f"{_said(failed, address)}{_advice(failed)}") from None


def _hosts(address: TcpAddress, what: str) -> list[str]:
    try:
        return address.numeric()
    except OSError as error:
        why = error.strerror or str(error)
    except UnicodeError:
        why = "that is not a host name"
    raise refusal(what, address, f"{address.host}: {why}: give a name or an address of this machine")


class _BindError(Exception):
    """The system's refusal to bind an address."""

    def __init__(self, host: str, port: int, error: OSError) -> None:
        super().__init__(str(error))
        self.host, self.port, self.error = host, port, error

    @property
    def place(self) -> str:
        return joined(self.host, self.port)


class _TakenError(_BindError):
    """The port is held by something else."""


def _bind_all(hosts: list[str], port: int) -> list[socket.socket]:
    """Sockets at all addresses that this machine has, with one port. Port 0: one that is free at all of them."""
    for left in reversed(range(_TRIES)):
        try:
            return _bind_same(hosts, port)
        except _TakenError:
            if port or not left:
                raise
    raise AssertionError


def _bind_same(hosts: list[str], port: int) -> list[socket.socket]:
    bound: list[socket.socket] = []
    absent: _BindError | None = None
    try:
        for host in hosts:
            try:
                bound.append(_bind(host, port))
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    raise _TakenError(host, port, error) from None
                absent = _BindError(host, port, error)
                if error.errno not in _ABSENT:
                    raise absent from None
                continue
            port = bound[0].getsockname()[1]
        if not bound and absent is not None:
            raise absent
        return bound
    except BaseException:
        for sock in bound:
            sock.close()
        raise


def _bind(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, name = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(name)
    except BaseException:
        sock.close()
        raise
    return sock


def _use(uses: Sequence[PortUse]) -> str:
    return str(uses[0]) if uses else "a socket that neither listens nor is connected has it"


def _said(failed: _BindError, address: TcpAddress) -> str:
    """The system's reason, and for which of several addresses."""
    reason = failed.error.strerror or str(failed.error)
    return reason if failed.place == str(address) else f"{failed.place}: {reason}"


def _taken(uses: Sequence[PortUse]) -> str:
    listened = any(use.listens for use in uses)
    advice = "end it or choose another port" if listened else f"try again later or choose a port {_outside()}"
    return f"{_use(uses)}: {advice}"


def _outside() -> str:
    try:
        low, high = _OUTGOING.read_text().split()
    except (OSError, ValueError):
        return "that the system does not give to outgoing connections"
    return f"outside {low} to {high}, which the system gives to outgoing connections (net.ipv4.ip_local_port_range)"


def _advice(failed: _BindError) -> str:
    if failed.error.errno in _ABSENT:
        return ": no interface of this machine has that address"
    if failed.error.errno == errno.EACCES:
        try:
            first = int(_PRIVILEGED.read_text())
        except (OSError, ValueError):
            first = 1024
        return f": ports below {first} need root (or CAP_NET_BIND_SERVICE): choose {first} or more"
    return ""
