# SPDX-License-Identifier: Apache-2.0
"""Flows that leave their phase: two phases exchange some, and every server still sends and receives once at most.

The flows of two phases, seen as edges between senders and receivers, make paths and even cycles. Exchanging one of
these components takes its flows of one phase to the other and back; whoever sends or receives in it does so once a
phase still. The smallest ones are tried first: a single flow whose two servers rest in the other phase.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from detour.base.arrays import Bools2, Int32s1, Int32s2, Int32s3
from detour.base.jit import allocating, int64
from detour.control.fors.fabric import FatTree
from detour.control.fors.paths import INSIDE
from detour.control.fors.plan import ForsPlan
from detour.control.fors.recolour import recoloured
from detour.control.native import FORS_PART

TRIES = 2
"""Attempts to route a phase"""
SWAP_BUDGET = 60
"""and how many flows may drive others out in each."""
_LONGEST = 160  # Flows of a component at most.
_FEW, _MANY = 32, 256
"""Components that are tried for one phase: at first, and if none of these will do."""
_ROUNDS = 6


class _Flows(NamedTuple):
    """An assignment as native code sees it."""

    phase: Int32s1  # (flows,) int32
    spine: Int32s1  # (flows,) int32
    src: Int32s1  # (flows,) int32 servers
    dst: Int32s1  # (flows,) int32 servers
    leaves: Int32s2  # (2, flows) int32: of the senders, of the receivers
    at: Int32s3  # (2, phases, servers) int32: the flow that a server sends and the one that it receives, -1: none
    loads: Int32s3  # (2, phases, leaves) int32: flows out of a leaf and into it
    alive: Bools2  # (leaves, spines) bool: links
    links: Int32s1  # (leaves,) int32: how many are alive


class PhaseAssignment:
    """Phases and spines of a plan while flows go from phase to phase. `phase` and `spine` are changed in place."""

    def __init__(self, plan: ForsPlan, fabric: FatTree, phase: np.ndarray, spine: np.ndarray) -> None:
        self.phase, self.spine = phase, spine
        self.alive = fabric.alive
        self.links = self.alive.sum(axis=1).astype(np.int32)
        self.src, self.dst = plan.src, plan.dst
        self.leaves = np.stack([plan.src // fabric.hosts, plan.dst // fabric.hosts]).astype(np.int32)
        self.at = np.full((2, plan.phases, fabric.slots), -1, np.int32)
        self.loads = np.empty((2, plan.phases, fabric.leaves), np.int32)
        rows = np.arange(plan.flows, dtype=np.int32)
        outside = self.leaves[0] != self.leaves[1]
        for end, server in enumerate((plan.src, plan.dst)):
            self.at[end, phase, server] = rows
            key = phase[outside] * fabric.leaves + self.leaves[end, outside]
            count = np.bincount(key, minlength=plan.phases * fabric.leaves)
            self.loads[end] = count.reshape(plan.phases, fabric.leaves)
        self.flows = _Flows(phase, spine, plan.src, plan.dst, self.leaves, self.at, self.loads, self.alive, self.links)

    def resolve(self, p: int) -> bool:
        """Spines for all flows of phase p, some of which may go to other phases; whether it succeeded."""
        for _ in range(_ROUNDS):
            over = [load[p] > self.links for load in self.loads]
            crowded = bool(over[0].any() or over[1].any())
            if not crowded and self._route(p):
                return True
            rows = self.at[0, p][self.at[0, p] >= 0]
            u, v = self.leaves[:, rows]
            candidates = (over[0][u] | over[1][v]) & (u != v) if crowded else (self.spine[rows] < 0) & (u != v)
            if not self._relieve(p, rows[candidates]):
                return False
        return False

    def _relieve(self, p: int, rows: np.ndarray) -> bool:
        """Exchange a component with one of these rows, so that the other phase can be routed."""
        tried = 0
        for candidates in (_FEW, _MANY):
            components = np.empty((candidates, 3), np.int32)
            count = _components(p, rows, self.flows, _LONGEST, components)
            new = components[tried:count]
            if any(self._try(p, q, row) for _, row, q in new[np.argsort(new[:, 0], kind="stable")].tolist()):
                return True
            tried = count
        return False

    def _try(self, p: int, q: int, row: int) -> bool:
        """Exchange the component of one row with phase q, if phase q can be routed then."""
        crowded = any((load[p] > self.links).any() for load in self.loads)
        members = np.empty(_LONGEST, np.int32)
        size = _component(row, p, q, self.flows, members)
        both = self.at[0, [p, q]].ravel()
        both = both[both >= 0]
        before = self.spine[both]
        self._move(members[:size], p, q)
        self.spine[members[:size]] = INSIDE
        # With one flow less without spine, the next round has less to do.
        if self._route(q) and (crowded or size == 1 or self._route(p)):
            return True
        self._move(members[:size], p, q)
        self.spine[both] = before
        return False

    def _move(self, members: np.ndarray, p: int, q: int) -> None:
        """Take members of p to q and those of q to p."""
        for end, server in enumerate((self.src, self.dst)):
            for phase in (p, q):
                self.at[end, phase, server[members]] = -1
        self.phase[members] = p + q - self.phase[members]
        outside = members[self.leaves[0, members] != self.leaves[1, members]]
        for end, server in enumerate((self.src, self.dst)):
            self.at[end, self.phase[members], server[members]] = members
            np.add.at(self.loads[end], (self.phase[outside], self.leaves[end, outside]), 1)
            np.add.at(self.loads[end], (p + q - self.phase[outside], self.leaves[end, outside]), -1)

    def _route(self, p: int) -> bool:
        """Spines for the flows of phase p that have none."""
        rows = self.at[0, p][self.at[0, p] >= 0]
        u, v = self.leaves[:, rows]
        rows, u, v = rows[u != v], u[u != v], v[u != v]
        new = recoloured(u, v, self.alive, self.spine[rows], SWAP_BUDGET, TRIES)
        if new is None:
            return False
        self.spine[rows] = new
        return True


@FORS_PART.entry
def _components(p: int, rows: Int32s1, flows: _Flows, longest: int, components: Int32s2) -> int:
    """Components that a row of phase p and another phase's flows make and that may be exchanged: cost, row, phase. They
    must not crowd the other phase, nor p at a leaf that is not crowded yet. The cost is the length, and more where the
    row would not find a free spine. Returns how many were found."""
    members = np.empty(longest, np.int32)
    phases = flows.at.shape[1]
    stride = 7 if phases % 7 else 1
    count = 0
    for most in (1, 3, 7, 24, longest):
        for free in (True, False):
            q = p
            for _ in range(1, phases):
                q = (q + stride) % phases
                for row in rows:
                    if not _room(row, p, q, flows):
                        continue
                    if free != _finds_spine(row, q, flows):
                        continue
                    size = _component(int64(row), p, q, flows, members)
                    if size < 1 or size > most or not _fits(members[:size], p, q, flows):
                        continue
                    components[count, 0], components[count, 1], components[count, 2] = size + 4 * (not free), row, q
                    count += 1
                    break
                if count == len(components):
                    return count
        if 2 * count >= len(components):
            return count
    return count


@allocating
def _room(row, p, q, flows):
    """Return whether q can take in a row at an end where p is crowded: what p gives away there, q gets."""
    leaves, loads, links = flows.leaves, flows.loads, flows.links
    for end in range(2):
        leaf = leaves[end, row]
        if loads[end, p, leaf] > links[leaf] and loads[end, q, leaf] >= links[leaf]:
            return False
    return True


@allocating
def _finds_spine(row, q, flows):
    """Return whether a spine is free in phase q at both ends of a row."""
    leaves, alive = flows.leaves, flows.alive
    spines = alive.shape[1]
    free = alive[leaves[0, row]] & alive[leaves[1, row]]
    for k in range(spines):
        for end in range(2):
            other = flows.at[end, q, leaves[end, row] * spines + k]
            if other >= 0 and flows.spine[other] >= 0:
                free[flows.spine[other]] = False
    return free.any()


@FORS_PART.entry
def _component(row: int, p: int, q: int, flows: _Flows, members: Int32s1) -> int:
    """The rows of phases p and q that hang together with `row` of phase p; returns how many, -1: too many."""
    src, dst, at = flows.src, flows.dst, flows.at
    size = 1
    members[0] = row
    for direction in range(2):
        # From a receiver of p to who sends to it in q, to whom that one sends in p; or from a sender the other way.
        there = row
        while True:
            server = dst[there] if direction == 0 else src[there]
            back = at[1 - direction, q, server]
            if back < 0:
                break
            if size + 2 > len(members):
                return -1
            members[size] = back
            size += 1
            server = src[back] if direction == 0 else dst[back]
            there = at[direction, p, server]
            if there < 0:
                break
            if there == row:
                return size
            members[size] = there
            size += 1
    return size


@allocating
def _fits(members, p, q, flows):
    """Return whether an exchange leaves q with enough links and p no worse than it is."""
    _shift(members, p, q, flows, int64(1))
    fits = True
    for row in members:
        if flows.leaves[0, row] == flows.leaves[1, row]:
            continue
        for end in range(2):
            leaf = flows.leaves[end, row]
            came = q if flows.phase[row] == p else p
            if flows.loads[end, came, leaf] > flows.links[leaf]:
                fits = False
    _shift(members, p, q, flows, int64(-1))
    return fits


@allocating
def _shift(members, p, q, flows, by):
    phase, leaves, loads = flows.phase, flows.leaves, flows.loads
    for row in members:
        if leaves[0, row] != leaves[1, row]:
            for end in range(2):
                leaf = leaves[end, row]
                loads[end, phase[row], leaf] -= by
                loads[end, p + q - phase[row], leaf] += by
