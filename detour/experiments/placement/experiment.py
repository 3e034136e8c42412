# SPDX-License-Identifier: Apache-2.0
"""Section IV of the SRv6 path placement paper: a link is throttled, and a flow gets out of its way, or does not.

Two gateways, two routers between them (Fig. 2): rt1 and rt2. One flow goes from gw2 by way of rt1 to gw1, where its
throughput is sampled; then the link rt1-gw2 loses part of its rate. Four runs: without the throttle, with it and
congestion control only, with a controller that reroutes, and with a NIC that reroutes itself. The paper gives neither
the rate of the throttled link nor when it was throttled; `THROTTLE` and `ONSET` are chosen so that the run without
rerouting delivers about what the paper's did (69.81 of 98.00 Gb).

A point is one run on one backend (`--footing`): virtual time, the engine in real time, or BMv2.
"""

from __future__ import annotations

from detour.base.errors import DetourError
from detour.experiments.placement.scenario import BACKENDS, MODES, PathPoint, PathRun

_LONGER = 3
"""times as long with --full"""


def select(extent: str = "normal", footing: str = "virtual", seconds: float | None = None) -> list[PathPoint]:
    """A point for every mode. Raises `DetourError`: no such footing, or a run that is too short to show anything."""
    if footing not in BACKENDS:
        raise DetourError(f"there is no footing {footing!r}; allowed: {', '.join(BACKENDS)}")
    how = BACKENDS[footing]
    length = seconds or {"quick": how.quick_seconds, "full": _LONGER * how.seconds}.get(extent, how.seconds)
    least = 12 * how.bin_s
    if length < least:
        raise DetourError(
            f"a run of {length:g} s is too short for the footing {footing}; expected at least {least:g} s"
        )
    return [PathPoint(footing, mode, length) for mode in MODES]


def seconds(point: PathPoint) -> float:
    return 5.0 + (200 * point.seconds if point.footing == "virtual" else 3.0 + 1.1 * point.seconds)


def run(point: PathPoint) -> PathRun:
    """Carry out a run."""
    from detour.experiments.placement.run import run as carry_out  # with all that a fabric needs

    return carry_out(point)
