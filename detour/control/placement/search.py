# SPDX-License-Identifier: Apache-2.0
"""The cheapest path of a flow among those of others, and the descent made of such steps; native code.

A link that carries x costs x^2 / 2, and steeply more for what exceeds a limit. The cost of a flow on a link is what it
adds, so whoever moves flows to cheaper paths lowers the sum. Paths are never listed: they are found from both ends,
switch by switch, on the links that lie on a path which is short enough, and meet half-way.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from detour.base.arrays import BoolArray, FloatArray, Floats1, IndexArray, Int32Array, Int32s1, Int32s2, Int64s1
from detour.base.jit import allocating, int64
from detour.control.native import PLACEMENT, assign
from detour.control.placement.network import PlacementNetwork, SearchGraph
from detour.topo.graph import GLOBAL


class Prices(NamedTuple):
    """The cost of links. `load`: (links,) their loads, `square`: 1/2, or 0 if `load` is the price itself; `limit`,
    `steep`: each unit above the limit costs so much more."""

    load: Floats1
    square: float
    limit: float
    steep: float


class Side(NamedTuple):
    """The search from one end, by links from there and switch: cost, switch and link before, tick of the last visit,
    and the switches in order of visit."""

    cost: FloatArray
    before: Int32Array
    by: Int32Array
    seen: Int32Array
    reached: Int32Array


@allocating
def _side(levels: int, n: int) -> Any:
    shape = (levels + 1, n)
    return Side(
        np.empty(shape, np.float64), np.empty(shape, np.int32), np.empty(shape, np.int32), np.zeros(shape, np.int32),
        np.empty(shape, np.int32),
    )  # fmt: skip


@allocating
def added(prices: Prices, link: int, size: Any) -> Any:
    """Return the cost that a flow adds to a link."""
    load = prices.load[link]
    over = max(0.0, load + size - max(load, prices.limit))
    cost = size * load + prices.square * size * size
    return cost + prices.steep * over if over > 0 else cost


@allocating
def _expand(g, origin, toward, levels, most, back, size, prices, turn, tick, side):
    """Cheapest ways from `origin` to whatever lies on a path of at most `most` links towards the other end. Returns the
    number of switches at the last level. `toward`: (switches,) distance to the other end; `back`: 1 if ways lead to the
    origin; `turn`: the search begins at another neighbour, so that equal choices are spread."""
    width = g.neighbour.shape[1]
    side.cost[0, origin], side.seen[0, origin], side.reached[0, 0] = 0.0, tick, origin
    count = 1
    for level in range(levels):
        reached = 0
        for i in range(count):
            x = side.reached[level, i]
            left = most - level if g.slack else toward[x]
            if toward[x] == 0:
                continue
            c = turn % width
            for _ in range(width):
                c = c + 1 if c + 1 < width else 0
                y = g.neighbour[x, c]
                if y < 0 or toward[y] + g.weight[x, c] > left:
                    continue
                link = g.number[x, c] ^ back
                cost = side.cost[level, x] + added(prices, link, size)
                if side.seen[level + 1, y] != tick:
                    side.seen[level + 1, y] = tick
                    side.reached[level + 1, reached] = y
                    reached += 1
                elif cost >= side.cost[level + 1, y]:
                    continue
                side.cost[level + 1, y], side.before[level + 1, y], side.by[level + 1, y] = cost, x, link
        count = reached
    return count


@allocating
def _cheapest(g, a, b, size, prices, turn, tick, ahead, behind, path, links):
    """The cheapest path from switch a to b, its stops into `path` and its links into `links`; returns its cost."""
    to_a, to_b = g.distance[g.row_of[a]], g.distance[g.row_of[b]]
    length = to_b[a] // GLOBAL + to_b[a] % GLOBAL
    most = max(length, g.slack)
    first, second = (most + 1) // 2, most // 2
    count = _expand(g, a, to_b, first, most, int64(0), size, prices, turn, tick, ahead)
    _expand(g, b, to_a, second, most, int64(1), size, prices, turn, tick, behind)
    best, middle, here, there = np.inf, -1, first, second
    for i in range(count):
        x = ahead.reached[first, i]
        for level in range(0 if g.slack else second, second + 1):
            if behind.seen[level, x] == tick:
                cost = ahead.cost[first, x] + behind.cost[level, x]
                if cost < best:
                    best, middle, here, there = cost, x, first, level
    for level in range(first if g.slack else 0):
        if ahead.seen[level, b] == tick and ahead.cost[level, b] <= best:
            best, middle, here, there = ahead.cost[level, b], b, level, 0
    if middle >= 0:
        _write(middle, here, there, ahead, behind, g.stop, path, links)
    return best


@allocating
def _write(middle, here, there, ahead, behind, stop, path, links):
    path[:], links[:] = -1, -1
    x = middle
    for level in range(here, 0, -1):
        links[level - 1] = ahead.by[level, x]
        x = ahead.before[level, x]
    path[0] = x
    x = middle
    for step in range(there):
        links[here + step] = behind.by[there - step, x]
        x = behind.before[there - step, x]
    for hop in range(here + there):
        path[hop + 1] = stop[links[hop]]


@allocating
def _put(load, links, size):
    for link in links:
        if link >= 0:
            load[link] += size


@PLACEMENT.entry
def _descend(
    g: SearchGraph, order: Int64s1, a: Int32s1, b: Int32s1, size: Floats1, prices: Prices, paths: Int32s2,
    links: Int32s2, longest: int,
) -> int:  # fmt: skip
    """Places flows without a path and moves others to cheaper ones, one after the other. Returns how many."""
    n = g.neighbour.shape[0]
    ahead, behind = _side((longest + 1) // 2, n), _side(longest // 2, n)
    path, used = np.empty(paths.shape[1], np.int32), np.empty(links.shape[1], np.int32)
    better = 0
    for turn in range(len(order)):
        flow = order[turn]
        worth = np.inf
        if paths[flow, 0] >= 0:
            _put(prices.load, links[flow], -size[flow])
            worth = 0.0
            for link in links[flow]:
                if link >= 0:
                    worth += (1 - 1e-9) * added(prices, link, size[flow])
        if _cheapest(g, a[flow], b[flow], size[flow], prices, flow, turn + 1, ahead, behind, path, used) < worth:
            assign(paths[flow], path)
            assign(links[flow], used)
            better += 1
        _put(prices.load, links[flow], size[flow])
    return better


@PLACEMENT.entry
def _shortest(g: SearchGraph, a: Int32s1, b: Int32s1, prices: Prices, longest: int, cost: Floats1) -> None:
    """Fill in (flows,) cost of the cheapest path of each."""
    n = g.neighbour.shape[0]
    ahead, behind = _side((longest + 1) // 2, n), _side(longest // 2, n)
    path, used = np.empty(longest, np.int32), np.empty(longest - 1, np.int32)
    for flow in range(len(a)):
        cost[flow] = _cheapest(g, a[flow], b[flow], 1.0, prices, int64(0), flow + 1, ahead, behind, path, used)


class Walked(NamedTuple):
    """Paths of flows: (flows, stops) and the directed links between them, -1: none."""

    switches: Int32s2
    links: Int32s2


def walked(network: PlacementNetwork, path_rows: Int32Array) -> Walked:
    """The links of path rows; -1 also where a link is down."""
    links = np.empty((len(path_rows), path_rows.shape[1] - 1), np.int32)
    _walk(network.link, path_rows, links)
    return Walked(path_rows, links)


@PLACEMENT.entry
def _walk(link: Int32s2, path_rows: Int32s2, links: Int32s2) -> None:
    for flow in range(len(path_rows)):
        for hop in range(links.shape[1]):
            stop = path_rows[flow, hop + 1]
            links[flow, hop] = link[path_rows[flow, hop] % len(link), stop] if stop >= 0 else -1


def broken(walk: Walked) -> BoolArray:
    """(flows,) which have no path, or one with a link that is down."""
    return (walk.switches[:, 0] < 0) | ((walk.links < 0) & (walk.switches[:, 1:] >= 0)).any(axis=1)


def descend(
    network: PlacementNetwork, order: NDArray[np.integer[Any]], ends: tuple[Int32Array, Int32Array], size: NDArray[Any],
    walk: Walked, load: FloatArray, limit: float,
) -> int:  # fmt: skip
    """Move the flows `order`, in that order, to cheaper paths if there are any, in place, and place those without a
    path. Return how many.

    `network`: where; `order`: flows; `ends`: switches at which flows (all of them) begin and end; `size`: (flows,) what
    each puts on its links; `walk`: where flows are; `load`: (links,) what is on the links; `limit`: of what a link
    should carry."""
    # What exceeds the limit is dearer than any path that does not.
    steep = 2.0 * network.longest * max(float(load.max(initial=0)), limit) + float(size.max(initial=1))
    prices = Prices(load, 0.5, float(limit), steep)
    order, sizes = np.ascontiguousarray(order, np.int64), size.astype(np.float64)
    return _descend(network.graph, order, *ends, sizes, prices, walk.switches, walk.links, network.longest)


def movable(
    network: PlacementNetwork, walk: Walked, load: FloatArray, size: NDArray[Any], free: NDArray[np.integer[Any]]
) -> IndexArray:
    """Return those of the flows `free` that could gain: on a Clos network, flows over a link that carries more, by more
    than their size, than a parallel one."""
    if not network.tiers:
        return free.astype(np.intp)
    tail, head = network.ends
    switches, tier = len(network.tier_of), network.tier_of
    upward = tier[tail] < tier[head]
    # Beside each other are links up from an edge switch or out of a pod, and links down to one or into one.
    lower = np.where(upward, tail, head)
    at = np.where(tier[lower] == 0, lower, switches + network.group_of[lower]) + 2 * switches * ~upward
    least = np.full(4 * switches, np.inf)
    np.minimum.at(least, at[network.alive], load[network.alive])
    excess = np.append(load - least[at], -np.inf)
    return free.astype(np.intp)[excess[walk.links[free]].max(axis=1, initial=-np.inf) > size[free]]


def cheapest(network: PlacementNetwork, a: Int32Array, b: Int32Array, price: FloatArray) -> FloatArray:
    """(pairs,) cost of the cheapest path between pairs of switches at a `price` of each link."""
    cost, a, b = np.empty(len(a)), np.ascontiguousarray(a), np.ascontiguousarray(b)
    _shortest(network.graph, a, b, Prices(price, 0.0, np.inf, 0.0), network.longest, cost)
    return cost
