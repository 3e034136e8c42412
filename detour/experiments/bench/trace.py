# SPDX-License-Identifier: Apache-2.0
"""`detour bench trace`: what tracing costs packets that are not traced, and traces a second, beside BMv2 with its log.

All of it with fabric.p4 on one switch of a Dragonfly, in virtual time, by the processor time of one thread; what is
compared takes turns. BMv2 gets the same program and frames from a file, without entries, and so does the engine for
that comparison.
"""

from __future__ import annotations

import re
import shutil
import socket
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from detour.base.places import BUILD
from detour.base.progress import Progress, silent
from detour.control.planner import plan
from detour.control.policy import Policy
from detour.engine.clock import Virtual
from detour.engine.compiler.program import Program
from detour.engine.network import Network
from detour.engine.switch import pcap
from detour.engine.trace.filters import EVERYTHING, Filter, parse_filter
from detour.engine.trace.recorder import Recorder
from detour.experiments.bench.inprocess import DRAIN_PS, arrive
from detour.experiments.bench.report import BenchReport, Fact, Goal, report_of_facts
from detour.fabric.backends.virtual.load import install
from detour.hosts.frames.sample import data_frame
from detour.topo.spec import parse_topology

TRACES_GOAL, JSON_GOAL, LOG_GOAL = 100_000, 5_000, 20
IDLE_GOAL, LIVE_GOAL = 0.99, 0.98
_BATCH = 1_000
_TURNS = 9
_LOGGED = 2_000
_BMV2_S = 60.0
_ARRIVED = re.compile(rb"^\[(\d\d:\d\d:\d\d\.\d\d\d)\].*\[(\d+)\.0\].*Processing packet received")


@dataclass(frozen=True)
class _Bench:
    """A switch and the frames that go through it; one in a thousand has the source port that a live filter wants."""

    network: Network
    port: tuple[int, int]
    frames: list[bytes]

    def run(self) -> float:
        over = arrive(self.network, self.port, self.frames)
        begin = time.thread_time()
        self.network.run(over + DRAIN_PS)
        return time.thread_time() - begin


def _bench(entries: bool) -> _Bench:
    topology = parse_topology("d1")
    switch, a, b = topology.switches[0], topology.hosts[0], topology.hosts[-1]
    network = Network(Virtual())
    entities = plan(topology, Policy())[switch.device_id] if entries else []
    install(network, switch, Program.from_json(BUILD / "fabric.json"), entities, priorities=8)
    for port in range(1, len(switch.ports) + 1):
        network.attach_sink((switch.device_id, port), lambda frame, time_ps: None)
    frames = [data_frame(a, b, 0x8001 if number else 7) for number in range(_BATCH)]
    return _Bench(network, (switch.device_id, a.port), frames)


def _packets_per_second(bench: _Bench, ways: dict[str, Filter | None]) -> dict[str, float]:
    """By turns: without a recorder (None), or with one that has this filter."""
    measured: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(_TURNS + 1):
        for name, selection in ways.items():
            traced = nullcontext() if selection is None else Recorder(bench.network, selection, ring_bytes=256 << 20)
            with traced:
                busy = bench.run()
            if turn:
                measured[name].append(_BATCH / busy)
    return {name: statistics.median(rates) for name, rates in measured.items()}


def _json_per_second(bench: _Bench) -> float:
    """Traces that become JSON, what records cost when they are made left out."""
    rates = []
    for turn in range(_TURNS + 1):
        with Recorder(bench.network, EVERYTHING, ring_bytes=256 << 20) as recorder:
            bench.run()
            begin = time.thread_time()
            visits = recorder.collect()
            for visit in visits:
                visit.tree.json()
            busy = time.thread_time() - begin
        if turn:
            rates.append(len(visits) / busy)
    return statistics.median(rates)


def bmv2_log_pps(frames: list[bytes]) -> float | None:
    """Packets a second of simple_switch while it writes its log into a file; None if it is not installed."""
    binary = shutil.which("simple_switch")
    if binary is None:
        return None
    with tempfile.TemporaryDirectory(prefix="detour-bench-") as name:
        folder = Path(name)
        (folder / "p_in.pcap").write_bytes(pcap.header() + b"".join(pcap.packet(0, frame) for frame in frames))
        log = folder / "log"
        command = [
            binary, "--use-files", "1", "-i", f"1@{folder}/p", "-L", "trace", "--log-file", str(log), "--log-flush",
            "--thrift-port", str(_free_port()), str(BUILD / "fabric.json"),
        ]  # fmt: skip
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder) as process:
            try:
                return _logged(folder, len(frames))
            finally:
                process.kill()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _logged(folder: Path, count: int) -> float | None:
    """Packets a second by the stamps of the log, over the packets that are still in it when the last one has come: BMv2
    begins a new file every 5 MB and keeps the last ones."""
    end = time.monotonic() + _BMV2_S
    while time.monotonic() < end:
        time.sleep(0.5)
        stamps = dict(stamp for file in folder.glob("log*.txt") for stamp in _stamps(file))
        if max(stamps, default=0) >= count - 1:
            first, last = min(stamps), max(stamps)
            return (last - first) / max(stamps[last] - stamps[first], 1e-3)
    return None


def _stamps(file: Path) -> list[tuple[int, float]]:
    """(number of the packet, seconds of the day) of arrivals."""
    try:
        lines = file.read_bytes().splitlines()
    except OSError:
        return []  # it was renamed just now
    arrivals = [_ARRIVED.match(line) for line in lines]
    clocks = [
        (int(arrival[2]), datetime.strptime(arrival[1].decode(), "%H:%M:%S.%f")) for arrival in arrivals if arrival
    ]
    return [(number, (clock - datetime(1900, 1, 1)).total_seconds()) for number, clock in clocks]


def run(progress: Progress = silent, log: Callable[[list[bytes]], float | None] = bmv2_log_pps) -> BenchReport:
    progress("packets that are not traced")
    bench = _bench(entries=True)
    one_in_a_thousand = parse_filter("sport 7")
    rates = _packets_per_second(bench, {"before": None, "idle": None, "live": one_in_a_thousand, "all": EVERYTHING})
    progress("traces as JSON")
    as_json = _json_per_second(bench)
    progress("BMv2 with its log")
    empty = _bench(entries=False)
    logged = log(empty.frames * (_LOGGED // _BATCH))
    alone = _packets_per_second(empty, {"all": EVERYTHING})["all"]
    return _report(rates, as_json, logged, alone)


def _report(rates: dict[str, float], as_json: float, logged: float | None, alone: float) -> BenchReport:
    ratio = None if logged is None else alone / logged
    live = rates["live"] / rates["before"]
    goals = [
        Goal("idle against before: ratio,", rates["idle"] / rates["before"], IDLE_GOAL),
        Goal("1 in 1,000 traced against before: ratio,", live, LIVE_GOAL),
        Goal("traces recorded a second,", rates["all"], TRACES_GOAL),
        Goal("traces as JSON a second,", as_json, JSON_GOAL),
    ]
    if ratio is not None:
        goals.append(Goal("times BMv2 with its log,", ratio, LOG_GOAL))
    without = "not installed" if logged is None else f"{logged:,.0f}"
    facts = (
        Fact("untraced_pps", "no recorder was ever there", rates["before"], ",.0f"),
        Fact("idle_pps", "no recorder now", rates["idle"], ",.0f"),
        Fact("live_pps", "one packet in 1,000 traced", rates["live"], ",.0f"),
        Fact("traces_per_s", "every packet traced", rates["all"], ",.0f"),
        Fact("json_per_s", "traces made into JSON", as_json, ",.0f"),
        Fact("", "without entries, every packet traced", alone, ",.0f"),
        Fact("", "without entries, BMv2 with --log-file", without),
        Fact("bmv2_log_pps", "", logged),
        Fact("ratio", "", ratio),
    )
    return report_of_facts("trace", ("fabric.p4 on one switch", "packets/s"), facts, goals)
