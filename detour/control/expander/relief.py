# SPDX-License-Identifier: Apache-2.0
"""Paths of four links between switches that are linked, beside what paths they have.

In PolarFly such switches have no path of three links, and very many of four. Were always the first of these taken, the
same links would get the paths of all pairs. So they are drawn: links of the source that begin no path yet are joined at
random with links of the target that end none, each by a switch that both ends have in common.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from detour.base.arrays import BoolArray, Int32Array, Int64Array
from detour.control.expander.routes import ExpanderRoutes, channels_of, with_more

LINKS = 4
_DRAWS = 8
"""of which every pair keeps the one with most paths"""
_CHUNK = 1_000


class _Joined(NamedTuple):
    """Paths of some pairs (A, J): whether there is one, and its columns (A, J, 4)."""

    there: BoolArray
    columns: Int32Array


def relieved(routes: ExpanderRoutes, pairs: Int64Array, seed: int) -> ExpanderRoutes:
    """The routes, and paths of four links for some of the `pairs` (rows of `routes.pairs`) of linked switches, while
    these have fewer than `routes.policy.k`. No two paths of a pair begin or end with the same link."""
    rng, neighbour = np.random.default_rng([seed, 0x4E]), routes.network.channels.neighbour
    linked = np.zeros((len(neighbour), len(neighbour)), np.bool_)
    linked[np.nonzero(neighbour >= 0)[0], neighbour[neighbour >= 0]] = True
    free = _free(routes)
    added, columns = [np.zeros(0, np.int64)], [np.zeros((0, LINKS), np.uint8)]
    for some in np.array_split(pairs, -(-len(pairs) // _CHUNK)) if len(pairs) else []:
        best = _draw(routes, some, free, linked, rng)
        for _ in range(_DRAWS - 1):
            other = _draw(routes, some, free, linked, rng)
            more = other.there.sum(axis=1) > best.there.sum(axis=1)
            best.there[more], best.columns[more] = other.there[more], other.columns[more]
        room = routes.policy.k - np.diff(routes.first)[some]
        which, place = np.nonzero(best.there & (np.cumsum(best.there, axis=1) <= room[:, None]))
        added.append(some[which])
        columns.append(best.columns[which, place].astype(np.uint8))
    pair = np.concatenate(added)
    return with_more(routes, pair, np.full(pair.size, LINKS, np.uint8), np.concatenate(columns))


def _free(routes: ExpanderRoutes) -> tuple[BoolArray, BoolArray]:
    """(pairs, columns) the links of sources that begin no path, and those of targets that end none."""
    ch, pair = routes.network.channels, np.repeat(np.arange(len(routes.pairs)), np.diff(routes.first))
    width = ch.neighbour.shape[1]
    first, last = (ch.neighbour[ends] >= 0 for ends in routes.pairs.T)
    begin, channels = channels_of(routes)
    first[pair, channels[begin[:-1]] % width] = False
    last[pair, ch.back.ravel()[channels[begin[1:] - 1]]] = False
    return first, last


def _draw(
    routes: ExpanderRoutes, pairs: Int64Array, free: tuple[BoolArray, BoolArray], linked: BoolArray,
    rng: np.random.Generator,
) -> _Joined:  # fmt: skip
    ch = routes.network.channels
    source, target = routes.pairs[pairs].T[:, :, None]
    drawn = [np.where(some[pairs], rng.random(some[pairs].shape), 2.0) for some in free]
    first, last = (order.argsort(axis=1) for order in drawn)
    both = (np.sort(drawn[0], axis=1) < 2) & (np.sort(drawn[1], axis=1) < 2)
    a, b = ch.neighbour[source, first], ch.neighbour[target, last]
    middle = ch.neighbour[a]
    fits = (middle >= 0) & (middle != source[:, :, None]) & (middle != target[:, :, None])
    fits &= linked[middle, b[:, :, None]] & (both & (a != b))[:, :, None]
    second = np.where(fits, rng.random(fits.shape), -1.0).argmax(axis=2)
    via = ch.neighbour[a, second]
    third = (ch.neighbour[via] == b[:, :, None]).argmax(axis=2)
    columns = np.stack([first, second, third, ch.back[target, last]], axis=2)
    return _Joined(fits.any(axis=2), columns.astype(np.int32))
