# SPDX-License-Identifier: Apache-2.0
"""The fabric that the options of `fors` describe, and plans that are read from files."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from detour.base.errors import DetourError

if TYPE_CHECKING:
    from detour.control.fors import FatTree, ForsPlan


def fabric_of(options: argparse.Namespace) -> FatTree:
    """The fabric that the options describe.

    Raises:
        DetourError: they do not describe one, pairs of its leaves cannot reach each other and may not be skipped, or an
            option is for two levels.
    """
    from detour.control.fors import parse_fabric, random_failures
    from detour.control.fors.fabric import unreachable_text

    fabric = parse_fabric(options.topo, options.fail, options.servers, options.population, options.group)
    for name in ("sizes", "skew") if fabric.cores else ():
        if getattr(options, name, None) is not None:
            raise DetourError(f"--{name} is for fat-trees of two levels (ft:...); {options.topo!r} has three")
    if options.random_failures is not None:
        fabric = random_failures(fabric, options.random_failures, options.seed)
    lost = fabric.unreachable()
    if lost and not options.skip_unreachable:
        raise DetourError(unreachable_text(fabric, tuple(lost)))
    return fabric


def right_plan(fabric: FatTree, path: Path) -> ForsPlan:
    """The plan in a file.

    Raises:
        DetourError: something is wrong with it.
    """
    from detour.control.fors import files
    from detour.control.fors.verify import problems

    plan = files.read(fabric, path, tuple(fabric.unreachable()))
    refuse(fabric, path, problems(plan, most=1))
    return plan


def refuse(fabric: FatTree, path: Path, problems: list[str]) -> None:
    """Raises DetourError: there are problems with a file's plan."""
    for text in problems:
        raise DetourError(f"{path} is no plan for {fabric.name} with {fabric.servers} servers: {text}")
