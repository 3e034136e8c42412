# SPDX-License-Identifier: Apache-2.0
"""Ftree-AR: a leaf moves flows from a congested link up to the one with the shortest queue (FORS, section 3.1).

Flows begin on Ftree's spine, so without congestion this is Ftree. At every look a leaf takes flows away from the queues
above `least_bytes`, the longest first, if another link that leads to the flow's leaf has at most half as much; one flow
stays. A leaf sees its own queues only, not those of the spines. The paper says no more of InfiniBand's adaptive routing
than that it balances by load; moving whole flows keeps packets in order, which LERP takes for granted on a path. Two
levels with one cable from leaf to spine, so that paths are spines.
"""

from __future__ import annotations

import numpy as np

from detour.base.arrays import Int64Array
from detour.base.times import US
from detour.fabric.traffic.phased import PhasedExchange


class LeafAdaptive:
    """An `Actor` that stands for all leaves."""

    def __init__(self, exchange: PhasedExchange, *, period_ps: int = US, least_bytes: int = 40_000) -> None:
        self._period_ps, self._least = period_ps, least_bytes
        self.due_ps = exchange.fabric.now_ps + period_ps
        self.moves = 0

    def act(self, exchange: PhasedExchange) -> None:
        """Every leaf looks at its queues."""
        self.due_ps = exchange.fabric.now_ps + self._period_ps
        tree = exchange.fabric.tree
        queued = exchange.fabric.queued_up().reshape(tree.leaves, tree.spines)
        if queued.max() <= self._least:
            return
        sent = np.flatnonzero(exchange.state == exchange.SENT)
        leaf = exchange.messages.src[sent] // tree.hosts
        moved, spines = [], []
        for u in np.flatnonzero(queued.max(axis=1) > self._least).tolist():
            for flight, spine in self._moves(exchange, u, queued[u].copy(), sent[leaf == u]):
                moved.append(flight)
                spines.append(spine)
        if moved:
            self.moves += len(moved)
            exchange.change_paths(np.array(moved, np.int64), np.array(spines, np.int64))

    def _moves(self, exchange: PhasedExchange, leaf: int, queue: Int64Array, mine: Int64Array) -> list[tuple[int, int]]:
        """Flows of a leaf that change, and their new spines. A moved flow's share of its queue counts as moved."""
        moves = []
        up = exchange.up.reshape(-1, len(queue))
        spine, far = exchange.path[mine], exchange.messages.dst[mine] // exchange.fabric.tree.hosts
        for crowded in np.argsort(-queue).tolist():
            if queue[crowded] <= self._least:
                break
            there = np.flatnonzero((spine == crowded) & (far != leaf))
            if len(there) < 2:
                continue  # alone on its link: the queue is its own
            for k in there[1:].tolist():
                usable = np.flatnonzero(up[leaf] & up[far[k]])
                best = int(usable[np.argmin(queue[usable])])
                if queue[best] * 2 <= queue[crowded]:
                    moves.append((int(mine[k]), best))
                    share = queue[crowded] // len(there)
                    queue[crowded] -= share
                    queue[best] += share
        return moves
