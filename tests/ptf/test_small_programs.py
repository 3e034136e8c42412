# SPDX-License-Identifier: Apache-2.0
"""The programs that are no fabric: ipv4.p4, queues.p4 and bench_tables.p4.

They have no routes for barrier packets. That nothing comes out is concluded from the packet that is sent next.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import ARP, Ether
from scapy.packet import Packet, Raw

from tests.ptf.base_test import Switch, send_packet, verify_packet
from tests.ptf.conftest import BACKENDS, switch_with
from tests.ptf.packets import SOURCE_MAC, SWITCH_MAC

IN, OUT = 1, 2
HOST, HOST_MAC = 0x0A000001, "02:00:00:00:00:99"
CE, ECT0 = 3, 2


@pytest.fixture(params=BACKENDS)
def router(request: pytest.FixtureRequest) -> Iterator[Switch]:
    """ipv4.p4 with 10.0.0.0/24 behind a port."""
    for switch in switch_with(request.param, "ipv4", of_fabric=False):
        action = ("forward", {"mac": int(HOST_MAC.replace(":", ""), 16), "port": OUT})
        switch.insert("routes", {"hdr.ipv4.dst": (0x0A000000, 24)}, action=action)
        yield switch


@pytest.fixture(params=BACKENDS)
def queues(request: pytest.FixtureRequest) -> Iterator[Switch]:
    """queues.p4."""
    yield from switch_with(request.param, "queues", of_fabric=False)


@pytest.fixture(params=BACKENDS)
def tables(request: pytest.FixtureRequest) -> Iterator[Switch]:
    """bench_tables.p4."""
    yield from switch_with(request.param, "bench_tables", of_fabric=False)


def ipv4(dst: str = "10.0.0.1", ttl: int = 64, tos: int = 0, payload: bytes = b"x" * 20) -> Packet:
    """A frame with every length and checksum filled in."""
    packet = Ether(src=SOURCE_MAC, dst=SWITCH_MAC) / IP(src="192.0.2.1", dst=dst, ttl=ttl, tos=tos)
    return Ether(bytes(packet / UDP(sport=1, dport=2, chksum=0xBEEF) / Raw(payload)))


def routed() -> Packet:
    """What becomes of `ipv4()`, with the checksum that scapy computes."""
    packet = ipv4(ttl=63)
    packet.src, packet.dst = SWITCH_MAC, HOST_MAC
    return packet


def only(switch: Switch, *dropped: Packet) -> None:
    """None of these comes out: the packet behind them is the first that does."""
    for each in dropped:
        send_packet(switch, IN, each)
    send_packet(switch, IN, ipv4())
    assert switch.take(OUT) == bytes(routed())


def test_a_route_takes_a_hop_and_keeps_the_checksum_right(router: Switch) -> None:
    send_packet(router, IN, ipv4())
    verify_packet(router, routed(), OUT)


def test_packets_without_a_route_or_without_hops_are_dropped(router: Switch) -> None:
    router.insert("routes", {"hdr.ipv4.dst": (0x0A000007, 32)}, action=("drop", {}))
    only(router, ipv4("10.9.9.9"), ipv4("10.0.0.7"), ipv4(ttl=1))


def test_what_is_neither_ipv4_nor_arp_is_dropped(router: Switch) -> None:
    only(router, Ether(src=SOURCE_MAC, dst=SWITCH_MAC, type=0x88B5) / Raw(bytes(46)))


def test_arp_is_passed_on_by_address(router: Switch) -> None:
    asked = Ether(src=SOURCE_MAC, dst="ff:ff:ff:ff:ff:ff") / ARP(psrc="192.0.2.1", pdst="10.0.0.1", hwsrc=SOURCE_MAC)
    only(router, asked)
    router.insert("neighbours", {"hdr.arp.target": (HOST, 32)}, action=("pass", {"port": OUT}))
    router.insert("neighbours", {"hdr.arp.target": (HOST + 1, 32)}, action=("drop", {}))
    only(router, Ether(bytes(asked).replace(bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2]))))
    send_packet(router, IN, asked)
    verify_packet(router, asked, OUT)


def test_a_long_queue_marks_those_who_can_be_marked(router: Switch) -> None:
    count = 16
    frames = [bytes(ipv4(tos=ECT0, payload=bytes([number] * 20))) for number in range(count)]
    router.platform.slow_down(OUT, 20)
    for each in frames:
        send_packet(router, IN, each)
    out = [Ether(router.take(OUT)) for _ in range(count)]
    router.platform.slow_down(OUT, 1_000_000)
    marked = [each["IP"].tos & 3 == CE for each in out]
    assert not marked[0]
    assert 1 <= sum(marked) <= count - 10, "those that found ten"
    for each in out:
        again = each.copy()
        del again["IP"].chksum
        assert Ether(bytes(again))["IP"].chksum == each["IP"].chksum


def test_queues_are_chosen_by_the_last_byte_and_counted(queues: Switch) -> None:
    packet = Ether(src=SOURCE_MAC, dst="02:00:00:00:00:03", type=0x88B5) / Raw(bytes(range(60)))
    for _ in range(3):
        send_packet(queues, IN, packet)
        verify_packet(queues, packet, OUT)
    if queues.platform.name == "engine":  # BMv2 has no registers over P4Runtime
        (packets,) = queues.client.read(queues.schema.register("packets", 3))
        (octets,) = queues.client.read(queues.schema.register("octets", 3))
        read = [int.from_bytes(each.register_entry.data.bitstring, "big") for each in (packets, octets)]
        assert read == [3, 3 * len(packet)]


KEYS = {
    1: ("by_exact", "hdr.keys.exact_key"),
    2: ("by_lpm", "hdr.keys.lpm_key"),
    3: ("by_ternary", "hdr.keys.ternary_key"),
}


@pytest.mark.parametrize("port", KEYS)
def test_the_port_chooses_the_table(tables: Switch, port: int) -> None:
    """Without a match packets leave by port 8, where nothing is; with one by the port that the entry says."""
    table, field = KEYS[port]
    listed, unknown = (bytes([first]) + bytes(39) for first in (1, 2))
    key = {1: 1 << 56, 2: (0, 8), 3: (0, (1 << 128) - 1)}[port]
    other = bytes(8) + b"\x05" * 32
    tables.insert(table, {field: key}, action=("forward", {"port": OUT}), priority=1 if port == 3 else 0)
    send_packet(tables, port, unknown if port == 1 else other)
    send_packet(tables, port, listed)
    assert tables.take(OUT) == listed
    send_packet(tables, 4, listed)
    send_packet(tables, port, listed + b"behind")
    assert tables.take(OUT) == listed + b"behind"


@pytest.mark.parametrize("wrong", [None, 0, 6, 8, 11, 12, 13])
def test_rules_of_an_access_list(tables: Switch, wrong: int | None) -> None:
    """A packet that matches, and those that do not in one field each (`wrong`: which byte)."""
    rule = {
        "hdr.acl.source": (0x0A000000, 0xFF000000),
        "hdr.acl.destination": (0xC0000000, 0xFFFFFF00),
        "hdr.acl.source_port": (1024, 65535),
        "hdr.acl.destination_port": (5000, 5001),
        "hdr.acl.protocol": (6, 0xFF),
        "hdr.acl.flags": (0x10, 0x10),
    }
    tables.insert("by_acl", rule, action=("forward", {"port": OUT}), priority=5)
    header = bytearray(b"\x0a\x01\x02\x03" + b"\xc0\x00\x00\x07" + b"\x55\xff" + b"\x13\x88" + b"\x06" + b"\x12")
    behind = bytes(header) + b"the first that comes out"
    if wrong is not None:
        header[wrong] ^= 0x55
        send_packet(tables, 5, bytes(header))
    send_packet(tables, 5, behind)
    assert tables.take(OUT) == behind
