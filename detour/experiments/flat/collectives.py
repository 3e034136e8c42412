# SPDX-License-Identifier: Apache-2.0
"""Collectives on flat fabrics, by where ranks are and who chooses paths."""

from __future__ import annotations

from detour.base.times import US
from detour.experiments.columns import taken
from detour.experiments.flat.cases import network_of
from detour.experiments.flat.points import PLACED, CollectivePoint, CollectiveRun
from detour.experiments.flat.schemes import LINKS, FlatFabric, check
from detour.fabric.traffic.placed_tasks import PlacedTasks
from detour.fabric.traffic.tasks import TaskRun, connections_of
from detour.fabric.workloads.ideal import ideal_ps, wire_terms
from detour.fabric.workloads.jobs import job_by_name

MOST_TIMES = 50
"""times the ideal, after which a collective is given up"""
_SKEW = "zipf:1.2"


def run(point: CollectivePoint) -> CollectiveRun:
    """One collective on an empty fabric. Raises `DetourError`: there is no such topology, routing, scheme or
    collective."""
    check(point.routing, point.scheme)
    network = network_of(point.topology, point.seed)
    shuffled = f",shuffle={point.seed}" if point.placed == "random" else ""
    skewed = f",skew={_SKEW},seed={point.seed}" if point.collective == "moe" else ""
    text = f"{point.collective}:bytes={point.size},ranks={point.ranks}{shuffled}{skewed}"
    graph = job_by_name(text, network.topology)
    ideal = ideal_ps(graph, wire_terms(network.topology, LINKS)).total_ps
    with FlatFabric(network, point, connections_of(graph, 1)) as fabric:
        tasks = TaskRun(fabric, graph, lanes=1)
        if point.routing == PLACED:
            PlacedTasks(tasks)
        while not tasks.over and fabric.now_ps < MOST_TIMES * ideal:
            fabric.run(fabric.now_ps + max(10 * US, fabric.now_ps // 32))
        result = tasks.result()
    time_us = round(int(result.finish_ps.max()) / US, 3) if result.completed else None
    return taken(CollectiveRun, point, time_us=time_us, ideal_us=round(ideal / US, 3))


def seconds(point: CollectivePoint) -> float:
    """A rough cost on one core."""
    return 4.0 + point.ranks * point.size / 3e7 + point.ranks**2 / 1e4
