# SPDX-License-Identifier: Apache-2.0
"""Switches that lose their stream, or all that they held: the controller comes back and makes them right again."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Callable, Iterator

import pytest
from msgspec import UNSET
from msgspec.structs import astuple

from detour.base.errors import DetourError
from detour.control.p4runtime import client
from detour.engine.p4runtime import Code, P4RuntimeServer, Refused
from detour.engine.p4runtime import write as writing
from detour.fabric.backends.bmv2.fabric import Bmv2Fabric
from detour.fabric.backends.engine import EngineFabric
from detour.fabric.daemon.daemon import UpOptions, boot
from detour.fabric.operations.session import Session
from tests.fault.world import Sending
from tests.unit.p4runtime.harness import Client
from tests.waiting import PATIENCE_S, until

TOPOLOGY = "dragonfly:p=1,a=2,h=1"  # 3 groups, 6 switches, 6 hosts
ENDLESS = 1 << 40
SEED = 17


@pytest.fixture(scope="module")
def booted() -> Iterator[Session]:
    with boot(UpOptions("engine", TOPOLOGY)) as session:
        yield session


@pytest.fixture
def session(booted: Session) -> Iterator[Session]:
    """With everything as it was before, and everything as it must be afterwards."""
    before = held(booted)
    yield booted
    until(lambda: not booted.status().lost)
    assert held(booted) == before
    assert booted.provision().unchanged == booted.control.entries
    assert booted.verify().verified


def held(session: Session) -> dict[str, list[str]]:
    """What the switches hold; their order is that of insertion."""
    return {name: sorted(map(str, rows)) for name, rows in session.entries().items()}


def process_of(session: Session, name: str) -> int:
    processes = session.status().processes
    assert processes is not UNSET
    return processes[name]


def server_of(session: Session) -> P4RuntimeServer:
    assert isinstance(session.fabric, EngineFabric)
    assert session.fabric.serving.server is not None
    return session.fabric.serving.server


def restart(session: Session, *devices: int) -> None:
    """The engine's switches begin anew: streams, pipelines and entries are gone."""
    for device in devices:
        server_of(session).remove_device(device)
    for device in devices:
        server_of(session).add_device(device)


def lost_at(session: Session, fault: Callable[[], object], count: int = 1) -> dict[str, str]:
    """What the status says between a fault and the end of its repair."""
    with session.control.changing:  # nobody repairs before we have looked
        fault()
        until(lambda: len(session.status().lost) == count)
        return session.status().lost


@pytest.mark.parametrize("device", random.Random(SEED).sample(range(1, 7), 3))
def test_a_switch_that_lost_everything_gets_it_back(session: Session, device: int) -> None:
    with Sending(session, "h0", "h5") as sending:
        assert list(lost_at(session, lambda: restart(session, device))) == [f"s{device - 1}"]
        until(lambda: not session.status().lost)
        sending.arrives()
    assert session.send("h5", "h0", 20_000).bytes_ok == 20_000


def test_switches_that_restart_again_and_again(session: Session) -> None:
    """Some of them while they are still being repaired."""
    rng = random.Random(SEED)
    with Sending(session, "h0", "h5") as sending:
        for _ in range(12):
            restart(session, *rng.sample(range(1, 7), rng.randrange(1, 4)))
            if rng.random() < 0.3:
                until(lambda: not session.status().lost)
        until(lambda: not session.status().lost)
        sending.arrives()


def test_a_stream_that_breaks_costs_no_entry(session: Session) -> None:
    service = server_of(session)._service
    device = service.devices[3]

    def end() -> None:
        loop = server_of(session)._loop
        assert loop is not None
        loop.call_soon_threadsafe(service.end_streams, Refused(Code.UNAVAILABLE, "broken"), device)

    tables = {name: len(rows) for name, rows in session.entries("s2").items()}
    lost_at(session, end)
    until(lambda: not session.status().lost)
    assert service.devices[3] is device
    assert {name: len(rows) for name, rows in session.entries("s2").items()} == tables


def test_all_are_away_for_a_while(session: Session) -> None:
    server = server_of(session)
    lost = lost_at(session, lambda: [server.remove_device(device) for device in range(1, 7)], count=6)
    assert list(lost) == [f"s{index}" for index in range(6)]
    for ask in (session.verify, session.provision, session.control.sample, lambda: session.fail("s0-s1")):
        with pytest.raises(DetourError, match=r"switch s\d \(device \d\) at .*"):
            ask()
    until(lambda: all("NOT_FOUND" in reason for reason in session.status().lost.values()))
    for device in range(1, 7):
        server.add_device(device)
    # What was asked for meanwhile holds now.
    until(lambda: not session.status().lost)
    assert session.status().failures == ["s0-s1"]
    assert session.verify().verified
    session.heal()


def test_somebody_else_is_quicker_and_goes_again(session: Session) -> None:
    """A switch restarts, and another controller gets hold of it first."""
    server, other = server_of(session), Client(server_of(session).target, 2, 99)
    server.remove_device(2)
    try:
        with session.control.changing:
            server.add_device(2)
            until(lambda: _becomes_primary(other))
        until(lambda: not session.control.client.switches[2].switch.is_primary or session.status().lost)
    finally:
        other.close()
    until(lambda: not session.status().lost and session.control.client.switches[2].switch.is_primary)
    session.provision()


def _becomes_primary(other: Client) -> bool:
    other.primary()
    return True


def watched(session: Session) -> dict[str, int]:
    """Packets of the one flow that each switch counted."""
    (row,) = session.flows().flows
    return {at.switch: at.packets for at in row.switches}


def test_monitoring_goes_on_afterwards(session: Session) -> None:
    with Sending(session, "h0", "h5") as sending:
        session.watch_flows(True)
        session.metrics()
        passed = until(lambda: {name for name, packets in watched(session).items() if packets > 100})
        before = watched(session)
        restart(session, *range(1, 7))
        until(lambda: not session.status().lost)
        ports = session.counting.ports
        windows = [ports.windows]

        def two_have_ended() -> bool:
            if ports.windows != windows[-1]:
                windows.append(ports.windows)
            return len(windows) > 2

        until(two_have_ended)
        sending.arrives()
        # What was counted before is not forgotten.
        until(lambda: all(watched(session)[name] > before[name] + 50 for name in passed))
        (row,) = session.flows().flows
        assert all(at.rate_bps >= 0 for at in row.switches)
        assert min(min(astuple(port)) for window in windows for port in window.values()) >= 0
        session.watch_flows(False)


# -- switches that are slow, or refuse ---------------------------------------------------------------------


def test_refusals_in_the_middle_of_a_batch(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """A switch that is short of something refuses every third update; when it no longer does, all is made right."""
    rng, prepare = random.Random(SEED), writing.prepare
    short = threading.Event()
    short.set()

    def sometimes(*arguments: object) -> object:
        if short.is_set() and rng.random() < 1 / 3:
            raise Refused(Code.RESOURCE_EXHAUSTED, "planted")
        return prepare(*arguments)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(writing, "prepare", sometimes)
    restart(session, 4)
    until(lambda: "planted" in session.status().lost.get("s3", ""))
    assert "refuses" in session.status().lost["s3"]
    with pytest.raises(DetourError, match=r"s3 .*refuses (INSERT|MODIFY|DELETE) .*planted"):
        session.provision()
    short.clear()
    until(lambda: not session.status().lost)


def test_a_switch_that_answers_too_late(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a call that ran out of time still does is found by the next one."""
    prepare, held, go_on = writing.prepare, threading.Event(), threading.Event()

    def wait(*arguments: object) -> object:
        held.set()
        assert go_on.wait(PATIENCE_S)
        return prepare(*arguments)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(writing, "prepare", wait)
    monkeypatch.setattr(client.finsy.p4client, "_DEFAULT_RPC_TIMEOUT", 2.0)
    try:
        restart(session, 5)
        assert held.wait(PATIENCE_S)
        until(lambda: "DEADLINE_EXCEEDED" in session.status().lost.get("s4", ""))
    finally:
        go_on.set()
        monkeypatch.setattr(client.finsy.p4client, "_DEFAULT_RPC_TIMEOUT", client.RPC_SECONDS)
    until(lambda: not session.status().lost)


def test_closing_while_switches_are_away() -> None:
    """Nothing waits for them."""
    before = set(threading.enumerate())
    with boot(UpOptions("engine", TOPOLOGY)) as session:
        lost_at(session, lambda: [server_of(session).remove_device(device) for device in (2, 5)], count=2)
        server_of(session).add_device(2)
    assert not [thread for thread in set(threading.enumerate()) - before if not thread.name.startswith("asyncio")]


# -- BMv2 --------------------------------------------------------------------------------------------------


@pytest.mark.bmv2
def test_a_bmv2_that_is_killed_is_started_again() -> None:
    with boot(UpOptions("bmv2", TOPOLOGY)) as session:
        fabric, before = session.fabric, held(session)
        assert isinstance(fabric, Bmv2Fabric)
        for index in random.Random(SEED).sample(range(6), 2):
            name = f"s{index}"
            pid = process_of(session, name)
            os.kill(pid, signal.SIGKILL)
            until(lambda name=name: name in session.status().lost)
            until(lambda pid=pid, name=name: fabric.check() or process_of(session, name) != pid)
            until(lambda: fabric.check() or not fabric._fresh)
            until(lambda: not session.status().lost)
            assert held(session) == before
            assert session.verify().verified
            assert session.send("h0", "h5", 20_000).bytes_ok == 20_000
