# SPDX-License-Identifier: Apache-2.0
"""The native code of placement."""

from __future__ import annotations

from detour.base.parts import Part
from detour.control.edge_colouring import COLOURING

_NAMES = ("alternating_paths", "bound", "ecmp", "network", "rebalance", "search")
PLACEMENT = Part("placement", *(f"detour.control.placement.{name}" for name in _NAMES))
PLACEMENT.companions = (COLOURING,)
