# SPDX-License-Identifier: Apache-2.0
"""Collectives, and messages that all begin at once, on flat fabrics: by where ranks are and who chooses paths."""

from __future__ import annotations

import numpy as np

from detour.base.times import US
from detour.experiments.columns import taken
from detour.experiments.flat.cases import network_of
from detour.experiments.flat.points import MOST_TOGETHER, PLACED, CollectivePoint, CollectiveRun
from detour.experiments.flat.schemes import LINKS, FlatFabric, check
from detour.fabric.traffic.placed_tasks import PlacedTasks
from detour.fabric.traffic.tasks import TaskRun, connections_of
from detour.fabric.workloads.ideal import ideal_ps, wire_terms
from detour.fabric.workloads.jobs import job_by_name
from detour.fabric.workloads.tasks import TaskGraph, flow_graph
from detour.topo.expander import Expander
from detour.topo.topology import HostPair

MOST_TIMES = 50
"""times the ideal, after which a collective is given up"""
_SKEW = "zipf:1.2"
_AT_ONCE_OF_MORE = 8
"""messages that each of more ranks than `MOST_TOGETHER` has under way, as in NCCL"""


def run(point: CollectivePoint) -> CollectiveRun:
    """One collective on an empty fabric. Raises `DetourError`: there is no such topology, routing, scheme or
    collective."""
    check(point.routing, point.scheme)
    network = network_of(point.topology, point.seed)
    graph = _graph(point, network)
    ideal = ideal_ps(graph, wire_terms(network.topology, LINKS)).total_ps
    with FlatFabric(network, point, connections_of(graph, 1)) as fabric:
        tasks = TaskRun(fabric, graph, lanes=1, keep=True)
        if point.routing == PLACED:
            PlacedTasks(tasks)
        while not tasks.over and fabric.now_ps < MOST_TIMES * ideal:
            fabric.run(fabric.now_ps + max(10 * US, fabric.now_ps // 32))
        result = tasks.result()
    time_us = round(int(result.finish_ps.max()) / US, 3) if result.completed else None
    return taken(CollectiveRun, point, time_us=time_us, ideal_us=round(ideal / US, 3))


def _graph(point: CollectivePoint, network: Expander) -> TaskGraph:
    if point.collective in _AT_ONCE:
        pairs = _AT_ONCE[point.collective](network, np.random.default_rng([point.seed, 0xA1]))
        source, target = np.array(pairs[: point.ranks], np.int64).T
        return flow_graph(len(network.topology.hosts), source, target, point.size)
    shuffled = f",shuffle={point.seed}" if point.placed == "random" else ""
    skewed = f",skew={_SKEW},seed={point.seed}" if point.collective == "moe" else ""
    paced = f",at_once={_AT_ONCE_OF_MORE}" if point.collective == "all-to-all" and point.ranks > MOST_TOGETHER else ""
    text = f"{point.collective}:bytes={point.size},ranks={point.ranks}{shuffled}{skewed}{paced}"
    return job_by_name(text, network.topology)


def permutation(network: Expander, rng: np.random.Generator) -> list[HostPair]:
    """Every host sends to another one; no two to the same."""
    order = rng.permutation(len(network.topology.hosts)).tolist()
    return list(zip(order, order[1:] + order[:1], strict=True))


def adversarial(network: Expander, rng: np.random.Generator) -> list[HostPair]:
    """Flows to the hosts of half of the switches each, from other switches that are two links away and all by the same
    neighbour: where, as in a Slim Fly, that is the only shortest path they share its link (Spritz, "adversarial")."""
    receivers = [[host.index for host in hosts] for hosts in network.topology.hosts_of]
    free = [list(hosts) for hosts in receivers]
    neighbours = [{int(other) for other in row if other >= 0} for row in network.channels.neighbour]
    pairs = list[HostPair]()
    for target in rng.permutation(network.size)[: network.size // 2].tolist():
        via = int(rng.choice(sorted(neighbours[target])))
        senders = rng.permutation(sorted(neighbours[via] - neighbours[target] - {target})).tolist()
        pairs += [
            (free[sender].pop(), receiver)
            for sender, receiver in zip(filter(free.__getitem__, senders), receivers[target], strict=False)
        ]
    return pairs


_AT_ONCE = {"permutation": permutation, "adversarial": adversarial}


def seconds(point: CollectivePoint) -> float:
    """A rough cost on one core."""
    return 4.0 + point.ranks * point.size / 3e7 + point.ranks**2 / 1e4
