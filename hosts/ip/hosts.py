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

from collections.abc import Callable, Iterable, Sequence
from typing import SupportsBytes, TypeVar

import numpy as np

from detour.base.errors import DetourError
from detour.hosts.ip import layout, stack
from detour.hosts.ip.addressing import IpHostConfig, fields_of, is_v6, mac_number, text_of, words
from detour.hosts.ip.arrival_process import Spacing
from detour.hosts.ip.connections import TcpConnection, TcpListener
from detour.hosts.ip.memory import StackMemory
from detour.hosts.ip.sockets import Ping, RawFrames, UdpFlow, UdpPort
from detour.hosts.ip.tcp.config import TcpConfig
from detour.hosts.stacks import Call, record_of

T = TypeVar("T")
_STORED_OF_ELIDED = 128
_EPHEMERAL = 49_152
_SOCKETS = 1024


class IpStack:
    """Hosts that share tables: a `hosts.stacks` stack."""

    def __init__(
        self, configs: Sequence[IpHostConfig], *, seed: int = 0, elide: bool = False, sockets: int = _SOCKETS
    ) -> None:
        """`elide`: payloads are zeros that are not stored, for speed in virtual time; the lengths, times and checksums
        are as if they were. `sockets`: how many each host may have in all.

        Raises:
            DetourError: no hosts, a name that is there twice, or a wrong address.
        """
        if not configs:
            raise DetourError("a stack without hosts")
        names = [config.name for config in configs]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise DetourError(f"there are two hosts {twice}")
        if sockets < 4:
            raise DetourError(f"{sockets} sockets a host; at least 4 are needed")
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
        self._hosts = [IpHost(self, number) for number in range(len(configs))]
        for host, config in zip(self._hosts, configs, strict=True):
            for address, mac in config.neighbours.items():
                host.add_neighbour(address, mac)

    # -- a Stack ------------------------------------------------------------------------------------------

    @property
    def record(self) -> np.ndarray:
        """What the loop is given."""
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
        """Of flows at a constant rate."""
        self.memory.globals["jitter_ps"] = jitter_ps

    def attached(self, host: int, call: Call, kick: Callable[[], None], now: Callable[[], int]) -> None:
        """A host has a port."""
        self._hosts[host].attach(call, kick, now)

    # -- for everybody --------------------------------------------------------------------------------------

    def host(self, which: str | int) -> IpHost:
        """A host, by its name or number.

        Raises:
            DetourError: there is none.
        """
        if isinstance(which, int):
            if not 0 <= which < len(self._hosts):
                raise DetourError(f"there is no host {which}; there are {len(self._hosts)}")
            return self._hosts[which]
        for host in self._hosts:
            if host.name == which:
                return host
        raise DetourError(f"there is no host {which}; there are {', '.join(host.name for host in self._hosts)}")

    def host_of(self, address: str) -> IpHost | None:
        """Who has an address."""
        wanted = words(address)
        return next((host for host in self._hosts if wanted in host.addresses), None)


class IpHost:
    """One host."""

    def __init__(self, of: IpStack, number: int) -> None:
        self.memory = of.memory
        self.number = number
        self.name = of.configs[number].name
        self._call: Call | None = None
        self._kick: Callable[[], None] = lambda: None
        self._now: Callable[[], int] = lambda: 0

    def attach(self, call: Call, kick: Callable[[], None], now: Callable[[], int]) -> None:
        """It has a port; what was asked for before begins."""
        if self._call is not None:
            raise DetourError(f"host {self.name} is attached to a port already")
        self._call, self._kick, self._now = call, kick, now
        call(kick)

    def do(self, work: Callable[[], T]) -> T:
        """Runs `work` while nothing else touches the tables, and lets the host look for something to send."""
        if self._call is None:
            return work()

        def both() -> T:
            result = work()
            self._kick()
            return result

        return self._call(both)

    @property
    def now_ps(self) -> int:
        """Its time."""
        return self._now()

    @property
    def row(self) -> np.void:
        """Its row of the table of hosts."""
        return self.memory.tables["hosts"][self.number]

    @property
    def addresses(self) -> list[tuple[int, int]]:
        """Its addresses, as two words."""
        row = self.row
        found = [(0, int(row["v4_lo"]))] if row["v4_lo"] else []
        return found + ([(int(row["v6_hi"]), int(row["v6_lo"]))] if row["v6_hi"] or row["v6_lo"] else [])

    def address(self, v6: bool = False) -> str:
        """Its IPv4 (IPv6) address.

        Raises:
            DetourError: it has none.
        """
        for found in self.addresses:
            if is_v6(*found) == v6:
                return text_of(*found)
        raise DetourError(f"host {self.name} has no IPv{6 if v6 else 4} address")

    def add_neighbour(self, address: str, mac: str) -> None:
        """A MAC that need not be asked for, and replaces what was learned."""
        hi, lo = words(address)
        number = mac_number(mac)

        def enter() -> None:
            row, table = self.row, self.memory.tables["neighbours"]
            per_host = len(table) // len(self.memory.tables["hosts"])
            used = int(row["neighbours_used"])
            mine = table[self.number * per_host : self.number * per_host + per_host]
            place = next((k for k in range(used) if mine[k]["hi"] == hi and mine[k]["lo"] == lo), used)
            if place == per_host:
                raise DetourError(f"host {self.name} has {per_host} neighbours already")
            entry = mine[place]
            entry["hi"], entry["lo"], entry["mac"] = hi, lo, number
            entry["state"] = layout.NEIGHBOUR_STATIC
            entry["version"] += 1
            row["neighbours_used"] = max(used, place + 1)

        self.do(enter)

    def counters(self) -> dict[str, int]:
        """What it has sent, received and refused."""
        return {name: int(self.row[name]) for name in layout.IP_HOST_COUNTERS}

    # -- what it does -----------------------------------------------------------------------------------------

    def ping(
        self,
        to: str,
        *,
        count: int = 5,
        interval_ps: int = 10**12,
        size: int = 56,
        start_ps: int | None = None,
        ttl: int = 0,
        tos: int = 0,
    ) -> Ping:
        """Echo requests with `size` bytes of data, `interval_ps` apart. `ttl`: 0 means the host's."""
        return Ping(self, to, count, interval_ps, size, self._start(start_ps), ttl, tos)

    def udp(
        self,
        to: str,
        *,
        spacing: Spacing,
        port: int = 5001,
        packets: int | None = None,
        start_ps: int | None = None,
        stop_ps: int | None = None,
        tos: int = 0,
        ttl: int = 0,
        source_port: int = 0,
    ) -> UdpFlow:
        """Datagrams to a port, sent by `spacing`, until `stop_ps` or until `packets` were sent (`None`: no end)."""
        start = self._start(start_ps)
        return UdpFlow(self, to, port, spacing, packets, start, stop_ps, tos, ttl, source_port)

    def udp_port(self, port: int = 5001, *, samples: int = 0, histograms: int = 16, senders: int = 16) -> UdpPort:
        """Counts datagrams to a port, for each sender by itself. `samples`: packets of each of the first `senders` of
        which time, delay and mark are kept; `histograms`: senders whose delays are."""
        return UdpPort(self, port, samples, histograms, senders)

    def tcp(
        self,
        to: str,
        *,
        port: int = 5001,
        nbytes: int | None = None,
        config: TcpConfig | None = None,
        start_ps: int | None = None,
        stop_ps: int | None = None,
        tos: int = 0,
        curve_ps: int | None = None,
        source_port: int = 0,
    ) -> TcpConnection:
        """A connection that sends `nbytes`, or until `stop_ps` (`None`: without end), and closes. `curve_ps`: points of
        its window's curve are kept, at least so far apart."""
        start = self._start(start_ps)
        return TcpConnection(self, to, port, nbytes, config or TcpConfig(), start, stop_ps, tos, curve_ps, source_port)

    def tcp_port(self, port: int = 5001, *, config: TcpConfig | None = None) -> TcpListener:
        """Accepts connections and counts what they deliver. For DCTCP `config` must name it too."""
        return TcpListener(self, port, config or TcpConfig())

    def send_frames(
        self,
        frames: Iterable[SupportsBytes],
        *,
        interval_ps: int = 0,
        times_ps: Sequence[int] | None = None,
        repeat: int = 1,
        start_ps: int | None = None,
    ) -> RawFrames:
        """Frames as they are: bytes, or what `bytes()` makes of them (scapy). One every `interval_ps`, or
        at `times_ps` after the start; the whole `repeat` times."""
        whole = [bytes(frame) for frame in frames]
        return RawFrames(self, whole, interval_ps, times_ps, repeat, self._start(start_ps))

    def sniff(self, everything: bool = True) -> None:
        """Keeps frames that come in for `sniffed`: all, or those that nothing here takes."""

        def change() -> None:
            self.row["sniff"] = stack.SNIFF_ALL if everything else stack.SNIFF_UNKNOWN

        self.do(change)

    def sniffed(self) -> list[tuple[int, bytes]]:
        """Takes the frames that were kept: when each came, ps, and its bytes (as far as they are stored)."""
        return self.do(self._take_inbox)

    def _take_inbox(self) -> list[tuple[int, bytes]]:
        g, tables, row = self.memory.globals[0], self.memory.tables, self.row
        depth, box = int(g["in_depth"]), int(g["box_bytes"])
        found: list[tuple[int, bytes]] = []
        for number in range(int(row["in_head"]), int(row["in_tail"])):
            place = self.number * depth + number % depth
            entry = tables["inbox"][place]
            data = tables["inboxes"][place * box : place * box + int(entry["stored"])]
            found.append((int(entry["time"]), data.tobytes()))
        row["in_head"] = row["in_tail"]
        return found

    def _start(self, start_ps: int | None) -> int:
        return self._now() if start_ps is None else start_ps
