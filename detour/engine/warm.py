# SPDX-License-Identifier: Apache-2.0
"""Native code of a fabric, before it is started: where it is not in the cache it is built, on all cores."""

from __future__ import annotations

from detour.base import native
from detour.base.native import Part
from detour.base.progress import COMPILING, Progress, silent
from detour.engine.loop.entry import LOOP


def ensure(progress: Progress, *stacks: Part) -> None:
    """Build the loop and stacks of hosts, as far as they are not in the cache, and tell so. Then all of them are
    loaded: later there may be no descriptor left for that."""
    if progress is not silent:
        COMPILING.progress = progress
    native.ensure((LOOP, *stacks), progress)
    for part in (LOOP, *stacks):
        part.load()
