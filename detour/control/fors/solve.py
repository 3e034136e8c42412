# SPDX-License-Identifier: Apache-2.0
"""From a fabric to a plan: the fastest way that meets the lower bound, the exact one where none does."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from detour.base.errors import DetourError
from detour.control.fors.fabric import FatTree2
from detour.control.fors.plan import Plan, arranged, only_present
from detour.control.fors.routing import algorithm_2, recoloured
from detour.control.fors.schedule import schedule


def leaf_bound(fabric: FatTree2) -> int:
    """Phases that any plan needs by counting: a server's messages and its own part, a leaf's flows over its links."""
    population = np.array(fabric.population)
    alive = fabric.alive()
    joined = (alive.astype(np.int64) @ alive.T.astype(np.int64) > 0) & (population > 0)
    np.fill_diagonal(joined, True)
    peers = joined @ population
    flows = population * (peers - population)
    links = np.maximum(alive.sum(axis=1), 1)
    return int(max(peers[population > 0].max(), (-(-flows // links)).max()))


def solve(fabric: FatTree2, *, skip_unreachable: bool = False) -> Plan:
    """The plan with the fewest phases.

    Raises:
        DetourError: two leaves have no common spine left and `skip_unreachable` is not set.
    """
    lost = tuple(fabric.unreachable())
    if lost and not skip_unreachable:
        raise DetourError(unreachable_text(fabric, lost))
    begin = time.perf_counter()
    flows = only_present(fabric, schedule(fabric.spines, fabric.leaves, min(fabric.reduction, fabric.spines - 1)), lost)
    scheduled = time.perf_counter()
    name = "closed form" if fabric.reduction <= fabric.spines // fabric.leaves else "algorithm 1"
    routing = "algorithm 2"
    spine = algorithm_2(fabric, flows)
    if spine is None:
        routing = "recolouring"
        spine = recoloured(fabric, flows)
    if spine is None:
        raise DetourError("no routing found")
    bound = leaf_bound(fabric)
    routed = time.perf_counter()
    return replace(
        arranged(fabric, flows, spine),
        method=f"{name}/{routing}",
        lower_bound=bound,
        optimal=flows.phases == bound,
        unreachable=lost,
        seconds={"schedule": scheduled - begin, "route": routed - scheduled},
    )


def unreachable_text(fabric: FatTree2, lost: tuple[tuple[int, int], ...]) -> str:
    """One line that names the pairs."""
    pairs = ", ".join(f"{u} and {v}" for u, v in lost[:8]) + (
        f" and {len(lost) - 8} more pairs" if len(lost) > 8 else ""
    )
    return f"{fabric.name}: no common spine is left for leaves {pairs} (--skip-unreachable plans the rest)"
