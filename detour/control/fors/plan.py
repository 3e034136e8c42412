# SPDX-License-Identifier: Apache-2.0
"""The plan of an exchange: which server sends to which in each phase, and over which spine (and core)."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from detour.base.arrays import Int64Array
from detour.control.fors.fabric import FatTree
from detour.control.fors.paths import INSIDE, TreePaths


class Schedule(NamedTuple):
    """Flows without spines. Servers are numbered as in `FatTree`; nobody sends to itself here."""

    phases: int
    phase: np.ndarray  # (flows,) int32, 0..phases-1
    src: np.ndarray  # (flows,) int32
    dst: np.ndarray  # (flows,) int32


@dataclass(frozen=True)
class PlanSeconds:
    """The time that each step of planning took."""

    schedule: float = 0.0
    route: float = 0.0
    verify: float = 0.0


@dataclass(frozen=True)
class ForsPlan:
    """A schedule with its routing. Rows are sorted by phase, then source."""

    fabric: FatTree
    phases: int
    phase: np.ndarray  # (flows,) int32, 0..phases-1
    src: np.ndarray  # (flows,) int32
    dst: np.ndarray  # (flows,) int32
    spine: np.ndarray  # (flows,) int32, 0..spines-1 (on three levels the plane); `INSIDE` (-1) for a flow inside a leaf
    method: str = ""  # how it was found: schedule/routing
    lower_bound: int = 0  # phases that every plan needs
    optimal: bool = False  # whether it is proven that no plan has fewer phases
    unreachable: tuple[tuple[int, int], ...] = ()  # pairs of leaves that no path joins, whose flows are left out
    seconds: PlanSeconds = field(default=PlanSeconds(), compare=False)
    cables: np.ndarray | None = None
    """(2, flows) int32: which cable of those to the spine, 0..cables-1, at the sender's leaf and at the receiver's (0
    inside a leaf); None: the only one"""
    core: np.ndarray | None = None  # (flows,) int32: the core of the plane; -1 inside a pod; None: two levels

    @property
    def flows(self) -> int:
        """Rows."""
        return len(self.phase)

    def paths(self) -> np.ndarray:
        """(flows,) int64: spine, core and cables as one number (`control.fors.paths`); `INSIDE`."""
        cables = np.zeros((2, self.flows), np.int64) if self.cables is None else self.cables
        core = np.full(self.flows, INSIDE) if self.core is None else self.core
        return TreePaths(self.fabric).of(self.spine.astype(np.int64), core, *cables)

    def uplink(self, end: int) -> np.ndarray:
        """(flows,) int32: spine * cables + cable at the sender's leaf (`end` 0) or at the receiver's (1); `INSIDE`."""
        if self.cables is None:
            return self.spine
        return np.where(self.spine == INSIDE, INSIDE, self.spine * self.fabric.cables + self.cables[end])


@dataclass(frozen=True, kw_only=True)
class UnequalPlan(ForsPlan):
    """Rows send bytes of their own. `lower_bound` counts bytes, as `length` does."""

    sent: Int64Array
    sizes: Int64Array  # (n, n) bytes that are to be sent between the servers that take part, in order
    by_servers: int = 0  # the bound by the busiest server alone
    by_links: int = 0  # and by links between leaves and spines alone

    @cached_property
    def lengths(self) -> Int64Array:
        """(phases,) bytes of each phase's longest piece."""
        longest = np.zeros(self.phases, np.int64)
        np.maximum.at(longest, self.phase, self.sent)
        return longest

    @property
    def length(self) -> int:
        """The time that the whole takes, in bytes of a server's link."""
        return int(self.lengths.sum())


def by_phase(phase: np.ndarray, key: np.ndarray) -> np.ndarray:
    """The order by phase, then key. Radix sorts, where the numbers are small enough for NumPy's."""
    if phase.max(initial=0) >= 1 << 16 or key.max(initial=0) >= 1 << 16:
        return np.lexsort((key, phase))
    order = np.argsort(key.astype(np.uint16), kind="stable")
    return order[np.argsort(phase[order].astype(np.uint16), kind="stable")]


def arranged(
    fabric: FatTree, schedule: Schedule, spine: np.ndarray, cables: np.ndarray | None = None,
    core: np.ndarray | None = None,
) -> ForsPlan:  # fmt: skip
    """A plan with its rows in order; method, bound and times are for the caller to add."""
    order = by_phase(schedule.phase, schedule.src)
    phase, src, dst, spines = (
        column[order].astype(np.int32) for column in (schedule.phase, schedule.src, schedule.dst, spine)
    )
    if cables is not None:
        cables = cables[:, order].astype(np.int32)
    if core is not None:
        core = core[order].astype(np.int32)
    return ForsPlan(fabric, schedule.phases, phase, src, dst, spines, cables=cables, core=core)


def only_present(fabric: FatTree, schedule: Schedule, unreachable: tuple[tuple[int, int], ...] = ()) -> Schedule:
    """The schedule without servers that take no part and without pairs that nothing joins."""
    keep = fabric.taking_part()[schedule.src] & fabric.taking_part()[schedule.dst]
    if unreachable:
        cut = np.zeros((fabric.leaves, fabric.leaves), bool)
        for u, v in unreachable:
            cut[u, v] = cut[v, u] = True
        keep &= ~cut[schedule.src // fabric.hosts, schedule.dst // fabric.hosts]
    return Schedule(schedule.phases, schedule.phase[keep], schedule.src[keep], schedule.dst[keep])
