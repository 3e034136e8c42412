# SPDX-License-Identifier: Apache-2.0
"""Balanced colouring of a bipartite multigraph where every vertex takes so many edges of each colour and no more:
edges that are too many change their colour along alternating paths (Kempe; de Werra 1971). Native code.

An edge that goes from colour x to y leaves its ends with one y too many, unless there is room. There another edge goes
from y to x, at whose other end another one goes from x to y, and so on, until there is room or the chain has come back
to where it began. The shortest chain is looked for, breadth first.

Vertices of a side may form groups that have bounds of their own for some of their edges: pods, whose links to the cores
only flows to other pods use.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from detour.base.arrays import Int32Array, Int32s1, Int32s2, Int32s3, Int64Array, Int64s1, Int64s2, Int64s3
from detour.base.jit import allocating, int64
from detour.control.native import PLACEMENT

ANY = 1 << 30
ROUNDS = ((8, True, True, 32), (2, False, True, 32), (200, False, False, 64), (200, False, False, ANY))
"""edges of a vertex and colour that are tried for one that is too many; whether only chains count that need not come
back to where they began; whether no edge of a chain may use more of a group that has no room, or only all of them
together must be better than before; edges of a change at most. What a round has not done the next one tries: the first
are quick and move little."""
SHAKES = 64
"""changes that make nothing worse, at a vertex that nothing else relieves"""
STEPS = 10_000_000
"""edges that all searches together look at"""


class Coloured(NamedTuple):
    """Edges, and what vertices of both sides (0: left, 1: right) and groups carry and take of each colour."""

    ends: Int32s2  # (2, edges) vertex at either side
    group: Int32s2  # (2, edges) group that the edge counts for, -1: none
    colour: Int32s1  # (edges,)
    load: Int64s3  # (2, vertices, colours), with edges that cannot move and are not among these
    room: Int64s3  # (2, vertices, colours) what it may be; 0: no edge at all
    group_load: Int64s3  # (2, groups, colours)
    group_room: Int64s3  # (2, groups, colours)


class _Lists(NamedTuple):
    """The edges of a vertex and colour, as doubly linked lists."""

    first: Int32s3  # (2, vertices, colours)
    next: Int32s2  # (2, edges)
    previous: Int32s2  # (2, edges)


class _Chain(NamedTuple):
    """A search: tick of the last visit and the edge by which it came, by side and vertex; vertices in order of visit;
    tick and edge by which a vertex is next to the one where chains may close; changes that are made (edge, colour
    before), `count` of them."""

    seen: Int64s2  # (2, vertices)
    by: Int64s2  # (2, vertices)
    queue: Int64s2  # (2 * vertices, 2)
    near: Int64s1  # (vertices,)
    near_by: Int64s1  # (vertices,)
    changed: Int64s2  # (changes, 2)
    count: (
        Int64s1  # (7,) changes, tick, edges that may still be looked at, what is too much, whether groups are strict,
    )
    # how much more may be too much after a change than one less than before, edges of a change at most


@allocating
def _link(g, lists, e):
    for side in range(2):
        u, c = g.ends[side, e], g.colour[e]
        head = lists.first[side, u, c]
        lists.next[side, e], lists.previous[side, e] = head, -1
        if head >= 0:
            lists.previous[side, head] = e
        lists.first[side, u, c] = e


@allocating
def _moved(load, room, was, to):
    """Count an edge for another colour; return by how much there is more than there is room for, then."""
    load[was] -= 1
    load[to] += 1
    return int(load[to] > room[to]) - int(load[was] >= room[was])


@allocating
def _recolour(g, lists, chain, e, to):
    """Give an edge another colour and note which it had."""
    was = g.colour[e]
    for side in range(2):
        u, after, before = g.ends[side, e], lists.next[side, e], lists.previous[side, e]
        if after >= 0:
            lists.previous[side, after] = before
        if before >= 0:
            lists.next[side, before] = after
        else:
            lists.first[side, u, was] = after
        chain.count[3] += _moved(g.load[side, u], g.room[side, u], was, to)
        k = g.group[side, e]
        if k >= 0:
            chain.count[3] += _moved(g.group_load[side, k], g.group_room[side, k], was, to)
    g.colour[e] = to
    _link(g, lists, e)
    n = chain.count[0]
    if n < len(chain.changed):
        chain.changed[n, 0], chain.changed[n, 1] = e, was
    chain.count[0] = n + 1


@allocating
def _take_back(g, lists, chain):
    n = chain.count[0]
    for i in range(n - 1, -1, -1):
        _recolour(g, lists, chain, chain.changed[i, 0], chain.changed[i, 1])
        chain.count[0] = i


@allocating
def _allowed(g, chain, e, to):
    """Return whether an edge may have a colour, as far as dead links go, and groups, unless only the sums count
    there."""
    strict = chain.count[4]
    for side in range(2):
        k = g.group[side, e]
        if g.room[side, g.ends[side, e], to] == 0:
            return False
        if strict and k >= 0 and g.group_load[side, k, to] >= g.group_room[side, k, to]:
            return False
    return True


@allocating
def _mark_near(g, lists, chain, side, u, x, y, tick):
    """Mark the vertices next to u by an edge that may go from y to x."""
    e = lists.first[side, u, y]
    while e >= 0:
        w = g.ends[1 - side, e]
        if chain.near[w] != tick and _allowed(g, chain, int64(e), x):
            chain.near[w], chain.near_by[w] = tick, e
        e = lists.next[side, e]


@allocating
def _search(g, lists, chain, side, start, x, y, skip):
    """Look for a chain from a vertex with one y too many. Return (side, vertex, last edge) where it ends: the chain
    comes to that vertex, and then takes the edge, if that is not -1; side -1: there is none."""
    tick = chain.count[1]
    chain.seen[side, start], chain.by[side, start] = tick, -1
    chain.queue[0, 0], chain.queue[0, 1] = side, start
    head, tail = 0, 1
    while head < tail and chain.count[2] > 0:
        here, u = chain.queue[head, 0], chain.queue[head, 1]
        head += 1
        out, to = (y, x) if here == side else (x, y)
        e = lists.first[here, u, out]
        while e >= 0:
            chain.count[2] -= 1
            there, w = 1 - here, g.ends[1 - here, e]
            if e != skip and chain.seen[there, w] != tick and _allowed(g, chain, int64(e), int64(to)):
                chain.seen[there, w], chain.by[there, w] = tick, e
                if g.load[there, w, to] < g.room[there, w, to]:
                    return there, w, -1
                if there == side and chain.near[w] == tick and chain.near_by[w] != e:
                    return there, w, chain.near_by[w]
                chain.queue[tail, 0], chain.queue[tail, 1] = there, w
                tail += 1
            e = lists.next[here, e]
    return -1, -1, -1


@allocating
def _shift(g, lists, chain, side, start, x, y, skip):
    """Make room for one y at a vertex that has one too many. Return whether; if not, changes are to be taken back."""
    chain.count[1] += 1
    tick, other = chain.count[1], g.ends[1 - side, skip]
    if (
        g.load[1 - side, other, y] > g.room[1 - side, other, y]
        and g.load[1 - side, other, x] < g.room[1 - side, other, x]
    ):
        _mark_near(g, lists, chain, 1 - side, other, x, y, tick)
    at, w, last = _search(g, lists, chain, side, start, x, y, skip)
    if at < 0:
        return False
    if last >= 0:
        if not _allowed(g, chain, int64(last), x):
            return False
        _recolour(g, lists, chain, int64(last), x)
    while chain.by[at, w] >= 0:
        e = chain.by[at, w]
        to = x + y - g.colour[e]
        if not _allowed(g, chain, int64(e), int64(to)):
            return False  # together they are too many for a group
        _recolour(g, lists, chain, int64(e), int64(to))
        at, w = 1 - at, g.ends[1 - at, e]
    return True


@allocating
def _change(g, lists, chain, e, y):
    """Give an edge the colour y, and others what that takes, if less is too much then (or no more, as `chain` says).
    Return whether; else nothing changes."""
    x = int64(g.colour[e])
    if x == y or not _allowed(g, chain, int64(e), y):
        return False
    chain.count[0], before = 0, chain.count[3]
    _recolour(g, lists, chain, int64(e), y)
    done = True
    for side in (1, 0):
        u = g.ends[side, e]
        if done and g.load[side, u, y] > g.room[side, u, y]:
            done = _shift(g, lists, chain, side, u, x, y, e)
    if done and chain.count[3] < before + chain.count[5] and chain.count[0] <= chain.count[6]:
        return True
    _take_back(g, lists, chain)
    return False


@allocating
def _relieve(g, lists, chain, side, u, x, group, tries, spare):
    """Let one edge of colour x at a vertex, of a group if that is not -1, have another one; `spare`: one that the
    vertex has room for. Return whether."""
    colours = g.load.shape[2]
    e, tried = lists.first[side, u, x], 0
    while e >= 0 and tried < tries and chain.count[2] > 0:
        after = lists.next[side, e]
        if group < 0 or g.group[side, e] == group:
            tried += 1
            for step in range(1, colours):
                y = (x + step + e) % colours
                if spare and g.load[side, u, y] >= g.room[side, u, y]:
                    continue
                if _change(g, lists, chain, e, y):
                    return True
        e = after
    return False


@PLACEMENT.entry
def _balance(g: Coloured, lists: _Lists, chain: _Chain, members: Int32s2, tries: int, spare: bool) -> None:
    """Relieve vertices and groups, one edge after the other, until all is well or no edge can move. `members`:
    (2, vertices) group of every vertex, -1: none."""
    _, vertices, colours = g.load.shape
    for side in range(2):
        for x in range(colours):
            for k in range(g.group_load.shape[1]):
                moved = True
                while moved and g.group_load[side, k, x] > g.group_room[side, k, x]:
                    moved = False
                    for u in range(vertices):
                        if members[side, u] == k and g.group_load[side, k, x] > g.group_room[side, k, x]:
                            moved |= _relieve(g, lists, chain, side, u, x, k, tries, spare)
            for u in range(vertices):
                while g.load[side, u, x] > g.room[side, u, x]:
                    if not _relieve(g, lists, chain, side, u, x, int64(-1), tries, spare):
                        break


@allocating
def _disturb(g, lists, chain, side, u, draw):
    """Give some edge of a vertex another colour if that makes nothing worse."""
    colours = g.load.shape[2]
    e = lists.first[side, u, (draw >> 8) % colours]
    if e >= 0:
        chain.count[5] = 1
        _change(g, lists, chain, e, (draw >> 16) % colours)
        chain.count[5] = 0


@PLACEMENT.entry
def _shake(g: Coloured, lists: _Lists, chain: _Chain, members: Int32s2) -> None:
    """Recolour other edges where a vertex or a group cannot be relieved, which makes nothing worse,
    and it is tried again."""
    _, vertices, colours = g.load.shape
    draw = np.int64(1)
    for side in range(2):
        for u in range(vertices):
            for x in range(colours):
                turns, k = SHAKES, int64(members[side, u])
                while turns > 0 and chain.count[2] > 0:
                    inside = k >= 0 and g.group_load[side, k, x] > g.group_room[side, k, x]
                    if not inside and g.load[side, u, x] <= g.room[side, u, x]:
                        break
                    if not _relieve(g, lists, chain, side, u, x, k if inside else int64(-1), int64(8), int64(0)):
                        turns -= 1
                        draw = (draw * 1103515245 + 12345) % 2147483648
                        _disturb(g, lists, chain, side, u, draw)


@PLACEMENT.entry
def _too_much(g: Coloured) -> int:
    """Edges beyond what vertices and groups take."""
    excess: Any = 0
    for i in range(g.load.size):
        excess += max(0, g.load.flat[i] - g.room.flat[i])
    for i in range(g.group_load.size):
        excess += max(0, g.group_load.flat[i] - g.group_room.flat[i])
    return excess


@PLACEMENT.entry
def _link_all(g: Coloured, lists: _Lists) -> None:
    for e in range(len(g.colour) - 1, -1, -1):
        _link(g, lists, e)


def balance(g: Coloured, members: Int32Array | None = None) -> int:
    """Recolour edges, in place, until no vertex and no group carries more of a colour than it takes.

    `g`: what is coloured; `load` and `group_load` follow. `members`: (2, vertices) group of every vertex, -1: none;
    None: there are no groups. Return how much is left that is too much; 0: nothing."""
    edges, vertices = len(g.colour), g.load.shape[1]
    lists = _Lists(
        np.full(g.load.shape, -1, np.int32), np.full((2, edges), -1, np.int32), np.full((2, edges), -1, np.int32)
    )
    chain = _Chain(
        np.zeros((2, vertices), np.int64), np.full((2, vertices), -1, np.int64), np.zeros((2 * vertices, 2), np.int64),
        np.zeros(vertices, np.int64), np.full(vertices, -1, np.int64), np.zeros((4 * vertices + 4, 2), np.int64),
        np.array([0, 0, STEPS, 0, 1, 0, 0]),
    )  # fmt: skip
    if members is None:
        members = np.full((2, vertices), -1, np.int32)
    _link_all(g, lists)
    chain.count[3] = _too_much(g)
    for tries, spare, strict, longest in ROUNDS:
        chain.count[4], chain.count[6] = strict, longest
        _balance(g, lists, chain, members, tries, spare)
    _shake(g, lists, chain, members)
    return int(chain.count[3])


def without_groups(colours: int) -> tuple[Int64Array, Int64Array]:
    """`group_load` and `group_room` of none."""
    return np.zeros((2, 0, colours), np.int64), np.zeros((2, 0, colours), np.int64)
