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
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from detour.base.dataplane import PACKET_BYTES, PAYLOAD
from detour.base.errors import DetourError
from detour.base.records import extended
from detour.base.tables import Table
from detour.experiments import running
from detour.experiments.columns import cell, row, shown, table, taken
from detour.experiments.maxmin import bound_gbps
from detour.experiments.nonshortest import paper
from detour.experiments.running import RunTimes, SteadyRun
from detour.fabric.backends.virtual.scheme import LERP_WITHOUT_PFC, ROCE_WITH_PFC
from detour.topo import Topology, parse_topology
from detour.topo.topology import HostPair

FAT_TREE = "fat-tree:k=8,blocking=4"
CONNECTIONS = tuple(row[0] for row in paper.TABLE_1)
PFC_GAIN_SCHEMES = {s.name: s for s in (LERP_WITHOUT_PFC, ROCE_WITH_PFC)}
TIMES = {
    "quick": RunTimes(virtual_us=800, tolerance=0.02),
    "normal": RunTimes(virtual_us=3_000),
    "full": RunTimes(virtual_us=10_000),
}
_PAPER = {row.connections: row for row in paper.TABLE_1}
_HOPS_A_SECOND = 700_000
_OTHER_GBPS = 30_000
"""throughput of a number of connections that Table I does not have, for estimates"""


@dataclass(frozen=True, kw_only=True)
class PfcGainPoint(RunTimes):
    """One scheme with one draw of pairs. `tree`: the topology."""

    tree: str
    connections: int
    scheme: str
    seed: int
    experiment: Literal["pfc-gain"] = "pfc-gain"


@dataclass(frozen=True, kw_only=True)
class PfcGainRun(SteadyRun):
    """The result of a point. `bound_gbps`: goodput of ideal transports on the same pairs (`maxmin`)."""

    connections: int
    scheme: str
    seed: int
    bound_wire_gbps: float
    bound_gbps: float


@row
class PfcGain:
    """A row of Table I: goodput without and with PFC, averaged over seeds, and gains in percent. `steady`: all of its
    runs were."""

    connections: int = shown("connections", ",")
    lerp_gbps: float = shown("without PFC", ",.0f")
    paper_lerp_gbps: int | None = shown("paper", ",.0f")
    pfc_gbps: float = shown("with PFC", ",.0f")
    paper_pfc_gbps: int | None = shown("paper", ",.0f")
    gain: float
    steady: bool = True

    @cell("gain", means="*: not all runs were steady")
    def _gain(self) -> str:
        return f"{self.gain:.1f} %{'' if self.steady else ' *'}"

    paper_gain: float | None = shown("paper", lambda gain: f"{gain:.1f} %")
    bound_gbps: float = shown("max-min bound", ",.0f", means="fair rates on random shortest paths")


@dataclass(frozen=True)
class PfcGainFindings:
    """`points`: a row for each number of connections of which both schemes were run; `runs`: the runs behind them."""

    topology: str
    points: Sequence[PfcGain]
    runs: Sequence[PfcGainRun]


def select(extent: str = "normal", connections: Sequence[int] = CONNECTIONS, seeds: int = 1) -> list[PfcGainPoint]:
    """The points: two schemes for every number of connections and every seed. Raises `DetourError`: a number of
    connections or of seeds is not possible."""
    if seeds < 1:
        raise DetourError(f"{seeds} seeds; expected at least 1")
    for count in connections:
        if not 1 <= count <= CONNECTIONS[-1]:
            raise DetourError(f"{count} connections: Table I has 16 to {CONNECTIONS[-1]}")
    return [
        extended(PfcGainPoint, TIMES[extent], tree=FAT_TREE, connections=count, scheme=name, seed=seed)
        for count in connections
        for seed in range(1, seeds + 1)
        for name in PFC_GAIN_SCHEMES
    ]


def draw(topology: Topology, connections: int, seed: int) -> list[HostPair]:
    """Pairs of different hosts, each drawn uniformly; a pair may occur again."""
    rng, hosts = random.Random(f"table 1 {seed}"), range(len(topology.hosts))
    return [tuple(rng.sample(hosts, 2)) for _ in range(connections)]  # type: ignore[misc]


def seconds(point: PfcGainPoint) -> float:
    row = _PAPER.get(point.connections)
    gbps = row.without_pfc_gbps if row else _OTHER_GBPS
    packets = gbps * 1e9 / 8 / PACKET_BYTES * point.virtual_us / 1e6
    return 6.0 + packets * 8 / _HOPS_A_SECOND + point.connections / 5_000


def run(point: PfcGainPoint) -> PfcGainRun:
    topology = parse_topology(point.tree)
    pairs = draw(topology, point.connections, point.seed)
    settings = running.settings(len(pairs), point.seed)
    measured = running.steady_state(topology, PFC_GAIN_SCHEMES[point.scheme], pairs, settings, point)
    bound = bound_gbps(topology, pairs, settings.links.rate_bps, point.seed)
    bounds = {"bound_wire_gbps": round(bound, 1), "bound_gbps": round(bound * PAYLOAD / PACKET_BYTES, 1)}
    return taken(PfcGainRun, measured, point, **bounds)


def collect(runs: Sequence[PfcGainRun]) -> PfcGainFindings:
    """Ours beside Table I."""
    rows = [_row(count, runs) for count in dict.fromkeys(run.connections for run in runs)]
    return PfcGainFindings(FAT_TREE, [row for row in rows if row], runs)


def _row(connections: int, runs: Sequence[PfcGainRun]) -> PfcGain | None:
    """None unless both schemes were run."""
    without, with_pfc = (
        [run for run in runs if (run.connections, run.scheme) == (connections, chosen.name)]
        for chosen in (LERP_WITHOUT_PFC, ROCE_WITH_PFC)
    )
    lerp, pfc = (_mean(some, lambda run: run.goodput_gbps) for some in (without, with_pfc))
    if not without or not pfc:
        return None
    printed = _PAPER.get(connections)
    return PfcGain(
        connections=connections,
        lerp_gbps=round(lerp, 1),
        pfc_gbps=round(pfc, 1),
        gain=round(100 * (lerp / pfc - 1), 2),
        paper_gain=printed.gain if printed else None,
        paper_lerp_gbps=printed.without_pfc_gbps if printed else None,
        paper_pfc_gbps=printed.with_pfc_gbps if printed else None,
        bound_gbps=_mean(without, lambda run: run.bound_gbps),
        steady=all(run.steady for run in (*without, *with_pfc)),
    )


def _mean(runs: Sequence[PfcGainRun], of: Callable[[PfcGainRun], float]) -> float:
    return statistics.fmean(map(of, runs)) if runs else 0.0


def tables(findings: PfcGainFindings) -> list[Table[PfcGain]]:
    """Return the table of the gain from removing PFC."""
    return [table(PfcGain, findings.points, f"{findings.topology}, goodput in Gb/s")]
