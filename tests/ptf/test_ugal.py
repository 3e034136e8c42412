# SPDX-License-Identifier: Apache-2.0
"""ugal.p4: the first switch compares the queue of the shortest path with twice that of one random detour.

Where loads matter the engine alone is tested, with loads written over P4Runtime.
"""

from __future__ import annotations

import pytest
from scapy.layers.l2 import Ether

from tests.ptf.base_test import Switch, send_packet, verify_forwarded
from tests.ptf.test_adaptive import ALL, DESTINATION, DIRECT, HOST_PORT, PORTS, decisions, group, packet

LOCAL, GLOBAL = "ugal_local", "ugal_global"


def look(switch: Switch) -> Switch:
    """Tells the rule of local queues where to look."""
    for number, port in {DESTINATION: DIRECT, **PORTS}.items():
        switch.insert("shortest_load", {"destination_group": number}, action=("read_direct", {"port": port}))
        switch.insert("detour_load", {"meta.via": number}, action=("read_around", {"port": port}))
    return switch


def prepared(switch: Switch, rule: str, t: int = 0, usable: int = ALL) -> Switch:
    """As for adaptive.p4, and what the rule of local queues looks at."""
    return look(group(switch, mode=(rule, {"usable": usable, "t": t})))


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


IDLE = {
    # the rule of local queues or none, what it looks at, port in, packet, packet out, port out, decisions
    "without queues": (LOCAL, True, HOST_PORT, packet(), packet(hlim=63), DIRECT, (1, 0)),
    "Valiant bit set": (LOCAL, True, HOST_PORT, packet(sport=0x8007), packet(None, 0, 63, 0x8007), DIRECT, (1, 0)),
    "the default is minimal": ("", False, HOST_PORT, packet(), packet(hlim=63), DIRECT, (1, 0)),
    "a second switch": (LOCAL, True, 2, packet(via=3), packet(via=3, hlim=63), PORTS[3], (0, 0)),
    "ports without entries are idle": (LOCAL, False, HOST_PORT, packet(), packet(hlim=63), DIRECT, (1, 0)),
}


@pytest.mark.parametrize("name", IDLE)
def test_where_a_packet_goes(ugal: Switch, name: str) -> None:
    rule, looks, into, given, expected, port, decided = IDLE[name]
    group(ugal, mode=(rule, {"usable": ALL, "t": 0}) if rule else None)
    if looks:
        look(ugal)
    verify_forwarded(ugal, into, given, expected, port)
    assert decisions(ugal) == decided


@pytest.mark.parametrize("rule", [LOCAL, GLOBAL])
@pytest.mark.parametrize(("t", "direct", "count"), [(0, 20, 60), (5, 25, 5)])
def test_a_detour_is_worth_twice_its_queue_and_t(
    ugal_engine: Switch, rule: str, t: int, direct: int, count: int
) -> None:
    prepared(ugal_engine, rule, t=t)
    load(ugal_engine, rule, direct=direct, around=10)
    assert chosen(ugal_engine, count) == (count, 0)
    load(ugal_engine, rule, direct=direct + 1, around=10)
    assert chosen(ugal_engine, count) == (0, count)


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
