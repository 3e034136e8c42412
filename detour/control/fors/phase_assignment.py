# SPDX-License-Identifier: Apache-2.0
"""Phases for flows whose leaves and spines are known.

A flow belongs to four sets: the flows out of its leaf and those out of it over its spine, and the same at the other
end (a flow inside a leaf has no spine and belongs to two). A phase may hold one flow of a set of the second kind and
n_u of the first kind, n_u being the leaf's servers. Sets of one end contain each other or are disjoint (two laminar
families), so T phases are enough whenever no set has more than T times that many flows (de Werra's balanced colourings;
the constraints are totally unimodular). Koenig's theorem is the case without the sets of the first kind.

How: flows are paired inside the smallest sets, left-over ones inside the larger ones, at both ends. The pairs of both
ends together make paths and even cycles; going along them and dealing flows left and right in turn divides every set
as evenly as can be. That halves an even number of phases. With an odd number some flows find no place at first; they
are brought in later, one by one, by dividing anew two or four phases that together have room. Of three phases, which
may be too few for that, one is taken out by a linear programme and two are left.
"""

from __future__ import annotations

import numpy as np

from detour.base.arrays import Int32s1, Int32s2
from detour.base.errors import DetourError
from detour.base.jit import allocating, int64
from detour.control.linear import programme, solver
from detour.control.native import FORS_PART, assign

_ROUNDS = 50


def phases_of(
    phases: int, source: np.ndarray, target: np.ndarray, spine: np.ndarray, population: np.ndarray, spines: int
) -> np.ndarray:
    """(flows,) int32: a phase for each flow from leaf `source` to leaf `target` over `spine` (-1: inside a leaf).
    `population`: (leaves,) flows that a phase may have out of a leaf, and into it. `spine`: (flows,), or (2, flows) for
    a flow that has one number at its source and another at its target (a cable's, say), all below `spines`. Raises
    `DetourError`: the flows do not fit (a set is too large)."""
    ports = np.broadcast_to(spine, (2, len(source)))
    inside = ports[0] < 0
    ends = zip((source, target), ports, strict=True)
    links = np.stack([np.where(inside, -1, leaf * spines + port) for leaf, port in ends]).astype(np.int32)
    leaves = np.stack([source, target]).astype(np.int32)
    room = np.ascontiguousarray(population, np.int32)
    for end in range(2):
        over = np.bincount(links[end][~inside], minlength=1).max(initial=0) > phases
        if over or (np.bincount(leaves[end], minlength=len(room)) > phases * room).any():
            raise DetourError(f"these flows do not fit into {phases} phases")
    phase = np.full(len(source), -1, np.int32)
    if not len(source):  # and perhaps no phases, which cannot be divided
        return phase
    if phases == 3:
        first = _one_of_three(links, leaves, room, spines)
        phase[first] = 2
        rest, two = np.flatnonzero(~first), np.full(np.count_nonzero(~first), -1, np.int32)
        ends = np.ascontiguousarray(links[:, rest]), np.ascontiguousarray(leaves[:, rest])
        _divide(2, *ends, room, spines, two)
        phase[rest] = two
        return phase
    _divide(phases, links, leaves, room, spines, phase)
    if not _bring_in(phases, links, leaves, room, spines, phase):
        raise DetourError(f"{np.count_nonzero(phase < 0)} flows found no place in {phases} phases")
    return phase


def _one_of_three(links: np.ndarray, leaves: np.ndarray, room: np.ndarray, spines: int) -> np.ndarray:
    """(flows,) bool: flows for one phase, such that the others fit into two. Of a set with k flows and room for n in a
    phase at least k - 2n and at most n: constraints that are totally unimodular, and a third of every flow satisfies
    them."""
    sets, flows = len(room) * spines, links.shape[1]
    outer = 2 * len(room)
    entries = np.stack([leaves[0], leaves[1] + len(room), links[0] + outer, links[1] + outer + sets], axis=1)
    entries = entries.astype(np.int64)
    there = np.stack([np.ones(flows, bool)] * 2 + [links[0] >= 0] * 2, axis=1)
    size = np.bincount(entries[there], minlength=2 * (len(room) + sets)).astype(float)
    most = np.concatenate([room, room, np.ones(2 * sets)])
    starts = np.concatenate([[0], np.cumsum(there.sum(axis=1))])
    matrix = (starts, entries[there], np.ones(int(there.sum())))
    rows = (np.maximum(size - 2 * most, 0), most)
    problem, model = programme(np.zeros(flows), rows, matrix, integers=flows), solver()
    problem.col_upper_ = np.ones(flows)
    model.passModel(problem)
    model.run()
    return np.rint(np.array(model.getSolution().col_value)).astype(bool)


@allocating
def _pair(members, link, leaf, open_link, open_leaf, mate):
    """Pairs members inside links, then those left over inside leaves; `mate` gets positions, -1 for who stays alone.
    Those left over are paired with each other before flows that stay inside: so a leaf's flows over spines are evenly
    spread as well."""
    for k in range(len(members)):
        mate[k] = -1
        at = link[members[k]]
        if at >= 0:
            if open_link[at] >= 0:
                mate[k] = open_link[at]
                mate[open_link[at]] = k
                open_link[at] = -1
            else:
                open_link[at] = k
    for inside in range(2):
        for k in range(len(members)):
            at = link[members[k]]
            if mate[k] >= 0 or (at < 0) != (inside == 1):
                continue
            if at >= 0:
                open_link[at] = -1
            at = leaf[members[k]]
            if open_leaf[at] >= 0:
                mate[k] = open_leaf[at]
                mate[open_leaf[at]] = k
                open_leaf[at] = -1
            else:
                open_leaf[at] = k
    for k in range(len(members)):
        open_leaf[leaf[members[k]]] = -1


@allocating
def _deal(count, mates, side):
    """Sides 0 and 1 in turn along the paths and cycles of mates."""
    side[:count] = -1
    first = 0
    for start in range(count):
        if side[start] >= 0:
            continue
        side[start] = first
        length = 1
        for end in range(2):
            at, by = start, end
            while True:
                to = mates[by, at]
                if to < 0 or side[to] >= 0:
                    break
                side[to] = 1 - side[at]
                at, by = to, 1 - by
                length += 1
        if length % 2:
            first = 1 - first


@allocating
def _halve(members, links, leaves, open_link, open_leaf, mates, side):
    """Divide members (a slice of flows, rearranged in place); return how many are in the first half."""
    count = len(members)
    for end in range(2):
        _pair(members, links[end], leaves[end], open_link, open_leaf, mates[end])
    _deal(count, mates, side)
    second = np.empty(count, members.dtype)
    left, right = 0, 0
    for k in range(count):
        if side[k] == 0:
            members[left] = members[k]
            left += 1
        else:
            second[right] = members[k]
            right += 1
    assign(members[left:], second[:right])
    return left


@FORS_PART.entry
def _divide(phases: int, links: Int32s2, leaves: Int32s2, room: Int32s1, spines: int, phase: Int32s1) -> None:
    """Give phases to all flows but some that a division into parts of different size leaves out (they keep -1)."""
    flows = links.shape[1]
    members = np.arange(flows).astype(np.int32)
    open_link = np.full(len(room) * spines, -1, np.int32)
    open_leaf = np.full(len(room), -1, np.int32)
    mates = np.empty((2, flows), np.int32)
    side = np.empty(flows, np.int8)
    todo = [(0, flows, 0, phases)]
    while len(todo) > 0:
        begin, end, first, count = todo.pop()
        if count == 1:
            for k in range(begin, end):
                phase[members[k]] = first
            continue
        part = 1
        while 2 * part < count:
            part *= 2
        # In proportion to part : count - part, by halving as often as the fraction has binary digits.
        low, high, rest = begin, end, part
        while rest > 0 and low < high:
            middle = low + _halve(members[low:high], links, leaves, open_link, open_leaf, mates, side)
            rest *= 2
            if rest >= count:
                rest -= count
                low = middle
            else:
                high = middle
        middle = low
        if 2 * part != count:
            middle, end = _relieve(members, begin, middle, end, part, count - part, links, leaves, room, spines, side)
        todo.append((begin, middle, first, part))
        todo.append((middle, end, first + part, count - part))


@allocating
def _relieve(members, begin, middle, end, one, other, links, leaves, room, spines, side):
    """Two parts of `one` and `other` phases: moves flows of sets with too many to the other part, or out of both.

    Returns where the parts end; who is out comes behind. Flows that are too many at both ends go first, they help most.
    """
    per_link = np.zeros((2, 2, len(room) * spines), np.int32)  # part, end
    per_leaf = np.zeros((2, 2, len(room)), np.int32)
    phases = (one, other)
    count = end - begin
    for k in range(count):
        side[k] = begin + k >= middle
        _count(int64(members[begin + k]), int64(side[k]), int64(1), links, leaves, per_link, per_leaf)
    for least in range(2, -1, -1):
        for k in range(count):
            if side[k] > 1:
                continue
            flow, part = int64(members[begin + k]), int64(side[k])
            over = 0
            for at in range(2):
                over += _over(flow, part, at, phases[part], links, leaves, room, per_link, per_leaf)
            if over == 0 or over < least:
                continue
            if _fits(flow, 1 - part, phases[1 - part], links, leaves, room, per_link, per_leaf):
                side[k] = 1 - part
                _count(flow, int64(side[k]), int64(1), links, leaves, per_link, per_leaf)
            elif least == 0:
                side[k] = 2
            if side[k] != part:
                _count(flow, part, int64(-1), links, leaves, per_link, per_leaf)
    old = members[begin:end].copy()
    bounds = np.zeros(3, np.int64)
    at = begin
    for part in range(3):
        for k in range(count):
            if side[k] == part:
                members[at] = old[k]
                at += 1
        bounds[part] = at
    return bounds[0], bounds[1]


@allocating
def _count(flow, part, by, links, leaves, per_link, per_leaf):
    for at in range(2):
        per_leaf[part, at, leaves[at, flow]] += by
        if links[at, flow] >= 0:
            per_link[part, at, links[at, flow]] += by


@allocating
def _over(flow, part, at, phases, links, leaves, room, per_link, per_leaf):
    """1 if one of a flow's sets at one end has more in a part of so many phases than they can hold, else 0."""
    leaf, link = leaves[at, flow], links[at, flow]
    if per_leaf[part, at, leaf] > phases * room[leaf] or (link >= 0 and per_link[part, at, link] > phases):
        return 1
    return 0


@allocating
def _fits(flow, part, phases, links, leaves, room, per_link, per_leaf):
    """Return whether a part of so many phases has room for one more in all sets of a flow."""
    for at in range(2):
        leaf, link = leaves[at, flow], links[at, flow]
        if per_leaf[part, at, leaf] >= phases * room[leaf] or (link >= 0 and per_link[part, at, link] >= phases):
            return False
    return True


@FORS_PART.entry
def _bring_in(phases: int, links: Int32s2, leaves: Int32s2, room: Int32s1, spines: int, phase: Int32s1) -> bool:
    """Find phases for the flows that have none; whether all got one. A flow needs room in its two sets at each end. Up
    to four phases that have it between them, divided anew together with the flow, hold everything again: four times a
    set's room is not exceeded, and four is a power of two."""
    total = 0
    for n in room:
        total += n
    at_link = np.zeros((2, phases, len(room) * spines), np.bool_)
    at_leaf = np.zeros((2, phases, len(room)), np.int32)
    held = np.empty((phases, max(total, 1)), np.int32)
    size = np.zeros(phases, np.int32)
    for flow in range(len(phase)):
        if phase[flow] >= 0:
            _enter(int64(flow), phase[flow], links, leaves, at_link, at_leaf, held, size)
    open_link = np.full(len(room) * spines, -1, np.int32)
    open_leaf = np.full(len(room), -1, np.int32)
    mates = np.empty((2, 4 * total + 1), np.int32)
    side = np.empty(4 * total + 1, np.int8)
    chosen = np.empty(4, np.int32)
    for flow in range(len(phase)):
        if phase[flow] >= 0:
            continue
        count = _choose(flow, phases, links, leaves, room, at_link, at_leaf, chosen)
        if count == 0:
            return False
        members = np.empty(4 * total + 1, np.int32)
        members[0] = flow
        taken = 1
        for k in range(count):
            p = chosen[k]
            for j in range(size[p]):
                members[taken] = held[p, j]
                taken += 1
            _clear(p, links, leaves, at_link, at_leaf, held, size)
        bounds = np.zeros(5, np.int64)
        bounds[count] = taken
        step = count
        while step > 1:
            for k in range(0, count, step):
                part = members[bounds[k] : bounds[k + step]]
                left = _halve(part, links, leaves, open_link, open_leaf, mates, side)
                bounds[k + step // 2] = bounds[k] + left
            step //= 2
        for k in range(count):
            for j in range(bounds[k], bounds[k + 1]):
                phase[members[j]] = chosen[k]
                _enter(int64(members[j]), chosen[k], links, leaves, at_link, at_leaf, held, size)
    return True


@allocating
def _enter(flow, p, links, leaves, at_link, at_leaf, held, size):
    held[p, size[p]] = flow
    size[p] += 1
    for end in range(2):
        at_leaf[end, p, leaves[end, flow]] += 1
        if links[end, flow] >= 0:
            at_link[end, p, links[end, flow]] = True


@allocating
def _clear(p, links, leaves, at_link, at_leaf, held, size):
    for k in range(size[p]):
        for end in range(2):
            at_leaf[end, p, leaves[end, held[p, k]]] = 0
            if links[end, held[p, k]] >= 0:
                at_link[end, p, links[end, held[p, k]]] = False
    size[p] = 0


@allocating
def _choose(flow, phases, links, leaves, room, at_link, at_leaf, chosen):
    """One, two or four phases that together have room for a flow in all its sets; returns how many (0: there are none).
    For each end: a phase with room in both sets, else one with room in the one and another with room in the other."""
    need = np.full(4, -1, np.int32)
    for end in range(2):
        leaf, link = leaves[end, flow], links[end, flow]
        both, by_link, by_leaf = -1, -1, -1
        for p in range(phases):
            link_free = link < 0 or not at_link[end, p, link]
            leaf_free = at_leaf[end, p, leaf] < room[leaf]
            if link_free and leaf_free:
                both = p
                other_leaf, other_link = leaves[1 - end, flow], links[1 - end, flow]
                other_free = other_link < 0 or not at_link[1 - end, p, other_link]
                if other_free and at_leaf[1 - end, p, other_leaf] < room[other_leaf]:
                    chosen[0] = p
                    return 1
            if link_free:
                by_link = p
            if leaf_free:
                by_leaf = p
        if both >= 0:
            need[2 * end] = both
        else:
            if by_link < 0 or by_leaf < 0:
                return 0
            need[2 * end], need[2 * end + 1] = by_link, by_leaf
    count = 0
    for p in need:
        if p >= 0 and not (chosen[:count] == p).any():
            chosen[count] = p
            count += 1
    if count == 3:
        for p in range(phases):
            if not (chosen[:count] == p).any():
                chosen[count] = p
                count += 1
                break
    return 0 if count == 3 else count
