# SPDX-License-Identifier: Apache-2.0
"""TCP for Python: connections that send, listeners that count what comes."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from detour.base.errors import DetourError
from detour.hosts.ip import layout, stack
from detour.hosts.ip.addressing import is_v6, text_of, words
from detour.hosts.ip.owner import Owner
from detour.hosts.ip.sockets import Socket, check
from detour.hosts.ip.tcp import layout as tcp
from detour.hosts.ip.tcp.algorithms import bind, chosen, is_dctcp
from detour.hosts.ip.tcp.config import TcpConfig

_PS = 1e12
_CURVE_POINTS = 100_000


@dataclass(frozen=True)
class TcpResult:
    """A connection as it is now. `acked`: bytes that the peer has; times are ps, 0: not yet; `cwnd` in segments."""

    state: str
    error: str
    acked: int
    sent_segments: int
    sent_bytes: int
    retransmitted: int
    lost: int
    spurious: int
    timeouts: int
    probes: int
    ece_acks: int
    duplicates_told: int
    cwnd: float
    ssthresh: float
    srtt_ps: int
    min_rtt_ps: int
    established_ps: int
    last_ack_ps: int
    done: bool
    curve: np.ndarray = field(repr=False)

    @property
    def goodput_bps(self) -> float:
        """Bytes acknowledged a second, from the handshake to the last acknowledgement."""
        took = self.last_ack_ps - self.established_ps
        return 0.0 if took <= 0 else self.acked * 8 * _PS / took


@dataclass(frozen=True)
class ReceivedStream:
    """What a listener has of one connection. `bytes`: in order; `ce`: packets that came with a mark."""

    source: str
    source_port: int
    state: str
    bytes: int
    segments: int
    duplicates: int
    early: int
    dropped: int
    ce: int
    corrupt: int
    established_ps: int
    first_ps: int
    last_ps: int

    @property
    def goodput_bps(self) -> float:
        """Bytes a second from the first byte to the last one."""
        took = self.last_ps - self.first_ps
        return 0.0 if took <= 0 else self.bytes * 8 * _PS / took


class _Tcp(Socket):
    """What both ends have."""

    def __init__(self, host: Owner, config: TcpConfig) -> None:
        super().__init__(host)
        self.config = config
        self.algorithm = chosen(config.cc)

    @property
    def conn(self) -> np.void:
        """Its row in the table of connections."""
        return self._of("conns")

    def _configure(self, conn: np.void, v6: bool) -> None:
        config, memory = self.config, self.host.memory
        mtu = int(self.host.row["mtu"])
        conn["ring"], conn["mss_limit"] = config.window_segments, mtu - (60 if v6 else 40)
        conn["rcv_buffer"], conn["sack"], conn["timestamps"] = config.receive_buffer, config.sack, config.timestamps
        accurate = is_dctcp(self.algorithm)
        conn["ecn"], conn["accurate_ecn"] = config.ecn or accurate, accurate
        conn["rack"], conn["pacing"] = config.recovery == "rack", config.pacing
        conn["delack_ps"], conn["min_rto_ps"], conn["max_rto_ps"] = (
            config.delayed_ack_ps, config.min_rto_ps, config.max_rto_ps,
        )  # fmt: skip
        conn["initial_rto_ps"], conn["max_retries"] = config.initial_rto_ps, config.max_retries
        conn["initial_window"], conn["check"] = config.initial_window, config.check
        conn["tick_ps"], conn["time_wait_ps"] = config.clock_ps, config.time_wait_ps
        bound = memory.bound(self.algorithm, lambda: bind(self.algorithm, 0, int(conn["mss_limit"]), 1 << 20))
        conn["cc_table"] = bound.table.ctypes.data


class TcpConnection(_Tcp):
    """A connection that sends a stream."""

    def __init__(
        self,
        host: Owner,
        to: str,
        port: int,
        nbytes: int | None,
        config: TcpConfig,
        start_ps: int,
        stop_ps: int | None,
        tos: int,
        curve_ps: int | None,
        source_port: int,
    ) -> None:
        super().__init__(host, config)
        check("the port", port, 1, 65_535)
        check("the number of bytes", 1 if nbytes is None else nbytes, 0, tcp.UNLIMITED - 1)
        self.to, self.port = to, port
        points = 0 if curve_ps is None else _CURVE_POINTS
        self._curve = np.zeros(points, tcp.PointRecord.dtype)
        self._ring = np.zeros(config.window_segments, tcp.SegmentRecord.dtype)

        def make() -> None:
            v6 = is_v6(*words(to))
            host.address(v6)
            row = self._make(layout.TCP_SOCKET, layout.PROTO_TCP)
            self._address(row, to, 0, tos)
            row["lport"], row["rport"] = self._port(source_port), port
            conn, memory = self.conn, host.memory
            self._configure(conn, v6)
            conn["segs"], conn["listener"] = memory.keep(self._ring), -1
            conn["trace"], conn["trace_room"] = memory.keep(self._curve), points
            conn["trace_apart_ps"] = curve_ps or 0
            conn["snd_end"] = tcp.UNLIMITED if nbytes is None else 1 + nbytes
            conn["stop_ps"] = layout.MAX_TIME if stop_ps is None else stop_ps
            stack.enter_socket(memory.address, self.number)
            self._begin(start_ps)
            if nbytes is not None:
                conn["fin"] = 1

        host.do(make)

    def close(self) -> None:
        """Sends nothing new any more; what was sent is still delivered, then the FIN."""
        self.host.do(lambda: stack.finish(self.host.memory.address, self.number, self.host.now_ps))

    def result(self) -> TcpResult:
        """How it is now."""
        c = self.conn
        return TcpResult(
            state=tcp.STATES[int(c["state"])],
            error=tcp.ERRORS[int(c["error"])],
            acked=max(min(int(c["snd_una"]), int(c["snd_end"])) - 1, 0),
            sent_segments=int(c["tx_segments"]),
            sent_bytes=int(c["tx_bytes"]),
            retransmitted=int(c["retransmitted"]),
            lost=int(c["lost"]),
            spurious=int(c["spurious"]),
            timeouts=int(c["rtos"]),
            probes=int(c["probes"]),
            ece_acks=int(c["ece_acks"]),
            duplicates_told=int(c["dup_sacks"]),
            cwnd=float(c["cwnd"]),
            ssthresh=float(c["ssthresh"]),
            srtt_ps=int(c["srtt"]),
            min_rtt_ps=int(c["min_rtt"]),
            established_ps=int(c["established_ps"]),
            last_ack_ps=int(c["acked_ps"]),
            done=bool(self.row["closed"]),
            curve=self._curve[: int(c["trace_taken"])].copy(),
        )


class TcpListener(_Tcp):
    """Accepts connections on a port and counts what they deliver."""

    def __init__(self, host: Owner, port: int, config: TcpConfig) -> None:
        super().__init__(host, config)
        check("the port", port, 1, 65_535)
        self.port = port

        def make() -> None:
            memory = host.memory
            if int(stack.find_socket(memory.address, host.number, layout.PROTO_TCP, port)) >= 0:
                raise DetourError(f"TCP port {port} of host {host.name} is in use")
            row = self._make(layout.TCP_LISTENER, layout.PROTO_TCP)
            row["lport"] = port
            self._configure(self.conn, False)
            self.conn["state"] = tcp.LISTEN
            stack.enter_socket(memory.address, self.number)

        host.do(make)

    def results(self) -> list[ReceivedStream]:
        """What has come so far, a result a connection, in the order in which they were opened."""
        memory = self.host.memory
        per_host = int(memory.globals[0]["per_host"])
        mine = slice(self.host.number * per_host, self.host.number * per_host + int(self.host.row["sockets_used"]))
        rows, conns = memory.tables["sockets"][mine], memory.tables["conns"][mine]
        chosen_ones = (rows["kind"] == layout.TCP_SOCKET) & (conns["listener"] == self.number)
        return [_received(row, conn) for row, conn in zip(rows[chosen_ones], conns[chosen_ones], strict=True)]


def _received(row: np.void, conn: np.void) -> ReceivedStream:
    return ReceivedStream(
        source=text_of(int(row["r_hi"]), int(row["r_lo"])),
        source_port=int(row["rport"]),
        state=tcp.STATES[int(conn["state"])],
        bytes=int(conn["rx_bytes"]),
        segments=int(conn["rx_segments"]),
        duplicates=int(conn["rx_duplicates"]),
        early=int(conn["rx_early"]),
        dropped=int(conn["rx_dropped"]),
        ce=int(conn["rx_ce"]),
        corrupt=int(conn["corrupt"]),
        established_ps=int(conn["established_ps"]),
        first_ps=int(conn["first_byte_ps"]),
        last_ps=int(conn["last_byte_ps"]),
    )
