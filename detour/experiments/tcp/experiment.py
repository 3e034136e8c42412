# SPDX-License-Identifier: Apache-2.0
"""`detour reproduce tcp`: TCP of the IP hosts beside what is known of it.

Points: the rate of one flow at random losses (NewReno beside Mathis et al., CUBIC beside RFC 9438's response function);
how n flows share a cable (Jain's index) and how much of it they use; DCTCP's queue beside its formula. Beside Linux:
`linux`. Windows and queues of formulas are in packets, times in seconds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from detour.base.errors import DetourError
from detour.base.tables import Table
from detour.base.times import MS, US
from detour.experiments.columns import row, shown, table, taken
from detour.experiments.running import jain
from detour.experiments.tcp.dumbbell import Bottleneck, Dumbbell, address
from detour.hosts.ip.tcp.config import TcpConfig

TCP_LOSSES = (0.001, 0.003, 0.01)
RTTS_MS = (10.0, 40.0, 100.0)
TCP_FLOWS = (2, 4, 8)
SHARING = ("newreno", "cubic", "dctcp")

_SECOND = 1_000 * MS
_MSS = 1_448
_FRAME = 1_514
_LOSSES_SEEN = {"quick": 400, "normal": 4_000, "full": 20_000}
_SHARE_SECONDS = {"quick": 40.0, "normal": 200.0, "full": 1_000.0}
_EVENTS_A_SECOND = 600_000
_SHARED_BPS = 20_000_000
QUEUE_FLOWS = (2, 10, 40)
_QUEUE_BPS, _QUEUE_RTT_PS, _QUEUE_MARKS = 10_000_000_000, 100 * US, 40
"""as in the simulations of DCTCP's paper, 3.3"""
_CLOSE_PS = 1_000


@dataclass(frozen=True, kw_only=True)
class TcpPoint:
    """One run. `kind`: `loss`, `share` or `queue`; `seconds` are of virtual time."""

    kind: str
    cc: str
    loss: float = 0.0
    rtt_ms: float = 0.0
    flows: int = 1
    seconds: float
    seed: int = 1
    experiment: str = "tcp"


@row
class TcpRow:
    """One number beside what is expected of it. `error`: relative, signed."""

    kind: str = shown("of", {"loss": "random losses", "share": "sharing a cable", "queue": "queue of DCTCP"}.get)
    cc: str = shown("control")
    loss: float = shown("loss", lambda loss: f"{100 * loss:g} %" if loss else None)
    rtt_ms: float = shown("RTT, ms", "g")
    flows: int = shown("flows")
    what: str = shown("what")
    measured: float = shown("measured", ",.4g")
    theory: float = shown("theory", ",.4g")
    unit: str = shown("unit")
    error: float = shown("differs by", lambda error: f"{100 * error:+.1f} %")
    seconds: float


@dataclass(frozen=True)
class TcpRun:
    """The result of a point, or of all."""

    rows: Sequence[TcpRow]


def select(
    extent: str = "normal", loss: Sequence[float] = TCP_LOSSES, flows: Sequence[int] = TCP_FLOWS, seed: int = 1
) -> list[TcpPoint]:
    """The points. A flow at random losses runs until about so many were seen. Raises `DetourError`: a share of losses
    at which there is nothing to measure."""
    points = []
    for rate in loss:
        if not 0.0001 <= rate <= 0.05:
            raise DetourError(f"a loss of {rate:g}; the formulas are for 0.0001 to 0.05")
        for rtt in RTTS_MS:
            for cc, window in (("newreno", reno_window(rate)), ("cubic", cubic_window(rate, rtt / 1e3))):
                seconds = _LOSSES_SEEN[extent] / rate / window * rtt / 1e3
                points.append(TcpPoint(kind="loss", cc=cc, loss=rate, rtt_ms=rtt, seconds=round(seconds, 1), seed=seed))
    share = _SHARE_SECONDS[extent]
    points += [
        TcpPoint(kind="share", cc=cc, rtt_ms=20.0, flows=n, seconds=share, seed=seed) for cc in SHARING for n in flows
    ]
    queue = TcpPoint(kind="queue", cc="dctcp", rtt_ms=_QUEUE_RTT_PS / MS, seconds=0.2, seed=seed)
    return points + [replace(queue, flows=n) for n in QUEUE_FLOWS]


def seconds(point: TcpPoint) -> float:
    if point.kind == "queue":
        return 10.0
    if point.kind == "loss":
        return 2.0 + _LOSSES_SEEN["normal"] / point.loss * 6 / _EVENTS_A_SECOND
    return 2.0 + point.seconds * _SHARED_BPS / 8 / _FRAME * 12 / _EVENTS_A_SECOND


def run(point: TcpPoint) -> TcpRun:
    return TcpRun(_RUNS[point.kind](point))


def collect(results: Sequence[TcpRun]) -> TcpRun:
    """The rows, in the order of the points."""
    return TcpRun([row for result in results for row in result.rows])


def tables(findings: TcpRun) -> list[Table[Any]]:
    """All rows."""
    return [table(TcpRow, findings.rows, "TCP of the IP hosts and theory")]


def _row(point: TcpPoint, what: str, measured: float, expected: float, unit: str) -> TcpRow:
    error = (measured - expected) / expected if expected else 0.0
    numbers = {"measured": measured, "theory": expected, "error": error}
    return taken(TcpRow, point, what=what, unit=unit, **{name: round(x, 6) for name, x in numbers.items()})


def _loss(point: TcpPoint) -> list[TcpRow]:
    """One flow on a cable that it never fills."""
    cable = Bottleneck(10_000_000_000, round(point.rtt_ms * MS / 2), 1 << 14, point.loss)
    end = round(point.seconds * _SECOND)
    config = TcpConfig(cc=point.cc, receive_buffer=1 << 28, window_segments=1 << 16, delayed_ack_ps=MS)
    with Dumbbell(1, cable, seed=point.seed) as bell:
        bell.stack.host("b0").tcp_port(config=config)
        flow = bell.stack.host("a0").tcp(address(2, 0), config=config)
        begin = end // 10
        bell.network.run(begin)
        before = flow.result().acked
        bell.network.run(end)
        rate = (flow.result().acked - before) * 8 / ((end - begin) / _SECOND)
    rtt = point.rtt_ms / 1e3
    window = reno_window(point.loss) if point.cc == "newreno" else cubic_window(point.loss, rtt)
    return [_row(point, "goodput", rate / 1e6, window * _MSS * 8 / rtt / 1e6, "Mb/s")]


def _share(point: TcpPoint) -> list[TcpRow]:
    """Flows that begin a second after one another share 20 Mb/s with a queue of a bandwidth-delay product."""
    bdp = _SHARED_BPS * point.rtt_ms / 1e3 / 8 / _FRAME
    cable = Bottleneck(_SHARED_BPS, round(point.rtt_ms * MS / 2), max(round(bdp), 8))
    config = TcpConfig(cc=point.cc, delayed_ack_ps=MS)
    end = round(point.seconds * _SECOND)
    begin = end // 4
    with Dumbbell(point.flows, cable, seed=point.seed, jitter=True) as bell:
        flows = []
        for n in range(point.flows):
            bell.stack.host(f"b{n}").tcp_port(config=config)
            flows.append(bell.stack.host(f"a{n}").tcp(address(2, n), config=config, start_ps=n * _SECOND))
        bell.network.run(begin)
        before = [flow.result().acked for flow in flows]
        bell.network.run(end)
        rates = [
            (flow.result().acked - start) * 8 / ((end - begin) / _SECOND)
            for flow, start in zip(flows, before, strict=True)
        ]
    most = _SHARED_BPS * _MSS / _FRAME
    return [
        _row(point, "Jain's index", jain(np.array(rates)), 1.0, ""),
        _row(point, "goodput of all", sum(rates) / 1e6, most / 1e6, "Mb/s"),
    ]


def _queue(point: TcpPoint) -> list[TcpRow]:
    """The queue of DCTCP, looked at every 20 us after the first quarter."""
    cable = Bottleneck(_QUEUE_BPS, _QUEUE_RTT_PS // 2, 1_000, marking_depth=_QUEUE_MARKS)
    config = TcpConfig(cc="dctcp", min_rto_ps=10 * MS, delayed_ack_ps=MS)
    end = round(point.seconds * _SECOND)
    with Dumbbell(point.flows, cable, seed=point.seed, jitter=True) as bell:
        for n in range(point.flows):
            bell.stack.host(f"b{n}").tcp_port(config=config)
            bell.stack.host(f"a{n}").tcp(address(2, n), config=config)
        bell.network.run(end // 4)
        lengths = []
        for now in range(end // 4, end, 20 * US):
            bell.network.run(now + _CLOSE_PS)
            lengths.append(bell.queue())
    bdp = _QUEUE_BPS * _QUEUE_RTT_PS / _SECOND / 8 / _FRAME
    top, mean = dctcp_queue(point.flows, bdp, _QUEUE_MARKS)
    measured = np.array(lengths)
    return [
        _row(point, "longest queue", float(np.percentile(measured, 99)), top, "packets"),
        _row(point, "mean queue", float(measured.mean()), mean, "packets"),
    ]


_RUNS: dict[str, Callable[[TcpPoint], list[TcpRow]]] = {"loss": _loss, "share": _share, "queue": _queue}


def reno_window(loss: float) -> float:
    """Mean window at random losses with every packet acknowledged: 1.31 / sqrt(p) (Mathis, Semke, Mahdavi, Ott, "The
    Macroscopic Behavior of the TCP Congestion Avoidance Algorithm", CCR 27(3), 1997, table 1; at periodic losses it is
    1.22)."""
    return 1.31 / math.sqrt(loss)


def cubic_window(loss: float, rtt: float) -> float:
    """Mean window of CUBIC at periodic losses (RFC 9438, 5.1), or Reno's where that is larger (4.3)."""
    c, beta = 0.4, 0.7
    cubic = (c * (3 + beta) / (4 * (1 - beta))) ** 0.25 * rtt**0.75 / loss**0.75
    return max(cubic, reno_window(loss))


def dctcp_queue(flows: int, bdp: float, k: float) -> tuple[float, float]:
    """(longest, mean) queue of `flows` synchronised flows of DCTCP at a marking threshold `k`, with `bdp` packets in a
    round trip without a queue (Alizadeh et al., "Data Center TCP", SIGCOMM 2010, 3.3): K + N, less half a sawtooth of
    sqrt(2 N (C RTT + K)) / 2."""
    top = k + flows
    return top, max(top - math.sqrt(2 * flows * (bdp + k)) / 4, 0.0)
