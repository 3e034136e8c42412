# SPDX-License-Identifier: Apache-2.0
"""The programs that are no fabric: ipv4.p4, queues.p4, bench_tables.p4 and sai.p4.

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
from tests.ptf.p4rt import clone_session
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


@pytest.fixture(params=BACKENDS)
def sai(request: pytest.FixtureRequest) -> Iterator[Switch]:
    """sai.p4 with what 10.0.0.0/24 in VRF 7 needs to leave by a port."""
    full = (1 << 48) - 1
    for switch in switch_with(request.param, "sai", of_fabric=False):
        switch.insert("l3_admit", {"hdr.ethernet.dst": (number(SWITCH_MAC), full)}, action=("admit", {}), priority=1)
        vrf = {"std.ingress_port": (IN, 0x1FF)}
        switch.insert("acl_pre_ingress", vrf, action=("set_vrf", {"vrf": 7}), priority=1)
        to = {"meta.vrf": 7, "hdr.ipv4.dst": (0x0A000000, 24)}
        switch.insert("ipv4_route", to, action=("set_nexthop", {"nexthop": 3}))
        switch.insert("nexthop", {"meta.nexthop": 3}, action=("resolve", {"interface": 4, "neighbor": 5}))
        port = {"port": OUT, "src_mac": number(SWITCH_MAC)}
        switch.insert("router_interface", {"meta.interface": 4}, action=("set_port", port))
        there = {"meta.interface": 4, "meta.neighbor": 5}
        switch.insert("neighbor", there, action=("set_dst_mac", {"dst_mac": number(HOST_MAC)}))
        yield switch


def number(mac: str) -> int:
    return int(mac.replace(":", ""), 16)


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


def test_a_sai_router_forwards(sai: Switch) -> None:
    only(sai)


def test_a_sai_router_drops(sai: Switch) -> None:
    """What is not admitted, has no route or hops, or misses on its way; what is not an IPv4."""
    other, stray = ipv4(), ipv4()
    other.dst = HOST_MAC
    stray.type = 0x88B5
    ways = ("drop", {}), ("set_nexthop", {"nexthop": 9}), ("set_nexthop", {"nexthop": 8}), ("set_group", {"group": 9})
    for address, action in enumerate(ways, 1):
        sai.insert("ipv4_route", {"meta.vrf": 7, "hdr.ipv4.dst": (0x0A090000 | address, 32)}, action=action)
    sai.insert("nexthop", {"meta.nexthop": 8}, action=("resolve", {"interface": 6, "neighbor": 5}))
    gone = [ipv4(f"10.9.0.{address}") for address in range(1, 6)]
    only(sai, other, stray, ipv4(ttl=1), *gone)


def test_a_sai_router_without_a_vrf_has_no_routes(sai: Switch) -> None:
    send_packet(sai, IN + 2, ipv4())
    only(sai)


def test_access_lists_of_a_sai_router(sai: Switch) -> None:
    match = {"hdr.ipv4.dscp": (1, 0x3F)}
    sai.insert("acl_ingress", match, action=("drop", {}), priority=2)
    sai.insert("acl_ingress", {"hdr.ipv4.dscp": (2, 0x3F)}, action=("NoAction", {}), priority=2)
    egress = {"std.egress_port": (OUT, 0x1FF), "hdr.ipv4.protocol": (17, 0xFF), "hdr.l4.dst_port": (7, 0xFFFF)}
    sai.insert("acl_egress", egress, action=("deny", {}), priority=1)
    denied = Ether(bytes(ipv4()))
    denied[UDP].dport = 7
    only(sai, ipv4(tos=4), denied)


def test_a_sai_router_mirrors(sai: Switch) -> None:
    """The copy is as it came."""
    sai.insert("acl_ingress", {"hdr.ipv4.dscp": (5, 0x3F)}, action=("mirror", {"session": 1}), priority=1)
    sai.insert("mirror_session", {"meta.mirror": 1}, action=("mirror_to", {"port": OUT + 1}))
    sai.insert("clone_session", {"meta.mirror_port": OUT + 1}, action=("ingress_clone", {"session": 9}))
    sai.client.insert(clone_session(9, (OUT + 1, 1)))
    send_packet(sai, IN, ipv4(tos=20))
    assert sai.take(OUT + 1) == bytes(ipv4(tos=20))
    assert Ether(sai.take(OUT))[IP].ttl == 63


def test_wcmp_of_a_sai_router(sai: Switch) -> None:
    """Flows go by one of two next hops, each flow by one."""
    sai.insert("ipv4_route", {"meta.vrf": 7, "hdr.ipv4.dst": (0x0A090000, 24)}, action=("set_group", {"group": 2}))
    hops = [(("set_nexthop", {"nexthop": hop}), 1) for hop in (3, 4)]
    sai.insert("wcmp_group", {"meta.group": 2}, one_shot=hops)
    sai.insert("nexthop", {"meta.nexthop": 4}, action=("resolve", {"interface": 5, "neighbor": 5}))
    sai.insert("router_interface", {"meta.interface": 5}, action=("set_port", {"port": OUT + 1, "src_mac": 1}))
    sai.insert("neighbor", {"meta.interface": 5, "meta.neighbor": 5}, action=("set_dst_mac", {"dst_mac": 2}))
    for host in range(1, 33):
        send_packet(sai, IN, ipv4(f"10.9.0.{host}"))
        send_packet(sai, IN, ipv4(f"10.9.0.{host}"))
    send_packet(sai, IN, ipv4())
    ways = []
    while (frame := sai.take(OUT)) != bytes(routed()):
        ways.append(Ether(frame)[IP].dst)
    assert 8 < len(ways) < 56
    assert all(ways.count(destination) == 2 for destination in ways)
