# SPDX-License-Identifier: Apache-2.0
"""The socket driver: hosts in different `Hosts` talk over UNIX sockets and, for root, over a veth pair."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import pytest

from detour.base.errors import DetourError
from detour.hosts.driver import Driver, open_interface, open_unix
from detour.hosts.endpoint import make_hosts
from detour.hosts.parameters import real_time
from detour.hosts.state import set_host
from detour.hosts.verbs import CQ, MR, PD, QP, WC, AccessFlag, Context, Device, Endpoint, SendWR, WCStatus
from tests.waiting import until

MEGABYTE = 1_000_000


class Station:
    """One host with arrays and a driver of its own, as in a process of its own."""

    def __init__(self, number: int) -> None:
        self.hs = make_hosts(1, 4, 4 * MEGABYTE, config=real_time(), seed=number)
        set_host(self.hs, 0, f"fd00::{number + 1}", mac=0x020000000000 | number)
        self.driver = Driver(self.hs)
        self.device = Device(self.hs, self.driver.call, self.driver.kick)
        self.pd = PD(Context(self.device, 0))
        self.cq = CQ(self.pd.context)
        self.mr = MR(self.pd, 2 * MEGABYTE, AccessFlag.LOCAL_WRITE | AccessFlag.REMOTE_WRITE)
        self.qp = QP(self.pd, self.cq)

    def wait(self) -> list[WC]:
        """Completions, as soon as there are some."""
        return until(self.cq.poll, "no completion")


def exchange(a: Station, b: Station, length: int) -> None:
    """Connects and writes from `a` to `b`, in the middle of which nothing is lost."""
    a.qp.connect(Endpoint(**asdict(b.qp.endpoint)))
    b.qp.connect(Endpoint(**asdict(a.qp.endpoint)))
    data = os.urandom(length)
    a.mr.write(data)
    a.qp.post_send(SendWR(1, a.mr.sge(0, length), b.mr.addr, b.mr.rkey, imm_data=77))
    (done,) = a.wait()
    assert done.status is WCStatus.SUCCESS
    assert b.mr.read(length) == data
    assert b.wait()[0].imm_data == 77


@pytest.fixture
def stations() -> Iterator[tuple[Station, Station]]:
    pair = Station(0), Station(1)
    yield pair
    for station in pair:
        station.driver.stop()


def unix_pair(tmp_path: Path, a: Station, b: Station, rate_bps: int = 0) -> None:
    """Connects two drivers by UNIX sockets without a switch in between."""
    one, two = str(tmp_path / "a"), str(tmp_path / "b")
    Path(two).touch()
    left = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    left.bind(one)
    right = open_unix(one, f"{two}.peer")
    left.connect(f"{two}.peer")
    a.driver.attach(0, left, rate_bps)
    b.driver.attach(0, right)


def test_a_megabyte_over_unix_sockets(tmp_path: Path, stations: tuple[Station, Station]) -> None:
    a, b = stations
    unix_pair(tmp_path, a, b)
    with a.driver, b.driver:
        exchange(a, b, 1000)
        a.qp.close()
        b.qp.close()
        a.qp, b.qp = QP(a.pd, a.cq), QP(b.pd, b.cq)
        exchange(a, b, 2 * MEGABYTE)
    assert not list(tmp_path.glob("*.peer")), "socket files are removed"


@pytest.mark.parametrize("late_ps", [0, 1_500_000_000])
def test_pacing(
    tmp_path: Path, stations: tuple[Station, Station], monkeypatch: pytest.MonkeyPatch, late_ps: int
) -> None:
    """8 Mb/s are 1,000 bytes a millisecond, also if the thread is late every time; by a clock that is set by hand."""
    a, b = stations
    unix_pair(tmp_path, a, b, rate_bps=8_000_000)
    now = [0]
    monkeypatch.setattr(a.driver, "_clock", lambda: now[0])
    a.qp.connect(Endpoint(**asdict(b.qp.endpoint)))
    b.qp.connect(Endpoint(**asdict(a.qp.endpoint)))
    a.qp.post_send(SendWR(1, a.mr.sge(0, 10_000), b.mr.addr, b.mr.rkey))
    (port,), (far,) = a.driver._ports, [port.sock for port in b.driver._ports]
    sent: list[tuple[int, int]] = []
    while len(sent) < 10:
        a.driver._serve()
        with suppress(BlockingIOError):
            while frame := far.recv(4096):
                sent.append((now[0], len(frame)))
        now[0] = max(now[0], port.free_at) + late_ps
    paced_ps = sum(length for _, length in sent[:-1]) * 1_000_000
    # A frame that is late does not make those behind it late: only what it itself lacks is missing.
    assert paced_ps <= sent[-1][0] - sent[0][0] + late_ps
    assert sent[-1][0] - sent[0][0] <= paced_ps + late_ps


def test_calls_run_in_the_thread_and_errors_come_back(stations: tuple[Station, Station], tmp_path: Path) -> None:
    a, b = stations
    unix_pair(tmp_path, a, b)
    with a.driver:
        assert a.driver.call(lambda: 5) == 5
        with pytest.raises(ZeroDivisionError):
            a.driver.call(lambda: 1 // 0)
        with pytest.raises(DetourError, match="before the driver starts"):
            a.driver.attach(1, socket.socketpair()[0])
    assert a.driver.call(lambda: 6) == 6


def test_errors_name_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(DetourError, match=r"nobody\.sock: No such file"):
        open_unix(tmp_path / "nobody.sock")
    assert not list(tmp_path.iterdir())
    if os.geteuid() == 0:
        with pytest.raises(DetourError, match="no_such_if"):
            open_interface("no_such_if")
        with pytest.raises(DetourError, match="namespace no_such_ns"):
            open_interface("lo", netns="no_such_ns")


@pytest.mark.kernel
def test_a_megabyte_over_a_veth_pair(stations: tuple[Station, Station]) -> None:
    netns = f"dtdrv{os.getpid()}"
    subprocess.run(["ip", "netns", "add", netns], check=True)
    try:
        veth = ["type", "veth", "peer", "name", "dtdrv1", "netns", netns]
        subprocess.run(["ip", "link", "add", "dtdrv0", *veth], check=True)
        subprocess.run(["ip", "link", "set", "dtdrv0", "up", "mtu", "2000"], check=True)
        subprocess.run(["ip", "-n", netns, "link", "set", "dtdrv1", "up", "mtu", "2000"], check=True)
        a, b = stations
        a.driver.attach(0, open_interface("dtdrv0"))
        b.driver.attach(0, open_interface("dtdrv1", netns))
        with a.driver, b.driver:
            exchange(a, b, MEGABYTE)
    finally:
        subprocess.run(["ip", "netns", "del", netns], check=True)


def test_the_clock_of_hosts_waits_while_their_thread_does_not_run() -> None:
    station = Station(0)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    station.driver.attach(0, ours)
    away = 1.0
    with theirs, station.driver as driver:
        station.qp.connect(station.qp.endpoint)
        station.qp.post_send(SendWR(1, station.mr.sge(0, 100), station.mr.addr, station.mr.rkey))
        theirs.recv(4096)  # unanswered: from now on there is a deadline to keep
        wall = time.monotonic()
        before = driver.now_ps
        driver.call(lambda: time.sleep(away))
        driver.call(lambda: None)
        passed = (driver.now_ps - before) / 1e12
        wall = time.monotonic() - wall  # begins before and ends after, however long this thread had to wait
        assert passed < wall - away / 2
        assert driver.now_ps >= before
