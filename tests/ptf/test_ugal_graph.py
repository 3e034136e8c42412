# SPDX-License-Identifier: Apache-2.0
"""ugal_graph.p4: the first switch compares queues times links of a shortest path and of one over a random switch.

The switch is node 3 of six: node 1 is where packets go, two links away over port 1 or 2; nodes 2, 4 and 6 can be gone
by (ports 3, 4 and 5), node 5 cannot. Where loads matter the engine alone is tested, with loads written over P4Runtime.
"""

from __future__ import annotations

import pytest
from scapy.layers.inet import UDP
from scapy.layers.l2 import Ether
from scapy.packet import Packet

from tests.ptf.base_test import Switch, send_packet, verify_forwarded
from tests.ptf.packets import frame, ip, udp, usids
from tests.ptf.test_adaptive import decisions

HERE, DESTINATION, HOST, HOST_PORT = 3, 1, 0x8007, 6
DIRECT = [1, 2]
DIRECT_LINKS = 2
WAYS = {2: (3, 1, 2), 4: (4, 2, 2), 6: (5, 2, 5)}
"""node -> (port, links to it, links from it to the destination)"""
NODES = 6


def packet(*path: int, hlim: int = 64, sport: int = 77) -> Packet:
    return frame(ip(usids(*path), hlim=hlim), udp(sport=sport))


def straight(hlim: int = 64) -> Packet:
    return packet(DESTINATION, HOST, hlim=hlim)


def prepared(switch: Switch, t: int = 0, ways: dict[int, tuple[int, int, int]] | None = None, others: int = 4) -> None:
    """See the module; only `ways` lead on to the destination."""
    ways = WAYS if ways is None else ways
    switch.node(node_id=HERE, group=0, groups=1)
    switch.route(usids(DESTINATION), 48, DIRECT)
    both = [(("read_direct", {"port": port, "links": DIRECT_LINKS}), 1) for port in DIRECT]
    switch.insert("shortest_way", {"destination_node": DESTINATION}, one_shot=both)
    for node, (port, links, _) in WAYS.items():
        switch.route(usids(node), 48, [port])
        switch.insert("detour_way", {"meta.via": node}, one_shot=[(("read_around", {"port": port, "links": links}), 1)])
    one, two, four = (sum(1 << node - 1 for node, way in ways.items() if way[2] >> bit & 1) for bit in range(3))
    far = {"one": one, "two": two, "four": four, "switches": others, "t": t}
    switch.insert("distances", {"destination_node": DESTINATION}, action=("far", far))
    switch.insert("host_ports", {"meta.in_port": HOST_PORT}, action=("NoAction", {}))


def load(switch: Switch, *direct: int, around: int) -> None:
    """What waits at both ports of shortest paths, and at all others."""
    for port, value in zip((*DIRECT, 3, 4, 5), (*direct, around, around, around), strict=True):
        switch.client.modify(switch.schema.register("port_load", port, value))


def sent(switch: Switch, count: int, given: Packet | None = None, together: int = 1) -> dict[int, list[Packet]]:
    """Sends so many packets, some together; what left, by port."""
    for number in range(count):
        send_packet(switch, HOST_PORT, given or straight())
        if number % together == together - 1:
            switch.barrier()
    return {port: [Ether(each) for each in switch.waiting(port)] for port in (*DIRECT, 3, 4, 5)}


def taken(switch: Switch) -> dict[int, int]:
    """Packets by links of the way."""
    counts = {links: switch.counter("taken", links)[0] for links in range(16)}
    return {links: count for links, count in counts.items() if count}


def test_without_queues_packets_take_a_shortest_path(graph: Switch) -> None:
    prepared(graph)
    out = sent(graph, 40)
    left = {port: len(packets) for port, packets in out.items()}
    assert sum(left.values()) == left[1] + left[2] == 40
    # Every packet draws one of the two, although all are of one connection: 1 in 10^12 that one is never drawn.
    assert left[1] > 0 < left[2]
    assert all(bytes(each) == bytes(straight(hlim=63)) for packets in out.values() for each in packets)
    assert decisions(graph) == (40, 0)
    assert taken(graph) == {DIRECT_LINKS: 40}


def test_a_detour_is_one_usid_more_in_front(graph_engine: Switch) -> None:
    prepared(graph_engine)
    load(graph_engine, 100, 100, around=0)
    out = sent(graph_engine, 120)
    for node, (port, to, onward) in WAYS.items():
        assert {bytes(each) for each in out[port]} == {bytes(packet(node, DESTINATION, HOST, hlim=63))}
        assert taken(graph_engine)[to + onward] == len(out[port])
        # Three of four switches: 30 are expected of each; fewer than 8 or more than 60 would be one in a million.
        assert 8 <= len(out[port]) <= 60
    stayed = len(out[1]) + len(out[2])
    assert 8 <= stayed <= 60  # node 5 was drawn
    assert decisions(graph_engine) == (stayed, 120 - stayed)


@pytest.mark.parametrize(("node", "t", "direct"), [(2, 0, 15), (4, 0, 20), (6, 0, 35), (2, 3, 19), (6, 3, 45)])
def test_queues_times_links_are_compared(graph_engine: Switch, node: int, t: int, direct: int) -> None:
    """10 packets wait on the detour: `direct` on a shortest path of two links are as much, and one more is more."""
    way = WAYS[node]
    prepared(graph_engine, t, ways={node: way})
    assert direct * DIRECT_LINKS - (way[1] + way[2]) * (10 + t) in (0, -1)
    load(graph_engine, direct, direct, around=10)
    assert not sent(graph_engine, 60)[way[0]]
    load(graph_engine, direct + 1, direct + 1, around=10)
    # One of four is drawn: 1 in 3 * 10^7 that it is not in 60.
    assert sent(graph_engine, 60)[way[0]]


def test_the_queue_that_is_looked_at_is_the_one_that_is_joined(graph_engine: Switch) -> None:
    prepared(graph_engine)
    load(graph_engine, 100, 0, around=1)
    out = sent(graph_engine, 80)
    assert len(out[2]) > 20
    assert decisions(graph_engine)[1] == sum(len(out[port]) for port in (3, 4, 5)) > 5
    # Whoever drew the full port and a switch to go by has left it; node 5 alone sends packets there.
    assert len(out[1]) < 30


def test_switches_beyond_the_256th_have_links_of_their_own(graph_engine: Switch) -> None:
    """Of nodes 260 and 4, a distance of 256, only the first has links to the destination."""
    switches = 261
    graph_engine.node(node_id=HERE, group=0, groups=1)
    graph_engine.route(usids(DESTINATION), 48, DIRECT)
    both = [(("read_direct", {"port": port, "links": DIRECT_LINKS}), 1) for port in DIRECT]
    graph_engine.insert("shortest_way", {"destination_node": DESTINATION}, one_shot=both)
    for node, port in ((260, 3), (4, 4)):
        graph_engine.route(usids(node), 48, [port])
        way = [(("read_around", {"port": port, "links": 2}), 1)]
        graph_engine.insert("detour_way", {"meta.via": node}, one_shot=way)
    far = {"one": 0, "two": 1 << 259, "four": 0, "switches": switches - 2, "t": 0}
    graph_engine.insert("distances", {"destination_node": DESTINATION}, action=("far", far))
    graph_engine.insert("host_ports", {"meta.in_port": HOST_PORT}, action=("NoAction", {}))
    load(graph_engine, 100, 100, around=0)
    out = sent(graph_engine, 4000, together=100)
    # One of 259 is drawn: 1 in 5 * 10^6 that it is not in 4000.
    assert len(out[3]) > 0 == len(out[4])


@pytest.mark.parametrize(
    "given",
    [
        packet(DESTINATION, HOST, sport=5),
        packet(DESTINATION, 2, HOST),
        packet(DESTINATION, 0xE001),
        packet(DESTINATION, HOST, HOST + 1),
    ],
    ids=["from a switch", "a list of switches", "a function", "something behind the host"],
)
def test_who_names_more_than_the_end_is_obeyed(graph_engine: Switch, given: Packet) -> None:
    prepared(graph_engine)
    load(graph_engine, 100, 100, around=0)
    into = 3 if given[UDP].sport == 5 else HOST_PORT
    for _ in range(20):
        send_packet(graph_engine, into, given)
        graph_engine.barrier()
    assert sum(len(graph_engine.waiting(port)) for port in DIRECT) == 20
    assert decisions(graph_engine) == (0, 0)


def test_a_destination_without_distances_is_routed(graph: Switch) -> None:
    prepared(graph)
    verify_forwarded(graph, HOST_PORT, packet(4, HOST), packet(4, HOST, hlim=63), 4)
    assert decisions(graph) == (0, 0)


def test_ports_that_nothing_is_known_of_count_as_idle(graph_engine: Switch) -> None:
    """No way to the switch that is drawn, and no port of the shortest path: the packet goes straight."""
    switch = graph_engine
    switch.node(node_id=HERE, group=0, groups=1)
    switch.route(usids(DESTINATION), 48, DIRECT)
    far = {"one": 0b101010, "two": 0, "four": 0, "switches": 4, "t": 0}
    switch.insert("distances", {"destination_node": DESTINATION}, action=("far", far))
    switch.insert("host_ports", {"meta.in_port": HOST_PORT}, action=("NoAction", {}))
    load(switch, 9, 9, around=0)
    out = sent(switch, 20)
    assert len(out[1]) + len(out[2]) == 20
    assert decisions(switch) == (20, 0)
    assert taken(switch) == {0: 20}


def test_with_nobody_to_go_by_it_goes_straight(graph: Switch) -> None:
    prepared(graph, others=0)
    out = sent(graph, 3)
    assert len(out[1]) + len(out[2]) == 3
    assert decisions(graph) == (3, 0)


@pytest.mark.parametrize(("destination", "expected"), [(5, {1, 2, 4, 6}), (1, {2, 4, 5, 6}), (6, {1, 2, 4, 5})])
def test_all_switches_but_both_ends_are_ways_round(graph_engine: Switch, destination: int, expected: set[int]) -> None:
    switch = graph_engine
    switch.node(node_id=HERE, group=0, groups=1)
    for node in range(1, NODES + 1):
        switch.route(usids(node), 48, [3])
        switch.insert("detour_way", {"meta.via": node}, one_shot=[(("read_around", {"port": 3, "links": 1}), 1)])
    switch.insert(
        "shortest_way", {"destination_node": destination}, one_shot=[(("read_direct", {"port": 1, "links": 1}), 1)]
    )
    far = {"one": 0b111111, "two": 0, "four": 0, "switches": 4, "t": 0}
    switch.insert("distances", {"destination_node": destination}, action=("far", far))
    switch.insert("host_ports", {"meta.in_port": HOST_PORT}, action=("NoAction", {}))
    load(switch, 100, 100, around=0)
    out = sent(switch, 80, packet(destination, HOST))
    # 1 in 2.5e9 that one of four is never drawn.
    assert {int.from_bytes(bytes(each)[42:44]) for each in out[3]} == expected
    assert decisions(switch) == (0, 80)
