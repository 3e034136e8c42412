# SPDX-License-Identifier: Apache-2.0
"""The processors that this process may use, and how many of them one run in virtual time takes."""

from __future__ import annotations

import os

from detour.base.override import Override

THREADS = Override(0)
"""threads of a run in virtual time; 0: as many as there are processors, if it is large enough"""
PROCESSES = Override(1)
"""processes with such runs that share the processors"""
_SWITCHES_OF_A_THREAD = 8
"""with fewer the threads wait for each other longer than they work"""


def cores() -> int:
    """Number of processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads_for(switches: int) -> int:
    """Return the number of threads for a run with so many switches."""
    return THREADS.value or max(1, min(cores() // PROCESSES.value, switches // _SWITCHES_OF_A_THREAD))
