# SPDX-License-Identifier: Apache-2.0
"""Windows over time of one flow on one bottleneck: what was run, what came of it, and the sawtooth in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from detour.base.times import MS
from detour.experiments.tcp.dumbbell import Bottleneck, Dumbbell, address
from detour.hosts.ip.tcp.config import TcpConfig

_SECOND = 1_000 * MS
_NO_MARKS = 1 << 20
_FALL, _RISE = 0.87, 1.04
"""of the window before: less than that is a reduction, more than that the end of one"""
_FEWEST = 3
_EDGES = (1, 99)


@dataclass(frozen=True)
class Road:
    """A bottleneck, and how long it is watched. `marks`: packets in the queue from which on it marks, 0: never; the
    first `settle` seconds do not count."""

    name: str
    mbps: float
    rtt_ms: float
    queue: int
    seconds: float
    step: float
    settle: float
    marks: int = 0


@dataclass(frozen=True)
class Curve:
    """`cwnd`: segments, one value every `step` seconds of the road, from the first step on; `goodput`: Mb/s."""

    cwnd: Sequence[float]
    goodput: float


@dataclass(frozen=True)
class Sawtooth:
    """Segments and seconds: means of the tops and of the bottoms, the time from top to top (None if there are fewer
    than three; then `highest` and `lowest` are percentiles), and the mean window."""

    highest: float
    lowest: float
    mean: float
    period: float | None


def sawtooth(curve: Curve, road: Road) -> Sawtooth:
    """What lies behind `road.settle`."""
    window = np.asarray(curve.cwnd, np.float64)[round(road.settle / road.step) :]
    tops, bottoms = _turns(window)
    mean = float(window.mean())
    if len(tops) < _FEWEST:
        least, most = np.percentile(window, _EDGES)
        return Sawtooth(float(most), float(least), mean, None)
    period = (tops[-1] - tops[0]) / (len(tops) - 1) * road.step
    return Sawtooth(float(window[tops].mean()), float(window[bottoms].mean()), mean, period)


def _turns(window: np.ndarray) -> tuple[list[int], list[int]]:
    """Where the window was highest before each reduction, and lowest after each that has ended."""
    tops: list[int] = []
    bottoms: list[int] = []
    falling, edge = False, 0
    for at, value in enumerate(window):
        if falling:
            if value < window[edge]:
                edge = at
            elif value > _RISE * window[edge]:
                bottoms.append(edge)
                falling, edge = False, at
        elif value > window[edge]:
            edge = at
        elif value < _FALL * window[edge]:
            tops.append(edge)
            falling, edge = True, at
    return tops, bottoms


def ours(road: Road, cc: str) -> Curve:
    """Our TCP on it, with an ACK for each segment, as ns-3 was told to."""
    config = TcpConfig(cc=cc, delayed_ack_ps=1, receive_buffer=1 << 24)
    cable = Bottleneck(
        round(road.mbps * 1e6), round(road.rtt_ms * MS / 2), road.queue, marking_depth=road.marks or _NO_MARKS
    )
    steps = round(road.seconds / road.step)
    window, counted_from = [], 0
    with Dumbbell(1, cable) as bell:
        bell.stack.host("b0").tcp_port(config=config)
        flow = bell.stack.host("a0").tcp(address(2, 0), config=config)
        for step in range(1, steps + 1):
            bell.network.run(round(step * road.step * _SECOND))
            found = flow.result()
            window.append(found.cwnd)
            if step * road.step <= road.settle:
                counted_from = found.acked
        acked = flow.result().acked - counted_from
    return Curve(window, acked * 8 / (road.seconds - road.settle) / 1e6)
