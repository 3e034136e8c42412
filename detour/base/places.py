# SPDX-License-Identifier: Apache-2.0
"""Places of detour's own files."""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).parents[1]
"""the package `detour`, with a folder for each package"""
P4SRC = PACKAGE / "p4src"
BUILD = P4SRC / "build"
"""what the compiler makes of our P4"""


def modules() -> list[Path]:
    """All Python files of detour, in order."""
    return sorted(PACKAGE.rglob("*.py"))
