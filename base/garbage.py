# SPDX-License-Identifier: Apache-2.0
"""Python's cyclic garbage collector, held off while many objects are made that live on."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_collection() -> Iterator[None]:
    """Without Python's search for circles of objects, which takes as long as making them: here are many and no circles.
    Afterwards they count as old, so that it does not look at them next thing."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.freeze()
            gc.unfreeze()
            gc.enable()
