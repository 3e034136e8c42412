# SPDX-License-Identifier: Apache-2.0
"""Packets followed through fabrics: the hops are those of the verifier, and the fractions of all ways are those of as
many real packets."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from detour.base.places import BUILD
from detour.control.planner import plan
from detour.control.policy import Policy
from detour.control.verifier.trace import Tracer
from detour.engine.compiler.program import Program
from detour.engine.trace.tree import Output
from detour.fabric.tracing.results import TracedPacket
from detour.fabric.tracing.walk import FabricCopy, trace_planned
from detour.hosts.frames.sample import data_frame
from detour.topo.paths import parse_usid_list
from detour.topo.spec import parse_topology

SPEC = "dragonfly:p=1,a=2,h=1"


def _arrivals(traced: TracedPacket) -> list[str | None]:
    return [packet.host for ending in traced.outcomes for packet in ending.packets]


@pytest.mark.parametrize("sport", [0, 1, 0x8000, 0x8001, 0x8777])
def test_the_hops_are_those_of_the_tables(sport: int) -> None:
    topology = parse_topology(SPEC)
    entries = plan(topology, Policy())
    expected = Tracer(entries, topology).trace(topology.hosts[0], topology.hosts[-1], sport)
    traced = trace_planned(SPEC, "h0", topology.hosts[-1].name, sport=sport)
    assert [hop.switch for hop in traced.hops] == [f"s{each}" for each in expected.switches]
    assert _arrivals(traced) == [topology.hosts[-1].name]


def test_a_list_of_usids_is_followed() -> None:
    topology = parse_topology(SPEC)
    target = topology.hosts[-1]
    usids = ",".join(topology.switches[i].name for i in (1, 2))
    assert parse_usid_list(topology, usids)
    entries = plan(topology, Policy())
    traced = trace_planned(SPEC, "h0", target.name, usid=usids)
    names = [hop.switch for hop in traced.hops]
    assert "s1" in names
    assert "s2" in names
    assert _arrivals(traced) == [target.name]
    assert entries


def test_fractions_are_those_of_real_packets() -> None:
    """At the first switch of a packet that goes by another group: by which port, over all source ports."""
    topology = parse_topology("d1")
    a, b = topology.hosts[0], topology.hosts[-1]
    with FabricCopy(topology, Program.from_json(BUILD / "fabric.json"), plan(topology, Policy())) as copy:
        traced = copy.trace(a, data_frame(a, b, 0x8000), all_ways=True)
        first = traced.hops[0].trace
        expected: Counter[int] = Counter()
        for fraction, leaf in first.leaves():
            assert isinstance(leaf.outcome, Output)
            expected[leaf.outcome.port] += fraction  # type: ignore[assignment]
        packets = 1400
        seen: Counter[int] = Counter()
        for path in range(packets):
            outcome = copy.trace(a, data_frame(a, b, 0x8000 | path * 23)).hops[0].trace.outcome
            assert isinstance(outcome, Output)
            seen[outcome.port] += 1
    assert math.isclose(sum(expected.values()), 1)
    assert expected.keys() == seen.keys()
    for port, fraction in expected.items():
        sigma = math.sqrt(fraction * (1 - fraction) / packets)
        assert abs(seen[port] / packets - fraction) < 5 * sigma + 0.01, port


@pytest.mark.parametrize("spec", ["fat-tree:k=4", "d1"])
@pytest.mark.parametrize("sport", [1, 0x8001])
def test_all_ways_add_up_and_arrive(spec: str, sport: int) -> None:
    topology = parse_topology(spec)
    target = topology.hosts[-1].name
    traced = trace_planned(spec, "h0", target, sport=sport, all_ways=True)
    assert math.isclose(sum(ending.fraction for ending in traced.outcomes), 1)
    assert set(_arrivals(traced)) == {target}
    assert len(traced.hops) >= 2


def test_a_link_that_is_down_is_said() -> None:
    topology = parse_topology(SPEC)
    a, b = topology.hosts[0], topology.hosts[-1]
    entries = plan(topology, Policy())
    way = Tracer(entries, topology).trace(a, b, 0)
    peer = topology.switches[way.switches[0]].peer(way.hops[0].out_port or 0)
    assert peer is not None
    program = Program.from_json(BUILD / "fabric.json")
    with FabricCopy(topology, program, entries, is_up=lambda link: link != peer.link) as copy:
        traced = copy.trace(a, data_frame(a, b, 0))
    assert len(traced.outcomes) == 1
    lost = traced.outcomes[0].dropped
    assert lost is not None
    # Its tables do not know of it, unless a selector skips members whose port is down.
    assert topology.links[peer.link].name in lost.reason or "drop" in lost.reason
