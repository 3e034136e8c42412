# SPDX-License-Identifier: Apache-2.0
"""The native code of expanders' routes."""

from __future__ import annotations

from detour.base.parts import Part
from detour.control.verifier.native import VERIFIER

_NAMES = (
    "approximate", "counts", "demand", "enumeration", "forests", "lanes", "nue", "proof", "routes", "tagger",
    "throughput",
)  # fmt: skip
EXPANDER = Part("expander", *(f"detour.control.expander.{name}" for name in _NAMES))
EXPANDER.companions = (VERIFIER,)
