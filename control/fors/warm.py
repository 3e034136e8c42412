# SPDX-License-Identifier: Apache-2.0
"""Native code and solver, loaded before anything is timed. The first time after a change it is compiled, which takes
some seconds; later it comes from the cache of `base/jit.py`.
"""

from __future__ import annotations

from detour.control.fors.exchange import PhaseAssignment
from detour.control.fors.fabric import FatTree
from detour.control.fors.incremental import reroute
from detour.control.fors.solve import solve


def warm() -> None:
    """Runs every path once on small fabrics."""
    solve(FatTree(4, 3, frozenset({(0, 0), (0, 1), (1, 2)})))
    solve(FatTree(4, 3, population=(4, 3, 3)))
    whole = solve(FatTree(4, 3))
    reroute(whole, whole.fabric.with_failed({(0, 0)}))
    # Three of four links fail: phases are crowded, and what can be exchanged is looked for.
    worse = whole.fabric.with_failed({(0, 0), (0, 1), (0, 2)})
    exchange = PhaseAssignment(whole, worse, whole.phase.copy(), whole.spine.copy())
    for p in range(2):
        exchange.resolve(p)


def warm_tiers() -> None:
    """The same for fat-trees of three levels."""
    solve(FatTree.three_levels(2, 2, 2, 1, 2))
    solve(FatTree.three_levels(2, 2, 2, 2, 2, failed=frozenset({(0, 0, 0)})))
