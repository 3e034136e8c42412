# SPDX-License-Identifier: Apache-2.0
"""Checks a plan for a fat-tree of three levels from its rows alone; nothing of how it was made is used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from detour.control.fors.tiers.solve import TierPlan


def tier_problems(plan: TierPlan, most: int = 10) -> list[str]:
    """What is wrong with a plan, a line each, at most `most`.

    Checked: every ordered pair of servers once but those of leaves that are called parted, which truly are; no server
    sends or receives twice in a phase; no link of either level has two flows in a direction or is one that failed;
    flows take planes and cores where, and only where, they leave their leaf and pod.
    """
    found: list[str] = []
    for check in (_ranges, _pairs, _ways, _once):
        for text in check(plan):
            found.append(text)
            if len(found) == most:
                return found
        if found and check is _ranges:
            return found
    return found


def _rows(plan: TierPlan) -> Iterator[tuple[int, int, int, int, int]]:
    columns = (plan.phase, plan.src, plan.dst, plan.plane, plan.core)
    return zip(*(column.tolist() for column in columns), strict=True)


def _ranges(plan: TierPlan) -> Iterator[str]:
    fabric = plan.fabric
    if len({len(one) for one in (plan.phase, plan.src, plan.dst, plan.plane, plan.core)}) != 1:
        yield "columns are of unlike length"
        return
    limits = {
        "phase": (0, plan.phases), "src": (0, fabric.servers), "dst": (0, fabric.servers),
        "agg": (-1, fabric.aggs), "core": (-1, fabric.cores),
    }  # fmt: skip
    for row, values in enumerate(_rows(plan)):
        for (name, (low, high)), value in zip(limits.items(), values, strict=True):
            if not low <= value < high:
                yield f"row {row}: {name} {value} is not in {low}..{high - 1}"


def _pairs(plan: TierPlan) -> Iterator[str]:
    fabric = plan.fabric
    parted = {frozenset(pair) for pair in plan.parted}
    for u, v in plan.parted:
        if _joined(plan, u, v):
            yield f"leaves {u} and {v} are called parted, and have a way"
    count = Counter((src, dst) for _, src, dst, _, _ in _rows(plan))
    for src in range(fabric.servers):
        for dst in range(fabric.servers):
            leaves = frozenset((src // fabric.hosts, dst // fabric.hosts))
            wanted = int(src != dst and leaves not in parted)
            if count[src, dst] != wanted:
                yield f"{src} -> {dst} is there {count[src, dst]} times instead of {wanted}"


def _joined(plan: TierPlan, u: int, v: int) -> bool:
    fabric = plan.fabric
    p, q = u // fabric.leaves, v // fabric.leaves
    for j in range(fabric.aggs):
        if (u, j) in fabric.failed_low or (v, j) in fabric.failed_low:
            continue
        both = ({(p, j, i), (q, j, i)} & fabric.failed_high for i in range(fabric.cores))
        if p == q or not all(both):
            return True
    return False


def _ways(plan: TierPlan) -> Iterator[str]:
    """Planes and cores where they belong, over links that work."""
    fabric = plan.fabric
    for phase, src, dst, j, i in _rows(plan):
        u, v = src // fabric.hosts, dst // fabric.hosts
        p, q = u // fabric.leaves, v // fabric.leaves
        flow = f"phase {phase}: {src} -> {dst}"
        if (j >= 0) != (u != v):
            yield f"{flow} " + (
                "leaves its leaf without a plane" if u != v else f"stays in its leaf, but has plane {j}"
            )
        elif (i >= 0) != (p != q):
            yield f"{flow} " + ("leaves its pod without a core" if p != q else f"stays in its pod, but has core {i}")
        for leaf, pod in ((u, p), (v, q)):
            if (leaf, j) in fabric.failed_low:
                yield f"{flow} uses the failed link {leaf}:{j}"
            if (pod, j, i) in fabric.failed_high:
                yield f"{flow} uses the failed link {pod}/{j}:{i}"


def _once(plan: TierPlan) -> Iterator[str]:
    """Servers and links once a phase and direction."""
    fabric = plan.fabric
    used: Counter[tuple[int | str, ...]] = Counter()
    for phase, src, dst, j, i in _rows(plan):
        for way, server in (("up", src), ("down", dst)):
            leaf = server // fabric.hosts
            used["server", way, phase, server] += 1
            if j >= 0:
                used["low", way, phase, leaf, j] += 1
            if i >= 0:
                used["high", way, phase, leaf // fabric.leaves, j, i] += 1
    for (kind, way, phase, *at), times in used.items():
        if times == 1:
            continue
        if kind == "server":
            yield f"phase {phase}: server {at[0]} {'sends' if way == 'up' else 'receives'} {times} times"
        else:
            name = f"{at[0]}:{at[1]}" if kind == "low" else f"{at[0]}/{at[1]}:{at[2]}"
            yield f"phase {phase}: link {name} is used {times} times ({way})"
