# SPDX-License-Identifier: Apache-2.0
"""A plan of three levels after more links failed: as much of it as can be stays (`control.fors.mending`)."""

from __future__ import annotations

import time

import numpy as np

from detour.control.fors.mending import GONE, mended
from detour.control.fors.plan import PlanSeconds
from detour.control.fors.tiers.fabric import FatTree3
from detour.control.fors.tiers.solve import TierPlan, solve_tiers, tier_bound
from detour.control.fors.tiers.ways import TierWays


def kept(plan: TierPlan, fabric: FatTree3) -> tuple[TierPlan, int, bool]:
    """The plan on `fabric`, how many flows have another phase or way, and whether all was planned anew: that is so
    where keeping it takes more phases than that. Every pair of leaves must have a way."""
    begin = time.perf_counter()
    columns = (np.asarray(one, np.int64) for one in (plan.phase, plan.src, plan.dst))
    phase, src, dst = columns
    before = plan.ways()
    now, way = mended(fabric, phase, src, dst, before)
    assert (now != GONE).all()
    phases = int(now.max(initial=-1)) + 1
    bound = tier_bound(fabric)
    if phases > max(bound, plan.phases):
        anew = solve_tiers(fabric)
        if anew.phases < phases:
            return anew, len(anew.phase), True
    plane, core = TierWays(fabric).plane_and_core(way)
    order = np.lexsort((src, now))
    rows = (column[order].astype(np.int32) for column in (now, src, dst, plane, core))
    seconds = PlanSeconds(route=time.perf_counter() - begin)
    found = TierPlan(fabric, phases, *rows, method="incremental", lower_bound=bound, seconds=seconds)
    return found, int(((now != phase) | (way != before)).sum()), False
