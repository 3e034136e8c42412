# SPDX-License-Identifier: Apache-2.0
"""Traffic between switches, and the TUB bound: all-to-all, uniform random, near-worst (FC+, section V-A); matchings,
rings, cliques and hubs.

A demand of 1 is what one server sends at line rate. Every switch that takes part sends as much as it has servers, or
less where those that it sends to have fewer. A link carries 1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from detour.base.arrays import FloatArray, Int32Array, Int32s2
from detour.base.errors import DetourError
from detour.base.jit import allocating
from detour.control.expander import DEMAND_PATTERNS
from detour.control.linear import heaviest_assignment
from detour.control.native import EXPANDER
from detour.topo.expander.network import Expander

FAN_OUT = 0.125  # share of all other switches that a switch sends to under uniform random traffic


class Demand(NamedTuple):
    """`pairs` (P, 2) source and destination switch; `amount` (P,) servers' line rates."""

    pairs: Int32Array
    amount: FloatArray


@allocating
def _breadth_first(source, neighbour, distance, queue):
    distance[:] = -1
    distance[source] = 0
    queue[0], head, tail = source, 0, 1
    while head < tail:
        x = queue[head]
        head += 1
        for c in range(neighbour.shape[1]):
            y = neighbour[x, c]
            if y >= 0 and distance[y] < 0:
                distance[y] = distance[x] + 1
                queue[tail] = y
                tail += 1


@EXPANDER.entry
def _all_distances(neighbour: Int32s2, distance: Int32s2) -> None:
    queue = np.empty(neighbour.shape[0], np.int64)
    for source in range(neighbour.shape[0]):
        _breadth_first(source, neighbour, distance[source], queue)


def hop_distances(network: Expander, *, partial: bool = False) -> Int32Array:
    """(switches, switches) links of the shortest path, whatever its layers. `partial`: the network may be in parts;
    between these it is the number of switches, which is more than any path has. Raises `DetourError`: the network is in
    parts."""
    distance = np.empty((network.size, network.size), np.int32)
    _all_distances(np.ascontiguousarray(network.channels.neighbour), distance)
    if partial:
        return np.where(distance < 0, np.int32(network.size), distance)
    if (distance < 0).any():
        a, b = map(network.name_of, np.argwhere(distance < 0)[0].tolist())
        raise DetourError(f"{network.spec}: there is no path from {a} to {b}")
    return distance


def all_to_all(network: Expander, among: Int32Array | None = None) -> Demand:
    """Every switch sends to every other one (of `among`), in proportion to the servers there."""
    tors = network.tors if among is None else among
    hosts = network.hosts[tors].astype(np.float64)
    a, b = np.repeat(np.arange(tors.size), tors.size), np.tile(np.arange(tors.size), tors.size)
    a, b = a[a != b], b[a != b]
    amount = hosts[a] * hosts[b] / (hosts.sum() - hosts[a])
    return Demand(np.stack([tors[a], tors[b]], axis=1), amount)


def uniform_random(network: Expander, seed: int = 1) -> Demand:
    """Every switch sends equally to a share of all switches, drawn at random for each."""
    rng, tors = np.random.default_rng([seed, 0xF0]), network.tors
    count = max(1, round(FAN_OUT * tors.size))
    pairs, amount = [], []
    for i, source in enumerate(tors.tolist()):
        others = np.delete(tors, i)
        for target in rng.choice(others, count, replace=False).tolist():
            pairs.append((source, target))
            amount.append(network.hosts[source] / count)
    return Demand(np.array(pairs, np.int32), np.array(amount))


def near_worst(network: Expander) -> Demand:
    """Every switch sends all to one other: the permutation of the largest sum of distance * min(hosts), the longest
    matching (Namyar et al., SIGCOMM 2021; Jyothi et al., SC 2016)."""
    distance, tors = hop_distances(network), network.tors
    hosts = network.hosts[tors].astype(np.float64)
    weight = distance[np.ix_(tors, tors)] * np.minimum.outer(hosts, hosts)
    np.fill_diagonal(weight, -1e6)
    rows, columns = heaviest_assignment(weight)
    return _matched(network, tors[rows], tors[columns])


def _matched(network: Expander, sources: Int32Array, targets: Int32Array) -> Demand:
    """Every source sends all to the target in its place, where that has as many servers."""
    amount = np.minimum(network.hosts[sources], network.hosts[targets]).astype(np.float64)
    return Demand(np.stack([sources, targets], axis=1), amount)


def random_matching(network: Expander, seed: int = 1, among: Int32Array | None = None) -> Demand:
    """Every switch (of `among`) sends all to one other: a permutation drawn at random from those in which nobody has
    itself."""
    rng, tors = np.random.default_rng([seed, 0x3A]), network.tors if among is None else among
    targets = rng.permutation(tors)
    while (targets == tors).any():  # one permutation in e passes
        targets = rng.permutation(tors)
    return _matched(network, tors, targets)


def neighbour_matching(network: Expander, seed: int = 1) -> Demand:
    """Switches send all to one that they are linked to, no two to the same: as many as can, drawn at random. Raises
    `DetourError`: no two switches with servers are linked."""
    tors, neighbour = network.tors, network.channels.neighbour
    linked = np.zeros((network.size, network.size), np.bool_)
    rows, columns = np.nonzero(neighbour >= 0)
    linked[rows, neighbour[rows, columns]] = True
    # What is drawn adds up to less than 1, so that it decides only between matchings of the same size.
    drawn = np.random.default_rng([seed, 0x3B]).random((tors.size, tors.size)) / tors.size
    rows, columns = heaviest_assignment(np.where(linked[np.ix_(tors, tors)], 1.0 + drawn, 0.0))
    joined = linked[tors[rows], tors[columns]]
    if not joined.any():
        raise DetourError(f"{network.spec}: no two switches with hosts are linked")
    return _matched(network, tors[rows[joined]], tors[columns[joined]])


def ring(network: Expander) -> Demand:
    """Every switch sends all to the next one by number, the last one to the first."""
    return _matched(network, network.tors, np.roll(network.tors, -1))


def ring_random(network: Expander, seed: int = 1) -> Demand:
    """The same in random order."""
    order = np.random.default_rng([seed, 0x3C]).permutation(network.tors)
    return _matched(network, order, np.roll(order, -1))


def _drawn(network: Expander, fraction: float, seed: int) -> Int32Array:
    """A share of the switches, and at least two."""
    drawn = np.random.default_rng([seed, 0x3D]).permutation(network.tors)
    return np.sort(drawn[: max(2, round(fraction * drawn.size))])


def clique(network: Expander, fraction: float, seed: int = 1) -> Demand:
    """A share of the switches, drawn at random: all-to-all among themselves."""
    return all_to_all(network, _drawn(network, fraction, seed))


def matching(network: Expander, fraction: float, seed: int = 1) -> Demand:
    """A share of the switches, drawn at random: a random matching among themselves."""
    return random_matching(network, seed, _drawn(network, fraction, seed))


def hubs(network: Expander, fraction: float, seed: int = 1) -> Demand:
    """A share of the switches, drawn at random, exchange with all others, in proportion to the servers at either end;
    the side with fewer servers sends and gets as much as it has."""
    drawn = np.random.default_rng([seed, 0x3E]).permutation(network.tors)
    count = min(max(1, round(fraction * drawn.size)), drawn.size - 1)
    a, b = np.repeat(drawn[:count], drawn.size - count), np.tile(drawn[count:], count)
    hosts = network.hosts.astype(np.float64)
    amount = hosts[a] * hosts[b] / max(hosts[drawn[:count]].sum(), hosts[drawn[count:]].sum())
    return Demand(np.concatenate([np.stack([a, b], axis=1), np.stack([b, a], axis=1)]), np.tile(amount, 2))


def experts(network: Expander, skew: float, seed: int = 1) -> Demand:
    """Tokens of a mixture of experts: every switch sends to all others, to the k-th most popular one, in an order drawn
    at random, `k ** -skew` of what it sends to the first."""
    tors = network.tors
    popular = (1.0 + np.random.default_rng([seed, 0x3F]).permutation(tors.size)) ** -skew
    a, b = (~np.eye(tors.size, dtype=np.bool_)).nonzero()
    amount = network.hosts[tors[a]] * popular[b] / (popular.sum() - popular[a])
    return Demand(np.stack([tors[a], tors[b]], axis=1), amount)


_PATTERNS: dict[str, Callable[[Expander, int], Demand]] = {
    "all-to-all": lambda network, _: all_to_all(network),
    "uniform": uniform_random,
    "near-worst": lambda network, _: near_worst(network),
    "longest-matching": lambda network, _: near_worst(network),
    "random-matching": random_matching,
    "neighbour-matching": neighbour_matching,
    "ring": lambda network, _: ring(network),
    "ring-random": ring_random,
}
_OF_A_NUMBER: dict[str, Callable[[Expander, float, int], Demand]] = {
    "clique": clique, "hubs": hubs, "matching": matching, "moe": experts,
}  # fmt: skip


def demand_of(pattern: str, network: Expander, seed: int = 1) -> Demand:
    """The demand of that name. Raises `DetourError`: there is none, or no such fraction or skew."""
    if pattern in _PATTERNS:
        return _PATTERNS[pattern](network, seed)
    name, _, text = pattern.partition(":")
    if name not in _OF_A_NUMBER:
        raise DetourError(f"pattern {pattern!r}; there are {', '.join(DEMAND_PATTERNS)}")
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number <= 1:
        raise DetourError(f"pattern {pattern!r}: {text!r} is not a number above 0 and up to 1, like {name}:0.4")
    return _OF_A_NUMBER[name](network, number, seed)


def upper_bound(network: Expander, demand: Demand) -> float:
    """TUB, eq. (6): no routing carries more than 2E / sum(demand * distance) times the demand; a link that carries s
    counts s times in E."""
    load = demand.amount * hop_distances(network)[demand.pairs[:, 0], demand.pairs[:, 1]]
    return 2 * float(network.speeds.sum()) / float(load.sum())
