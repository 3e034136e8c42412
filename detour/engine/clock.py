# SPDX-License-Identifier: Apache-2.0
"""The pace of the event loop: the wall clock, or none at all."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RealTime:
    """Paces the loop by CLOCK_MONOTONIC: an event is executed when its time has come, and happens at its own time.

    `max_lag_ps`: when the machine is too slow and the loop falls further behind than this, loop time is held
    back (it slips), so that frames from outside do not wait for it any longer. `Network.lag_ps` counts both.
    """

    max_lag_ps: int = 200_000_000_000

    tick_ps = 1_000_000
    """Default length of a P4 tick: 1 us, as in BMv2."""


@dataclass(frozen=True)
class Virtual:
    """No pacing: `Network.run(until_ps)` executes events as fast as it can. Same inputs, same bytes out.

    `divide`: large fabrics are executed switch by switch in short windows of time, which is faster and gives the same
    results (`detour.engine.division`). `threads`: how many may execute them side by side, with the same results
    (`detour.engine.workers`)."""

    divide: bool = True
    threads: int = 1

    tick_ps = 1_000
    """Default length of a P4 tick: 1 ns."""


Clock = RealTime | Virtual
