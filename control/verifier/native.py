# SPDX-License-Identifier: Apache-2.0
"""The native code of the verifier."""

from __future__ import annotations

from detour.base.parts import Part

VERIFIER = Part("verifier", *(f"detour.control.verifier.{name}" for name in ("cycles", "dependencies", "reach")))
