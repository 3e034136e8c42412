# SPDX-License-Identifier: Apache-2.0
"""What is planned: who sends to whom in which phase, and over which spine."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from detour.control.fors.fabric import FatTree2

INSIDE = -1
"""The spine of a flow that does not leave its leaf."""


class Schedule(NamedTuple):
    """Flows without spines. Servers are numbered as in `FatTree2`; nobody sends to itself here."""

    phases: int
    phase: np.ndarray
    """(flows,) int32, 0..phases-1"""
    src: np.ndarray
    """(flows,) int32"""
    dst: np.ndarray
    """(flows,) int32"""


@dataclass(frozen=True)
class PlanSeconds:
    """What the steps of planning took."""

    schedule: float = 0.0
    route: float = 0.0
    verify: float = 0.0


@dataclass(frozen=True)
class ForsPlan:
    """A schedule with its routing. Rows are sorted by phase, then source."""

    fabric: FatTree2
    phases: int
    phase: np.ndarray
    """(flows,) int32, 0..phases-1"""
    src: np.ndarray
    """(flows,) int32"""
    dst: np.ndarray
    """(flows,) int32"""
    spine: np.ndarray
    """(flows,) int32, 0..spines-1; `INSIDE` (-1) for a flow inside a leaf"""
    method: str = ""
    """how it was found: schedule/routing"""
    lower_bound: int = 0
    """phases that every plan needs"""
    optimal: bool = False
    """whether it is proven that no plan has fewer phases"""
    unreachable: tuple[tuple[int, int], ...] = ()
    """pairs of leaves without a common spine, whose flows are left out"""
    seconds: PlanSeconds = field(default=PlanSeconds(), compare=False)
    cables: np.ndarray | None = None
    """(2, flows) int32: which cable of those to the spine, 0..cables-1, at the sender's leaf and at the receiver's (0
    inside a leaf); None: the only one"""

    @property
    def flows(self) -> int:
        """Rows."""
        return len(self.phase)

    def ways(self) -> np.ndarray:
        """(flows,) int: spine and cables as one number (`control.fors.ways`); `INSIDE`."""
        if self.cables is None:
            return self.spine
        count = self.fabric.cables
        return np.where(self.spine == INSIDE, INSIDE, (self.spine * count + self.cables[0]) * count + self.cables[1])

    def uplink(self, end: int) -> np.ndarray:
        """(flows,) int32: spine * cables + cable at the sender's leaf (`end` 0) or at the receiver's (1); `INSIDE`."""
        if self.cables is None:
            return self.spine
        return np.where(self.spine == INSIDE, INSIDE, self.spine * self.fabric.cables + self.cables[end])


def by_phase(phase: np.ndarray, key: np.ndarray) -> np.ndarray:
    """The order by phase, then key. Radix sorts, where the numbers are small enough for NumPy's."""
    if phase.max(initial=0) >= 1 << 16 or key.max(initial=0) >= 1 << 16:
        return np.lexsort((key, phase))
    order = np.argsort(key.astype(np.uint16), kind="stable")
    return order[np.argsort(phase[order].astype(np.uint16), kind="stable")]


def arranged(fabric: FatTree2, schedule: Schedule, spine: np.ndarray, cables: np.ndarray | None = None) -> ForsPlan:
    """A plan with its rows in order; method, bound and times are for the caller to add."""
    order = by_phase(schedule.phase, schedule.src)
    phase, src, dst, spines = (
        column[order].astype(np.int32) for column in (schedule.phase, schedule.src, schedule.dst, spine)
    )
    if cables is not None:
        cables = cables[:, order].astype(np.int32)
    return ForsPlan(fabric, schedule.phases, phase, src, dst, spines, cables=cables)


def only_present(fabric: FatTree2, schedule: Schedule, unreachable: tuple[tuple[int, int], ...] = ()) -> Schedule:
    """The schedule without servers that take no part and without pairs that nothing joins."""
    keep = fabric.taking_part()[schedule.src] & fabric.taking_part()[schedule.dst]
    if unreachable:
        cut = np.zeros((fabric.leaves, fabric.leaves), bool)
        for u, v in unreachable:
            cut[u, v] = cut[v, u] = True
        keep &= ~cut[schedule.src // fabric.hosts, schedule.dst // fabric.hosts]
    return Schedule(schedule.phases, schedule.phase[keep], schedule.src[keep], schedule.dst[keep])
