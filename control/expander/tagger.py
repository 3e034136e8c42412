# SPDX-License-Identifier: Apache-2.0
"""How many lossless priorities given routes need: Tagger's greedy assignment (Hu et al., CoNEXT 2017, Algs. 1 and 2).

Algorithm 1 gives hop h of every path tag h, which is free of cycles and needs as many tags as the longest path has
hops. Algorithm 2 merges them: hop by hop, a (channel, hop) goes to the present tag unless that closes a cycle among the
channels of this tag, and to the next tag otherwise.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from detour.base.jit import njit
from detour.control.expander.enumeration import native
from detour.control.expander.routes import ExpanderRoutes


class Tags(NamedTuple):
    """`priorities` after merging; `unmerged`: hops of the longest path, what Algorithm 1 needs."""

    priorities: int
    unmerged: int


@njit
def _mark_hops(source, first, length, columns, ch, depends, used):
    """depends[h, x, c, d]: hop h of some path takes channel (x, c), hop h + 1 column d behind it."""
    for i in range(source.size):
        for row in range(first[i], first[i + 1]):
            x, before_x, before_c = source[i], -1, -1
            for h in range(length[row]):
                c = columns[row, h]
                used[h, x, c] = True
                if h:
                    depends[h - 1, before_x, before_c, c] = True
                before_x, before_c = x, c
                x = ch.neighbour[x, c]


@njit
def _reaches(begin, targets, edges, ch, seen, mark, stack):
    """Whether a channel leads to one of the targets over the edges of a tag."""
    width = ch.neighbour.shape[1]
    if targets[begin]:
        return True
    stack[0], top = begin, 1
    seen[begin] = mark
    while top:
        top -= 1
        x, c = stack[top] // width, stack[top] % width
        y = ch.neighbour[x, c]
        for d in range(width):
            if edges[x, c, d]:
                to = y * width + d
                if targets[to]:
                    return True
                if seen[to] != mark:
                    seen[to] = mark
                    stack[top] = to
                    top += 1
    return False


@njit
def _place(hop, x, c, depends, tag, now, edges, ch, seen, mark, stack, targets, before):
    """Puts (channel, hop) into tag `now` if no cycle comes of it; returns whether."""
    width = ch.neighbour.shape[1]
    count = 0
    if hop:
        # What comes before this channel: channels into x of the hop before, of the same tag.
        for e in range(width):
            w = ch.neighbour[x, e]
            if w >= 0:
                back = ch.back[x, e]
                if depends[hop - 1, w, back, c] and tag[hop - 1, w, back] == now:
                    before[count] = w * width + back
                    count += 1
    for i in range(count):
        targets[before[i]] = True
    fits = count == 0 or not _reaches(x * width + c, targets, edges, ch, seen, mark, stack)
    for i in range(count):
        targets[before[i]] = False
        if fits:
            edges[before[i] // width, before[i] % width, c] = True
    return fits


@njit
def _merge(depends, used, ch, tag):
    """Algorithm 2; tag[h, x, c] becomes the tag of every (channel, hop) in use, from 1. Returns the number of tags."""
    hops, n, width = used.shape
    now = 1
    edges = np.zeros((n, width, width), np.bool_)
    seen, stack = np.zeros(n * width, np.int64), np.empty(n * width, np.int64)
    targets, before = np.zeros(n * width, np.bool_), np.empty(width, np.int64)
    mark = 0
    for hop in range(hops):
        moved = False
        for x in range(n):
            for c in range(width):
                if not used[hop, x, c]:
                    continue
                mark += 1
                if _place(hop, x, c, depends, tag, now, edges, ch, seen, mark, stack, targets, before):
                    tag[hop, x, c] = now
                else:
                    tag[hop, x, c] = now + 1
                    moved = True
        if moved:
            now += 1
            edges[:] = False
    return now


def assign(routes: ExpanderRoutes) -> Tags:
    """The number of priorities that Tagger needs for these routes, whatever their own priorities are."""
    ch = native(routes.network.channels)
    n, width = ch.neighbour.shape
    hops = int(routes.length.max(initial=1))
    depends = np.zeros((max(1, hops - 1), n, width, width), np.bool_)
    used = np.zeros((hops, n, width), np.bool_)
    source = np.ascontiguousarray(routes.pairs[:, 0].astype(np.int64))
    _mark_hops(source, routes.first, routes.length, routes.columns, ch, depends, used)
    return Tags(int(_merge(depends, used, ch, np.zeros((hops, n, width), np.int64))), hops)
