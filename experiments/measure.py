# SPDX-License-Identifier: Apache-2.0
"""Measuring a fabric in virtual time: time series, steady state, counters. When a run is steady says `steady`.

Wire rate counts the data packets that arrived at hosts, whole frames from Ethernet header to ICRC, also those that
arrived twice; goodput is payload that arrived for the first time. ACKs and probes are in neither. Where links take more
for a frame than its bytes (`LinkSettings.overhead_bytes`), that counts as well.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from detour.base.dataplane import PACKET_BYTES
from detour.base.errors import DetourError
from detour.base.times import US
from detour.experiments.steady import BATCH_INTERVALS, TOLERANCE, judge
from detour.fabric.backends.virtual.fabric import VirtualFabric

INTERVALS = 300
"""of a run; a rate each"""
_LEAST_US = 300


@dataclass(frozen=True, kw_only=True)
class RunTimes:
    """Virtual time of a run, the same for all schemes, and how level its rate has to be (`steady.judge`)."""

    virtual_us: int
    tolerance: float = TOLERANCE

    def __post_init__(self) -> None:
        if self.virtual_us < _LEAST_US:
            raise DetourError(f"a run of {self.virtual_us} us is too short to be judged; at least {_LEAST_US} us")
        if not 0 < self.tolerance < 1:
            raise DetourError(f"a tolerance of {self.tolerance} is no fraction between 0 and 1")

    @property
    def interval_ps(self) -> int:
        """Of the series."""
        return self.virtual_us * US // INTERVALS


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
    """What a run settled at. `warm_s`: virtual time until it was warm; `per_connection_gbps`: (connections,) goodput
    from then on; `deadlock`: (device, port, priority) of queues that can never move again: the run ended there."""

    wire_gbps: float
    goodput_gbps: float
    steady: bool
    warm_s: float
    series: Series
    per_connection_gbps: np.ndarray
    deadlock: list[tuple[int, int, int]] = field(default_factory=list)
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
        size = PACKET_BYTES + self._fabric.settings.links.overhead_bytes
        return int(packets) * size, int(self._payload().sum())

    def _payload(self) -> np.ndarray:
        return self._fabric.column("st_rx_bytes")

    def per_connection(self) -> np.ndarray:
        """(connections,) payload bytes that arrived for the first time."""
        return self._payload()


def settle(fabric: VirtualFabric, times: RunTimes, progress: Callable[[float], None] = lambda done: None) -> Steady:
    """Runs a fabric on which connections send without end for the time of a run, or until it is deadlocked, and judges
    its rate. `progress` is told the fraction of the time that has passed."""
    meter, series, interval = GoodputMeter(fabric), Series(times.interval_ps / US), times.interval_ps
    begin = fabric.now_ps
    counted: list[np.ndarray] = [meter.per_connection()]
    before, stuck = meter.read(), []
    for number in range(1, INTERVALS + 1):
        fabric.run(begin + number * interval)
        now = meter.read()
        series.wire_gbps.append(_gbps(now[0] - before[0], interval))
        series.goodput_gbps.append(_gbps(now[1] - before[1], interval))
        before = now
        if number % BATCH_INTERVALS == 0:
            counted.append(meter.per_connection())
            stuck = fabric.deadlock()
            progress(number / INTERVALS)
        if stuck:
            break
    found = judge(series.wire_gbps, times.tolerance)
    end = len(series.wire_gbps)
    first = round(found.begin / BATCH_INTERVALS)  # a deadlocked run may end with less than a batch
    return Steady(
        wire_gbps=found.mean,
        goodput_gbps=float(np.mean(series.goodput_gbps[found.begin :])),
        steady=found.steady and not stuck,
        warm_s=found.begin * interval / 1e12,
        series=series,
        per_connection_gbps=_gbps(counted[-1] - counted[first], (end - first * BATCH_INTERVALS) * interval),
        deadlock=stuck,
        seconds=(fabric.now_ps - begin) / 1e12,
    )


def _gbps(count: Any, duration_ps: int) -> Any:
    """Bytes in a time as a rate."""
    return count * 8 / (duration_ps / 1e3)


def jain(values: np.ndarray) -> float:
    """Jain's index of fairness: 1 if all are equal, 1/n if one has everything."""
    squares = float((values.astype(float) ** 2).sum())
    return float(values.sum()) ** 2 / (len(values) * squares) if squares else 1.0
