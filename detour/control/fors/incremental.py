# SPDX-License-Identifier: Apache-2.0
"""A plan after more failures: as few flows as possible move, and the others stay in their phase on their spine."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np

from detour.base.arrays import Bools2, Int32s1, Int64Array, Int64s1
from detour.base.errors import DetourError
from detour.base.jit import int64
from detour.control.fors.exchange import SWAP_BUDGET, TRIES, PhaseAssignment
from detour.control.fors.fabric import FatTree
from detour.control.fors.loads import counting_bound
from detour.control.fors.paths import INSIDE, TreePaths
from detour.control.fors.plan import ForsPlan, PlanSeconds, Schedule, arranged, by_phase
from detour.control.fors.recolour import complete
from detour.control.fors.repair import GONE, repaired
from detour.control.fors.solve import proven_bound, solve
from detour.control.native import FORS_PART, assign

_TRIES = 6  # Attempts to move few flows of a phase


@dataclass(frozen=True)
class Change:
    """A plan and what it changed."""

    plan: ForsPlan
    moved: int  # flows with another phase or spine than before, or another cable if the plan was kept
    seconds: float
    anew: bool  # the plan could not be kept: all was planned anew


def reroute(plan: ForsPlan, fabric: FatTree) -> Change:
    """The plan for `fabric`, the same as its own but for failures.

    Every flow over a failed link gets another spine in its phase, others making room along shortest chains; where there
    are parallel cables, another one of these if it can be. Where a phase has more flows of a leaf than links are left,
    or resists, it exchanges a few flows with another phase. Where more phases are needed (the reduction grew) or this
    finds no way, all is planned anew.

    On three levels flows may change their phase, and all is planned anew where that takes fewer phases than keeping.
    Raises `DetourError`: another fabric, or two leaves lost their last common spine."""
    if replace(plan.fabric, failed=fabric.failed) != fabric:
        raise DetourError(
            f"a plan for {plan.fabric.name} with {plan.fabric.servers} servers cannot be kept on another fabric"
        )
    begin = time.perf_counter()
    if fabric.cores:
        return _repaired(plan, fabric)
    lost = tuple(fabric.unreachable())
    kept = None
    if lost == plan.unreachable and counting_bound(fabric) <= plan.phases:
        # Exchanges between phases know of one cable with one flow a phase.
        kept = _kept(plan, fabric) if fabric.single else _in_phases(plan, fabric)
    if kept is None:
        new = solve(fabric, skip_unreachable=lost == plan.unreachable)
        return Change(new, _moved(plan, new), time.perf_counter() - begin, anew=True)
    return Change(*kept, time.perf_counter() - begin, anew=False)


def _moved(old: ForsPlan, new: ForsPlan) -> int:
    """Flows of `old` that are not in `new` just as they were."""

    def keys(plan: ForsPlan) -> np.ndarray:
        pair = plan.src.astype(np.int64) * plan.fabric.slots + plan.dst
        return (pair * (plan.fabric.spines + 1) + plan.spine + 1) * max(old.phases, new.phases) + plan.phase

    return old.flows - len(np.intersect1d(keys(old), keys(new), assume_unique=True))


def _repaired(plan: ForsPlan, fabric: FatTree) -> Change:
    """On three levels. Every pair of leaves must have a path."""
    begin = time.perf_counter()
    phase, path = _repair(plan, fabric)
    assert (phase != GONE).all()
    phases = int(phase.max(initial=-1)) + 1
    if phases > max(proven_bound(fabric), plan.phases):
        anew = solve(fabric)
        if anew.phases < phases:
            return Change(anew, anew.flows, time.perf_counter() - begin, anew=True)
    spine, core, *_ = TreePaths(fabric).parts(path)
    schedule = Schedule(phases, phase, plan.src, plan.dst)
    kept = replace(arranged(fabric, schedule, spine, core=core), method="incremental")
    moved = np.count_nonzero((phase != plan.phase) | (path != plan.paths()))
    return Change(kept, int(moved), time.perf_counter() - begin, anew=False)


def _repair(plan: ForsPlan, fabric: FatTree) -> tuple[Int64Array, Int64Array]:
    columns = (np.asarray(one, np.int64) for one in (plan.phase, plan.src, plan.dst, plan.paths()))
    return repaired(fabric, *columns, same_spine=not fabric.cores)


def _in_phases(plan: ForsPlan, fabric: FatTree) -> tuple[ForsPlan, int] | None:
    """The plan with other spines and cables where cables failed and how many flows have them, on two levels; None: a
    phase has no room for its flows, or no chain was found."""
    phase, path = _repair(plan, fabric)
    if (phase != np.unique(plan.phase, return_inverse=True)[1]).any():
        return None
    spine, _, *cables = (part.astype(np.int32) for part in TreePaths(fabric).parts(path))
    kept = replace(plan, spine=spine, cables=np.maximum(cables, 0) if fabric.cables > 1 else None)
    return _incremental(plan, kept, fabric), int(np.count_nonzero(path != plan.paths()))


def _incremental(plan: ForsPlan, kept: ForsPlan, fabric: FatTree) -> ForsPlan:
    # More failures never need fewer phases: what was optimal still is.
    optimal = plan.optimal and fabric.failed >= plan.fabric.failed
    return replace(kept, fabric=fabric, method="incremental", optimal=optimal, seconds=PlanSeconds())


def _kept(plan: ForsPlan, fabric: FatTree) -> tuple[ForsPlan, int] | None:
    """The plan with new spines where links failed and how many flows moved, or None."""
    alive = fabric.alive
    source = (plan.src // fabric.hosts).astype(np.int32)
    target = (plan.dst // fabric.hosts).astype(np.int32)
    spine, phase = plan.spine.copy(), plan.phase.copy()
    outside = source != target
    dead = outside & ((spine < 0) | ~(alive[source, spine] & alive[target, spine]))
    spine[dead] = INSIDE
    crowded = _recolour_phases(fabric, phase, source, target, spine, np.unique(phase[dead]))
    if crowded:
        exchange = PhaseAssignment(plan, fabric, phase, spine)
        if not all(exchange.resolve(p) for p in crowded):
            return None
    moved = int(np.count_nonzero((phase != plan.phase) | (spine != plan.spine)))
    if (phase != plan.phase).any():
        kept = arranged(fabric, Schedule(plan.phases, phase, plan.src, plan.dst), spine)
    else:
        kept = replace(plan, fabric=fabric, spine=spine)
    return _incremental(plan, kept, fabric), moved


def _recolour_phases(
    fabric: FatTree, phase: np.ndarray, source: np.ndarray, target: np.ndarray, spine: np.ndarray, which: np.ndarray
) -> list[int]:
    """Find spines, in place, for flows of these phases that have none (-1); return the phases that resist. Phases
    with the same flows between leaves over the same spines are recoloured once."""
    broken = np.zeros(int(phase.max(initial=0)) + 1, bool)
    broken[which] = True
    rows = np.flatnonzero((source != target) & broken[phase])
    key = (source[rows] * fabric.leaves + target[rows]) * (fabric.spines + 1) + spine[rows] + 1
    order = by_phase(phase[rows], key)
    rows, key = rows[order], key[order]
    alive = fabric.alive
    links = alive.sum(axis=1)
    colours: dict[bytes, np.ndarray | None] = {}
    resisting = []
    for p, begin, end in zip(which.tolist(), *np.searchsorted(phase[rows], [which, which + 1]).tolist(), strict=True):
        name, part = key[begin:end].tobytes(), rows[begin:end]
        if name not in colours:
            colour = spine[part]
            succeeded = _fewest_moves(source[part], target[part], alive, links, colour)
            colours[name] = colour if succeeded else None
        colour = colours[name]
        if colour is None:
            resisting.append(p)
        else:
            spine[part] = colour
    return resisting


@FORS_PART.entry
def _fewest_moves(u: Int32s1, v: Int32s1, alive: Bools2, links: Int64s1, colour: Int32s1) -> bool:
    """Colours the flows of one phase, in place, moving as few as in the best of some attempts; whether it succeeded."""
    out, into = np.zeros(len(links), np.int64), np.zeros(len(links), np.int64)
    for k in range(len(u)):
        out[u[k]] += 1
        into[v[k]] += 1
    if (out > links).any() or (into > links).any():
        return False
    old = colour.copy()
    missing = (old < 0).sum()
    best = len(u) + 1
    for attempt in range(_TRIES):
        new = old.copy()
        if complete(u, v, alive, alive, new, int64(SWAP_BUDGET), attempt + 1) == 0:
            changed = (new != old).sum()
            if changed < best:
                best = changed
                assign(colour, new)
        # One more for each that has to move is hard to beat.
        if best <= 2 * missing or (attempt >= TRIES and best > len(u)):
            break
    return best <= len(u)
