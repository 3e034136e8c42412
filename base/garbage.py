# SPDX-License-Identifier: Apache-2.0
"""Python's cyclic garbage collector, held off while many objects are made that live on."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_circles_left = _kept = False


def keep_all() -> None:
    """All that there is stays until the process ends: no collection looks at it from now on."""
    global _kept
    _kept = True
    gc.freeze()


def leave_circles() -> None:
    """Objects in circles, with arrays that are large, are no longer needed. Old objects are hardly ever looked at, so
    the next `no_collection` collects them first."""
    global _circles_left
    _circles_left = True


@contextmanager
def no_collection() -> Iterator[None]:
    """Without Python's search for circles of objects, which takes as long as making them: here are many and no circles.
    Afterwards they count as old, so that it does not look at them next thing."""
    global _circles_left
    if _circles_left:
        _circles_left = False
        gc.collect()
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            if not _kept:
                gc.freeze()
                gc.unfreeze()
            gc.enable()
