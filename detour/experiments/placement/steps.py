# SPDX-License-Identifier: Apache-2.0
"""Step times of training jobs over load: hashed, placed and sprayed, on 1, 4 and 8 planes, and while a link fails.

Each of 16 hosts has 800 Gb/s, in one port or divided among the ports to 4 or 8 planes. Jobs are rings of 4 hosts that
are drawn at random, one all-reduce each; load is the share of hosts that have a job. Each pair of hosts has 8 queue
pairs everywhere. The link that fails in the middle of a step leads from the first rank's leaf to a spine, in plane 0; a
controller writes routes around it a millisecond later. The step is that of the slowest job.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from detour.base.tables import Table
from detour.base.times import MS, US
from detour.experiments import drawing
from detour.experiments.columns import cell, combined, grouped, kept, largest, mean, row, shown, table
from detour.experiments.sim.job_runs import DEFAULT_SCHEMES, scheme_named
from detour.experiments.sim.recovery import RecoveryWatch
from detour.experiments.sim.run import run_workload
from detour.experiments.sim.settings import SimOptions, TimedFailure, settings_of
from detour.experiments.sim.workloads import SimWorkload
from detour.experiments.steady import draws_of
from detour.fabric.workloads.collectives import Ranks, ring_all_reduce
from detour.fabric.workloads.ideal import ideal_ps, wire_terms
from detour.fabric.workloads.tasks import TaskGraph, TaskList
from detour.topo import Topology, parse_topology
from detour.topo.failures import Failure

_PLANES = (1, 4, 8)
_LEAVES = _SPINES = _HOSTS_OF_LEAF = _RANKS = 4
_HOSTS = _LEAVES * _HOSTS_OF_LEAF
_NIC_GBPS = 800
_QUEUE_PAIRS = 8
_BYTES = 4_000_000
"""that each rank reduces"""
_REROUTE_AFTER_PS = MS


@dataclass(frozen=True)
class RingPoint:
    """A run: `jobs` on a fabric of `planes`, with a draw of their hosts."""

    planes: int
    jobs: int
    failing: bool
    scheme: str
    seed: int
    experiment: str = "path-placement steps"


@row
class RingRun:
    """A run, or the means over draws. `load`: share of hosts that have a job; `recover_us`: see `sim.recovery`; None:
    not all was delivered, or nothing failed."""

    planes: int = shown("planes")
    failing: bool = shown("a link fails")
    load: float = shown("load", ".0%")
    scheme: str = shown("scheme")
    step_us: float | None = shown("step us", ".1f", over=mean(3))
    longest_us: float | None = shown("longest us", ".1f", over=largest, means="of all draws")
    ideal_us: float = shown("ideal us", ".1f", over=mean(3), means="in an empty fabric")
    recover_us: float | None = shown("recover us", ".1f", over=mean(3), means="until what the link interrupted went on")
    retransmitted: float = shown("sent again", ".0f", over=mean(1), means="packets")
    finished: float = kept(mean(4))
    """share of runs that delivered everything"""

    @cell("of ideal")
    def _of_ideal(self) -> str | None:
        return None if self.step_us is None else f"{self.step_us / self.ideal_us:.2f}"


@dataclass(frozen=True)
class RingFindings:
    """Means over draws."""

    steps: tuple[RingRun, ...] = ()


def select(extent: str = "normal") -> list[RingPoint]:
    """All schemes with the same draws."""
    return [
        RingPoint(planes, jobs, failing, scheme, seed)
        for planes in _PLANES
        for failing in (False, True)
        for jobs in range(1, _HOSTS // _RANKS + 1)
        for scheme in DEFAULT_SCHEMES
        for seed in range(1, draws_of(extent) + 1)
    ]


def seconds(point: RingPoint) -> float:
    return 0.3 + 0.2 * point.jobs


def run(point: RingPoint) -> RingRun:
    """Carry out a run."""
    topology = parse_topology(f"clos:planes={point.planes},leaves={_LEAVES},spines={_SPINES},hosts={_HOSTS_OF_LEAF}")
    order = random.Random(f"steps {point.seed}").sample(range(_HOSTS), _HOSTS)
    graph = _rings(order[: point.jobs * _RANKS])
    scheme, placed = scheme_named(point.scheme)
    usual = settings_of(topology, SimOptions(rate=f"{_NIC_GBPS / point.planes:g}G"))
    settings = replace(usual, scheme=scheme, seed=point.seed, reroute_after_ps=_REROUTE_AFTER_PS)
    ideal = ideal_ps(graph, wire_terms(topology, settings.links)).total_ps
    if point.failing:
        settings = replace(settings, failures=(TimedFailure(ideal // 2, _uplink(topology, order[0])),))
    watch = RecoveryWatch(settings)
    done = run_workload(topology, SimWorkload("rings", graph, False), settings, placed=placed, watcher=watch)
    whole = done.ended_by == "delivered"
    step, recover = done.end_ps / US if whole else None, watch.recover_ps if point.failing and whole else None
    return RingRun(
        planes=point.planes, failing=point.failing, load=point.jobs * _RANKS / _HOSTS, scheme=point.scheme,
        step_us=step, longest_us=step, ideal_us=ideal / US, recover_us=None if recover is None else recover / US,
        retransmitted=float(done.counts.retransmitted.sum()), finished=float(whole),
    )  # fmt: skip


def _rings(hosts: Sequence[int]) -> TaskGraph:
    """An all-reduce of every four hosts, in shares on so many queue pairs."""
    tasks = TaskList(_HOSTS, serial=True)
    for first in range(0, len(hosts), _RANKS):
        ranks = Ranks.fresh(hosts[first : first + _RANKS], f"job{first // _RANKS}")
        for pair in range(_QUEUE_PAIRS):
            ring_all_reduce(tasks, replace(ranks, over=lambda a, b, pair=pair: pair), _BYTES // _QUEUE_PAIRS)
    return tasks.graph()


def _uplink(topology: Topology, host: int) -> Failure:
    """The first link from a host's leaf of plane 0 to a spine."""
    leaf = _HOSTS + host // _HOSTS_OF_LEAF
    return Failure("link", topology.link(f"s{leaf}-s{_HOSTS + _LEAVES}").index)


def collect(runs: Sequence[RingRun]) -> RingFindings:
    """A row for each fabric, load and scheme."""
    cases = grouped(runs, lambda one: (one.planes, one.failing, one.load, one.scheme))
    order = {name: place for place, name in enumerate(DEFAULT_SCHEMES)}
    keys = sorted(cases, key=lambda key: (*key[:3], order[key[3]]))
    return RingFindings(tuple(combined(RingRun, cases[key]) for key in keys))


def tables(findings: RingFindings) -> list[Table[Any]]:
    """All of it."""
    return [table(RingRun, findings.steps, "step times of rings of 4 hosts, NICs of 800 Gb/s")]


_STYLES = {"ecmp": (drawing.BLUE, "o", "-"), "placed": (drawing.ORANGE, "s", "-"), "spray": (drawing.GREEN, "D", "-")}


def draw(findings: RingFindings, file: Path) -> None:
    """Step time over load, a column for each number of planes; below, while a link fails."""
    drawing.need(findings.steps)
    plt, figure, axes = drawing.canvas(2, len(_PLANES), 3.6, 3.0)
    for line, failing in enumerate((False, True)):
        for column, planes in enumerate(_PLANES):
            axis = axes[line][column]
            here = [one for one in findings.steps if (one.planes, one.failing) == (planes, failing)]
            for scheme, some in grouped(here, lambda one: one.scheme).items():
                points = [one for one in some if one.step_us is not None]
                drawing.curve(
                    axis, [one.load for one in points], [one.step_us for one in points], _STYLES[scheme], scheme
                )
            axis.plot([one.load for one in here], [one.ideal_us for one in here], ":", color=drawing.BLACK,
                      label="empty fabric")  # fmt: skip
            planes_text = f"{planes} plane{'s' if planes > 1 else ''}{', a link fails' if failing else ''}"
            axis.set(title=planes_text, xlabel="share of hosts with a job", ylabel="step, us", ylim=(0, None))
            if failing:
                axis.set(yscale="log", ylim=(30, None))
    drawing.legend(figure, [axis for line in axes for axis in line])
    drawing.save(plt, figure, file)
