# SPDX-License-Identifier: Apache-2.0
"""Numbers of paths: N_P4, N_P6, N_P (section IV) and K2 (section III-E)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from detour.base.arrays import Bools1, FloatArray, Floats2, Int64Array, Int64s1, Int64s2
from detour.base.cores import cores
from detour.control.expander.enumeration import FREE, native
from detour.control.expander.routes import ExpanderRoutes, SourcesProgress
from detour.control.native import EXPANDER
from detour.topo.expander.network import Channels, Expander

_EXACT_WALKS = 4e9
"""simple paths that are counted one by one at most; beyond that, walks that never turn back stand for them"""


@EXPANDER.entry
def _count(source: int, max_hops: int, budget: int, ch: Channels, on_path: Bools1, paths: Int64s2) -> None:
    """Add to found[h, y] the simple paths of h links from a source to y with at most `budget` down-ups."""
    width = ch.neighbour.shape[1]
    at = np.empty(max_hops + 1, np.int64)
    position = np.zeros(max_hops + 1, np.int64)
    down_ups = np.zeros(max_hops + 1, np.int64)
    turn = np.zeros(max_hops + 1, np.int64)
    depth = 0
    at[0] = source
    on_path[source] = True
    while depth >= 0:
        x, c = at[depth], turn[depth]
        here, spent = position[depth], down_ups[depth]
        last = depth + 1 == max_hops
        while c < width:
            y = ch.neighbour[x, c]
            more = spent + (ch.leave[x, c] < here)
            c += 1
            if y < 0 or more > budget or on_path[y]:
                continue
            paths[depth + 1, y] += 1
            if not last:
                turn[depth] = c
                depth += 1
                at[depth], position[depth], down_ups[depth], turn[depth] = y, ch.enter[x, c - 1], more, 0
                on_path[y] = True
                break
        else:
            on_path[x] = False
            depth -= 1


@EXPANDER.entry
def _count_from(sources: Int64s1, max_hops: int, budget: int, ch: Channels, total: Int64s1) -> None:
    """Add to total[h] the simple paths of h links from all sources."""
    n = ch.neighbour.shape[0]
    on_path = np.zeros(n, np.bool_)
    for i in range(sources.size):
        paths = np.zeros((max_hops + 1, n), np.int64)
        _count(sources[i], max_hops, budget, ch, on_path, paths)
        for h in range(max_hops + 1):
            total[h] += paths[h].sum()


def mean_paths(
    network: Expander, max_hops: int, priorities: int = 1, sources: int | None = None,
    report: SourcesProgress | None = None,
) -> FloatArray:  # fmt: skip
    """(max_hops + 1,) paths of a pair with exactly h links and at most priorities - 1 down-ups, mean over all pairs.

    `network`: what is looked at; `max_hops`: longest path; `priorities`: lossless priorities, 0 for any path;
    `sources`: only so many sources, spread evenly (None: all); `report`: told of progress."""
    chosen = network.tors.astype(np.int64)
    if sources is not None and sources < chosen.size:
        chosen = chosen[np.linspace(0, chosen.size - 1, sources).astype(np.int64)]
    total = np.zeros(max_hops + 1, np.int64)
    ch = native(network.channels)
    for begin in range(0, chosen.size, 16):
        _count_from(chosen[begin : begin + 16], max_hops, priorities - 1 if priorities else FREE, ch, total)
        if report:
            report(min(begin + 16, chosen.size), chosen.size)
    return total / (chosen.size * (network.tors.size - 1))


class Examined(NamedTuple):
    """Paths of a pair that are looked at before K are found: mean over pairs; whether all were counted one by one."""

    mean: float
    exact: bool


@EXPANDER.entry
def _walks(source: int, max_hops: int, ch: Channels, walks: Floats2) -> None:
    """Add to found[h, y] the walks of h links from a source to y that never turn back nor see the source again."""
    n, width = ch.neighbour.shape
    now = np.zeros((n, width), np.float64)
    for c in range(width):
        y = ch.neighbour[source, c]
        if y >= 0:
            now[y, ch.back[source, c]] = 1.0
    for h in range(1, max_hops + 1):
        for y in range(n):
            walks[h, y] += now[y].sum()
        then = np.zeros((n, width), np.float64)
        for x in range(n):
            every = now[x].sum()
            for c in range(width):
                y = ch.neighbour[x, c]
                if y >= 0 and y != source:
                    then[y, ch.back[x, c]] = every - now[x, c]
        now = then


def examined(routes: ExpanderRoutes, report: SourcesProgress | None = None) -> Examined:
    """K2: how many of a pair's shortest paths have to be examined until K that the priorities admit are found.

    Paths of the last length come in random order: of C there, A admitted, r of them taken, (C + 1) / (A + 1) * r are
    examined on the average. Where lengths are so great that counting simple paths one by one would take minutes, walks
    that never turn back are counted instead; they are more by the few that meet themselves.

    Of paths that share no link there are seldom K: all paths are examined until the last one that is taken, and of its
    length those that are taken are the admitted ones."""
    network, policy = routes.network, routes.policy
    if not policy.priorities and not policy.disjoint:
        return Examined(routes.mean_paths, True)
    ch, n = native(network.channels), network.size
    longest = routes.length[routes.first[1:] - 1].astype(np.int64)
    taken = np.add.reduceat(routes.length == np.repeat(longest, np.diff(routes.first)), routes.first[:-1])
    deepest = int(longest.max())
    exact = float(network.tors.size) * float(network.degrees.mean() - 1) ** deepest <= _EXACT_WALKS
    order = np.argsort(routes.pairs[:, 0], kind="stable")
    sources, begin = np.unique(routes.pairs[order, 0], return_index=True)
    ends = np.append(begin[1:], len(order))

    def of_source(i: int) -> float:
        mine = order[begin[i] : ends[i]]
        every, admitted = np.zeros((2, deepest + 1, n), np.float64)
        if exact:
            every[:] = _counted(int(sources[i]), deepest, FREE, ch)
        else:
            _walks(int(sources[i]), deepest, ch, every)
        if not policy.disjoint:
            admitted[:] = _counted(int(sources[i]), deepest, policy.budget, ch)
        return float(_examined_of(routes, mine, longest[mine], taken[mine], every, admitted).sum())

    total = 0.0
    with ThreadPoolExecutor(cores()) as threads:
        for i, counted in enumerate(threads.map(of_source, range(sources.size))):
            total += counted
            if report:
                report(i + 1, sources.size)
    return Examined(total / len(routes.pairs), exact)


def _counted(source: int, max_hops: int, budget: int, ch: Channels) -> Int64Array:
    """(max_hops + 1, switches) simple paths from a source, by links and where they end."""
    n = ch.neighbour.shape[0]
    paths = np.zeros((max_hops + 1, n), np.int64)
    _count(source, max_hops, budget, ch, np.zeros(n, np.bool_), paths)
    return paths


def _examined_of(
    routes: ExpanderRoutes, mine: Int64Array, last: Int64Array, taken: Int64Array, every: FloatArray,
    admitted: FloatArray,
) -> FloatArray:  # fmt: skip
    """K2 of the pairs `mine`, all from one source, whose longest paths have `last` links, of which `taken` are taken;
    every and admitted: (length, switch) numbers of paths."""
    target = routes.pairs[mine, 1]
    shorter = np.cumsum(every, axis=0)[last - 1, target]
    if routes.policy.disjoint:
        return shorter + taken * (np.maximum(every[last, target], taken) + 1) / (taken + 1)
    paths = np.diff(routes.first)[mine]
    rest = paths - np.cumsum(admitted, axis=0)[last - 1, target]
    at_last = np.maximum(every[last, target], admitted[last, target])
    full = rest >= admitted[last, target]
    in_part = rest * (at_last + 1) / (admitted[last, target] + 1)
    # A pair that never got K paths has all of them examined.
    return shorter + np.where(full & (paths < routes.policy.k), at_last, in_part)
