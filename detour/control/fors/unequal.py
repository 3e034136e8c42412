# SPDX-License-Identifier: Apache-2.0
"""Plans for messages of unlike size: phases of unlike length, a message in as many pieces as it takes.

A phase is as long as its longest piece; who is done sooner waits. Time is counted in bytes of a server's link.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from detour.base.arrays import Int64Array
from detour.base.errors import DetourError
from detour.base.records import extended
from detour.control.fors import files
from detour.control.fors.fabric import FatTree, unreachable_text
from detour.control.fors.lp_bound import LpBound, lp_bound
from detour.control.fors.paths import INSIDE
from detour.control.fors.plan import PlanSeconds, Schedule, UnequalPlan, arranged, by_phase
from detour.control.fors.preemptive import Crossbars, Turn, turns
from detour.control.fors.solve import solve
from detour.control.fors.verify import contention_problems

_PARTS = (8, 64, 512)
"""The bound is divided into so many parts for each server; a phase is not cut shorter than one, to keep to the bound.
Short ones lose less time, and are more."""
_MOST_PHASES = 24  # phases for each server, beyond which short ones are given up


def plan_unequal(
    fabric: FatTree, sizes: Int64Array, phase_cost: int = 0, *, skip_unreachable: bool = False
) -> UnequalPlan:
    """A plan for `sizes` (n, n) bytes, n the servers that take part. `phase_cost`: what a phase costs beside its length
    (a barrier), in bytes; of some plans the one that is cheapest with it is taken. Equal sizes get the plan of `solve`.
    Raises `DetourError`: sizes that are not for these servers, leaves without a common spine (unless they are skipped),
    or cables slower than servers' links."""
    begin = time.perf_counter()
    count = fabric.servers
    if sizes.shape != (count, count) or (sizes < 0).any():
        raise DetourError(f"{fabric.name}: sizes of {sizes.shape} do not fit {count} participating servers")
    if fabric.at_once > 1:
        raise DetourError(f"{fabric.name}: unequal message sizes need cables at least as fast as servers' links")
    sizes = np.where(np.eye(count, dtype=bool), 0, sizes).astype(np.int64)
    lost = _lost(fabric, sizes)
    if lost and not skip_unreachable:
        raise DetourError(unreachable_text(fabric, lost))
    sizes = _without(fabric, sizes, lost)
    bound = lp_bound(fabric, sizes)
    # Colours are spines; where cables carry several flows, those of each are numbered on, the same at both ends.
    room = fabric.room()
    lanes = np.arange(max(int(room.max(initial=0)), 1)) < room[:, :, None]
    crossbars = Crossbars(_leaves(fabric), lanes.reshape(fabric.leaves, -1), bound.price)
    shortest = [bound.bytes // (parts * max(count, 1)) for parts in _PARTS]
    candidates = [turns(sizes, crossbars, bound.bytes, shortest[0])]
    candidates += [turns(sizes, crossbars, bound.bytes, least, _MOST_PHASES * count) for least in shortest[1:]]
    plans = (one for one in candidates if one is not None)
    best = min(plans, key=lambda plan: sum(turn.length + phase_cost for turn in plan))
    plan = _arranged(fabric, sizes, best)
    values = sizes[~np.eye(count, dtype=bool)]
    if count > 1 and 0 < values.min() == values.max():
        equal = solve(fabric)
        if equal.phases * (int(values[0]) + phase_cost) <= plan.length + plan.phases * phase_cost:
            plan = extended(UnequalPlan, equal, sent=np.full(equal.flows, values[0], np.int64), sizes=sizes)
    return _bounded(replace(plan, seconds=PlanSeconds(schedule=time.perf_counter() - begin)), bound, lost)


def _bounded(plan: UnequalPlan, bound: LpBound, lost: tuple[tuple[int, int], ...]) -> UnequalPlan:
    optimal = bool((plan.phase >= 0).all()) and plan.length == bound.bytes
    bounds = {"lower_bound": bound.bytes, "by_servers": bound.servers, "by_links": bound.links}
    return replace(plan, **bounds, optimal=optimal, unreachable=lost)


def _leaves(fabric: FatTree) -> Int64Array:
    return np.flatnonzero(fabric.taking_part()) // fabric.hosts


def _lost(fabric: FatTree, sizes: Int64Array) -> tuple[tuple[int, int], ...]:
    """Pairs of leaves that have something to send and no common spine."""
    leaf = _leaves(fabric)
    has = np.zeros((fabric.leaves, fabric.leaves), bool)
    np.logical_or.at(has, (leaf[:, None], leaf[None, :]), sizes > 0)
    return tuple((u, v) for u, v in fabric.unreachable() if has[u, v] or has[v, u])


def _without(fabric: FatTree, sizes: Int64Array, lost: tuple[tuple[int, int], ...]) -> Int64Array:
    leaf, kept = _leaves(fabric), sizes.copy()
    for u, v in lost:
        for one, other in ((u, v), (v, u)):
            kept[np.ix_(leaf == one, leaf == other)] = 0
    return kept


def _arranged(fabric: FatTree, sizes: Int64Array, phases: list[Turn]) -> UnequalPlan:
    """Ranks become servers, colours spines and cables."""
    servers = np.flatnonzero(fabric.taking_part())
    wide = max(int(fabric.room().max(initial=0)), 1)
    none = [np.zeros(0, np.int64)]
    phase = np.concatenate(none + [np.full(len(turn.sent), number) for number, turn in enumerate(phases)])
    src, dst = (
        servers[np.concatenate(none + [turn.matching[end] for turn in phases])].astype(np.int64) for end in range(2)
    )
    colour = np.concatenate(none + [turn.matching.colour for turn in phases])
    sent = np.concatenate(none + [turn.sent for turn in phases])
    away = colour >= 0
    spine, lane = np.where(away, colour // wide, INSIDE), np.where(away, colour % wide, 0)
    cables = None
    if fabric.cables > 1:
        working = np.argsort(~fabric.working, axis=2, kind="stable")
        ends = (working[end // fabric.hosts, np.maximum(spine, 0), lane // fabric.lanes] for end in (src, dst))
        cables = np.where(away, np.stack(list(ends)), 0)
    plan = arranged(fabric, Schedule(len(phases), phase, src, dst), spine, cables)
    plan = replace(plan, method="preemptive/recolouring")
    return extended(UnequalPlan, plan, sent=sent[by_phase(phase, src)], sizes=sizes)


def unequal_problems(plan: UnequalPlan, most: int = 10) -> list[str]:
    """List the faults of a plan, a line each, at most `most`, from its rows alone, as `verify.problems` does. Checked:
    every pair's pieces are its bytes, none is empty, and in a phase no server sends or receives twice, no link carries
    more than it can, and none has failed."""
    if len(plan.sent) != plan.flows:
        return [f"bytes: {len(plan.sent)} values for {plan.flows} flows"]
    problems = contention_problems(plan)
    return [*problems, *([] if problems else _bytes(plan))][:most]


def _bytes(plan: UnequalPlan) -> Iterator[str]:
    servers = np.flatnonzero(plan.fabric.taking_part())
    ranks = np.searchsorted(servers, np.stack([plan.src, plan.dst]))
    for row in np.flatnonzero(plan.sent < 1)[:1]:
        yield f"row {row}: {plan.sent[row]} bytes"
    got = np.zeros_like(plan.sizes)
    np.add.at(got, (ranks[0], ranks[1]), plan.sent)
    for s, d in np.argwhere(got != plan.sizes):
        yield f"{servers[s]} -> {servers[d]} gets {got[s, d]} bytes instead of {plan.sizes[s, d]}"


def read_unequal(fabric: FatTree, path: Path, sizes: Int64Array, *, skip_unreachable: bool = False) -> UnequalPlan:
    """A plan from a file, with its bounds. Raises `DetourError`: the file cannot be read, or a line is not of that
    form."""
    lost = _lost(fabric, sizes)
    if lost and not skip_unreachable:
        raise DetourError(unreachable_text(fabric, lost))
    sizes = _without(fabric, sizes, lost)
    plan, sent = files.read_with_bytes(fabric, path)
    return _bounded(extended(UnequalPlan, plan, sent=sent, sizes=sizes), lp_bound(fabric, sizes), lost)


def equal_phases(sizes: Int64Array) -> list[tuple[Int64Array, Int64Array, Int64Array]] | None:
    """A linear shift's phases (ranks that send, that receive, bytes) if all `sizes` (n, n) are equal, else None."""
    count = len(sizes)
    values = sizes[~np.eye(count, dtype=bool)]
    if not len(values) or values.min() != values.max():
        return None
    rank = np.arange(count)
    return [(rank, (rank + shift) % count, np.full(count, values[0], np.int64)) for shift in range(1, count)]
