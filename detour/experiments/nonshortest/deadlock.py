# SPDX-License-Identifier: Apache-2.0
"""Fig. 2 of the non-shortest-path paper: three connections that close a cycle of buffers which PFC may block.

Three groups of two switches, every pair of groups joined by one link. Red goes from group 0 by way of 1 to 2, blue from
1 by way of 2 to 0, green from 2 by way of 0 to 1, each on a non-shortest path. In every group the way leads over the
link between the two switches, so each connection needs the buffers that the next one holds. The cases differ in PFC
and the number of virtual channels only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from detour.base.tables import Table
from detour.base.times import US
from detour.experiments import running
from detour.experiments.columns import columns, row, shown, taken
from detour.experiments.running import RunCounters, run_until_stuck
from detour.fabric.backends.virtual.fabric import ENDLESS
from detour.fabric.backends.virtual.scheme import RED_MARKING, Scheme
from detour.topo import Topology, parse_topology
from detour.topo.topology import HostPair

FIGURE_2 = "dragonfly:p=4,a=2,h=1"
CASES = ("PFC, 1 VC", "PFC, 3 VCs", "no PFC, 1 VC")
PAPER = {"PFC, 1 VC": True, "PFC, 3 VCs": False, "no PFC, 1 VC": False}
"""whether the paper expects a deadlock (section II-C)"""
RUN_PS = 2_000 * US


@dataclass(frozen=True, kw_only=True)
class Figure2Point:
    """One case with one seed."""

    case: str
    topology: str
    seed: int
    experiment: Literal["deadlock"] = "deadlock"


@row
class Figure2Run(RunCounters):
    """The result of a point. `paper`: whether the paper expects a deadlock; `queues`: those that are stuck, by name;
    rates before it was found, or the time was over, and after."""

    case: str = shown("case")
    seed: int = shown("seed")
    pfc: bool
    channels: int
    deadlock: bool = shown("deadlock")
    paper: bool = shown("expected")
    found_at_us: float | None = shown("found at us", ".0f", wide=True)
    queues: tuple[str, ...] = shown("queues", len, wide=True)
    goodput_gbps_before: float = shown("Gb/s before", ".0f")
    goodput_gbps_after: float = shown("after", ".0f")
    pauses: int = shown("pauses")
    drops: int = shown("lost")


@dataclass(frozen=True)
class Figure2Findings:
    """`points`: all runs."""

    topology: str
    points: Sequence[Figure2Run]


def case_scheme(case: str) -> Scheme:
    """RoCEv2 on random non-shortest paths, as case by case."""
    channels = 3 if "3 VCs" in case else 1
    return Scheme(case, "gbn", "dcqcn", "detour", RED_MARKING, pfc=not case.startswith("no"), channels=channels)


def cycle(topology: Topology) -> list[HostPair]:
    """A connection from every host to its counterpart two groups further on, which a detour reaches by way of the next
    group."""
    per_group = len(topology.hosts) // topology.groups
    return [(h.index, (h.index + 2 * per_group) % len(topology.hosts)) for h in topology.hosts]


def select(extent: str = "normal", seeds: int = 1) -> list[Figure2Point]:
    """A point for every case and seed, of whatever extent."""
    return [Figure2Point(case=case, topology=FIGURE_2, seed=seed) for case in CASES for seed in range(1, seeds + 1)]


def seconds(point: Figure2Point) -> float:
    return 5.0


def run(point: Figure2Point) -> Figure2Run:
    """Run a case until it is deadlocked or its time is over."""
    topology = parse_topology(point.topology)
    pairs = cycle(topology)
    chosen = case_scheme(point.case)
    with running.open_fabric(topology, chosen, pairs, running.settings(len(pairs), point.seed)) as fabric:
        running.start(fabric, ENDLESS)
        stuck = run_until_stuck(fabric, RUN_PS)
        rates = {name: round(getattr(stuck, name), 3) for name in ("goodput_gbps_before", "goodput_gbps_after")}
        terms = {"deadlock": bool(stuck.queues), "paper": PAPER[point.case], "queues": stuck.names}
        return taken(Figure2Run, point, chosen, running.counters(fabric), stuck, **terms, **rates)


def collect(runs: Sequence[Figure2Run]) -> Figure2Findings:
    """All runs."""
    return Figure2Findings(FIGURE_2, runs)


def tables(findings: Figure2Findings) -> list[Table[Figure2Run]]:
    """A row for every run, runs of several seeds told apart, and the queues that are stuck."""
    several = len({run.seed for run in findings.points}) > 1
    shown_columns = [column for column in columns(Figure2Run) if several or column.name != "seed"]
    lines = [f"  {line}" for line in stuck(findings)]
    notes = ["Queues that can never move again:", *lines] if lines else ()
    return [Table(shown_columns, findings.points, findings.topology, notes)]


def stuck(findings: Figure2Findings) -> list[str]:
    """Queues that can never move again, a line for every run that has some."""
    several = len({run.seed for run in findings.points}) > 1
    names = {run: f"{run.case}, seed {run.seed}" if several else run.case for run in findings.points}
    return [f"{name}: {'; '.join(run.queues)}" for run, name in names.items() if run.queues]
