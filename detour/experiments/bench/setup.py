# SPDX-License-Identifier: Apache-2.0
"""`detour bench setup`: what it takes until a large fabric stands, and a driver's frames a second.

Topologies are built, the papers' smallest and largest Dragonfly are proven from their entries, 32,768 connections set
up, multicast groups changed beside 65,534 others; two hosts exchange a message over UNIX sockets. All in this process,
with native code loaded. The best of some repetitions counts: others may be using this machine.
"""

from __future__ import annotations

import socket
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np

from detour.base.errors import DetourError
from detour.base.progress import Progress, silent
from detour.control.planner import plan
from detour.control.verifier.verifier import verify
from detour.engine.pre import MAX_GROUP, Replication
from detour.experiments.bench.p4runtime import timed
from detour.experiments.bench.report import BenchReport, Goal
from detour.hosts.config import HostConfig
from detour.hosts.driver import Driver, open_unix
from detour.hosts.endpoint import make_hosts
from detour.hosts.parameters import real_time
from detour.hosts.state import set_host
from detour.hosts.verbs import CQ, MR, PD, QP, AccessFlag, Context, Device, Endpoint, SendWR, WCStatus
from detour.hosts.verbs.bulk import connect_many, post_many
from detour.topo import parse_topology

CONNECTIONS = 1 << 15
_REPEATS = 3
_GROUPS = 10_000
_MESSAGE = 2_000_000
_PATIENCE_S = 60.0


def run(largest: str = "d3", connections: int = CONNECTIONS, progress: Progress = silent) -> BenchReport:
    """Measures all of it. `largest`: the topology that is proven beside D1; `connections`: how many are set up."""
    progress("building topologies")
    build = _best(lambda: timed(lambda: [parse_topology(spec) for spec in ("d3", "fat-tree:k=16")]))
    proofs = {}
    for spec in dict.fromkeys(("d1", largest)):
        progress(f"proving {spec}")
        proofs[spec] = proof_seconds(spec)
    progress(f"setting up {connections} connections")
    connect_us = 1e6 * _best(lambda: connect_seconds(connections)) / connections
    progress("changing multicast groups")
    group_us = 1e6 * _best(group_seconds) / _GROUPS
    progress("a message over UNIX sockets")
    frames = 1 / _best(lambda: 1 / driver_rate())
    goals = (
        Goal("seconds to build D3 and a fat-tree of k = 16", build, 1.0, most=True),
        *(Goal(f"seconds to prove {spec}", took, 2.0 if spec == "d1" else 15.0, True) for spec, took in proofs.items()),
        Goal("us to set up a connection", connect_us, 50.0, most=True),
        Goal("us to change one multicast group of 65,535", group_us, 500.0, most=True),
        Goal("frames/s of two drivers over UNIX sockets", frames, 5000.0),
    )
    numbers = {"build_s": build, "proof_s": proofs, "connections": connections, "connect_us": connect_us}
    numbers |= {"group_us": group_us, "driver_frames_per_s": frames}
    rows = tuple((goal.text, f"{goal.value:,.4g}") for goal in goals)
    return BenchReport("setup", numbers, ("what", "value"), rows, goals)


def _best(measure: Callable[[], float]) -> float:
    return min(measure() for _ in range(_REPEATS))


def proof_seconds(spec: str) -> float:
    """Seconds to verify that the planned entries connect every pair of hosts of a topology."""
    topology = parse_topology(spec)
    planned = plan(topology)

    def prove() -> None:
        if not verify(planned, topology).ok:
            raise DetourError(f"{spec}: the planned entries are wrong")

    return _best(lambda: timed(prove))


def connect_seconds(count: int) -> float:
    """Seconds to connect `count` pairs of 64 hosts with 32 candidate paths each, and to post a message on all."""
    sizes = {"window": 64, "sq_depth": 4, "max_candidates": 32, "cq_depth": max(64, count // 4)}
    hs = make_hosts(64, 2 * count, 1 << 41, config=HostConfig(elide_payload=True), **sizes)
    for host in range(64):
        set_host(hs, host, f"fd00:0:0:{host:x}::1")
    pairs = np.random.default_rng(3).integers(0, 64, (2, count))
    device = Device(hs)
    return timed(lambda: post_many(connect_many(device, pairs[0], pairs[1], shortest=1, non_shortest=31), 1 << 30))


def group_seconds() -> float:
    """Seconds to change 10,000 multicast groups while all others exist."""
    pre = Replication()
    for group in range(1, MAX_GROUP + 1):
        pre.set_group(group, [(group % 500, group)])

    def change() -> None:
        for group in range(1, _GROUPS + 1):
            pre.set_group(group, [(1, group), (2, group), (3, 0)])

    return timed(change)


class _Station:
    """One host with arrays and a driver of its own."""

    def __init__(self, number: int) -> None:
        self.hs = make_hosts(1, 1, 2 * _MESSAGE, config=real_time(), seed=number)
        set_host(self.hs, 0, f"fd00::{number + 1}", mac=0x020000000000 | number)
        self.driver = Driver(self.hs)
        self.pd = PD(Context(Device(self.hs, self.driver.call, self.driver.kick), 0))
        self.cq = CQ(self.pd.context)
        self.mr = MR(self.pd, _MESSAGE, AccessFlag.LOCAL_WRITE | AccessFlag.REMOTE_WRITE)
        self.qp = QP(self.pd, self.cq)


def driver_rate() -> float:
    """Frames a second, ACKs included, of a message of 2 MB between two drivers over UNIX sockets. Raises `DetourError`:
    it does not arrive."""
    a, b = _Station(0), _Station(1)
    with tempfile.TemporaryDirectory(prefix="detour-bench-") as folder:
        left = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        left.bind(f"{folder}/a")
        a.driver.attach(0, left)
        b.driver.attach(0, open_unix(f"{folder}/a", Path(folder) / "b"))
        left.connect(f"{folder}/b")
        with a.driver, b.driver:
            a.qp.connect(Endpoint(**asdict(b.qp.endpoint)))
            b.qp.connect(Endpoint(**asdict(a.qp.endpoint)))
            seconds = timed(lambda: _write(a, b))
    return (a.pd.context.stats()["tx_frames"] + b.pd.context.stats()["tx_frames"]) / seconds


def _write(a: _Station, b: _Station) -> None:
    a.qp.post_send(SendWR(1, a.mr.sge(0, _MESSAGE), b.mr.addr, b.mr.rkey))
    pause, end = threading.Event(), time.monotonic() + _PATIENCE_S
    while not (done := a.cq.poll()):
        if time.monotonic() > end:
            raise DetourError("a message over UNIX sockets does not arrive")
        pause.wait(0.001)
    if done[0].status is not WCStatus.SUCCESS:
        raise DetourError(f"a message over UNIX sockets: {done[0].status.name}")
