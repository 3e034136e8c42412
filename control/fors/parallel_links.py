# SPDX-License-Identifier: Apache-2.0
"""A plan after more failures where several cables, or several flows of a cable, join leaf and spine.

Flows of a cable that failed take another one to the same spine, or another spine; others make room along the shortest
chain, in their phase. Cables at both ends of a spine are chosen apart, so what counts is how many flows of a phase a
leaf has over a spine, and that is no edge colouring (`recolour`): leaves may have lost different cables.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace

import numpy as np

from detour.control.fors.fabric import FatTree
from detour.control.fors.paths import INSIDE
from detour.control.fors.plan import ForsPlan, PlanSeconds


def kept_spines(plan: ForsPlan, fabric: FatTree) -> tuple[ForsPlan, int] | None:
    """The plan on `fabric` and how many flows have another spine or cable; None: a phase has no room for its flows, or
    no chain was found."""
    working = fabric.working.reshape(fabric.leaves, fabric.uplinks)
    leaf = np.stack([plan.src, plan.dst]) // fabric.hosts
    away = plan.spine != INSIDE
    uplink = np.stack([plan.uplink(0), plan.uplink(1)])
    broken = away & ~(working[leaf[0], uplink[0]] & working[leaf[1], uplink[1]])
    spine = plan.spine.copy()
    cables = np.zeros((2, plan.flows), np.int32) if plan.cables is None else plan.cables.copy()
    for number in np.unique(plan.phase[broken]).tolist():
        rows = np.flatnonzero((plan.phase == number) & away)
        phase = _Phase(fabric, leaf[:, rows], np.where(broken[rows], INSIDE, spine[rows]))
        for k in np.flatnonzero(broken[rows]).tolist():
            if not phase.bring_in(k, int(spine[rows[k]])):
                return None
        changed = broken[rows] | (phase.spine != spine[rows])
        spine[rows] = phase.spine
        _deal_cables(fabric, leaf[:, rows], phase.spine, cables, rows, changed)
    moved = int(np.count_nonzero((spine != plan.spine) | _differs(plan, cables)))
    kept = replace(plan, fabric=fabric, spine=spine, cables=cables if fabric.cables > 1 else None)
    optimal = plan.optimal and fabric.failed >= plan.fabric.failed
    return replace(kept, method="incremental", optimal=optimal, seconds=PlanSeconds()), moved


def _differs(plan: ForsPlan, cables: np.ndarray) -> np.ndarray:
    if plan.cables is None:
        return np.zeros(plan.flows, bool)
    return (cables != plan.cables).any(axis=0)


class _Phase:
    """Flows of one phase between leaves: spines, and how many more each leaf and spine have room for."""

    def __init__(self, fabric: FatTree, leaf: np.ndarray, spine: np.ndarray) -> None:
        """`leaf`: (2, flows) at both ends; `spine`: (flows,), `INSIDE` for those that have none yet."""
        self.leaf, self.spine = leaf, spine.astype(np.int32)
        self.room = fabric.room()
        self.free = np.stack([self.room, self.room])
        for end in range(2):
            placed = self.spine != INSIDE
            np.subtract.at(self.free[end], (leaf[end][placed], self.spine[placed]), 1)

    def bring_in(self, flow: int, old: int) -> bool:
        """A spine for a flow, the `old` one if it can be; others move along the shortest chain. False: none found."""
        before: dict[int, tuple[int, int]] = {flow: (-1, INSIDE)}
        queue = deque([flow])
        while queue:
            at = queue.popleft()
            u, v = self.leaf[:, at].tolist()
            usable = np.flatnonzero((self.room[u] > 0) & (self.room[v] > 0))
            first = old if at == flow else -1
            for c in sorted(usable.tolist(), key=lambda c: c != first):
                full = [end for end, one in ((0, u), (1, v)) if self.free[end, one, c] == 0]
                if c == self.spine[at] or len(full) > 1:
                    continue
                if not full and self._shift(at, c, before):
                    return True
                for end in full:
                    holders = np.flatnonzero((self.leaf[end] == (u, v)[end]) & (self.spine == c))
                    for other in holders.tolist():
                        if other not in before:
                            before[other] = (at, c)
                            queue.append(other)
        return False

    def _shift(self, last: int, c: int, before: dict[int, tuple[int, int]]) -> bool:
        """Carries out the chain that ends with `last` on spine c, unless flows of it are in each other's way."""
        spine, free = self.spine.copy(), self.free.copy()
        at, to = last, c
        while at >= 0:
            self._move(at, to)
            at, to = before[at]
        if (self.free >= 0).all():
            return True
        self.spine, self.free = spine, free
        return False

    def _move(self, flow: int, to: int) -> None:
        for end in range(2):
            one = self.leaf[end, flow]
            if self.spine[flow] != INSIDE:
                self.free[end, one, self.spine[flow]] += 1
            self.free[end, one, to] -= 1
        self.spine[flow] = to


def _deal_cables(
    fabric: FatTree, leaf: np.ndarray, spine: np.ndarray, cables: np.ndarray, rows: np.ndarray, changed: np.ndarray
) -> None:
    """Cables, in place, for the changed flows of a phase: working ones with a lane that nobody has; others stay."""
    working = fabric.working
    for end in range(2):
        left = working.astype(np.int64) * fabric.lanes
        stay = ~changed
        np.subtract.at(left, (leaf[end][stay], spine[stay], cables[end, rows[stay]]), 1)
        for k in np.flatnonzero(changed).tolist():
            u, c = int(leaf[end, k]), int(spine[k])
            cable = int(np.argmax(left[u, c]))
            cables[end, rows[k]] = cable
            left[u, c, cable] -= 1
