# SPDX-License-Identifier: Apache-2.0
"""Programs of Linux on hosts of a running fabric: names, TCP, paths, marks, MTU, and both kinds of interfaces."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from detour.base.errors import DetourError
from detour.fabric.backends.bmv2.fabric import Bmv2Fabric
from detour.fabric.backends.engine import EngineFabric
from detour.fabric.backends.settings import BMV2, real_time
from detour.fabric.linux import keeper, opening
from detour.fabric.linux.hosts import request
from detour.fabric.operations.session import Session
from detour.fabric.records import LinuxHost
from detour.topo import parse_topology
from tests.unit.fabric.sessions import up
from tests.waiting import PATIENCE_S, until

pytestmark = [pytest.mark.kernel, pytest.mark.skipif(keeper.missing() is not None, reason=str(keeper.missing()))]

TOPOLOGY = parse_topology("dragonfly:p=2,a=2,h=1")
"""three groups: h0 to h3 in the first, h8 to h11 in the last"""
SETTINGS = real_time(20_000_000, queue_pairs=64, arena_bytes=1 << 22)
THERE, MTU = "h11", 1500

SERVE = """
import socket, sys
server = socket.create_server(("::", int(sys.argv[1])), family=socket.AF_INET6)
print("ready", flush=True)
connection, _ = server.accept()
got = b"".join(iter(lambda: connection.recv(65536), b""))
print(len(got), sum(got) % 65521, flush=True)
"""
SEND = """
import socket, sys
to, total = sys.argv[1], int(sys.argv[2])
data = bytes(range(251)) * (total // 251)
connection = socket.create_connection((to, int(sys.argv[3])))
connection.sendall(data)
connection.close()
print(len(data), sum(data) % 65521)
"""
COUNT = """
import socket
socket = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
socket.bind(("::", 7001))
print("ready", flush=True)
for _ in range(20):
    socket.recv(9000)
print("all", flush=True)
"""
DATAGRAMS = """
import socket, sys
to, port, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
socket = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
socket.bind(("::", port))
for _ in range(20):
    socket.sendto(bytes(size), (to, 7001))
"""
MARKED = "import pathlib; rows = [l.split() for l in pathlib.Path('/proc/net/netstat').read_text().splitlines()]; " \
    "print(dict(zip(rows[0], rows[1]))['TCPDeliveredCE'])"  # fmt: skip


class Inside:
    """A fabric with Linux hosts."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.hosts: dict[str, LinuxHost] = {}
        for host in session.status().linux or []:
            self.hosts[host.host] = host

    def command(self, host: str, *words: str) -> list[str]:
        linux_host = self.hosts[host]
        return [*keeper.enter(linux_host.process, linux_host.user), *words]

    def run(self, host: str, *words: str) -> str:
        done = subprocess.run(
            self.command(host, *words), capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def python(self, host: str, script: str, *words: str) -> str:
        return self.run(host, sys.executable, "-c", script, *words)

    @contextmanager
    def serving(self, host: str, script: str, *words: str) -> Iterator[subprocess.Popen[str]]:
        """A server that listens."""
        command = self.command(host, sys.executable, "-c", script, *words)
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            try:
                yield process
            finally:
                process.kill()

    def transfer(self, source: str, target: str, total: int) -> None:
        """What TCP carries arrives as it was sent."""
        with self.serving(target, SERVE, "7000") as server:
            sent = self.python(source, SEND, target, str(total), "7000")
            assert server.stdout is not None
            assert server.stdout.readline() == sent

    def passed(self, switch: str) -> int:
        """Packets that came into a switch."""
        return sum(port.rx_packets for port in self.session.counters(switch)[switch].ports.values())


@contextmanager
def booted(hosts: str, netns: str | None = None) -> Iterator[Inside]:
    with up(EngineFabric(TOPOLOGY, SETTINGS, linux=request(TOPOLOGY, hosts, netns))) as session:
        yield Inside(session)


@pytest.fixture(scope="module")
def inside() -> Iterator[Inside]:
    with booted(f"h0,h1,{THERE}") as hosts:
        yield hosts


def test_names_and_tcp(inside: Inside) -> None:
    assert inside.run("h0", "getent", "ahostsv6", THERE).split()[0] == "fd00:2:1:1::1"
    inside.transfer("h0", THERE, 300_000)


def test_nothing_of_it_is_seen_outside(inside: Inside) -> None:
    outside = subprocess.run(["ip", "-brief", "link"], capture_output=True, text=True, check=True).stdout
    assert "02:00:00:00:00:0b" not in outside
    assert "02:00:00:00:00:0b" in inside.run(THERE, "ip", "-brief", "link")
    assert "fd00:2" not in Path("/etc/hosts").read_text()


def test_sys_has_the_interfaces_of_the_host(inside: Inside) -> None:
    assert inside.run("h0", "ls", "/sys/class/net").split() == ["eth0", "lo"]


def test_the_source_port_of_udp_chooses_the_path(inside: Inside) -> None:
    between = [switch.name for switch in TOPOLOGY.switches if switch.group == 1]
    for port, detours in ((1234, False), (0x8000 | 1234, True)):
        before = sum(map(inside.passed, between))
        with inside.serving(THERE, COUNT) as receiver:
            inside.python("h0", DATAGRAMS, THERE, str(port), "100")
            assert receiver.stdout is not None
            assert receiver.stdout.readline() == "all\n"
        assert (sum(map(inside.passed, between)) - before >= 20) == detours


@pytest.mark.parametrize("mode", ["encap", "encap.red"])
def test_a_list_of_usids_steers_a_linux_host(inside: Inside, mode: str) -> None:
    traced = inside.session.path("h0", THERE, usid="s2,s3")
    assert traced.delivered
    via = [hop.switch for hop in traced.hops]
    sids = traced.path.removeprefix("usid:")
    before = {name: inside.passed(name) for name in via}
    route = ("fd00:2:1:1::1/128", "encap", "seg6", "mode", mode, "segs", sids, "dev", "eth0")
    inside.run("h0", "ip", "-6", "route", "add", *route)
    try:
        inside.transfer("h0", THERE, 300_000)
    finally:
        inside.run("h0", "ip", "-6", "route", "del", "fd00:2:1:1::1/128")
    assert {"s2", "s3"} <= set(via)
    assert all(inside.passed(name) - before[name] > 200 for name in via)


def test_tcp_answers_the_marks_of_the_fabric(inside: Inside) -> None:
    def marks() -> int:
        return sum(int(inside.python(host, MARKED)) for host in senders)

    senders = {"h0": "7000", "h1": "7002"}
    for host in (*senders, THERE):
        # reno fills queues, where bbr, which may be the default, avoids that.
        inside.run(host, "sysctl", "-q", "-w", "net.ipv4.tcp_ecn=1", "net.ipv4.tcp_congestion_control=reno")
    before = marks()
    with ExitStack() as stack:  # two senders at a switch share its way to the other group
        for port in senders.values():
            stack.enter_context(inside.serving(THERE, SERVE, port))
        begun = []
        for host, port in senders.items():
            command = inside.command(host, sys.executable, "-c", SEND, THERE, "3000000", port)
            begun.append(stack.enter_context(subprocess.Popen(command, stdout=subprocess.DEVNULL)))
        assert [process.wait(PATIENCE_S) for process in begun] == [0, 0]
    assert marks() > before


def test_frames_above_the_mtu_are_counted(inside: Inside) -> None:
    def oversized() -> int:
        (row,) = [host for host in inside.session.status().linux or [] if host.host == "h0"]
        assert row.oversized is not None
        return row.oversized

    before = oversized()
    inside.run("h0", "ip", "link", "set", "eth0", "mtu", "9000")
    try:
        inside.python("h0", DATAGRAMS, THERE, "1234", "5000")
        until(lambda: oversized() == before + 20)
    finally:
        inside.run("h0", "ip", "link", "set", "eth0", "mtu", str(MTU))


def test_what_sends_by_itself_is_left_alone(inside: Inside) -> None:
    for ends in (("h0", "h2"), ("h2", "h0")):
        with pytest.raises(DetourError, match="h0 is a Linux host: send from it with"):
            inside.session.send(*ends)
    with pytest.raises(DetourError, match="h0 is a Linux host"):
        inside.session.probe("h2", "h0")
    assert inside.session.send("h2", "h9", 20_000).bytes_ok == 20_000
    loaded = inside.session.load("permutation")
    inside.session.load(stop=True)
    assert 0 < loaded.pairs <= 9


@pytest.mark.parametrize(
    ("module", "name", "value", "kind", "user"),
    [(opening, "kind", lambda: "veth", "veth", False), (keeper, "without_root", lambda: True, "tap", True)],
    ids=["veth", "user namespace"],
)
def test_other_ways_to_an_interface(
    monkeypatch: pytest.MonkeyPatch, module: object, name: str, value: Callable[[], object], kind: str, user: bool
) -> None:
    monkeypatch.setattr(module, name, value)
    if user and opening.kind() == "tap":
        monkeypatch.setattr(opening, "kind", lambda: "veth")  # /dev/net/tun belongs to another user there
        kind = "veth"
    with booted(f"h0,{THERE}") as hosts:
        assert [(host.kind, host.user) for host in hosts.hosts.values()] == [(kind, user)] * 2
        assert "fe80" not in hosts.run("h0", "ip", "-6", "addr", "show", "dev", "eth0")
        hosts.transfer("h0", THERE, 200_000)
        hosts.transfer(THERE, "h0", 200_000)


@pytest.mark.bmv2
def test_the_same_on_bmv2() -> None:
    settings = replace(BMV2, rate_bps=20_000_000, queue_packets=320)
    with up(Bmv2Fabric(TOPOLOGY, settings, linux=request(TOPOLOGY, f"h0,{THERE}"))) as session:
        inside = Inside(session)
        assert [(host.kind, host.oversized) for host in inside.hosts.values()] == [("veth", None)] * 2
        inside.transfer("h0", THERE, 100_000)
        assert session.send("h2", "h9", 4_000).bytes_ok == 4_000


def test_a_process_with_a_namespace_of_its_own() -> None:
    command = ["unshare", "--net", "sh", "-c", "echo there; exec cat"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "there\n"
        look = ["nsenter", f"--target={process.pid}", "--net", "ip", "-brief", "addr"]
        with booted("h0", f"{THERE}={process.pid}") as hosts:
            assert "fd00:2:1:1::1" in subprocess.run(look, capture_output=True, text=True, check=True).stdout
            hosts.transfer("h0", THERE, 100_000)
        assert "eth0" not in subprocess.run(look, capture_output=True, text=True, check=True).stdout
        process.communicate("")


def test_a_process_that_is_none() -> None:
    with pytest.raises(DetourError, match="h0: cannot create a namespace: nsenter: "):
        EngineFabric(TOPOLOGY, SETTINGS, linux=request(TOPOLOGY, None, "h0=4194305"))
