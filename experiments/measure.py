# SPDX-License-Identifier: Apache-2.0
"""Measuring a fabric in virtual time: time series, steady state, counters.

The rule for steady state ("the throughput is measured when all connections are active and congestion control is
stable", section IV). Wire rate is summed in intervals; `Rule.span` intervals make a window. After every window the last
`Rule.windows` windows are looked at. The run is steady when

* each of their means is within `tolerance` of the mean of all of them, and
* the straight line through them (least squares) changes by less than `tolerance` from the first to the last,

and at least `least_ps` have passed. It ends then, or at `most_ps`; whether it was steady is part of the result. What
is reported is the mean over those windows in either case.

Wire rate counts the data packets that arrived at hosts, whole frames from Ethernet header to ICRC, also those that
arrived twice; goodput is payload that arrived for the first time. ACKs and probes are in neither.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from detour.base.dataplane import PACKET_BYTES
from detour.base.errors import DetourError
from detour.base.times import US
from detour.fabric.footings.virtual.fabric import VirtualFabric

Tell = Callable[[float], None]
"""called with the fraction of the longest time that has passed"""


@dataclass(frozen=True)
class Rule:
    """When a run is steady; see the module."""

    interval_ps: int = 20 * US
    span: int = 10
    windows: int = 4
    tolerance: float = 0.02
    least_ps: int = 1_000 * US
    most_ps: int = 6_000 * US

    def __post_init__(self) -> None:
        if self.interval_ps < 1 or self.span < 1 or self.windows < 2 or not 0 < self.tolerance < 1:
            raise DetourError("the rule for steady state needs an interval, two windows or more, and a tolerance")
        if self.most_ps < self.windows * self.span * self.interval_ps:
            raise DetourError(
                f"the longest run, {self.most_ps / US:g} us, is shorter than the {self.windows} windows of "
                f"{self.span * self.interval_ps / US:g} us that the rule for steady state looks at"
            )

    def is_steady(self, means: np.ndarray) -> bool:
        """Whether the means of the last windows, oldest first, say so."""
        mean = float(means.mean())
        if mean <= 0:
            return False
        slope = float(np.polyfit(np.arange(len(means)), means, 1)[0])
        close = np.abs(means - mean).max() <= self.tolerance * mean
        return bool(close and abs(slope) * (len(means) - 1) <= self.tolerance * mean)


@dataclass(frozen=True, kw_only=True)
class RunTimes:
    """Virtual time of a run, and how steady it has to be: a rule as points have it."""

    least_us: int
    most_us: int
    tolerance: float

    @property
    def rule(self) -> Rule:
        """The rule for steady state."""
        return Rule(tolerance=self.tolerance, least_ps=self.least_us * US, most_ps=self.most_us * US)


@dataclass(frozen=True)
class Series:
    """Rates in Gb/s, one element an interval."""

    interval_us: float
    wire_gbps: list[float] = field(default_factory=list)
    goodput_gbps: list[float] = field(default_factory=list)

    def rounded(self, digits: int) -> Series:
        """The same with so many digits behind the point."""
        wire, goodput = ([round(value, digits) for value in rates] for rates in (self.wire_gbps, self.goodput_gbps))
        return Series(self.interval_us, wire, goodput)


@dataclass(frozen=True)
class Steady:
    """What a run settled at."""

    wire_gbps: float
    goodput_gbps: float
    converged: bool
    series: Series
    per_connection_gbps: np.ndarray
    """(connections,) goodput over the windows that count"""
    deadlock: list[tuple[int, int, int]] = field(default_factory=list)
    """(device, port, priority) of queues that can never move again; the run ended there"""
    seconds: float = 0.0
    """virtual time from the first packet to the end of the run"""


class GoodputMeter:
    """Cumulative data bytes that arrived, of all connections."""

    def __init__(self, fabric: VirtualFabric) -> None:
        self._fabric = fabric

    def read(self) -> tuple[int, int]:
        """(bytes on the wire, payload bytes that arrived for the first time)"""
        column = self._fabric.column
        packets = column("st_rx_packets").sum() + column("st_rx_duplicates").sum()
        return int(packets) * PACKET_BYTES, int(self._payload().sum())

    def _payload(self) -> np.ndarray:
        return self._fabric.column("st_rx_bytes")

    def per_connection(self) -> np.ndarray:
        """(connections,) payload bytes that arrived for the first time."""
        return self._payload()


def settle(fabric: VirtualFabric, rule: Rule, progress: Tell = lambda fraction: None) -> Steady:
    """Runs a fabric on which connections send without end until it is steady."""
    meter, series = GoodputMeter(fabric), Series(rule.interval_ps / US)
    begin = fabric.now_ps
    span_ps = rule.span * rule.interval_ps
    counted: list[np.ndarray] = [meter.per_connection()]
    before, steady, stuck = meter.read(), False, []
    while not steady and not stuck and fabric.now_ps - begin + span_ps <= rule.most_ps:
        for _ in range(rule.span):
            fabric.run(fabric.now_ps + rule.interval_ps)
            now = meter.read()
            series.wire_gbps.append(_gbps(now[0] - before[0], rule.interval_ps))
            series.goodput_gbps.append(_gbps(now[1] - before[1], rule.interval_ps))
            before = now
        counted = [*counted[-rule.windows :], meter.per_connection()]
        stuck = fabric.deadlock()
        if fabric.now_ps - begin >= max(rule.least_ps, rule.windows * span_ps):
            steady = rule.is_steady(_windows(series.wire_gbps, rule))
        progress(min((fabric.now_ps - begin) / rule.most_ps, 1.0))
    return Steady(
        wire_gbps=float(_windows(series.wire_gbps, rule).mean()),
        goodput_gbps=float(_windows(series.goodput_gbps, rule).mean()),
        converged=steady,
        series=series,
        per_connection_gbps=_gbps(counted[-1] - counted[0], (len(counted) - 1) * span_ps),
        deadlock=stuck,
        seconds=(fabric.now_ps - begin) / 1e12,
    )


def _windows(values: list[float], rule: Rule) -> np.ndarray:
    """Means of the last windows, oldest first."""
    return np.array(values[-rule.windows * rule.span :]).reshape(-1, rule.span).mean(axis=1)


def _gbps(count: Any, duration_ps: int) -> Any:
    """Bytes in a time as a rate."""
    return count * 8 / (duration_ps / 1e3)


def jain(values: np.ndarray) -> float:
    """Jain's index of fairness: 1 if all are equal, 1/n if one has everything."""
    squares = float((values.astype(float) ** 2).sum())
    return float(values.sum()) ** 2 / (len(values) * squares) if squares else 1.0
