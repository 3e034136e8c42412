# SPDX-License-Identifier: Apache-2.0
"""Single packets followed through the entries."""

import pytest

from detour.control import schema
from detour.control.entries import Action, ActionSet, Entity, Lpm, TableEntry
from detour.control.planner import plan
from detour.control.routes.hashes import via_ports
from detour.control.verifier.trace import Tracer
from detour.topo import address, parse_failure, parse_topology
from detour.topo.paths import path_usids, via_paths

D1 = parse_topology("d1")
PLAN = plan(D1)
TRACER = Tracer(PLAN, D1)
A, B = D1.hosts[0], D1.hosts[66]


def test_a_shortest_path():
    trace = TRACER.trace(A, B)
    assert trace.delivered
    assert trace.outcome == "delivered to h66"
    assert trace.switches == (0, 35, 33)
    assert [(hop.in_port, hop.out_port) for hop in trace.hops] == [(1, 6), (7, 4), (5, 1)]
    assert trace.hops[0].why == "fd00:8::/32 -> forward port 6"
    assert trace.hops[-1].why == "fd00:8:1::/64 -> deliver port 1"


def test_a_detour():
    trace = TRACER.trace(A, B, via_ports(0, 8, 9)[2])
    assert trace.switches == (0, 3, 8, 9, 34, 33)
    assert [hop.table for hop in trace.hops] == [schema.DETOUR] * 2 + [schema.ROUTE] * 4
    assert trace.hops[0].why == "via 2 -> towards port 5"


def test_inside_a_group_the_source_bit_does_nothing():
    assert TRACER.trace(A, D1.hosts[2], 0x8000).switches == (0, 1)
    assert TRACER.trace(A, D1.hosts[1], 0xFFFF).switches == (0,)


@pytest.mark.parametrize("via", range(1, 8))
def test_uusids_pin_a_path(via):
    (way,) = via_paths(D1, A.switch, B.switch, via)
    trace = TRACER.trace(A, B, usids=path_usids(D1, way, B))
    assert trace.delivered
    assert trace.switches == way


def test_adjacency_usids():
    # s0 to s3 by its port 5; there by the global link behind port 6; s8 sends to the host's switch.
    trace = TRACER.trace(A, B, usids=(1, 0xE005, 0xE006, B.switch + 1, B.node_id))
    assert trace.delivered
    assert trace.switches[:3] == (0, 3, 8)
    assert [hop.table for hop in trace.hops[:2]] == [schema.LOCAL_SID] * 2
    alone = TRACER.trace(A, B, usids=(0xE005, 0xE006, B.switch + 1, B.node_id))
    assert alone.switches == trace.switches


def test_own_usids_in_a_row():
    trace = TRACER.trace(A, A, usids=(1, 1, 1, 1, 1, A.node_id))
    assert trace.delivered
    assert trace.switches == (0,)


@pytest.mark.parametrize(
    ("usids", "words"),
    [
        ((1, 1, 1, 1, 1, 1), "ends at s0: the uSID list is exhausted"),
        ((34,), "ends at s33: the uSID list is exhausted"),
        ((5, B.node_id), "ends at s4: unknown uSID"),
        ((0x7000,), "ends at s0: unknown uSID"),
        ((34, D1.hosts[67].node_id), "reaches h67 instead of h66"),
    ],
)
def test_uusid_lists_that_lead_nowhere(usids, words):
    trace = TRACER.trace(A, B, usids=usids)
    assert not trace.delivered
    assert words in trace.outcome


def test_packets_end_where_entries_do():
    assert Tracer({}, D1).trace(A, B).outcome == "ends at s0: no route (the controller answers)"
    failures = frozenset({parse_failure(D1, "s0-s35")})
    assert "lost at s0: nothing lives behind port 6" in Tracer(PLAN, D1, failures).trace(A, B).outcome
    lost = Tracer(PLAN, D1, frozenset({parse_failure(D1, "h0")})).trace(A, B)
    assert lost.outcome == "h0 has lost its link to s0"
    assert lost.hops == ()


def test_loops_end_with_the_hop_limit():
    def to(switch: int, port: int) -> list[Entity]:
        everything = ((schema.DST_ADDR, Lpm(0, 0)),)
        return [TableEntry(schema.ROUTE, everything, ActionSet.of([Action.of(schema.FORWARD, port=port)]))]

    trace = Tracer({1: to(0, 3), 2: to(1, 3)}, D1).trace(A, B)
    assert len(trace.hops) == 64
    assert "hop limit" in trace.outcome


def test_a_wrong_mac_is_told():
    wrong = ActionSet.of([Action.of(schema.DELIVER, port=1, mac=1)])
    route = TableEntry(schema.ROUTE, ((schema.DST_ADDR, Lpm(A.address, 64)),), wrong)
    trace = Tracer({1: [route]}, D1).trace(A, A)
    assert trace.outcome == "reaches h0 with the wrong MAC address 00:00:00:00:00:01"


def test_an_empty_choice_is_told():
    route = TableEntry(schema.ROUTE, ((schema.DST_ADDR, Lpm(address.locator(7), 48)),), ActionSet(()))
    assert "action set is empty" in Tracer({1: [route]}, D1).trace(A, B, usids=(7,)).outcome
