# SPDX-License-Identifier: Apache-2.0
"""Replanning the rest of an exchange when links fail, on any fat-tree: several cables, oversubscription, three levels.

As `residual`, which is for one cable from leaf to spine: phases keep what they can. There spines are colours of a
graph's edges; here a path takes up to four links of which each has room for some flows. So in every phase

1. where a leaf, or a pod, has more flows than its links have room for, the surplus is put off, evenly over servers;
2. flows whose path broke take another one, and others make room along the shortest chain;
3. what was put off, or found no chain, goes into other phases in which both servers rest, or into new ones.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np

from detour.base.arrays import Int64Array
from detour.control.fors.fabric import FatTree
from detour.control.fors.paths import INSIDE, TreePaths

_DEEPEST = 4  # flows that a chain may move
_PHASES_TRIED = 8  # phases in which others are moved for a flow that was put off
GONE = -1  # the phase of a flow that nobody can deliver


def repaired(
    tree: FatTree, phase: Int64Array, src: Int64Array, dst: Int64Array, path: Int64Array, *, same_spine: bool = False
) -> tuple[Int64Array, Int64Array]:
    """Phases and paths for flows (arrays of equal length, phases in the order in which they were to come) on the links
    of `tree` that work. The plan is free of contention if the given one was; `GONE` where two leaves have no path.
    `same_spine`: on two levels, another cable to a flow's spine comes before another spine."""
    work = _Work.of(tree, *(np.asarray(one, np.int64) for one in (phase, src, dst, path)))
    if same_spine:
        work.spine = TreePaths(tree).parts(np.asarray(path, np.int64))[0]
    for number in range(work.phases):
        work.relieve(number)
        for flow in work.homeless(number):
            if not work.bring_in(flow, number):
                work.put_off(flow)
    work.fill()
    return work.dense_phases(), work.path


@dataclass
class _Work:
    """The flows, and how much of every link and server phases have used."""

    paths: TreePaths
    at_once: int
    room: Int64Array  # (2 * links,) flows of a phase, up and down
    gates: Int64Array
    """(flows, gates) leaves and pods that a flow leaves and enters, -1 for none, and how many each lets through"""
    gate_room: Int64Array
    src: Int64Array
    dst: Int64Array
    a: Int64Array
    b: Int64Array
    phase: Int64Array
    path: Int64Array
    used: Int64Array  # (phases, 2 * links)
    turns: Int64Array  # (phases, 2, servers) messages out and in
    off: Int64Array  # (2, servers) messages that were put off
    spine: Int64Array | None = None  # of each flow, which it keeps if it can; None: any is as good
    late: list[int] = field(default_factory=list)
    _choices: dict[tuple[int, int], tuple[Int64Array, Int64Array]] = field(default_factory=dict)

    @classmethod
    def of(cls, tree: FatTree, phase: Int64Array, src: Int64Array, dst: Int64Array, path: Int64Array) -> _Work:
        """Whatever goes over links that work is where it was; other flows have a phase and no path (`INSIDE`)."""
        paths = TreePaths(tree)
        up = paths.working()
        a, b = src // tree.hosts, dst // tree.hosts
        links = paths.crossed(a, b, path)
        broken = ((links >= 0) & ~up[links]).any(axis=1)
        _, dense = np.unique(phase, return_inverse=True)
        count = int(dense.max(initial=-1)) + 1
        gates, gate_room = paths.gates(a, b)
        work = cls(
            paths=paths, at_once=tree.at_once, room=np.tile(up.astype(np.int64) * paths.lanes, 2), gates=gates,
            gate_room=gate_room, src=src, dst=dst, a=a, b=b, phase=dense.astype(np.int64),
            path=np.where(broken, INSIDE, path), used=np.zeros((count, 2 * len(up)), np.int64),
            turns=np.zeros((count, 2, tree.slots), np.int64), off=np.zeros((2, tree.slots), np.int64),
        )  # fmt: skip
        np.add.at(work.turns[:, 0], (work.phase, src), 1)
        np.add.at(work.turns[:, 1], (work.phase, dst), 1)
        kept = paths.directed(a, b, work.path)
        row, column = np.nonzero(kept >= 0)
        np.add.at(work.used, (work.phase[row], kept[row, column]), 1)
        for flow in np.flatnonzero((a != b) & (work.path == INSIDE)).tolist():
            if not len(work._choice(flow)[0]):
                work._leave_phase(flow)
        return work

    @property
    def phases(self) -> int:
        """So far."""
        return len(self.used)

    def dense_phases(self) -> Int64Array:
        """Phases that have flows, numbered anew in their order."""
        there = self.phase >= 0
        numbers = np.full(len(self.phase), GONE, np.int64)
        numbers[there] = np.unique(self.phase[there], return_inverse=True)[1]
        return numbers

    def homeless(self, number: int) -> list[int]:
        """Flows of a phase that leave their leaf and have no path."""
        return np.flatnonzero((self.phase == number) & (self.a != self.b) & (self.path == INSIDE)).tolist()

    def relieve(self, number: int) -> None:
        """Put off flows without which no leaf or pod has more than its links let through. First those that relieve
        most, among these those whose servers have least put off: what is put off becomes phases of its own."""
        flows = np.flatnonzero((self.phase == number) & (self.a != self.b))
        if not (self.path[flows] == INSIDE).any():
            return
        gates = self.gates[flows]
        load = np.bincount(gates[gates >= 0], minlength=len(self.gate_room)) - self.gate_room
        while load.max(initial=0) > 0 and len(flows):
            relief = ((load > 0)[gates] & (gates >= 0)).sum(axis=1)
            ends = self.off[0, self.src[flows]], self.off[1, self.dst[flows]]
            homeless = self.path[flows] == INSIDE
            order = np.lexsort((~homeless, np.minimum(*ends), np.maximum(*ends), -relief))
            pick = order[0]
            load[gates[pick][gates[pick] >= 0]] -= 1
            self.put_off(int(flows[pick]))
            flows, gates = np.delete(flows, pick), np.delete(gates, pick, axis=0)

    def put_off(self, flow: int) -> None:
        """The flow leaves its phase and gets another one later."""
        self.off[0, self.src[flow]] += 1
        self.off[1, self.dst[flow]] += 1
        self._leave_phase(flow)
        self.late.append(flow)

    def _leave_phase(self, flow: int) -> None:
        number = self.phase[flow]
        self.turns[number, 0, self.src[flow]] -= 1
        self.turns[number, 1, self.dst[flow]] -= 1
        self._take(flow, INSIDE)
        self.phase[flow] = GONE

    def _take(self, flow: int, path: int) -> None:
        """The flow goes another way in its phase."""
        number = self.phase[flow]
        self.used[number, self._links(flow, int(self.path[flow]))] -= 1
        self.used[number, self._links(flow, path)] += 1
        self.path[flow] = path

    def _links(self, flow: int, path: int) -> Int64Array:
        if path == INSIDE:
            return np.zeros(0, np.int64)
        paths, links = self._choice(flow)
        mine = links[np.searchsorted(paths, path)]
        return mine[mine >= 0]

    def _choice(self, flow: int) -> tuple[Int64Array, Int64Array]:
        """Paths over working links, in order, and their directed links (paths, most links of a path); -1: none."""
        ends = int(self.a[flow]), int(self.b[flow])
        if ends not in self._choices:
            up = self.room[: len(self.room) // 2] > 0
            paths = self.paths.usable(*ends, up)
            source, target = (np.full(len(paths), leaf) for leaf in ends)
            self._choices[ends] = paths, self.paths.directed(source, target, paths)
        return self._choices[ends]

    def bring_in(self, flow: int, number: int, deepest: int = _DEEPEST) -> bool:
        """A path for a flow of the phase, the shortest chain of others making room. False: there is none."""
        before: dict[int, tuple[int, int]] = {flow: (-1, INSIDE)}
        queue = deque([(flow, 1)])
        while queue:
            at, depth = queue.popleft()
            paths, links = self._choice(at)
            full = (links >= 0) & (self.used[number, links] >= self.room[links])
            mine = set(self._links(at, int(self.path[at])).tolist())
            elsewhere = np.zeros(len(paths)) if self.spine is None else self.paths.parts(paths)[0] != self.spine[at]
            for k in np.lexsort((elsewhere, full.sum(axis=1))).tolist():
                path = int(paths[k])
                blocked = [link for link in links[k][full[k]].tolist() if link not in mine]
                if path == self.path[at] or len(blocked) > 1:
                    continue
                if not blocked:
                    if self._shift(at, path, before):
                        return True
                elif depth < deepest:
                    for other in self._holders(number, blocked[0]):
                        if other not in before:
                            before[other] = (at, path)
                            queue.append((other, depth + 1))
        return False

    def _holders(self, number: int, link: int) -> list[int]:
        flows = np.flatnonzero((self.phase == number) & (self.path != INSIDE))
        return [flow for flow in flows.tolist() if link in self._links(flow, int(self.path[flow]))]

    def _shift(self, last: int, path: int, before: dict[int, tuple[int, int]]) -> bool:
        """Carry out the chain that ends with `last` on a path, unless flows of it are in each other's way."""
        done: list[tuple[int, int]] = []
        at, to = last, path
        number = self.phase[last]
        while at >= 0:
            done.append((at, int(self.path[at])))
            self._take(at, to)
            at, to = before[at]
        if (self.used[number] <= self.room).all():
            return True
        for flow, old in reversed(done):
            self._take(flow, old)
        return False

    def fill(self) -> None:
        """Phases for what was put off, flows of the servers that have most to do first."""
        ends = self.off[0, self.src[self.late]], self.off[1, self.dst[self.late]]
        order = np.lexsort((np.minimum(*ends), np.maximum(*ends)))[::-1] if self.late else []
        for flow in [self.late[k] for k in order]:
            resting = (self.turns[:, 0, self.src[flow]] < self.at_once) & (
                self.turns[:, 1, self.dst[flow]] < self.at_once
            )
            if not self._into(flow, np.flatnonzero(resting)):
                self.used = np.concatenate([self.used, np.zeros_like(self.used[:1])])
                self.turns = np.concatenate([self.turns, np.zeros_like(self.turns[:1])])
                self._into(flow, np.array([self.phases - 1]))

    def _into(self, flow: int, phases: Int64Array) -> bool:
        """Into one of the phases: first where a path is free, else where others make room."""
        paths, links = self._choice(flow)
        taken = np.asarray((links >= 0) & (self.used[phases][:, links] >= self.room[links]))
        free = ~np.any(taken, axis=2)
        for k in np.flatnonzero(np.any(free, axis=1)).tolist()[:1]:
            self._enter(flow, int(phases[k]))
            self._take(flow, int(paths[np.argmax(free[k])]))
            return True
        for number in phases[:_PHASES_TRIED].tolist():
            self._enter(flow, number)
            if self.bring_in(flow, number, 2):
                return True
            self._leave_phase(flow)
        return False

    def _enter(self, flow: int, number: int) -> None:
        self.phase[flow] = number
        self.turns[number, 0, self.src[flow]] += 1
        self.turns[number, 1, self.dst[flow]] += 1
