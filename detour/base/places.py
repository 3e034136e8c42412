# SPDX-License-Identifier: Apache-2.0
"""Where detour's own files are: in a repository, where `detour/` holds links to the packages, and in an installed
wheel, where it holds the packages themselves. So no link is followed."""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).absolute().parents[1]
"""the package `detour`, with a folder for each package"""
P4SRC = PACKAGE / "p4src"
BUILD = P4SRC / "build"
"""what p4c made of our P4"""
PACKAGES = ("base", "topo", "control", "hosts", "engine", "fabric", "experiments", "cli")


def modules(*packages: str) -> list[Path]:
    """The Python files of some packages (default: of all), in order."""
    return sorted(path for package in packages or PACKAGES for path in (PACKAGE / package).rglob("*.py"))
