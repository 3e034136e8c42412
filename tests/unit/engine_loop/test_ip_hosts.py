# SPDX-License-Identifier: Apache-2.0
"""IP hosts on the loop: ARP and ND, echo, UDP flows, frames from outside; scapy agrees with every checksum."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scapy.layers.inet import ICMP, IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import ARP, Ether
from scapy.packet import Packet, Raw
from scripted_networks import IpPair

from detour.base.errors import DetourError
from detour.base.times import MS, US
from detour.engine.clock import RealTime
from detour.hosts.ip.addressing import IpHostConfig
from detour.hosts.ip.arrival_process import Spacing, read_sizes
from detour.hosts.ip.hosts import IpHost, IpStack
from tests.waiting import until

SECOND = 1_000 * MS
GBIT = 10**9
A = IpHostConfig("h1", "08:00:00:00:01:11", "10.0.0.1/24", ipv6="2001:db8::1/64")
B = IpHostConfig("h2", "08:00:00:00:02:22", "10.0.0.2/24", ipv6="2001:db8::2/64")


@pytest.fixture
def pair(ip_pair: Callable[..., IpPair]) -> Callable[..., IpPair]:
    def make(a: IpHostConfig = A, b: IpHostConfig = B, **options: Any) -> IpPair:
        return ip_pair([a, b], [(10 * GBIT, 100 * US, 64)] * 2, **options)

    return make


def seen(host: IpHost) -> list[Packet]:
    return [Ether(data) for _, data in host.sniffed()]


def rebuilt(packet: Packet) -> bytes:
    """The frame with all lengths and checksums computed by scapy."""
    copy = packet.copy()
    for layer in (IP, UDP, ICMP):
        if layer in copy:
            del copy[layer].chksum
    if "cksum" in copy.lastlayer().fields:
        del copy.lastlayer().cksum
    for layer in copy.iterpayloads():
        if hasattr(layer, "cksum"):
            del layer.cksum
    return bytes(copy)


@pytest.mark.parametrize("to", ["10.0.0.2", "2001:db8::2"])
def test_ping_finds_its_neighbour_and_measures_round_trips(pair: Callable[..., IpPair], to: str) -> None:
    p = pair()
    ping = p.h1.ping(to, count=4, interval_ps=10 * MS)
    p.net.run(SECOND)
    result = ping.result()
    assert (result.sent, result.received, result.duplicates, result.corrupt) == (4, 4, 0, 0)
    # Four cables of 100 us, and 98 (118) bytes on each at 10 Gb/s; a switch without a rate of its own adds nothing.
    frame = 98 if "." in to else 118
    assert result.rtts_ps[1] == pytest.approx(4 * (100 * US + frame * 800), abs=1 * US)
    assert p.h1.counters()["arp_sent"] == 1
    assert p.h2.counters()["arp_answered"] == 1


def test_static_neighbours_are_not_asked_for(pair: Callable[..., IpPair]) -> None:
    a = IpHostConfig("h1", A.mac, A.ipv4, neighbours={"10.0.0.2": B.mac})
    b = IpHostConfig("h2", B.mac, B.ipv4, neighbours={"10.0.0.1": A.mac})
    p = pair(a, b)
    ping = p.h1.ping("10.0.0.2", count=1)
    p.net.run(SECOND)
    assert ping.result().received == 1
    assert p.h1.counters()["arp_sent"] == p.h2.counters()["arp_sent"] == 0


def test_other_subnets_go_to_the_gateway(pair: Callable[..., IpPair]) -> None:
    a = IpHostConfig("h1", A.mac, "10.0.1.1/24", "10.0.1.10", neighbours={"10.0.1.10": B.mac})
    b = IpHostConfig("h2", B.mac, "10.0.2.2/24", "10.0.2.20", neighbours={"10.0.2.20": A.mac})
    p = pair(a, b)
    ping = p.h1.ping("10.0.2.2", count=2, interval_ps=MS)
    lost = p.h2.ping("192.0.2.1", count=1)
    p.net.run(SECOND)
    assert ping.result().received == 2
    assert lost.result().received == 0
    assert p.h1.counters()["rx_other_address"] == 1


def test_a_neighbour_that_is_not_there_is_asked_for_three_times(pair: Callable[..., IpPair]) -> None:
    p = pair()
    ping = p.h1.ping("10.0.0.9", count=1)
    flow = p.h1.udp("10.0.0.9", spacing=Spacing(1e6), packets=1)
    p.net.run(5 * SECOND)
    assert p.h1.counters()["arp_sent"] == 3
    assert ping.result().sent == 1
    assert ping.result().received == 0
    assert flow.result().unreachable == 1


@pytest.mark.parametrize("elide", [False, True])
def test_a_constant_rate_is_kept_and_counted(pair: Callable[..., IpPair], elide: bool) -> None:
    p = pair(elide=elide)
    p.h1.add_neighbour("10.0.0.2", B.mac)
    port = p.h2.udp_port(samples=100)
    # 7.7 Gb/s do not divide a picosecond; what is left over must not be lost.
    flow = p.h1.udp("10.0.0.2", spacing=Spacing(7.7e9, 700), start_ps=MS, stop_ps=11 * MS)
    p.net.run(SECOND)
    (got,) = port.results()
    expected = 7.7e9 * 0.01 / 5600
    assert flow.result().packets == pytest.approx(expected, abs=1)
    assert got.packets == got.measured == flow.result().packets
    assert (got.lost, got.reordered, got.corrupt, got.ce) == (0, 0, 0, 0)
    assert got.bytes == 700 * got.packets
    assert got.goodput_bps == pytest.approx(7.7e9, rel=1e-3)
    assert got.samples is not None
    assert got.samples["seq"].tolist() == list(range(100))
    assert got.delay_min_ps >= 200 * US
    assert got.delay_at(0.5) == pytest.approx(got.delay_mean_ps, rel=0.1)


def test_checksums_are_what_scapy_computes(pair: Callable[..., IpPair]) -> None:
    p = pair()
    p.h1.sniff()
    p.h2.sniff()
    p.h2.udp_port()
    sizes = ((0, 0.1), (1, 0.1), (23, 0.2), (24, 0.2), (25, 0.2), (1400, 0.2))
    for to in ("10.0.0.2", "2001:db8::2"):
        p.h1.udp(to, spacing=Spacing(1e8, sizes=sizes), packets=40, tos=1)
        p.h1.udp(to, spacing=Spacing(1e8, 31), port=9, packets=1)
        for size in (0, 15, 16, 333):
            p.h1.ping(to, count=3, size=size, interval_ps=MS)
    p.net.run(2 * SECOND)
    packets = seen(p.h1) + seen(p.h2)
    assert {type(packet.payload) for packet in packets} == {ARP, IP, IPv6}
    assert sum(ICMP in packet and packet[ICMP].type == 3 for packet in packets) == 1
    assert len(packets) > 120
    for packet in packets:
        assert rebuilt(packet) == bytes(packet), packet.show(dump=True)


def test_damaged_packets_are_counted_and_not_delivered(pair: Callable[..., IpPair]) -> None:
    p = pair()
    p.net.set_faults((1, 2), corrupt=0.3)
    port = p.h2.udp_port()
    flow = p.h1.udp("10.0.0.2", spacing=Spacing(1e9, 500), packets=1000, start_ps=MS)
    p.h1.add_neighbour("10.0.0.2", B.mac)
    p.net.run(SECOND)
    (got,) = port.results()
    counters = p.h2.counters()
    assert got.corrupt == 0
    assert got.packets < flow.result().packets
    assert counters["rx_bad_checksum"] > 200


def test_late_and_missing_packets_are_told_apart(pair: Callable[..., IpPair]) -> None:
    p = pair()
    p.h1.add_neighbour("10.0.0.2", B.mac)
    p.net.set_faults((1, 2), loss=0.1, late=0.1, late_ps=50 * US)
    port = p.h2.udp_port(samples=5000)
    flow = p.h1.udp("10.0.0.2", spacing=Spacing(1e9, 500), packets=5000)
    p.net.run(SECOND)
    (got,) = port.results()
    assert got.samples is not None
    numbers = got.samples["seq"]
    highest = np.maximum.accumulate(numbers)
    late = numbers < highest
    assert got.reordered == late.sum() > 100
    assert got.displaced == (highest - numbers).max()
    assert got.lost == numbers.max() + 1 - len(numbers) > 300
    assert flow.result().packets == 5000


@pytest.mark.parametrize("mode", ["poisson", "on-off"])
def test_random_flows_have_their_mean_and_scatter(pair: Callable[..., IpPair], mode: str) -> None:
    p = pair(elide=True)
    port = p.h2.udp_port(samples=20_000, senders=1)
    spacing = Spacing(1e8, 500, mode=mode, on_ps=2 * MS, off_ps=6 * MS)
    p.h1.add_neighbour("10.0.0.2", B.mac)
    flow = p.h1.udp("10.0.0.2", spacing=spacing, stop_ps=2 * SECOND)
    p.net.run(3 * SECOND)
    rate = flow.result().bytes * 8 / 2
    (got,) = port.results()
    assert got.samples is not None
    gaps = np.diff(got.samples["sent_ps"][: got.packets])
    if mode == "poisson":
        assert rate == pytest.approx(1e8, rel=0.03)
        assert np.std(gaps) == pytest.approx(np.mean(gaps), rel=0.05)
    else:
        assert rate == pytest.approx(1e8 / 4, rel=0.2)
        assert np.median(gaps) == pytest.approx(40 * US, rel=0.01)
        assert gaps.max() > 2 * MS


def test_the_same_seed_gives_the_same_packets(pair: Callable[..., IpPair]) -> None:
    samples = []
    for _ in range(2):
        p = pair(elide=True)
        port = p.h2.udp_port(samples=500)
        p.h1.udp("10.0.0.2", spacing=Spacing(1e8, sizes=((100, 0.5), (1000, 0.5)), mode="poisson"), packets=500)
        p.net.run(SECOND)
        samples.append(port.results()[0].samples)
    assert (samples[0] == samples[1]).all()
    assert set(samples[0]["bytes"].tolist()) == {100, 1000}


def test_frames_of_scapy_go_out_as_they_are(pair: Callable[..., IpPair]) -> None:
    p = pair()
    p.h2.sniff()
    p.h2.udp_port(1234)
    frames = [
        Ether(dst=B.mac, src=A.mac) / IP(src="10.0.0.1", dst="10.0.0.2") / UDP(sport=7, dport=1234) / Raw(b"hello"),
        Ether(dst=B.mac, src=A.mac, type=0x1234) / Raw(bytes(range(50))),
    ]
    sent = p.h1.send_frames(frames, times_ps=[0, 5 * MS], repeat=2, start_ps=MS)
    p.net.run(SECOND)
    got = p.h2.sniffed()
    assert [data for _, data in got] == [bytes(frame) for frame in frames] * 2
    assert got[1][0] - got[0][0] == pytest.approx(5 * MS, abs=US)
    assert sent.result().packets == 4
    assert p.h2.counters()["rx_unknown"] == 2


def test_a_ttl_that_is_too_short_is_told(pair: Callable[..., IpPair]) -> None:
    """A router's answer, made with scapy: the ping that it is about knows it."""
    p = pair()
    p.h2.sniff()
    p.h1.add_neighbour("10.0.0.2", B.mac)
    ping = p.h1.ping("10.0.0.2", count=1, ttl=1)
    p.net.run(MS)
    request = seen(p.h2)[0]
    assert request[IP].ttl == 1
    answer = Ether(dst=A.mac, src=B.mac) / IP(src="10.9.9.9", dst="10.0.0.1") / ICMP(type=11) / bytes(request[IP])[:28]
    p.h2.send_frames([answer])
    p.net.run(SECOND)
    assert ping.result().last_error == (11, 0, "10.9.9.9")


def test_in_real_time_the_same_hosts_run_by_the_wall_clock(pair: Callable[..., IpPair]) -> None:
    p = pair(clock=RealTime())
    p.net.start()
    ping = p.h1.ping("10.0.0.2", count=3, interval_ps=MS)
    port = p.h2.udp_port()
    flow = p.h1.udp("10.0.0.2", spacing=Spacing(1e6), packets=20)
    until(lambda: ping.result().received == 3 and flow.result().done)
    until(lambda: bool(port.results()) and port.results()[0].packets == 20)
    assert port.results()[0].corrupt == 0
    assert (ping.result().rtts_ps >= 400 * US).all()


def test_wrong_values_are_named(pair: Callable[..., IpPair]) -> None:
    p = pair()
    for wrong, says in (
        (lambda: p.h1.ping("10.0.0"), "not an IPv4 or IPv6 address"),
        (lambda: p.h1.ping("10.0.0.2", size=1473), "0 to 1472"),
        (lambda: p.h1.udp("10.0.0.2", port=0, spacing=Spacing(1e6)), "port is 0"),
        (lambda: p.h1.udp("10.0.0.2", spacing=Spacing(1e6, 1473)), "0 to 1472"),
        (lambda: Spacing(0), "at least 1"),
        (lambda: Spacing(1, mode="bursty"), "not 'bursty'"),
        (lambda: p.stack.host("h3"), "there are h1, h2"),
        (lambda: p.h1.send_frames([b"short"]), "frame 1 has 5 bytes"),
        (lambda: IpStack([A, A]), "two hosts h1"),
        (lambda: IpStack([IpHostConfig("x", "08:00", "10.0.0.1/24")]), "host x: '08:00' is not a MAC"),
        (lambda: IpStack([IpHostConfig("x", A.mac, "10.0.0.1")], sockets=2), "at least 4"),
        (lambda: IpStack([IpHostConfig("x", A.mac)]), "neither an IPv4 nor an IPv6 address"),
        (lambda: p.net.attach_stack((1, 3), p.stack, 2), "no host 2"),
    ):
        with pytest.raises(DetourError, match=says):
            wrong()
    port = p.h2.udp_port(77)
    with pytest.raises(DetourError, match="in use"):
        p.h2.udp_port(77)
    assert port.results() == []


def test_a_file_of_sizes_is_read_or_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "sizes.txt"
    path.write_text("# bytes probability\n64 0.25\n512 0.5\n1400 1\n")
    assert read_sizes(path) == ((64, 0.25), (512, 0.25), (1400, 0.5))
    for text, says in (
        ("64 0.5\n32 1", ":2: expected increasing"),
        ("64 0.5\nx 1", ":2: 'x 1'"),
        ("64 0.5", "the last"),
        ("5 2", ":1: prob"),
    ):
        path.write_text(text)
        with pytest.raises(DetourError, match=says):
            read_sizes(path)
