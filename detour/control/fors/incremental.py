# SPDX-License-Identifier: Apache-2.0
"""A plan after more failures: as few flows as possible move, and the others stay in their phase on their spine."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np

from detour.base.errors import DetourError
from detour.base.jit import njit
from detour.control.fors.exchange import BUDGET, TRIES, Exchange
from detour.control.fors.fabric import FatTree2
from detour.control.fors.plan import INSIDE, Plan, Schedule, arranged
from detour.control.fors.recolour import complete
from detour.control.fors.solve import counting_bound, solve

_TRIES = 6
"""Attempts to move few flows of a phase"""


@dataclass(frozen=True)
class Change:
    """A plan and what it changed."""

    plan: Plan
    moved: int
    """flows with another phase or spine than before"""
    seconds: float
    anew: bool
    """the plan could not be kept: all was planned anew"""


def reroute(plan: Plan, fabric: FatTree2) -> Change:
    """The plan for `fabric`, the same as its own but for failures.

    Every flow over a failed link gets another spine in its phase, others making room along shortest chains. Where a
    phase has more flows of a leaf than links are left, or resists, it exchanges a few flows with another phase. Where
    more phases are needed (the reduction grew) or this finds no way, all is planned anew.

    Raises:
        DetourError: another fabric, or two leaves lost their last common spine.
    """
    same = (plan.fabric.spines, plan.fabric.leaves, plan.fabric.population)
    if same != (fabric.spines, fabric.leaves, fabric.population):
        raise DetourError(
            f"a plan for {plan.fabric.name} with {plan.fabric.servers} servers cannot be kept on another fabric"
        )
    begin = time.perf_counter()
    lost = tuple(fabric.unreachable())
    kept = None
    if lost == plan.unreachable and counting_bound(fabric) <= plan.phases:
        kept = _kept(plan, fabric)
    if kept is None:
        new = solve(fabric, skip_unreachable=lost == plan.unreachable)
        return Change(new, _moved(plan, new), time.perf_counter() - begin, anew=True)
    return Change(*kept, time.perf_counter() - begin, anew=False)


def _moved(old: Plan, new: Plan) -> int:
    """Flows of `old` that are not in `new` just as they were."""

    def keys(plan: Plan) -> np.ndarray:
        pair = plan.src.astype(np.int64) * plan.fabric.slots + plan.dst
        return (pair * (plan.fabric.spines + 1) + plan.spine + 1) * max(old.phases, new.phases) + plan.phase

    return old.flows - len(np.intersect1d(keys(old), keys(new), assume_unique=True))


def _kept(plan: Plan, fabric: FatTree2) -> tuple[Plan, int] | None:
    """The plan with new spines where links failed and how many flows moved, or None."""
    alive = fabric.alive()
    source = (plan.src // fabric.spines).astype(np.int32)
    target = (plan.dst // fabric.spines).astype(np.int32)
    spine, phase = plan.spine.copy(), plan.phase.copy()
    outside = source != target
    dead = outside & ((spine < 0) | ~(alive[source, spine] & alive[target, spine]))
    bounds = np.searchsorted(plan.phase, np.arange(plan.phases + 1))
    spine[dead] = INSIDE
    phases = np.unique(plan.phase[dead])
    left = np.empty(len(phases), np.int32)
    count = _recolour_phases(phases, bounds, source, target, alive, spine, left)
    crowded = left[:count].tolist()
    if crowded:
        exchange = Exchange(plan, fabric, phase, spine)
        if not all(exchange.resolve(p) for p in crowded):
            return None
    moved = int(np.count_nonzero((phase != plan.phase) | (spine != plan.spine)))
    if (phase != plan.phase).any():
        kept = arranged(fabric, Schedule(plan.phases, phase, plan.src, plan.dst), spine)
    else:
        kept = replace(plan, fabric=fabric, spine=spine)
    # More failures never need fewer phases: what was optimal still is.
    optimal = plan.optimal and fabric.failed >= plan.fabric.failed
    return replace(kept, method="incremental", optimal=optimal, seconds={}), moved


@njit
def _recolour_phases(phases, bounds, source, target, alive, spine, left):
    """Finds spines for flows of these phases that have none (-1); `left` gets the phases that resist, the result is how
    many. A phase's flows are rows bounds[phase] to bounds[phase + 1].
    """
    links = alive.sum(axis=1)
    resisting = 0
    for p in phases:
        begin, end = bounds[p], bounds[p + 1]
        rows = begin + np.flatnonzero(source[begin:end] != target[begin:end])
        u, v = source[rows], target[rows]
        out, into = np.zeros(len(links), np.int64), np.zeros(len(links), np.int64)
        for k in range(len(rows)):
            out[u[k]] += 1
            into[v[k]] += 1
        old = spine[rows]
        missing = (old < 0).sum()
        best = len(rows) + 1
        if (out <= links).all() and (into <= links).all():
            for attempt in range(_TRIES):
                colour = old.copy()
                if complete(u, v, alive, alive, colour, BUDGET, attempt + 1) == 0:
                    changed = (colour != old).sum()
                    if changed < best:
                        best = changed
                        spine[rows] = colour
                # One more for each that has to move is hard to beat.
                if best <= 2 * missing or (attempt >= TRIES and best > len(rows)):
                    break
        if best > len(rows):
            left[resisting] = p
            resisting += 1
    return resisting
