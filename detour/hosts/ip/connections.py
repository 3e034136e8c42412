# SPDX-License-Identifier: Apache-2.0
"""TCP for Python: connections that send, listeners that count what comes."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from detour.hosts.ip import layout, stack
from detour.hosts.ip.addressing import is_v6, text_of, words
from detour.hosts.ip.host import StackHost
from detour.hosts.ip.results import integers
from detour.hosts.ip.sockets import Socket, check
from detour.hosts.ip.tcp import layout as tcp
from detour.hosts.ip.tcp.algorithms import bind, chosen, is_dctcp
from detour.hosts.ip.tcp.config import TcpConfig

_PS = 1e12
_CURVE_POINTS = 100_000
_SETTINGS = (
    "sack timestamps pacing initial_window check max_retries min_rto_ps max_rto_ps initial_rto_ps time_wait_ps "
    "ring=window_segments rcv_buffer=receive_buffer delack_ps=delayed_ack_ps tick_ps=clock_ps"
)
"""Fields of a connection that are as its configuration says, by name or as `name=setting`."""


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
    """A listener's view of one connection. `bytes`: in order; `ce`: packets that came with a mark."""

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
    """The part that both ends share."""

    def __init__(self, host: StackHost, config: TcpConfig | None) -> None:
        super().__init__(host)
        self.config = config or TcpConfig()
        self.algorithm = chosen(self.config.cc)

    @property
    def conn(self) -> np.void:
        """The connection's row in the table of connections."""
        return self._of("conns")

    def _configure(self, conn: np.void, v6: bool) -> None:
        config, memory = self.config, self.host.memory
        mtu = int(self.host.row["mtu"])
        for name, _, of_config in (text.partition("=") for text in _SETTINGS.split()):
            conn[name] = getattr(config, of_config or name)
        accurate = is_dctcp(self.algorithm)
        conn["ecn"], conn["accurate_ecn"] = config.ecn or accurate, accurate
        conn["rack"], conn["mss_limit"] = config.recovery == "rack", mtu - (60 if v6 else 40)
        bound = memory.bound(self.algorithm, lambda: bind(self.algorithm, 0, int(conn["mss_limit"]), 1 << 20))
        conn["cc_table"] = bound.table.ctypes.data


class TcpConnection(_Tcp):
    """A connection that sends `nbytes`, or until `stop_ps` (`None`: without end), and closes. `curve_ps`: points of its
    window's curve are kept, at least so far apart."""

    def __init__(
        self, host: StackHost, to: str, *, port: int = 5001, nbytes: int | None = None,
        config: TcpConfig | None = None, start_ps: int | None = None, stop_ps: int | None = None, tos: int = 0,
        curve_ps: int | None = None, source_port: int = 0,
    ) -> None:  # fmt: skip
        super().__init__(host, config)
        check("the port", port, 1, 65_535)
        check("the number of bytes", 1 if nbytes is None else nbytes, 0, tcp.UNLIMITED - 1)
        self.to, self.port = to, port
        points = 0 if curve_ps is None else _CURVE_POINTS
        self._curve = np.zeros(points, tcp.PointRecord.dtype)
        self._ring = np.zeros(self.config.window_segments, tcp.SegmentRecord.dtype)
        start = self._start(start_ps)

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
            self._enter()
            self._begin(start)
            if nbytes is not None:
                conn["fin"] = 1

        host.do(make)

    def close(self) -> None:
        """Send nothing new any more; what was sent is still delivered, then the FIN."""
        self.host.do(lambda: stack.finish(self.host.memory.address, self.number, self.host.now_ps))

    def result(self) -> TcpResult:
        """Return the current state."""
        c = self.conn
        same = "retransmitted lost spurious probes ece_acks established_ps"
        return TcpResult(
            state=tcp.STATES[int(c["state"])],
            error=tcp.ERRORS[int(c["error"])],
            acked=max(min(int(c["snd_una"]), int(c["snd_end"])) - 1, 0),
            cwnd=float(c["cwnd"]),
            ssthresh=float(c["ssthresh"]),
            done=bool(self.row["closed"]),
            curve=self._curve[: int(c["trace_taken"])].copy(),
            **integers(c, f"{same} sent_segments=tx_segments sent_bytes=tx_bytes timeouts=rtos"),
            **integers(c, "duplicates_told=dup_sacks srtt_ps=srtt min_rtt_ps=min_rtt last_ack_ps=acked_ps"),
        )


class TcpListener(_Tcp):
    """Accepts connections and counts what they deliver. For DCTCP `config` must name it too."""

    def __init__(self, host: StackHost, port: int = 5001, *, config: TcpConfig | None = None) -> None:
        super().__init__(host, config)
        check("the port", port, 1, 65_535)
        self.port = port

        def make() -> None:
            self._listen("TCP", layout.TCP_LISTENER, layout.PROTO_TCP, port)
            self._configure(self.conn, False)
            self.conn["state"] = tcp.LISTEN
            self._enter()

        host.do(make)

    def results(self) -> list[ReceivedStream]:
        """Return what has come so far, one result per connection, in the order in which they were opened."""
        conns = self._of_host(layout.TCP_SOCKET, "conns")
        return [_received(row, conn) for row, conn in conns if conn["listener"] == self.number]


def _received(row: np.void, conn: np.void) -> ReceivedStream:
    return ReceivedStream(
        source=text_of(int(row["r_hi"]), int(row["r_lo"])),
        state=tcp.STATES[int(conn["state"])],
        **integers(row, "source_port=rport"),
        **integers(conn, "bytes=rx_bytes segments=rx_segments duplicates=rx_duplicates early=rx_early ce=rx_ce"),
        **integers(conn, "dropped=rx_dropped corrupt established_ps first_ps=first_byte_ps last_ps=last_byte_ps"),
    )
