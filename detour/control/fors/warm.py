# SPDX-License-Identifier: Apache-2.0
"""Native code and solver, loaded before anything is timed. The first time after a change it is compiled, which takes
some seconds; later it comes from the cache of `base/jit.py`.
"""

from __future__ import annotations

from detour.control.fors.fabric import FatTree2
from detour.control.fors.incremental import reroute
from detour.control.fors.solve import solve


def warm() -> None:
    """Runs every path once on small fabrics."""
    plan = solve(FatTree2(4, 3, frozenset({(0, 0), (0, 1), (1, 2)})))
    reroute(plan, plan.fabric.with_failed({(2, 3)}))
    solve(FatTree2(4, 3, population=(4, 3, 3)))
