# SPDX-License-Identifier: Apache-2.0
"""`detour bench sim`: packet-hops a second in virtual time, with the P4 program run for every packet at every switch.

The reference is a fat-tree of 1,024 hosts (k = 16) with links of 100 Gb/s and 1 us; every host sends 2 MB to
another one, in packets of 4 KB (LERP, DCTCP, one path each). A packet-hop is the arrival of a packet, ACKs included,
at a switch or a host. Time is the processor time of the thread from the first packet to the last ACK. The reference is
run three times and the middle one counts: most of that time goes to memory, which a virtual machine shares with others.

Memory: D3 with 32,768 connections that all send (TelemetryLERP), in a process of its own.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from detour.base.errors import DetourError
from detour.base.places import BUILD
from detour.base.progress import Progress, silent
from detour.base.times import US
from detour.control.policy import Amount, StepMarking
from detour.engine.compiler.program import Program
from detour.experiments.bench.processes import peak_resident
from detour.experiments.bench.report import BenchReport, Fact, Goal, report_of_facts
from detour.experiments.sweep import apart
from detour.fabric.backends.virtual.fabric import VirtualFabric
from detour.fabric.backends.virtual.scheme import TELEMETRY_LERP, RunSettings, Scheme
from detour.topo import parse_topology

GOAL_HOPS = 1.5e6
GOAL_GIB = 4.0
_PAYLOAD = 4096
_BDP_PACKETS = 40
"""100 Gb/s times the 13 us there and back across three tiers, in packets"""
_HOSTS = (("payload", _PAYLOAD), ("mtu", _PAYLOAD), ("line_rate_cwnd", _BDP_PACKETS))
REFERENCE_SCHEME = Scheme("sim", "lerp", "dctcp", "shortest", StepMarking(Amount(100_000, "bytes")), hosts=_HOSTS)
REFERENCE_SETTINGS = RunSettings(window=256, seed=1)
_STEP_PS = 50 * US
_RUNS = 3
_LIMIT_PS = 100_000 * US
_CONNECTIONS = 32_768
_MEMORY_RUN_PS = 100 * US


@dataclass(frozen=True)
class Speed:
    """The totals of one run of the reference."""

    hosts: int
    switches: int
    hops: int
    events: int
    cpu_s: float
    """processor time of one thread, or wall time of several"""
    virtual_ps: int
    retransmitted: int


def derangement(n: int, seed: int) -> list[tuple[int, int]]:
    """(host, its target) for a random permutation that sends nobody to itself."""
    rng, targets = random.Random(seed), list(range(n))
    while any(host == target for host, target in enumerate(targets)):
        rng.shuffle(targets)
    return list(enumerate(targets))


def deliver(fabric: VirtualFabric, message: int, threads: int, progress: Progress = silent) -> float:
    """Every connection sends a message of that many bytes. Returns the seconds until the last ACK: processor time of
    one thread, or wall time of several. Raises `DetourError`: it does not end (a defect)."""
    clock = time.thread_time if threads == 1 else time.perf_counter
    fabric.send(message)
    begin = clock()
    while fabric.unfinished():
        if fabric.now_ps > _LIMIT_PS:
            raise DetourError(f"{fabric.unfinished()} messages were not delivered within 100 ms of virtual time")
        fabric.run(fabric.now_ps + _STEP_PS)
        progress(f"{fabric.unfinished()} messages under way after {fabric.now_ps // US} us")
    return clock() - begin


def packet_hops(fabric: VirtualFabric) -> int:
    """So far."""
    stats = fabric.network.switch_stats()["packets"], fabric.network.host_stats()["rx_packets"]
    return sum(int(counts.sum()) for counts in stats)


def permutation(k: int, message: int, progress: Progress = silent, seed: int = 1, threads: int = 1) -> Speed:
    """Run the reference on a fat-tree of `k` ports with messages of that many bytes. Raises `DetourError`: as
    `deliver`."""
    topology = parse_topology(f"fat-tree:k={k}")
    hosts, settings = len(topology.hosts), replace(REFERENCE_SETTINGS, seed=seed)
    with VirtualFabric(topology, REFERENCE_SCHEME, settings, queue_pairs=hosts, threads=threads) as fabric:
        fabric.connect(derangement(hosts, seed))
        fabric.run(1)  # loads native code
        progress(f"{hosts} hosts are ready")
        spent = deliver(fabric, message, threads, progress)
        events, again = fabric.network.loop_stats()["events"], int(fabric.column("st_retransmitted").sum())
        return Speed(hosts, len(topology.switches), packet_hops(fabric), events, spent, fabric.last_done_ps, again)


def compile_seconds() -> float:
    """Processor time to turn fabric.p4's JSON into machine code, from nothing."""
    source = json.loads((BUILD / "fabric.json").read_text())
    fresh = json.dumps(source | {"program": f"fabric-{time.time_ns()}.p4"})
    begin = time.thread_time()
    Program.from_json(fresh)
    return time.thread_time() - begin


# -- memory, in a process of its own -------------------------------------------------------------------------


def hold(connections: int) -> tuple[int, int]:
    """The process's peak memory in bytes after all connections have sent for a while, and how many of them delivered
    anything."""
    topology = parse_topology("d3")
    rng = np.random.default_rng(1)
    source = rng.integers(0, len(topology.hosts), connections)
    target = (source + 32 + rng.integers(0, len(topology.hosts) - 64, connections)) % len(topology.hosts)
    settings = replace(REFERENCE_SETTINGS, seed=RunSettings.seed)
    with VirtualFabric(topology, TELEMETRY_LERP, settings, queue_pairs=connections) as fabric:
        fabric.connect(list(zip(source.tolist(), target.tolist(), strict=True)))
        fabric.send(1 << 30)
        fabric.run(_MEMORY_RUN_PS)
        return peak_resident(), int((fabric.column("st_rx_bytes") > 0).sum())


def run(
    k: int = 16, message: int = 2_000_000, threads: int = 1, no_memory: bool = False, progress: Progress = silent
) -> BenchReport:
    """Measure speed, compile time and, unless `no_memory`, memory."""
    progress("compiling fabric.p4")
    compile_s = compile_seconds()
    speeds = [permutation(k, message, progress, threads=threads) for _ in range(_RUNS)]
    if no_memory:
        return report(speeds, compile_s, threads=threads)
    progress(f"D3 with {_CONNECTIONS:,} connections")
    return report(speeds, compile_s, apart(hold, _CONNECTIONS), threads)


def report(
    speeds: Sequence[Speed], compile_s: float, held: tuple[int, int] | None = None, threads: int = 1
) -> BenchReport:
    """Speed and memory against the goals; of several runs of the same the middle one counts. `held`: peak bytes, and
    connections that delivered something (`hold`)."""
    ordered = sorted(speeds, key=lambda speed: speed.cpu_s)
    speed, fastest, slowest = ordered[len(ordered) // 2], ordered[0], ordered[-1]
    hops_per_s, events_per_s = speed.hops / speed.cpu_s, speed.events / speed.cpu_s
    between = [run.hops / run.cpu_s for run in (slowest, fastest)]
    of_what = "of one core" if threads == 1 else f"of {threads} threads"
    facts = [
        Fact("", "hosts, switches", f"{speed.hosts}, {speed.switches}"),
        Fact("threads", "threads", threads),
        Fact("packet_hops", "packet-hops", speed.hops, ","),
        Fact("packet_hops_per_s", f"packet-hops a second {of_what}", hops_per_s, ",.0f"),
        Fact("packet_hops_per_s_between", "", between),
        Fact("", f"in {len(ordered)} runs", " to ".join(f"{value:,.0f}" for value in between)),
        Fact("events_per_s", f"events a second {of_what}", events_per_s, ",.0f"),
        Fact("", "processor time, s" if threads == 1 else "wall time, s", speed.cpu_s, ".2f"),
        Fact("virtual_us", "virtual time until all messages are there, us", speed.virtual_ps / US, ",.0f"),
        Fact("", "packets sent again", speed.retransmitted, ","),
        Fact("compile_s", "compiling fabric.p4, s", compile_s, ".2f"),
        Fact("p4", "", True),
    ]
    goals = [Goal("packet-hops a second", hops_per_s, GOAL_HOPS)]
    if held is not None:
        peak, delivered = held
        gib = peak / (1 << 30)
        facts += [
            Fact("memory_bytes", "", peak),
            Fact("", f"D3, {_CONNECTIONS:,} connections: peak memory, GiB", gib, ".2f"),
            Fact("memory_connections", "", _CONNECTIONS),
            Fact("", "connections that delivered data by then", delivered, ","),
        ]
        goals.append(Goal(f"D3 with {_CONNECTIONS:,} connections: GiB,", gib, GOAL_GIB, most=True))
    return report_of_facts("sim", ("virtual time", "value"), facts, goals)
