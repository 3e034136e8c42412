# SPDX-License-Identifier: Apache-2.0
"""The native code of exchanges."""

from __future__ import annotations

from detour.base.parts import Part
from detour.control.edge_colouring import COLOURING

_NAMES = ("ejection", "exchange", "incremental", "phase_assignment", "recolour")
FORS_PART = Part("fors", *(f"detour.control.fors.{name}" for name in _NAMES))
FORS_PART.companions = (COLOURING,)
