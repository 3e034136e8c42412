# SPDX-License-Identifier: Apache-2.0
"""The least time that messages of unlike size take: busiest server, leaf cuts, and how spines can share them.

The last is a linear programme: bytes x[u, v, c] >= 0 from leaf u to leaf v over spine c, all that u has for v, nothing
on failed links, and T times its room at most on a link in either direction. T, a server's bytes out and in, and a
leaf's over its cables are what every schedule needs, cut into pieces or not.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from detour.base.arrays import Int64Array
from detour.control.fors.fabric import FatTree
from detour.control.linear import programme, solver

_SCALE = 1 << 40  # Duals become integers of this size: the bound is computed without rounding.


class LpBound(NamedTuple):
    """A lower bound on any schedule; times in bytes of a server's link."""

    bytes: int
    servers: int  # of it, by the busiest server
    links: int  # by the links between leaves and spines
    price: np.ndarray  # (leaves, leaves) float 0..1: dual price of a byte between two leaves, the dearest 1


def lp_bound(fabric: FatTree, sizes: Int64Array) -> LpBound:
    """The bound for `sizes` (n, n) bytes between the servers that take part, in order."""
    volume = _volume(fabric, sizes)
    servers = int(max(sizes.sum(axis=1).max(initial=0), sizes.sum(axis=0).max(initial=0)))
    room = np.maximum(fabric.room().sum(axis=1), 1)
    cut = int(max((-(-volume.sum(axis=end) // room)).max() for end in (0, 1)))
    shared, price = _shared(fabric, volume)
    links = max(cut, shared)
    return LpBound(max(servers, links), servers, links, price)


def spine_shares(fabric: FatTree, sizes: Int64Array) -> np.ndarray:
    """(leaves, leaves, spines) float: parts of what a leaf has for another that go over each spine in a maximum
    concurrent flow, 1 in sum; 0 where nothing is sent. It is what keeps the fullest link as empty as can be."""
    paths = _Paths.of(fabric, _volume(fabric, sizes))
    share = np.zeros((fabric.leaves, fabric.leaves, fabric.spines))
    if len(paths.pair):
        value = np.maximum(_solved(fabric, paths)[0][:-1], 0.0)
        total = np.bincount(paths.pair, value, len(paths.pairs))
        ends = paths.pairs[paths.pair]
        share[ends[:, 0], ends[:, 1], paths.spine] = value / total[paths.pair]
    return share


class _Paths(NamedTuple):
    """Pairs of leaves (pairs, 2) with bytes (pairs,), and ways over spines: (paths,) index of the pair, spine, link up
    and link down."""

    pairs: Int64Array
    volume: Int64Array
    pair: Int64Array
    spine: Int64Array
    up: Int64Array
    down: Int64Array

    @classmethod
    def of(cls, fabric: FatTree, volume: Int64Array) -> _Paths:
        room, spines = fabric.room(), fabric.spines
        pairs = np.argwhere(volume > 0)
        both = (room[pairs[:, 0]] > 0) & (room[pairs[:, 1]] > 0)
        pair, spine = np.nonzero(both)
        ends = (pairs[pair, end] * spines + spine for end in (0, 1))
        up, down = next(ends), next(ends) + fabric.leaves * spines
        return cls(pairs, volume[pairs[:, 0], pairs[:, 1]], pair, spine, up, down)


def _volume(fabric: FatTree, sizes: Int64Array) -> Int64Array:
    """(leaves, leaves) bytes between different leaves."""
    leaf = np.flatnonzero(fabric.taking_part()) // fabric.hosts
    volume = np.zeros((fabric.leaves, fabric.leaves), np.int64)
    np.add.at(volume, (leaf[:, None], leaf[None, :]), sizes)
    np.fill_diagonal(volume, 0)
    return volume


def _solved(fabric: FatTree, paths: _Paths) -> tuple[np.ndarray, np.ndarray]:
    """Values of the paths and T (relative to the greatest volume), and prices of the links, up then down."""
    pairs, volume, pair, up, down = paths.pairs, paths.volume, paths.pair, paths.up, paths.down
    links = fabric.leaves * fabric.spines
    unit = float(volume.max())  # the programme's numbers are around 1
    entries = np.stack([pair, len(pairs) + up, len(pairs) + down], axis=1).ravel()
    load = np.tile(fabric.room().ravel().astype(float), 2)
    matrix = (
        np.append(np.arange(0, len(entries) + 1, 3), len(entries) + 2 * links),
        np.concatenate([entries, len(pairs) + np.arange(2 * links)]),
        np.concatenate([np.ones(len(entries)), -load]),
    )
    lower = np.concatenate([volume / unit, np.full(2 * links, -np.inf)])
    upper = np.concatenate([volume / unit, np.zeros(2 * links)])
    model = solver(random_seed=1)
    model.passModel(programme(np.append(np.zeros(len(pair)), 1.0), (lower, upper), matrix))
    model.run()
    solution = model.getSolution()
    return np.array(solution.col_value), np.clip(-np.array(solution.row_dual)[len(pairs) :], 0.0, 1.0)


def _shared(fabric: FatTree, volume: Int64Array) -> tuple[int, np.ndarray]:
    """The linear programme's T, proven by its dual prices, and these."""
    paths, price = _Paths.of(fabric, volume), np.zeros(volume.shape)
    pairs = paths.pairs
    if not len(paths.pair):
        return 0, price
    dual = _solved(fabric, paths)[1]
    load = np.tile(fabric.room().ravel(), 2)
    whole = [int(value * _SCALE) for value in dual.tolist()]
    cheapest = [2 * _SCALE] * len(pairs)
    for number, one, other in zip(*(column.tolist() for column in (paths.pair, paths.up, paths.down)), strict=True):
        cheapest[number] = min(cheapest[number], whole[one] + whole[other])
    paid = sum(size * cost for size, cost in zip(paths.volume.tolist(), cheapest, strict=True))
    total = sum(cost * count for cost, count in zip(whole, load.tolist(), strict=True))
    if total:
        price[pairs[:, 0], pairs[:, 1]] = np.array(cheapest, float) / max(max(cheapest), 1)
    return (-(-paid // total) if total else 0), price
