# SPDX-License-Identifier: Apache-2.0
"""Nue: routes by destination for any number of virtual lanes, one included (Domke, Hoefler and Matsuoka, "Routing on
the Dependency Graph: A New Approach to Deadlock-Free High-Performance Routing", HPDC 2016).

Destinations are shared out among the lanes. In each lane the paths along a spanning tree are free of cycles together,
whatever else there is (escape paths, section 4.2); its root is the switch that most shortest paths between the lane's
destinations pass. Trees then grow within the graph of all dependencies: a channel joins the tree of a destination
only if the dependency on the next one closes no cycle with all that was taken before (Algorithm 1). A switch that is
not reached so may have a neighbour that can be led elsewhere (local backtracking, section 4.6.2). If not even that
helps, all paths to this destination take the spanning tree.

Ours: dependencies are tested when a switch joins the tree, not when it is seen, so none is taken that no path needs;
what a destination took that ends in the spanning tree is given back; destinations are shared out in the order of a
breadth-first search, neighbours together (the paper uses METIS).
"""

from __future__ import annotations

import heapq
from typing import NamedTuple

import networkx as nx
import numpy as np

from detour.base.arrays import BoolArray, Bools2, Floats2, Int16s3, Int32s1, Int64Array, Int64s1
from detour.base.errors import DetourError
from detour.base.jit import allocating, int64
from detour.control.expander.enumeration import native
from detour.control.expander.forests import add_weights, destinations, first_weight, routes_of_trees, trees_of
from detour.control.expander.lanes import MAX_LANES, LaneRoutes, Order, add, drop, empty_order
from detour.control.native import EXPANDER, assign
from detour.topo.expander.flat import breadth_first
from detour.topo.expander.network import Channels, Expander


class NueRoutes(NamedTuple):
    """`lanes`: the routes; `escaped`: trees, of `trees` in all, that had to be the spanning tree's."""

    lanes: LaneRoutes
    escaped: int
    trees: int


def nue(network: Expander, lanes: int, trees: int | None = None, seed: int = 1) -> NueRoutes:
    """Routes in so many lanes at most, `trees` paths a pair at most (see `forests.trees_of`). Raises `DetourError`: the
    network is in parts, or a number makes no sense."""
    if not 1 <= lanes <= MAX_LANES:
        raise DetourError(f"{lanes} lanes; expected 1 to {MAX_LANES}")
    ch, count = native(network.channels), trees_of(network, trees)
    order, parts = destinations(network, seed), _partition(network, lanes)
    weight = np.full(ch.neighbour.shape, first_weight(network, count))
    via = np.full((count, order.size, network.size), -1, np.int16)
    escaped = 0
    for part in parts:
        own = np.flatnonzero(np.isin(order, part))
        graph, among = _graph(network), part.tolist()
        central = nx.betweenness_centrality_subset(graph, among, among)
        escape = _spanning_tree(network, max(central, key=lambda x: (central[x], graph.degree(x), -x)))
        escaped += _route_lane(own, order, escape, network.hosts, weight, ch, empty_order(ch), via)
    routes = routes_of_trees(network, order, via)
    lane_of = np.zeros(network.size, np.uint8)
    for lane, part in enumerate(parts):
        lane_of[part] = lane
    lane = np.repeat(lane_of[routes.pairs[:, 1]], np.diff(routes.first))
    return NueRoutes(LaneRoutes(routes, lane), escaped, count * order.size)


def _graph(network: Expander) -> nx.Graph:
    graph = nx.Graph()
    graph.add_nodes_from(range(network.size))
    graph.add_edges_from(network.links[network.speeds > 0].tolist())
    if not nx.is_connected(graph):
        raise DetourError(f"{network.spec}: the network is not connected")
    return graph


def _partition(network: Expander, lanes: int) -> list[Int64Array]:
    """Destinations of every lane, as many in each, give or take one."""
    links = network.links[network.speeds > 0]
    order = breadth_first(network.size, links, int(network.tors[0]))
    near = order[np.isin(order, network.tors)]
    return [part for part in np.array_split(near, lanes) if part.size]


def _spanning_tree(network: Expander, root: int) -> BoolArray:
    """(switches, width) whether a channel is one of the tree's, in either direction."""
    ch = network.channels
    in_tree = np.zeros(ch.neighbour.shape, np.bool_)
    for x, y in nx.bfs_edges(_graph(network), root):
        c = int(np.flatnonzero(ch.neighbour[x] == y)[0])
        in_tree[x, c] = in_tree[y, ch.back[x, c]] = True
    return in_tree


@EXPANDER.entry
def _route_lane(
    own: Int64s1, order: Int64s1, escape: Bools2, hosts: Int32s1, weight: Floats2, ch: Channels, taken: Order,
    via: Int16s3,
) -> int:  # fmt: skip
    """Grow all trees towards the destinations `own` (rows of `order`) of a lane; how many are the spanning tree's."""
    n = ch.neighbour.shape[0]
    escaped = 0
    ways = np.empty((own.size, n), np.int16)
    for k in range(own.size):
        _escape_tree(order[own[k]], escape, ch, ways[k])
        for x in range(n):
            _depend(x, ways[k], order[own[k]], ch, taken)
    nearer = np.empty(n, np.int64)
    for tree in range(via.shape[0]):
        for k in range(own.size):
            target, hops = order[own[k]], via[tree, own[k]]
            if not _grow_within(target, weight, ch, taken, hops):
                escaped += 1
                for x in range(n):
                    _forget(x, hops, target, ch, taken)
                assign(hops, ways[k])
                for x in range(n):
                    _depend(x, hops, target, ch, taken)
            _by_distance(target, hops, ch, nearer)
            add_weights(nearer, hosts, ch, hops, weight)
    return escaped


@allocating
def _escape_tree(target, escape, ch, via):
    via[:] = -1
    stack, top = np.empty(via.size, np.int64), 1
    stack[0] = target
    while top:
        top -= 1
        x = stack[top]
        for c in range(ch.neighbour.shape[1]):
            y = ch.neighbour[x, c]
            if escape[x, c] and y != target and via[y] < 0:
                via[y] = ch.back[x, c]
                stack[top] = y
                top += 1


@allocating
def _depend(x, via, target, ch, taken):
    """Take the dependency of the channel by which x goes on the next one; whether that closes no cycle."""
    if x == target or via[x] < 0:
        return True
    y = ch.neighbour[x, via[x]]
    return y == target or add(int64(x * ch.neighbour.shape[1] + via[x]), int64(via[y]), ch, taken)


@allocating
def _forget(x, via, target, ch, taken):
    if x != target and via[x] >= 0:
        y = ch.neighbour[x, via[x]]
        if y != target:
            drop(int64(x * ch.neighbour.shape[1] + via[x]), int64(via[y]), taken)


@allocating
def _grow_within(target, weight, ch, taken, via):
    """Algorithm 1: whether all switches were reached; dependencies of those that were are taken."""
    n = ch.neighbour.shape[0]
    via[:] = -1
    cost, reached = np.full(n, np.inf), 1
    cost[target] = 0.0
    queue = [(np.inf, np.int64(-1), np.int64(-1))]
    _offer(target, cost, weight, ch, target, via, queue)
    while True:
        price, x, c = heapq.heappop(queue)
        if x < 0:
            x = _backtrack(target, cost, weight, ch, taken, via)
            if x < 0:
                return reached == n
            heapq.heappush(queue, (np.inf, np.int64(-1), np.int64(-1)))
        else:
            if x == target or via[x] >= 0:
                continue
            via[x] = c
            if not _depend(x, via, target, ch, taken):
                via[x] = -1
                continue
            cost[x] = price
        reached += 1
        _offer(x, cost, weight, ch, target, via, queue)


@allocating
def _offer(y, cost, weight, ch, target, via, queue):
    """Offer neighbours that have no way yet one by way of y."""
    for c in range(ch.neighbour.shape[1]):
        x = ch.neighbour[y, c]
        if x >= 0 and x != target and via[x] < 0:
            back = ch.back[y, c]
            heapq.heappush(queue, (cost[y] + weight[x, back], np.int64(x), np.int64(back)))


@allocating
def _backtrack(target, cost, weight, ch, taken, via):
    """Lead a neighbour of a switch without a way elsewhere, so that the switch can go by it; the switch, or -1."""
    n, width = ch.neighbour.shape
    for x in range(n):
        if x == target or via[x] >= 0:
            continue
        for c in range(width):
            y = ch.neighbour[x, c]
            if y < 0 or y == target or via[y] < 0:
                continue
            for e in range(width):
                if e != via[y] and _lead_elsewhere(y, e, x, c, target, ch, taken, via):
                    cost[y] = cost[ch.neighbour[y, e]] + weight[y, e]
                    cost[x] = cost[y] + weight[x, c]
                    return x
    return -1


@allocating
def _lead_elsewhere(y, e, x, c, target, ch, taken, via):
    """Let y go on by column e, and x by column c to y, if that closes no cycle; otherwise nothing changes."""
    width = ch.neighbour.shape[1]
    z = ch.neighbour[y, e]
    if z < 0 or z == x or (z != target and via[z] < 0):
        return False
    at = z
    while at != target:
        if at == y:
            return False
        at = ch.neighbour[at, via[at]]
    old = via[y]
    _forget(int64(y), via, target, ch, taken)
    via[y] = e
    fits = _depend(int64(y), via, target, ch, taken)
    if not fits:
        via[y] = old
        _depend(int64(y), via, target, ch, taken)
        return False
    via[x] = c
    done = 0
    for d in range(width):
        child = ch.neighbour[y, d]
        if child < 0 or child == target or via[child] != ch.back[y, d]:
            continue
        if not add(int64(child * width + via[child]), int64(e), ch, taken):
            fits = False
            break
        done = d + 1
    for d in range(width):
        child = ch.neighbour[y, d]
        if child < 0 or child == target or via[child] != ch.back[y, d]:
            continue
        if fits and child != x:
            drop(int64(child * width + via[child]), int64(old), taken)
        elif not fits and d < done:
            drop(int64(child * width + via[child]), int64(e), taken)
    if not fits:
        via[x] = -1
        _forget(int64(y), via, target, ch, taken)
        via[y] = old
        _depend(int64(y), via, target, ch, taken)
    return fits


@allocating
def _by_distance(target, via, ch, order):
    """Switches in an order in which each comes behind the one that it goes by."""
    width = ch.neighbour.shape[1]
    order[0], reached, done = target, 1, 0
    while done < reached:
        x = order[done]
        done += 1
        for c in range(width):
            y = ch.neighbour[x, c]
            if y >= 0 and y != target and via[y] == ch.back[x, c]:
                order[reached] = y
                reached += 1
