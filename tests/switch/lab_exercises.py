# SPDX-License-Identifier: Apache-2.0
"""p4lang's tutorial exercises as labs in virtual time: what hosts send, and what must come out.

The checks are those of `tutorial_exercises`, which runs the same exercises in Mininet; frames are put together by hand
as the exercises' `send.py` does. Nothing of the tutorials is part of this project.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from detour.fabric.labs.virtual import VirtualLab
from detour.fabric.labs.workloads import activities_of

MS = 10**9
BROADCAST = "ff:ff:ff:ff:ff:ff"


class Running:
    """A lab that is up, with words for checks."""

    def __init__(self, virtual: VirtualLab) -> None:
        self.virtual = virtual

    def host(self, name: str) -> Any:
        assert self.virtual.stack is not None
        return self.virtual.stack.host(name)

    def mac(self, name: str) -> str:
        return self.virtual.lab.host(name).mac

    def ip(self, name: str) -> str:
        return str(self.virtual.lab.host(name).address.ip)

    def does(self, workload: str, duration_ps: int | None = None) -> dict[str, Any]:
        """What a workload comes to."""
        jobs = self.virtual.do(activities_of(self.virtual.lab, workload))
        self.virtual.run_until_over(jobs, duration_ps)
        return self.virtual.results(jobs)

    def sends(self, name: str, *frames: bytes, sniffing: tuple[str, ...] = ()) -> dict[str, list[bytes]]:
        """What those hosts get of what one sends, a frame every 10 ms."""
        for each in sniffing:
            self.host(each).sniff()
            self.host(each).sniffed()
        self.host(name).send_frames(frames, interval_ps=10 * MS)
        self.virtual.run(10 * MS * len(frames) + 1_000 * MS)
        return {each: [data for _, data in self.host(each).sniffed()] for each in sniffing}


def every_ping(lab: Running) -> None:
    document = lab.does("ping:count=1")
    assert document["completed"] == document["flows"] == len(lab.virtual.lab.hosts) * (len(lab.virtual.lab.hosts) - 1)


def basic_tunnel(lab: Running) -> None:
    inner = bytes(IP(dst=lab.ip("h3"), src=lab.ip("h1")) / TCP(dport=1234) / Raw(b"by tunnel"))
    tunnelled = bytes(Ether(src=lab.mac("h1"), dst=BROADCAST, type=0x1212)) + struct.pack("!HH", 0x0800, 2) + inner
    plain = bytes(Ether(src=lab.mac("h1"), dst=BROADCAST) / IP(dst=lab.ip("h2")) / TCP(dport=1234) / Raw(b"by address"))
    got = lab.sends("h1", plain, tunnelled, sniffing=("h2", "h3"))
    assert [b"by address" in frame for frame in got["h2"]] == [True, False]
    assert b"by tunnel" in got["h2"][1]
    assert not got["h3"]


def calc(lab: Running) -> None:
    asked = [(3, "+", 5), (9, "-", 2), (12, "&", 10), (12, "|", 3), (6, "^", 3)]
    head = bytes(Ether(src=lab.mac("h1"), dst="00:04:00:00:00:00", type=0x1234)) + b"P4\x01"
    frames = [head + op.encode() + struct.pack("!III", a, b, 0) for a, op, b in asked]
    answers = lab.sends("h1", *frames, sniffing=("h1",))["h1"]
    assert [struct.unpack("!I", frame[26:30])[0] for frame in answers] == [8, 7, 8, 15, 5]


def ecn(lab: Running) -> None:
    document = lab.does("udp:src=h1,dst=h2,rate=100k,ecn=1,time=1s,size=500;udp:src=h11,dst=h22,rate=2M,time=1s")
    assert document["udp"][0]["marked"] > 0
    alone = lab.does("udp:src=h11,dst=h22,rate=100k,ecn=1,time=1s,size=500")
    assert (alone["udp"][0]["marked"], alone["udp"][0]["lost"]) == (0, 0)


def firewall(lab: Running) -> None:
    inside = lab.does("tcp:src=h1,dst=h3,bytes=100k")
    assert inside["completed"] == 1
    outside = lab.does("tcp:src=h3,dst=h1,bytes=100k,dport=6000", 2_000 * MS)
    assert (outside["completed"], outside["delivered_bytes"]) == (0, 0)


def link_monitor(lab: Running) -> None:
    probe = bytes(Ether(src=lab.mac("h1"), dst=BROADCAST, type=0x812)) + bytes([0, 4, 1, 4, 1, 3, 2, 3, 2, 1])
    (back,) = lab.sends("h1", probe, sniffing=("h1",))["h1"]
    records = [back[15 + 18 * n : 15 + 18 * (n + 1)] for n in range(back[14])]
    assert len(records) == 9
    assert {record[0] & 0x7F for record in records} == {1, 2, 3, 4}


def load_balance(lab: Running) -> None:
    frames = [
        bytes(
            Ether(src=lab.mac("h1"), dst=BROADCAST)
            / IP(src=lab.ip("h1"), dst="10.0.0.1")
            / TCP(dport=1234, sport=50_000 + number)
            / Raw(b"P4 is cool")
        )
        for number in range(12)
    ]
    got = lab.sends("h1", *frames, sniffing=("h2", "h3"))
    assert len(got["h2"]) + len(got["h3"]) == 12
    assert min(len(got["h2"]), len(got["h3"])) > 0


def mri(lab: Running) -> None:
    option = struct.pack("!BBH", 31, 4, 0)
    packet = IP(bytes(IP(src=lab.ip("h1"), dst=lab.ip("h2"), ihl=6, proto=17, len=24 + 12))[:20] + option)
    packet.ihl, packet.chksum = 6, None
    frame = bytes(Ether(src=lab.mac("h1"), dst=BROADCAST) / packet / UDP(dport=4321, sport=1234) / Raw(b"cool"))
    got = lab.sends("h1", *[frame] * 3, sniffing=("h2",))["h2"]
    assert len(got) == 3
    for each in got:
        count = struct.unpack("!H", each[36:38])[0]
        traces = [struct.unpack("!II", each[38 + 8 * n : 46 + 8 * n]) for n in range(count)]
        assert sorted(switch for switch, _ in traces) == [1, 2]


def qos(lab: Running) -> None:
    frame = bytes(
        Ether(src=lab.mac("h1"), dst=BROADCAST) / IP(src=lab.ip("h1"), dst=lab.ip("h2"), tos=1) / UDP(dport=4321)
    )
    got = lab.sends("h1", *[frame] * 3, sniffing=("h2",))["h2"]
    assert [each[15] for each in got] == [0xB9] * 3


def source_routing(lab: Running) -> None:
    def routed(*ports: int) -> bytes:
        hops = b"".join(
            struct.pack("!H", port | (0x8000 if n == len(ports) - 1 else 0)) for n, port in enumerate(ports)
        )
        inner = bytes(IP(src=lab.ip("h1"), dst=lab.ip("h2")) / UDP(dport=4321, sport=1234))
        return bytes(Ether(src=lab.mac("h1"), dst=BROADCAST, type=0x1234)) + hops + inner

    got = lab.sends("h1", routed(2, 3, 2, 2, 1), routed(2, 1), sniffing=("h2",))["h2"]
    assert [IP(frame[14:]).ttl for frame in got] == [59, 62]


@dataclass(frozen=True)
class LabExercise:
    """`name`: the exercise's folder in p4lang's tutorials, or path of a `network.py` in p4-learning."""

    name: str
    check: Callable[[Running], None]


EXERCISES = (
    LabExercise("basic", every_ping),
    LabExercise("basic_tunnel", basic_tunnel),
    LabExercise("calc", calc),
    LabExercise("ecn", ecn),
    LabExercise("firewall", firewall),
    LabExercise("link_monitor", link_monitor),
    LabExercise("load_balance", load_balance),
    LabExercise("mri", mri),
    LabExercise("multicast", every_ping),
    LabExercise("qos", qos),
    LabExercise("source_routing", source_routing),
)
