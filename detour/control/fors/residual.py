# SPDX-License-Identifier: Apache-2.0
"""Replanning the rest of an exchange when links fail: phases and spines that keep as much of the plan as they can.

Every phase that is left is routed again over the links that work, beginning with the spines it had. Where a leaf has
more flows than links, the surplus is put off: first flows that relieve a leaf at either end, among these those whose
servers have least put off so far, because what is put off becomes phases of its own, in which a server can do one thing
only. Such flows go into other phases where both servers rest, if links allow, and the rest into new ones at the end.
"""

from __future__ import annotations

import numpy as np

from detour.base.arrays import Int64Array
from detour.control.fors.fabric import FatTree
from detour.control.fors.paths import INSIDE, by_phase
from detour.control.fors.recolour import complete
from detour.control.fors.repair import GONE

_BUDGET = 400
_SEED = 1
FlowArray = np.ndarray


def residual(
    fabric: FatTree, phase: FlowArray, src: FlowArray, dst: FlowArray, spine: FlowArray
) -> tuple[Int64Array, Int64Array]:
    """Phases and spines for flows (arrays of equal length, the phases in the order in which they were to come) on
    `fabric`, of two levels with one cable from leaf to spine. The plan is free of contention if the given one was;
    `GONE` where two leaves have no common spine left."""
    work = _Work(fabric, np.asarray(src), np.asarray(dst), np.asarray(spine, np.int32).copy())
    groups = by_phase(np.asarray(phase))
    waiting: list[int] = []
    phases = []
    for flows in groups:
        kept, surplus = work.route(work.possible(flows))
        phases.append(kept)
        waiting += surplus
    waiting = work.fill(phases, waiting)
    while waiting:
        kept, waiting = work.new_phase(waiting)
        phases.append(kept)
    new = np.full(len(src), GONE, np.int64)
    for number, flows in enumerate(flows for flows in phases if len(flows)):
        new[flows] = number
    return new, work.spine.astype(np.int64)


class _Work:
    """The flows, and how many of each server have been put off."""

    def __init__(self, fabric: FatTree, src: FlowArray, dst: FlowArray, spine: FlowArray) -> None:
        self.alive = fabric.alive
        self.links = self.alive.sum(axis=1)
        self.common = self.alive.astype(np.int64) @ self.alive.T.astype(np.int64)
        self.src, self.dst, self.spine = src, dst, spine
        self.a = (src // fabric.hosts).astype(np.int32)
        self.b = (dst // fabric.hosts).astype(np.int32)
        self.off_src = np.zeros(fabric.slots, np.int64)
        self.off_dst = np.zeros(fabric.slots, np.int64)

    def possible(self, flows: FlowArray) -> FlowArray:
        a, b = self.a[flows], self.b[flows]
        return flows[(a == b) | (self.common[a, b] > 0)]

    def route(self, flows: FlowArray) -> tuple[FlowArray, list[int]]:
        """Flows of one phase that stay in it, with spines, and those that are put off."""
        away = flows[self.a[flows] != self.b[flows]]
        surplus = self._surplus(away)
        away = np.setdiff1d(away, surplus, assume_unique=True)
        surplus += self._colour(away)
        self.off_src[self.src[surplus]] += 1
        self.off_dst[self.dst[surplus]] += 1
        return np.setdiff1d(flows, surplus, assume_unique=True), surplus

    def _surplus(self, away: FlowArray) -> list[int]:
        """Flows without which no leaf has more than links."""
        leaves = len(self.links)
        out = np.bincount(self.a[away], minlength=leaves) - self.links
        into = np.bincount(self.b[away], minlength=leaves) - self.links
        chosen: list[int] = []
        if out.max(initial=0) <= 0 and into.max(initial=0) <= 0:
            return chosen
        free = np.ones(len(away), np.bool_)
        while out.max() > 0 or into.max() > 0:
            relief = (out > 0).astype(np.int64)[self.a[away]] + (into > 0)[self.b[away]]
            # A server with much put off decides how many phases that will take: the greater of both counts first.
            ends = self.off_src[self.src[away]], self.off_dst[self.dst[away]]
            cost = (2 - relief) * 1_000_000 + np.maximum(*ends) * 1_000 + np.minimum(*ends)
            cost[~free | (relief == 0)] = np.iinfo(np.int64).max
            pick = int(np.argmin(cost))
            free[pick] = False
            flow = int(away[pick])
            chosen.append(flow)
            out[self.a[flow]] -= 1
            into[self.b[flow]] -= 1
        return chosen

    def _colour(self, away: FlowArray) -> list[int]:
        """Give flows of one phase spines, beginning with those they have; return those that got none."""
        a, b = np.ascontiguousarray(self.a[away]), np.ascontiguousarray(self.b[away])
        colour = np.ascontiguousarray(self.spine[away])
        broken = (colour == INSIDE) | ~(self.alive[a, colour] & self.alive[b, colour])
        if not broken.any():
            return []
        colour[broken] = INSIDE
        complete(a, b, self.alive, self.alive, colour, _BUDGET, _SEED)
        routed = colour != INSIDE
        self.spine[away[routed]] = colour[routed]
        return away[~routed].tolist()

    def fill(self, phases: list[FlowArray], waiting: list[int]) -> list[int]:
        """Put flows into phases in which both servers rest and links allow it; return those that fit nowhere."""
        for number, flows in enumerate(phases):
            if not waiting:
                break
            added = self._matching(waiting, flows)
            if not added:
                continue
            before = self.spine[flows].copy()
            for flow in added:
                self.spine[flow] = INSIDE
            both = np.concatenate([flows, np.array(added, np.int64)])
            refused = set(self._colour(both[self.a[both] != self.b[both]]))
            if refused & set(flows.tolist()):  # a flow of the phase itself was driven out: leave the phase as it was
                self.spine[flows] = before
                continue
            taken = set(added) - refused
            phases[number] = np.concatenate([flows, np.array(sorted(taken), np.int64)])
            waiting = [flow for flow in waiting if flow not in taken]
        return waiting

    def new_phase(self, waiting: list[int]) -> tuple[FlowArray, list[int]]:
        """One more phase, with as many of the flows as go; the others."""
        chosen = np.array(self._matching(waiting, np.zeros(0, np.int64)), np.int64)
        self.spine[chosen] = INSIDE
        away = chosen[self.a[chosen] != self.b[chosen]]
        refused = set(self._colour(away))
        kept = np.array([flow for flow in chosen.tolist() if flow not in refused], np.int64)
        gone = set(kept.tolist())
        return kept, [flow for flow in waiting if flow not in gone]

    def _matching(self, waiting: list[int], present: FlowArray) -> list[int]:
        """Flows that fit a phase beside those present: servers that rest, leaves that have links. Flows of the servers
        that have most to do come first."""
        flows = np.array(waiting, np.int64)
        src_left = np.bincount(self.src[flows], minlength=len(self.off_src))
        dst_left = np.bincount(self.dst[flows], minlength=len(self.off_dst))
        ends = src_left[self.src[flows]], dst_left[self.dst[flows]]
        order = np.lexsort((np.minimum(*ends), np.maximum(*ends)))[::-1]
        away = present[self.a[present] != self.b[present]]
        out = self.links - np.bincount(self.a[away], minlength=len(self.links))
        into = self.links - np.bincount(self.b[away], minlength=len(self.links))
        sending, receiving = set(self.src[present].tolist()), set(self.dst[present].tolist())
        chosen = []
        for flow in flows[order].tolist():
            s, d, a, b = int(self.src[flow]), int(self.dst[flow]), int(self.a[flow]), int(self.b[flow])
            if s in sending or d in receiving or (a != b and (out[a] <= 0 or into[b] <= 0)):
                continue
            sending.add(s)
            receiving.add(d)
            if a != b:
                out[a] -= 1
                into[b] -= 1
            chosen.append(flow)
        return chosen
