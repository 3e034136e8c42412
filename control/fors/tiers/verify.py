# SPDX-License-Identifier: Apache-2.0
"""Checks a plan for a fat-tree of three levels from its rows alone; nothing of how it was made is used."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from detour.control.fors.tiers.fabric import FatTree3
from detour.control.fors.tiers.solve import TierPlan


def tier_problems(plan: TierPlan, most: int = 10) -> list[str]:
    """What is wrong with a plan, a line each, at most `most`.

    Checked: every ordered pair of servers once but those of leaves that are called parted, which truly are; no server
    sends or receives twice in a phase; no link of either level has two flows in a direction or is one that failed;
    flows take planes and cores where, and only where, they leave their leaf and pod.
    """
    found: list[str] = []
    for text in _ranges(plan):
        found.append(text)
        if len(found) == most:
            return found
    if found:
        return found
    rows = _Rows.of(plan)
    for check in (_pairs, _ways, _once):
        for text in check(plan, rows):
            found.append(text)
            if len(found) == most:
                return found
    return found


class _Rows(NamedTuple):
    """Columns (flows,) int64: of the file, and what follows from where servers are."""

    phase: np.ndarray
    src: np.ndarray
    dst: np.ndarray
    plane: np.ndarray
    core: np.ndarray
    leaf: tuple[np.ndarray, np.ndarray]
    """at both ends"""
    pod: tuple[np.ndarray, np.ndarray]

    @classmethod
    def of(cls, plan: TierPlan) -> _Rows:
        fabric = plan.fabric
        columns = (plan.phase, plan.src, plan.dst, plan.plane, plan.core)
        phase, src, dst, plane, core = (np.asarray(one, np.int64) for one in columns)
        leaf = src // fabric.hosts, dst // fabric.hosts
        return cls(phase, src, dst, plane, core, leaf, (leaf[0] // fabric.leaves, leaf[1] // fabric.leaves))

    def flow(self, row: int) -> str:
        """How one is called."""
        return f"phase {self.phase[row]}: {self.src[row]} -> {self.dst[row]}"


def _ranges(plan: TierPlan) -> Iterator[str]:
    fabric = plan.fabric
    columns = {"phase": plan.phase, "src": plan.src, "dst": plan.dst, "agg": plan.plane, "core": plan.core}
    if len({len(one) for one in columns.values()}) != 1:
        yield "columns are of unlike length"
        return
    limits = ((0, plan.phases), (0, fabric.slots), (0, fabric.slots), (-1, fabric.aggs), (-1, fabric.cores))
    for (name, column), (low, high) in zip(columns.items(), limits, strict=True):
        for row in np.flatnonzero((column < low) | (column >= high)).tolist():
            yield f"row {row}: {name} {column[row]} is not in {low}..{high - 1}"


def _pairs(plan: TierPlan, rows: _Rows) -> Iterator[str]:
    fabric = plan.fabric
    for u, v in plan.parted:
        if _joined(fabric, u, v):
            yield f"leaves {u} and {v} are called parted, and have a way"
    count = np.bincount(rows.src * fabric.slots + rows.dst, minlength=fabric.slots**2).reshape(fabric.slots, -1)
    part = fabric.taking_part()
    wanted = part[:, None] & part[None, :]
    np.fill_diagonal(wanted, False)
    for pair in plan.parted:
        for u, v in (pair, pair[::-1]):
            here, there = (slice(leaf * fabric.hosts, (leaf + 1) * fabric.hosts) for leaf in (u, v))
            wanted[here, there] = False
    for src, dst in np.argwhere(count != wanted):
        yield f"{src} -> {dst} is there {count[src, dst]} times instead of {int(wanted[src, dst])}"


def _joined(fabric: FatTree3, u: int, v: int) -> bool:
    p, q = u // fabric.leaves, v // fabric.leaves
    for j in range(fabric.aggs):
        if (u, j) in fabric.failed_low or (v, j) in fabric.failed_low:
            continue
        both = ({(p, j, i), (q, j, i)} & fabric.failed_high for i in range(fabric.cores))
        if p == q or not all(both):
            return True
    return False


def _ways(plan: TierPlan, rows: _Rows) -> Iterator[str]:
    """Planes and cores where they belong, over links that work."""
    fabric = plan.fabric
    leaves, in_plane = rows.leaf[0] != rows.leaf[1], rows.plane >= 0
    across, in_core = rows.pod[0] != rows.pod[1], rows.core >= 0
    for row in np.flatnonzero(leaves != in_plane).tolist():
        wrong = (
            "leaves its leaf without a plane" if leaves[row] else f"stays in its leaf, but has plane {rows.plane[row]}"
        )
        yield f"{rows.flow(row)} {wrong}"
    for row in np.flatnonzero((leaves == in_plane) & (across != in_core)).tolist():
        wrong = "leaves its pod without a core" if across[row] else f"stays in its pod, but has core {rows.core[row]}"
        yield f"{rows.flow(row)} {wrong}"
    for end in range(2):
        leaf, pod = rows.leaf[end], rows.pod[end]
        for u, j in sorted(fabric.failed_low):
            for row in np.flatnonzero((leaf == u) & (rows.plane == j)).tolist():
                yield f"{rows.flow(row)} uses the failed link {u}:{j}"
        for p, j, i in sorted(fabric.failed_high):
            for row in np.flatnonzero((pod == p) & (rows.plane == j) & (rows.core == i)).tolist():
                yield f"{rows.flow(row)} uses the failed link {p}/{j}:{i}"


def _once(plan: TierPlan, rows: _Rows) -> Iterator[str]:
    """Servers and links once a phase and direction."""
    fabric = plan.fabric
    low, high = rows.plane >= 0, (rows.plane >= 0) & (rows.core >= 0)
    for end, way in enumerate(("up", "down")):
        for phase, server, times in _repeated(rows.phase, (rows.src, rows.dst)[end], fabric.slots):
            yield f"phase {phase}: server {server} {'receives' if end else 'sends'} {times} times"
        link = (rows.leaf[end] * fabric.aggs + rows.plane)[low]
        for phase, at, times in _repeated(rows.phase[low], link, fabric.all_leaves * fabric.aggs):
            name = f"{at // fabric.aggs}:{at % fabric.aggs}"
            yield f"phase {phase}: link {name} is used {times} times ({way})"
        link = ((rows.pod[end] * fabric.aggs + rows.plane) * fabric.cores + rows.core)[high]
        for phase, at, times in _repeated(rows.phase[high], link, fabric.pods * fabric.aggs * fabric.cores):
            switch, core = divmod(at, fabric.cores)
            name = f"{switch // fabric.aggs}/{switch % fabric.aggs}:{core}"
            yield f"phase {phase}: link {name} is used {times} times ({way})"


def _repeated(phase: np.ndarray, thing: np.ndarray, count: int) -> Iterator[tuple[int, int, int]]:
    """Phases and things, numbered below `count`, that are there together more than once, and how often."""
    keys, times = np.unique(phase * count + thing, return_counts=True)
    for key, often in zip(keys[times > 1].tolist(), times[times > 1].tolist(), strict=True):
        yield key // count, key % count, often
