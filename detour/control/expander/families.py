# SPDX-License-Identifier: Apache-2.0
"""Sets of paths, with weights, among which senders choose on any graph. Each has at most five links, which with the
host make the six uSIDs of one address, and meets no switch twice.

`wmp`: the weighted multipaths of PolarFly (WMP-PolarFly, whitepaper v4.0, sections 3.1 and 3.4), the shortest path and
paths of three links that share no link with it or each other. Adjacent switches have no such path there; they get paths
of four links (`relief`), for which WMP has no room. Its weights are "a derived function of q and hop-count ratio",
which is not given, only 30 % and 12 % at q = 7 and "near-uniform" at 127. Here a shortest path weighs 1 + 10.5/q times
as much as another one, with q + 1 for the links of a switch.

`spraypoint`: what Spraypoint's switches would do (`routes.spraypoint`), done by the sender. A path begins with any
neighbour, each as often as the others, and goes on the way that this one points to the destination. Ways that lead back
to the source are left out.

`ksp`, `shortest` (all shortest paths), `shortest-union` (these and all of two links: Harsh et al., HotNets 2020) and
`edge-disjoint` (always the shortest in what is left of the network) weigh all paths alike.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from detour.base.arrays import BoolArray, FloatArray, Int32Array, Int64Array
from detour.base.errors import DetourError
from detour.control.expander.approximate import shares_of
from detour.control.expander.demand import hop_distances
from detour.control.expander.relief import relieved
from detour.control.expander.routes import ExpanderRoutes, PathPolicy, compute, of_pairs
from detour.control.routes.spraypoint import SpraypointParameters, pointings_to
from detour.topo.expander.network import Expander

MOST_LINKS = 5
WMP_LINKS = 3
WMP_PREMIUM = 10.5
"""(2.5 - 1) * 7: the shortest path's weight at q = 7 is 2.5 times that of another"""
UNION_LINKS = 2
_UNION_PATHS = 1024
"""more than a pair has of that length"""


class WeightedRoutes(NamedTuple):
    """Paths and `weights` (paths,): the share of its pair's traffic that each takes; those of a pair add up to 1."""

    routes: ExpanderRoutes
    weights: FloatArray


class _Request(NamedTuple):
    network: Expander
    pairs: Int32Array
    k: int
    seed: int
    spraypoint: SpraypointParameters


def weighted_routes(
    family: str, network: Expander, pairs: Int32Array, *, k: int = 32, seed: int = 1,
    spraypoint: SpraypointParameters | None = None,
) -> WeightedRoutes:  # fmt: skip
    """The paths of a family, one of `FAMILIES`, for (source, destination) switches `pairs` (P, 2), in their order.

    `k`: paths of a pair at most, except of shortest and shortest-union. `seed`: of what is drawn (Spraypoint; WMP's
    paths of four links). `spraypoint`: how switches point (None: as by default). Raises `DetourError`: there is no such
    family, or a pair has no path of at most `MOST_LINKS` links."""
    if family not in FAMILIES:
        raise DetourError(f"paths {family!r}; there are {', '.join(FAMILIES)}")
    return FAMILIES[family](
        _Request(network, np.asarray(pairs, np.int32), k, seed, spraypoint or SpraypointParameters())
    )


def _alike(routes: ExpanderRoutes) -> WeightedRoutes:
    return WeightedRoutes(routes, shares_of(routes.first, np.ones(routes.total)))


def _ksp(request: _Request) -> WeightedRoutes:
    return _alike(compute(request.network, PathPolicy(request.k, 0, max_hops=MOST_LINKS), request.pairs))


def _edge_disjoint(request: _Request) -> WeightedRoutes:
    policy = PathPolicy(request.k, 0, disjoint=True, max_hops=MOST_LINKS)
    return _alike(compute(request.network, policy, request.pairs))


def _all_shortest(request: _Request) -> WeightedRoutes:
    return _alike(_within(request, PathPolicy(_UNION_PATHS, 0), _shortest(request)))


def _shortest_union(request: _Request) -> WeightedRoutes:
    limits = np.maximum(_shortest(request), UNION_LINKS)
    return _alike(_within(request, PathPolicy(_UNION_PATHS, 0), limits))


def _wmp(request: _Request) -> WeightedRoutes:
    shortest = _shortest(request)
    policy = PathPolicy(request.k, 0, disjoint=True)
    routes = _within(request, policy, np.maximum(shortest, WMP_LINKS))
    routes = relieved(routes, np.flatnonzero(shortest == 1), request.seed)
    q = int((request.network.channels.neighbour >= 0).sum(axis=1).max()) - 1
    first_length = np.repeat(routes.length[routes.first[:-1]], np.diff(routes.first))
    weights = np.where(routes.length == first_length, 1 + WMP_PREMIUM / max(q, 1), 1.0)
    return WeightedRoutes(routes, shares_of(routes.first, weights))


def _shortest(request: _Request) -> Int32Array:
    """(P,) links of each pair's shortest path. Raises `DetourError`: one has more than `MOST_LINKS`."""
    network, pairs = request.network, request.pairs
    links = hop_distances(network, partial=True)[pairs[:, 0], pairs[:, 1]]
    if (links > MOST_LINKS).any():
        _refuse(network, pairs[int(np.argmax(links))])
    return links


def _refuse(network: Expander, pair: Int32Array) -> None:
    a, b = map(network.name_of, pair.tolist())
    raise DetourError(f"{network.spec}: no path from {a} to {b} has at most {MOST_LINKS} links")


def _within(request: _Request, policy: PathPolicy, limits: Int32Array) -> ExpanderRoutes:
    """The routes of the pairs by `policy`, with at most `limits` (P,) links each."""
    parts = [
        compute(request.network, replace(policy, max_hops=int(limit)), request.pairs[limits == limit])
        for limit in np.unique(limits)
    ]
    longest = max(part.columns.shape[1] for part in parts)
    joined = ExpanderRoutes(
        request.network,
        replace(policy, max_hops=longest),
        np.concatenate([part.pairs for part in parts]),
        np.concatenate([[0], np.cumsum(np.concatenate([np.diff(part.first) for part in parts]))]),
        np.concatenate([part.length for part in parts]),
        np.concatenate([np.pad(part.columns, ((0, 0), (0, longest - part.columns.shape[1]))) for part in parts]),
    )
    return of_pairs(joined, request.pairs)


class _Walks(NamedTuple):
    """Ways that begin at the sources of some pairs: `pair` (ways,) their rows; `columns` and `stops` (ways, up to
    `MOST_LINKS` and one more) what they take and meet, -1 behind the end; `probability` (ways,)."""

    pair: Int64Array
    columns: Int32Array
    stops: Int32Array
    probability: FloatArray

    def some(self, which: Int64Array | BoolArray) -> _Walks:
        return _Walks(self.pair[which], self.columns[which], self.stops[which], self.probability[which])


def _spraypoint(request: _Request) -> WeightedRoutes:
    network, pairs = request.network, request.pairs
    order = np.argsort(pairs[:, 1], kind="stable")
    targets, begin = np.unique(pairs[order, 1], return_index=True)
    neighbour, rng = network.channels.neighbour, np.random.default_rng([request.seed, 0x5B])
    parts = []
    for (target, pointing), rows in zip(
        pointings_to(neighbour, targets.tolist(), request.spraypoint), np.split(order, begin[1:]), strict=True
    ):
        walks = _walks(neighbour, pairs, rows, target, pointing.next_hop)
        parts.append(_chosen(walks, request.k, rng))
    walks = _Walks(*(np.concatenate(part) for part in zip(*parts, strict=True)))
    length = (walks.columns >= 0).sum(axis=1)
    walks = walks.some(np.lexsort((length, walks.pair)))
    count = np.bincount(walks.pair, minlength=len(pairs))
    if not count.all():
        _refuse(network, pairs[int(np.argmin(count))])
    length = (walks.columns >= 0).sum(axis=1)
    columns = np.maximum(walks.columns[:, : int(length.max())], 0).astype(np.uint8)
    first = np.concatenate([[0], np.cumsum(count)])
    policy = PathPolicy(request.k, 0, max_hops=MOST_LINKS)
    routes = ExpanderRoutes(network, policy, pairs, first, length.astype(np.uint8), columns)
    return WeightedRoutes(routes, shares_of(first, walks.probability))


def _walks(neighbour: Int32Array, pairs: Int32Array, rows: Int64Array, target: int, next_hop: BoolArray) -> _Walks:
    """All ways of some pairs to their `target` that spray and point, and neither meet a switch twice nor are too
    long."""
    walks = _Walks(
        rows, np.full((rows.size, MOST_LINKS), -1, np.int32), np.full((rows.size, MOST_LINKS + 1), -1, np.int32),
        np.ones(rows.size),
    )  # fmt: skip
    walks.stops[:, 0] = pairs[rows, 0]
    arrived = []
    for link in range(MOST_LINKS):
        here = walks.stops[:, link]
        onward = neighbour[here] >= 0 if link == 0 else next_hop[here]
        which, columns = np.nonzero(onward)
        probability = walks.probability[which] / onward.sum(axis=1)[which]
        stop = neighbour[here[which], columns]
        walks = walks.some(which)._replace(probability=probability)
        fresh = (walks.stops[:, : link + 1] != stop[:, None]).all(axis=1)
        walks.columns[:, link], walks.stops[:, link + 1] = columns, stop
        arrived.append(walks.some(fresh & (stop == target)))
        walks = walks.some(fresh & (stop != target))
    return _Walks(*(np.concatenate(part) for part in zip(*arrived, strict=True)))


def _chosen(walks: _Walks, k: int, rng: np.random.Generator) -> _Walks:
    """Up to `k` ways of every pair, drawn so that all neighbours of the source begin as many, give or take one. Those
    that are left share what their neighbour's would have had."""
    width = int(walks.columns.max(initial=0)) + 1
    _, begun = np.unique(walks.pair * width + walks.columns[:, 0], return_inverse=True)  # by pair and neighbour
    total = np.bincount(begun, walks.probability)
    turn, drawn = rng.random(total.size)[begun], rng.random(begun.size)
    number = _number_in_group(begun, np.lexsort((drawn, begun)))
    place = _number_in_group(walks.pair, np.lexsort((turn, number, walks.pair)))
    kept = place < k
    left = np.bincount(begun[kept], walks.probability[kept], minlength=total.size)
    walks, begun = walks.some(kept), begun[kept]
    return walks._replace(probability=walks.probability * total[begun] / left[begun])


def _number_in_group(group: Int64Array, order: Int64Array) -> Int64Array:
    """(n,) the place of each, from 0, among those of its group; `order`: all of them by group, and in a group as they
    are counted."""
    ordered = group[order]
    begins = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    number = np.empty(group.size, np.int64)
    number[order] = np.arange(group.size) - np.repeat(begins, np.diff(np.append(begins, group.size)))
    return number


FAMILIES: dict[str, Callable[[_Request], WeightedRoutes]] = {
    "wmp": _wmp, "spraypoint": _spraypoint, "ksp": _ksp, "shortest": _all_shortest, "shortest-union": _shortest_union,
    "edge-disjoint": _edge_disjoint,
}  # fmt: skip
