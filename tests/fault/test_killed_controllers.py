# SPDX-License-Identifier: Apache-2.0
"""Controllers that are killed in the middle of provisioning: the next one finishes the job, and it is right."""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from detour.base.errors import DetourError
from detour.control.entries import Plan
from detour.control.p4runtime.client import FabricClient, SwitchTarget
from detour.control.p4runtime.reconcile import Written, reconcile
from detour.control.planner import plan
from detour.control.verifier.verifier import verify
from detour.engine import warm
from detour.engine.network import Network
from detour.engine.p4runtime import Code, P4RuntimeServer, Refused
from detour.engine.p4runtime import write as writing
from detour.topo import parse_topology
from tests.waiting import PATIENCE_S, until

SEED = 17
TOPOLOGY = parse_topology("d1")
PLANNED = plan(TOPOLOGY)
KILLED = 4

CONTROLLER = """
import asyncio, sys
from detour.control.p4runtime.client import FabricClient, SwitchTarget
from detour.control.planner import plan
from detour.control.p4runtime.reconcile import reconcile
from detour.topo import parse_topology

async def main():
    topology = parse_topology(sys.argv[2])
    async with FabricClient([SwitchTarget(s.name, s.device_id, sys.argv[1]) for s in topology.switches]) as fabric:
        await reconcile(fabric, plan(topology))

asyncio.run(main())
"""


@pytest.fixture
def server() -> Iterator[P4RuntimeServer]:
    warm.ensure(print)
    with Network() as network, P4RuntimeServer(network) as server:
        for switch in TOPOLOGY.switches:
            network.add_switch(switch.device_id, priorities=8)
            server.add_device(switch.device_id)
        network.start()
        yield server


def targets(server: P4RuntimeServer) -> list[SwitchTarget]:
    return [SwitchTarget(switch.name, switch.device_id, server.target) for switch in TOPOLOGY.switches]


def provision(server: P4RuntimeServer) -> tuple[Written, Plan]:
    """What a controller that is left alone writes, and what the switches hold then."""

    async def run() -> tuple[Written, Plan]:
        async with FabricClient(targets(server)) as fabric:
            written = await reconcile(fabric, PLANNED)
            return written, await fabric.read()

    def attempt() -> list[tuple[Written, Plan]]:
        with suppress(DetourError):  # the dead one is not forgotten yet
            return [asyncio.run(run())]
        return []

    return until(attempt)[0]


def test_the_next_one_finishes_the_job(server: P4RuntimeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several are killed one after the other, each at some update of its own. On a busy machine the kill comes late;
    what a controller sends after that update counts as never arrived."""
    rng, prepare = random.Random(SEED), writing.prepare
    left, reached, lock = [0], threading.Event(), threading.Lock()

    def count(*arguments: object) -> object:
        with lock:
            left[0] -= 1
            if left[0] == 0:
                reached.set()  # first: whoever sees that it has ended sees why
                process.send_signal(signal.SIGKILL)
            if left[0] < 0:
                raise Refused(Code.UNAVAILABLE, "its controller is dead")
        return prepare(*arguments)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(writing, "prepare", count)
    entries = sum(map(len, PLANNED.values()))
    for _ in range(KILLED):
        with lock:
            left[0] = rng.randrange(1, entries // (2 * KILLED))
            reached.clear()
            process = start(server)
        while not reached.wait(0.05):
            if process.poll() is not None and not reached.is_set():  # the one before it was not forgotten yet
                assert "another controller is primary" in process.communicate()[1]
                process = start(server)
        process.communicate(timeout=PATIENCE_S)
        assert process.returncode == -signal.SIGKILL
    left[0] = sys.maxsize
    written, held = provision(server)
    assert 0 < written.inserted < entries, "the dead ones have done a part of it"
    assert verify(held, TOPOLOGY).ok
    again, same = provision(server)
    assert again == Written(unchanged=written.entries)
    assert same == held


def start(server: P4RuntimeServer) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", CONTROLLER, server.target, "d1"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
