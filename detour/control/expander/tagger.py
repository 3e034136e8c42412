# SPDX-License-Identifier: Apache-2.0
"""Number of lossless priorities that given routes need: Tagger's greedy assignment (Hu et al., CoNEXT 2017, Algs. 1,
2).

Algorithm 1 gives hop h of every path tag h, which is free of cycles and needs as many tags as the longest path has
hops. Algorithm 2 merges them: hop by hop, a (channel, hop) goes to the present tag unless that closes a cycle among the
channels of this tag, and to the next tag otherwise.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from detour.base.arrays import Bools3, Bools4, Int64s1, Int64s3, UInt8s1, UInt8s2
from detour.base.jit import allocating, int64
from detour.control.expander.enumeration import native
from detour.control.expander.lanes import Order, add, drop, empty_order
from detour.control.expander.routes import ExpanderRoutes
from detour.control.native import EXPANDER
from detour.topo.expander.network import Channels


class Tags(NamedTuple):
    """`priorities` after merging; `unmerged`: hops of the longest path, what Algorithm 1 needs."""

    priorities: int
    unmerged: int


class _Hops(NamedTuple):
    """Channels by the hop that takes them, and what these need: c and d are columns of the switch x and of the next."""

    used: Bools3  # (hops, x, c)
    depends: Bools4  # (hops - 1, x, c, d): hop h of some path takes channel (x, c), hop h + 1 column d behind it
    tag: Int64s3  # (hops, x, c) from 1; 0: none yet


@EXPANDER.entry
def _mark_hops(source: Int64s1, length: UInt8s1, columns: UInt8s2, ch: Channels, hops: _Hops) -> None:
    """Fill in `used` and `depends`."""
    for row in range(source.size):
        x, before_x, before_c = source[row], -1, -1
        for h in range(length[row]):
            c = columns[row, h]
            hops.used[h, x, c] = True
            if h:
                hops.depends[h - 1, before_x, before_c, c] = True
            before_x, before_c = x, c
            x = ch.neighbour[x, c]


@allocating
def _fits(hop, x, c, now, ch, hops, order, before):
    """Put (channel, hop) into tag `now` if no cycle comes of it; return whether. `before` (width,): room."""
    width, count = ch.neighbour.shape[1], 0
    # What comes before this channel: channels into x of the hop before, of the same tag.
    for e in range(width if hop else 0):
        w, back = ch.neighbour[x, e], ch.back[x, e]
        if w >= 0 and hops.depends[hop - 1, w, back, c] and hops.tag[hop - 1, w, back] == now:
            if not add(int64(w * width + back), int64(c), ch, order):
                for k in range(count):
                    drop(int64(before[k]), int64(c), order)
                return False
            before[count] = w * width + back
            count += 1
    return True


@EXPANDER.entry
def _merge(ch: Channels, hops: _Hops, order: Order, before: Int64s1) -> int:
    """Algorithm 2: gives every (channel, hop) in use a tag. Returns the number of tags."""
    count, n, width = hops.used.shape
    now = 1
    for hop in range(count):
        moved = False
        for x in range(n):
            for c in range(width):
                if not hops.used[hop, x, c]:
                    continue
                fits = _fits(hop, x, c, now, ch, hops, order, before)
                hops.tag[hop, x, c] = now if fits else now + 1
                moved |= not fits
        if moved:
            now += 1
            order.count[:] = 0
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
    _mark_hops(routes.sources, routes.length, routes.columns, ch, hops)
    return Tags(int(_merge(ch, hops, empty_order(ch), np.empty(width, np.int64))), longest)
