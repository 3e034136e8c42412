# SPDX-License-Identifier: Apache-2.0
"""The fabric that the options of `fors` describe."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from detour.base.errors import DetourError

if TYPE_CHECKING:
    from detour.control.fors import FatTree2


def fabric_of(options: argparse.Namespace) -> FatTree2:
    """The fabric that the options describe.

    Raises:
        DetourError: they do not describe one, or pairs of its leaves cannot reach each other and may not be skipped.
    """
    from detour.control.fors import parse_fabric, random_failures
    from detour.control.fors.solve import unreachable_text

    fabric = parse_fabric(options.topo, options.fail, options.servers, options.population, options.group)
    if options.random_failures is not None:
        fabric = random_failures(fabric, options.random_failures, options.seed)
    lost = fabric.unreachable()
    if lost and not options.skip_unreachable:
        raise DetourError(unreachable_text(fabric, tuple(lost)))
    return fabric
