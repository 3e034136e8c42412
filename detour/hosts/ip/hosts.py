# SPDX-License-Identifier: Apache-2.0
"""IP hosts for Python: made, attached to a network, told what to send, asked what came.

    stack = IpStack([IpHostConfig("h1", "08:00:00:00:01:11", "10.0.1.1/24", "10.0.1.10"), ...], elide=True)
    network.attach_stack((1, 1), stack, 0, rate_bps=10**10)
    ping = stack.host("h1").ping("10.0.2.2", count=5)
    network.run(5 * SECOND)
    print(ping.result())

Methods may be called before a host is attached or while its network runs; times are picoseconds of the network's clock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

import numpy as np

from detour.base.errors import DetourError
from detour.hosts.ip import stack
from detour.hosts.ip.addressing import IpHostConfig, fields_of
from detour.hosts.ip.connections import TcpConnection, TcpListener
from detour.hosts.ip.host import StackHost
from detour.hosts.ip.memory import StackMemory
from detour.hosts.ip.sockets import Ping, RawFrames, Socket, UdpFlow, UdpPort
from detour.hosts.stacks import Call, record_of

_STORED_OF_ELIDED = 128
_EPHEMERAL = 49_152
_SOCKETS = 1024


P = ParamSpec("P")
_Socket = TypeVar("_Socket", bound=Socket)


def _opens(kind: Callable[Concatenate[StackHost, P], _Socket]) -> Callable[Concatenate[StackHost, P], _Socket]:
    """A method of a host that opens a socket; it takes what the socket takes behind its host."""

    @wraps(kind, updated=())
    def open_socket(host: StackHost, /, *args: P.args, **kwargs: P.kwargs) -> _Socket:
        return kind(host, *args, **kwargs)

    return open_socket


class IpHost(StackHost):
    """One host, and what it can be told to do."""

    ping = _opens(Ping)
    udp = _opens(UdpFlow)
    udp_port = _opens(UdpPort)
    tcp = _opens(TcpConnection)
    tcp_port = _opens(TcpListener)
    send_frames = _opens(RawFrames)


class IpStack:
    """Hosts that share tables: a `hosts.stacks` stack."""

    def __init__(
        self, configs: Sequence[IpHostConfig], *, seed: int = 0, elide: bool = False, sockets: int = _SOCKETS
    ) -> None:
        """`elide`: payloads are zeros that are not stored, for speed in virtual time; the lengths, times and checksums
        are as if they were. `sockets`: how many each host may have in all. Raises DetourError for no hosts, a name that
        appears twice, or a wrong address."""
        if not configs:
            raise DetourError("a stack without hosts")
        names = [config.name for config in configs]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise DetourError(f"there are two hosts {twice}")
        if sockets < 4:
            raise DetourError(f"{sockets} sockets per host; expected at least 4")
        self.configs = tuple(configs)
        self.elide = elide
        mtu = max(config.mtu for config in configs)
        self.memory = StackMemory(len(configs), sockets, seed, elide, mtu)
        self._frame_bytes = _STORED_OF_ELIDED if elide else mtu + 14
        rows = self.memory.tables["hosts"]
        for row, config in zip(rows, configs, strict=True):
            for name, value in fields_of(config).items():
                row[name] = value
            row["next_port"] = _EPHEMERAL
        self._record, self._code = record_of(stack, self.memory.address)
        self._hosts = [IpHost(self.memory, number, config.name) for number, config in enumerate(configs)]
        for host, config in zip(self._hosts, configs, strict=True):
            for address, mac in config.neighbours.items():
                host.add_neighbour(address, mac)

    # -- a Stack ------------------------------------------------------------------------------------------

    @property
    def record(self) -> np.ndarray:
        """The record that the loop is given."""
        return self._record

    @property
    def hosts(self) -> int:
        """Number of hosts."""
        return len(self.configs)

    @property
    def frame_bytes(self) -> int:
        """Bytes of the longest frame, or of what is stored of it."""
        return self._frame_bytes

    def set_jitter(self, jitter_ps: int) -> None:
        """Set the jitter of flows at a constant rate."""
        self.memory.globals["jitter_ps"] = jitter_ps

    def attached(self, host: int, call: Call, kick: Callable[[], None], now: Callable[[], int]) -> None:
        """A host has a port."""
        self._hosts[host].attach(call, kick, now)

    # -- for everybody --------------------------------------------------------------------------------------

    def host(self, which: str | int) -> IpHost:
        """A host, by its name or number. Raises DetourError if there is none."""
        if isinstance(which, int):
            if not 0 <= which < len(self._hosts):
                raise DetourError(f"there is no host {which}; there are {len(self._hosts)}")
            return self._hosts[which]
        by_name = {host.name: host for host in self._hosts}
        if which not in by_name:
            raise DetourError(f"there is no host {which}; there are {', '.join(by_name)}")
        return by_name[which]
