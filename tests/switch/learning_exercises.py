# SPDX-License-Identifier: Apache-2.0
"""Examples and exercises of nsg-ethz/p4-learning as labs in virtual time, beyond pings: what their README tells to do
and to look for. Nothing of p4-learning is part of this project."""

from __future__ import annotations

from lab_exercises import BROADCAST, MS, LabExercise, Running, every_ping
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

_METERED = "aa:aa:aa:aa:aa:aa"


def meter(lab: Running) -> None:
    """Half a packet a second and a burst of one are green: one a second is too much, one in three seconds is not.
    Packets of others have no meter."""
    for source, seconds, sent, passed in (
        (_METERED, 3, 10, (10, 10)),
        (_METERED, 1, 20, (8, 12)),
        (BROADCAST, 1, 5, (5, 5)),
    ):
        src = source if source == _METERED else lab.mac("h1")
        frame = bytes(Ether(src=src, dst=lab.mac("h2")) / IP(dst="10.0.1.2") / UDP())
        lab.host("h2").sniff()
        lab.host("h2").sniffed()
        lab.host("h1").send_frames([frame] * sent, interval_ps=seconds * 1_000 * MS)
        lab.virtual.run((seconds * sent + 10) * 1_000 * MS)
        assert passed[0] <= len(lab.host("h2").sniffed()) <= passed[1]


def recirculate(lab: Running) -> None:
    """Five times round, then out of port 2, as it came."""
    frame = bytes(Ether(src=lab.mac("h1"), dst=lab.mac("h2"), type=0x9999) / Raw(b"round" * 10))  # nobody answers it
    assert lab.sends("h1", frame, frame, sniffing=("h2",))["h2"] == [frame, frame]
    rounds = lab.virtual.results(())["switches"][0]["recirculations"]
    assert rounds == 10


def recirculate_and_add_header(lab: Running) -> None:
    """A value of the register for each round."""
    for at in range(128):
        lab.virtual.cli("s1", f"register_write recirculate_register {at} {at}")
    for length in (1, 5, 10):
        frame = bytes(Ether(src=lab.mac("h1"), dst=BROADCAST, type=0x1234)) + bytes([length])
        (got,) = lab.sends("h1", frame, sniffing=("h2",))["h2"]
        assert got[14 : 15 + length] == bytes([length, *range(length)])


def counter(lab: Running) -> None:
    """Each host has a port that is counted; nothing is forwarded."""
    for number in (1, 2, 3, 4):
        frame = bytes(Ether(src=lab.mac(f"h{number}"), dst=BROADCAST, type=0x9999) / Raw(bytes(50)))
        lab.sends(f"h{number}", *[frame] * number)
    for number in (1, 2, 3, 4):
        (counted,) = [
            line for line in lab.virtual.cli("s1", f"counter_read direct_port_counter {number - 1}") if "=" in line
        ]
        assert counted.endswith(f", {number} packets)")


def heavy_hitter(lab: Running) -> None:
    """1000 packets of a flow pass, and no more of it; another flow is not hindered."""
    for count, passed in ((1_500, 1_001), (400, 400)):
        frame = bytes(
            Ether(src=lab.mac("h1"), dst="00:01:0a:02:02:00")
            / IP(src=lab.ip("h1"), dst=lab.ip("h2"))
            / TCP(sport=count, dport=4_321)
        )
        before = lab.host("h2").counters()["rx_frames"]
        lab.host("h1").send_frames([frame], interval_ps=MS, repeat=count)
        lab.virtual.run((count + 100) * MS)
        assert abs(lab.host("h2").counters()["rx_frames"] - before - passed) <= 1


def spread(lab: Running) -> None:
    """Connections arrive whole, over more than one of the ways."""
    document = lab.does("tcp:src=h1,dst=h2,bytes=50k,flows=12")
    assert document["completed"] == 12
    used = [port for port in document["ports"] if port["switch"] == "s1" and port["peer"].startswith("s")]
    assert sum(port["tx_packets"] > 20 for port in used) > 1


EXERCISES = (
    LabExercise("examples/meter/network_direct.py", meter),
    LabExercise("examples/meter/network_indirect.py", meter),
    LabExercise("examples/recirculate/network.py", recirculate),
    LabExercise("examples/recirculate_and_add_header/network.py", recirculate_and_add_header),
    LabExercise("examples/counter/network_direct.py", counter),
    LabExercise("exercises/05-ECMP/solution/network.py", spread),
    LabExercise("exercises/05-Flowlet_Switching/solution/network.py", spread),
    LabExercise("exercises/06-Heavy_Hitter_Detector/solution/network.py", heavy_hitter),
    LabExercise("exercises/02-Repeater/thrift/solution/network.py", every_ping),
    LabExercise("exercises/03-L2_Basic_forwarding/thrift/solution/network.py", every_ping),
    LabExercise("exercises/03-L2_Flooding/thrift/solution/network-all-ports.py", every_ping),
    LabExercise("exercises/03-L2_Flooding/thrift/solution/network-other-ports.py", every_ping),
)
