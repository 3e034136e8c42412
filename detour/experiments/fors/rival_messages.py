# SPDX-License-Identifier: Apache-2.0
"""Messages of the rivals of FORS (`rivals`): divided over paths, drawn, or in phases that know servers only."""

from __future__ import annotations

from collections.abc import Callable
from math import lcm

import numpy as np

from detour.base.arrays import Int64Array
from detour.control.fors import FatTree
from detour.control.fors.lp_bound import spine_shares
from detour.control.fors.paths import INSIDE, TreePaths
from detour.control.fors.preemptive import Crossbars, turns
from detour.control.fors.unequal import equal_phases
from detour.experiments.fors.rivals_tiers import tier_shares
from detour.fabric.traffic.phased import PhasedMessages

_PARTS = 8
"""as in `unequal`: the bound is divided into so many parts for each server, the shortest phases"""


def _pairs(fabric: FatTree, sizes: Int64Array) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Sources, destinations and bytes of all messages."""
    servers = np.flatnonzero(fabric.taking_part()).astype(np.int64)
    s, d = np.nonzero(sizes)
    return servers[s], servers[d], sizes[s, d].astype(np.int64)


def concurrent_flow(fabric: FatTree, sizes: Int64Array) -> PhasedMessages:
    """Every message divided over paths as the maximum concurrent flow between leaves is, all at once."""
    if fabric.cores:
        return _divided(fabric, sizes, tier_shares(fabric))
    share = spine_shares(fabric, sizes)

    def parts(u: int, v: int) -> tuple[Int64Array, np.ndarray]:
        return _over_cables(fabric, u, v, share[u, v])

    return _divided(fabric, sizes, parts)


def evenly(fabric: FatTree, sizes: Int64Array) -> PhasedMessages:
    """Every message divided evenly over the paths between its leaves, all at once."""
    paths = TreePaths(fabric)
    up = paths.working()

    def parts(u: int, v: int) -> tuple[Int64Array, np.ndarray]:
        usable = paths.usable(u, v, up)
        return usable, np.full(len(usable), 1 / max(len(usable), 1))

    return _divided(fabric, sizes, parts)


def _over_cables(fabric: FatTree, u: int, v: int, share: np.ndarray) -> tuple[Int64Array, np.ndarray]:
    """Paths between two leaves and their parts: those of spines (spines,), evenly over cables that work."""
    working, count = fabric.working, fabric.cables
    paths, parts = [], []
    for spine in np.flatnonzero(share).tolist():
        up, down = (np.flatnonzero(working[leaf, spine]) for leaf in (u, v))
        pieces = np.arange(lcm(len(up), len(down)))
        paths.append((spine * count + up[pieces % len(up)]) * count + down[pieces % len(down)])
        parts.append(np.full(len(pieces), share[spine] / len(pieces)))
    return np.concatenate(paths).astype(np.int64), np.concatenate(parts)


def unpinned(fabric: FatTree, sizes: Int64Array) -> PhasedMessages:
    """Every message whole and without a path, all at once."""
    src, dst, size = _pairs(fabric, sizes)
    return PhasedMessages(np.zeros_like(src), src, dst, np.full(len(src), INSIDE, np.int64), size=size)


def _divided(
    fabric: FatTree, sizes: Int64Array, parts: Callable[[int, int], tuple[Int64Array, np.ndarray]]
) -> PhasedMessages:
    """`parts`: of what a leaf has for another, paths and how much goes over each, 1 in sum."""
    columns: list[list[int]] = [[], [], [], []]
    divisions: dict[tuple[int, int], tuple[Int64Array, np.ndarray]] = {}
    for src, dst, size in zip(*(column.tolist() for column in _pairs(fabric, sizes)), strict=True):
        u, v = src // fabric.hosts, dst // fabric.hosts
        if u == v:
            pieces = [(INSIDE, size)]
        else:
            if (u, v) not in divisions:
                divisions[u, v] = parts(u, v)
            path, share = divisions[u, v]
            edges = np.rint(np.cumsum(share) * size).astype(int)
            pieces = list(zip(path.tolist(), np.diff(edges, prepend=0).tolist(), strict=True))
        for path, part in pieces:
            if part:
                for column, value in zip(columns, (src, dst, path, part), strict=True):
                    column.append(value)
    src, dst, path, sent = (np.array(column, np.int64) for column in columns)
    return PhasedMessages(np.zeros_like(src), src, dst, path, size=sent)


def hashed(fabric: FatTree, sizes: Int64Array, seed: int) -> PhasedMessages:
    """Every message on a working path drawn at random, all at once."""
    src, dst, size = _pairs(fabric, sizes)
    rng, paths = np.random.default_rng([seed, 31]), TreePaths(fabric)
    up = paths.working()
    path = np.full(len(src), INSIDE, np.int64)
    for k, (u, v) in enumerate(zip((src // fabric.hosts).tolist(), (dst // fabric.hosts).tolist(), strict=True)):
        if u != v:
            path[k] = rng.choice(paths.usable(u, v, up))
    return PhasedMessages(np.zeros_like(src), src, dst, path, size=size)


def birkhoff(fabric: FatTree, sizes: Int64Array, phase_cost: int) -> PhasedMessages:
    """Phases that are optimal for servers, each flow on the working path whose links have fewest flows of its phase.

    `phase_cost`: bytes, as in `plan_unequal`; equal sizes get a linear shift, which is such a decomposition.
    """
    phases = decomposed(sizes, phase_cost)
    servers = np.flatnonzero(fabric.taking_part()).astype(np.int64)
    parts = []
    for number, (s, d, sent) in enumerate(phases):
        src, dst = servers[s], servers[d]
        parts.append((np.full(len(src), number), src, dst, emptiest(fabric, src, dst), sent))
    phase, src, dst, path, sent = (np.concatenate(column).astype(np.int64) for column in zip(*parts, strict=True))
    return PhasedMessages(phase, src, dst, path, size=sent)


def decomposed(sizes: Int64Array, phase_cost: int) -> list[tuple[Int64Array, Int64Array, Int64Array]]:
    """Birkhoff's decomposition of `sizes` (n, n): sources, destinations and bytes of every phase. Of two with other
    shortest phases the one that takes less, where a phase costs `phase_cost` bytes."""
    count = len(sizes)
    everywhere = Crossbars(np.zeros(count, np.int64), np.ones((1, 1), bool), np.zeros((1, 1)))
    phases = equal_phases(sizes)
    if phases is None:
        busiest = int(max(sizes.sum(axis=0).max(), sizes.sum(axis=1).max()))
        tried = [turns(sizes, everywhere, busiest, busiest // (parts * count)) or [] for parts in (_PARTS, 8 * _PARTS)]
        best = min(tried, key=lambda one: sum(turn.length + phase_cost for turn in one))
        phases = [(turn.matching.src, turn.matching.dst, turn.sent) for turn in best]
    return phases


def emptiest(fabric: FatTree, src: Int64Array, dst: Int64Array) -> Int64Array:
    """Paths for one phase: flow by flow the one whose fullest link has least."""
    paths = TreePaths(fabric)
    up = paths.working()
    load = np.zeros(2 * len(paths.links))
    chosen = np.full(len(src), INSIDE, np.int64)
    for k, (u, v) in enumerate(zip((src // fabric.hosts).tolist(), (dst // fabric.hosts).tolist(), strict=True)):
        if u == v:
            continue
        usable = paths.usable(u, v, up)
        links = paths.directed(np.full(len(usable), u), np.full(len(usable), v), usable)
        best = int(np.argmin(np.where(links >= 0, load[links], 0).max(axis=1)))
        chosen[k] = usable[best]
        load[links[best][links[best] >= 0]] += 1
    return chosen
