# SPDX-License-Identifier: Apache-2.0
"""Switch processes to measure: simple_switch_grpc, and `detour switch` in its place."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Set
from pathlib import Path
from typing import Literal

from detour.base.children import ending_with_parent
from detour.base.errors import DetourError
from detour.control.entries import Plan
from detour.control.p4runtime.client import FabricClient, SwitchTarget
from detour.control.p4runtime.reconcile import reconcile
from detour.engine import phv

MIB = 1 << 20


def peak_resident() -> int:
    """Bytes of this process's memory that have been resident at once, at most. (`ru_maxrss` begins with those of the
    process that started it.)"""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


Kind = Literal["engine", "bmv2"]

BMV2_COMMAND = "simple_switch_grpc"
ENGINE_COMMAND = (sys.executable, "-m", "detour", "switch")
_START_SECONDS = 60.0
_FIRST_THRIFT_PORT = 19090
_PRIORITIES = 8


def no_bmv2() -> str:
    """Why there is no BMv2 to compare with; empty: there is one."""
    return "" if shutil.which(BMV2_COMMAND) else f"not compared with BMv2: {BMV2_COMMAND} is not on PATH"


class Switches:
    """Running switches of a kind, one process each; a context manager. `ports`: device id -> port -> interface.

    They run in the caller's network namespace, with `cores` if these are given; P4Runtime is served on UNIX sockets.
    """

    def __init__(self, kind: Kind, ports: Mapping[int, Mapping[int, str]], cores: Set[int] = frozenset()) -> None:
        self._kind, self._cores = kind, cores
        self._folder = Path(tempfile.mkdtemp(prefix="detour-bench-"))
        self._processes = {device: self._start(device, mine) for device, mine in ports.items()}
        try:
            deadline = time.monotonic() + _START_SECONDS
            for device, process in self._processes.items():
                while not (self._folder / str(device)).exists():
                    if process.poll() is not None or time.monotonic() > deadline:
                        log = (self._folder / f"{device}.log").read_text(errors="replace")[-500:]
                        raise DetourError(f"{self._kind} switch {device} did not start: {log}")
                    time.sleep(0.02)
        except BaseException:
            self.close()
            raise

    def target(self, device: int) -> SwitchTarget:
        """Return where a switch is controlled."""
        return SwitchTarget(f"{self._kind}-{device}", device, f"unix:{self._folder}/{device}")

    def _start(self, device: int, ports: Mapping[int, str]) -> subprocess.Popen[bytes]:
        command = [BMV2_COMMAND] if self._kind == "bmv2" else [*ENGINE_COMMAND]
        command += ["--no-p4", "--device-id", str(device), "--log-level", "off"]
        command += ["--thrift-port", str(_FIRST_THRIFT_PORT + device)]
        for port, interface in ports.items():
            command += ["-i", f"{port}@{interface}"]
        command += ["--", "--grpc-server-addr", f"unix:{self._folder}/{device}"]
        command += ["--cpu-port", str(phv.CPU_PORT), "--priority-queues", str(_PRIORITIES)]

        def prepare() -> None:
            if self._cores:
                os.sched_setaffinity(0, self._cores)  # before it starts, as threads that it will have inherit it

        with (self._folder / f"{device}.log").open("wb") as log:
            return subprocess.Popen(
                ending_with_parent(command), stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=prepare
            )

    def provision(self, plan: Plan) -> None:
        """Push fabric.p4 and write the entries of a plan."""

        async def provision() -> None:
            async with FabricClient([self.target(device) for device in self._processes]) as client:
                await reconcile(client, plan)

        asyncio.run(provision())

    def close(self) -> None:
        """End the processes."""
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Switches:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
