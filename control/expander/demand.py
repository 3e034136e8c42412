# SPDX-License-Identifier: Apache-2.0
"""Traffic between switches (FC+, section V-A): all-to-all, uniform random, near-worst; and the TUB bound.

A demand of 1 is what one server sends at line rate; every switch sends as much as it has servers. A link carries 1.
"""

from __future__ import annotations

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


def all_to_all(network: Expander) -> Demand:
    """Every switch sends to every other one, in proportion to the servers there."""
    tors = network.tors
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
    """Every switch sends all to one other: the permutation of the largest sum of distance * min(hosts) (Namyar et al.,
    SIGCOMM 2021)."""
    distance, tors = hop_distances(network), network.tors
    hosts = network.hosts[tors].astype(np.float64)
    weight = distance[np.ix_(tors, tors)] * np.minimum.outer(hosts, hosts)
    np.fill_diagonal(weight, -1e6)
    rows, columns = heaviest_assignment(weight)
    return Demand(np.stack([tors[rows], tors[columns]], axis=1), np.minimum(hosts[rows], hosts[columns]))


def demand_of(pattern: str, network: Expander, seed: int = 1) -> Demand:
    """The demand of that name. Raises `DetourError`: there is none."""
    if pattern == "all-to-all":
        return all_to_all(network)
    if pattern == "uniform":
        return uniform_random(network, seed)
    if pattern == "near-worst":
        return near_worst(network)
    raise DetourError(f"pattern {pattern!r}; there are {', '.join(DEMAND_PATTERNS)}")


def upper_bound(network: Expander, demand: Demand) -> float:
    """TUB, eq. (6): no routing carries more than 2E / sum(demand * distance) times the demand; a link that carries s
    counts s times in E."""
    load = demand.amount * hop_distances(network)[demand.pairs[:, 0], demand.pairs[:, 1]]
    return 2 * float(network.speeds.sum()) / float(load.sum())
