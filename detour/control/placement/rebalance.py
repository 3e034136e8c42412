# SPDX-License-Identifier: Apache-2.0
"""Placements on damaged Clos networks, of flows of like size, brought to the bound on the busiest link where single
flows that move cannot: flows exchange their paths along alternating paths (`alternating_paths`).

Two tiers: flows are edges between leaves, spines their colours. Three tiers: the same twice, as in `colouring`, first
aggregation switches; there the flows of a pod that use one and go to other pods are no more than its links to cores
take. Then, for each aggregation switch whose links to cores are still too busy, cores.

Single flows look for the cheapest path among what the others carry, in turns, until nobody gains (`local_search`)."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from detour.base.arrays import BoolArray, Bools1, FloatArray, Int32Array, Int32s1, Int32s2, Int64Array, Int64s1, Int64s3
from detour.control.native import PLACEMENT
from detour.control.placement import search
from detour.control.placement.alternating_paths import Coloured, balance, without_groups
from detour.control.placement.network import PlacementNetwork, loads, widened
from detour.control.placement.placement import Placement, busiest_bound
from detour.control.placement.search import Walked

PASSES = 50  # turns of every flow at most; each lowers the cost or is the last
MAX_TURNS = 1_000_000
"""turns of all flows together at most, but at least one of those that nothing else has placed: some seconds"""


def local_search(
    old: Placement, free: NDArray[np.integer], *, move: bool = True, walk: Walked | None = None
) -> Placement:
    """Give those of the flows `free` a path that have none or whose path is down; then, unless `move` is False, let
    all of `free` go where it is better for all. `walk`: where flows are, if that is known already; it is changed."""
    network, flows = old.network, old.flows
    if walk is None:
        walk = search.walked(network, widened(old.path_rows, network.longest).copy())
    path_rows, links = walk
    lost = search.broken(walk)
    if len(free) < len(flows):
        chosen = np.zeros(len(flows), np.bool_)
        chosen[free] = True
        lost &= chosen
    turns = np.flatnonzero(lost)
    path_rows[turns], links[turns] = -1, -1
    load = loads(network, path_rows, flows.size)
    source, target, size = flows.source, flows.target, flows.size
    placed = (path_rows[:, 0] >= 0) | lost
    if not placed.all():
        source, target, size = source[placed], target[placed], size[placed]
    limit = busiest_bound(network, source, target, size)
    ends = network.edge_of[flows.source], network.edge_of[flows.target]
    # Great flows first: small ones fit in beside them.
    turns = turns[np.argsort(-flows.size[turns], kind="stable")].astype(np.int32)
    search.descend(network, turns, ends, flows.size, walk, load, limit)
    placement = replace(old, path_rows=path_rows)
    return _lowered(placement, walk, load, free, float(limit)) if move else placement


def _lowered(
    placement: Placement, walk: Walked, load: FloatArray, free: NDArray[np.integer], bound: float
) -> Placement:
    """Let the flows `free` move as long as anybody gains. Where the busiest link stays above the bound, it is tried
    again with a limit just below what it carries, until that is in vain."""
    network, flows = placement.network, placement.flows
    ends = network.edge_of[flows.source], network.edge_of[flows.target]
    limit, best, left = bound, (np.inf, walk.switches), MAX_TURNS
    while True:
        for _ in range(PASSES):
            turns = search.movable(network, walk, load, flows.size, free)[:left].astype(np.int32)
            left -= len(turns)
            if not search.descend(network, turns, ends, flows.size, walk, load, limit):
                break
        busiest = load.max(initial=0)
        if busiest >= best[0]:
            return replace(placement, path_rows=best[1])
        best = busiest, walk.switches.copy()
        if busiest <= bound or left <= 0:
            return replace(placement, path_rows=best[1])
        limit = max(bound, busiest - max(1, busiest // 100))


class _Pods(NamedTuple):
    """A fat-tree by numbers: link (edge or aggregation switch, way up) to its number, -1 where it is down."""

    half: int
    first: Int32Array  # (pods,) index of the first edge switch; aggregation switches follow the edges
    cores: int  # index of the first core
    up: Int64Array  # (pods * half, half) link from an edge switch to an aggregation switch of its pod
    down: Int64Array  # the other way round
    out: Int64Array  # (pods * half, half) link from an aggregation switch to one of its cores
    back: Int64Array  # the other way round


def _pods_of(network: PlacementNetwork) -> _Pods:
    members = network.topology.members
    half, pods = len(members[0]) // 2, len(members) - 1
    first, cores = np.array([each[0] for each in members[:-1]], np.int32), members[-1][0]
    at = np.arange(half)
    edges = (first[:, None] + at).ravel()
    above = np.repeat(first, half)[:, None] + half + at
    aggregations = edges + half
    core = np.tile(cores + np.arange(half)[:, None] * half + at, (pods, 1))
    link = network.link.astype(np.int64)
    return _Pods(
        half, first, cores, link[edges[:, None], above], link[above, edges[:, None]], link[aggregations[:, None], core],
        link[core, aggregations[:, None]],
    )  # fmt: skip


def rebalanced(old: Placement, free: NDArray[np.integer], before: Int32Array) -> Placement:
    """The placement with a less busy busiest link if flows of `free` that exchange their paths lead to one; else the
    same.

    `old`: where all flows are that have a path. `free`: flows that may move. `before`: (flows, stops) path rows of
    before the damage. Where exchanging from `old` on does not lead to the bound, it is tried from these: what uses
    links that are down has not been pressed in anywhere there."""
    size = old.flows.size
    if not old.network.tiers or not len(free) or (unit := int(size[0])) != size.max() or unit != size.min():
        return old
    movable = np.zeros(len(old.flows), np.bool_)
    movable[free] = True
    best, least = old, old.cut_bound
    for path_rows in (old.path_rows, before):
        if best.busiest > least:
            tried = exchanged(old, movable, path_rows, least // unit)
            best = min(best, tried, key=lambda placement: placement.busiest)
    return best


def exchanged(old: Placement, movable: BoolArray, before: Int32Array, limit: int) -> Placement:
    """The placement after all that `movable` flows can do, from `before` on, so that no link has more than `limit`."""
    now = widened(old.path_rows, before.shape[1])
    path_rows = widened(before, now.shape[1]).copy()
    fixed = ~movable | (path_rows[:, 0] < 0)  # who does not move, or had no path
    path_rows[fixed] = now[fixed]
    network, load = old.network, loads(old.network, path_rows).astype(np.int64)
    change = _change_spines if network.tiers == 2 else _change_ways
    left = change(network, path_rows, load, movable, limit)
    new = replace(old, path_rows=path_rows)
    if not left:
        return new
    walk = search.walked(network, path_rows)
    return local_search(new, np.flatnonzero(search.broken(walk) & movable), move=False, walk=walk)


def _loads_of(
    load: Int64Array, up: Int64Array, down: Int64Array, limit: int, ends: Int32Array, colour: Int32Array
) -> tuple[Int64Array, Int64Array]:
    """(2, vertices, colours) what links carry, and what they may: nothing where they are down. There it is the edges
    from `ends` with a `colour` (-1: none) that are still to move."""
    links = np.stack([up, down])
    carried, room = np.where(links >= 0, load[links], 0), np.where(links >= 0, limit, 0).astype(np.int64)
    links, carried, room = map(np.ascontiguousarray, (links, carried, room))
    if (links < 0).any():
        _add_dead(links, ends, colour, carried)
    return carried, room


@PLACEMENT.entry
def _add_dead(links: Int64s3, ends: Int32s2, colour: Int32s1, carried: Int64s3) -> None:
    for e in range(len(colour)):
        for side in range(2):
            if colour[e] >= 0 and links[side, ends[side, e], colour[e]] < 0:
                carried[side, ends[side, e], colour[e]] += 1


def _change_spines(
    network: PlacementNetwork, path_rows: Int32Array, load: Int64Array, movable: BoolArray, limit: int
) -> int:
    leaves, spines = np.unique(network.edge_of), network.spines
    number = np.full(network.link.shape[1], -1, np.int32)
    number[leaves], number[spines] = np.arange(len(leaves)), np.arange(len(spines))
    chosen = np.flatnonzero(movable & (path_rows[:, 2] >= 0))
    if path_rows.shape[1] > 3:
        chosen = chosen[path_rows[chosen, 3] < 0]
    # A way up has one way down; others that the search has found stay where they are.
    chosen = chosen[network.cable_of(path_rows[chosen, 1]) == network.cable_of(path_rows[chosen, 2])]
    rows = path_rows[chosen]
    ends = np.ascontiguousarray(number[rows[:, [0, 2]] % len(network.link)].T)
    link = network.link.astype(np.int64)
    colour, cable = number[rows[:, 1]], network.cable_of(spines)
    up, down = link[np.ix_(leaves, spines)], link[spines - cable, leaves[:, None] + cable]
    carried, room = _loads_of(load, up, down, limit, ends, colour)
    left = balance(Coloured(ends, np.full_like(ends, -1), colour, carried, room, *without_groups(len(spines))))
    path_rows[chosen, 1] = spines[colour]
    path_rows[chosen, 2] = leaves[ends[1]] + cable[colour]
    return left


def _change_ways(
    network: PlacementNetwork, path_rows: Int32Array, load: Int64Array, movable: BoolArray, limit: int
) -> int:
    pods = _pods_of(network)
    half, count = pods.half, len(pods.first)
    most = int(np.count_nonzero(movable & (path_rows[:, 2] >= 0)))
    flow, colour, core = np.full((3, most), -1, np.int32)
    ends, group = np.full((2, 2, most), -1, np.int32)
    n = _ways(path_rows, movable, network.group_of, pods.first, half, pods.cores, flow, ends, group, colour, core)
    flow, colour, core = flow[:n], colour[:n], core[:n]
    ends, group = ends[:, :n].copy(), group[:, :n].copy()
    carried, room = _loads_of(load, pods.up, pods.down, limit, ends, colour)
    outward, live = _loads_of(load, pods.out, pods.back, limit, group * half + colour, core)
    sums = np.stack([outward.sum(axis=2), live.sum(axis=2)]).reshape(2, 2, count, half)
    before = colour.copy()
    members = np.tile(np.repeat(np.arange(count, dtype=np.int32), half), (2, 1))
    left = balance(Coloured(ends, group, colour, carried, room, sums[0], sums[1]), members)
    _choose_cores(np.flatnonzero(colour != before), group, before, colour, core, outward, live)
    for above in np.flatnonzero((outward > live).any(axis=(0, 2)).reshape(count, half).any(axis=0)):
        mine = np.flatnonzero((colour == above) & (group[0] >= 0) & (core >= 0))
        at = np.arange(count) * half + above
        cores = core[mine]
        part, room = np.ascontiguousarray(outward[:, at]), np.ascontiguousarray(live[:, at])
        between = np.ascontiguousarray(group[:, mine])
        left += balance(Coloured(between, np.full_like(between, -1), cores, part, room, *without_groups(half)))
        core[mine] = cores
    _write_ways(path_rows, flow, ends, group, colour, core, pods.first, half, pods.cores)
    return left + int(((core < 0) & (group[0] >= 0)).sum())


@PLACEMENT.entry
def _ways(
    path_rows: Int32s2, movable: Bools1, group_of: Int32s1, first: Int32s1, half: int, cores: int, flow: Int32s1,
    ends: Int32s2, group: Int32s2, colour: Int32s1, core: Int32s1,
) -> int:  # fmt: skip
    """Fill in flows that go up and down once: (flows,) number, (2, flows) edge switch by number, (2, flows) pod, -1
    for flows inside one, (flows,) aggregation switch and core by number, -1: no core. Return how many there are."""
    width, n = path_rows.shape[1], 0
    for f in range(len(path_rows)):
        if not movable[f] or path_rows[f, 2] < 0:
            continue
        near = width == 3 or path_rows[f, 3] < 0
        if not near and (path_rows[f, 4] < 0 or (width > 5 and path_rows[f, 5] >= 0)):
            continue
        a, b = path_rows[f, 0], path_rows[f, 2 if near else 4]
        p, q = group_of[a], group_of[b]
        if near == (p != q):
            continue  # an edge switch or a core is on the way where none should be
        flow[n] = f
        ends[0, n], ends[1, n] = p * half + a - first[p], q * half + b - first[q]
        colour[n] = path_rows[f, 1] - first[p] - half
        if not near:
            group[0, n], group[1, n] = p, q
            core[n] = (path_rows[f, 2] - cores) % half
        n += 1
    return n


@PLACEMENT.entry
def _choose_cores(
    changed: Int64s1, group: Int32s2, before: Int32s1, colour: Int32s1, core: Int32s1, outward: Int64s3, live: Int64s3
) -> None:
    """Cores for flows that have changed their aggregation switch: those on whose links least is; -1: there is none."""
    half = outward.shape[2]
    for e in changed:
        if group[0, e] < 0:
            continue
        a, b = group[0, e] * half + before[e], group[1, e] * half + before[e]
        outward[0, a, core[e]] -= 1
        outward[1, b, core[e]] -= 1
    for e in changed:
        if group[0, e] < 0:
            continue
        a, b = group[0, e] * half + colour[e], group[1, e] * half + colour[e]
        best, least = -1, 0
        for c in range(half):
            busier = max(outward[0, a, c], outward[1, b, c])
            if live[0, a, c] and live[1, b, c] and (best < 0 or busier < least):
                best, least = c, busier
        core[e] = best
        if best >= 0:
            outward[0, a, best] += 1
            outward[1, b, best] += 1


@PLACEMENT.entry
def _write_ways(
    path_rows: Int32s2, flow: Int32s1, ends: Int32s2, group: Int32s2, colour: Int32s1, core: Int32s1, first: Int32s1,
    half: int, cores: int,
) -> None:  # fmt: skip
    """Put ways into path rows; a flow between pods without a core has none."""
    for e in range(len(flow)):
        f = flow[e]
        p = ends[0, e] // half
        if group[0, e] < 0:
            path_rows[f, 1] = first[p] + half + colour[e]
        elif core[e] < 0:
            path_rows[f] = -1
        else:
            path_rows[f, 1] = first[p] + half + colour[e]
            path_rows[f, 2] = cores + colour[e] * half + core[e]
            path_rows[f, 3] = first[group[1, e]] + half + colour[e]
