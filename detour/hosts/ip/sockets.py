# SPDX-License-Identifier: Apache-2.0
"""The tasks of a host as objects: pings, UDP flows and ports, frames from outside."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import SupportsBytes

import numpy as np

from detour.base.errors import DetourError
from detour.hosts.ip import layout, stack
from detour.hosts.ip.addressing import is_v6, text_of, words
from detour.hosts.ip.arrival_process import Spacing
from detour.hosts.ip.host import StackHost
from detour.hosts.ip.results import PingResult, RawResult, ReceivedResult, SentResult, integers, received

_MOST_ROUND_TRIPS = 1 << 20
_ICMP_AND_IP = {False: 28, True: 48}
"""bytes of both headers, of IPv4 and IPv6"""


class Socket:
    """Something that a host does. `number` is its row in the table of sockets."""

    def __init__(self, host: StackHost) -> None:
        self.host = host
        self.number = -1

    def _make(self, kind: int, proto: int) -> np.void:
        """In the loop's thread: a fresh row."""
        self.number = int(stack.make_socket(self.host.memory.address, self.host.number, kind, proto))
        if self.number < 0:
            raise DetourError(f"host {self.host.name} has no socket left; raise `sockets=` of the stack")
        return self.row

    def _listen(self, protocol: str, kind: int, proto: int, port: int) -> None:
        """A fresh row that takes what comes to a port from everybody."""
        if int(stack.find_socket(self.host.memory.address, self.host.number, proto, port)) >= 0:
            raise DetourError(f"{protocol} port {port} of host {self.host.name} is in use")
        self._make(kind, proto)["lport"] = port

    @property
    def row(self) -> np.void:
        """The socket's row in the table of sockets."""
        return self._of("sockets")

    def _of(self, table: str) -> np.void:
        return self.host.memory.tables[table][self.number]

    def _address(self, row: np.void, to: str, ttl: int, tos: int) -> None:
        """Fill in both addresses."""
        row["r_hi"], row["r_lo"] = hi, lo = words(to)
        row["v6"] = v6 = is_v6(hi, lo)
        row["l_hi"], row["l_lo"] = words(self.host.address(v6))
        row["ttl"], row["tos"] = ttl or int(self.host.row["ttl"]), tos

    def _enter(self) -> None:
        stack.enter_socket(self.host.memory.address, self.number)

    def _begin(self, start_ps: int) -> None:
        stack.begin(self.host.memory.address, self.number, start_ps)

    def _start(self, start_ps: int | None) -> int:
        return self.host.now_ps if start_ps is None else start_ps

    def _port(self, port: int) -> int:
        """A local port: this one, or for 0 the next free one (RFC 6335: 49152 and up)."""
        if port:
            return port
        host = self.host.row
        port = int(host["next_port"])
        host["next_port"] = port + 1 if port < 65_535 else 49_152
        return port

    def _of_host(self, kind: int, table: str) -> list[tuple[np.void, np.void]]:
        """Rows of all sockets of a kind that the host has, and those of a table that belong to them."""
        memory = self.host.memory
        per_host = int(memory.globals[0]["per_host"])
        mine = slice(self.host.number * per_host, self.host.number * per_host + int(self.host.row["sockets_used"]))
        rows = memory.tables["sockets"][mine]
        chosen = rows["kind"] == kind
        return list(zip(rows[chosen], memory.tables[table][mine][chosen], strict=True))


def check(what: str, value: int, low: int, high: int) -> None:
    """Raise `DetourError` if a value is out of range."""
    if not low <= value <= high:
        raise DetourError(f"{what} is {value}; expected {low} to {high}")


class Ping(Socket):
    """Echo requests with `size` bytes of data, `interval_ps` apart. `ttl`: 0 means the host's."""

    def __init__(
        self, host: StackHost, to: str, *, count: int = 5, interval_ps: int = 10**12, size: int = 56,
        start_ps: int | None = None, ttl: int = 0, tos: int = 0,
    ) -> None:  # fmt: skip
        super().__init__(host)
        check("the number of pings", count, 1, _MOST_ROUND_TRIPS)
        check("their interval in ps", interval_ps, 1, layout.MAX_TIME)
        check("TTL", ttl, 0, 255)
        check("TOS", tos, 0, 255)
        self.to = to
        self._trips = np.zeros(count, np.int64)
        start = self._start(start_ps)

        def make() -> None:
            v6 = is_v6(*words(to))
            check("the size of a ping", size, 0, int(host.row["mtu"]) - _ICMP_AND_IP[v6])
            host.address(v6)
            row = self._make(layout.ECHO, layout.PROTO_ICMP6 if v6 else layout.PROTO_ICMP)
            self._address(row, to, ttl, tos)
            row["lport"] = self._port(0) & 0xFFFF
            echo = self._of("echoes")
            echo["ident"], echo["count"], echo["interval_ps"], echo["size"] = row["lport"], count, interval_ps, size
            echo["rtts"], echo["room"], echo["next_ps"] = host.memory.keep(self._trips), count, start
            self._enter()
            self._begin(start)

        host.do(make)

    def result(self) -> PingResult:
        """Return the echo replies received so far."""
        echo = self._of("echoes")
        error = int(echo["error_kind"])
        who = text_of(int(echo["error_hi"]), int(echo["error_lo"]))
        return PingResult(
            last_error=(error >> 8, error & 0xFF, who) if echo["errors"] else None,
            rtts_ps=self._trips[: int(echo["tx_packets"])].copy(),
            **integers(echo, "sent=tx_packets received=rx_packets duplicates corrupt errors"),
        )


class UdpFlow(Socket):
    """Datagrams to a port, sent by `spacing`, until `stop_ps` or until `packets` were sent (`None`: no end)."""

    def __init__(
        self, host: StackHost, to: str, *, spacing: Spacing, port: int = 5001, packets: int | None = None,
        start_ps: int | None = None, stop_ps: int | None = None, tos: int = 0, ttl: int = 0, source_port: int = 0,
    ) -> None:  # fmt: skip
        super().__init__(host)
        for what, value in (("the port", port), ("the source port", source_port or 1)):
            check(what, value, 1, 65_535)
        check("TOS", tos, 0, 255)
        check("TTL", ttl, 0, 255)
        self.to, self.port, self.spacing = to, port, spacing
        self._sizes = spacing.table()
        start = self._start(start_ps)

        def make() -> None:
            v6 = is_v6(*words(to))
            check("a payload's size", spacing.longest, 0, int(host.row["mtu"]) - _ICMP_AND_IP[v6])
            check("a payload's size", min((s for s, _ in spacing.sizes), default=spacing.size), 0, spacing.longest)
            host.address(v6)
            row = self._make(layout.UDP_FLOW, layout.PROTO_UDP)
            self._address(row, to, ttl, tos)
            row["lport"], row["rport"], row["flow_id"] = self._port(source_port), port, self.number
            self._fill(self._of("flows"), packets, start, stop_ps)
            self._enter()
            self._begin(start)

        host.do(make)

    def _fill(self, flow: np.void, packets: int | None, start_ps: int, stop_ps: int | None) -> None:
        spacing = self.spacing
        flow["mode"], flow["rate_bps"] = spacing.number, max(round(spacing.rate_bps), 1)
        flow["next_ps"], flow["stop_ps"] = start_ps, layout.MAX_TIME if stop_ps is None else stop_ps
        flow["left"] = -1 if packets is None else packets
        flow["fixed_size"], flow["n_sizes"] = spacing.size, len(self._sizes)
        flow["sizes"] = self.host.memory.keep(self._sizes)
        flow["on_ps"], flow["off_ps"] = spacing.on_ps, spacing.off_ps

    def stop(self) -> None:
        """Send nothing any more."""

        def change() -> None:
            self._of("flows")["stop_ps"] = 0
            self.row["closed"] = 1

        self.host.do(change)

    def result(self) -> SentResult:
        """Return the totals sent so far."""
        counts = integers(self._of("flows"), "packets=tx_packets bytes=tx_bytes first_ps last_ps unreachable")
        return SentResult(done=bool(self.row["closed"]), **counts)


class UdpPort(Socket):
    """Counts datagrams to a port, for each sender by itself. `samples`: packets of each of the first `senders` of which
    time, delay and mark are kept; `histograms`: senders whose delays are."""

    def __init__(
        self, host: StackHost, port: int = 5001, *, samples: int = 0, histograms: int = 16, senders: int = 16
    ) -> None:
        super().__init__(host)
        check("the port", port, 1, 65_535)
        self.port = port
        self._samples = np.zeros(samples * senders, layout.SampleRecord.dtype)
        self._histograms = np.zeros((histograms, layout.BUCKETS), np.int64)

        def make() -> None:
            self._listen("UDP", layout.UDP_PORT, layout.PROTO_UDP, port)
            peer, keep = self._of("peers"), host.memory.keep
            peer["samples"], peer["room"], peer["share"] = keep(self._samples), len(self._samples), samples
            peer["histogram"], peer["histograms"] = keep(self._histograms), histograms
            self._enter()

        host.do(make)

    def results(self) -> list[ReceivedResult]:
        """Return what has come so far, one result per sender, in the order of their first packets."""
        peers = self._of_host(layout.UDP_PEER, "peers")
        return [self._result(row, peer) for row, peer in peers if row["lport"] == self.port]

    def _result(self, row: np.void, peer: np.void) -> ReceivedResult:
        counts = samples = None
        if peer["histogram"]:
            number = (int(peer["histogram"]) - self._histograms.ctypes.data) // (8 * layout.BUCKETS)
            counts = self._histograms[number].copy()
        if peer["room"]:
            first = (int(peer["samples"]) - self._samples.ctypes.data) // layout.SampleRecord.dtype.itemsize
            samples = self._samples[first : first + int(peer["taken"])].copy()
        return received(row, peer, counts, samples)


class RawFrames(Socket):
    """Frames as they are: bytes, or what `bytes()` makes of them (scapy). One every `interval_ps`, or at `times_ps`
    after the start; the whole `repeat` times."""

    def __init__(
        self, host: StackHost, frames: Iterable[SupportsBytes], *, interval_ps: int = 0,
        times_ps: Sequence[int] | None = None, repeat: int = 1, start_ps: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__(host)
        whole = [bytes(frame) for frame in frames]
        longest = int(host.row["mtu"]) + 14
        for number, frame in enumerate(whole, 1):
            if not 14 <= len(frame) <= longest:
                raise DetourError(f"frame {number} has {len(frame)} bytes; expected 14 to {longest}")
        if not whole:
            raise DetourError("no frames to send")
        if times_ps is not None and len(times_ps) != len(whole):
            raise DetourError(f"{len(times_ps)} times for {len(whole)} frames")
        times = [interval_ps * k for k in range(len(whole))] if times_ps is None else list(times_ps)
        if interval_ps < 0 or any(late < early for early, late in zip([0, *times], times, strict=False)):
            raise DetourError("times of frames must increase from 0")
        self._bytes = np.frombuffer(b"".join(whole), np.uint8).copy()
        self._offsets = np.cumsum([0, *map(len, whole)], dtype=np.int64)
        self._times = np.array(times, np.int64)
        start = self._start(start_ps)

        def make() -> None:
            keep = host.memory.keep
            self._make(layout.RAW, 0)
            raw = self._of("raws")
            raw["frames"], raw["offsets"], raw["times"] = keep(self._bytes), keep(self._offsets), keep(self._times)
            raw["count"], raw["repeat"], raw["base_ps"] = len(whole), repeat, start
            raw["interval_ps"] = times[-1] + interval_ps
            self._begin(start)

        host.do(make)

    def result(self) -> RawResult:
        """Return the totals sent so far."""
        counts = integers(self._of("raws"), "packets=tx_packets bytes=tx_bytes")
        return RawResult(done=bool(self.row["closed"]), **counts)
