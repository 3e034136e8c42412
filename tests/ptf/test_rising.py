# SPDX-License-Identifier: Apache-2.0
"""A switch of an FC+ network with the planner's own entries: the lossless priority rises where a path comes down and
goes up again, by (in-port, out-port), and nowhere else; out of the last one into a class that is not lossless."""

from __future__ import annotations

import pytest
from scapy.packet import Packet

from detour.control.entries import CloneSession, DefaultAction, MeterConfig
from detour.control.p4runtime.codec import Codec
from detour.control.planner import plan
from detour.control.policy import Policy
from detour.topo.expander import fcplus
from tests.ptf.base_test import Switch, send_packet, verify_packet
from tests.ptf.packets import frame, ip, udp, usids

NETWORK = fcplus(8, 4, 3, hosts=2, seed=1)
TOPOLOGY = NETWORK.topology
HERE = TOPOLOGY.switches[3]
HOST_PORTS, LINKS = (1, 2), (3, 4, 5, 6)
TWO = Policy(valiant=False, channels=2)


def position(port: int) -> tuple[int, int]:
    """(leaves, enters) of the link behind a port, the way from here and the way to here: section III by hand. Up from
    layer a to b counts a to b; down counts from the top, so every hop leaves lower than it enters."""
    peer = HERE.peer(port)
    assert peer is not None
    row = next(i for i, ends in enumerate(NETWORK.links.tolist()) if set(ends) == {HERE.index, peer.index})
    mine, other = NETWORK.layer[row]
    if NETWORK.links[row][0] != HERE.index:
        mine, other = other, mine
    top = 2 * NETWORK.layers + 1
    return int(mine if mine < other else top - mine), int(mine if other < mine else top - mine)


def rises(into: int, out: int) -> bool:
    """Whether a packet that came in there has to go up again from further down."""
    return position(out)[0] < position(into)[1]


RISING = {(i, o) for i in LINKS for o in LINKS if rises(i, o)}


@pytest.fixture
def planned(switch: Switch) -> Switch:
    """The switch with everything that the planner has for it, but for what the harness sets itself."""
    codec = Codec(switch.schema.p4info)
    for entity in plan(TOPOLOGY, TWO)[HERE.device_id]:
        if isinstance(entity, DefaultAction):
            switch.client.modify(codec.encode(entity))
        elif not isinstance(entity, CloneSession | MeterConfig):
            switch.client.insert(codec.encode(entity))
    return switch


def packet(into: int, out: int, dscp: int, hops: int = 64, payload: bytes = b"data", arrived: bool = True) -> Packet:
    """On a uSID list that leads from one neighbour by way of this switch to another one and a host there; `arrived`:
    as it comes in, else as it goes out."""
    peer = HERE.peer(out)
    assert peer is not None
    if peer.kind == "host":
        rest = (TOPOLOGY.hosts[peer.index].node_id,)
    else:
        rest = (TOPOLOGY.switches[peer.index].node_id, TOPOLOGY.hosts_of[peer.index][0].node_id)
    head = (HERE.node_id,) if arrived else ()
    return frame(ip(usids(*head, *rest), tc=dscp << 2, hlim=hops), udp(payload=payload))


def test_the_network_has_both_kinds_of_pairs() -> None:
    assert 0 < len({(i, o) for i, o in RISING if i != o}) < 12
    assert 0 < len({i for i, o in RISING if i == o}) < 4


def test_the_priority_rises_at_the_pairs_of_section_iii(planned: Switch) -> None:
    for into in LINKS:
        for out in LINKS:
            for dscp in (0, 1, 2, 48):
                after = dscp + 1 if dscp < 2 and (into, out) in RISING else dscp
                send_packet(planned, into, packet(into, out, dscp))
                verify_packet(planned, packet(into, out, after, hops=63, arrived=False), out)


def test_what_hosts_send_or_get_never_rises(planned: Switch) -> None:
    for dscp in (0, 1):
        for host_port in HOST_PORTS:
            for link in LINKS:
                send_packet(planned, host_port, packet(host_port, link, dscp))
                verify_packet(planned, packet(host_port, link, dscp, hops=63, arrived=False), link)


def test_a_packet_that_rises_waits_in_the_queue_of_its_new_priority(planned: Switch) -> None:
    """It overtakes what waits at the same port in the priority that it came in."""
    into, out = min((i, o) for i, o in RISING if i != o)
    straight = next(i for i in (*LINKS, *HOST_PORTS) if i != out and (i, out) not in RISING)
    planned.platform.slow_down(out, 50)
    for number in range(8):
        send_packet(planned, straight, packet(straight, out, 0, payload=bytes([number] * 30)))
    send_packet(planned, into, packet(into, out, 0, payload=bytes([99] * 30)))
    order = [planned.take(out)[-1] for _ in range(9)]
    planned.platform.slow_down(out, 1_000_000)
    assert order.index(99) < 5, order
    assert [n for n in order if n != 99] == list(range(8))
