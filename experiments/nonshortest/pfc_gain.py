# SPDX-License-Identifier: Apache-2.0
"""Table I of the non-shortest-path paper: what removing PFC gains on a three-level fat-tree with 512 hosts.

The paper gives "1 : 4 blocking" and no more. Ours is k = 8 with sixteen hosts and four links up at every edge switch:
it blocks at the edge only, and 3 % of all pairs stay below one edge switch. That small share is what the table
lives on: 34.8 Tb/s are beyond the 12.8 Tb/s that all edges together can send up, so most of it never leaves its edge
switch, and PFC keeps hosts from sending it. `maxmin` computes what ideal transports would reach on the same draw.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Iterable, Sequence
from typing import Any

from detour.base.dataplane import PACKET_BYTES, PAYLOAD
from detour.base.errors import DetourError
from detour.base.times import US
from detour.experiments import running
from detour.experiments.maxmin import bound_gbps
from detour.experiments.measure import Rule
from detour.experiments.nonshortest import paper
from detour.experiments.store import Point
from detour.fabric.footings.virtual.scheme import LERP_WITHOUT_PFC, ROCE_WITH_PFC
from detour.topo import Topology, parse_topology
from detour.topo.topology import HostPair

WORKER = "detour.experiments.nonshortest.pfc_gain:run"
FAT_TREE = "fat-tree:k=8,blocking=4"
CONNECTIONS = tuple(row[0] for row in paper.TABLE_1)
PFC_GAIN_SCHEMES = {s.name: s for s in (LERP_WITHOUT_PFC, ROCE_WITH_PFC)}
TIMES = {
    "quick": {"least_us": 600, "most_us": 800, "tolerance": 0.03},
    "normal": {"least_us": 1_000, "most_us": 4_000, "tolerance": 0.02},
    "full": {"least_us": 4_000, "most_us": 20_000, "tolerance": 0.01},
}
_PAPER = {row[0]: row for row in paper.TABLE_1}
_HOPS_A_SECOND = 700_000


def select(connections: Sequence[int], seeds: int = 1, times: str = "normal") -> list[Point]:
    """The points: two schemes for every number of connections and every seed.

    Raises:
        DetourError: a number of connections or of seeds is not possible.
    """
    if seeds < 1:
        raise DetourError(f"{seeds} seeds; at least 1 is needed")
    for count in connections:
        if not 1 <= count <= CONNECTIONS[-1]:
            raise DetourError(f"{count} connections: Table I has 16 to {CONNECTIONS[-1]}")
    return [
        {
            "experiment": "pfc-gain",
            "tree": FAT_TREE,
            "connections": count,
            "scheme": name,
            "seed": seed,
            **TIMES[times],
        }
        for count in connections
        for seed in range(1, seeds + 1)
        for name in PFC_GAIN_SCHEMES
    ]


def draw(topology: Topology, connections: int, seed: int) -> list[HostPair]:
    """Pairs of different hosts, each drawn uniformly; a pair may occur again."""
    dice, hosts = random.Random(f"table 1 {seed}"), range(len(topology.hosts))
    return [tuple(dice.sample(hosts, 2)) for _ in range(connections)]  # type: ignore[misc]


def seconds(point: Point) -> float:
    """Roughly what a point costs on one core."""
    gbps = _PAPER.get(point["connections"], (0, 0, 30_000))[2]
    packets = gbps * 1e9 / 8 / PACKET_BYTES * point["most_us"] / 1e6
    return 6.0 + packets * 8 / _HOPS_A_SECOND + point["connections"] / 5_000


def run(point: Point) -> dict[str, Any]:
    """Computes a point."""
    topology = parse_topology(point["tree"])
    pairs = draw(topology, point["connections"], point["seed"])
    settings = running.settings(len(pairs), point["seed"])
    rule = Rule(tolerance=point["tolerance"], least_ps=point["least_us"] * US, most_ps=point["most_us"] * US)
    found = running.steady_state(topology, PFC_GAIN_SCHEMES[point["scheme"]], pairs, settings, rule)
    bound = bound_gbps(topology, pairs, settings.links.rate_bps, point["seed"])
    return {
        **{name: point[name] for name in ("connections", "scheme", "seed")},
        "bound_wire_gbps": round(bound, 1),
        "bound_gbps": round(bound * PAYLOAD / PACKET_BYTES, 1),
        **found,
    }


def collect(results: Iterable[dict[str, Any] | None]) -> dict[str, Any]:
    """`points`: one for each number of connections of which both schemes were run, goodput averaged over seeds,
    gains in percent as in Table I. `runs`: the runs behind them."""
    runs = [result for result in results if result is not None]
    points = []
    for count in dict.fromkeys(result["connections"] for result in runs):
        by_scheme = {name: _mean(runs, count, name, "goodput_gbps") for name in PFC_GAIN_SCHEMES}
        lerp, pfc = by_scheme[LERP_WITHOUT_PFC.name], by_scheme[ROCE_WITH_PFC.name]
        if lerp is None or not pfc:
            continue
        row = _PAPER.get(count)
        points.append(
            {
                "connections": count,
                "lerp_gbps": round(lerp, 1),
                "pfc_gbps": round(pfc, 1),
                "gain": round(100 * (lerp / pfc - 1), 2),
                "paper_gain": row[4] if row else None,
                "paper_lerp_gbps": row[2] if row else None,
                "paper_pfc_gbps": row[3] if row else None,
                "bound_gbps": _mean(runs, count, LERP_WITHOUT_PFC.name, "bound_gbps"),
            }
        )
    return {"topology": FAT_TREE, "points": points, "runs": runs}


def _mean(runs: Sequence[dict[str, Any]], count: int, name: str, field: str) -> float | None:
    found = [r[field] for r in runs if r["connections"] == count and r["scheme"] == name]
    return statistics.fmean(found) if found else None
