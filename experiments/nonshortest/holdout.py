# SPDX-License-Identifier: Apache-2.0
"""Traffic that no setting of any scheme was chosen on: other patterns, and other Dragonflies.

Settings were chosen on UNF, ADV1 and ADV2 on D1 to D3 (`additions`, `settings`). A scheme that is good there only shows
it here.
"""

from __future__ import annotations

from detour.experiments.nonshortest.experiment import NonshortestSelection, find_topology
from detour.experiments.nonshortest.paper import LOADS
from detour.experiments.nonshortest.workloads import HOLD_OUTS, PATTERNS, pairs_of_load
from detour.experiments.steady import DRAWS
from detour.fabric.backends.virtual.scheme import BENCHMARK, BENCHMARK_DCTCP, TELEMETRY_LERP

OTHER_DRAGONFLIES = ("dragonfly:p=4,a=4,h=2", "dragonfly:p=2,a=8,h=4")
"""twice as many hosts as D1 on the same switches of a group, and groups of D3 with half of the hosts"""
HELD_OUT = (TELEMETRY_LERP.name, BENCHMARK.name, BENCHMARK_DCTCP.name)


def selections(extent: str, draws: int = DRAWS) -> list[NonshortestSelection]:
    """Both loads of the four other patterns on D1, and of the paper's three on the two other topologies."""
    cells = [("D1", pattern) for pattern in HOLD_OUTS]
    cells += [(topology, pattern) for topology in OTHER_DRAGONFLIES for pattern in PATTERNS]
    found = []
    for topology, pattern in cells:
        network = find_topology(topology)[1]
        pairs = tuple(dict.fromkeys(pairs_of_load(network, pattern, load) for load in LOADS))
        found.append(NonshortestSelection(topology, pattern, pairs, HELD_OUT, seeds=draws, times=extent))
    return found
