# SPDX-License-Identifier: Apache-2.0
"""The surviving network as arrays, and distances in it.

A distance counts global hops first and local hops second (`GLOBAL` > any number of local hops), so that the
shortest path of a Dragonfly is the one over the direct global link, and all shortest paths between two
switches have the same number of hops.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from detour.base.arrays import BoolArray, Int32Array
from detour.topo.failures import NONE, Failures, dead_links
from detour.topo.topology import Topology

GLOBAL = 1 << 16
LOCAL = 1
FAR = 1 << 29  # farther than any path, and twice of it still fits an int32

Matrix = Int32Array


class Graph(NamedTuple):
    """Live links between switches. Row s, column c: what is behind port `ports[c]` of switch s."""

    ports: Int32Array  # (columns,) port numbers that lead to a switch somewhere
    neighbour: Matrix  # (switches, columns) switch, -1 for none
    weight: Matrix  # (switches, columns) GLOBAL or LOCAL, FAR for none
    group: Int32Array  # (switches,)


@lru_cache(maxsize=16)
def live_graph(topology: Topology, failures: Failures = NONE) -> Graph:
    """Return the graph of the links between switches that still work."""
    dead = dead_links(topology, failures)
    n, width = len(topology.switches), max(len(s.ports) for s in topology.switches)
    neighbour = np.full((n, width), -1, dtype=np.int32)
    weight = np.full((n, width), FAR, dtype=np.int32)
    for switch in topology.switches:
        for column, peer in enumerate(switch.ports):
            if peer is not None and peer.kind != "host" and peer.link not in dead:
                neighbour[switch.index, column] = peer.index
                weight[switch.index, column] = GLOBAL if peer.kind == "global" else LOCAL
    used = np.flatnonzero((neighbour >= 0).any(axis=0)).astype(np.int32)
    group = np.array([s.group for s in topology.switches], dtype=np.int32)
    return Graph(used + 1, neighbour[:, used], weight[:, used], group)


def _offered(distance: Matrix, nics: Sequence[int]) -> Matrix:
    """Distances as neighbours of a switch offer them: a NIC leads to itself alone."""
    if not nics:
        return distance
    offered = distance.copy()
    offered[list(nics)] = FAR
    offered[nics, nics] = 0
    return offered


def _shortest(neighbour: Matrix, weight: Matrix, nics: Sequence[int]) -> Matrix:
    """All-pairs distances by relaxation over whole rows: as many rounds as the longest path has hops."""
    n, width = neighbour.shape
    distance = np.full((n + 1, n), FAR, dtype=np.int32)  # the last row is what port "none" leads to
    np.fill_diagonal(distance, 0)
    for _ in range(n):
        before = distance[:n].copy()
        for column in range(width):
            through = _offered(distance, nics)[neighbour[:, column]] + weight[:, column, None]
            np.minimum(distance[:n], through, out=distance[:n])
        if np.array_equal(before, distance[:n]):
            break
    return np.minimum(distance[:n], FAR)


@lru_cache(maxsize=16)
def distances(topology: Topology, failures: Failures = NONE) -> Matrix:
    """(switches, switches) distances, FAR where there is no path."""
    graph = live_graph(topology, failures)
    return _shortest(graph.neighbour, graph.weight, topology.nics)


@lru_cache(maxsize=16)
def offered_distances(topology: Topology, failures: Failures = NONE) -> Matrix:
    """(switches, switches) distances as neighbours of a switch offer them: a NIC leads to itself alone."""
    return _offered(distances(topology, failures), topology.nics)


@lru_cache(maxsize=16)
def local_distances(topology: Topology, failures: Failures = NONE) -> Matrix:
    """(switches, switches) local hops on paths that stay inside a group, FAR where there is none."""
    graph = live_graph(topology, failures)
    local = graph.weight == LOCAL
    weight = np.where(local, graph.weight, FAR).astype(np.int32)
    return _shortest(np.where(local, graph.neighbour, -1), weight, topology.nics)


def hops(distance: Matrix) -> Matrix:
    """Number of links on the paths of that distance (FAR stays FAR)."""
    return np.where(distance >= FAR, FAR, distance // GLOBAL + distance % GLOBAL).astype(np.int32)


@lru_cache(maxsize=16)
def exits(topology: Topology, failures: Failures = NONE) -> BoolArray:
    """(switches, groups) whether a switch has a live global link to a group."""
    graph = live_graph(topology, failures)
    direct = np.zeros((len(topology.switches), len(topology.members)), dtype=np.bool_)
    rows, columns = np.nonzero(graph.weight == GLOBAL)
    direct[rows, graph.group[graph.neighbour[rows, columns]]] = True
    return direct


@lru_cache(maxsize=16)
def exit_distances(topology: Topology, failures: Failures = NONE) -> Matrix:
    """(switches, groups) local hops inside one's own group to a switch with a live global link to that group."""
    direct = exits(topology, failures)
    inside = local_distances(topology, failures)
    distance = np.full(direct.shape, FAR, dtype=np.int32)
    for members in topology.members:
        index = np.array(members)
        block = inside[np.ix_(index, index)]
        distance[index] = np.where(direct[index][None, :, :], block[:, :, None], FAR).min(axis=1)
    return distance


def columns_into(topology: Topology, at: int, group: int, failures: Failures = NONE) -> BoolArray:
    """(columns,) of a switch in `live_graph`: direct links to a group if it has any, else local links one hop closer to
    one."""
    graph, left = live_graph(topology, failures), exit_distances(topology, failures)
    if left[at, group] == 0:
        return (graph.weight[at] == GLOBAL) & (graph.group[graph.neighbour[at]] == group)
    return (graph.weight[at] == LOCAL) & (left[graph.neighbour[at], group] == left[at, group] - 1)
