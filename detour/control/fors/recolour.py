# SPDX-License-Identifier: Apache-2.0
"""List edge colouring of bipartite multigraphs: ejection chains, Kempe chains, and ejection with a short tabu list.

Edge e goes from `source[e]` to `target[e]`. A colour may be used once at a source and once at a target, and only where
`out_ok[source, colour]` and `in_ok[target, colour]` hold. Routing one phase is this with leaves and spines; so is
finding idle phases for the flows inside a leaf. Deciding whether such a colouring exists is NP-complete in general:
what is not found here may exist.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from detour.base.arrays import Bools2, Int32s1
from detour.base.jit import allocating, int64
from detour.control.native import FORS_PART

_TENURE = 7  # An edge may not return to the colour it was driven from for this many steps, and some at random.


class _Side(NamedTuple):
    """Sources or targets: `of` (edges,) each edge's; `ok` (ends, colours) bool, which colours an end may have; `at`
    (ends, colours) int32, the edge that has a colour there, -1: none."""

    of: np.ndarray
    ok: np.ndarray
    at: np.ndarray


class _Colouring(NamedTuple):
    """Both sides, and the colour (edges,) of every edge, -1: none yet."""

    out: _Side
    into: _Side
    colour: np.ndarray


class _Search(NamedTuple):
    """Room for a search over edges: the queue, whom an edge was reached from, and the colour that it loses to that."""

    queue: np.ndarray
    parent: np.ndarray
    loses: np.ndarray


@FORS_PART.entry
def complete(
    source: Int32s1, target: Int32s1, out_ok: Bools2, in_ok: Bools2, colour: Int32s1, budget: int, seed: int
) -> int:
    """Colours the edges whose `colour` is -1, in place; returns how many are left without one.

    source, target, colour: (edges,) int32. out_ok: (sources, colours) bool, in_ok: (targets, colours) bool. Colours
    that are there already must be consistent; they change along the shortest chains that can be found, and only where
    there are none further. `budget`: how many edges may drive others out before it is given up. `seed`: an odd one
    takes the edges in their order, an even one in the opposite order."""
    edges, colours = len(source), out_ok.shape[1]
    out = _Side(source, out_ok, np.full(out_ok.shape, -1, np.int32))
    into = _Side(target, in_ok, np.full(in_ok.shape, -1, np.int32))
    graph = _Colouring(out, into, colour)
    stack = np.empty(edges, np.int32)
    left = 0
    for k in range(edges):
        edge = edges - 1 - k if seed % 2 else k
        if colour[edge] < 0:
            stack[left] = edge
            left += 1
        else:
            _give(edge, colour[edge], graph)
    tabu_colour = np.full(edges, -1, np.int32)
    tabu_until = np.zeros(edges, np.int64)
    chain = np.empty(max(edges, out_ok.shape[0] + in_ok.shape[0]) + 1, np.int32)
    search = _Search(chain, np.empty(edges, np.int32), np.empty(edges, np.int32))
    rng = int64(seed)
    step = 0
    while left > 0:
        rng = _next(rng)
        edge = stack[left - 1]
        u, v = source[edge], target[edge]
        new = _free_colour(u, v, out, into, rng % colours)
        if new < 0:
            new = _by_ejection_chain(edge, graph, search, rng % colours)
        if new < 0:
            new = _by_kempe_chain(u, v, graph, chain)
        left -= 1
        if new < 0:
            step += 1
            if step > budget:
                return left + 1
            tabu = tabu_colour[edge] if tabu_until[edge] >= step else -1
            new = _least_driven(u, v, out, into, tabu, rng)
            if new < 0:
                return left + 1
            # Who is driven out goes to the bottom of the stack's top: it is tried next.
            for loser in (out.at[u, new], into.at[v, new]):
                if loser >= 0 and colour[loser] >= 0:
                    _take(loser, graph)
                    colour[loser] = -1
                    tabu_colour[loser] = new
                    tabu_until[loser] = step + _TENURE + rng % _TENURE
                    stack[left] = loser
                    left += 1
        _give(edge, new, graph)
    return 0


def recoloured(
    source: np.ndarray, target: np.ndarray, ok: np.ndarray, colour: np.ndarray, budget: int, tries: int
) -> np.ndarray | None:
    """Colours for all edges, as many as can be the given ones (-1: none yet), in so many attempts; None: none did."""
    for attempt in range(tries):
        new = colour.astype(np.int32)
        if complete(source, target, ok, ok, new, budget, 1 + attempt) == 0:
            return new
    return None


@allocating
def _next(rng: int) -> int:
    """A linear congruential generator: repeatable, and good enough to break ties. The multiplier is that of Park,
    Miller and Stockmeyer (1993), but theirs adds nothing and must not begin at 0. With an increment modulo the same
    prime 0 is like any other, and 1973665155 is the one state that is never left; from all others the period is 2^31 -
    2."""
    return (rng * 48271 + 11) % 2147483647


@allocating
def _give(edge, colour, graph):
    """An edge gets a colour that is free at both ends."""
    graph.colour[edge] = colour
    graph.out.at[graph.out.of[edge], colour] = edge
    graph.into.at[graph.into.of[edge], colour] = edge


@allocating
def _take(edge, graph):
    """Free an edge's colour at both ends; the edge is to get another one."""
    graph.out.at[graph.out.of[edge], graph.colour[edge]] = -1
    graph.into.at[graph.into.of[edge], graph.colour[edge]] = -1


@allocating
def _free_colour(u, v, out, into, first) -> int:
    """A colour that neither end uses, looking from `first` on; -1: none."""
    colours = out.ok.shape[1]
    for k in range(colours):
        c = first + k
        if c >= colours:
            c -= colours
        if out.at[u, c] < 0 and into.at[v, c] < 0 and out.ok[u, c] and into.ok[v, c]:
            return c
    return -1


@allocating
def _by_ejection_chain(edge, graph, search, start) -> int:
    """The colour for an edge after the fewest others have each gone to another colour; -1: none was found. Breadth
    first over edges: one takes a colour that a single other edge has at one of its ends, that one has to find another
    colour in turn, until one finds a free colour. `start`: the first one to look at."""
    out, into = graph.out, graph.into
    queue, parent = search.queue, search.parent
    colours = out.ok.shape[1]
    parent[:] = -2
    parent[edge] = -1
    queue[0] = edge
    first, last = 0, 1
    while first < last:
        x = queue[first]
        first += 1
        a, b = out.of[x], into.of[x]
        for k in range(colours):
            c = start + k
            if c >= colours:
                c -= colours
            if c == graph.colour[x] or not (out.ok[a, c] and into.ok[b, c]):
                continue
            above, below = out.at[a, c], into.at[b, c]
            if above >= 0 and below >= 0:
                continue
            y = max(above, below)
            if y >= 0 and parent[y] != -2:
                continue
            if _taken(x, c, graph, search):
                continue
            if y < 0:
                return _shift(x, c, graph, search)
            parent[y] = x
            search.loses[y] = c
            queue[last] = y
            last += 1
    return -1


@allocating
def _taken(x, c, graph, search):
    """Return whether an edge before x on its chain takes colour c at an end of x."""
    source, target = graph.out.of, graph.into.of
    below = x
    at = search.parent[x]
    while at >= 0:
        if search.loses[below] == c and (source[at] == source[x] or target[at] == target[x]):
            return True
        below = at
        at = search.parent[at]
    return False


@allocating
def _shift(x, c, graph, search):
    """Carry out a chain whose last edge x takes c; return the colour that its first edge is to have."""
    at = x
    while search.parent[at] >= 0:
        _take(at, graph)
        at = search.parent[at]
    at, new = x, c
    while search.parent[at] >= 0:
        _give(at, new, graph)
        new = search.loses[at]
        at = search.parent[at]
    return new


@allocating
def _by_kempe_chain(u, v, graph, chain) -> int:
    """Free a colour for an edge u -> v by exchanging two colours along the shortest chain; -1: there is none. a is
    free at u, b is free at v. The chain of a and b that begins at v cannot come to u (it would arrive by a), the one
    that begins at u cannot come to v; either may be exchanged if all its edges may have the other colour."""
    out, into = graph.out, graph.into
    colours = out.ok.shape[1]
    best, best_a, best_b, best_end = chain.shape[0] + 1, -1, -1, 0
    for a in range(colours):
        if not out.ok[u, a] or out.at[u, a] >= 0:
            continue
        for b in range(colours):
            if not into.ok[v, b] or into.at[v, b] >= 0:
                continue
            if into.ok[v, a]:
                length = _chain(v, a, b, into, out, chain)
                if 0 <= length < best:
                    best, best_a, best_b, best_end = length, a, b, 0
            if out.ok[u, b]:
                length = _chain(u, b, a, out, into, chain)
                if 0 <= length < best:
                    best, best_a, best_b, best_end = length, a, b, 1
            if best == 1:
                break
        if best == 1:
            break
    if best_a < 0:
        return -1
    if best_end == 0:
        length = _chain(v, best_a, best_b, into, out, chain)
    else:
        length = _chain(u, best_b, best_a, out, into, chain)
    _exchange(chain[:length], best_a, best_b, graph)
    return best_a if best_end == 0 else best_b


@allocating
def _chain(end, first, second, here, there, chain) -> int:
    """Length of the chain first, second, first, ... of edges from `end`, written to `chain`; -1: one of its edges may
    not change its colour. `here`: the side that `end` is on, `there`: the other."""
    length = 0
    edge = here.at[end, first]
    while edge >= 0:
        chain[length] = edge
        length += 1
        other = there.of[edge]
        if not there.ok[other, second]:
            return -1
        edge = there.at[other, second]
        if edge < 0:
            break
        chain[length] = edge
        length += 1
        if not here.ok[here.of[edge], first]:
            return -1
        edge = here.at[here.of[edge], first]
    return length


@allocating
def _exchange(chain, a, b, graph):
    for edge in chain:
        _take(edge, graph)
    for edge in chain:
        _give(edge, b if graph.colour[edge] == a else a, graph)


@allocating
def _least_driven(u, v, out, into, tabu, rng) -> int:
    """The allowed colour, not `tabu`, that drives out fewest edges, ties by chance; -1: no colour is allowed."""
    colours = out.ok.shape[1]
    best, cheapest, ties = 3, -1, 1
    fallback = -1
    for c in range(colours):
        if not (out.ok[u, c] and into.ok[v, c]):
            continue
        if c == tabu:
            fallback = c
            continue
        cost = (out.at[u, c] >= 0) + (into.at[v, c] >= 0)
        if cost < best:
            best, cheapest, ties = cost, c, 1
        elif cost == best:
            ties += 1
            rng = _next(rng)
            if rng % ties == 0:
                cheapest = c
    return cheapest if cheapest >= 0 else fallback
