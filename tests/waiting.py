# SPDX-License-Identifier: Apache-2.0
"""Waiting for what must happen, however slow the machine is: no test fails for being slow, `detour bench` says how
fast something is."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE_S = 300.0
"""what has not happened after so long will not happen any more; says nothing about how long it should take"""


def until(condition: Callable[[], T], why: str = "it did not happen") -> T:
    """What the condition returns as soon as that is true."""
    end = time.monotonic() + PATIENCE_S
    while not (result := condition()):
        assert time.monotonic() < end, why
        time.sleep(0.005)
    return result


def load_while_idle() -> float:
    """Processor time of this process while it has nothing to do, as a fraction of the time that passes.

    1 for a loop that spins, next to 0 for one that waits; less on a machine that is busy."""
    wall, used = time.monotonic(), time.process_time()
    time.sleep(0.5)
    return (time.process_time() - used) / (time.monotonic() - wall)
