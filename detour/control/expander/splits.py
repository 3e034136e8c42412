# SPDX-License-Identifier: Apache-2.0
"""Throughput where nobody optimises: every switch splits what it gets in fixed shares.

Traffic to one destination passes switches in the order of falling levels, so one pass adds up the loads of links. ECMP
splits evenly among the next hops of shortest paths. Spraypoint sprays over all neighbours of the first switch and from
there on splits evenly among those that a switch points to (`routes.spraypoint`). Senders with weighted paths split by
these. The busiest link decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np

from detour.base.arrays import BoolArray, FloatArray, IndexArray, Int32Array
from detour.base.errors import DetourError
from detour.control.expander.demand import Demand, hop_distances
from detour.control.expander.families import WeightedRoutes
from detour.control.expander.routes import channels_of
from detour.control.routes.spraypoint import SpraypointParameters, pointings_to
from detour.topo.expander.network import Expander


class NextHops(NamedTuple):
    """Next hops towards one `target`: `first` and `onward` (switches, columns) whether traffic of a switch's own hosts,
    and traffic from other switches, goes over a column; `level` (switches,): falls by at least 1 with every hop
    onward."""

    target: int
    first: BoolArray
    onward: BoolArray
    level: Int32Array


Splitting = Callable[[Expander, Iterable[int]], Iterator[NextHops]]
"""gives the next hops of some targets"""


def ecmp(network: Expander, targets: Iterable[int]) -> Iterator[NextHops]:
    """All shortest paths."""
    neighbour, distance = network.channels.neighbour, hop_distances(network, partial=True)
    for target in targets:
        away = distance[:, target]
        nearer = (neighbour >= 0) & (away[neighbour] == away[:, None] - 1)
        yield NextHops(target, nearer, nearer, away)


def spraypoint(
    network: Expander, targets: Iterable[int], settings: SpraypointParameters | None = None
) -> Iterator[NextHops]:
    """Spray, then point."""
    neighbour = network.channels.neighbour
    for target, pointing in pointings_to(neighbour, targets, settings or SpraypointParameters()):
        yield NextHops(target, neighbour >= 0, pointing.next_hop, pointing.level)


def split_loads(network: Expander, demand: Demand, splitting: Splitting) -> FloatArray:
    """(switches, columns) what each channel carries of a demand. Raises `DetourError`: a switch that is to send has no
    next hop."""
    loads = np.zeros(network.channels.neighbour.shape)
    order = np.argsort(demand.pairs[:, 1], kind="stable")
    targets, begin = np.unique(demand.pairs[order, 1], return_index=True)
    rows = np.split(order, begin[1:])
    for next_hops, some in zip(splitting(network, targets.tolist()), rows, strict=True):
        own = np.zeros(network.size)
        np.add.at(own, demand.pairs[some, 0], demand.amount[some])
        _propagate(network, next_hops, own, loads)
    return loads


def _propagate(network: Expander, next_hops: NextHops, own: FloatArray, loads: FloatArray) -> None:
    """Add to `loads` what switches' `own` traffic to one target puts on channels."""
    neighbour = network.channels.neighbour
    passing = np.zeros(network.size)

    def send(switches: IndexArray, amount: FloatArray, hops: BoolArray) -> None:
        count = hops.sum(axis=1)
        if not count.all():
            a, b = network.name_of(int(switches[np.argmin(count)])), network.name_of(next_hops.target)
            raise DetourError(f"{network.spec}: {a} has no next hop to {b}")
        share = hops * (amount / count)[:, None]
        loads[switches] += share
        np.add.at(passing, neighbour[switches][hops], share[hops])

    sending = np.flatnonzero(own)
    send(sending, own[sending], next_hops.first[sending])
    for level in range(int(next_hops.level.max()), 0, -1):
        at = np.flatnonzero((next_hops.level == level) & (passing > 0))
        send(at, passing[at], next_hops.onward[at])


def split_throughput(network: Expander, demand: Demand, splitting: Splitting) -> float:
    """Theta of a demand, not capped, under fixed shares of `ecmp`, `spraypoint` or another. Raises `DetourError`: as
    `split_loads`."""
    return _largest(network, split_loads(network, demand, splitting))


def weighted_throughput(paths: WeightedRoutes, demand: Demand) -> float:
    """Theta of a demand, not capped, if senders split by the weights of their paths (of the same pairs, in the same
    order)."""
    routes, weights = paths
    begin, channels = channels_of(routes)
    flows = np.repeat(demand.amount, np.diff(routes.first)) * weights
    loads = np.zeros(routes.network.channels.neighbour.shape)
    np.add.at(loads.ravel(), channels, np.repeat(flows, np.diff(begin)))
    return _largest(routes.network, loads)


def _largest(network: Expander, loads: FloatArray) -> float:
    channels = network.channels
    capacity = np.where(channels.neighbour >= 0, network.speeds[channels.link], 1.0)
    return float(1.0 / (loads / capacity).max())
