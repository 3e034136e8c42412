# SPDX-License-Identifier: Apache-2.0
"""Waiting for what must happen, however slow the machine is: no test fails for being slow, `detour bench` says how
fast something is."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

PATIENCE_S = 300.0
"""what has not happened after so long will not happen any more; says nothing about how long it should take"""


def until(condition: Callable[[], T], why: str = "it did not happen") -> T:
    """What the condition returns as soon as that is true. Asking takes a quarter of the time at most: the processors
    are for what is waited for."""
    end = time.monotonic() + PATIENCE_S
    while True:
        asked = time.monotonic()
        if result := condition():
            return result
        now = time.monotonic()
        assert now < end, why
        time.sleep(max(0.005, 3 * (now - asked)))


def until_a_thread_rests(name: str) -> None:
    """Return when a thread of this process sleeps and takes no processor time between two looks. A thread that spins,
    or that wakes up all the time, is never found so."""
    thread = next(thread for thread in threading.enumerate() if thread.name == name)
    assert thread.ident is not None
    clock, status = time.pthread_getcpuclockid(thread.ident), Path(f"/proc/self/task/{thread.native_id}/stat")
    looks: list[tuple[str, int]] = []

    def rests() -> bool:
        state = status.read_text().rpartition(")")[2].split()[0]
        looks.append((state, time.clock_gettime_ns(clock)))
        return state == "S" and looks[-2:-1] == looks[-1:]

    until(rests, f"{name} does not rest")


def load_until(condition: Callable[[], object]) -> float:
    """Waits for something. Returns the processor time of this process meanwhile, as a fraction of the time that passes:
    1 for a loop that spins, next to 0 for one that waits; less on a machine that is busy."""
    wall, used = time.monotonic(), time.process_time()
    until(condition)
    return (time.process_time() - used) / (time.monotonic() - wall)
