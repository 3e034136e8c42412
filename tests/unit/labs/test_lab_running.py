# SPDX-License-Identifier: Apache-2.0
"""A lab that is up: its switches answer over P4Runtime and Thrift where the lab's own programs look for them."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import grpc
import pytest
from finsy.proto import p4r, p4r_grpc
from forwarding_lab import write_app

from detour.base.addresses import TcpAddress
from detour.base.errors import DetourError
from detour.engine.bmv2api.client import connect
from detour.engine.bmv2api.commands.interpreter import run_file
from detour.fabric.backends.virtual.pace import TimePace
from detour.fabric.labs.folder import LabFolder
from detour.fabric.labs.programs import contents_of, programs_of
from detour.fabric.labs.reading import read_lab
from detour.fabric.labs.running import RunningLab
from tests.waiting import until


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


@pytest.fixture
def served(tmp_path: Path) -> Path:
    """A lab at ports that nobody has."""
    a, b, c, d = free_ports(4)
    return write_app(tmp_path / "lab", (a, b), (c, d))


def started(folder: Path, pace: TimePace | None = None) -> RunningLab:
    lab = read_lab(LabFolder.given(str(folder)))
    return RunningLab(lab, contents_of(lab, programs_of(lab)), pace=pace)


@pytest.fixture(params=[None, "max"])
def up(served: Path, request: pytest.FixtureRequest) -> Iterator[RunningLab]:
    with closing(started(served, None if request.param is None else TimePace.given(request.param))) as running:
        yield running


def entries(address: str, device_id: int) -> int:
    with grpc.insecure_channel(address) as channel:
        stub = p4r_grpc.P4RuntimeStub(channel)
        request = p4r.ReadRequest(device_id=device_id, entities=[p4r.Entity(table_entry=p4r.TableEntry())])
        return sum(len(answer.entities) for answer in stub.Read(request))


def test_one_state_through_both_doors(up: RunningLab, tmp_path: Path) -> None:
    switch = up.status.switches[0]
    assert switch.p4runtime is not None
    assert switch.thrift is not None
    before = entries(switch.p4runtime, switch.device_id)
    assert before == 2
    host, port = switch.thrift.split(":")
    more = tmp_path / "more.txt"
    more.write_text("table_add t to 9 => 1\n")
    with connect(TcpAddress(host, int(port))) as connection:
        run_file(more, connection)
    assert entries(switch.p4runtime, switch.device_id) == before + 1


def test_hosts_reach_each_other(up: RunningLab) -> None:
    assert up.stack is not None
    ping = up.stack.host("h1").ping("10.0.0.2", count=2, interval_ps=10**9)
    until(lambda: ping.result().received == 2)


def test_hosts_do_their_tasks_by_themselves(served: Path) -> None:
    app = json.loads((served / "p4app.json").read_text())
    (served / "p4app.json").write_text(json.dumps(app | {"tasks_file": "tasks.txt"}))
    (served / "tasks.txt").write_text("h1 0.1 0.5 send_udp_flow --dst 10.0.0.2 --rate 200K\n")
    with closing(started(served)) as running:
        assert running.stack is not None
        receiver = running.stack.host("h2")
        until(lambda: receiver.counters()["rx_frames"] >= 5)


def test_an_address_that_is_taken_is_told_and_nothing_stays(served: Path) -> None:
    with closing(started(served)), pytest.raises(DetourError, match="P4Runtime"):
        started(served)
    started(served).close()
