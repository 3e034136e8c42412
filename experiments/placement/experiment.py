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

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from detour.base.errors import DetourError
from detour.control.rerouting import Thresholds
from detour.experiments.store import Point

WORKER = "detour.experiments.placement.experiment:run"

TOPOLOGY = "leaf-spine:leaves=2,spines=2,hosts=1"
NAMES = {"s0": "gw1", "s1": "gw2", "s2": "rt1", "s3": "rt2"}
SENDER, RECEIVER = 1, 0
"""hosts: behind gw2, and behind gw1"""
PATHS = ((1, 2, 0), (1, 3, 0))
"""by way of rt1, where the flow begins, and of rt2"""
THROTTLED = "s1-s2"
"""gw2-rt1"""

MODES = ("uncongested", "none", "controller", "nic")
THROTTLE = 0.65
"""share of the link's rate that is left"""
ONSET = 1 / 6
"""share of the run after which that happens: 5 of 30 s"""
PAPER_GB = {"none": 69.81, "controller": 98.00}
PAPER_SECONDS = 30.0
PAPER_REROUTE_S = 0.2
RECOVERED = 0.9
"""share of the rate before the congestion at which a flow counts as recovered"""


@dataclass(frozen=True)
class Footing:
    """How long and how fast. `window_s`: of the monitor that the controller decides by; `bin_s`: of the time series,
    100 ms in the paper; `delay_s`: queuing delay that means congestion; `hold_s`: see `rerouting.Thresholds`."""

    rate_bps: int
    seconds: float
    quick_seconds: float
    window_s: float
    bin_s: float
    delay_s: float
    hold_s: float
    text: str

    @property
    def thresholds(self) -> Thresholds:
        """Those of the controller."""
        hold = round(self.hold_s * 1e12)
        return Thresholds(delay_ps=self.delay_s * 1e12, hold_ps=hold, penalty_ps=100 * hold)


FOOTINGS = {
    "virtual": Footing(
        100_000_000_000, 30e-3, 6e-3, 20e-6, 100e-6, 5e-6, 100e-6, "engine in virtual time, all times a thousandth"
    ),
    "real": Footing(20_000_000, 30.0, 6.0, 10e-3, 100e-3, 2e-3, 100e-3, "engine in real time"),
    "bmv2": Footing(1_102_000, 30.0, 12.0, 100e-3, 1.0, 80e-3, 1.0, "simple_switch_grpc"),
}
"""virtual: a thirtieth of a second of 100 Gb/s is as many packets as a laptop simulates in seconds"""


@dataclass
class Course:
    """What a run measured. `times_s`, `rates_bps`: the end of every bin and the payload rate in it; `onset_s`: when the
    link was throttled (the run's own clock, from the first packet); `rerouted_s`: when the sender changed its path."""

    times_s: NDArray[np.float64]
    rates_bps: NDArray[np.float64]
    onset_s: float | None
    rerouted_s: list[float]
    delivered_bytes: int
    sent_bytes: int
    arrived_bytes: int
    duplicate_bytes: int
    messages: int
    in_order: bool
    retransmitted: int
    ecn_marked: int
    rtt_s: float
    switches: list[dict[str, Any]] = field(default_factory=list)
    """what switches counted of the flow (virtual time)"""


# -- points -------------------------------------------------------------------------------------------------


def select(footing: str, extent: str = "normal", seconds: float | None = None) -> list[Point]:
    """A point for every mode.

    Raises:
        DetourError: no such footing, or a run that is too short to show anything.
    """
    if footing not in FOOTINGS:
        raise DetourError(f"there is no footing {footing!r}; allowed: {', '.join(FOOTINGS)}")
    how = FOOTINGS[footing]
    length = seconds or (how.quick_seconds if extent == "quick" else how.seconds)
    least = 12 * how.bin_s
    if length < least:
        raise DetourError(f"a run of {length:g} s is too short on the footing {footing}; at least {least:g} s")
    return [{"experiment": "path-placement", "footing": footing, "mode": mode, "seconds": length} for mode in MODES]


def seconds(point: Point) -> float:
    """Roughly what a point costs."""
    return 5.0 + (200 * point["seconds"] if point["footing"] == "virtual" else 3.0 + 1.1 * point["seconds"])


def run(point: Point) -> dict[str, Any]:
    """Carries out a run."""
    how, mode, length = FOOTINGS[point["footing"]], point["mode"], point["seconds"]
    if point["footing"] == "virtual":
        from detour.experiments.placement import virtual as path_virtual

        course = path_virtual.run(how, mode, length)
    else:
        from detour.experiments.placement import real as path_real

        course = path_real.run(how, point["footing"], mode, length)
    return {"footing": point["footing"], "mode": mode, "seconds": length} | describe(course)


# -- results ------------------------------------------------------------------------------------------------


def describe(course: Course) -> dict[str, Any]:
    """What is reported of a run, ready for JSON."""
    onset = course.onset_s
    reroute = next((when - onset for when in course.rerouted_s if when >= onset), None) if onset is not None else None
    return {
        "delivered_gb": course.delivered_bytes * 8 / 1e9,
        "reroute_s": reroute,
        "reroute_rtts": None if reroute is None else reroute / course.rtt_s,
        "reroutes": len(course.rerouted_s),
        "recovery_s": None if onset is None else recovery(course),
        "lost_bytes": course.sent_bytes - course.arrived_bytes,
        "duplicate_bytes": course.duplicate_bytes,
        "messages": course.messages,
        "in_order": course.in_order,
        "retransmitted": course.retransmitted,
        "ecn_marked": course.ecn_marked,
        "rtt_s": course.rtt_s,
        "onset_s": onset,
        "switches": course.switches,
        "series": {
            "seconds": np.round(course.times_s, 9).tolist(),
            "mbps": np.round(course.rates_bps / 1e6, 3).tolist(),
        },
    }


def recovery(course: Course) -> float | None:
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


def collect(results: Iterable[dict[str, Any] | None]) -> dict[str, Any]:
    """`runs` in the order of `MODES`; `delivered_fraction` is relative to the uncongested run. Beside them the paper's
    volumes, scaled to the length of the run and the rate of the links."""
    found = [result for result in results if result is not None]
    full = next((r["delivered_gb"] for r in found if r["mode"] == "uncongested"), None)
    for result in found:
        result["delivered_fraction"] = result["delivered_gb"] / full if full else None
    paper = PAPER_GB["none"] / PAPER_GB["controller"]
    return {
        "topology": TOPOLOGY,
        "switches": NAMES,
        "throttled": "rt1-gw2",
        "throttle": THROTTLE,
        "runs": found,
        "paper": {
            "delivered_gb": PAPER_GB,
            "delivered_fraction": {"none": round(paper, 4), "controller": 1.0},
            "seconds": PAPER_SECONDS,
            "reroute_s": PAPER_REROUTE_S,
        },
    }


def bins(times_s: Sequence[float], counts: Sequence[int], bin_s: float) -> tuple[Any, Any]:
    """(bins,) ends and rates in bits a second, from cumulative byte counts at increasing times; the run begins at 0 s
    with 0 bytes. Counts between samples are interpolated."""
    ends = np.arange(1, int(round(times_s[-1] / bin_s, 6)) + 1) * bin_s
    at = np.interp(ends, np.concatenate([[0.0], times_s]), np.concatenate([[0], counts]))
    return ends, np.diff(at, prepend=0.0) * 8 / bin_s
