# SPDX-License-Identifier: Apache-2.0
"""SRv6 uSID: uN, uA, exhausted containers, SRH, USD, own uSIDs in a row, unknown SIDs (RFC 9800, RFC 8986).

The switch under test is node 1; port p has the uA function 0xE000+p.
"""

from __future__ import annotations

import pytest
from scapy.layers.l2 import Ether
from scapy.packet import Packet

from tests.ptf.base_test import (
    Switch,
    send_packet,
    verify_dropped,
    verify_forwarded,
    verify_no_other_packets,
    verify_packet_in,
    verify_punted,
)
from tests.ptf.packets import frame, host, ip, options, router_alert, srh, transit, udp, usids

MALFORMED, NO_ROUTE, UNKNOWN_SID, HOP_LIMIT, EXHAUSTED, SID_LOOP, AGAIN, BAD_SRH, SCOPE = 1, 3, 4, 6, 7, 8, 11, 13, 14
HOST = 0x8005


@pytest.fixture
def node(switch: Switch) -> Switch:
    """Node 1 with uN, uA of ports 3 and 4 in both forms, routes to node 2 (port 2), to the host (port 5) and to group 5
    (port 6)."""
    switch.local_sid(usids(1), 48, "un")
    for port in (3, 4):
        switch.local_sid(usids(0xE000 + port), 48, "ua", port=port)
        switch.local_sid(usids(1, 0xE000 + port), 64, "node_ua", port=port)
    switch.route(usids(2), 48, [2])
    switch.route(usids(HOST), 48, [5])
    switch.route("fd00:5::", 32, [6])
    return switch


def steered(*ids: int, hlim: int = 64, srh_and_more: tuple = ()) -> Packet:
    """A packet whose destination is a uSID list."""
    return frame(ip(usids(*ids), hlim=hlim), *srh_and_more, udp())


LISTS = {
    # uSIDs as they come and as they go, port, hops
    "uN": ((1, 2, HOST), (2, HOST), 2, 1),
    "uN of a full container": ((1, 2, 3, 4, 5, HOST), (2, 3, 4, 5, HOST), 2, 1),
    "uN before the last uSID": ((1, HOST), (HOST,), 5, 1),
    "a foreign uSID": ((2, 1, HOST), (2, 1, HOST), 2, 1),
    "uA by function, port 3": ((0xE003, 2, HOST), (2, HOST), 3, 1),
    "uA by function, port 4": ((0xE004, 2, HOST), (2, HOST), 4, 1),
    "uA by node and function, port 3": ((1, 0xE003, 2, 3, 4, HOST), (2, 3, 4, HOST), 3, 1),
    "uA by node and function, port 4": ((1, 0xE004, 2, 3, 4, HOST), (2, 3, 4, HOST), 4, 1),
    "uA without a route": ((0xE003, 0x77), (0x77,), 3, 1),
    "own uN behind own uN": ((1, 1, 2, HOST), (2, HOST), 2, 2),
    "own uA behind own uN": ((1, 1, 0xE004, 2), (2,), 4, 2),
    "five own in a row": ((1, 1, 1, 1, 1, HOST), (HOST,), 5, 5),
}


@pytest.mark.parametrize("name", LISTS)
def test_a_list_leads_on(node: Switch, name: str) -> None:
    ids, out, port, hops = LISTS[name]
    verify_forwarded(node, 1, steered(*ids), steered(*out, hlim=64 - hops), port, rounds=hops)
    assert node.counter("reasons", AGAIN)[0] == hops - 1
    assert node.counter("port_rx", 1)[0] == 1 + hops * 6, "the packet and the barrier's, each once"


def test_the_whole_argument_decides_not_the_next_usid(node: Switch) -> None:
    node.route(usids(0, 2), 64, [6])
    verify_forwarded(node, 1, steered(1, 0, 2), steered(0, 2, hlim=63), 6)


def test_the_last_bit_of_the_argument_counts(node: Switch) -> None:
    node.route(usids(0), 48, [6])
    out = frame(ip("fcbb:bb00::1:0", hlim=63), udp())
    verify_forwarded(node, 1, frame(ip("fcbb:bb00:1::1"), udp()), out, 6)


def test_outside_the_block_nothing_is_shifted(node: Switch) -> None:
    node.route("fcbb:bb01::", 32, [6])
    packet, out = (frame(ip("fcbb:bb01:1:2:8005::", hlim=hlim), udp()) for hlim in (64, 63))
    verify_forwarded(node, 1, packet, out, 6)


@pytest.mark.parametrize("address", [usids(0x77), usids(0x77, 2), usids(1, 0x77), usids(0xE00F, 2), "fcbb:bb00::"])
def test_unknown_sids_fall_into_a_black_hole_and_are_counted(node: Switch, address: str) -> None:
    verify_dropped(node, 1, frame(ip(address), udp()), UNKNOWN_SID, rounds=2)


def test_the_hop_limit_ends_going_round(node: Switch) -> None:
    send_packet(node, 5, steered(1, 1, 1, 2, hlim=3))
    verify_packet_in(node, steered(1, 2, hlim=1), 5, HOP_LIMIT)
    verify_no_other_packets(node, rounds=3)


@pytest.mark.parametrize(
    ("own", "foreign", "hlim"), [*((1, f, h) for f in (0xE00F, 0xFFFF) for h in (2, 3, 64)), (2, 0xE00F, 3)]
)
def test_a_foreign_usid_of_the_local_range_costs_no_second_hop(node: Switch, own: int, foreign: int, hlim: int) -> None:
    """It might be one of this switch, so it is looked up once more; it is none, so this switch is one hop."""
    node.route(usids(foreign), 48, [6])
    packet = steered(*[1] * own, foreign, HOST, hlim=hlim)
    verify_forwarded(node, 1, packet, steered(foreign, HOST, hlim=hlim - own), 6, rounds=own + 1)


@pytest.mark.shared_p4
def test_going_round_has_a_bound(node: Switch) -> None:
    packet = frame(ip(usids(1), nh=43), srh([usids(1)] * 8, 7), udp())
    verify_dropped(node, 1, packet, SID_LOOP, rounds=7)
    assert node.counter("reasons", AGAIN)[0] == 5


# Segments, and how many are left; of long lists only the first eight are read.
SEGMENTS = [(1, 1), (3, 1), (3, 2), (3, 3), (8, 5), (8, 8), (9, 1), (9, 8), (40, 8), (127, 5)]


@pytest.mark.parametrize(("segments", "left"), SEGMENTS)
def test_srh_advances_to_the_next_segment(node: Switch, segments: int, left: int) -> None:
    addresses = [f"2001:db8::{i}" for i in range(segments)]
    addresses[left - 1] = usids(2, HOST)
    before, after = ((srh(addresses, left - taken),) for taken in (0, 1))
    verify_forwarded(node, 1, steered(1, srh_and_more=before), steered(2, HOST, hlim=63, srh_and_more=after), 2)


@pytest.mark.parametrize("ids", [(0xE003,), (1, 0xE003)])
def test_srh_advances_at_ua_and_leaves_by_its_port(node: Switch, ids: tuple[int, ...]) -> None:
    addresses = ["2001:db8::9", "2001:db8::1"]
    out = frame(ip("2001:db8::1", hlim=63), srh(addresses, 1), udp())
    verify_forwarded(node, 1, steered(*ids, srh_and_more=(srh(addresses, 2),)), out, 3)


CONTRADICTIONS = (
    *(("segleft", 3), ("segleft", 255), ("len", 3), ("len", 0)),
    *(("lastentry", 0), ("lastentry", 2), ("lastentry", 255)),
)


def contradicting(field: str, value: int, ids: tuple[int, ...] = (1,), hlim: int = 64) -> Packet:
    """A packet whose SRH has one wrong field."""
    packet = steered(*ids, hlim=hlim, srh_and_more=(srh([usids(2), usids(2)], 2),))
    setattr(packet["IPv6ExtHdrSegmentRouting"], field, value)
    return packet


def inner(hlim: int = 32, dst: str | None = None) -> Packet:
    """A packet to be carried inside another one."""
    return ip(dst or host(5), src=host(1), hlim=hlim) / transit(3) / udp(sport=77)


TOO_MUCH = [(options(72),), (options(), options()), (router_alert(), options())]
PUNTED = {
    "an exhausted container": [(steered(*ids), EXHAUSTED) for ids in ((1,), (0xE003,), (1, 0xE003))],
    "an exceeded hop limit, unshifted": [
        (steered(*ids, hlim=hlim), HOP_LIMIT) for ids in ((1, 2), (0xE003, 2), (1, 0xE003, 2)) for hlim in (0, 1)
    ],
    "more than eight segments left": [
        (steered(1, srh_and_more=(srh([usids(2)] * segments, left),)), EXHAUSTED)
        for segments, left in ((9, 9), (10, 9), (127, 127))
    ],
    "an SRH without segments left": [(steered(1, srh_and_more=(srh([usids(1)], 0),)), EXHAUSTED)],
    "a long one, behind which nothing is looked for": [
        (steered(1, srh_and_more=(srh([usids(2)] * segments, 0), inner())), EXHAUSTED) for segments in (9, 127)
    ],
    "an SRH that contradicts itself": [(contradicting(*wrong), BAD_SRH) for wrong in CONTRADICTIONS],
    "the hop limit comes before the segment list": [(contradicting("segleft", 3, hlim=1), HOP_LIMIT)],
    "options that are too long or too many": [
        (steered(1, srh_and_more=(*layers, srh([usids(2)], 1))), EXHAUSTED) for layers in TOO_MUCH
    ],
}


@pytest.mark.shared_p4
@pytest.mark.parametrize("name", PUNTED)
def test_what_goes_to_the_controller_as_it_came(node: Switch, name: str) -> None:
    for packet, reason in PUNTED[name]:
        verify_punted(node, 6, packet, reason)


@pytest.mark.parametrize(("field", "value"), [*CONTRADICTIONS, ("len", 17), ("len", 255)])
@pytest.mark.parametrize(("ids", "out"), [((2, 1), (2, 1)), ((1, 2), (2,))])
def test_an_srh_is_not_looked_into_on_the_way(
    node: Switch, ids: tuple[int, ...], out: tuple[int, ...], field: str, value: int
) -> None:
    """Neither by a switch that just routes, nor where the container lasts."""
    verify_forwarded(node, 1, contradicting(field, value, ids), contradicting(field, value, out, hlim=63), 2)


@pytest.mark.parametrize("layers", [*TOO_MUCH[:2], (srh([usids(2)] * 12, 11),), (srh([usids(4), usids(3)], 2),)])
def test_what_is_too_long_or_too_much_is_carried_on(node: Switch, layers: tuple) -> None:
    """As is an SRH while the container lasts."""
    verify_forwarded(node, 1, steered(1, 2, srh_and_more=layers), steered(2, hlim=63, srh_and_more=layers), 2)


@pytest.mark.parametrize("value", [5, 17, 255])
def test_an_srh_longer_than_the_packet_is_dropped(node: Switch, value: int) -> None:
    """Than the IPv6 packet, that is: what follows it is padding."""
    packet = contradicting("len", value)
    packet["IPv6"].plen = 40
    verify_dropped(node, 1, packet, MALFORMED)


LAYERS = {
    "transit": (transit(7),),
    "router alert": (router_alert(),),
    "destination options": (options(),),
    "transit and destination options": (transit(0), options(16)),
    "longest options": (options(64),),
}


@pytest.mark.shared_p4
@pytest.mark.parametrize("name", LAYERS)
def test_srh_behind_options(node: Switch, name: str) -> None:
    layers = LAYERS[name]
    send_packet(node, 1, steered(1, srh_and_more=(*layers, srh([usids(2, HOST)], 1))))
    out = Ether(node.take(2))
    assert out["IPv6"].dst == usids(2, HOST)
    assert out["IPv6"].hlim == 63
    assert bytes(out)[-len(bytes(udp())) - 24 :] == bytes(frame(srh([usids(2, HOST)], 0), udp()))[14:]
    verify_no_other_packets(node)


def plain(hlim: int, dst: str | None = None) -> Packet:
    """A packet to be carried inside another one, without the option that switches write to."""
    return ip(dst or host(5), src=host(1), hlim=hlim) / udp()


@pytest.mark.shared_p4
@pytest.mark.parametrize("layers", [*LAYERS.values(), (srh([usids(1), usids(9)], 0),)])
def test_usd_takes_extension_headers_off_too(node: Switch, layers: tuple) -> None:
    verify_forwarded(node, 1, frame(ip(usids(1)), *layers, plain(32)), frame(plain(31)), 6)


@pytest.mark.shared_p4
@pytest.mark.parametrize("source", ["ff02::1", "::", "::1", "fe80::7"])
def test_an_inner_packet_from_nowhere_is_dropped(node: Switch, source: str) -> None:
    verify_dropped(node, 1, frame(ip(usids(1)), ip(host(5), src=source), udp()), SCOPE)


def test_an_inner_packet_longer_than_the_outer_one_is_dropped(node: Switch) -> None:
    packet = frame(ip(usids(1)), inner())
    packet["IPv6"].payload.plen += 1
    verify_dropped(node, 1, packet, MALFORMED)


def test_usd_takes_the_outer_header_off_and_routes_the_inner_packet(node: Switch) -> None:
    send_packet(node, 1, frame(ip(usids(1)), inner()))
    out = Ether(node.take(6))
    assert out["IPv6"].dst == host(5)
    assert out["IPv6"].hlim == 31
    assert bytes(out["UDP"]) == bytes(inner()["UDP"])
    verify_no_other_packets(node)


@pytest.mark.shared_p4
def test_usd_at_ua_sends_the_inner_packet_over_the_port(node: Switch) -> None:
    verify_forwarded(node, 1, frame(ip(usids(0xE004)), plain(32)), frame(plain(31)), 4)


def test_usd_of_a_packet_for_this_node_goes_on_with_its_sids(node: Switch) -> None:
    packet = frame(ip(usids(1)), plain(32, usids(1, 2, HOST)))
    verify_forwarded(node, 1, packet, frame(plain(30, usids(2, HOST))), 2, rounds=2)


def test_usd_of_what_cannot_go_on_is_for_the_controller(node: Switch) -> None:
    """At its last hop the inner packet, and where it has no route, which is missed once."""
    for packet, out, reason in ((plain(1), plain(1), HOP_LIMIT), (plain(32, host(7)), plain(31, host(7)), NO_ROUTE)):
        send_packet(node, 3, frame(ip(usids(1)), packet))
        verify_packet_in(node, frame(out), 3, reason)
        verify_no_other_packets(node)


def test_an_inner_packet_stays_inside_while_the_container_lasts(node: Switch) -> None:
    verify_forwarded(node, 1, frame(ip(usids(1, 2)), plain(32)), frame(ip(usids(2), hlim=63), plain(32)), 2)
