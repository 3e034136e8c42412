# SPDX-License-Identifier: Apache-2.0
"""The verifier: passes what is right, finds what is wrong, and says where."""

from collections.abc import Callable
from dataclasses import replace
from ipaddress import IPv6Address

import pytest

from detour.control import schema
from detour.control.entries import Action, ActionSet, DefaultAction, Entity, Lpm, Plan, TableEntry
from detour.control.planner import plan
from detour.control.policy import Policy
from detour.control.verifier.verifier import verify
from detour.topo import parse_failure, parse_topology

D1 = parse_topology("d1")
PLAN = plan(D1)


def down(topology, *names):
    return frozenset(parse_failure(topology, name) for name in names)


def change(device: int, edit: Callable[[Entity], Entity | None], base: Plan = PLAN) -> Plan:
    """The plan with one switch's entities edited (None: left out)."""
    edited = [new for new in map(edit, base[device]) if new is not None]
    return {**base, device: edited}


def entry_for(prefix: str, bits: int, table: str = schema.ROUTE) -> Callable[[Entity], bool]:
    match = ((schema.DST_ADDR, Lpm(int(IPv6Address(prefix)), bits)),)
    return lambda entity: isinstance(entity, TableEntry) and entity.table == table and entity.match == match


def drop(chosen: Callable[[Entity], bool]) -> Callable[[Entity], Entity | None]:
    return lambda entity: None if chosen(entity) else entity


def redirect(chosen: Callable[[Entity], bool], *ports: int) -> Callable[[Entity], Entity]:
    to = ActionSet.of(Action.of(schema.FORWARD, port=port) for port in ports)
    return lambda entity: replace(entity, action=to) if chosen(entity) else entity


def test_the_papers_smallest_dragonfly_is_proven():
    report = verify(PLAN, D1)
    assert report.ok
    assert report.problems == []
    assert (report.pairs, report.disconnected, report.proofs) == (72 * 71, 0, 72 * 71 * 2)
    assert report.longest == report.bound == (4, 6)
    # One way for every pair, one more inside groups (source bit 1), seven by way of other groups.
    inside, outside = 72 * 7, 72 * 64
    assert report.paths == 72 * 71 + inside + 7 * outside
    assert report.sids == 36 * 35 + 36 + 36 * 14 + 72


@pytest.mark.parametrize(
    "text",
    ["d2", "dragonfly:p=1,a=4,h=2,g=5", "dragonfly:p=1,a=2,h=1,g=2", "dragonfly:p=1,a=1,h=3", "fat-tree:k=6,blocking=2",
     "leaf-spine:leaves=5,spines=3,hosts=2", "leaf-spine:leaves=3,spines=70,hosts=1",
     "dragonfly:p=2,a=3,h=2,wiring=consecutive"],
)  # fmt: skip
def test_plans_are_proven(text):
    topology = parse_topology(text)
    report = verify(plan(topology), topology)
    assert report.ok, report.problems
    assert report.pairs == len(topology.hosts) * (len(topology.hosts) - 1)


def test_without_valiant_routing_the_source_bit_changes_nothing():
    report = verify(plan(D1, Policy(valiant=False)), D1)
    assert report.ok
    assert report.longest == (4, 4)
    assert report.paths == report.proofs


def test_plans_for_failures_are_proven():
    for names in (["s0-s35"], ["s5"], ["s0-s1"], ["h7"], ["s0-s1", "s0-s2", "s0-s3"], ["s0:6", "s0:7", "s1:6", "s2"]):
        failures = down(D1, *names)
        report = verify(plan(D1, failures=failures), D1, failures)
        assert report.ok, (names, report.problems)
        assert report.pairs + report.disconnected == 72 * 71


def test_failures_without_a_new_plan_are_noticed():
    report = verify(PLAN, D1, down(D1, "s0-s35"))
    assert not report.ok
    # Both switches' hosts to the other group in both directions, plain and as second half of detours, uSIDs.
    assert report.failed > 2 * 8 * 8
    assert any("s0" in problem for problem in report.problems)


def test_an_empty_fabric_is_noticed():
    report = verify({}, D1)
    assert report.failed >= 72 * 71
    assert len(report.problems) == 10


SABOTAGE = {
    "a group's route is missing": (
        1, drop(entry_for("fd00:8::", 32)), "h0 -> h64, source bit 0: s0 then dropped: s0 has no route to fd00:8::"),
    "a route leads back": (
        # Group 0's packets for group 7 enter it at s31; there they are sent back.
        32, redirect(entry_for("fd00:7:1::", 48), 7), "round again"),
    "a route leads to a port without link": (
        1, redirect(entry_for("fd00:8::", 32), 99), "s0 then forward(port=99) at s0, which is not h64"),
    "one branch of two is wrong": (
        1, redirect(entry_for("fd00:8::", 32), 7, 1), "at s0, which is not h64"),
    "a host's route leads to its neighbour": (
        36, lambda e: replace(e, action=ActionSet.of([Action.of(schema.DELIVER, port=2, mac=D1.hosts[71].mac)]))
        if entry_for("fd00:8:3::", 64)(e) else e, "which is not h70"),
    "a host's MAC is another one's": (
        36, lambda e: replace(e, action=ActionSet.of([Action.of(schema.DELIVER, port=1, mac=7)]))
        if entry_for("fd00:8:3::", 64)(e) else e, "which is not h70"),
    "a longer prefix steals one host": (
        1, lambda e: replace(redirect(lambda _: True, 1)(e), match=((schema.DST_ADDR, Lpm(D1.hosts[9].address, 128)),))
        if entry_for("fcbb:bb00:24::", 48)(e) else e, "h0 -> h9, source bit 0: s0 then forward(port=1) at s0"),
    "a switch believes to be in another group": (
        1, lambda e: DefaultAction(schema.NODE_CONFIG, Action.of(schema.SET_NODE, node_id=1, group=4, groups=9))
        if isinstance(e, DefaultAction) else e, "s0: node.config is (1, 4, 9)"),
    "a switch has lost its default action": (
        1, drop(lambda e: isinstance(e, DefaultAction)), "s0: node.config is (0, 0, 0)"),
    "a detour leads to a wrong group's door and back": (
        1, lambda e: replace(e, action=ActionSet.of([Action.of(schema.TOWARDS, port=1)]))
        if isinstance(e, TableEntry) and e.table == schema.DETOUR and e.field(schema.VIA) == 3 else e,
        "source bit 1 by way of group 3: s0 then towards(port=1) at s0"),
    "a uN is missing": (
        5, drop(entry_for("fcbb:bb00:5::", 48, schema.LOCAL_SID)), "uN fcbb:bb00:5::/48: from s"),
    "a locator is missing": (
        1, drop(entry_for("fcbb:bb00:5::", 48)), "uN fcbb:bb00:5::/48: from s0, some way does not end at s4"),
    "a block of locators is missing": (
        1, drop(entry_for("fcbb:bb00:10::", 44)), "from s0, some way does not end at s"),
    "a uA leaves elsewhere": (
        1, lambda e: replace(e, action=Action.of(schema.UA, port=4))
        if entry_for("fcbb:bb00:e003::", 48, schema.LOCAL_SID)(e) else e,
        "s0: uA fcbb:bb00:e003:: does not leave by port 3 but does ua(port=4)"),
    "a uA of 64 bits is missing": (
        1, drop(entry_for("fcbb:bb00:1:e003::", 64, schema.LOCAL_SID)),
        # The uN's /48 takes its place.
        "s0: uA fcbb:bb00:1:e003:: does not leave by port 3 but does un"),
    "a host's uSID is missing": (
        1, drop(entry_for("fcbb:bb00:8000::", 48)), "s0: uSID fcbb:bb00:8000::/48 does not lead to h0: nothing"),
}  # fmt: skip


@pytest.mark.parametrize("name", SABOTAGE)
def test_sabotage_is_found_and_named(name):
    device, edit, words = SABOTAGE[name]
    sabotaged = change(device, edit)
    assert sabotaged != PLAN
    report = verify(sabotaged, D1)
    assert not report.ok
    assert any(words in problem for problem in report.problems), report.problems


def test_a_detour_into_a_loop_is_found():
    """s0 and s1 send packets for group 3 to one another."""
    plan_ = PLAN
    for device, port in ((1, 3), (2, 3)):
        to = ActionSet.of([Action.of(schema.TOWARDS, port=port)])

        def edit(entity: Entity, to: ActionSet = to) -> Entity:
            if isinstance(entity, TableEntry) and entity.table == schema.DETOUR and entity.field(schema.VIA) == 3:
                return replace(entity, action=to)
            return entity

        plan_ = change(device, edit, plan_)
    report = verify(plan_, D1)
    assert any("by way of group 3: s0 s1 s0 then round again" in problem for problem in report.problems)
    assert report.longest.detour <= 6


def test_longer_ways_than_the_bound_are_found():
    """Inside a group packets for s3's hosts go s0 s1 s2 s3: delivered, but not as short as a Dragonfly allows."""
    plan_ = change(1, redirect(entry_for("fd00:0:3::", 48), 3))
    plan_ = change(2, redirect(entry_for("fd00:0:3::", 48), 4), plan_)
    report = verify(plan_, D1)
    assert not report.ok
    assert any("passes more than 4 switches" in problem for problem in report.problems)


def test_packets_for_lost_hosts_may_be_dropped_but_not_sent_round():
    failures = down(D1, "h70")
    planned = plan(D1, failures=failures)
    assert verify(planned, D1, failures).ok
    to = ActionSet.of([Action.of(schema.FORWARD, port=3)])
    route = TableEntry(schema.ROUTE, ((schema.DST_ADDR, Lpm(D1.hosts[70].address, 64)),), to)
    back = ActionSet.of([Action.of(schema.FORWARD, port=5)])
    looping = {**planned, 36: [*planned[36], route], 33: [*planned[33], replace(route, action=back)]}
    report = verify(looping, D1, failures)
    assert not report.ok
    assert any("h70" in problem and "round again" in problem for problem in report.problems)


def test_the_papers_largest_dragonfly_is_proven():
    topology = parse_topology("d3")
    report = verify(plan(topology), topology)
    assert report.ok
    assert report.pairs == 1056 * 1055
