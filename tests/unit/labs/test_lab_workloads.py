# SPDX-License-Identifier: Apache-2.0
"""Workloads of labs in words: what they mean, and what means nothing."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_address
from pathlib import Path

import pytest
from scapy.layers.inet import IP
from scapy.layers.l2 import Ether
from scapy.packet import Raw
from scapy.utils import wrpcap
from written_labs import tutorial

from detour.base.errors import DetourError
from detour.fabric.labs.model import Lab
from detour.fabric.labs.workloads import EchoTrain, FrameTrain, TcpFlow, UdpStream, activities_of

ReadLab = Callable[..., Lab]
MS = 10**9


@pytest.fixture
def two(lab: ReadLab) -> Lab:
    return lab(topology__json=tutorial())


def test_ping_is_between_all(two: Lab) -> None:
    activities = activities_of(two, "ping")
    assert [(each.src, str(each.dst)) for each in activities if isinstance(each, EchoTrain)] == [
        ("h1", "10.0.2.2"),
        ("h2", "10.0.1.1"),
    ]
    (one,) = activities_of(two, "ping:src=h1,dst=h2,count=7,interval=2ms,size=100,start=1ms")
    assert one == EchoTrain("h1", ip_address("10.0.2.2"), 7, 2 * MS, 100, MS)


def test_streams_share_a_rate(two: Lab) -> None:
    activities = activities_of(two, "udp:src=h1,dst=h2,rate=10M,flows=2,ecn=1,tos=0xb8,time=5ms,size=500,model=poisson")
    assert all(isinstance(each, UdpStream) for each in activities)
    assert [(each.rate_bps, each.sport) for each in activities if isinstance(each, UdpStream)] == [
        (5_000_000, 0),
        (5_000_000, 0),
    ]
    by_name = activities_of(two, "udp:src=h1,dst=h2,rate=1M,flows=2,sport=7000")
    assert [each.sport for each in by_name if isinstance(each, UdpStream)] == [7_000, 7_001]
    first = activities[0]
    assert isinstance(first, UdpStream)
    assert (first.tos, first.time_ps, first.size, first.model) == (0xB9, 5 * MS, 500, "poisson")


def test_connections_carry_bytes_or_last_a_time(two: Lab) -> None:
    (by_bytes,) = activities_of(two, "tcp:src=h1,dst=h2,bytes=5M,cc=dctcp,dport=80")
    assert by_bytes == TcpFlow("h1", ip_address("10.0.2.2"), 0, 80, 5 * 10**6, None, 0, "dctcp")
    (by_time,) = activities_of(two, "iperf:src=h1,dst=h2,time=10ms")
    assert isinstance(by_time, TcpFlow)
    assert (by_time.bytes, by_time.time_ps) == (None, 10 * MS)


def test_several_at_once_and_addresses_of_nobody(two: Lab) -> None:
    activities = activities_of(two, "ping:src=h1,dst=10.0.100.1; udp:src=h2,dst=10.0.100.1,rate=1M,dport=80")
    assert [type(each) for each in activities] == [EchoTrain, UdpStream]
    assert {str(each.dst) for each in activities if not isinstance(each, FrameTrain)} == {"10.0.100.1"}


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("flood", "there is no workload 'flood' for labs; there is ping, udp, tcp, iperf"),
        ("udp:src=h1,dst=h2", "rate missing"),
        ("udp:src=h1,dst=h9,rate=1M", "there is no host 'h9'; the lab has h1, h2"),
        ("udp:src=h1,dst=h2,rate=fast", "rate: 'fast' is not a rate"),
        ("udp:src=h1,dst=h2,rate=1M,size=2000", "size: '2000' is not a whole number from 1 to 1472"),
        ("udp:src=h1,dst=h2,rate=1M,model=wild", "model: there is no 'wild'; there is constant, poisson, onoff"),
        ("udp:src=h1,dst=h2,rate=1M,ecn=3", "ecn: '3' is not a whole number from 0 to 2"),
        ("udp:src=h1,dst=h2,rate=1M,tos=256", "tos: '256' is not a whole number from 0 to 255"),
        ("udp:src=h1,dst=h2,rate=1M,time=0", "time: '0' is not a time above 0"),
        ("udp:src=h1,dst=h2,rate=1M,sport=65535,flows=2", "port 65536 is beyond 65535"),
        ("tcp:src=h1,dst=h2,bytes=1k,time=1s", "bytes and time do not go together"),
        ("ping:colour=red", "there is no parameter colour"),
        ("ping:src=h1,dst=h1", "there is no traffic"),
        ("h1 xterm", "built-in hosts have no xterm; they have ping"),
        ("h1 ping", "expected one host to ping"),
        ("h1 ping -Q 1 h2", "there is no option -Q"),
        ("h1 ping -c", "-c needs a value"),
        ("h1 iperf -s", "there is no option -s"),
        ("h1 iperf -t 5", "servers start automatically"),
        ("h1 iperf -c h2 -b 1M", "-b, -l and -S are for -u"),
        ("h1 iperf -c h7", "there is no host 'h7'"),
    ],
)
def test_what_means_nothing(two: Lab, text: str, error: str) -> None:
    with pytest.raises(DetourError, match=error):
        activities_of(two, text)


def test_frames_of_a_capture(two: Lab, tmp_path: Path) -> None:
    frames = [Ether(dst="ff:ff:ff:ff:ff:ff", type=0x1234) / Raw(bytes([number] * 50)) for number in range(2)]
    wrpcap(str(tmp_path / "two.pcap"), frames)
    (train,) = activities_of(two, f"frames:src=h1,file={tmp_path}/two.pcap,interval=2ms,count=3,start=1ms")
    assert train == FrameTrain("h1", tuple(map(bytes, frames)), 2 * MS, 3, MS)
    wrpcap(str(tmp_path / "raw.pcap"), [IP(dst="10.0.0.2")])
    (train,) = activities_of(two, f"frames:src=h1,file={tmp_path}/raw.pcap,ethernet=02:00:00:00:00:09")
    assert isinstance(train, FrameTrain)
    assert train.frames[0][:14] == bytes.fromhex(f"020000000009{two.host('h1').mac.replace(':', '')}0800")
    with pytest.raises(DetourError, match=r"file: .*none.pcap"):
        activities_of(two, f"frames:src=h1,file={tmp_path}/none.pcap")


@pytest.mark.parametrize(
    ("typed", "means"),
    [
        ("pingall", "ping:count=1"),
        ("h1 ping h2", "ping:src=h1,dst=h2"),
        ("h1 ping -c 2 -i 0.5 -s 100 10.0.2.2", "ping:src=h1,count=2,interval=0.5s,size=100,dst=10.0.2.2"),
        ("h2 iperf -c h1", "iperf:src=h2,dst=h1"),
        ("h2 iperf3 -c h1 -t 500ms -P 3 -C dctcp -p 80", "iperf:src=h2,dst=h1,time=500ms,flows=3,cc=dctcp,dport=80"),
        ("h2 iperf -u -c h1", "udp:src=h2,dst=h1,rate=1M"),
        ("h2 iperf -c h1 -u -b 10M -l 500 -S 0x2", "udp:src=h2,dst=h1,rate=10M,size=500,tos=0x2"),
    ],
)
def test_what_is_typed_in_mininet(two: Lab, typed: str, means: str) -> None:
    assert activities_of(two, typed) == activities_of(two, means)
