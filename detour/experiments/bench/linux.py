# SPDX-License-Identifier: Apache-2.0
"""`detour bench linux`: what iperf3's TCP carries between two Linux hosts, over one switch and over five in a row.

Links take no time. The engine and BMv2 get the same namespaces, interfaces, P4 program, entries and queues, by turns;
what counts is what the receiver got. Both ends of the connection are the kernel's, and share the processor with the
switches.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from statistics import mean

import networkx

from detour.base.errors import DetourError
from detour.base.progress import Progress, silent
from detour.experiments.bench import namespace, processes
from detour.experiments.bench.report import BenchReport, Goal, ratio
from detour.experiments.columns import grouped
from detour.fabric.backends.base import Fabric
from detour.fabric.backends.settings import BackendSettings, real_time
from detour.fabric.linux.hosts import LinuxRequest, request
from detour.fabric.linux.keeper import enter, missing
from detour.fabric.operations.session import Session
from detour.topo import Topology, from_networkx

SWITCHES = (1, 5)
GOAL = 10.0
_RATE_BPS = 1_000_000_000_000
_QUEUE = 8000
_SECONDS, _ROUNDS = 4.0, 2
_LISTENS_S, _MORE_S = 10.0, 30.0
_CLIENT, _SERVER = "h0", "h1"


@dataclass(frozen=True)
class LinuxRun:
    """One connection over a number of switches. `retransmits`: segments that TCP sent again."""

    system: str
    switches: int
    mbps: float
    retransmits: int


def row_of_switches(count: int) -> Topology:
    """Switches in a row, with a host at either end."""
    graph = networkx.path_graph(count)
    for host, switch in ((_CLIENT, 0), (_SERVER, count - 1)):
        graph.add_node(host, kind="host")
        graph.add_edge(switch, host)
    return from_networkx(graph)


def settings() -> BackendSettings:
    """Links that carry a packet in nanoseconds, and queues that hold a window."""
    return real_time(_RATE_BPS, queue_packets=_QUEUE, delay_ps=0, queue_pairs=16, arena_bytes=1 << 20)


def _fabric(system: str, topology: Topology, hosts: LinuxRequest) -> Fabric:
    if system == "bmv2":
        from detour.fabric.backends.bmv2.fabric import Bmv2Fabric

        return Bmv2Fabric(topology, settings(), linux=hosts)
    from detour.fabric.backends.engine import EngineFabric

    return EngineFabric(topology, settings(), linux=hosts)


def measure(system: str, switches: int, seconds: float, progress: Progress = silent) -> LinuxRun:
    """Boots a fabric, lets one connection run for `seconds`, and takes it down."""
    topology = row_of_switches(switches)
    progress(f"{system}: {switches} switches")
    with ExitStack() as open_now:
        fabric = _fabric(system, topology, request(topology, f"{_CLIENT},{_SERVER}", queue=_QUEUE))
        session = open_now.enter_context(Session(fabric))
        session.provision()
        document = _iperf(fabric, seconds)
    sent, received = document["end"]["sum_sent"], document["end"]["sum_received"]
    return LinuxRun(system, switches, received["bits_per_second"] / 1e6, sent["retransmits"])


def _iperf(fabric: Fabric, seconds: float) -> dict:
    """Return the report of iperf3's client. Raises `DetourError`: it could not connect."""
    assert fabric.linux is not None
    inside = {name: enter(fabric.linux.process(name), user=False) for name in (_CLIENT, _SERVER)}
    server = subprocess.Popen(
        [*inside[_SERVER], "iperf3", "--server", "--one-off"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        client = [*inside[_CLIENT], "iperf3", "--client", _SERVER, "--time", str(seconds), "--json"]
        end = time.monotonic() + _LISTENS_S
        while True:  # the server may not listen yet
            done = subprocess.run(client, capture_output=True, text=True, check=False, timeout=seconds + _MORE_S)
            document = json.loads(done.stdout)
            if "error" not in document or time.monotonic() > end:
                break
    finally:
        server.send_signal(signal.SIGKILL)
        server.wait()
    if "error" in document:
        raise DetourError(f"iperf3: {document['error']}")
    return document


def unavailable() -> str:
    """Why nothing can be measured here; empty: it can."""
    why = namespace.unavailable() or missing() or ""
    if not why and shutil.which("iperf3") is None:
        why = "`iperf3` is not on PATH (install iperf3)"
    return why


def run(seconds: float = _SECONDS, rounds: int = _ROUNDS, progress: Progress = silent) -> BenchReport:
    """Measures. Raises `DetourError`: that is not possible here."""
    if why := unavailable():
        raise DetourError(f"bench linux: {why}")
    absent = processes.no_bmv2()
    systems = ["engine"] if absent else ["engine", "bmv2"]
    runs = [
        measure(system, switches, seconds, progress)
        for switches in SWITCHES
        for _ in range(rounds)
        for system in systems
    ]
    return report(runs, [absent] if absent else [])


def report(runs: Sequence[LinuxRun], notes: Sequence[str]) -> BenchReport:
    """Means over the rounds; the worst ratio is *the* ratio."""
    by_case = grouped(runs, lambda run: (run.system, run.switches))
    means = {case: mean(run.mbps for run in several) for case, several in by_case.items()}
    again = {case: f"{mean(run.retransmits for run in several):,.0f}" for case, several in by_case.items()}
    ratios = {n: ratio(means.get(("engine", n)), means.get(("bmv2", n))) for n in SWITCHES}
    rows = []
    for n in SWITCHES:
        both = ("engine", n), ("bmv2", n)
        speeds = (_number(means.get(case)) for case in both)
        rows.append((str(n), *speeds, _number(ratios[n], 1), " / ".join(again.get(case, "-") for case in both)))
    return BenchReport(
        name="linux",
        numbers={
            "runs": [vars(run) for run in runs],
            "rows": [{"system": system, "switches": n, "mbps": value} for (system, n), value in means.items()],
            "ratios": {str(n): value for n, value in ratios.items()},
        },
        columns=("switches", "engine, Mb/s", "BMv2, Mb/s", "times BMv2", "sent again (engine / BMv2)"),
        rows=tuple(rows),
        goals=tuple(Goal(f"{n} switch{'es' if n > 1 else ''}: times BMv2's TCP,", ratios[n], GOAL) for n in SWITCHES),
        notes=tuple(notes),
    )


def _number(value: float | None, digits: int = 0) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"
