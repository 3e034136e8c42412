# SPDX-License-Identifier: Apache-2.0
"""Routes by destination: one or several trees towards every switch, as forwarding tables have them.

`balanced`: the first step of DFSSSP (Hoefler, Schneider and Lumsdaine, "Optimized Routing for Large-Scale InfiniBand
Networks", HOTI 2009): destination by destination the cheapest paths, where a channel costs the more the more paths
already pass it, and a further link always costs more than all of them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from detour.base.arrays import Floats2, Int16s1, Int16s3, Int32s1, Int32s2, Int64Array, Int64s1, UInt8s1, UInt8s2
from detour.base.errors import DetourError
from detour.base.jit import allocating
from detour.control.expander.enumeration import native
from detour.control.expander.routes import ExpanderRoutes, PathPolicy, all_pairs
from detour.control.native import EXPANDER
from detour.topo.expander.network import Channels, Expander

Via = NDArray[np.int16]
"""(trees, destinations, switches) column that leads on towards the destination, -1 there"""


def trees_of(network: Expander, trees: int | None) -> int:
    """Trees towards every switch: as many as asked for, or one for every host of the switch that has most, as
    InfiniBand's forwarding by host gives them. Raises `DetourError`: a number that makes no sense."""
    if trees is None:
        return int(network.hosts.max())
    if not 1 <= trees <= 64:
        raise DetourError(f"{trees} trees per destination switch; expected 1 to 64")
    return trees


def first_weight(network: Expander, trees: int) -> float:
    """Return the first weight of every channel: more than all paths together, so that a path with fewer links is always
    cheaper."""
    return float(trees * network.hosts.sum() * network.tors.size + 1)


def destinations(network: Expander, seed: int) -> Int64Array:
    """The switches with hosts in the order in which trees are grown: at random, as numbers may have a meaning."""
    return np.random.default_rng([seed, 0x7E]).permutation(network.tors.astype(np.int64))


def balanced(network: Expander, trees: int | None = None, seed: int = 1) -> ExpanderRoutes:
    """Shortest paths that share channels as little as can be, `trees` a pair at most (see `trees_of`). Raises
    `DetourError`: the network is not connected, or the number of trees makes no sense."""
    ch, count = native(network.channels), trees_of(network, trees)
    order = destinations(network, seed)
    weight = np.full(ch.neighbour.shape, first_weight(network, count))
    via = np.full((count, order.size, network.size), -1, np.int16)
    for tree in range(count):
        for k, target in enumerate(order.tolist()):
            if not _grow_tree(target, network.hosts, weight, ch, via[tree, k]):
                raise DetourError(f"{network.spec}: the network is not connected")
    return routes_of_trees(network, order, via)


@EXPANDER.entry
def _grow_tree(target: int, hosts: Int32s1, weight: Floats2, ch: Channels, via: Int16s1) -> bool:
    """The cheapest paths of all switches to one (Dijkstra), and what they add to the weights; False: some have none."""
    n, width = ch.neighbour.shape
    cost, settled, order = np.full(n, np.inf), np.zeros(n, np.bool_), np.empty(n, np.int64)
    cost[target] = 0.0
    for k in range(n):
        x, least = -1, np.inf
        for y in range(n):
            if not settled[y] and cost[y] < least:
                x, least = y, cost[y]
        if x < 0:
            return False
        settled[x], order[k] = True, x
        for c in range(width):
            y = ch.neighbour[x, c]
            if y >= 0 and not settled[y]:
                back = ch.back[x, c]
                if least + weight[y, back] < cost[y]:
                    cost[y], via[y] = least + weight[y, back], back
    add_weights(order, hosts, ch, via, weight)
    return True


@allocating
def add_weights(order, hosts, ch, via, weight):
    """Add to every channel the paths of a tree that pass it, one for every host; `order`: nearer switches first."""
    paths = hosts.astype(np.int64)
    for k in range(order.size - 1, 0, -1):
        x = order[k]
        weight[x, via[x]] += paths[x]
        paths[ch.neighbour[x, via[x]]] += paths[x]


def routes_of_trees(network: Expander, order: Int64Array, via: Via) -> ExpanderRoutes:
    """The different paths of every pair, those of earlier trees first."""
    ch, pairs = native(network.channels), all_pairs(network)
    number = np.full(network.size, -1, np.int64)
    number[order] = np.arange(order.size)
    columns = np.zeros((len(pairs) * len(via), _deepest(order, via, ch)), np.uint8)
    length, count = np.zeros(len(columns), np.uint8), np.zeros(len(pairs), np.int64)
    rows = _follow(pairs, number, via, ch, columns, length, count)
    first = np.concatenate([[0], np.cumsum(count)])
    longest = int(length[:rows].max(initial=1))
    policy = PathPolicy(len(via), 0, max_hops=longest)
    return ExpanderRoutes(network, policy, pairs, first, length[:rows].copy(), columns[:rows, :longest].copy())


@EXPANDER.entry
def _deepest(order: Int64s1, via: Int16s3, ch: Channels) -> int:
    most = 1
    for tree in range(via.shape[0]):
        for k in range(order.size):
            for source in range(via.shape[2]):
                x, hops = source, 0
                while x != order[k]:
                    x = ch.neighbour[x, via[tree, k, x]]
                    hops += 1
                most = max(most, hops)
    return most


@EXPANDER.entry
def _follow(
    pairs: Int32s2, number: Int64s1, via: Int16s3, ch: Channels, columns: UInt8s2, length: UInt8s1, count: Int64s1
) -> int:
    """Write the paths of all pairs, each once; return their number."""
    row = 0
    for i in range(len(pairs)):
        begin = row
        for tree in range(len(via)):
            x, hops = pairs[i, 0], 0
            while x != pairs[i, 1]:
                c = via[tree, number[pairs[i, 1]], x]
                columns[row, hops] = c
                hops += 1
                x = ch.neighbour[x, c]
            listed = False
            for other in range(begin, row):
                if length[other] == hops and (columns[other, :hops] == columns[row, :hops]).all():
                    listed = True
            if not listed:
                length[row] = hops
                row += 1
        count[i] = row - begin
    return row
