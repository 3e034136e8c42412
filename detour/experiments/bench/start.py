# SPDX-License-Identifier: Apache-2.0
"""`detour bench start`: what it takes to start things, with native code in the cache."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import grpc
from finsy.proto import p4r, p4r_grpc

from detour.base.errors import DetourError
from detour.base.progress import Progress, silent
from detour.experiments.bench.report import BenchReport, Goal, report_of_rows
from detour.experiments.columns import row, shown
from detour.fabric.daemon.state_dir import all_fabrics

_DETOUR = (sys.executable, "-m", "detour")
_SIM = ("sim", "--topo", "leaf-spine:leaves=2,spines=2,hosts=4", "--workload", "permutation:bytes=1e5", "--json")
_LIMIT_S = 300.0
_GOALS = {"switch-answers": (0.5, 100), "status": (0.25, 40)}
"""CPU seconds, MiB"""
_TICKS = os.sysconf("SC_CLK_TCK")


@row
class StartCost:
    """The cost of starting `what`: time of the clock and of processors, s; resident memory of the largest process,
    MiB."""

    what: str = shown("what")
    seconds: float = shown("s", ".2f")
    cpu_seconds: float = shown("CPU s", ".2f")
    rss_mib: float = shown("MiB", ".0f")


def run(times: int = 3, progress: Progress = silent) -> BenchReport:
    """Each as often as said, of which the one with the median processor time counts."""
    rows = []
    measures = {"switch-answers": _switch, "sim-small": lambda: _command(*_SIM), "up-d1": _up, "status": _status}
    for what, measure in measures.items():
        progress(what)
        measure()  # fills the caches
        costs = sorted((measure() for _ in range(times)), key=lambda cost: cost[1])
        clock, cpu, rss = (round(number, 3) for number in costs[times // 2])
        rows.append(StartCost(what=what, seconds=clock, cpu_seconds=cpu, rss_mib=rss))
    goals = [
        Goal(f"{row.what}: {unit}", value, _GOALS[row.what][at], most=True)
        for row in rows
        if row.what in _GOALS
        for at, (unit, value) in enumerate((("CPU s", row.cpu_seconds), ("MiB", row.rss_mib)))
    ]
    return report_of_rows("start", StartCost, rows, {"rows": [asdict(one) for one in rows]}, goals)


Cost = tuple[float, float, float]


# In a small process: of one that was forked by a large one, the kernel counts what that had as its own.
_MEASURED = """
import json, os, sys, time
began = time.monotonic()
process = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
_, status, used = os.wait4(process, 0)
took = time.monotonic() - began, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024
print(json.dumps([os.waitstatus_to_exitcode(status), *took]), file=sys.stderr)
"""


def _command(*arguments: str) -> Cost:
    return cost_of(*_DETOUR, *arguments)


def cost_of(program: str, *arguments: str) -> Cost:
    """Return the cost of a command that ends, without the processes that it leaves: s, CPU s, MiB. Raises
    `DetourError`: its exit code is not 0."""
    words = (shutil.which(program) or program, *arguments)
    command = (sys.executable, "-ISc", _MEASURED, *words)
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    *errors, last = done.stderr.strip().splitlines() or [""]
    code, *cost = json.loads(last)
    if code:
        raise DetourError(f"{Path(program).name} {' '.join(arguments)}: {' '.join(errors)}")
    return cost[0], cost[1], cost[2]


def _up() -> Cost:
    """The command and the daemon that it leaves, until that is up."""
    with _fabric() as (_, (seconds, used, _), process):
        return seconds, used + _cpu(process), _rss(process)


def _status() -> Cost:
    with _fabric() as (name, *_):
        return _command("status", "--name", name)


@contextmanager
def _fabric() -> Iterator[tuple[str, Cost, int]]:
    """D1, detached, for as long as it is used: its name, what it cost, and its process."""
    name = f"bench{os.getpid()}"
    cost = _command("up", "--detach", "--name", name)
    try:
        yield name, cost, all_fabrics()[name].process() or 0
    finally:
        _command("down", "--name", name)


def _switch() -> Cost:
    """`detour switch` without a program until a client has its answer."""
    began = time.monotonic()
    command = (*_DETOUR, "switch", "--no-p4", "--device-id", "1", "--", "--grpc-server-addr", "127.0.0.1:0")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            assert process.stdout is not None
            listening = next((line for line in process.stdout if line.startswith("Server listening on")), None)
            if listening is None:
                raise DetourError("detour switch ended before it listened")
            with grpc.insecure_channel(listening.split()[-1]) as channel:
                p4r_grpc.P4RuntimeStub(channel).Capabilities(p4r.CapabilitiesRequest(), timeout=_LIMIT_S)
            return time.monotonic() - began, _cpu(process.pid), _rss(process.pid)
        finally:
            process.kill()


def _cpu(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _rss(process: int) -> float:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024
