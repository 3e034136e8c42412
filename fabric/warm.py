# SPDX-License-Identifier: Apache-2.0
"""Builds all native code, part by part, side by side on all cores."""

from __future__ import annotations

import json
import os
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

from detour.base.errors import DetourError
from detour.base.parts import BUILD_COMMAND, build_environment, last_line
from detour.base.progress import COMPILING, Progress, silent
from detour.control.edge_colouring import COLOURING
from detour.control.expander.native import EXPANDER
from detour.control.fors.native import FORS_PART
from detour.control.placement.native import PLACEMENT
from detour.control.verifier.native import VERIFIER
from detour.engine.loop.entry import LOOP
from detour.engine.trace.matching import MATCHING
from detour.fabric.monitoring.windows import FLOW_WINDOWS
from detour.hosts.cc.built_in import CONGESTION
from detour.hosts.driver import DRIVER
from detour.hosts.frames.sample import FRAMES
from detour.hosts.ip.stack import IP
from detour.hosts.paths.built_in import PATH_SCHEMES
from detour.hosts.rdma import RDMA

ALL_PARTS = (
    EXPANDER, RDMA, IP, FORS_PART, PLACEMENT, LOOP, PATH_SCHEMES, CONGESTION, VERIFIER, COLOURING, FRAMES, MATCHING,
    FLOW_WINDOWS, DRIVER,
)  # fmt: skip
"""the largest ones first"""
_RIVALS = ("rivals", "detour.experiments.rivals.paths")
"""of a package above this one: its name and its module"""


def warm(progress: Progress = silent) -> dict[str, Any]:
    """Builds what is not in the cache. Returns `seconds`, and of each of the `parts` what its builder says.

    Raises:
        DetourError: something cannot be built.
    """
    COMPILING.hush()
    began = time.monotonic()
    parts = [*((part.name, *part.modules) for part in ALL_PARTS), _RIVALS]
    commands = [[*BUILD_COMMAND, *part] for part in parts]
    done: list[dict[str, Any]] = []
    progress("native code: building what is not in the cache")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for building in as_completed([pool.submit(_built, command) for command in commands]):
            part = building.result()
            done.append(part)
            state = "cached" if part["cached"] else f"built in {part['seconds']:.0f} s"
            progress(f"native code, {len(done)} of {len(commands)} parts: {part['name']} {state}")
    return {"parts": done, "seconds": round(time.monotonic() - began, 3)}


def _built(command: list[str]) -> dict[str, Any]:
    ended = subprocess.run(command, env=build_environment(), capture_output=True, check=False)
    if ended.returncode:
        raise DetourError(f"native code cannot be built ({' '.join(command[2:])}): {last_line(ended.stderr)}")
    return json.loads(ended.stdout.splitlines()[-1])
