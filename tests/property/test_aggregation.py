# SPDX-License-Identifier: Apache-2.0
"""Routes to uNs: whatever is aggregated, every id is led as by a route of its own, also while it is changed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from random import Random
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from detour.control import schema
from detour.control.entries import Action, ActionSet, Lpm, TableEntry, difference
from detour.control.routes.routing import DIGIT_BITS, NextHops, aggregate, plan_locators, plan_own_hosts, plan_routes
from detour.control.verifier.forwarding import LpmTable
from detour.topo import Failure, Topology, address, parse_topology
from detour.topo.failures import NONE, Failures, dead_switches

FEW = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
SPECS = (
    "d1", "dragonfly:p=1,a=8,h=4", "dragonfly:p=1,a=4,h=4,g=13", "fat-tree:k=4", "fat-tree:k=8",
    "leaf-spine:leaves=40,spines=3,hosts=1", "leaf-spine:leaves=3,spines=70,hosts=1", "jellyfish:n=50,s=5,hosts=1",
    "fcplus:n=24,s=8,v=5,hosts=1",
)  # fmt: skip
SWITCHES = 20
"""of each damaged topology at most: larger ones do the same at more of them"""
FAR_BEHIND = (0x400, 0x7FFF, 0xDFFF, 0xFFFF)
"""ids that nobody has in any of them"""

choices = st.lists(
    st.tuples(st.sampled_from([None, 0, 0, 1, 1, 2, 3]), st.integers(1, 40)), min_size=1, max_size=20
).map(lambda runs: [choice for choice, length in runs for _ in range(length)])


def longest(prefixes: Sequence[tuple[int, int, int]], node: int) -> int | None:
    covering = [(free, choice) for first, free, choice in prefixes if node >> free == first >> free]
    return min(covering)[1] if covering else None


def fewest(choices: Sequence[int | None], bits: int) -> dict[int | None, int]:
    """How many prefixes the first 2^bits ids need at least, by the choice that they inherit."""
    if bits == 0:
        own = choices[0] if choices else None
        return {i: 0 if own == i else (1 if own is not None else 99_999) for i in (None, 0, 1, 2, 3)}
    size = 1 << bits - DIGIT_BITS
    parts = [fewest(choices[first : first + size], bits - DIGIT_BITS) for first in range(0, 1 << bits, size)]
    kept = {i: sum(part[i] for part in parts) for i in (None, 0, 1, 2, 3)}
    return {i: min(kept[i], 1 + min(kept[j] for j in range(4))) for i in kept}


@FEW
@given(choices)
def test_every_id_gets_its_choice_in_as_few_prefixes_as_possible(choices: list[int | None]) -> None:
    prefixes = list(aggregate(choices))
    assert [longest(prefixes, node) for node in range(len(choices))] == choices
    assert all(longest(prefixes, node) is None for node in (*range(len(choices), len(choices) + 40), *FAR_BEHIND))
    assert len(prefixes) == fewest(choices, 3 * DIGIT_BITS)[None]


@cache
def topology_of(spec: str) -> Topology:
    return parse_topology(spec)


@st.composite
def damaged(draw: st.DrawFn) -> tuple[Topology, Failures]:
    topology = topology_of(draw(st.sampled_from(SPECS)))
    links, switches = st.integers(0, len(topology.links) - 1), st.integers(0, len(topology.switches) - 1)
    some = st.builds(
        lambda cut, down: frozenset([Failure("link", i) for i in cut] + [Failure("switch", i) for i in down]),
        st.sets(links, max_size=len(topology.links) // 3),
        st.sets(switches, max_size=3),
    )
    return topology, draw(st.one_of(st.just(NONE), some))


def ids(topology: Topology) -> list[int]:
    """Of all switches, and of nobody."""
    return [*range(len(topology.switches) + 40), *FAR_BEHIND]


def choice(table: LpmTable, node: int) -> object:
    entry = table.lookup(address.usid_address([node, address.FIRST_HOST]) if node else address.locator(0))
    return entry and entry.action


def routes(topology: Topology, failures: Failures, switch: int) -> list[TableEntry]:
    hops, here = NextHops(topology, failures, switch), topology.switches[switch]
    own, others = plan_own_hosts(topology, failures, here), plan_routes(topology, hops, here)
    return [*own, *others, *plan_locators(topology, hops)]


@FEW
@given(damaged(), st.integers(0))
def test_look_ups_are_those_of_a_route_for_each_switch(case: tuple[Topology, Failures], seed: int) -> None:
    topology, failures = case
    dead, total = dead_switches(failures), 0
    for switch in Random(seed).sample(topology.switches, min(SWITCHES, len(topology.switches))):
        if switch.index in dead:
            continue
        entries = routes(topology, failures, switch.index)
        hops, table = NextHops(topology, failures, switch.index), LpmTable(entries)
        hosts = {host.node_id for host in topology.hosts_of[switch.index]}
        for node in ids(topology):
            if node not in hosts:
                target = node - 1
                reachable = 0 <= target < len(topology.switches) and hops.reachable(target)
                assert choice(table, node) == (hops.actions(target) if reachable else None)
                total += reachable
    assert total or failures


def test_there_are_fewer_of_them() -> None:
    for spec, share in (("dragonfly:p=1,a=8,h=4", 0.4), ("fat-tree:k=8", 0.8)):
        topology = topology_of(spec)
        counts = [
            sum(_is_locator(entry) for entry in routes(topology, NONE, switch.index)) for switch in topology.switches
        ]
        assert sum(counts) < share * len(counts) * (len(counts) - 1)


def _is_locator(entry: TableEntry) -> bool:
    prefix = entry.field(schema.DST_ADDR)
    assert isinstance(prefix, Lpm)
    return address.locator(1) >> 96 == prefix.value >> 96 and prefix.value >> 80 & 0xFFFF < address.FIRST_HOST


prefixes = st.builds(lambda value, length: Lpm(value << 124, length), st.integers(0, 15), st.integers(0, 4))
held = st.dictionaries(prefixes, st.integers(1, 3), max_size=12).map(
    lambda actions: [
        TableEntry.of(schema.ROUTE, {schema.DST_ADDR: prefix}, ActionSet.of([Action.of(schema.FORWARD, port=port)]))
        for prefix, port in actions.items()
    ]
)


@settings(max_examples=300, deadline=None)
@given(held, held)
def test_while_routes_change_each_look_up_is_the_old_one_or_the_new_one(
    old: list[TableEntry], new: list[TableEntry]
) -> None:
    def look_ups(entries: Iterable[TableEntry]) -> list[object]:
        table = LpmTable(entries)
        return [entry and entry.action for entry in (table.lookup(value << 124) for value in range(16))]

    change = difference(old, new)
    held: dict[object, Any] = {entry.key: entry for entry in old}
    before, after = look_ups(old), look_ups(new)
    for entity in (*change.insert, *change.modify, *change.delete):
        held[entity.key] = entity
        if entity in change.delete:
            del held[entity.key]
        assert all(now in both for now, *both in zip(look_ups(held.values()), before, after, strict=True))
    assert look_ups(held.values()) == after
