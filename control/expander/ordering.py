# SPDX-License-Identifier: Apache-2.0
"""Dependencies among channels that are kept free of cycles while they come and go (Pearce and Kelly, "A Dynamic
Topological Sort Algorithm for Directed Acyclic Graphs", ACM JEA 11, 2006).

A channel is x * width + c, column c of switch x; it depends on columns of the switch behind it only. Every dependency
is counted, so that many paths may have it. `place` holds the channels' order: what depends comes first. A dependency
that obeys it costs nothing; for another one the channels between its ends are searched, and moved if there is no cycle.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from detour.base.arrays import Bools1, Int32s1, Int32s2
from detour.base.jit import allocating, int64
from detour.topo.expander.network import Channels


class Order(NamedTuple):
    """Dependencies of one class of packets, and room to search among them."""

    count: Int32s2  # (channels, width) how many paths have channel i depend on column d behind it
    place: Int32s1  # (channels,) position of each in the order
    seen: Bools1  # (channels,) all False between calls
    ahead: Int32s1
    behind: Int32s1  # (channels,) stacks


def empty_order(ch: Channels) -> Order:
    """No dependencies yet."""
    n, width = ch.neighbour.shape
    total = n * width
    return Order(
        np.zeros((total, width), np.int32), np.arange(total, dtype=np.int32), np.zeros(total, np.bool_),
        np.empty(total, np.int32), np.empty(total, np.int32),
    )  # fmt: skip


@allocating
def _forward(begin, limit, ch, order):
    """Channels that `begin` leads to up to place `limit`, into `ahead`; their number, or -1 if one is at `limit`."""
    width = ch.neighbour.shape[1]
    order.ahead[0], reached, done = begin, 1, 0
    order.seen[begin] = True
    while done < reached:
        i = order.ahead[done]
        done += 1
        y = ch.neighbour[i // width, i % width]
        for d in range(width):
            if order.count[i, d] == 0:
                continue
            to = y * width + d
            if order.place[to] == limit:
                return -reached
            if order.place[to] < limit and not order.seen[to]:
                order.seen[to] = True
                order.ahead[reached] = to
                reached += 1
    return reached


@allocating
def _backward(begin, limit, ch, order):
    """Channels that lead to `begin` from places beyond `limit`, into `behind`; their number."""
    width = ch.neighbour.shape[1]
    order.behind[0], reached, done = begin, 1, 0
    order.seen[begin] = True
    while done < reached:
        i = order.behind[done]
        done += 1
        x, c = i // width, i % width
        for e in range(width):
            y = ch.neighbour[x, e]
            if y < 0:
                continue
            before = y * width + ch.back[x, e]
            if order.count[before, c] and order.place[before] > limit and not order.seen[before]:
                order.seen[before] = True
                order.behind[reached] = before
                reached += 1
    return reached


@allocating
def _sort(channels, count, order):
    """The first so many by their place (Shell 1959); `np.argsort` takes a second to compile."""
    gap = 1
    while gap < count // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, count):
            channel, at = channels[i], i
            while at >= gap and order.place[channels[at - gap]] > order.place[channel]:
                channels[at] = channels[at - gap]
                at -= gap
            channels[at] = channel
        gap //= 3


@allocating
def _reorder(ahead, behind, order):
    """Puts what leads to the new dependency before what it leads to, in the places that all of them had."""
    _sort(order.behind, behind, order)
    _sort(order.ahead, ahead, order)
    places = np.empty(behind + ahead, np.int32)
    i, j = 0, 0
    for k in range(behind + ahead):
        if j == ahead or (i < behind and order.place[order.behind[i]] < order.place[order.ahead[j]]):
            places[k] = order.place[order.behind[i]]
            i += 1
        else:
            places[k] = order.place[order.ahead[j]]
            j += 1
    for k in range(behind + ahead):
        channel = order.behind[k] if k < behind else order.ahead[k - behind]
        order.place[channel] = places[k]
        order.seen[channel] = False


@allocating
def add(i, d, ch, order):
    """Lets channel i depend on column d behind it once more; False, and nothing has changed, if that closes a cycle."""
    width = ch.neighbour.shape[1]
    if order.count[i, d]:
        order.count[i, d] += 1
        return True
    to = ch.neighbour[i // width, i % width] * width + d
    if order.place[i] > order.place[to]:
        ahead = _forward(to, order.place[i], ch, order)
        if ahead < 0:
            for j in range(-ahead):
                order.seen[order.ahead[j]] = False
            return False
        behind = _backward(i, order.place[to], ch, order)
        _reorder(ahead, behind, order)
    order.count[i, d] = 1
    return True


@allocating
def drop(i, d, order):
    """Takes a dependency back that was added once."""
    order.count[i, d] -= 1


@allocating
def add_path(source, columns, length, ch, order):
    """Adds the dependencies of a path, all or, if they close a cycle, none; returns whether."""
    width = ch.neighbour.shape[1]
    x, before = source, -1
    for h in range(length):
        c = columns[h]
        if before >= 0 and not add(int64(before), int64(c), ch, order):
            y, last = source, -1
            for g in range(h):
                if last >= 0:
                    drop(int64(last), int64(columns[g]), order)
                last = y * width + columns[g]
                y = ch.neighbour[y, columns[g]]
            return False
        before = x * width + c
        x = ch.neighbour[x, c]
    return True
