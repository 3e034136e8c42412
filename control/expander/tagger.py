# SPDX-License-Identifier: Apache-2.0
"""How many lossless priorities given routes need: Tagger's greedy assignment (Hu et al., CoNEXT 2017, Algs. 1 and 2).

Algorithm 1 gives hop h of every path tag h, which is free of cycles and needs as many tags as the longest path has
hops. Algorithm 2 merges them: hop by hop, a (channel, hop) goes to the present tag unless that closes a cycle among the
channels of this tag, and to the next tag otherwise.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from detour.base.arrays import Bools1, Bools3, Bools4, Int64s1, Int64s3, UInt8s1, UInt8s2
from detour.base.jit import allocating
from detour.control.expander.enumeration import native
from detour.control.expander.routes import ExpanderRoutes
from detour.control.native import EXPANDER
from detour.topo.expander.network import Channels


class Tags(NamedTuple):
    """`priorities` after merging; `unmerged`: hops of the longest path, what Algorithm 1 needs."""

    priorities: int
    unmerged: int


class _Hops(NamedTuple):
    """Channels by the hop that takes them, and what these need: c and d are columns of the switch x and of the next."""

    used: Bools3
    """(hops, x, c)"""
    depends: Bools4
    """(hops - 1, x, c, d): hop h of some path takes channel (x, c), hop h + 1 column d behind it"""
    tag: Int64s3
    """(hops, x, c) from 1; 0: none yet"""


class _Search(NamedTuple):
    """What a tag's channels depend on, and room for a search among them. Channels are numbered x * width + c."""

    edges: Bools3
    """(x, c, d)"""
    seen: Int64s1
    """(channels,) mark of the last search that came here"""
    stack: Int64s1
    targets: Bools1
    """(channels,) what is looked for"""
    before: Int64s1
    """(width,) channels into a switch"""


@EXPANDER.entry
def _mark_hops(source: Int64s1, first: Int64s1, length: UInt8s1, columns: UInt8s2, ch: Channels, hops: _Hops) -> None:
    """Fills in `used` and `depends`."""
    for i in range(source.size):
        for row in range(first[i], first[i + 1]):
            x, before_x, before_c = source[i], -1, -1
            for h in range(length[row]):
                c = columns[row, h]
                hops.used[h, x, c] = True
                if h:
                    hops.depends[h - 1, before_x, before_c, c] = True
                before_x, before_c = x, c
                x = ch.neighbour[x, c]


@allocating
def _reaches(begin, ch, search, mark):
    """Whether a channel leads to one of the targets over the edges of a tag."""
    width = ch.neighbour.shape[1]
    targets, seen, stack = search.targets, search.seen, search.stack
    if targets[begin]:
        return True
    stack[0], top = begin, 1
    seen[begin] = mark
    while top:
        top -= 1
        x, c = stack[top] // width, stack[top] % width
        y = ch.neighbour[x, c]
        for d in range(width):
            if search.edges[x, c, d]:
                to = y * width + d
                if targets[to]:
                    return True
                if seen[to] != mark:
                    seen[to] = mark
                    stack[top] = to
                    top += 1
    return False


@allocating
def _place(hop, x, c, now, ch, hops, search, mark):
    """Puts (channel, hop) into tag `now` if no cycle comes of it; returns whether."""
    width = ch.neighbour.shape[1]
    before, targets = search.before, search.targets
    count = 0
    if hop:
        # What comes before this channel: channels into x of the hop before, of the same tag.
        for e in range(width):
            w = ch.neighbour[x, e]
            if w >= 0:
                back = ch.back[x, e]
                if hops.depends[hop - 1, w, back, c] and hops.tag[hop - 1, w, back] == now:
                    before[count] = w * width + back
                    count += 1
    for i in range(count):
        targets[before[i]] = True
    fits = count == 0 or not _reaches(x * width + c, ch, search, mark)
    for i in range(count):
        targets[before[i]] = False
        if fits:
            search.edges[before[i] // width, before[i] % width, c] = True
    return fits


@EXPANDER.entry
def _merge(ch: Channels, hops: _Hops, search: _Search) -> int:
    """Algorithm 2: gives every (channel, hop) in use a tag. Returns the number of tags."""
    count, n, width = hops.used.shape
    now = 1
    mark = 0
    for hop in range(count):
        moved = False
        for x in range(n):
            for c in range(width):
                if not hops.used[hop, x, c]:
                    continue
                mark += 1
                if _place(hop, x, c, now, ch, hops, search, mark):
                    hops.tag[hop, x, c] = now
                else:
                    hops.tag[hop, x, c] = now + 1
                    moved = True
        if moved:
            now += 1
            search.edges[:] = False
    return now


def assign(routes: ExpanderRoutes) -> Tags:
    """The number of priorities that Tagger needs for these routes, whatever their own priorities are."""
    ch = native(routes.network.channels)
    n, width = ch.neighbour.shape
    longest = int(routes.length.max(initial=1))
    hops = _Hops(
        np.zeros((longest, n, width), np.bool_),
        np.zeros((max(1, longest - 1), n, width, width), np.bool_),
        np.zeros((longest, n, width), np.int64),
    )
    search = _Search(
        np.zeros((n, width, width), np.bool_),
        np.zeros(n * width, np.int64),
        np.empty(n * width, np.int64),
        np.zeros(n * width, np.bool_),
        np.empty(width, np.int64),
    )
    source = np.ascontiguousarray(routes.pairs[:, 0].astype(np.int64))
    _mark_hops(source, routes.first, routes.length, routes.columns, ch, hops)
    return Tags(int(_merge(ch, hops, search)), longest)
