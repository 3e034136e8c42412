# SPDX-License-Identifier: Apache-2.0
"""Native code of planners: the parts, and what their functions have in common."""

from __future__ import annotations

from typing import Any

from detour.base.jit import allocating
from detour.base.native import Part


def _part(name: str, package: str, *modules: str) -> Part:
    return Part(name, *(f"detour.control.{package}{module}" for module in modules))


COLOURING = _part("colouring", "", "edge_colouring")
VERIFIER = _part("verifier", "verifier.", "cycles", "dependencies", "fabric_state")
FORS_PART = _part("fors", "fors.", "ejection", "exchange", "incremental", "phase_assignment", "recolour")
PLACEMENT = _part("placement", "placement.", "alternating_paths", "ecmp", "network", "rebalance", "search")
EXPANDER = _part(
    "expander", "expander.", "approximate", "counts", "demand", "enumeration", "forests", "lanes", "nue",
    "optimum", "proof", "routes", "tagger",
)  # fmt: skip
FORS_PART.companions = PLACEMENT.companions = (COLOURING,)
EXPANDER.companions = (VERIFIER,)


@allocating
def assign(target: Any, values: Any) -> None:
    """`target[: len(values)] = values`, of one dimension. Numba's own also compiles an error in words, which takes two
    seconds."""
    for i in range(len(values)):
        target[i] = values[i]
