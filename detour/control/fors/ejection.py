# SPDX-License-Identifier: Apache-2.0
"""Places for flows in phases, one at a time: who finds none drives others out, whoever is least trouble.

A place is a phase, a plane and a core; it takes a server's turn at both leaves and a link of each level at both ends.
A flow without a free place gets more insistent with each failure, and takes the place whose holders have been least so
(guided ejection, Nagata and Braysy 2009): flows that are hard to place stay, and easy ones go elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from detour.base.arrays import Int32s1, Int32s4, Int32s5
from detour.base.jit import allocating, int64
from detour.control.fors.fabric import FatTree
from detour.control.native import FORS_PART

_WORDS, _MIDDLE = 624, 397
_ALL, _UPPER, _LOWER = 0xFFFFFFFF, 0x80000000, 0x7FFFFFFF


@allocating
def seeded(seed: int) -> Any:
    """The state, and behind it how many of its words have been used."""
    state = np.empty(_WORDS + 1, np.int64)
    word = np.int64(seed) & _ALL
    for i in range(_WORDS):
        state[i] = word
        word = (1812433253 * (word ^ (word >> 30)) + i + 1) & _ALL
    state[_WORDS] = _WORDS
    return state


@allocating
def _twist(state: Any) -> None:
    for i in range(_WORDS):
        word = (state[i] & _UPPER) | (state[(i + 1) % _WORDS] & _LOWER)
        state[i] = state[(i + _MIDDLE) % _WORDS] ^ (word >> 1) ^ (0x9908B0DF if word & 1 else 0)
    state[_WORDS] = 0


@allocating
def _word(state: Any) -> Any:
    if state[_WORDS] == _WORDS:
        _twist(state)
    y = state[state[_WORDS]]
    state[_WORDS] += 1
    y ^= y >> 11
    y ^= (y << 7) & 0x9D2C5680
    y ^= (y << 15) & 0xEFC60000
    return y ^ (y >> 18)


@allocating
def below(state: Any, limit: int) -> Any:
    """A number from 0 to `limit` - 1; `limit` is 2 at least."""
    mask = 1
    while mask < limit - 1:
        mask = 2 * mask + 1
    number = _word(state) & mask
    while number >= limit:
        number = _word(state) & mask
    return number


_FREE, _CLOSED = -1, -2
"""what a link carries in a phase, beside numbers of flows"""
_NOTHING = 1 << 60


@dataclass(frozen=True)
class Board:
    """The flows that hold each place in each phase, by number; first axis: out of a switch 0, into it 1."""

    turn: np.ndarray  # (2, leaves, phases, hosts)
    low: np.ndarray  # (2, leaves, planes, phases)
    high: np.ndarray  # (2, pods, planes, cores, phases)

    @classmethod
    def empty(cls, fabric: FatTree, phases: int) -> Board:
        """Return a board without flows; failed links and the places of servers that take no part are closed."""
        places = np.arange(fabric.hosts) < fabric.sizes()[:, None]
        turn = np.repeat(np.where(places, _FREE, _CLOSED)[None, :, None], phases, axis=2)
        turn = np.ascontiguousarray(np.repeat(turn, 2, axis=0), np.int32)
        low = np.where(fabric.alive[None, :, :, None], _FREE, _CLOSED)
        high = np.where(fabric.high[None, :, :, :, None], _FREE, _CLOSED)
        low, high = (np.repeat(np.repeat(one, 2, axis=0), phases, axis=-1) for one in (low, high))
        return cls(turn, np.ascontiguousarray(low, np.int32), np.ascontiguousarray(high, np.int32))

    def longer(self, fabric: FatTree, more: int) -> Board:
        """With empty phases behind."""
        added = Board.empty(fabric, more)
        axes = ((self.turn, added.turn, 2), (self.low, added.low, 3), (self.high, added.high, 4))
        return Board(*(np.ascontiguousarray(np.concatenate(one[:2], axis=one[2])) for one in axes))


@dataclass(frozen=True)
class Flows3:
    """Flows between leaves and where they are: (flows,) int32 each; phase, plane and core -1 where they have none."""

    source: np.ndarray
    target: np.ndarray
    phase: np.ndarray
    plane: np.ndarray
    core: np.ndarray


def place(board: Board, flows: Flows3, leaves: int, effort: int, seed: int) -> int:
    """Give places to flows without one, changing others; return how many are left without after `effort` attempts
    that drove somebody out. `leaves`: of a pod. What flows have (`phase`) must be on the board."""
    missing = np.flatnonzero(flows.phase < 0).astype(np.int32)
    columns = (flows.source, flows.target, flows.phase, flows.plane, flows.core)
    return int(_place(board.turn, board.low, board.high, *columns, missing, leaves, effort, seed))


@allocating
def _slot(turn, side, leaf, phase, insistence):
    """A server's turn: a free one, or that of the flow that insists least; and its holder."""
    best, holder = 0, -1
    least = _NOTHING
    for k in range(turn.shape[3]):
        flow = turn[side, leaf, phase, k]
        if flow == _CLOSED:
            break
        if flow < 0:
            return k, -1
        if insistence[flow] < least:
            best, holder, least = k, flow, insistence[flow]
    return best, holder


@allocating
def _cost(ends, k, insistence):
    """Return the extra cost of driving out holder `k` beside those before it, which leave anyhow."""
    if ends[k] < 0:
        return 0
    for other in range(k):
        if ends[other] == ends[k]:
            return 0
    return insistence[ends[k]]


@allocating
def _best(turn, low, high, u, v, leaves, insistence, draws):
    """The place that costs least (ties at random): cost, phase, plane, core."""
    p, q = u // leaves, v // leaves
    least, phase, plane, core = _NOTHING, -1, -1, -1
    ties = 0
    ends = np.full(6, _FREE, np.int64)
    for t in range(turn.shape[2]):
        ends[0] = _slot(turn, int64(0), u, t, insistence)[1]
        ends[1] = _slot(turn, int64(1), v, t, insistence)[1]
        base = _cost(ends, int64(0), insistence) + _cost(ends, int64(1), insistence)
        if base > least:
            continue
        for j in range(low.shape[2] if u != v else 1):
            cost = base
            if u != v:
                ends[2], ends[3] = low[0, u, j, t], low[1, v, j, t]
                if ends[2] == _CLOSED or ends[3] == _CLOSED:
                    continue
                cost += _cost(ends, int64(2), insistence) + _cost(ends, int64(3), insistence)
            if cost > least:
                continue
            for i in range(high.shape[3] if p != q else 1):
                whole = cost
                if p != q:
                    ends[4], ends[5] = high[0, p, j, i, t], high[1, q, j, i, t]
                    if ends[4] == _CLOSED or ends[5] == _CLOSED:
                        continue
                    whole += _cost(ends, int64(4), insistence) + _cost(ends, int64(5), insistence)
                if whole > least:
                    continue
                ties = 1 if whole < least else ties + 1
                if ties == 1 or below(draws, ties) == 0:
                    least, phase = whole, t
                    plane, core = j if u != v else -1, i if p != q else -1
    return least, phase, plane, core


@allocating
def _leave(turn, low, high, source, target, phase, plane, core, flow, leaves):
    """The flow gives back what it has."""
    t = phase[flow]
    for side in range(2):
        leaf = source[flow] if side == 0 else target[flow]
        for k in range(turn.shape[3]):
            if turn[side, leaf, t, k] == flow:
                turn[side, leaf, t, k] = _FREE
        if plane[flow] >= 0:
            low[side, leaf, plane[flow], t] = _FREE
        if core[flow] >= 0:
            high[side, leaf // leaves, plane[flow], core[flow], t] = _FREE
    phase[flow], plane[flow], core[flow] = -1, -1, -1


@FORS_PART.entry
def _place(
    turn: Int32s4, low: Int32s4, high: Int32s5, source: Int32s1, target: Int32s1, phase: Int32s1, plane: Int32s1,
    core: Int32s1, missing: Int32s1, leaves: int, effort: int, seed: int,
) -> int:  # fmt: skip
    draws = seeded(seed)
    insistence = np.ones(len(source), np.int64)
    waiting: list[Any] = [np.int32(flow) for flow in missing]
    while len(waiting) > 0:
        flow = waiting.pop()
        u, v = source[flow], target[flow]
        cost, t, j, i = _best(turn, low, high, u, v, leaves, insistence, draws)
        if cost > 0:
            if effort == 0 or t < 0:
                waiting.append(flow)
                return len(waiting)
            effort -= 1
            insistence[flow] += 1
        for side in range(2):
            leaf = u if side == 0 else v
            k, holder = _slot(turn, int64(side), leaf, t, insistence)
            if holder >= 0:
                waiting.append(holder)
                _leave(turn, low, high, source, target, phase, plane, core, int64(holder), leaves)
            turn[side, leaf, t, k] = flow
            if j >= 0:
                holder = low[side, leaf, j, t]
                if holder >= 0 and holder != flow:
                    waiting.append(holder)
                    _leave(turn, low, high, source, target, phase, plane, core, int64(holder), leaves)
                low[side, leaf, j, t] = flow
            if i >= 0:
                holder = high[side, leaf // leaves, j, i, t]
                if holder >= 0 and holder != flow:
                    waiting.append(holder)
                    _leave(turn, low, high, source, target, phase, plane, core, int64(holder), leaves)
                high[side, leaf // leaves, j, i, t] = flow
        phase[flow], plane[flow], core[flow] = t, j, i
    return 0
