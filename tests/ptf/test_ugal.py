# SPDX-License-Identifier: Apache-2.0
"""ugal.p4: the first switch compares the queue of the shortest path with twice that of one random detour.

Where loads matter the engine alone is tested, with loads written over P4Runtime.
"""

from __future__ import annotations

import pytest
from scapy.layers.l2 import Ether

from tests.ptf.base_test import Switch, send_packet, verify_packets
from tests.ptf.test_adaptive import ALL, DESTINATION, DIRECT, HOST_PORT, PORTS, decisions, group, packet

LOCAL, GLOBAL = "ugal_local", "ugal_global"


def prepared(switch: Switch, rule: str, t: int = 0, usable: int = ALL) -> Switch:
    """As for adaptive.p4, and what the rule of local queues looks at."""
    group(switch, mode=(rule, {"usable": usable, "t": t}))
    ways = {DESTINATION: DIRECT, **PORTS}
    for number, port in ways.items():
        key = {"destination_group": number}
        switch.insert("shortest_load", key, action=("read_direct", {"port": port}))
        switch.insert("detour_load", {"meta.via": number}, action=("read_around", {"port": port}))
    return switch


def load(switch: Switch, rule: str, direct: int, around: int) -> None:
    """What waits on the shortest path, and on all detours."""
    ways = {DESTINATION: DIRECT, **PORTS}
    for number, port in ways.items():
        value = direct if number == DESTINATION else around
        name, index = ("port_load", port) if rule == LOCAL else ("group_load", number)
        switch.client.modify(switch.schema.register(name, index, value))


def chosen(switch: Switch, count: int = 60) -> tuple[int, int]:
    """Sends so many packets; how often the shortest path and detours were chosen."""
    before = decisions(switch)
    for _ in range(count):
        send_packet(switch, HOST_PORT, packet())
        switch.barrier()
    after = decisions(switch)
    for port in (DIRECT, *PORTS.values()):
        switch.waiting(port)
    return after[0] - before[0], after[1] - before[1]


def test_without_queues_packets_take_the_shortest_path(ugal: Switch) -> None:
    prepared(ugal, LOCAL)
    for sport in (7, 0x8007):
        send_packet(ugal, HOST_PORT, packet(sport=sport))
        verify_packets(ugal, packet(sport=sport, hlim=63), [DIRECT])
    assert decisions(ugal) == (2, 0)


def test_the_default_is_minimal(ugal: Switch) -> None:
    group(ugal)
    send_packet(ugal, HOST_PORT, packet())
    verify_packets(ugal, packet(hlim=63), [DIRECT])


@pytest.mark.parametrize("rule", [LOCAL, GLOBAL])
def test_a_detour_is_worth_twice_its_queue(ugal_engine: Switch, rule: str) -> None:
    prepared(ugal_engine, rule)
    load(ugal_engine, rule, direct=20, around=10)
    assert chosen(ugal_engine) == (60, 0)
    load(ugal_engine, rule, direct=21, around=10)
    assert chosen(ugal_engine) == (0, 60)


@pytest.mark.parametrize("rule", [LOCAL, GLOBAL])
def test_t_is_in_favour_of_the_shortest_path(ugal_engine: Switch, rule: str) -> None:
    prepared(ugal_engine, rule, t=5)
    load(ugal_engine, rule, direct=25, around=10)
    assert chosen(ugal_engine, 5) == (5, 0)
    load(ugal_engine, rule, direct=26, around=10)
    assert chosen(ugal_engine, 5) == (0, 5)


def test_groups_are_equally_likely(ugal_engine: Switch) -> None:
    prepared(ugal_engine, LOCAL)
    load(ugal_engine, LOCAL, direct=100, around=0)
    for _ in range(160):
        send_packet(ugal_engine, HOST_PORT, packet())
        ugal_engine.barrier()
    seen = {via: len(ugal_engine.waiting(port)) for via, port in PORTS.items()}
    assert sum(seen.values()) == 160
    # 40 are expected; fewer than 15 or more than 65 would be less than one in a hundred thousand.
    assert all(15 <= count <= 65 for count in seen.values()), seen


def test_a_link_that_is_not_usable_is_no_detour(ugal_engine: Switch) -> None:
    """One of four groups can be gone by: the others' packets take the shortest path."""
    prepared(ugal_engine, LOCAL, usable=1 << 2 | 1 << DESTINATION)
    load(ugal_engine, LOCAL, direct=100, around=0)
    shortest, detours = chosen(ugal_engine, 80)
    assert shortest + detours == 80
    assert 5 <= detours <= 40


def test_other_switches_of_the_source_group_follow(ugal: Switch) -> None:
    prepared(ugal, LOCAL)
    send_packet(ugal, 2, packet(via=3))
    verify_packets(ugal, packet(via=3, hlim=63), [PORTS[3]])
    assert decisions(ugal) == (0, 0)


def test_ports_without_entries_count_as_idle(ugal: Switch) -> None:
    group(ugal, mode=(LOCAL, {"usable": ALL, "t": 0}))
    send_packet(ugal, HOST_PORT, packet())
    verify_packets(ugal, packet(hlim=63), [DIRECT])
    assert decisions(ugal) == (1, 0)


def test_all_groups_but_source_and_destination_are_ways_round(ugal_engine: Switch) -> None:
    """To group 2 by way of groups 1, 3, 4 and 5: the draw leaves a gap in the middle."""
    prepared(ugal_engine, LOCAL)
    ugal_engine.route("fd00:2::", 32, [PORTS[2]])
    ugal_engine.insert("towards_group", {"meta.via": 5}, one_shot=[(("towards", {"port": DIRECT}), 1)])
    ugal_engine.client.modify(ugal_engine.schema.register("port_load", PORTS[2], 100))
    for _ in range(80):
        send_packet(ugal_engine, HOST_PORT, packet(dst=2))
        ugal_engine.barrier()
    ways = [Ether(each)["IPv6"].fl >> 13 for port in (DIRECT, *PORTS.values()) for each in ugal_engine.waiting(port)]
    # 1 in 2.5e9 that one of four is never drawn.
    assert len(ways) == 80
    assert set(ways) == {1 << 6 | via for via in (1, 3, 4, 5)}


def test_a_destination_may_have_its_own_rule(ugal_engine: Switch) -> None:
    prepared(ugal_engine, LOCAL)
    load(ugal_engine, LOCAL, direct=100, around=0)
    ugal_engine.insert("mode", {"destination_group": DESTINATION}, action=("minimal", {}))
    assert chosen(ugal_engine, 5) == (5, 0)
