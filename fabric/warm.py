# SPDX-License-Identifier: Apache-2.0
"""Builds all native code: the parts and the planners, side by side on all cores."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass

from detour.base.errors import DetourError
from detour.base.parts import BUILD_COMMAND
from detour.base.progress import COMPILING, Progress, silent
from detour.base.records import from_json
from detour.control.verifier.reach import REACH
from detour.engine.loop.entry import LOOP
from detour.engine.trace.matching import MATCHING
from detour.fabric.monitoring.windows import FLOW_WINDOWS
from detour.hosts.driver import DRIVER
from detour.hosts.frames.sample import FRAMES
from detour.hosts.ip.stack import IP
from detour.hosts.rdma import RDMA

FABRIC_PARTS = (RDMA, IP, LOOP, DRIVER, MATCHING, FRAMES, FLOW_WINDOWS, REACH)
"""those of a fabric, the largest ones first"""


@dataclass(frozen=True)
class BuiltPart:
    """What became of a part; times of the clock and of processors, s."""

    name: str
    functions: int
    seconds: float
    cpu_seconds: float
    cached: bool


@dataclass(frozen=True)
class Warmed:
    """All parts."""

    parts: tuple[BuiltPart, ...]
    seconds: float


def warm(progress: Progress = silent) -> Warmed:
    """Builds what is not in the cache.

    Raises:
        DetourError: something cannot be built.
    """
    COMPILING.hush()
    began = time.monotonic()
    planners = [sys.executable, "-m", "detour.control.warm"]
    commands = [planners, *([*BUILD_COMMAND, part.name, *part.modules] for part in FABRIC_PARTS)]
    done: list[BuiltPart] = []

    def tell(part: BuiltPart) -> None:
        done.append(part)
        state = "cached" if part.cached else f"built in {part.seconds:.0f} s"
        progress(f"native code, {len(done)} of {len(commands)} parts: {part.name} {state}")

    progress("native code: building what is not in the cache")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for built in as_completed([pool.submit(_built, command) for command in commands]):
            tell(built.result())
    return Warmed(tuple(done), round(time.monotonic() - began, 3))


def _built(command: list[str]) -> BuiltPart:
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        said = ended.stderr.strip().splitlines()
        raise DetourError(
            f"native code cannot be built ({' '.join(command[2:])}): {said[-1] if said else ended.returncode}"
        )
    return from_json(BuiltPart, json.loads(ended.stdout.splitlines()[-1]))
