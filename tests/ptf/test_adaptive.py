# SPDX-License-Identifier: Apache-2.0
"""adaptive.p4: the first switch chooses between direct link and detour by the loads of its group's links.

Where loads matter the engine alone is tested, with loads written over P4Runtime.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction

import pytest
from scapy.layers.l2 import Ether
from scapy.packet import Packet

from tests.ptf.base_test import Switch, send_packet, verify_forwarded, verify_packets, verify_punted
from tests.ptf.conftest import switch_with
from tests.ptf.packets import frame, host, ip, udp, usids

GROUPS = 6
DESTINATION = 5
DIRECT = 1
HOST_PORT = 6
PORTS = {1: 2, 2: 3, 3: 4, 4: 5}
"""intermediate group -> port"""
ALL = 0b111110
HOP_LIMIT = 6
MIN, VAL = 0, 1


def label(via: int | None, own: int = 0) -> int:
    """The flow label of a packet that is to go by way of a group; `own` is the sender's part."""
    return own if via is None else 1 << 19 | via << 13 | own


def packet(via: int | None = None, own: int = 0, hlim: int = 64, sport: int = 77, src: int = 0, dst: int = 5) -> Packet:
    """A packet between groups with the flow label of `via`."""
    return frame(ip(host(dst), src=host(src), hlim=hlim, fl=label(via, own)), udp(sport=sport))


def group(switch: Switch, number: int = 0, mode: tuple[str, dict[str, int]] | None = None) -> Switch:
    """Makes the switch one of group `number`: group 5 behind port 1, the others behind PORTS, a host at port 6."""
    switch.node(node_id=7, group=number, groups=GROUPS)
    switch.route("fd00:5::", 32, [DIRECT])
    for via, port in PORTS.items():
        switch.insert("towards_group", {"meta.via": via}, one_shot=[(("towards", {"port": port}), 1)])
    switch.insert("host_ports", {"meta.in_port": HOST_PORT}, action=("NoAction", {}))
    if mode is not None:
        switch.client.modify(switch.schema.entry("mode", action=mode, default=True))
    return switch


def ugal(t: int = 0, usable: int = ALL) -> tuple[str, dict[str, int]]:
    """The action of adaptive routing."""
    return "ugal", {"usable": usable, "t": t}


def load(switch: Switch, loads: dict[int, int]) -> None:
    """Writes the loads of the group's links."""
    switch.client.modify(*(switch.schema.register("group_load", peer, value) for peer, value in loads.items()))


def decisions(switch: Switch) -> tuple[int, int]:
    """How often MIN and VAL were chosen."""
    return switch.counter("decisions", MIN)[0], switch.counter("decisions", VAL)[0]


def anywhere(usable: int = ALL) -> tuple[str, dict[str, int]]:
    """The action that goes by way of any of these groups."""
    return "random_group", {"usable": usable}


STRANGE = [frame(ip(host(5), src="2001:db8::1", fl=0xFFFFF, hlim=hlim), udp()) for hlim in (64, 63)]
ONE_PACKET = {
    # group, mode, port in, packet, packet out, port out, decisions
    "minimal": (0, ("minimal", {}), HOST_PORT, packet(), packet(hlim=63), DIRECT, (1, 0)),
    "Valiant bit": (0, ("minimal", {}), HOST_PORT, packet(sport=0x8007), packet(None, 0, 63, 0x8007), DIRECT, (1, 0)),
    "the default is minimal": (0, None, HOST_PORT, packet(), packet(hlim=63), DIRECT, (1, 0)),
    "T on idle links": (0, ugal(t=1), HOST_PORT, packet(), packet(hlim=63), DIRECT, (1, 0)),
    "a second switch, detour": (0, ugal(t=1), 2, packet(3), packet(3, hlim=63), PORTS[3], (0, 0)),
    "a second switch, straight": (0, ugal(t=1), 2, packet(), packet(hlim=63), DIRECT, (0, 0)),
    "intermediate group": (3, anywhere(), 2, packet(3, own=0x1ABC), packet(own=0x1ABC, hlim=63), DIRECT, (0, 0)),
    "destination group": (5, anywhere(), 2, packet(3, own=0x1ABC), packet(own=0x1ABC, hlim=63), DIRECT, (0, 0)),
    "inside a group": (5, anywhere(0b11111), HOST_PORT, packet(src=5), packet(src=5, hlim=63), DIRECT, (0, 0)),
    "a broken direct link": (0, ugal(1000, 0b000100), HOST_PORT, packet(), packet(2, hlim=63), PORTS[2], (0, 1)),
    "no link but this": (0, anywhere(1 << DESTINATION), HOST_PORT, packet(), packet(hlim=63), DIRECT, (1, 0)),
    "no link": (0, anywhere(0), HOST_PORT, packet(), packet(hlim=63), DIRECT, (1, 0)),
    "hosts own the lower bits": (0, ugal(t=1), HOST_PORT, packet(2, 0x1FFF), packet(None, 0x1FFF, 63), DIRECT, (1, 0)),
    "they stay": (0, ugal(0, 0b110000), HOST_PORT, packet(2, 0x1FFF), packet(4, 0x1FFF, 63), PORTS[4], (0, 1)),
    "no address of a host": (0, anywhere(), HOST_PORT, *STRANGE, DIRECT, (0, 0)),
}


@pytest.mark.parametrize("name", ONE_PACKET)
def test_where_a_packet_goes(adaptive: Switch, name: str) -> None:
    number, mode, into, given, expected, port, decided = ONE_PACKET[name]
    group(adaptive, number, mode)
    verify_forwarded(adaptive, into, given, expected, port)
    assert decisions(adaptive) == decided


@pytest.mark.parametrize("mode", [anywhere(), ugal(t=0)], ids=["random", "ugal"])
def test_idle_links_are_equally_likely(adaptive: Switch, mode: tuple[str, dict[str, int]]) -> None:
    """With all loads and T 0, 0 < 0 + 0 + 0 does not hold: adaptive routing goes by way of a random group as well."""
    group(adaptive, mode=mode)
    for _ in range(10):
        for _ in range(16):
            send_packet(adaptive, HOST_PORT, packet())
        adaptive.barrier()
    seen = {port: adaptive.waiting(port) for port in (DIRECT, *PORTS.values())}
    assert not seen[DIRECT]
    for via, port in PORTS.items():
        assert set(seen[port]) == {bytes(packet(via, hlim=63))}
        # 40 are expected; fewer than 15 or more than 65 would be less than one in a hundred thousand.
        assert 15 <= len(seen[port]) <= 65, {p: len(packets) for p, packets in seen.items()}
    assert decisions(adaptive) == (0, 160)


def test_a_destination_may_have_its_own_links(adaptive: Switch) -> None:
    group(adaptive, mode=anywhere(0b001010))
    adaptive.insert("mode", {"destination_group": 5}, action=anywhere(0b101000))
    send_packet(adaptive, HOST_PORT, packet())
    verify_packets(adaptive, packet(via=3, hlim=63), [PORTS[3]])
    send_packet(adaptive, HOST_PORT, packet(dst=3))
    verify_packets(adaptive, packet(via=1, dst=3, hlim=63), [PORTS[1]])


def test_a_group_that_nobody_knows_the_way_to_is_not_gone_by(adaptive: Switch) -> None:
    adaptive.node(node_id=7, group=0, groups=GROUPS)
    adaptive.route("fd00:5::", 32, [DIRECT])
    verify_forwarded(adaptive, 2, packet(via=3), packet(hlim=63), DIRECT)


@pytest.mark.parametrize("port", [HOST_PORT, 2], ids=["first", "second"])
@pytest.mark.parametrize("hlim", [0, 1])
def test_an_exceeded_hop_limit_goes_to_the_controller_as_it_came(adaptive: Switch, port: int, hlim: int) -> None:
    group(adaptive, mode=anywhere())
    via = None if port == HOST_PORT else 3
    verify_punted(adaptive, port, packet(via, hlim=hlim), HOP_LIMIT)
    assert decisions(adaptive) == (0, 0)


def test_a_detour_behind_a_tunnel_costs_one_hop(adaptive: Switch) -> None:
    """Decapsulation has counted this switch in the inner hop limit already."""
    group(adaptive, mode=anywhere(1 << 3))
    adaptive.local_sid(usids(7), 48, "un")
    send_packet(adaptive, HOST_PORT, frame(ip(usids(7)), packet(hlim=2)["IPv6"]))
    verify_packets(adaptive, packet(via=3, hlim=1), [PORTS[3]])


CASES = [
    # direct, others by group 1 to 4, T
    (8, (5, 5, 3, 5), 0),
    (9, (5, 5, 3, 5), 0),
    (9, (5, 5, 3, 5), 1),
    (10, (5, 5, 3, 5), 1),
    (10, (5, 5, 3, 5), 2),
    (1, (0, 0, 0, 0), 0),
    (1, (0, 0, 0, 0), 1),
    (2, (0, 0, 0, 0), 1),
    (0, (9, 9, 9, 9), 0),
    (375, (300, 280, 350, 375), 30),
    (375, (9, 20, 10, 30), 30),
    (65535, (65535, 65535, 65535, 65534), 0),
]


@pytest.mark.parametrize(("direct", "others", "t"), CASES)
def test_the_papers_rule(loaded: Switch, direct: int, others: tuple[int, ...], t: int) -> None:
    group(loaded, mode=ugal(t=t))
    load(loaded, {DESTINATION: direct, **dict(enumerate(others, start=1))})
    least, mean = min(others), Fraction(direct + sum(others), 5)
    minimal = direct < least + mean + t
    send_packet(loaded, HOST_PORT, packet())
    if minimal:
        verify_packets(loaded, packet(hlim=63), [DIRECT])
    else:
        loaded.barrier()
        (via,) = [via for via, port in PORTS.items() if loaded.waiting(port)]
        assert others[via - 1] == least
        verify_packets(loaded, packet(via, hlim=63), [PORTS[via]])
    assert decisions(loaded) == ((1, 0) if minimal else (0, 1))


def test_ties_are_broken_at_random(loaded: Switch) -> None:
    group(loaded, mode=ugal())
    load(loaded, {DESTINATION: 50, 1: 2, 2: 7, 3: 2, 4: 2})
    for _ in range(120):
        send_packet(loaded, HOST_PORT, packet())
    loaded.barrier()
    seen = Counter({via: len(loaded.waiting(port)) for via, port in PORTS.items()})
    assert seen[2] == 0
    # 40 are expected of each.
    assert all(15 <= seen[via] <= 65 for via in (1, 3, 4)), seen


def test_links_that_are_not_usable_do_not_count(loaded: Switch) -> None:
    """Neither for the least load nor for the mean."""
    group(loaded, mode=ugal(usable=0b101100))
    load(loaded, {DESTINATION: 10, 1: 0, 2: 3, 3: 5, 4: 900})  # 10 >= 3 + 18 / 3
    send_packet(loaded, HOST_PORT, packet())
    verify_packets(loaded, packet(via=2, hlim=63), [PORTS[2]])
    load(loaded, {2: 5})  # 10 < 5 + 20 / 3
    verify_forwarded(loaded, HOST_PORT, packet(), packet(hlim=63), DIRECT)


@pytest.mark.parametrize("via", [1, 8, 15, 16, 31, 32, 40, 55, 62, 63])
def test_every_link_of_sixty_four_groups(loaded: Switch, via: int) -> None:
    loaded.node(node_id=7, group=0, groups=64)
    loaded.client.modify(loaded.schema.entry("mode", action=ugal(usable=(1 << 64) - 2), default=True))
    loaded.insert("host_ports", {"meta.in_port": HOST_PORT}, action=("NoAction", {}))
    loaded.insert("towards_group", {"meta.via": via}, one_shot=[(("towards", {"port": 3}), 1)])
    load(loaded, {peer: 1 if peer == via else 1000 if peer == DESTINATION else 40 for peer in range(1, 64)})
    verify_forwarded(loaded, HOST_PORT, packet(), packet(via=via, hlim=63), 3)


@pytest.mark.parametrize("groups", [3, 8, 9, 17, 25, 33, 41, 49, 57])
def test_links_of_groups_there_are_not_are_not_looked_at(loaded: Switch, groups: int) -> None:
    """The last group of each size is found; T is what idle links would pass."""
    loaded.node(node_id=7, group=0, groups=groups)
    last = groups - 1
    loaded.client.modify(loaded.schema.entry("mode", action=ugal(usable=(1 << groups) - 2), default=True))
    loaded.insert("host_ports", {"meta.in_port": HOST_PORT}, action=("NoAction", {}))
    loaded.insert("towards_group", {"meta.via": last}, one_shot=[(("towards", {"port": 3}), 1)])
    load(loaded, {peer: 1 if peer == last else 500 for peer in range(1, groups)})
    verify_forwarded(loaded, HOST_PORT, packet(dst=1), packet(via=last, dst=1, hlim=63), 3)


OUT = 3
"""where all detours of `sixty_four` go"""


@pytest.fixture(scope="module")
def sixty_four() -> Iterator[Switch]:
    """A switch of a fabric with 64 groups, its hosts at HOST_PORT, the way to all groups behind DIRECT."""
    for switch in switch_with("engine", "adaptive"):
        switch.insert("host_ports", {"meta.in_port": HOST_PORT}, action=("NoAction", {}))
        switch.route("fd00::", 16, [DIRECT])
        for via in range(64):
            switch.insert("towards_group", {"meta.via": via}, one_shot=[(("towards", {"port": OUT}), 1)])
        yield switch


def chosen(switch: Switch, links: set[int], source: int, count: int) -> set[int]:
    """The groups that so many packets go by if only these links are usable. None of them is the destination."""
    usable = sum(1 << link for link in links)
    switch.client.modify(switch.schema.entry("mode", action=ugal(usable=usable), default=True))
    destination = next(group for group in range(63, 0, -1) if group not in {*links, source})
    for _ in range(count):
        send_packet(switch, HOST_PORT, packet(src=source, dst=destination))
    return {Ether(switch.take(OUT))["IPv6"].fl >> 13 & 63 for _ in range(count)}


@pytest.mark.parametrize("link", range(64))
def test_each_of_sixty_four_links(sixty_four: Switch, link: int) -> None:
    """It is the only one, or one of two that are alike, of which each is drawn now and then."""
    source = 1 if link != 1 else 2
    sixty_four.node(node_id=7, group=source, groups=64)
    assert chosen(sixty_four, {link}, source, 1) == {link}
    other = next(each for each in (0, 3) if each != link)
    seen: set[int] = set()
    for _ in range(12):
        seen |= chosen(sixty_four, {other, link}, source, 4)
    assert seen == {other, link}, "one in 1.4e14 that one of them is not drawn"


def test_a_link_with_the_largest_load_is_no_way_round(loaded: Switch) -> None:
    """It ties with the least load that there can be, and is counted; the sum of loads is beyond all that links have."""
    group(loaded, 1, mode=ugal(usable=1))
    loaded.insert("towards_group", {"meta.via": 0}, one_shot=[(("towards", {"port": OUT}), 1)])
    load(loaded, {0: 0xFFFFFFFF})
    verify_forwarded(loaded, HOST_PORT, packet(src=1), packet(src=1, hlim=63), DIRECT)
