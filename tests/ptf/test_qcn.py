# SPDX-License-Identifier: Apache-2.0
"""qcn.p4: victims make messages, switches take them and go round, and come back when it is quiet.

On both backends congestion points sample output queues, which every v1model target has. What needs the engine (the
bytes of an input buffer, a paused port) is tested there, with registers written over P4Runtime.
"""

from __future__ import annotations

import ipaddress
import struct
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
from scapy.layers.l2 import Ether
from scapy.packet import Packet

from detour.base.dataplane import RECIRCULATION_PORT
from detour.control.entries import Action
from detour.control.qcn import QCN_BASE, QCN_FOGSIM, QCN_SOURCE, CongestionPoints, Mechanism, QueueRule
from tests.ptf.base_test import (
    Switch,
    send_packet,
    verify_forwarded,
    verify_no_other_packets,
    verify_packet,
    verify_punted,
)
from tests.ptf.conftest import BACKENDS, switch_with
from tests.ptf.p4rt import clone_session
from tests.ptf.packets import frame, host, ip, udp, usids
from tests.waiting import until

DIRECT, LOCAL, HOSTS = 1, 2, 6
PORTS = {1: 3, 2: 4, 3: 5, 4: 3}
"""intermediate group -> port"""
NODE, GROUPS = 7, 6
RATE = 50
NOTIFICATION = 4794
PDU_AT = 62
MIN, VAL, TURNED = 0, 1, 2
HOP_LIMIT = 6
AHEAD = 1 << 11
"""of the flow label's upper 12 bits: a detour lies ahead; the rest is the intermediate group or switch"""
AT_ONCE = replace(QCN_BASE, limit=1 / 63, increase=1.0, quiet=5)
"""Fb = 63 takes the probability to 0, five packets bring it back to 1"""
POINTS = CongestionPoints("output", period=1, q_eq=100, w=0, wait_ticks=0, packet_bytes=100)
"""two packets in the queue are Fb = 63"""


@pytest.fixture(params=BACKENDS)
def qcn(request: pytest.FixtureRequest) -> Iterator[Switch]:
    """Switch 0 of group 0 of 6: its hosts at port 6, switch 1 at port 2, group 5 at port 1, the others at PORTS."""
    for switch in switch_with(request.param, "qcn"):
        yield prepared(switch)


@pytest.fixture
def engine() -> Iterator[Switch]:
    """The same on the engine only."""
    for switch in switch_with("engine", "qcn"):
        yield prepared(switch)


def prepared(switch: Switch) -> Switch:
    switch.node(node_id=NODE, group=0, groups=GROUPS)
    switch.route("fd00:0:0::", 48, [HOSTS])
    switch.route("fd00:0:1::", 48, [LOCAL])
    switch.route("fd00:5::", 32, [DIRECT])
    switch.insert("dscp", {"hdr.ipv6.dscp": 48}, action=("set_priority", {"priority": 7}))
    switch.insert("conditional.host_ports", {"meta.in_port": HOSTS}, action=("NoAction", {}))
    switch.insert("reaction.host_ports", {"std.egress_spec": HOSTS}, action=("NoAction", {}))
    switch.insert("minimal_rule", {"destination_group": 5}, action=("minimal", {"port": DIRECT, "own": 1, "link": 0}))
    for via, port in PORTS.items():
        way(switch, via, port)
    switch.client.insert(clone_session(2, (RECIRCULATION_PORT, 1)))
    return switch


def way(switch: Switch, via: int, port: int, own: int = 0) -> None:
    """An intermediate group or switch, and the port that leads there, perhaps a link of the switch's own."""
    switch.insert("towards_group", {"meta.via": via}, action=("towards", {"port": port}))
    switch.insert("first_way", {"meta.via": via}, action=("read_first", {"port": port, "own": own}))
    switch.insert("second_way", {"via": via}, action=("read_second", {"port": port}))


def call(action: Action) -> tuple[str, dict[str, int]]:
    """An action of the planner's as the test's client wants it."""
    return action.name, dict(action.params)


def react(switch: Switch, mechanism: Mechanism, ports: int = 4) -> None:
    """Gives the switch a condition and a mechanism."""
    switch.set_default("condition", call(mechanism.rule()))
    switch.set_default("mechanism", call(mechanism.adapt(ports)))


def data(src: tuple[int, int], dst: int = 5, hlim: int = 64, **fields: int) -> Packet:
    """A packet of a host of a switch."""
    return frame(ip(host(dst), src=host(*src), hlim=hlim, **fields), udp(payload=bytes(range(200))))


def message(to: tuple[int, int], feedback: int = 63, priority: int = 0, hlim: int = 64, group: int = 0) -> Packet:
    """A message from a switch elsewhere, as 802.1Qau lays it out, behind UDP."""
    pdu = struct.pack("!HHHHHhhH6sH", feedback, 99, 2, 1, group, 100, -7, priority << 13, bytes(6), 0)
    header = ip(host(*to), src="fcbb:bb00:63::", hlim=hlim, tc=48 << 2)
    return frame(header, udp(NOTIFICATION, NOTIFICATION, pdu))


def decided(switch: Switch, packets: int = 12) -> tuple[int, int]:
    """How many of so many packets for group 5 from a host of this switch went straight and round."""
    before = [switch.counter("decisions", way)[0] for way in (MIN, VAL)]
    for _ in range(packets):
        send_packet(switch, HOSTS, data((0, 0)))
    switch.barrier()
    after = [switch.counter("decisions", way)[0] for way in (MIN, VAL)]
    for port in (DIRECT, *set(PORTS.values())):
        while switch.waiting(port):
            switch.take(port)
    return after[MIN] - before[MIN], after[VAL] - before[VAL]


def one_by_one(switch: Switch, packets: int) -> tuple[int, list[Packet]]:
    """How many of so many packets go straight, and the others. Each leaves before the next one comes, if it goes round:
    they do not wait for one another."""
    before = straight = switch.counter("decisions", MIN)[0]
    done = before + switch.counter("decisions", VAL)[0]
    others = []
    for number in range(done + 1, done + packets + 1):
        send_packet(switch, HOSTS, data((0, 0)))
        while switch.counter("decisions", MIN)[0] + switch.counter("decisions", VAL)[0] < number:
            pass
        if (straight_now := switch.counter("decisions", MIN)[0]) == straight:
            others.append(Ether(switch.take_any((3, 4, 5))))
        straight = straight_now
    return straight - before, others


def congest(switch: Switch, source: tuple[int, int], port: int, points: CongestionPoints = POINTS) -> None:
    """Lets a few packets meet each other in the queue of the direct link, which is a congestion point."""
    switch.insert("output_points", {"std.egress_port": DIRECT}, action=call(points.action()))
    switch.platform.slow_down(DIRECT, RATE)
    for _ in range(8):
        send_packet(switch, port, data(source))
    for _ in range(8):
        verify_packet(switch, data(source, hlim=63), DIRECT)
    switch.platform.slow_down(DIRECT, 1_000_000)


def is_taken(qcn: Switch, port: int, packet: Packet) -> None:
    """A message comes in by a port and goes no further."""
    send_packet(qcn, port, packet)
    verify_no_other_packets(qcn)


def test_a_victim_makes_a_message_to_its_source(qcn: Switch) -> None:
    congest(qcn, (0, 1), LOCAL)
    made = qcn.take(LOCAL)
    assert len(made) == 86
    assert int.from_bytes(made[14:18], "big") == 6 << 28 | 48 << 22
    payload_length, following, hop_limit = struct.unpack_from("!HBB", made, 18)
    assert (payload_length, following, hop_limit) == (32, 17, 63)
    assert made[22:38] == ipaddress.IPv6Address(f"fcbb:bb00:{NODE:x}::").packed
    assert made[38:54] == ipaddress.IPv6Address(host(0, 1)).packed
    assert struct.unpack_from("!HHHH", made, 54) == (NOTIFICATION, NOTIFICATION, 32, 0)
    feedback, node, came_in, went_out, group, offset, _, priority = struct.unpack_from("!HHHHHhhH", made, PDU_AT)
    assert 1 <= feedback <= 63
    assert (node, came_in, went_out, group, priority) == (NODE, LOCAL, DIRECT, 5, 0)
    assert offset >= 0
    rest = [made, *(qcn.take(LOCAL) for _ in qcn.waiting(LOCAL))]
    assert len(rest) <= 7, "one a packet at most, and none for the first"


def test_an_idle_queue_makes_none(qcn: Switch) -> None:
    qcn.insert("output_points", {"std.egress_port": DIRECT}, action=call(POINTS.action()))
    for _ in range(3):
        verify_forwarded(qcn, LOCAL, data((0, 1)), data((0, 1), hlim=63), DIRECT)


def test_a_message_sends_packets_round_and_silence_brings_them_back(qcn: Switch) -> None:
    react(qcn, AT_ONCE)
    assert decided(qcn) == (12, 0)
    is_taken(qcn, DIRECT, message((0, 0)))
    assert decided(qcn) == (0, 12)
    for _ in range(5):  # from another switch: nothing is decided here, but the port sends
        verify_forwarded(qcn, LOCAL, data((0, 1)), data((0, 1), hlim=63), DIRECT)
    assert decided(qcn) == (12, 0)


def test_a_weak_message_moves_little(qcn: Switch) -> None:
    """R = 1 - Fb * L_f = 62/63: that all of 12 packets go round is out of the question."""
    react(qcn, replace(AT_ONCE, quiet=1000))
    is_taken(qcn, DIRECT, message((0, 0), feedback=1))
    assert decided(qcn)[MIN] > 0


UNMOVED = {
    # mechanism, ports that are compared, condition if another, ports and priorities of messages
    "of another port": (AT_ONCE, 4, "", [(PORTS[1], 0)]),
    "of a class that does not count": (replace(AT_ONCE, classes=0b001), 4, "", [(DIRECT, 1)]),
    # Fb is not above the mean of two ports that have heard the same: the probability stays 1.
    "of a port that suffers as much": (replace(AT_ONCE, versus=1), 2, "", [(PORTS[1], 0), (DIRECT, 0)]),
    "a condition that always holds": (replace(AT_ONCE, quiet=10_000), 4, "always", [(DIRECT, 0)]),
}


@pytest.mark.parametrize("name", UNMOVED)
def test_messages_that_move_nothing(qcn: Switch, name: str) -> None:
    mechanism, ports, condition, messages = UNMOVED[name]
    react(qcn, mechanism, ports)
    if condition:
        qcn.set_default("condition", (condition, {}))
    for port, priority in messages:
        is_taken(qcn, port, message((0, 0), priority=priority))
    assert decided(qcn) == (12, 0)


def test_messages_for_others_pass(qcn: Switch) -> None:
    react(qcn, AT_ONCE)
    verify_forwarded(qcn, DIRECT, message((0, 1)), message((0, 1), hlim=63), LOCAL)
    assert decided(qcn) == (12, 0)


@pytest.mark.parametrize("mechanism", [QCN_BASE, QCN_SOURCE, QCN_FOGSIM], ids=["base", "source", "alone"])
def test_source_processing(qcn: Switch, mechanism: Mechanism) -> None:
    """The switch whose own queue is full: only with source processing does it hear of it. No host gets a message."""
    react(qcn, replace(AT_ONCE, source=mechanism.source, quiet=1000))
    congest(qcn, (0, 1), LOCAL)
    qcn.barrier(rounds=2)
    while qcn.waiting(LOCAL):
        qcn.take(LOCAL)
    straight, _ = decided(qcn)
    assert (straight < 12) == bool(mechanism.source)
    assert not qcn.waiting(HOSTS)


def test_an_input_buffer_as_congestion_point(engine: Switch) -> None:
    points = replace(POINTS, where="input", q_eq=4000, w=0)
    engine.insert("input_points", {"meta.in_port": LOCAL}, action=call(points.action()))
    engine.client.modify(engine.schema.register("buffered", LOCAL, 4000 + 2000))
    send_packet(engine, LOCAL, data((0, 1)))
    verify_packet(engine, data((0, 1), hlim=63), DIRECT)
    made = engine.take(LOCAL)
    assert struct.unpack_from("!H", made, PDU_AT) == (2000 * 63 // 4000,)
    verify_no_other_packets(engine)


def test_a_detour_behind_a_tunnel_costs_one_hop(engine: Switch) -> None:
    """Decapsulation has counted this switch in the inner hop limit already."""
    engine.set_default("condition", ("unless_paused", {}))
    engine.client.modify(engine.schema.register("paused", DIRECT, 0b001))
    engine.local_sid(usids(NODE), 48, "un")
    send_packet(engine, HOSTS, frame(ip(usids(NODE)), data((0, 0), hlim=2)["IPv6"]))
    engine.barrier()
    (out,) = (Ether(engine.take(port)) for port in set(PORTS.values()) if engine.waiting(port))
    assert (out["IPv6"].dst, out["IPv6"].hlim) == (host(5), 1)
    verify_no_other_packets(engine)


def test_an_exceeded_hop_limit_goes_to_the_controller_as_it_came(qcn: Switch) -> None:
    qcn.set_default("condition", ("never", {}))
    verify_punted(qcn, HOSTS, data((0, 0), hlim=1), HOP_LIMIT)
    verify_punted(qcn, HOSTS, data((0, 0), dst=0, hlim=1), HOP_LIMIT)


def test_a_paused_port_is_avoided(engine: Switch) -> None:
    engine.set_default("condition", ("unless_paused", {}))
    assert decided(engine) == (12, 0)
    engine.client.modify(engine.schema.register("paused", DIRECT, 0b001))
    assert decided(engine) == (0, 12)
    engine.client.modify(engine.schema.register("paused", DIRECT, 0b110))
    assert decided(engine) == (12, 0)


def test_all_groups_but_source_and_destination_are_ways_round(qcn: Switch) -> None:
    """To group 2 by way of groups 1, 3, 4 and 5: the draw leaves a gap in the middle."""
    qcn.route("fd00:2::", 32, [DIRECT])
    qcn.insert("minimal_rule", {"destination_group": 2}, action=("minimal", {"port": DIRECT, "own": 1, "link": 0}))
    way(qcn, 5, LOCAL)
    react(qcn, replace(AT_ONCE, quiet=10_000))
    is_taken(qcn, DIRECT, message((0, 0)))
    for _ in range(80):
        send_packet(qcn, HOSTS, data((0, 0), dst=2))
        qcn.barrier()
    ways = [Ether(each)["IPv6"].fl >> 8 for port in {*PORTS.values(), LOCAL} for each in qcn.waiting(port)]
    assert len(ways) == 80
    # 1 in 2.5e9 that one of four is never drawn.
    assert set(ways) == {AHEAD | via for via in (1, 3, 4, 5)}


def test_a_group_without_a_minimal_rule_has_no_condition(qcn: Switch) -> None:
    qcn.route("fd00:4::", 32, [DIRECT])
    react(qcn, replace(AT_ONCE, quiet=10_000))
    is_taken(qcn, DIRECT, message((0, 0)))
    for _ in range(4):
        verify_forwarded(qcn, HOSTS, data((0, 0), dst=4), data((0, 0), dst=4, hlim=63), DIRECT)


def test_between_samples_nobody_is_a_victim(qcn: Switch) -> None:
    """Of eight packets in a queue that is full none is the thousandth."""
    congest(qcn, (0, 1), LOCAL, replace(POINTS, period=1000))
    verify_no_other_packets(qcn, rounds=2)


# -- by queues, and other ways round --------------------------------------------------------------------------


def sent(switch: Switch, ports: tuple[int, ...]) -> list[Packet]:
    """What waits at ports."""
    return [Ether(each) for port in ports for each in switch.waiting(port)]


@pytest.mark.parametrize("choices", [False, True])
def test_a_queue_sends_packets_round_until_it_is_empty(qcn: Switch, choices: bool) -> None:
    """One packet has left, at most three wait, and the others find the other ports empty."""
    judgement = QueueRule(t=2, choices=choices)
    qcn.set_default("condition", call(judgement.action()))
    qcn.platform.slow_down(DIRECT, 1)
    began = time.monotonic()
    for count in range(1, 13):  # each is decided before the next one comes
        send_packet(qcn, HOSTS, data((0, 0)))
        until(lambda count=count: sum(qcn.counter("decisions", way)[0] for way in (MIN, VAL)) == count)
    straight, left = qcn.counter("decisions", MIN)[0], 1 + (time.monotonic() - began)
    assert 3 <= straight <= 4 + left, "one leaves each second"
    assert qcn.counter("decisions", VAL)[0] == 12 - straight
    qcn.platform.slow_down(DIRECT, 1_000_000)
    qcn.barrier()
    assert all(each["IPv6"].fl >> 19 == 1 for each in sent(qcn, (3, 4, 5)))
    for _ in range(straight):
        verify_packet(qcn, data((0, 0), hlim=63), DIRECT)
    assert decided(qcn, 2) == (2, 0)


def links_out(switch: Switch, remote: int) -> None:
    """Ports 1 to 5 are taken for links to other groups."""
    for control in ("arriving", "leaving"):
        values = {"first_port": 1, "last_port": 5, "remote": remote}
        switch.set_default(f"{control}.links.links_out", (f"{control}.links.links", values))


def test_other_links_count_as_much_as_the_mean_says(qcn: Switch) -> None:
    """Of two links to other groups. Eight packets at port 2, by which no way round leads, are worth as many at port 1;
    one or two of them may have left on a busy machine."""
    judgement = QueueRule(t=0, mean=4, own_mean=4)
    links_out(qcn, remote=0)
    qcn.set_default("condition", call(judgement.action(2)))
    qcn.route("fd00:3::", 32, [LOCAL])
    for port in (DIRECT, LOCAL):
        qcn.platform.slow_down(port, 1)
    for _ in range(9):
        send_packet(qcn, HOSTS, data((0, 0), dst=3))
    while qcn.counter("decisions", MIN)[0] < 9:
        pass
    straight, _ = one_by_one(qcn, 24)
    assert 8 <= straight <= 12, "one to four if other links did not count, 24 if its own queue did not"


def test_the_switch_with_the_link_decides_once_more(qcn: Switch) -> None:
    """Packets of another switch are turned into the next virtual channel, once, and their first switch hears of it."""
    qcn.set_default("condition", call(QueueRule(t=2, transit=True, gap=1, smooth=0).action()))
    qcn.platform.slow_down(DIRECT, 1)
    began = time.monotonic()
    for _ in range(12):  # those that are turned have left before the next one comes
        send_packet(qcn, LOCAL, data((0, 1)))
        qcn.barrier(ports=(LOCAL, 3, 4, 5))
    turned, left = qcn.counter("decisions", TURNED)[0], 1 + (time.monotonic() - began)
    assert 8 - left <= turned <= 9, "one leaves each second"
    assert turned >= 3
    qcn.platform.slow_down(DIRECT, 1_000_000)
    qcn.barrier(rounds=2)
    assert (qcn.counter("decisions", MIN)[0], qcn.counter("decisions", VAL)[0]) == (0, 0)
    packets = sent(qcn, (3, 4, 5))
    assert len(packets) == turned
    assert {each["IPv6"].tc >> 2 for each in packets} == {1}
    told = sent(qcn, (LOCAL,))
    assert 1 <= len(told) <= turned
    feedback, _, came_in, went_out, group = struct.unpack_from("!HHHHH", bytes(told[0]), PDU_AT)
    assert (feedback, came_in, group) == (63, LOCAL, 5)
    assert went_out in PORTS.values()
    # One that was turned elsewhere, and one of the next channel, are not turned again.
    before = qcn.counter("decisions", TURNED)[0]
    send_packet(qcn, LOCAL, data((0, 1), fl=(AHEAD | 1) << 8))
    send_packet(qcn, LOCAL, data((0, 1), tc=1 << 2))
    qcn.barrier()
    assert qcn.counter("decisions", TURNED)[0] == before


def test_what_was_told_of_a_group_fades(qcn: Switch) -> None:
    qcn.set_default("condition", call(QueueRule(t=1000, fade=30).action()))
    qcn.set_default("mechanism", ("avoid", {"fade": 30}))
    is_taken(qcn, DIRECT, message((0, 0), group=0))
    is_taken(qcn, DIRECT, message((0, 0), group=GROUPS))
    assert decided(qcn) == (12, 0)
    for _ in range(3):  # each leaves a sixty-fourth
        is_taken(qcn, DIRECT, message((0, 0), group=5))
    assert decided(qcn) == (0, 12)
    qcn.set_default("condition", call(QueueRule(t=1000, fade=10).action()))
    until(lambda: decided(qcn) == (12, 0))
    qcn.set_default("condition", call(QueueRule(t=1000, fade=30).action()))
    assert decided(qcn) == (12, 0), "it is forgotten"


def test_a_way_round_that_is_avoided_as_much_is_no_better(qcn: Switch) -> None:
    qcn.set_default("condition", call(QueueRule(t=1000, fade=30).action()))
    qcn.set_default("mechanism", ("avoid", {"fade": 30}))
    for group in (1, 2, 3, 4, 5):
        is_taken(qcn, DIRECT, message((0, 0), group=group))
    assert decided(qcn) == (12, 0)


def test_by_way_of_any_switch(qcn: Switch) -> None:
    """Node ids 1 to 6; the intermediate switch clears the label and raises the channel."""
    qcn.set_default("condition", ("never", {}))
    qcn.set_default("ways_round", ("any_switch", {"switches": 6}))
    qcn.set_default("towards_group", ("arrive_and_rise", {}))
    way(qcn, 5, LOCAL)
    way(qcn, 6, LOCAL)
    arriving = data((0, 1), fl=(AHEAD | NODE) << 8)
    verify_forwarded(qcn, LOCAL, arriving, data((0, 1), hlim=63, tc=1 << 2), DIRECT)
    for _ in range(80):
        send_packet(qcn, HOSTS, data((0, 0)))
        qcn.barrier()
    ways = [each["IPv6"].fl >> 8 for each in sent(qcn, (*{*PORTS.values(), LOCAL},))]
    assert len(ways) == 80
    assert set(ways) == {AHEAD | via for via in range(1, 7)}


def test_the_way_round_of_a_host(qcn: Switch) -> None:
    qcn.set_default("condition", ("never", {}))
    fixed = qcn.schema.entry("conditional.host_ports", {"meta.in_port": HOSTS}, action=("fixed_way", {"via": 3}))
    qcn.client.modify(fixed)
    for _ in range(4):
        verify_forwarded(qcn, HOSTS, data((0, 0)), data((0, 0), hlim=63, fl=(AHEAD | 3) << 8), PORTS[3])


def test_the_better_of_two_ways_round_is_taken(qcn: Switch) -> None:
    """All groups but 4 are avoided, and count as longer than any queue."""
    qcn.set_default("mechanism", ("avoid", {"fade": 30}))
    for group in (1, 2, 3):
        is_taken(qcn, DIRECT, message((0, 0), group=group))
    qcn.set_default("condition", call(QueueRule(t=2, choices=True, fade=30, shy=18).action()))
    qcn.platform.slow_down(DIRECT, RATE)
    for _ in range(12):
        for _ in range(12):
            send_packet(qcn, HOSTS, data((0, 0)))
        qcn.barrier()
    ways = [each["IPv6"].fl >> 8 for each in sent(qcn, (3, 4, 5))]
    assert set(ways) == {AHEAD | 4}
    # Drawn once it were a quarter of some 108 that find a queue; of two draws one is group 4 in 7 of 16.
    assert len(ways) > 27


def test_what_was_told_long_ago_is_forgotten(qcn: Switch) -> None:
    """With fade 1 that is two ticks: each message begins anew, and no way round counts as avoided."""
    qcn.set_default("mechanism", ("avoid", {"fade": 1}))
    qcn.set_default("condition", call(QueueRule(t=1000, choices=True, fade=0, shy=0).action()))
    for group in (1, 2, 3, 5, 5):
        is_taken(qcn, DIRECT, message((0, 0), group=group))
    assert decided(qcn) == (12, 0)


def test_a_way_round_without_an_entry_has_no_queue(qcn: Switch) -> None:
    """To group 2 one of the ways is group 5, of which this switch knows nothing."""
    qcn.route("fd00:2::", 32, [DIRECT])
    qcn.insert("minimal_rule", {"destination_group": 2}, action=("minimal", {"port": DIRECT, "own": 1, "link": 0}))
    qcn.set_default("condition", call(QueueRule(t=1000, choices=True).action()))
    for _ in range(40):
        send_packet(qcn, HOSTS, data((0, 0), dst=2))
    qcn.barrier()
    assert (qcn.counter("decisions", MIN)[0], qcn.counter("decisions", VAL)[0]) == (40, 0)


def test_packets_tell_which_links_of_the_next_switch_are_congested(qcn: Switch) -> None:
    """Piggyback: link 1 of the switch behind port 2 leads to group 5."""
    qcn.set_default("condition", call(QueueRule(t=1000, remote=1).action()))
    rule = qcn.schema.entry("minimal_rule", {"destination_group": 5}, ("minimal", {"port": LOCAL, "own": 0, "link": 1}))
    qcn.client.modify(rule)
    for label, straight in ((0b00, 12), (0b10, 0), (0b01, 12)):
        told = data((0, 1), dst=0, fl=label)
        verify_forwarded(qcn, LOCAL, told, data((0, 1), dst=0, hlim=63, fl=label), HOSTS)
        assert decided(qcn) == (straight, 12 - straight)


def test_congestion_of_own_links_is_judged_and_told(qcn: Switch) -> None:
    """More than twice the mean over five links, and a packet: from the third that waits on. Link 0 is at port 1."""
    links_out(qcn, remote=1)
    qcn.set_default("condition", call(QueueRule(t=1000, remote=1).action()))
    qcn.platform.slow_down(DIRECT, 2)
    straight, others = one_by_one(qcn, 8)
    assert 2 <= straight <= 6
    # In BMv2's egress thread the queue may just have become shorter when the label is written.
    assert {each["IPv6"].fl & 0xFF for each in others} - {0} == {1}
    qcn.platform.slow_down(DIRECT, 1_000_000)
    for _ in range(straight):
        qcn.take(DIRECT)
    assert decided(qcn, 2) == (2, 0), "what has left is not congested any more"


def test_where_a_way_round_leaves_the_group_the_shorter_link_is_taken(qcn: Switch) -> None:
    """Links of this switch lead to groups 4, 5, 0 (none: its own) and 1; 5 is the destination. By way of group 1, whose
    link at port 3 is slow, or of group 4, at port 2 here."""
    way_of = {"meta.via": 1}
    qcn.client.modify(qcn.schema.entry("first_way", way_of, ("read_first", {"port": PORTS[1], "own": 1})))
    for table, key, action in (("second_way", "via", "read_second"), ("towards_group", "meta.via", "towards")):
        qcn.client.modify(qcn.schema.entry(table, {key: 4}, (action, {"port": LOCAL})))
    qcn.set_default("ways_round", ("own_links", {"first_group": 4, "count": 4, "at_first": 0}))
    qcn.set_default("condition", call(QueueRule(t=1000).action()))
    other = data((0, 1), hlim=63, fl=(AHEAD | 3) << 8)  # does not leave the group here
    verify_forwarded(qcn, LOCAL, data((0, 1), fl=(AHEAD | 3) << 8), other, PORTS[3])
    qcn.platform.slow_down(PORTS[1], RATE)
    for _ in range(40):
        send_packet(qcn, LOCAL, data((0, 1), fl=(AHEAD | 1) << 8))
    qcn.barrier()
    changed = [each["IPv6"].fl >> 8 for each in sent(qcn, (LOCAL,))]
    assert set(changed) == {AHEAD | 4}
    assert len(changed) < 40


def test_what_comes_from_another_group_avoids_a_long_local_link(qcn: Switch) -> None:
    """To switch 1 at port 2, or by way of its neighbours at ports 3 (slow as well), 4 and 5."""
    for slow in (LOCAL, 3):
        qcn.platform.slow_down(slow, RATE)
    beside = {"first": 3, "second": 4, "third": 5, "t": 2}
    qcn.insert("neighbours", {"meta.in_port": DIRECT, "std.egress_spec": LOCAL}, action=("by_neighbour", beside))
    packet = frame(ip(host(0, 1), src=host(5, 0)), udp())
    for _ in range(16):
        send_packet(qcn, DIRECT, packet)
    qcn.barrier()
    others = sent(qcn, (4, 5))
    # Three go straight on and one by port 3, others only while at most a quarter waits at ports 4 and 5: there two each
    # if none leaves, all if each leaves at once.
    assert 4 <= len(others) <= 12
    assert {each["IPv6"].hlim for each in others} == {63}


def test_ways_round_that_begin_at_own_links(qcn: Switch) -> None:
    """Groups 5, 0 and 1, of which 5 is the destination and 0 the switch's own: only 1 is a way round."""
    qcn.set_default("condition", ("never", {}))
    qcn.set_default("ways_round", ("own_links", {"first_group": 5, "count": 3, "at_first": 1}))
    for _ in range(60):
        send_packet(qcn, HOSTS, data((0, 0)))
        qcn.barrier()
    ways = [each["IPv6"].fl >> 8 for each in sent(qcn, (PORTS[1],))]
    assert set(ways) == {AHEAD | 1}
    assert qcn.counter("decisions", MIN)[0] == 60 - len(ways)
    # 20 of 60 on average; 1 in 1e6 that it is more than 38.
    assert len(ways) < 39
