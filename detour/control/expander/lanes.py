# SPDX-License-Identifier: Apache-2.0
"""Routes whose packets stay in one lossless priority (a virtual lane) from end to end, and lanes for given paths.

`lash`: every path goes to the first lane in which it closes no cycle (Skeie, Lysne and Theiss, "Layered Shortest Path
(LASH) Routing in Irregular System Area Networks", IPDPS 2002, section 3). `break_cycles`: all paths are in the first
lane; as long as a lane has a cycle, the paths of its weakest dependency go to the next one (Domke, Hoefler and Nagel,
"Deadlock-Free Oblivious Routing for Arbitrary Topologies", IPDPS 2011, Algorithm 2). Neither spreads paths over lanes
that would be free of cycles anyway: counted is what is needed.

Dependencies among channels are kept free of cycles while they come and go (Pearce and Kelly, "A Dynamic Topological
Sort Algorithm for Directed Acyclic Graphs", ACM JEA 11, 2006). A channel is x * width + c, column c of switch x; it
depends on columns of the switch behind it only. Every dependency is counted, so that many paths may have it. `place`
holds the channels' order: what depends comes first. A dependency that obeys it costs nothing; for another one the
channels between its ends are searched, and moved if there is no cycle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from detour.base.arrays import Bools1, Int32s1, Int32s2, Int64s1, UInt8Array, UInt8s1, UInt8s2
from detour.base.errors import DetourError
from detour.base.jit import allocating, int64
from detour.control.expander.enumeration import native
from detour.control.expander.routes import ExpanderRoutes, channels_of
from detour.control.native import EXPANDER
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
    """Put what leads to the new dependency before what it leads to, in the places that all of them had."""
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
    """Let channel i depend on column d behind it once more; False, and nothing has changed, if that closes a cycle."""
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
    """Take a dependency back that was added once."""
    order.count[i, d] -= 1


@allocating
def add_path(source, columns, length, ch, order):
    """Add the dependencies of a path, all or, if they close a cycle, none; return whether."""
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


MAX_LANES = 64
"""more than any switch has; a comparison may well ask for more than 8"""

Lanes = UInt8Array
"""(paths,) the lane of every path, from 0"""


@dataclass(frozen=True, eq=False)
class LaneRoutes:
    """Paths and their lanes. The priorities of `routes` mean nothing here."""

    routes: ExpanderRoutes
    lane: Lanes

    @property
    def lanes(self) -> int:
        """Their number."""
        return int(self.lane.max(initial=0)) + 1


def _too_many(routes: ExpanderRoutes) -> DetourError:
    return DetourError(f"{routes.network.spec}: {routes.total} paths need more than {MAX_LANES} lanes")


def lash(routes: ExpanderRoutes) -> LaneRoutes:
    """Lanes for paths by LASH, in the order of the pairs. Raises `DetourError`: more than `MAX_LANES` lanes are
    needed."""
    ch = native(routes.network.channels)
    source, left = routes.sources, np.arange(routes.total)
    lane = np.zeros(routes.total, np.uint8)
    for number in range(MAX_LANES):
        fits = np.zeros(left.size, np.bool_)
        _fill(left, source, routes.columns, routes.length, ch, empty_order(ch), fits)
        lane[left[fits]] = number
        left = left[~fits]
        if not left.size:
            return LaneRoutes(routes, lane)
    raise _too_many(routes)


@EXPANDER.entry
def _fill(
    rows: Int64s1, source: Int64s1, columns: UInt8s2, length: UInt8s1, ch: Channels, order: Order, fits: Bools1
) -> None:
    """Return whether each path fits into a lane with those before it. Lanes do not depend on later ones, so one after
    the other gives what trying all lanes path by path does."""
    for k in range(rows.size):
        row = rows[k]
        fits[k] = add_path(source[row], columns[row], length[row], ch, order)


def break_cycles(routes: ExpanderRoutes) -> LaneRoutes:
    """Lanes for paths by DFSSSP's second step. Raises `DetourError`: more than `MAX_LANES` lanes are needed."""
    ch = native(routes.network.channels)
    n, width = ch.neighbour.shape
    # Dependencies, numbered (x * width + c) * width + d: path r has needs[begin[r]:begin[r+1]].
    first, channels = channels_of(routes)
    last = first[1:] - 1
    needs = np.delete(channels.astype(np.int64) * width + np.append(channels[1:] % width, 0), last)
    begin = first - np.arange(first.size)
    start = np.concatenate([[0], np.cumsum(np.bincount(needs, minlength=n * width * width))])
    users = np.repeat(np.arange(routes.total), np.diff(begin))[np.argsort(needs, kind="stable")]
    lane = np.zeros(routes.total, np.uint8)
    for number in range(MAX_LANES):
        if not _break(number, lane, begin, needs, start, users, ch):
            return LaneRoutes(routes, lane)
    raise _too_many(routes)


@allocating
def _move_on(weakest, number, lane, begin, needs, start, users, count):
    """All paths of a lane that have a dependency go to the next lane."""
    for k in range(start[weakest], start[weakest + 1]):
        row = users[k]
        if lane[row] == number:
            lane[row] = number + 1
            for j in range(begin[row], begin[row + 1]):
                count[needs[j]] -= 1


@EXPANDER.entry
def _break(
    number: int, lane: UInt8s1, begin: Int64s1, needs: Int64s1, start: Int64s1, users: Int64s1, ch: Channels
) -> bool:
    """Free a lane of cycles by a depth-first search that goes on after each; whether any path had to leave it. What
    has been left behind stays free of cycles, as dependencies only vanish. Where one on the present way vanishes, the
    search goes back there."""
    n, width = ch.neighbour.shape
    count = np.zeros(n * width * width, np.int32)
    for row in range(lane.size):
        if lane[row] == number:
            for j in range(begin[row], begin[row + 1]):
                count[needs[j]] += 1
    state = np.zeros(n * width, np.int8)  # 0 new, 1 on the way, 2 done
    way, turn = np.empty(n * width, np.int64), np.zeros(n * width, np.int64)
    moved = False
    for root in range(n * width):
        if state[root]:
            continue
        way[0], turn[0], depth, state[root] = root, 0, 0, 1
        while depth >= 0:
            i, d = way[depth], turn[depth]
            if d == width:
                state[i] = 2
                depth -= 1
                continue
            turn[depth] += 1
            if count[i * width + d] == 0:
                continue
            to = ch.neighbour[i // width, i % width] * width + d
            if state[to] == 0:
                depth += 1
                way[depth], turn[depth], state[to] = to, 0, 1
            elif state[to] == 1:
                moved = True
                weakest = i * width + d
                for k in range(depth - 1, -1, -1):
                    if way[k + 1] == to:
                        break
                    need = way[k] * width + turn[k] - 1
                    if count[need] < count[weakest]:
                        weakest = need
                _move_on(weakest, number, lane, begin, needs, start, users, count)
                keep = 0
                while keep < depth and count[way[keep] * width + turn[keep] - 1]:
                    keep += 1
                for k in range(keep + 1, depth + 1):
                    state[way[k]] = 0
                depth = keep
    return moved
