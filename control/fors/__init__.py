# SPDX-License-Identifier: Apache-2.0
"""FORS: all-to-all exchanges on fat-trees with failed links, scheduled and routed without contention.

Stein, Bramas, Pisani, Colombo, Pelsser: "FORS: Fault-adaptive Optimized Routing and Scheduling for DAQ Networks".
The exchange goes in phases. In one phase a server sends to at most one server and receives from at most one, and no
link between a leaf and a spine carries more than one flow in either direction. `solve` finds a plan with as few phases
as there can be and proves it; how: docs/fors-reference.md. Leaves may have more servers than spines, and several cables
to each; there may be a third level of switches.
"""

from detour.control.fors.fabric import FatTree, random_failures
from detour.control.fors.plan import ForsPlan, Schedule
from detour.control.fors.solve import solve
from detour.control.fors.texts import parse_fabric

__all__ = [
    "FatTree", "ForsPlan", "Schedule", "baselines", "collective", "fabric", "files", "incremental", "loads",
    "lp_bound", "paper", "parse_fabric", "paths", "plan", "preemptive", "random_failures", "repair", "residual",
    "solve", "subnet", "texts", "unequal", "verify",
]  # fmt: skip
