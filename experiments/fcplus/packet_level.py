# SPDX-License-Identifier: Apache-2.0
"""Which points of the FC+ paper's packet level there are, and their tables: Table VIII's completion times, deadlocks.

What computes them (`fcplus_packets`, `fcplus_deadlock`) is loaded when a point is run: it takes the engine along.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from detour.experiments.fcplus import paper
from detour.experiments.store import Point

PACKET_KINDS = ("packets", "deadlock")
NETWORKS = ("FC+ 2L", "FC+ 1L", "KSP", "FC", "Clos")
ARRIVALS_US = {"normal": 600, "full": 5_000}
"""for how long messages arrive"""
SAME = 0.02
"""completion times that differ by less are of equal rank: the paper's FC+ 2L and KSP are within 0.8 % of one another
for two of its three patterns"""
_DEADLOCK_ROUTES = ("KSP", "FC+ 1L", "FC+ 2L")
_SMALL = {"n": 12, "s": 6, "v": 3, "hosts": 3, "k": 8, "each": 4, "us": 2_000}
_LARGE = {"n": 120, "s": 22, "v": None, "hosts": 10, "k": 32, "each": 4, "us": 300}


def select(full: bool, sizes: str = "equal") -> list[Point]:
    """Five networks under three patterns; routes with and without deadlock on a small network and the paper's."""
    times = ARRIVALS_US["full" if full else "normal"]
    shared = {"experiment": "fcplus", "seed": 1}
    packets = [
        shared | {"kind": "packets", "n": 120, "s": 22, "network": network, "pattern": pattern, "k": 32}
        | {"us": times, "sizes": sizes, "split": "optimal"}
        for pattern in paper.TABLE_8_FCT
        for network in NETWORKS
    ]  # fmt: skip
    deadlock = [
        shared | {"kind": "deadlock", "network": network, "dcqcn": dcqcn} | size
        for size in (_SMALL, _LARGE)
        for dcqcn in (False, True)
        for network in _DEADLOCK_ROUTES
    ]
    return packets + deadlock


def run(point: Point) -> dict[str, Any]:
    """Computes a point of either kind."""
    from detour.experiments.fcplus import deadlock as fcplus_deadlock
    from detour.experiments.fcplus import packets as fcplus_packets

    return (fcplus_packets if point["kind"] == "packets" else fcplus_deadlock).run(point)


def seconds(point: Point) -> float:
    """Roughly what a point costs on one core, compiling left out."""
    if point["kind"] == "packets":
        return 15 + point["us"] * {"near-worst": 0.032, "uniform": 0.028, "all-to-all": 0.026}[point["pattern"]]
    return 4 + point["n"] * point["s"] * point["us"] / 25_000


# -- tables -------------------------------------------------------------------------------------------------


def collect(points: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """`completion`: Table VIII's completion times beside the paper's; `order`: networks by median, per pattern;
    `deadlocks`: one row a run."""
    rows = [_row(p) for p in points if p["kind"] == "packets"]
    return {
        "completion": rows,
        "order": [_order(rows, pattern) for pattern in paper.TABLE_8_FCT if any(r["pattern"] == pattern for r in rows)],
        "deadlocks": [_deadlock_row(p) for p in points if p["kind"] == "deadlock"],
    }


def _row(point: dict[str, Any]) -> dict[str, Any]:
    printed = paper.TABLE_8_FCT[point["pattern"]][point["network"]]
    names = ("network", "pattern", "sizes", "us", "seed", "messages", "unfinished", "deadlock", "mean_hops", "pauses")
    return {name: point[name] for name in names} | {
        "p50": point["slowdown"]["p50"],
        "p99": point["slowdown"]["p99"],
        "p50_us": point["fct_us"]["p50"],
        "p99_us": point["fct_us"]["p99"],
        "paper_p50": printed[0],
        "paper_p99": printed[1],
    }


def _order(rows: Sequence[dict[str, Any]], pattern: str) -> dict[str, Any]:
    """Networks from the least median slowdown to the largest, and whether the paper's order is the same."""
    ours = {
        network: statistics.median(r["p50"] for r in rows if r["pattern"] == pattern and r["network"] == network)
        for network in NETWORKS
        if any(r["pattern"] == pattern and r["network"] == network for r in rows)
    }
    theirs = {network: paper.TABLE_8_FCT[pattern][network][0] for network in ours}
    return {
        "pattern": pattern,
        "ours": sorted(ours, key=ours.__getitem__),
        "paper": sorted(theirs, key=theirs.__getitem__),
        "agrees": agrees(ours, theirs),
    }


def agrees(ours: dict[str, float], theirs: dict[str, float]) -> bool:
    """Whether no two networks are the other way round, where either side tells them apart by more than `SAME`."""
    names = list(ours)
    for i, a in enumerate(names):
        for b in names[i + 1 :]:
            close = any(abs(side[a] - side[b]) <= SAME * max(side[a], side[b]) for side in (ours, theirs))
            if not close and (ours[a] < ours[b]) != (theirs[a] < theirs[b]):
                return False
    return True


def _deadlock_row(point: dict[str, Any]) -> dict[str, Any]:
    names = ("network", "n", "s", "dcqcn", "seed", "deadlock", "stuck_queues", "remains", "found_at_us")
    rates = ("goodput_gbps_before", "goodput_gbps_after", "pauses", "drops")
    return {name: point[name] for name in (*names, *rates)} | {"possible": point["network"] == "KSP"}
