# SPDX-License-Identifier: Apache-2.0
"""Phases of unlike length for messages of unlike size: who sends to whom, and when somebody else has his turn.

Without the fabric this is preemptive open shop (Gonzalez and Sahni, JACM 23(4), 1976): take a matching that has every
server whose remaining bytes fill all of the remaining time, go on with it until another server comes to that point, and
so on; the last byte goes when the busiest server is done, which is optimal. Birkhoff and von Neumann's decomposition of
matrices says the same. Here a leaf's flows to other leaves need room on its cables as well, and colours, the spines.

A phase's matching is an assignment of the greatest weight, in which servers and leaves with little slack left weigh
much, and leaf pairs by the dual price of their links. Where a leaf has fewer cables than servers, blockers keep servers
that are too many out of it, and what stays inside the leaf is added afterwards. Flows that get no colour wait, and
others are looked for in their place. So the bound is met if every tight server and leaf is in every matching, as they
can be if leaves have as many cables as servers. Elsewhere it may be missed: choosing phases then is a colouring that is
NP-complete in general.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from detour.base.arrays import Int64Array
from detour.control.fors.recolour import complete
from detour.control.linear import heaviest_assignment

_BUDGET = 200
_ROUNDS = 5
_TIGHT = 0.01  # Slack, as a part of the time left, at which a server's weight is half of its most.
_FAVOUR_LONG = 1.0  # Weight of the message's own size relative to all servers', so that phases are long.


@dataclass(frozen=True)
class Crossbars:
    """The capacity that a phase's flows share. Servers are ranks 0..n-1."""

    leaf: Int64Array  # (n,) each server's leaf
    lanes: np.ndarray
    """(leaves, colours) bool: flows between leaves u and v take a colour that both have, each once out and once in"""
    price: np.ndarray
    """(leaves, leaves) float 0..1: how scarce the links of a flow between two leaves are (dual prices)"""

    @property
    def room(self) -> Int64Array:
        """(leaves,) flows out of a leaf, and into it, at a time."""
        return self.lanes.sum(axis=1).astype(np.int64)


class Matching(NamedTuple):
    """A phase: who sends to whom, by which colour (-1 inside a leaf)."""

    src: Int64Array
    dst: Int64Array
    colour: np.ndarray


class Turn(NamedTuple):
    """A phase with its length in bytes; (flows,) `sent` bytes of each."""

    matching: Matching
    length: int
    sent: Int64Array


def turns(
    sizes: Int64Array, crossbars: Crossbars, least: int, shortest: int, most: int | None = None
) -> list[Turn] | None:
    """Phases that send `sizes` (n, n) bytes (0 on the diagonal, and where leaves are not joined). `least`: bytes that
    the whole takes at least (a bound); `shortest`: a phase is not cut shorter than so many bytes to keep to it. `most`:
    phases at most, if that is to be limited; None is returned if they are not enough."""
    left = sizes.astype(np.int64).copy()
    time = least
    phases: list[Turn] = []
    while left.any():
        if most is not None and len(phases) == most:
            return None
        state = _Remaining(left, crossbars, time)
        matching = _matching(state)
        length = _length(state, matching, shortest)
        sent = np.minimum(left[matching.src, matching.dst], length)
        left[matching.src, matching.dst] -= sent
        phases.append(Turn(matching, length, sent))
        time = max(state.time - length, 0)
    return phases


class _Remaining:
    """The bytes that are left to send, and the least time that they need."""

    def __init__(self, left: Int64Array, crossbars: Crossbars, time: int) -> None:
        self.left, self.crossbars = left, crossbars
        leaf, leaves = crossbars.leaf, len(crossbars.lanes)
        self.away = leaf[:, None] != leaf[None, :]
        outside = np.where(self.away, left, 0)
        self.out, self.into = left.sum(axis=1), left.sum(axis=0)
        self.leaf_out = np.bincount(leaf, outside.sum(axis=1), leaves).astype(np.int64)
        self.leaf_into = np.bincount(leaf, outside.sum(axis=0), leaves).astype(np.int64)
        self.room = np.maximum(crossbars.room, 1)
        most = max(self.out.max(), self.into.max())
        cut = max((-(-self.leaf_out // self.room)).max(), (-(-self.leaf_into // self.room)).max())
        self.time = int(max(time, most, cut))  # bytes of the time left

    def weights(self) -> np.ndarray:
        """(n, n) float: what sending from one to another is worth; 0: nothing is left."""
        leaf, tight = self.crossbars.leaf, self._tight
        value = tight(self.out)[:, None] + tight(self.into)[None, :]
        out, into = tight(self.leaf_out / self.room), tight(self.leaf_into / self.room)
        value = value + self.away * (out[leaf][:, None] + into[leaf][None, :])
        value = value + self.crossbars.price[np.ix_(leaf, leaf)]
        value = value + _FAVOUR_LONG / len(leaf) * self.left / max(self.left.max(), 1)
        return np.where(self.left > 0, value, 0.0)

    def _tight(self, load: np.ndarray) -> np.ndarray:
        return _TIGHT / ((self.time - load) / max(self.time, 1) + _TIGHT) + 0.1 * load / max(self.time, 1)


def _matching(state: _Remaining) -> Matching:
    """The phase's flows with their colours: the greatest assignment, then others in place of those refused a colour."""
    weights = state.weights()
    none = np.zeros(0, np.int64)
    matching = Matching(none, none, np.zeros(0, np.int32))
    src, dst = _within_cables(state, weights)
    for _ in range(_ROUNDS):
        order = np.argsort(-weights[src, dst], kind="stable")
        matching, refused = _admitted(state, matching, src[order], dst[order])
        # Another flow between the same leaves would not find a colour either.
        leaf = state.crossbars.leaf
        for s, d in refused:
            weights[np.ix_(leaf == leaf[s], leaf == leaf[d])] = 0.0
        src, dst = _more(state, weights, matching.src, matching.dst)
        if not len(src):
            break
    return matching


def _admitted(
    state: _Remaining, phase: Matching, src: Int64Array, dst: Int64Array
) -> tuple[Matching, list[tuple[int, int]]]:
    """A phase with as many more flows as get colours, in order, and the others."""
    both = np.concatenate([phase.src, src]), np.concatenate([phase.dst, dst])
    colour = np.concatenate([phase.colour, np.full(len(src), -1, np.int32)])
    whole = _coloured(state, *both, colour)
    if (whole >= 0).sum() == state.away[both].sum():
        return Matching(*both, whole), []
    refused = []
    for s, d in zip(src.tolist(), dst.tolist(), strict=True):
        longer = Matching(np.append(phase.src, s), np.append(phase.dst, d), np.append(phase.colour, np.int32(-1)))
        if state.away[s, d]:
            tried = _coloured(state, *longer)
            if (tried >= 0).sum() < state.away[longer.src, longer.dst].sum():
                refused.append((s, d))
                continue
            longer = longer._replace(colour=tried)
        phase = longer
    return phase, refused


def _within_cables(state: _Remaining, weights: np.ndarray) -> tuple[Int64Array, Int64Array]:
    """The assignment of the greatest weight in which no leaf has more flows than cables. Leaves that have fewer cables
    than servers send nothing inside here.

    Such a leaf has a blocker for each server that it has no cable for, which one of them has to take instead of a flow.
    """
    leaf, room = state.crossbars.leaf, state.crossbars.room
    servers = np.bincount(leaf, minlength=len(room))
    blocked = np.repeat(np.arange(len(room)), np.maximum(servers - room, 0))
    n, more = len(leaf), len(blocked)
    short = servers > room
    value = np.zeros((n + more, n + more))
    value[:n, :n] = np.where(state.away | ~short[leaf][:, None], weights, 0.0)
    must = 4.0 * n * max(float(weights.max()), 1.0)
    theirs = leaf[:, None] == blocked[None, :]
    value[:n, n:] = np.where(theirs, must, -must)
    value[n:, :n] = np.where(theirs.T, must, -must)
    value[n:, n:] = 0.0
    src, dst = heaviest_assignment(value)
    kept = (src < n) & (dst < n)
    kept[kept] = value[src[kept], dst[kept]] > 0
    return src[kept], dst[kept]


def _over(state: _Remaining, src: Int64Array, dst: Int64Array) -> Int64Array:
    """(2, leaves) flows out of leaves, and into them, beyond their cables."""
    leaf, leaves = state.crossbars.leaf, len(state.room)
    away = state.away[src, dst]
    ends = (np.bincount(leaf[end[away]], minlength=leaves) for end in (src, dst))
    return np.stack(list(ends)) - state.crossbars.room


def _without_surplus(
    state: _Remaining, weights: np.ndarray, src: Int64Array, dst: Int64Array
) -> tuple[Int64Array, Int64Array]:
    """Drop the flows that are worth least, those that relieve both ends first."""
    leaf, over = state.crossbars.leaf, _over(state, src, dst)
    kept = np.ones(len(src), np.bool_)
    while (over > 0).any():
        relief = state.away[src, dst] * kept * ((over[0][leaf[src]] > 0).astype(int) + (over[1][leaf[dst]] > 0))
        cost = np.where(relief > 0, weights[src, dst] / np.maximum(relief, 1), np.inf)
        worst = int(np.argmin(cost))
        kept[worst] = False
        over[0, leaf[src[worst]]] -= 1
        over[1, leaf[dst[worst]]] -= 1
    return src[kept], dst[kept]


def _more(state: _Remaining, weights: np.ndarray, src: Int64Array, dst: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Flows of servers that rest, as far as leaves have cables left."""
    leaf, left = state.crossbars.leaf, -_over(state, src, dst)
    allowed = weights > 0
    allowed[src] = False
    allowed[:, dst] = False
    allowed &= ~state.away | ((left[0][leaf] > 0)[:, None] & (left[1][leaf] > 0)[None, :])
    if not allowed.any():
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    worth = np.where(allowed, weights, 0.0)
    more = heaviest_assignment(worth)
    useful = worth[more] > 0
    both = np.concatenate([src, more[0][useful]]), np.concatenate([dst, more[1][useful]])
    # What was there has no surplus, but its flows would be dropped too if they were worth less.
    value = weights.copy()
    value[src, dst] += 1e6
    kept = _without_surplus(state, value, *both)
    return kept[0][len(src) :], kept[1][len(src) :]


def _coloured(state: _Remaining, src: Int64Array, dst: Int64Array, colour: np.ndarray) -> np.ndarray:
    """(flows,) int32 colours, beginning with those that are there; -1 where a flow got none or needs none."""
    leaf = state.crossbars.leaf
    colours = colour.astype(np.int32)
    away = np.flatnonzero(state.away[src, dst])
    source, target = (leaf[end[away]].astype(np.int32) for end in (src, dst))
    mine = np.ascontiguousarray(colours[away])
    complete(source, target, state.crossbars.lanes, state.crossbars.lanes, mine, _BUDGET, 1)
    colours[away] = mine
    return colours


def _length(state: _Remaining, matching: Matching, shortest: int) -> int:
    """Return how long a phase may last until the rest no longer fits into the rest of the time, at least `shortest`
    bytes, and never longer than its longest message."""
    message = state.left[matching.src, matching.dst]
    longest = int(message.max())
    most = longest
    for load, end in ((state.out, matching.src), (state.into, matching.dst)):
        sent = np.zeros(len(load), np.int64)
        sent[end] = message
        limit = state.time - load + sent
        # A message that is longer than the phase is sent all through it.
        most = min(most, int(np.where(sent >= longest, longest, limit).min()))
    away = state.away[matching.src, matching.dst]
    for load, end in ((state.leaf_out, matching.src), (state.leaf_into, matching.dst)):
        leaf = state.crossbars.leaf[end[away]]
        for u in np.flatnonzero(load > 0).tolist():
            most = min(most, _until(int(state.room[u]), state.time, int(load[u]), message[away][leaf == u]))
    return min(max(most, min(shortest, longest), 1), longest)


def _until(room: int, time: int, load: int, message: Int64Array) -> int:
    """The longest phase after which load - sent <= room * (time - length)."""
    spare, done = room * time - load, 0
    ends = np.sort(message).tolist()
    for ended in range(len(ends) + 1):
        # While so many of the messages are over the others go on, and this many cables rest.
        resting = room - (len(ends) - ended)
        reach = time if resting <= 0 else (spare + done) // resting
        if ended == len(ends) or reach <= ends[ended]:
            return int(min(reach, time))
        done += ends[ended]
    raise AssertionError("the loop returns")
