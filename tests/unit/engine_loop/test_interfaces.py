# SPDX-License-Identifier: Apache-2.0
"""Linux interfaces on ports (root): veth pairs, TAP devices, VLAN tags, interfaces that vanish."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
import script_program as script
from script_program import frame
from scripted_networks import Bench

from detour.base.errors import DetourError
from detour.engine import sockets
from detour.engine.clock import RealTime
from tests.waiting import PATIENCE_S, load_until, until, until_a_thread_rests

pytestmark = pytest.mark.kernel
_numbers = count()
_ETH_P_ALL = 3


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@pytest.fixture
def veth() -> Iterator[Callable[[], tuple[str, str]]]:
    """Makes veth pairs that are up and on which the kernel itself says nothing."""
    made: list[str] = []

    def build() -> tuple[str, str]:
        number = next(_numbers)
        a, b = f"dt{os.getpid() % 100000}a{number}", f"dt{os.getpid() % 100000}b{number}"
        _ip("link", "add", a, "type", "veth", "peer", "name", b)
        made.append(a)
        for name in (a, b):
            with open(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6", "w") as file:
                file.write("1")
            _ip("link", "set", name, "up")
        return a, b

    yield build
    for name in made:
        subprocess.run(["ip", "link", "del", name], capture_output=True)


def _raw(name: str) -> socket.socket:
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_ALL))
    sock.bind((name, _ETH_P_ALL))
    sock.settimeout(PATIENCE_S)
    return sock


@pytest.fixture
def linux_host(real: Bench, veth: Callable[[], tuple[str, str]]) -> Callable[..., str]:
    """Puts a Linux host behind port 1 and starts; MTU with the header, rate, delay -> the name of its interface."""

    def attach(longest: int, *link: int) -> str:
        near, far = veth()
        attachment = sockets.open_interface(near)
        attachment.longest = longest
        real.net.attach_linux_host((1, 1), attachment, *link)
        real.net.start()
        return far

    return attach


def test_frames_through_veth_pairs(real, veth):
    (near1, far1), (near2, far2) = veth(), veth()
    real.net.attach_interface((1, 1), near1)
    real.net.attach_interface((1, 2), near2)
    real.net.start()
    with _raw(far1) as one, _raw(far2) as two:
        for tag in range(100):
            one.send(frame(script.UNICAST, 2, tag=tag))
            got = two.recv(5000)
            assert got[3] == tag
            assert got[16:] == frame(0, 0, tag=tag)[16:]
        # What the switch itself sends must not come back in.
        for _ in range(2):  # it would have before the second one
            two.send(frame(script.UNICAST, 2))
            assert two.recv(5000)[1] == 2
    assert real.port(1)["rx_packets"] == 100
    assert real.port(2)["rx_packets"] == 2


def test_vlan_tags_survive(real, veth):
    near, far = veth()
    real.net.attach_interface((1, 1), near)
    real.net.start()
    tagged = frame(script.UNICAST, 1)[:12] + bytes([0x81, 0x00, 0x20, 0x65]) + bytes(60)
    with _raw(far) as sock:
        sock.send(tagged)
        until(lambda: real.port(1)["tx_bytes"])
    # 12 bytes of addresses, the tag, the rest; the scripted header covers the first 16 bytes.
    assert real.port(1)["rx_bytes"] == len(tagged)
    assert real.port(1)["tx_bytes"] == len(tagged)


def _long(length: int, number: int) -> bytes:
    head = frame(script.UNICAST, 2, tag=number & 0xFF)
    return head + (number.to_bytes(4, "big") * (length // 4))[: length - len(head)]


def test_frames_of_all_lengths_keep_their_order(make, veth):
    (near1, far1), (near2, far2) = veth(), veth()
    for name in (near1, far1, near2, far2):
        _ip("link", "set", name, "mtu", "9000")
    bench = make(RealTime(), frame_bytes=9100)
    bench.switch()
    bench.net.attach_interface((1, 1), near1)
    bench.net.attach_interface((1, 2), near2)
    bench.net.start()
    # Some fill a place of the ring, some are a byte longer and come by the socket; the ring is filled more than once.
    room = sockets.RING_SLOT_BYTES - 66
    lengths = [(64, room, room + 1, 9000, 1500)[(number * number) % 5] for number in range(sockets.RING_SLOTS + 600)]
    with _raw(far1) as one, _raw(far2) as two:
        for first in range(0, len(lengths), 40):
            block = [_long(length, first + n) for n, length in enumerate(lengths[first : first + 40])]
            for data in block:
                one.send(data)
            for data in block:
                assert two.recv(10_000)[16:] == data[16:]
    assert bench.net.socket_stats()["rx_drops"].tolist() == [0, 0]


def test_interfaces_without_a_ring(real, veth, monkeypatch, caplog):
    pairs = [veth() for _ in range(3)]
    monkeypatch.setattr(sockets, "MOST_RINGS", 1)
    real.net.attach_interface((1, 1), pairs[0][0])
    real.net.attach_interface((1, 3), pairs[2][0])  # beyond the limit
    monkeypatch.setattr(sockets, "MOST_RINGS", 64)
    monkeypatch.setattr(sockets, "_PACKET_RX_RING", 9999)  # an option that the kernel does not know
    real.net.attach_interface((1, 2), pairs[1][0])
    real.net.start()
    assert [record.getMessage() for record in caplog.records] == [
        f"interface {pairs[1][0]} has no receive ring (Protocol not available): frames are read one by one"
    ]
    with _raw(pairs[0][1]) as one, _raw(pairs[1][1]) as two, _raw(pairs[2][1]) as three:
        for sender, port, receiver in ((one, 2, two), (two, 3, three), (three, 1, one)):
            sender.send(frame(script.UNICAST, port))
            assert receiver.recv(5000)[1] == port


def test_an_interface_that_is_taken_away_leaves_nothing(real, veth):
    near, far = veth()
    before = len(Path("/proc/net/packet").read_text().splitlines())
    real.net.start()
    with _raw(far) as sock:
        for tag in range(2):
            real.net.attach_interface((1, 1), near)
            sock.send(frame(script.UNICAST, 1, tag=tag))
            assert sock.recv(5000)[3] == tag
            real.net.detach_interface((1, 1))
            sock.send(frame(script.UNICAST, 1))
    assert len(Path("/proc/net/packet").read_text().splitlines()) == before


def test_oversized_frames_are_counted(make, veth):
    near, far = veth()
    bench = make(RealTime(), frame_bytes=500)
    bench.switch()
    bench.net.attach_interface((1, 1), near)
    bench.net.start()
    with _raw(far) as sock:
        sock.send(frame(script.DROP, 1, size=501))
        sock.send(frame(script.DROP, 1, size=500))
        until(lambda: bench.counter("ingress_drops"))
    assert bench.net.socket_stats()["rx_drops"].tolist() == [1]
    assert bench.counter("ingress_drops") == 1


def test_an_interface_that_goes_down_and_away(real, veth):
    near, far = veth()
    real.net.attach_interface((1, 1), near)
    real.sink(1, 2)
    real.net.start()
    _ip("link", "set", near, "down")
    real.net.inject((1, 2), frame(script.UNICAST, 1))
    until(lambda: real.net.socket_stats()["tx_drops"][0])
    _ip("link", "set", near, "up")
    with _raw(far) as sock:
        until(lambda: sock.send(frame(script.DROP, 1)) and real.port(1)["rx_packets"])
    _ip("link", "del", near)
    real.net.inject((1, 2), frame(script.UNICAST, 1))
    until(lambda: real.net.socket_stats()["tx_drops"][0] == 2)
    until_a_thread_rests("loop")


def test_a_port_is_up_while_its_interface_has_a_link(real, veth):
    near, far = veth()
    told = []
    real.net.on_port_state(lambda port, up: told.append((port, up)))
    real.net.attach_interface((1, 1), near)
    real.net.start()
    assert real.port(1)["up"] == 1
    for name in (near, far):
        _ip("link", "set", name, "down")
        until(lambda: not real.port(1)["up"])
        _ip("link", "set", name, "up")
        until(lambda: real.port(1)["up"])
    _ip("link", "del", near)
    until(lambda: not real.port(1)["up"])
    _ip("link", "add", near, "type", "veth", "peer", "name", far)
    for name in (near, far):
        _ip("link", "set", name, "up")
    until(lambda: real.port(1)["up"])
    until(lambda: len(told) >= 6)  # listeners hear of it after the port has changed
    assert told == [((1, 1), up) for up in (False, True) * 3]
    with _raw(far) as sock:  # another interface of that name is as good
        sock.send(frame(script.UNICAST, 1, tag=7))
        while sock.recv(5000)[3] != 7:
            pass


def test_a_port_without_a_link_when_it_is_attached_is_down(real, veth):
    near, far = veth()
    _ip("link", "set", far, "down")
    real.net.attach_interface((1, 1), near)
    assert real.port(1)["up"] == 0
    real.net.detach_interface((1, 1))
    assert not real.net.has_port((1, 1))


def test_a_link_that_is_down_cuts_what_comes_by_an_interface(real, veth):
    near, far = veth()
    real.net.attach_interface((1, 1), near)
    real.net.start()
    with _raw(far) as sock:
        real.net.set_link((1, 1), False)
        for _ in range(3):
            sock.send(frame(script.UNICAST, 1))
        until(lambda: real.net.link_drops() == 3)
        real.net.set_link((1, 1), True)
        sock.send(frame(script.UNICAST, 1, tag=7))
        assert sock.recv(5000)[3] == 7
    assert real.port(1)["rx_packets"] == 1


def test_tap_device_lives_as_long_as_the_network(real):
    name = f"dttap{os.getpid() % 100000}"
    real.net.attach_interface((1, 1), name)
    real.net.start()
    assert os.path.exists(f"/sys/class/net/{name}")
    with _raw(name) as sock:
        # What the kernel sends out of the device comes in at the port, and the other way round.
        sock.send(frame(script.UNICAST, 1, tag=5))
        while (data := sock.recv(5000))[3] != 5 or len(data) != 64:
            pass
        assert data[13] == 1  # the egress port, written on the way back
    real.net.stop()
    assert not os.path.exists(f"/sys/class/net/{name}")


def test_wrong_names(real):
    for name in ("", "a" * 16, "a/b"):
        with pytest.raises(DetourError, match="not an interface name"):
            real.net.attach_interface((1, 1), name)


def test_a_host_s_frames_take_time_on_its_link(real, linux_host):
    frame_ps, count = 8_000_000_000, 150  # 1000 bytes at 1 Mb/s
    far = linux_host(1000, 1_000_000)
    begin = real.net.now_ps
    with _raw(far) as sock:
        for _ in range(count):
            sock.send(frame(script.DROP, 1, size=1000))
    arrived = real.port(1)["rx_packets"]
    assert arrived <= (real.net.now_ps - begin) // frame_ps + 1
    load = load_until(lambda: real.port(1)["rx_packets"] == count)
    assert load < 0.5  # what waits is readable all the time
    assert real.net.now_ps - begin >= count * frame_ps


def test_a_host_s_frames_are_lost_where_its_link_loses_them(real, linux_host):
    far = linux_host(1000, 1_000_000_000, 1_000_000)
    real.net.set_faults((1, 1), loss=1.0)
    with _raw(far) as sock:
        for _ in range(100):
            sock.send(frame(script.DROP, 1, size=1000))
        until(lambda: real.net.socket_stats()["rx_packets"][0] == 100)
        real.net.set_faults((1, 1))
        sock.send(frame(script.DROP, 1, size=1000))
    until(lambda: real.port(1)["rx_packets"] == 1)


def test_what_was_cut_off_holds_nobody_up(real, linux_host):
    far = linux_host(1000, 1_000_000)
    with _raw(far) as sock:
        for _ in range(60):
            sock.send(frame(script.DROP, 1, size=1000))
        until(lambda: real.net.socket_stats()["rx_packets"][0] >= 32)
        real.net.set_link((1, 1), False)
        until(lambda: real.net.socket_stats()["rx_packets"][0] == 60)


def test_frames_above_the_mtu_of_a_host(real, linux_host):
    far = linux_host(500)
    tagged = frame(script.DROP, 1)[:12] + bytes([0x81, 0x00, 0x20, 0x65])
    with _raw(far) as sock:
        for size in (500, 501):
            sock.send(frame(script.DROP, 1, size=size))
        for size in (504, 505):
            sock.send(tagged + bytes(size - len(tagged)))
    until(lambda: real.net.socket_stats()["rx_oversized"][0] == 2)
    until(lambda: real.port(1)["rx_packets"] == 2)


def test_a_host_with_frames_for_which_there_is_no_room(make, veth):
    near, _ = veth()
    bench = make(RealTime(), frame_bytes=500)
    bench.switch()
    attachment = sockets.open_interface(near)
    attachment.longest = 501
    with pytest.raises(DetourError, match="frames of up to 501 bytes; there is room for 500"):
        bench.net.attach_linux_host((1, 1), attachment)
    assert attachment.fd == -1
