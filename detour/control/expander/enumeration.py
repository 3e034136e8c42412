# SPDX-License-Identifier: Apache-2.0
"""The shortest paths of one source, length by length, as native code (FC+, section III-B).

All simple paths of 1, 2, 3... links are walked depth first; a branch is cut where it goes down and up again more
often than there are priorities left, and where no destination that still lacks paths can be reached from. A destination
is done with the length at which it has K paths; of the paths of that length those are taken that share links least.

Of paths that share no link (FC's) always the shortest in what is left of the network is taken, of several the first in
the order of columns, until none is left. A table says for every switch, number of links and number of down-ups left how
high one may arrive at it and still get to the destination. A shortest walk is a path: without a loop it would be
shorter, and go down and up no more often. So a path is read off the table, and nothing is tried in vain."""

from __future__ import annotations

import numpy as np

from detour.base.arrays import Bools2, Int32s2, Int64s1, UInt8s1, UInt8s2
from detour.base.jit import allocating, int64
from detour.control.native import EXPANDER, assign
from detour.topo.expander.network import Channels

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
    """Fill in a level of the table from that before it: table[l, x, b] is the highest position at which one may arrive
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
    """Return whether there is a path of so many links; its columns."""
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


PLAIN, DIVERSE, DISJOINT = 0, 1, 2
"""which paths are taken of those of equal length: the first ones; those that share least; or of all of them such as
share no link (`disjoint`)"""

FREE = 1 << 30
"""as many down-ups as a path likes: KSP"""


@allocating
def highest(targets, ch, hops, most):
    """Return the highest position at which a path may enter a switch and still reach a target: (most + 1, hops,
    switches) by down-ups that are left and links that are left, exactly; -1: it cannot, `FREE`: at any position.
    Switches may come twice in that."""
    n, width = ch.neighbour.shape
    top = np.full((most + 1, hops, n), -1, np.int32)
    for budget in range(most + 1):
        for y in range(n):
            if targets[y]:
                top[budget, 0, y] = FREE
    for links in range(1, hops):
        for budget in range(most + 1):
            for y in range(n):
                best = -1
                for c in range(width):
                    z = ch.neighbour[y, c]
                    if z < 0:
                        continue
                    enter = ch.enter[y, c]
                    if budget > 0 and enter <= top[budget - 1, links - 1, z]:
                        best = FREE
                        break
                    if enter <= top[budget, links - 1, z] and ch.leave[y, c] > best:
                        best = ch.leave[y, c]
                top[budget, links, y] = best
    return top


@allocating
def _grown(array):
    bigger = np.empty((2 * array.shape[0], array.shape[1]), array.dtype)
    for i in range(len(array)):
        assign(bigger[i], array[i])
    return bigger


@allocating
def walk(source, hops, budget, targets, top, ch, on_path, ends, columns):
    """All simple paths of exactly `hops` links from a source to targets, with at most `budget` down-ups.

    `top`: what `highest` says. `on_path`: (switches,) all False; so again afterwards. `ends`: (capacity, 1)
    destinations are put there. `columns`: (capacity, at least hops) the columns that a path takes. Returns (number of
    paths, ends, columns); the arrays may have been replaced by larger ones."""
    width, most = ch.neighbour.shape[1], top.shape[0] - 1
    at = np.empty(hops + 1, np.int64)
    position = np.zeros(hops + 1, np.int64)
    down_ups = np.zeros(hops + 1, np.int64)
    turn = np.zeros(hops + 1, np.int64)
    paths, depth = 0, 0
    at[0] = source
    on_path[source] = True
    while depth >= 0:
        x, c = at[depth], turn[depth]
        last = depth + 1 == hops
        if last and paths + width > ends.shape[0]:
            ends, columns = _grown(ends), _grown(columns)
        here, spent = position[depth], down_ups[depth]
        while c < width:
            y = ch.neighbour[x, c]
            more = spent + (ch.leave[x, c] < here)
            c += 1
            if y < 0 or more > budget or on_path[y]:
                continue
            if last:
                if targets[y]:
                    ends[paths, 0] = y
                    for d in range(depth):
                        columns[paths, d] = turn[d] - 1
                    columns[paths, depth] = c - 1
                    paths += 1
            elif ch.enter[x, c - 1] <= top[min(budget - more, most), hops - depth - 1, y]:
                turn[depth] = c
                depth += 1
                at[depth], position[depth], down_ups[depth], turn[depth] = y, ch.enter[x, c - 1], more, 0
                on_path[y] = True
                break
        else:
            on_path[x] = False
            depth -= 1
    return paths, ends, columns


@allocating
def _use(source, path, hops, ch, use, count):
    """Count the channels of a path, or forget them (count False)."""
    width = ch.neighbour.shape[1]
    x = source
    for d in range(hops):
        c = path[d]
        i = x * width + c
        use[i] = use[i] + 1 if count else 0
        x = ch.neighbour[x, c]


@allocating
def _channels(source, candidates, columns, hops, ch, used):
    """The channels of every candidate, into `used` (candidates, hops)."""
    width = ch.neighbour.shape[1]
    for i in range(candidates.size):
        x = source
        for d in range(hops):
            c = columns[candidates[i], d]
            used[i, d] = x * width + c
            x = ch.neighbour[x, c]


@allocating
def choose(used, hops, room, ties, use, chosen):
    """Marks in `chosen` which candidates are taken, at most `room`. `use` counts the channels of paths taken before;
    what is taken now is added. In DIVERSE order a path is taken in round m if its channels are in use m times in all,
    at most, by then."""
    total = used.shape[0]
    limit = min(room, total)
    chosen[:total] = False
    if ties == PLAIN or limit == total:
        chosen[:limit] = True
        return
    taken, most = 0, 0
    while taken < limit:
        for i in range(total):
            if chosen[i]:
                continue
            shared = 0
            for d in range(hops):
                shared += use[used[i, d]]
            if shared <= most:
                chosen[i] = True
                taken += 1
                for d in range(hops):
                    use[used[i, d]] += 1
                if taken == limit:
                    break
        most += 1


@allocating
def _by_end(ends, count, n, start, order):
    """Sort paths by destination, stably: those to y are order[start[y]:start[y+1]]."""
    start[:] = 0
    for i in range(count):
        start[ends[i, 0] + 1] += 1
    for y in range(n):
        start[y + 1] += start[y]
    fill = start[:n].copy()
    for i in range(count):
        y = ends[i, 0]
        order[fill[y]] = i
        fill[y] += 1


@allocating
def paths_from(source, targets, k, budget, ties, max_hops, ch, have, length, kept):
    """The first K paths from a source to every target.

    `targets`: (switches,) destinations; all False afterwards but for those that lack paths. `have`: (switches,) all 0;
    becomes the number of paths. `length`: (switches, k) becomes their lengths. `kept`: (switches, k, max_hops) becomes
    their columns."""
    n, width = ch.neighbour.shape
    on_path = np.zeros(n, np.bool_)
    start = np.zeros(n + 1, np.int64)
    ends, columns = np.empty((4096, 1), np.int32), np.empty((4096, max_hops), np.uint8)
    use = np.zeros(n * width, np.int32)
    chosen, used = np.empty(1, np.bool_), np.empty((1, max_hops), np.int32)
    for hops in range(1, max_hops + 1):
        if not targets.any():
            break
        top = highest(targets, ch, hops, min(budget, hops))
        paths, ends, columns = walk(source, hops, budget, targets, top, ch, on_path, ends, columns)
        order = np.empty(paths, np.int64)
        _by_end(ends, paths, n, start, order)
        for y in range(n):
            candidates = order[start[y] : start[y + 1]]
            if candidates.size == 0:
                continue
            if chosen.size < candidates.size:
                chosen, used = (
                    np.empty(2 * candidates.size, np.bool_),
                    np.empty((2 * candidates.size, max_hops), np.int32),
                )
            before = have[y]
            for i in range(before):
                _use(source, kept[y, i], length[y, i], ch, use, int64(1))
            _channels(source, candidates, columns, hops, ch, used)
            choose(used[: candidates.size], hops, k - before, ties, use, chosen)
            for i in range(before):
                _use(source, kept[y, i], length[y, i], ch, use, int64(0))
            for i in range(candidates.size):
                if chosen[i]:
                    assign(kept[y, have[y]], columns[candidates[i], :hops])
                    length[y, have[y]] = hops
                    have[y] += 1
                for d in range(hops):
                    use[used[i, d]] = 0
            targets[y] = have[y] < k


@EXPANDER.entry
def paths_of_sources(
    sources: Int64s1, targets: Bools2, k: int, budget: int, ties: int, max_hops: int, ch: Channels, count: Int32s2,
    lengths: UInt8s1, columns: UInt8s2,
) -> int:  # fmt: skip
    """`paths_from` for several sources; the paths of source i to y begin behind those to smaller y.

    `targets`: (sources, switches); `count`: (sources, switches) becomes the number of paths; `lengths`: (rows,) and
    columns: (rows, max_hops) become the paths, one after the other. Returns rows written."""
    n = ch.neighbour.shape[0]
    length = np.empty((n, k), np.uint8)
    kept = np.empty((n, k, max_hops), np.uint8)
    row = 0
    for i in range(sources.size):
        want = targets[i].copy()
        if ties == DISJOINT:
            disjoint_from(sources[i], want, k, budget, max_hops, ch, count[i], length, kept)
        else:
            paths_from(sources[i], want, k, budget, ties, max_hops, ch, count[i], length, kept)
        for y in range(n):
            for j in range(count[i, y]):
                lengths[row] = length[y, j]
                assign(columns[row], kept[y, j])
                row += 1
    return row


def native(ch: Channels) -> Channels:
    """The same tables with contiguous rows, as the search wants them."""
    return Channels(*(np.ascontiguousarray(part, dtype=np.int32) for part in ch))
