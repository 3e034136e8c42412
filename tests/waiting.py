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
    while not (found := condition()):
        assert time.monotonic() < end, why
        time.sleep(0.005)
    return found
