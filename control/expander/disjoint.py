# SPDX-License-Identifier: Apache-2.0
"""Paths of a pair that share no link, shortest first, as FC takes them; native code.

Always the shortest path of what is left of the network is taken, of several the first in the order of columns, until
none is left. A table says for every switch, number of links and number of down-ups left how high one may arrive at it
and still get to the destination. A shortest walk is a path: without a loop it would be shorter, and go down and up no
more often. So a path is read off the table, and nothing is tried in vain.
"""

from __future__ import annotations

import numpy as np

from detour.base.jit import allocating, int64
from detour.control.native import assign

ANYWHERE = 1 << 30
"""a position above all others"""
_LOOKAHEAD = 2  # links at the beginning of a path that are walked, so that the table needs so many levels less


@allocating
def _largest(row):
    """The largest number, -1 for none."""
    largest = -1
    for value in row:
        largest = max(largest, value)
    return largest


@allocating
def _extend(level, budget, free, ch, dead, table, reached, sizes):
    """Fills in a level of the table from that before it: table[l, x, b] is the highest position at which one may arrive
    at x and get to the destination in l links and b down-ups, -1: none."""
    for i in range(sizes[level]):
        table[level, reached[level, i]] = -1
    count = 0
    for i in range(sizes[level - 1]):
        z = reached[level - 1, i]
        for c in range(ch.neighbour.shape[1]):
            x = ch.neighbour[z, c]
            if x < 0 or dead[ch.link[z, c]]:
                continue
            back = ch.back[z, c]
            new = _largest(table[level, x]) < 0
            for b in range(budget + 1):
                highest = -1
                if table[level - 1, z, b] >= ch.enter[x, back]:
                    highest = ANYWHERE if free else ch.leave[x, back]
                if b and table[level - 1, z, b - 1] >= ch.enter[x, back]:
                    highest = ANYWHERE
                table[level, x, b] = max(table[level, x, b], highest)
            if new and _largest(table[level, x]) >= 0:
                reached[level, count] = x
                count += 1
    sizes[level] = count


@allocating
def _step(x, here, left, hops, free, ch, dead, table, begin):
    """The first column from `begin` on that leads to the destination in so many links, with `left` down-ups left; -1:
    none."""
    for c in range(begin, ch.neighbour.shape[1]):
        y = ch.neighbour[x, c]
        if y < 0 or dead[ch.link[x, c]]:
            continue
        rest = left if free or ch.leave[x, c] >= here else left - 1
        if rest >= 0 and table[hops - 1, y, rest] >= ch.enter[x, c]:
            return c
    return -1


@allocating
def _path(source, hops, budget, free, ch, dead, table, columns):
    """Whether there is a path of so many links; its columns."""
    x, here, left, begin = source, 0, budget, 0
    if hops >= _LOOKAHEAD:
        begin = -1
        for c in range(ch.neighbour.shape[1]):
            y = ch.neighbour[source, c]
            if y < 0 or dead[ch.link[source, c]]:
                continue
            second = _step(int64(y), int64(ch.enter[source, c]), budget, hops - 1, free, ch, dead, table, int64(0))
            if second >= 0:
                columns[0], x, here, begin = c, y, ch.enter[source, c], second
                break
        if begin < 0:
            return False
    for d in range(1 if hops >= _LOOKAHEAD else 0, hops):
        c = _step(int64(x), int64(here), left, hops - d, free, ch, dead, table, int64(begin))
        if c < 0:
            return False
        columns[d] = c
        left -= not free and ch.leave[x, c] < here
        x, here, begin = ch.neighbour[x, c], ch.enter[x, c], 0
    return True


@allocating
def disjoint_from(source, targets, k, budget, max_hops, ch, have, length, kept):
    """Up to K paths from a source to every target, no two of the same pair with a link in common.

    `budget`: down-ups of a path at most; as many as it likes if that is more than its links. `have`, `length`, `kept`:
    as `enumeration.paths_from` has them."""
    n = ch.neighbour.shape[0]
    free = budget >= max_hops
    spare = 0 if free else budget
    table = np.full((max_hops, n, spare + 1), -1, np.int32)
    reached, sizes = np.empty((max_hops, n), np.int32), np.zeros(max_hops, np.int64)
    links = 0
    for x in range(n):
        links = max(links, _largest(ch.link[x]) + 1)
    dead = np.zeros(links, np.bool_)
    columns = np.empty(max_hops, np.uint8)
    for y in range(n):
        if not targets[y]:
            continue
        for i in range(sizes[0]):
            table[0, reached[0, i]] = -1
        table[0, y], reached[0, 0], sizes[0] = ANYWHERE, y, 1
        room = min(k, (ch.neighbour[source] >= 0).sum(), (ch.neighbour[y] >= 0).sum())
        hops, examined = 1, 0
        while have[y] < room and hops <= max_hops:
            while examined < hops - _LOOKAHEAD:
                examined += 1
                _extend(examined, spare, free, ch, dead, table, reached, sizes)
            if not _path(source, hops, spare, free, ch, dead, table, columns):
                hops += 1
                continue
            assign(kept[y, have[y]], columns[:hops])
            length[y, have[y]] = hops
            have[y] += 1
            _mark(source, columns, int64(hops), ch, dead, int64(1))
            # What is left has no shorter paths than before, but the table is no longer true.
            examined = 0
        for i in range(have[y]):
            _mark(source, kept[y, i], int64(length[y, i]), ch, dead, int64(0))


@allocating
def _mark(source, columns, hops, ch, dead, taken):
    x = source
    for d in range(hops):
        dead[ch.link[x, columns[d]]] = taken
        x = ch.neighbour[x, columns[d]]
