# SPDX-License-Identifier: Apache-2.0
"""Section IV of the SRv6 path placement paper: a link is throttled, and a flow gets out of its way, or does not.

Two gateways, two routers between them (Fig. 2): rt1 and rt2. One flow goes from gw2 by way of rt1 to gw1, where its
throughput is sampled; then the link rt1-gw2 loses part of its rate. Four runs: without the throttle, with it and
congestion control only, with a controller that reroutes, and with a NIC that reroutes itself. The paper gives neither
the rate of the throttled link nor when it was throttled; `THROTTLE` and `ONSET` are chosen so that the run without
rerouting delivers about what the paper's did (69.81 of 98.00 Gb).

A point is one run on one footing: virtual time, the engine in real time, or BMv2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from detour.base.errors import DetourError
from detour.experiments.columns import row, shown, taken
from detour.experiments.placement.scenario import BACKENDS, MODES, RunCourse, SwitchOnPath

_LONGER = 3
"""times as long with --full"""
RECOVERED = 0.9
"""share of the rate before the congestion at which a flow counts as recovered"""


# -- points -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PathPoint:
    """A run on a footing for so many seconds."""

    footing: str
    mode: str
    seconds: float
    experiment: str = "path-placement"


def select(extent: str = "normal", footing: str = "virtual", seconds: float | None = None) -> list[PathPoint]:
    """A point for every mode. Raises `DetourError`: no such footing, or a run that is too short to show anything."""
    if footing not in BACKENDS:
        raise DetourError(f"there is no footing {footing!r}; allowed: {', '.join(BACKENDS)}")
    how = BACKENDS[footing]
    length = seconds or {"quick": how.quick_seconds, "full": _LONGER * how.seconds}.get(extent, how.seconds)
    least = 12 * how.bin_s
    if length < least:
        raise DetourError(f"a run of {length:g} s is too short on the footing {footing}; at least {least:g} s")
    return [PathPoint(footing, mode, length) for mode in MODES]


def seconds(point: PathPoint) -> float:
    return 5.0 + (200 * point.seconds if point.footing == "virtual" else 3.0 + 1.1 * point.seconds)


# -- results ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ThroughputSeries:
    """Payload that arrives, by the end of every bin."""

    seconds: tuple[float, ...]
    mbps: tuple[float, ...]


def _time(value: float) -> str:
    return f"{value * 1e3:.1f} ms" if value >= 1e-3 else f"{value * 1e6:.1f} us"


@row
class PathRun:
    """What is reported of a run. Times are from the onset, None: that did not happen; `recovery_s`: see `recovery`."""

    mode: str = shown("rerouting")
    footing: str
    seconds: float
    delivered_gb: float = shown("Gb", ".4g", means="delivered in the time of the run")
    reroute_s: float | None = shown("rerouted after", _time)
    reroute_rtts: float | None = shown("RTTs", ".1f", wide=True)
    recovery_s: float | None = shown("recovered after", _time)
    reroutes: int = shown("moves", wide=True)
    lost_bytes: int = shown("bytes lost", wide=True)
    duplicate_bytes: int = shown("repeated", wide=True)
    in_order: bool = shown("whole", means="all messages have arrived as they were, in order")
    messages: int
    retransmitted: int
    ecn_marked: int
    rtt_s: float
    onset_s: float | None
    switches: tuple[SwitchOnPath, ...]
    series: ThroughputSeries


def run(point: PathPoint) -> PathRun:
    """Carries out a run."""
    from detour.experiments.placement.run import run as carry_out  # with all that a fabric needs

    course = carry_out(BACKENDS[point.footing], point.footing, point.mode, point.seconds)
    return describe(point, course)


def describe(point: PathPoint, course: RunCourse) -> PathRun:
    """What is reported of a run."""
    onset = course.onset_s
    reroute = next((when - onset for when in course.rerouted_s if when >= onset), None) if onset is not None else None
    return taken(
        PathRun,
        course,
        footing=point.footing,
        mode=point.mode,
        seconds=point.seconds,
        delivered_gb=course.delivered_bytes * 8 / 1e9,
        reroute_s=reroute,
        reroute_rtts=None if reroute is None else reroute / course.rtt_s,
        reroutes=len(course.rerouted_s),
        recovery_s=None if onset is None else recovery(course),
        lost_bytes=course.sent_bytes - course.arrived_bytes,
        series=ThroughputSeries(
            tuple(np.round(course.times_s, 9).tolist()), tuple(np.round(course.rates_bps / 1e6, 3).tolist())
        ),
    )


def recovery(course: RunCourse) -> float | None:
    """Seconds from the onset to the end of the last bin whose rate is below `RECOVERED` of that before; 0 if there was
    none, None if the run ends with it."""
    assert course.onset_s is not None
    before = course.rates_bps[course.times_s <= course.onset_s]
    usual = float(np.median(before[len(before) // 3 :]))  # without the start
    after = course.times_s > course.onset_s
    low = np.flatnonzero(after & (course.rates_bps < RECOVERED * usual))
    if not len(low):
        return 0.0
    if low[-1] == len(course.rates_bps) - 1:
        return None
    return float(course.times_s[low[-1]] - course.onset_s)
