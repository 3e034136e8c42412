# SPDX-License-Identifier: Apache-2.0
"""The socket driver: hosts in different `Hosts` talk over UNIX sockets and, for root, over a veth pair."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from detour.base.errors import DetourError
from detour.hosts import verbs
from detour.hosts.config import HostConfig
from detour.hosts.driver import Driver, open_interface, open_unix
from detour.hosts.endpoint import make_hosts
from detour.hosts.state import set_host
from detour.hosts.verbs import CQ, MR, PD, QP, AccessFlag, Context, Device, Endpoint, SendWR, WCStatus

MEGABYTE = 1_000_000


class Station:
    """One host with arrays and a driver of its own, as in a process of its own."""

    def __init__(self, number: int) -> None:
        self.hs = make_hosts(1, 4, 4 * MEGABYTE, config=HostConfig.real_time(), seed=number)
        set_host(self.hs, 0, f"fd00::{number + 1}", mac=0x020000000000 | number)
        self.driver = Driver(self.hs)
        self.device = Device(self.hs, self.driver.call, self.driver.kick)
        self.pd = PD(Context(self.device, 0))
        self.cq = CQ(self.pd.context)
        self.mr = MR(self.pd, 2 * MEGABYTE, AccessFlag.LOCAL_WRITE | AccessFlag.REMOTE_WRITE)
        self.qp = QP(self.pd, self.cq)

    def wait(self, seconds: float = 20) -> list[verbs.WC]:
        """Completions, as soon as there are some."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if done := self.cq.poll():
                return done
            time.sleep(0.001)
        raise AssertionError(f"no completion: {self.qp.stats()} {self.pd.context.stats()}")


def exchange(a: Station, b: Station, length: int, rate_bps: int = 0) -> float:
    """Connects, writes from `a` to `b` in the middle of which nothing is lost, returns the seconds it took."""
    a.qp.connect(Endpoint(**asdict(b.qp.endpoint)))
    b.qp.connect(Endpoint(**asdict(a.qp.endpoint)))
    data = os.urandom(length)
    a.mr.write(data)
    begin = time.monotonic()
    a.qp.post_send(SendWR(1, a.mr.sge(0, length), b.mr.addr, b.mr.rkey, imm_data=77))
    (done,) = a.wait()
    seconds = time.monotonic() - begin
    assert done.status is WCStatus.SUCCESS
    assert b.mr.read(length) == data
    assert b.wait()[0].imm_data == 77
    return seconds


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
        seconds = exchange(a, b, 2 * MEGABYTE)
    packets = a.pd.context.stats()["tx_frames"] + b.pd.context.stats()["tx_frames"]
    print(f"{packets / seconds:.0f} frames/s")
    assert packets / seconds > 5000, f"{packets} frames in {seconds:.2f} s"
    assert not list(tmp_path.glob("*.peer")), "socket files are removed"


def test_pacing(tmp_path: Path, stations: tuple[Station, Station]) -> None:
    a, b = stations
    unix_pair(tmp_path, a, b, rate_bps=8_000_000)
    with a.driver, b.driver:
        seconds = exchange(a, b, 300_000)
    assert 0.3 < seconds < 1.5, "300 packets of 1,102 bytes at 8 Mb/s take a third of a second"


def test_calls_run_in_the_thread_and_errors_come_back(stations: tuple[Station, Station], tmp_path: Path) -> None:
    a, b = stations
    unix_pair(tmp_path, a, b)
    with a.driver:
        assert a.driver.call(lambda: 5) == 5
        with pytest.raises(ZeroDivisionError):
            a.driver.call(lambda: 1 // 0)
        with pytest.raises(DetourError, match="before it is started"):
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


def _veth_possible() -> bool:
    if os.geteuid() != 0:
        return False
    probe = subprocess.run(
        ["ip", "link", "add", "dtdrvx0", "type", "veth", "peer", "name", "dtdrvx1"], capture_output=True
    )
    if probe.returncode == 0:
        subprocess.run(["ip", "link", "del", "dtdrvx0"], check=True)
    return probe.returncode == 0


@pytest.mark.kernel
def test_a_megabyte_over_a_veth_pair(stations: tuple[Station, Station]) -> None:
    if not _veth_possible():
        pytest.skip("needs root and a kernel that allows veth")
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
        before, wall = driver.now_ps, time.monotonic()
        driver.call(lambda: time.sleep(away))
        driver.call(lambda: None)
        passed, wall = (driver.now_ps - before) / 1e12, time.monotonic() - wall
        assert passed < wall - away / 2
        assert driver.now_ps >= before
