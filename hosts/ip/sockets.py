# SPDX-License-Identifier: Apache-2.0
"""What a host was told to do, as objects: pings, UDP flows and ports, frames from outside."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from detour.base.errors import DetourError
from detour.hosts.ip import layout, stack
from detour.hosts.ip.addressing import is_v6, text_of, words
from detour.hosts.ip.arrival_process import Spacing
from detour.hosts.ip.owner import Owner
from detour.hosts.ip.results import PingResult, RawResult, ReceivedResult, SentResult, received

_MOST_ROUND_TRIPS = 1 << 20
_ICMP_AND_IP = {4: 28, 6: 48}


class Socket:
    """Something that a host does. `number` is its row in the table of sockets."""

    def __init__(self, host: Owner) -> None:
        self.host = host
        self.number = -1

    def _make(self, kind: int, proto: int) -> np.void:
        """In the loop's thread: a fresh row."""
        self.number = int(stack.make_socket(self.host.memory.address, self.host.number, kind, proto))
        if self.number < 0:
            raise DetourError(f"host {self.host.name} has no socket left; a stack is made with `sockets=`")
        return self.row

    @property
    def row(self) -> np.void:
        """Its row in the table of sockets."""
        return self.host.memory.tables["sockets"][self.number]

    def _of(self, table: str) -> np.void:
        return self.host.memory.tables[table][self.number]

    def _address(self, row: np.void, to: str, ttl: int, tos: int) -> int:
        """Fills in both addresses; returns the version of IP."""
        hi, lo = words(to)
        v6 = is_v6(hi, lo)
        mine = words(self.host.address(v6))
        row["r_hi"], row["r_lo"] = hi, lo
        row["l_hi"], row["l_lo"] = mine
        row["v6"] = int(v6)
        row["ttl"] = ttl or int(self.host.row["ttl"])
        row["tos"] = tos
        return 6 if v6 else 4

    def _begin(self, start_ps: int) -> None:
        stack.begin(self.host.memory.address, self.number, start_ps)

    def _port(self, wanted: int) -> int:
        """A local port: the one that is wanted, or the next free one (RFC 6335: 49152 and up)."""
        if wanted:
            return wanted
        host = self.host.row
        port = int(host["next_port"])
        host["next_port"] = port + 1 if port < 65_535 else 49_152
        return port


def check(what: str, value: int, low: int, high: int) -> None:
    """Raises `DetourError` if a value is out of range."""
    if not low <= value <= high:
        raise DetourError(f"{what} is {value}; {low} to {high} are possible")


class Ping(Socket):
    """Echo requests."""

    def __init__(
        self, host: Owner, to: str, count: int, interval_ps: int, size: int, start_ps: int, ttl: int, tos: int
    ) -> None:
        super().__init__(host)
        check("the number of pings", count, 1, _MOST_ROUND_TRIPS)
        check("their interval in ps", interval_ps, 1, layout.MAX_TIME)
        check("TTL", ttl, 0, 255)
        check("TOS", tos, 0, 255)
        self.to = to
        self._trips = np.zeros(count, np.int64)

        def make() -> None:
            version = 6 if is_v6(*words(to)) else 4
            check("the size of a ping", size, 0, int(host.row["mtu"]) - _ICMP_AND_IP[version])
            host.address(version == 6)
            row = self._make(layout.ECHO, layout.PROTO_ICMP6 if version == 6 else layout.PROTO_ICMP)
            self._address(row, to, ttl, tos)
            row["lport"] = self._port(0) & 0xFFFF
            echo = self._of("echoes")
            echo["ident"], echo["count"], echo["interval_ps"], echo["size"] = row["lport"], count, interval_ps, size
            echo["rtts"], echo["room"] = host.memory.keep(self._trips), count
            echo["next_ps"] = start_ps
            stack.enter_socket(host.memory.address, self.number)
            self._begin(start_ps)

        host.do(make)

    def result(self) -> PingResult:
        """What has come back so far."""
        echo = self._of("echoes")
        sent = int(echo["tx_packets"])
        trips = self._trips[: min(sent, len(self._trips))].copy()
        error = int(echo["error_kind"])
        return PingResult(
            sent=sent,
            received=int(echo["rx_packets"]),
            duplicates=int(echo["duplicates"]),
            corrupt=int(echo["corrupt"]),
            errors=int(echo["errors"]),
            last_error=(error >> 8, error & 0xFF, text_of(int(echo["error_hi"]), int(echo["error_lo"])))
            if echo["errors"]
            else None,
            rtts_ps=trips,
        )


class UdpFlow(Socket):
    """Datagrams that are sent."""

    def __init__(
        self,
        host: Owner,
        to: str,
        port: int,
        spacing: Spacing,
        packets: int | None,
        start_ps: int,
        stop_ps: int | None,
        tos: int,
        ttl: int,
        source_port: int,
    ) -> None:
        super().__init__(host)
        for what, value in (("the port", port), ("the source port", source_port or 1)):
            check(what, value, 1, 65_535)
        check("TOS", tos, 0, 255)
        check("TTL", ttl, 0, 255)
        self.to, self.port, self.spacing = to, port, spacing
        self._sizes = spacing.table()

        def make() -> None:
            version = 6 if is_v6(*words(to)) else 4
            check("a payload's size", spacing.longest, 0, int(host.row["mtu"]) - _ICMP_AND_IP[version])
            check("a payload's size", min((s for s, _ in spacing.sizes), default=spacing.size), 0, spacing.longest)
            host.address(version == 6)
            row = self._make(layout.UDP_FLOW, layout.PROTO_UDP)
            self._address(row, to, ttl, tos)
            row["lport"], row["rport"] = self._port(source_port), port
            row["flow_id"] = self.number
            self._fill(self._of("flows"), packets, start_ps, stop_ps)
            stack.enter_socket(host.memory.address, self.number)
            self._begin(start_ps)

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
        """Sends nothing any more."""

        def change() -> None:
            self._of("flows")["stop_ps"] = 0
            self.row["closed"] = 1

        self.host.do(change)

    def result(self) -> SentResult:
        """What was sent so far."""
        flow = self._of("flows")
        return SentResult(
            packets=int(flow["tx_packets"]),
            bytes=int(flow["tx_bytes"]),
            first_ps=int(flow["first_ps"]),
            last_ps=int(flow["last_ps"]),
            unreachable=int(flow["unreachable"]),
            done=bool(self.row["closed"]),
        )


class UdpPort(Socket):
    """Datagrams that come to a port."""

    def __init__(self, host: Owner, port: int, samples: int, histograms: int, senders: int) -> None:
        super().__init__(host)
        check("the port", port, 1, 65_535)
        self.port = port
        self._samples = np.zeros(samples * senders, layout.SampleRecord.dtype)
        self._histograms = np.zeros((histograms, layout.BUCKETS), np.int64)

        def make() -> None:
            memory = host.memory
            if int(stack.find_socket(memory.address, host.number, layout.PROTO_UDP, port)) >= 0:
                raise DetourError(f"UDP port {port} of host {host.name} is in use")
            row = self._make(layout.UDP_PORT, layout.PROTO_UDP)
            row["lport"] = port
            peer = self._of("peers")
            peer["samples"], peer["room"] = memory.keep(self._samples), len(self._samples)
            peer["share"] = samples
            peer["histogram"], peer["histograms"] = memory.keep(self._histograms), histograms
            stack.enter_socket(memory.address, self.number)

        host.do(make)

    def results(self) -> list[ReceivedResult]:
        """What has come so far, a result a sender, in the order of their first packets."""
        memory = self.host.memory
        per_host = int(memory.globals[0]["per_host"])
        mine = slice(self.host.number * per_host, self.host.number * per_host + int(self.host.row["sockets_used"]))
        rows, peers = memory.tables["sockets"][mine], memory.tables["peers"][mine]
        chosen = (rows["kind"] == layout.UDP_PEER) & (rows["lport"] == self.port)
        return [self._result(row, peer) for row, peer in zip(rows[chosen], peers[chosen], strict=True)]

    def _result(self, row: np.void, peer: np.void) -> ReceivedResult:
        counts = None
        if peer["histogram"]:
            number = (int(peer["histogram"]) - self._histograms.ctypes.data) // (8 * layout.BUCKETS)
            counts = self._histograms[number]
        samples = None
        if peer["room"]:
            first = (int(peer["samples"]) - self._samples.ctypes.data) // layout.SampleRecord.dtype.itemsize
            samples = self._samples[first : first + int(peer["taken"])].copy()
        return received(peer, text_of(int(row["r_hi"]), int(row["r_lo"])), int(row["rport"]), counts, samples)


class RawFrames(Socket):
    """Frames from outside."""

    def __init__(
        self,
        host: Owner,
        frames: list[bytes],
        interval_ps: int,
        times_ps: Sequence[int] | None,
        repeat: int,
        start_ps: int,
    ) -> None:
        super().__init__(host)
        longest = int(host.row["mtu"]) + 14
        for number, frame in enumerate(frames, 1):
            if not 14 <= len(frame) <= longest:
                raise DetourError(f"frame {number} has {len(frame)} bytes; 14 to {longest} are possible")
        if not frames:
            raise DetourError("no frames to send")
        if times_ps is not None and len(times_ps) != len(frames):
            raise DetourError(f"{len(times_ps)} times for {len(frames)} frames")
        times = [interval_ps * k for k in range(len(frames))] if times_ps is None else list(times_ps)
        if interval_ps < 0 or any(late < early for early, late in zip([0, *times], times, strict=False)):
            raise DetourError("times of frames rise from 0 on")
        self._bytes = np.frombuffer(b"".join(frames), np.uint8).copy()
        self._offsets = np.cumsum([0, *map(len, frames)], dtype=np.int64)
        self._times = np.array(times, np.int64)

        def make() -> None:
            keep = host.memory.keep
            self._make(layout.RAW, 0)
            raw = self._of("raws")
            raw["frames"], raw["offsets"], raw["times"] = keep(self._bytes), keep(self._offsets), keep(self._times)
            raw["count"], raw["repeat"], raw["base_ps"] = len(frames), repeat, start_ps
            raw["interval_ps"] = times[-1] + interval_ps
            self._begin(start_ps)

        host.do(make)

    def result(self) -> RawResult:
        """What was sent so far."""
        raw = self._of("raws")
        return RawResult(int(raw["tx_packets"]), int(raw["tx_bytes"]), bool(self.row["closed"]))
