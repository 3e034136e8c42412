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
    verify_no_other_packets,
    verify_packet,
    verify_packet_in,
    verify_packets,
)
from tests.ptf.packets import frame, host, ip, options, router_alert, srh, transit, udp, usids

MALFORMED, UNKNOWN_SID, HOP_LIMIT, EXHAUSTED, SID_LOOP, AGAIN, BAD_SRH, SCOPE = 1, 4, 6, 7, 8, 11, 13, 14
HOST = 0x8005


@pytest.fixture
def node(switch: Switch) -> Switch:
    """Node 1 with uN, uA of ports 3 and 4 in both forms, routes to node 2 (port 2) and to the host (port 5)."""
    switch.local_sid(usids(1), 48, "un")
    for port in (3, 4):
        switch.local_sid(usids(0xE000 + port), 48, "ua", port=port)
        switch.local_sid(usids(1, 0xE000 + port), 64, "node_ua", port=port)
    switch.route(usids(2), 48, [2])
    switch.route(usids(HOST), 48, [5])
    return switch


def steered(*ids: int, hlim: int = 64, srh_and_more: tuple = ()) -> Packet:
    """A packet whose destination is a uSID list."""
    return frame(ip(usids(*ids), hlim=hlim), *srh_and_more, udp())


def test_un_shifts_and_routes(node: Switch) -> None:
    send_packet(node, 1, steered(1, 2, HOST))
    verify_packets(node, steered(2, HOST, hlim=63), [2])


def test_un_with_a_full_container(node: Switch) -> None:
    send_packet(node, 1, steered(1, 2, 3, 4, 5, HOST))
    verify_packets(node, steered(2, 3, 4, 5, HOST, hlim=63), [2])


def test_un_to_the_last_usid(node: Switch) -> None:
    send_packet(node, 1, steered(1, HOST))
    verify_packets(node, steered(HOST, hlim=63), [5])


def test_transit_of_a_foreign_usid_is_plain_routing(node: Switch) -> None:
    send_packet(node, 1, steered(2, 1, HOST))
    verify_packets(node, steered(2, 1, HOST, hlim=63), [2])


@pytest.mark.parametrize("port", [3, 4])
def test_ua_by_function_shifts_one_usid(node: Switch, port: int) -> None:
    send_packet(node, 1, steered(0xE000 + port, 2, HOST))
    verify_packets(node, steered(2, HOST, hlim=63), [port])


@pytest.mark.parametrize("port", [3, 4])
def test_ua_by_node_and_function_shifts_two_usids(node: Switch, port: int) -> None:
    send_packet(node, 1, steered(1, 0xE000 + port, 2, 3, 4, HOST))
    verify_packets(node, steered(2, 3, 4, HOST, hlim=63), [port])


def test_ua_needs_no_route(node: Switch) -> None:
    send_packet(node, 1, steered(0xE003, 0x77))
    verify_packets(node, steered(0x77, hlim=63), [3])


def test_the_whole_argument_decides_not_the_next_usid(node: Switch) -> None:
    node.route(usids(0, 2), 64, [6])
    send_packet(node, 1, steered(1, 0, 2))
    verify_packets(node, steered(0, 2, hlim=63), [6])


def test_the_last_bit_of_the_argument_counts(node: Switch) -> None:
    node.route(usids(0), 48, [6])
    packet = frame(ip("fcbb:bb00:1::1"), udp())
    send_packet(node, 1, packet)
    verify_packets(node, frame(ip("fcbb:bb00::1:0", hlim=63), udp()), [6])


@pytest.mark.parametrize("ids", [(1,), (0xE003,), (1, 0xE003)])
def test_an_exhausted_container_goes_to_the_controller(node: Switch, ids: tuple[int, ...]) -> None:
    packet = steered(*ids)
    send_packet(node, 6, packet)
    verify_packet_in(node, packet, 6, EXHAUSTED)
    verify_no_other_packets(node)


@pytest.mark.shared_p4
@pytest.mark.parametrize("hlim", [0, 1])
@pytest.mark.parametrize("ids", [(1, 2), (0xE003, 2), (1, 0xE003, 2)])
def test_an_exceeded_hop_limit_goes_to_the_controller_unshifted(node: Switch, ids: tuple[int, ...], hlim: int) -> None:
    packet = steered(*ids, hlim=hlim)
    send_packet(node, 2, packet)
    verify_packet_in(node, packet, 2, HOP_LIMIT)
    verify_no_other_packets(node)


@pytest.mark.parametrize("address", [usids(0x77), usids(0x77, 2), usids(1, 0x77), usids(0xE00F, 2), "fcbb:bb00::"])
def test_unknown_sids_fall_into_a_black_hole_and_are_counted(node: Switch, address: str) -> None:
    send_packet(node, 1, frame(ip(address), udp()))
    verify_no_other_packets(node, rounds=2)
    assert node.counter("reasons", UNKNOWN_SID)[0] == 1


def test_outside_the_block_nothing_is_shifted(node: Switch) -> None:
    node.route("fcbb:bb01::", 32, [6])
    send_packet(node, 1, frame(ip("fcbb:bb01:1:2:8005::"), udp()))
    verify_packets(node, frame(ip("fcbb:bb01:1:2:8005::", hlim=63), udp()), [6])


def test_own_usid_after_own_usid_is_looked_up_again(node: Switch) -> None:
    send_packet(node, 1, steered(1, 1, 2, HOST))
    verify_packet(node, steered(2, HOST, hlim=62), 2)
    verify_no_other_packets(node, rounds=2)
    assert node.counter("reasons", AGAIN)[0] == 1


def test_own_ua_after_own_un(node: Switch) -> None:
    send_packet(node, 1, steered(1, 1, 0xE004, 2))
    verify_packet(node, steered(2, hlim=62), 4)
    verify_no_other_packets(node, rounds=2)


def test_four_own_usids_in_a_row(node: Switch) -> None:
    send_packet(node, 1, steered(1, 1, 1, 1, 1, HOST))
    verify_packet(node, steered(HOST, hlim=59), 5)
    verify_no_other_packets(node, rounds=5)
    assert node.counter("reasons", AGAIN)[0] == 4
    assert node.counter("port_rx", 1)[0] == 1 + 5 * 6, "the packet and the barrier's, each once"


def test_the_hop_limit_ends_going_round(node: Switch) -> None:
    send_packet(node, 5, steered(1, 1, 1, 2, hlim=3))
    verify_packet_in(node, steered(1, 2, hlim=1), 5, HOP_LIMIT)
    verify_no_other_packets(node, rounds=3)


@pytest.mark.parametrize("hlim", [2, 3, 64])
@pytest.mark.parametrize("foreign", [0xE00F, 0xFFFF])
def test_a_foreign_usid_of_the_local_range_costs_no_second_hop(node: Switch, foreign: int, hlim: int) -> None:
    """It might be one of this switch, so it is looked up once more; it is none, so this switch is one hop."""
    node.route(usids(foreign), 48, [6])
    send_packet(node, 1, steered(1, foreign, HOST, hlim=hlim))
    verify_packet(node, steered(foreign, HOST, hlim=hlim - 1), 6)
    verify_no_other_packets(node, rounds=2)


def test_a_foreign_usid_behind_two_own_ones(node: Switch) -> None:
    node.route(usids(0xE00F), 48, [6])
    send_packet(node, 1, steered(1, 1, 0xE00F, hlim=3))
    verify_packet(node, steered(0xE00F, hlim=1), 6)
    verify_no_other_packets(node, rounds=3)


@pytest.mark.shared_p4
def test_going_round_has_a_bound(node: Switch) -> None:
    own = [usids(1)] * 8
    send_packet(node, 1, frame(ip(usids(1), nh=43), srh(own, 7), udp()))
    verify_no_other_packets(node, rounds=7)
    assert node.counter("reasons", AGAIN)[0] == 5
    assert node.counter("reasons", SID_LOOP)[0] == 1


@pytest.mark.parametrize(("segments", "left"), [(1, 1), (3, 1), (3, 2), (3, 3), (8, 5), (8, 8)])
def test_srh_advances_to_the_next_segment(node: Switch, segments: int, left: int) -> None:
    addresses = [f"2001:db8::{i}" for i in range(segments)]
    addresses[left - 1] = usids(2, HOST)
    send_packet(node, 1, steered(1, srh_and_more=(srh(addresses, left),)))
    verify_packets(node, steered(2, HOST, hlim=63, srh_and_more=(srh(addresses, left - 1),)), [2])


@pytest.mark.parametrize(("segments", "left"), [(9, 1), (9, 8), (40, 8), (127, 5)])
def test_a_long_srh_advances_while_eight_segments_are_left(node: Switch, segments: int, left: int) -> None:
    addresses = ["2001:db8::1"] * segments
    addresses[left - 1] = usids(2, HOST)
    send_packet(node, 1, steered(1, srh_and_more=(srh(addresses, left),)))
    verify_packets(node, steered(2, HOST, hlim=63, srh_and_more=(srh(addresses, left - 1),)), [2])


@pytest.mark.shared_p4
@pytest.mark.parametrize(("segments", "left"), [(9, 9), (10, 9), (127, 127)])
def test_more_than_eight_segments_left_are_for_the_controller(node: Switch, segments: int, left: int) -> None:
    packet = steered(1, srh_and_more=(srh([usids(2)] * segments, left),))
    send_packet(node, 1, packet)
    verify_packet_in(node, packet, 1, EXHAUSTED)
    verify_no_other_packets(node)


@pytest.mark.shared_p4
@pytest.mark.parametrize("segments", [9, 127])
def test_nothing_is_looked_for_behind_a_long_srh(node: Switch, segments: int) -> None:
    packet = steered(1, srh_and_more=(srh([usids(2)] * segments, 0), inner()))
    send_packet(node, 1, packet)
    verify_packet_in(node, packet, 1, EXHAUSTED)
    verify_no_other_packets(node)


@pytest.mark.parametrize("ids", [(0xE003,), (1, 0xE003)])
def test_srh_advances_at_ua_and_leaves_by_its_port(node: Switch, ids: tuple[int, ...]) -> None:
    addresses = ["2001:db8::9", "2001:db8::1"]
    send_packet(node, 1, steered(*ids, srh_and_more=(srh(addresses, 2),)))
    expected = frame(ip("2001:db8::1", hlim=63), srh(addresses, 1), udp())
    verify_packets(node, expected, [3])


def test_srh_stays_as_it_is_while_the_container_lasts(node: Switch) -> None:
    header = srh([usids(4), usids(3)], 2)
    send_packet(node, 1, steered(1, 2, srh_and_more=(header,)))
    verify_packets(node, steered(2, hlim=63, srh_and_more=(header,)), [2])


def test_srh_behind_the_delay_option(node: Switch) -> None:
    addresses = [usids(2, HOST)]
    send_packet(node, 1, steered(1, srh_and_more=(transit(7), srh(addresses, 1))))
    out = Ether(node.take(2))
    assert out["IPv6"].dst == usids(2, HOST)
    assert out["IPv6ExtHdrSegmentRouting"].segleft == 0
    verify_no_other_packets(node)


def test_srh_without_segments_left_is_exhausted(node: Switch) -> None:
    packet = steered(1, srh_and_more=(srh([usids(1)], 0),))
    send_packet(node, 1, packet)
    verify_packet_in(node, packet, 1, EXHAUSTED)
    verify_no_other_packets(node)


CONTRADICTIONS = [
    ("segleft", 3),
    ("segleft", 255),
    ("lastentry", 0),
    ("lastentry", 2),
    ("lastentry", 255),
    ("len", 3),
    ("len", 0),
]


def contradicting(field: str, value: int, ids: tuple[int, ...] = (1,), hlim: int = 64) -> Packet:
    """A packet whose SRH has one wrong field."""
    packet = steered(*ids, hlim=hlim, srh_and_more=(srh([usids(2), usids(2)], 2),))
    setattr(packet["IPv6ExtHdrSegmentRouting"], field, value)
    return packet


@pytest.mark.parametrize(("field", "value"), CONTRADICTIONS)
def test_an_srh_that_contradicts_itself_is_for_the_controller(node: Switch, field: str, value: int) -> None:
    packet = contradicting(field, value)
    send_packet(node, 1, packet)
    verify_packet_in(node, packet, 1, BAD_SRH)
    verify_no_other_packets(node)


@pytest.mark.parametrize(("field", "value"), [*CONTRADICTIONS, ("len", 17), ("len", 255)])
@pytest.mark.parametrize(("ids", "out"), [((2, 1), (2, 1)), ((1, 2), (2,))])
def test_an_srh_is_not_looked_into_on_the_way(
    node: Switch, ids: tuple[int, ...], out: tuple[int, ...], field: str, value: int
) -> None:
    """Neither by a switch that just routes, nor where the container lasts."""
    send_packet(node, 1, contradicting(field, value, ids))
    verify_packets(node, contradicting(field, value, out, hlim=63), [2])


@pytest.mark.parametrize("value", [5, 17, 255])
def test_an_srh_longer_than_the_packet_is_dropped(node: Switch, value: int) -> None:
    """Than the IPv6 packet, that is: what follows it is padding."""
    packet = contradicting("len", value)
    packet["IPv6"].plen = 40
    send_packet(node, 1, packet)
    verify_no_other_packets(node)
    assert node.counter("reasons", MALFORMED)[0] == 1


@pytest.mark.shared_p4
def test_the_hop_limit_comes_before_the_segment_list(node: Switch) -> None:
    packet = contradicting("segleft", 3, hlim=1)
    send_packet(node, 1, packet)
    verify_packet_in(node, packet, 1, HOP_LIMIT)
    verify_no_other_packets(node)


LAYERS = {
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


@pytest.mark.shared_p4
@pytest.mark.parametrize("name", LAYERS)
def test_usd_behind_options(node: Switch, name: str) -> None:
    node.route("fd00:5::", 32, [6])
    plain = ip(host(5), src=host(1), hlim=32) / udp()
    send_packet(node, 1, frame(ip(usids(1)), *LAYERS[name], plain))
    plain.hlim = 31
    verify_packets(node, frame(plain), [6])


@pytest.mark.shared_p4
@pytest.mark.parametrize("layers", [(options(72),), (options(), options()), (router_alert(), options())])
def test_options_that_are_too_long_or_too_many_are_for_the_controller(node: Switch, layers: tuple) -> None:
    packet = steered(1, srh_and_more=(*layers, srh([usids(2)], 1)))
    send_packet(node, 1, packet)
    verify_packet_in(node, packet, 1, EXHAUSTED)
    verify_no_other_packets(node)


@pytest.mark.parametrize("layers", [(options(72),), (options(), options()), (srh([usids(2)] * 12, 11),)])
def test_what_is_too_long_or_too_much_is_carried_on(node: Switch, layers: tuple) -> None:
    send_packet(node, 1, steered(1, 2, srh_and_more=layers))
    verify_packets(node, steered(2, hlim=63, srh_and_more=layers), [2])


@pytest.mark.shared_p4
@pytest.mark.parametrize("source", ["ff02::1", "::", "::1", "fe80::7"])
def test_an_inner_packet_from_nowhere_is_dropped(node: Switch, source: str) -> None:
    node.route("fd00:5::", 32, [6])
    send_packet(node, 1, frame(ip(usids(1)), ip(host(5), src=source), udp()))
    verify_no_other_packets(node)
    assert node.counter("reasons", SCOPE)[0] == 1


def test_an_inner_packet_longer_than_the_outer_one_is_dropped(node: Switch) -> None:
    node.route("fd00:5::", 32, [6])
    packet = frame(ip(usids(1)), inner())
    packet["IPv6"].payload.plen += 1
    send_packet(node, 1, packet)
    verify_no_other_packets(node)
    assert node.counter("reasons", MALFORMED)[0] == 1


def test_a_route_behind_a_tunnel_is_missed_once(node: Switch) -> None:
    plain = ip(host(5), src=host(1), hlim=32) / udp()
    send_packet(node, 1, frame(ip(usids(1)), plain))
    plain.hlim = 31
    verify_packet_in(node, frame(plain), 1, 3)
    verify_no_other_packets(node)


def inner(hlim: int = 32, dst: str | None = None) -> Packet:
    """A packet to be carried inside another one."""
    return ip(dst or host(5), src=host(1), hlim=hlim) / transit(3) / udp(sport=77)


def test_usd_takes_the_outer_header_off_and_routes_the_inner_packet(node: Switch) -> None:
    node.route("fd00:5::", 32, [6])
    send_packet(node, 1, frame(ip(usids(1)), inner()))
    out = Ether(node.take(6))
    assert out["IPv6"].dst == host(5)
    assert out["IPv6"].hlim == 31
    assert bytes(out["UDP"]) == bytes(inner()["UDP"])
    verify_no_other_packets(node)


@pytest.mark.shared_p4
@pytest.mark.parametrize("layers", [(transit(9),), (srh([usids(1), usids(9)], 0),)])
def test_usd_takes_extension_headers_off_too(node: Switch, layers: tuple) -> None:
    node.route("fd00:5::", 32, [6])
    plain = ip(host(5), src=host(1), hlim=32) / udp()
    send_packet(node, 1, frame(ip(usids(1)), *layers, plain))
    plain.hlim = 31
    verify_packets(node, frame(plain), [6])


@pytest.mark.shared_p4
def test_usd_at_ua_sends_the_inner_packet_over_the_port(node: Switch) -> None:
    plain = ip(host(5), src=host(1), hlim=32) / udp()
    send_packet(node, 1, frame(ip(usids(0xE004)), plain))
    plain.hlim = 31
    verify_packets(node, frame(plain), [4])


def test_usd_of_a_packet_for_this_node_goes_on_with_its_sids(node: Switch) -> None:
    plain = ip(usids(1, 2, HOST), src=host(1), hlim=32) / udp()
    send_packet(node, 1, frame(ip(usids(1)), plain))
    expected = ip(usids(2, HOST), src=host(1), hlim=30) / udp()
    verify_packet(node, frame(expected), 2)
    verify_no_other_packets(node, rounds=2)


def test_usd_of_an_inner_packet_at_its_last_hop(node: Switch) -> None:
    plain = ip(host(5), src=host(1), hlim=1) / udp()
    send_packet(node, 3, frame(ip(usids(1)), plain))
    verify_packet_in(node, frame(plain), 3, HOP_LIMIT)
    verify_no_other_packets(node)


def test_an_inner_packet_stays_inside_while_the_container_lasts(node: Switch) -> None:
    plain = ip(host(5), src=host(1), hlim=32) / udp()
    send_packet(node, 1, frame(ip(usids(1, 2)), plain))
    verify_packets(node, frame(ip(usids(2), hlim=63), plain), [2])
