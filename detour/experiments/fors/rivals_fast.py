# SPDX-License-Identifier: Apache-2.0
"""FAST for skewed all-to-all-v (Lei et al., arXiv 2505.09764), whole: servers of a fabric as GPUs of machines.

A machine is G consecutive servers of a leaf, joined by a scale-up network; each of them has its link to the leaf as
well. FAST's steps, as its authors' scheduler has them (`fast_alltoall` in their fork of RCCL):

1. *Balancing.* For every pair of machines, servers that have more than the mean for the other machine hand the rest
   to those that have less, over the scale-up network, before anything else.
2. *Phases.* Birkhoff's decomposition of the machines' matrix. In a phase a machine sends to one machine and gets from
   one: each of its servers sends as much as the others, to the server in its own place there, so nothing meets.
3. *Redistribution.* What came for another server of the machine goes on to it over the scale-up network during the
   next phase, and after the last one. What servers of a machine have for each other goes during the first.

The scale-up network is not simulated: a step on it lasts as long as its busiest server takes at full speed, out or in,
without latency. FAST's authors take bytes by destination in order; here a phase takes its part of all alike, which
spares it queues of redistribution before one server.

`fast-fors` are the same first and third steps around phases of FORS, which knows of links.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from detour.base.arrays import Int64Array
from detour.base.errors import DetourError
from detour.control.fors.fabric import FatTree
from detour.control.fors.lp_bound import lp_bound
from detour.experiments.fors.rival_messages import decomposed, emptiest
from detour.fabric.traffic.phased import PhasedMessages


@dataclass(frozen=True)
class ScaleUp:
    """`hosts` servers to a machine; `speed`: of a server's port to the network inside, in rates of its link."""

    hosts: int
    speed: Fraction

    def machines(self, fabric: FatTree) -> int:
        """Number of machines. Raises `DetourError`: servers do not form machines."""
        if not fabric.taking_part().all() or fabric.hosts % self.hosts:
            raise DetourError(f"{fabric.name}: a leaf's servers cannot form machines of {self.hosts} servers")
        return fabric.servers // self.hosts


class InsideWork(NamedTuple):
    """The work of the scale-up network as time: bytes of a server's link."""

    before: float
    """the first phase"""
    during: np.ndarray
    """(phases,) each of them"""
    after: float
    """the last one"""
    beside: float
    """all of them together"""

    def whole(self, phases: np.ndarray) -> float:
        """Return the total time, given the times of the `phases` (bytes of a server's link, too) alone."""
        return self.before + max(float(np.maximum(phases, self.during).sum()), self.beside) + self.after


def between_machines(sizes: Int64Array, hosts: int) -> Int64Array:
    """`sizes` without what servers of a machine have for each other. Raises `DetourError`: nothing is left."""
    machine = np.arange(len(sizes)) // hosts
    away = np.where(machine[:, None] == machine[None, :], 0, sizes)
    if not away.any():
        raise DetourError(f"no server sends to another machine of {hosts} servers")
    return away


def inside_bytes(sizes: Int64Array, scale_up: ScaleUp) -> float:
    """Time for what servers of a machine have for each other."""
    return _busiest(sizes - between_machines(sizes, scale_up.hosts), scale_up)


def machines_bound(fabric: FatTree, sizes: Int64Array, scale_up: ScaleUp) -> int:
    """Bytes of a server's link that every scheme takes: the busiest machine's over all of its links, what leaves and
    spines need, and what goes inside machines."""
    count = scale_up.machines(fabric)
    away = between_machines(sizes, scale_up.hosts)
    volume = away.reshape(count, scale_up.hosts, count, scale_up.hosts).sum(axis=(1, 3))
    busiest = max(int(volume.sum(axis=end).max()) for end in (0, 1))
    inside = int(np.ceil(inside_bytes(sizes, scale_up)))
    return max(-(-busiest // scale_up.hosts), lp_bound(fabric, away).links, inside)


def beside(sizes: Int64Array, scale_up: ScaleUp, phases: int) -> InsideWork:
    """For those who do not balance: what goes inside machines does so while all the rest goes on."""
    return InsideWork(0.0, np.zeros(phases), 0.0, inside_bytes(sizes, scale_up))


@dataclass(frozen=True)
class Levelled:
    """Bytes after balancing. `held`: (n, n) that each server has for each other one of other machines; `moved`: (n, n)
    that servers have handed to others of their machine for it."""

    sizes: Int64Array
    held: Int64Array
    moved: Int64Array
    scale_up: ScaleUp

    @classmethod
    def of(cls, sizes: Int64Array, scale_up: ScaleUp) -> Levelled:
        """Balance every machine's bytes for every other one."""
        hosts = scale_up.hosts
        held = between_machines(sizes, hosts).astype(np.int64)
        moved = np.zeros_like(held)
        for first in range(0, len(sizes), hosts):
            for target in range(0, len(sizes), hosts):
                if first != target:
                    tile = held[first : first + hosts, target : target + hosts]
                    moved[first : first + hosts, first : first + hosts] += _level(tile)
        return cls(sizes, held, moved, scale_up)

    @property
    def share(self) -> Int64Array:
        """(n, machines) bytes that a server has for a machine."""
        return self.held.reshape(len(self.held), -1, self.scale_up.hosts).sum(axis=2)

    def peers(self) -> Int64Array:
        """(n, n) bytes as they go over the fabric: from each server to the one in its own place of other machines."""
        count, hosts = len(self.held), self.scale_up.hosts
        sizes, place = np.zeros((count, count), np.int64), np.arange(count) % hosts
        for machine in range(count // hosts):
            sizes[np.arange(count), machine * hosts + place] = self.share[:, machine]
        return sizes

    def work(self, messages: PhasedMessages) -> InsideWork:
        """Return the work inside machines before, during and after these phases, which send all of `peers`."""
        hosts, share = self.scale_up.hosts, self.share
        assert messages.size is not None
        afterwards = []
        for number in np.unique(messages.phase):
            mine = messages.phase == number
            src, dst, size = messages.src[mine], messages.dst[mine], messages.size[mine]
            machine = dst // hosts
            inside = machine[:, None] * hosts + np.arange(hosts)
            part = self.held[src[:, None], inside] * (size / share[src, machine])[:, None]
            on = np.zeros(self.held.shape)
            np.add.at(on, (dst[:, None], inside), part)
            np.fill_diagonal(on, 0)
            afterwards.append(_busiest(on, self.scale_up))
        during = np.array([inside_bytes(self.sizes, self.scale_up), *afterwards[:-1]])
        return InsideWork(_busiest(self.moved, self.scale_up), during, afterwards[-1], 0.0)


def fast(fabric: FatTree, level: Levelled, phase_cost: int) -> PhasedMessages:
    """Return FAST's messages over the fabric. `phase_cost`: bytes, as in `plan_unequal`."""
    hosts = level.scale_up.hosts
    share = level.share.reshape(-1, hosts, level.share.shape[1]).swapaxes(1, 2)
    """(machines, machines, hosts) bytes that each server of a machine has for another machine"""
    done, parts = np.zeros_like(share), []
    for number, (s, d, sent) in enumerate(decomposed(share.max(axis=2), phase_cost)):
        begun = done[s, d]
        done[s, d] = np.minimum(begun + sent[:, None], share[s, d])
        size = done[s, d] - begun
        src, dst = (machine[:, None] * hosts + np.arange(hosts) for machine in (s, d))
        some = size > 0
        src, dst = src[some].astype(np.int64), dst[some].astype(np.int64)
        parts.append((np.full(len(src), number), src, dst, emptiest(fabric, src, dst), size[some]))
    phase, src, dst, path, size = (np.concatenate(column).astype(np.int64) for column in zip(*parts, strict=True))
    return PhasedMessages(phase, src, dst, path, size=size)


def _level(tile: Int64Array) -> Int64Array:
    """Levels the rows of one machine's bytes (its servers, the other's servers) in place, to a byte; who gave how much
    to whom (servers, servers)."""
    hosts, total = len(tile), int(tile.sum())
    goal = np.full(hosts, total // hosts)
    goal[np.argsort(-tile.sum(axis=1), kind="stable")[: total % hosts]] += 1
    gave = np.zeros((hosts, hosts), np.int64)
    over = tile.sum(axis=1) - goal
    for giver in np.flatnonzero(over > 0).tolist():
        for taker in np.flatnonzero(over < 0).tolist():
            room = min(int(over[giver]), -int(over[taker]))
            # Whole destinations in order, as FAST does, until there is no more to give.
            before = np.concatenate([[0], np.cumsum(tile[giver])])
            part = np.diff(np.minimum(before, room))
            tile[giver] -= part
            tile[taker] += part
            gave[giver, taker] += room
            over[giver] -= room
            over[taker] += room
    return gave


def _busiest(moved: np.ndarray, scale_up: ScaleUp) -> float:
    """Time for the busiest server to hand over, or get, so many bytes (n, n)."""
    most = max(float(moved.sum(axis=end).max(initial=0)) for end in (0, 1))
    return most / float(scale_up.speed)
