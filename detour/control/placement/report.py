# SPDX-License-Identifier: Apache-2.0
"""The report of `detour place`: a placement beside its lower bound and beside ECMP."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from detour.base.errors import DetourError
from detour.control.placement.ecmp import hashed
from detour.control.placement.jobs import FlowSet
from detour.control.placement.network import colliding
from detour.control.placement.place import place
from detour.control.placement.placement import Assignment, Placement
from detour.control.placement.repair import repair
from detour.topo import Topology
from detour.topo.failures import NONE, Failures

SEEDS = 100


@dataclass(frozen=True)
class PlacedLink:
    """Flows and collisions on a link as placed, and those that hashing puts there: the mean, for collisions also the
    worst."""

    link: str
    flows: int
    ecmp_mean: float
    collisions: int
    ecmp_collisions_mean: float
    ecmp_collisions_worst: int


@dataclass(frozen=True)
class PlacementReport:
    """`collisions`, `lower_bound`, `ecmp_mean`, `ecmp_worst`: pairs of flows that share a link, summed over directed
    links between switches. `gap`: share above the bound, None if that is 0. `busiest`: what the busiest link carries,
    in `unit` ("flows", or "bytes" where jobs give them); `bound`: the least that this can be, as far as is proven, and
    `busiest_gap` the share above it. `seconds`: for the placement, or its repair, without ECMP; `moved`: flows that
    the repair moved, None without one. `links`: those that anybody uses, busiest first under ECMP. `assignments`: the
    flows, None if they are too many."""

    topology: str
    flows: int
    jobs: int
    method: str
    collisions: int
    lower_bound: int
    gap: float | None
    ecmp_mean: float
    ecmp_worst: int
    busiest: int
    bound: int
    busiest_gap: float
    unit: str
    ecmp_busiest_mean: float
    ecmp_busiest_worst: int
    seeds: int
    seconds: float
    links: list[PlacedLink]
    moved: int | None = None
    assignments: list[Assignment] | None = None


def compare(
    topology: Topology, flows: FlowSet, failures: Failures = NONE, seeds: int = SEEDS,
    progress: Callable[[str], None] = lambda text: None, *, detours: bool = False, repaired: bool = False,
) -> tuple[Placement, PlacementReport]:  # fmt: skip
    """Place the flows; (placement, report). `detours`: see `place`; `repaired`: they are placed without the failures,
    and that is repaired. Raises `DetourError`: see `place`."""
    progress("placing")
    before = place(topology, flows, detours=detours) if repaired else None
    begin = time.monotonic()
    change = None if before is None else repair(before, failures)
    placement = place(topology, flows, failures, detours=detours) if change is None else change.placement
    seconds = time.monotonic() - begin
    if change is not None and len(change.lost):
        raise DetourError(f"{flows.name(int(change.lost[0]), topology)}: there is no path left")
    count, floor = placement.collisions, placement.lower_bound
    chance = hashed(placement.network, flows, seeds, progress)
    order = np.argsort(-chance.load, kind="stable")
    pairs = colliding(placement.load)
    links = [
        PlacedLink(
            link=placement.network.names[i],
            flows=int(placement.load[i]),
            ecmp_mean=round(float(chance.load[i]), 2),
            collisions=int(pairs[i]),
            ecmp_collisions_mean=round(float(chance.pairs[i]), 2),
            ecmp_collisions_worst=int(chance.worst_pairs[i]),
        )
        for i in order.tolist()
        if placement.load[i] or chance.load[i]
    ]
    return placement, PlacementReport(
        topology=topology.spec, flows=len(flows), jobs=len(flows.names), method=placement.method, collisions=count,
        lower_bound=floor, gap=round(count / floor - 1, 6) if floor else (0.0 if count == 0 else None),
        ecmp_mean=chance.mean, ecmp_worst=chance.worst, busiest=placement.busiest, bound=placement.bound,
        busiest_gap=round(placement.busiest / placement.bound - 1, 6) if placement.bound else 0.0, unit=flows.unit,
        ecmp_busiest_mean=float(np.mean(chance.busiest)), ecmp_busiest_worst=max(chance.busiest), seeds=seeds,
        seconds=round(seconds, 3), links=links, moved=None if change is None else len(change.moved),
    )  # fmt: skip
