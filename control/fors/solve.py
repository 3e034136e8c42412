# SPDX-License-Identifier: Apache-2.0
"""From a fabric to a plan: the fastest way that meets the lower bound, the exact one where none does."""

from __future__ import annotations

import time
from dataclasses import replace

from detour.base.errors import DetourError
from detour.control.fors.exact import exact_plan
from detour.control.fors.fabric import FatTree, unreachable_text
from detour.control.fors.loads import LeafDemand, counting_bound, least_phases, most_joined
from detour.control.fors.paper import algorithm_2, phases_needed, recoloured, schedule
from detour.control.fors.plan import ForsPlan, PlanSeconds, arranged
from detour.control.fors.tiered import tiered_plan


def paper_phases(fabric: FatTree, phases: int) -> int:
    """`phases` as the paper counts them: a server's own part is a message too and takes a phase, P at least."""
    return max(phases, -(-most_joined(fabric) // fabric.at_once))


def proven_bound(fabric: FatTree) -> int:
    """Phases that any plan needs, by counting and by the linear programme."""
    return least_phases(LeafDemand(fabric))[0]


def solve(fabric: FatTree, *, skip_unreachable: bool = False) -> ForsPlan:
    """The plan with the fewest phases, and whether that is proven.

    The chain: the schedule in closed form or by Algorithm 1 (if its phases meet the lower bound) with spines by
    Algorithm 2, where it applies, or by recolouring; where that finds none, and for fabrics that are not full, the
    integer programme with Koenig's colourings. Every fabric gets a plan; where the programme's solver runs out of time
    it may have more phases than its `lower_bound`. `skip_unreachable`: pairs of leaves that nothing joins are left
    out and named in the plan. On three levels: `tiered`. Raises `DetourError`: no path joins two leaves any more and
    `skip_unreachable` is not set; there are no servers."""
    lost = tuple(fabric.unreachable())
    if lost and not skip_unreachable:
        raise DetourError(unreachable_text(fabric, lost))
    if not fabric.servers:
        raise DetourError(f"{fabric.name} has no servers")
    if fabric.cores:
        return tiered_plan(fabric, lost)
    bound = counting_bound(fabric)
    as_printed = fabric.full and fabric.single and fabric.hosts == fabric.spines
    plan = _by_closed_forms(fabric, bound) if as_printed and not lost else None
    return plan or exact_plan(fabric, lost)


def _by_closed_forms(fabric: FatTree, bound: int) -> ForsPlan | None:
    """Algorithm 1 or a closed form, if their phases are the bound and spines are found."""
    reduction = fabric.reduction
    if reduction == fabric.spines or phases_needed(fabric.spines, fabric.leaves, reduction) != bound:
        return None
    begin = time.perf_counter()
    flows = schedule(fabric.spines, fabric.leaves, reduction)
    if flows is None:
        return None
    scheduled = time.perf_counter()
    name, routing = "closed-form" if reduction <= fabric.spines // fabric.leaves else "algorithm-1", "algorithm-2"
    spine = algorithm_2(fabric, flows)
    if spine is None:
        routing = "recolouring"
        spine = recoloured(fabric, flows)
    if spine is None:
        return None
    seconds = PlanSeconds(schedule=scheduled - begin, route=time.perf_counter() - scheduled)
    plan = arranged(fabric, flows, spine)
    return replace(plan, method=f"{name}/{routing}", lower_bound=bound, optimal=True, seconds=seconds)
