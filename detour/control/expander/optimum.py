# SPDX-License-Identifier: Apache-2.0
"""Capacity of a network whatever its routing: the largest throughput over *all* paths, between two bounds.

The programme of `throughput` has a column for every path of every pair, far too many. It is solved over a few of them
(column generation: Ford and Fulkerson, Management Science 1958). The prices of its channels say which others would
help: a pair's cheapest path of all, where that is cheaper than what it has. They also bound what all paths together can
carry: what the channels can carry, times their prices, must pay for every demand's cheapest path. With equal prices
that is the bound of `demand.upper_bound`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from detour.base.arrays import (
    FloatArray,
    Floats1,
    Int32s1,
    Int64s1,
    UInt8Array,
    UInt8s1,
    UInt8s2,
)
from detour.base.jit import allocating
from detour.control.expander import approximate
from detour.control.expander.demand import Demand
from detour.control.expander.enumeration import native
from detour.control.expander.routes import PathPolicy, channels_of, compute, with_more
from detour.control.expander.throughput import Throughput
from detour.control.native import EXPANDER
from detour.topo.expander.network import Channels, Expander

MAX_ROUNDS = 30
_MAX_LINKS = 32
"""of a path that is added"""
_FIRST_PATHS, _PATHS_IN_ALL = 64, 150_000
"""of a pair to begin with, and of all pairs about as many at most"""


class _Cheapest(NamedTuple):
    """Each pair's cheapest path: its `price` (P,), `length` (P,) in links (0: more than are taken), `columns`."""

    price: FloatArray
    length: UInt8Array
    columns: UInt8Array


@allocating
def _dijkstra(source, wanted, count, ch, price, cost, before, taken):
    """Prices `cost` (switches,) of the cheapest paths from a source, at least to the `count` switches that are
    `wanted`, with the switch `before` each on its path and the column `taken` there. Takes n^2 steps, as links do."""
    n, width = ch.neighbour.shape
    cost[:] = np.inf
    done = np.zeros(n, np.bool_)
    cost[source], before[source] = 0.0, -1
    while count:
        x = -1
        for y in range(n):
            if not done[y] and cost[y] < np.inf and (x < 0 or cost[y] < cost[x]):
                x = y
        if x < 0:
            break
        done[x] = True
        count -= wanted[x]
        for c in range(width):
            y = ch.neighbour[x, c]
            if y >= 0 and cost[x] + price[x * width + c] < cost[y]:
                cost[y] = cost[x] + price[x * width + c]
                before[y], taken[y] = x, c


@EXPANDER.entry
def _cheapest_paths(
    sources: Int32s1, begin: Int64s1, targets: Int32s1, ch: Channels, prices: Floats1, price: Floats1, length: UInt8s1,
    columns: UInt8s2,
) -> None:  # fmt: skip
    """Return the cheapest paths from sources[i] to targets[begin[i]:begin[i+1]], by the places of these."""
    n = ch.neighbour.shape[0]
    cost, before, taken = np.empty(n), np.empty(n, np.int64), np.empty(n, np.int64)
    wanted = np.zeros(n, np.int64)
    for i in range(sources.size):
        for j in range(begin[i], begin[i + 1]):
            wanted[targets[j]] = 1
        _dijkstra(sources[i], wanted, wanted.sum(), ch, prices, cost, before, taken)
        for j in range(begin[i], begin[i + 1]):
            wanted[targets[j]] = 0
            price[j] = cost[targets[j]]
            hops, x = 0, targets[j]
            while before[x] >= 0:
                hops, x = hops + 1, before[x]
            if hops > columns.shape[1]:
                length[j] = 0
                continue
            length[j], x = hops, targets[j]
            while hops:
                hops -= 1
                columns[j, hops] = taken[x]
                x = before[x]


class _Pricing:
    """Cheapest paths of a demand's pairs, again and again under other prices."""

    def __init__(self, network: Expander, demand: Demand) -> None:
        self.channels = native(network.channels)
        self.capacity = np.where(self.channels.neighbour >= 0, network.speeds[self.channels.link], 0.0).ravel()
        self.amount = demand.amount
        self.order = np.lexsort((demand.pairs[:, 1], demand.pairs[:, 0]))
        self.sources, begin = np.unique(demand.pairs[self.order, 0], return_index=True)
        self.begin = np.append(begin, self.order.size).astype(np.int64)
        self.targets = np.ascontiguousarray(demand.pairs[self.order, 1])

    def cheapest(self, prices: FloatArray) -> _Cheapest:
        """Under `prices` (channels,) of a flow of 1."""
        count = self.order.size
        price, length = np.empty(count), np.empty(count, np.uint8)
        columns = np.zeros((count, _MAX_LINKS), np.uint8)
        _cheapest_paths(self.sources, self.begin, self.targets, self.channels, prices, price, length, columns)
        back = np.argsort(self.order)
        return _Cheapest(price[back], length[back], columns[back])

    def bound(self, prices: FloatArray, cheapest: _Cheapest) -> float:
        """Return an upper bound for every routing."""
        return float(prices @ self.capacity) / float(self.amount @ cheapest.price)


def optimum(network: Expander, demand: Demand, gap: float = 0.02, enough: float = np.inf) -> Throughput:
    """Theta of a demand over all paths, not capped: attained, and within `gap` of a bound, or as near as `MAX_ROUNDS`
    get; nothing beyond `enough` is sought. Raises `DetourError`: a pair has no path at all."""
    pricing = _Pricing(network, demand)
    k = min(_FIRST_PATHS, max(2, _PATHS_IN_ALL // len(demand.pairs)))
    routes = compute(network, PathPolicy(k, 0), demand.pairs)
    even = np.where(pricing.capacity > 0, 1.0, 0.0)
    lower, upper, missing = 0.0, pricing.bound(even, pricing.cheapest(even)), np.inf
    for _ in range(MAX_ROUNDS):
        begin, channels = channels_of(routes)
        # While paths to come may carry much more, rough prices do.
        near = max(gap / 2, 0.9 * gap - missing, min(missing / 8, 4 * gap))
        played = approximate.solve(routes.first, begin, channels, demand.amount, near, capacity=pricing.capacity)
        # A little more for each channel: of equally cheap paths those with few links.
        prices = played.prices + 1e-9 * played.prices.max()
        cheapest = pricing.cheapest(prices)
        bound = pricing.bound(prices, cheapest)
        lower, upper = max(lower, played.bounds.lower), min(upper, bound)
        if upper <= lower * (1 + gap) or lower >= enough:
            break
        missing = bound / played.bounds.upper - 1
        new = np.flatnonzero(cheapest.length)
        routes = with_more(routes, new, cheapest.length[new], cheapest.columns[new])
    return Throughput(lower, max(0.0, upper / lower - 1), "all paths")
