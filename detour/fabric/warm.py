# SPDX-License-Identifier: Apache-2.0
"""Builds all native code, part by part, side by side on all cores."""

from __future__ import annotations

import time
from importlib.metadata import entry_points
from typing import Any

from detour.base.native import build_side_by_side
from detour.base.progress import COMPILING, Progress, silent
from detour.control.native import COLOURING, EXPANDER, FORS_PART, PLACEMENT, VERIFIER
from detour.engine.loop.entry import LOOP
from detour.engine.trace.matching import MATCHING
from detour.fabric.fast.looks import FAST
from detour.fabric.monitoring.windows import FLOW_WINDOWS
from detour.fabric.workloads.tasks import TASK_GRAPHS
from detour.hosts.cc.built_in import CONGESTION
from detour.hosts.driver import DRIVER
from detour.hosts.frames.sample import FRAMES
from detour.hosts.ip.stack import IP
from detour.hosts.paths.built_in import PATH_SCHEMES
from detour.hosts.rdma import RDMA
from detour.hosts.transport.built_in import TRANSPORTS

ALL_PARTS = (
    EXPANDER, RDMA, IP, FORS_PART, PLACEMENT, LOOP, PATH_SCHEMES, TRANSPORTS, CONGESTION, VERIFIER, COLOURING, FRAMES,
    MATCHING, FLOW_WINDOWS, DRIVER, TASK_GRAPHS, FAST,
)  # fmt: skip
"""the largest ones first"""


def warm(progress: Progress = silent, *, only_missing: bool = False) -> dict[str, Any]:
    """Build what is not in the cache. Return `seconds`, and of each of the `parts` what its builder says;
    `only_missing`: no builder is started for what is in the cache, and nothing said of it. Raises DetourError:
    something cannot be built."""
    COMPILING.hush()
    began, done = time.monotonic(), list[dict[str, Any]]()
    brought = ((point.name, point.value) for point in entry_points(group="detour.native_parts"))
    own = ((part.name, *part.modules) for part in ALL_PARTS if not (only_missing and part.cached))
    parts = [*own, *brought]
    progress("native code: building what is not in the cache")
    for part in build_side_by_side(parts):
        done.append(part)
        state = "cached" if part["cached"] else f"built in {part['seconds']:.0f} s"
        progress(f"native code, {len(done)} of {len(parts)} parts: {part['name']} {state}")
    return {"parts": done, "seconds": round(time.monotonic() - began, 3)}
