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

from collections.abc import Iterable
from typing import Any

import numpy as np

from detour.base.errors import DetourError
from detour.experiments.placement.scenario import FOOTINGS, MODES, NAMES, THROTTLE, TOPOLOGY, RunResult
from detour.experiments.store import Point

WORKER = "detour.experiments.placement.experiment:run"

PAPER_GB = {"none": 69.81, "controller": 98.00}
PAPER_SECONDS = 30.0
PAPER_REROUTE_S = 0.2
RECOVERED = 0.9
"""share of the rate before the congestion at which a flow counts as recovered"""


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
    from detour.experiments.placement.run import run as carry_out

    result = carry_out(how, point["footing"], mode, length)
    return {"footing": point["footing"], "mode": mode, "seconds": length} | describe(result)


# -- results ------------------------------------------------------------------------------------------------


def describe(result: RunResult) -> dict[str, Any]:
    """What is reported of a run, ready for JSON."""
    onset = result.onset_s
    reroute = next((when - onset for when in result.rerouted_s if when >= onset), None) if onset is not None else None
    return {
        "delivered_gb": result.delivered_bytes * 8 / 1e9,
        "reroute_s": reroute,
        "reroute_rtts": None if reroute is None else reroute / result.rtt_s,
        "reroutes": len(result.rerouted_s),
        "recovery_s": None if onset is None else recovery(result),
        "lost_bytes": result.sent_bytes - result.arrived_bytes,
        "duplicate_bytes": result.duplicate_bytes,
        "messages": result.messages,
        "in_order": result.in_order,
        "retransmitted": result.retransmitted,
        "ecn_marked": result.ecn_marked,
        "rtt_s": result.rtt_s,
        "onset_s": onset,
        "switches": result.switches,
        "series": {
            "seconds": np.round(result.times_s, 9).tolist(),
            "mbps": np.round(result.rates_bps / 1e6, 3).tolist(),
        },
    }


def recovery(result: RunResult) -> float | None:
    """Seconds from the onset to the end of the last bin whose rate is below `RECOVERED` of that before; 0 if there was
    none, None if the run ends with it."""
    assert result.onset_s is not None
    before = result.rates_bps[result.times_s <= result.onset_s]
    usual = float(np.median(before[len(before) // 3 :]))  # without the start
    after = result.times_s > result.onset_s
    low = np.flatnonzero(after & (result.rates_bps < RECOVERED * usual))
    if not len(low):
        return 0.0
    if low[-1] == len(result.rates_bps) - 1:
        return None
    return float(result.times_s[low[-1]] - result.onset_s)


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
