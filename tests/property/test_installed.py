# SPDX-License-Identifier: Apache-2.0
"""What switches of FC+ and Jellyfish fabrics hold has no cycle of waits: listed routes, plain packets, old lists led
around failed links, new ones, and all of it at once; read back from the switches and followed by two programs."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detour.control import schema
from detour.control.entries import TableEntry
from detour.control.expander.proof import prove
from detour.control.expander.routes import PathPolicy, all_pairs, compute
from detour.control.routes.queueing import transition_ports
from detour.control.verifier.dependencies import InstalledClasses, plain_choices, wires_of
from detour.fabric.backends.virtual.scheme import RunSettings
from detour.fabric.traffic.expander import ExpanderFabric, scheme_of
from detour.topo.expander import Expander, fcplus, jellyfish
from detour.topo.failures import Failure
from tests.unit.expander.installed import Fabric, has_cycle

pytestmark = pytest.mark.slow

SHAPES = st.sampled_from([(12, 6, 3), (16, 6, 4), (16, 8, 5), (14, 4, 0), (16, 6, 0)])
"""switches, links of a switch, virtual switches; 0: Jellyfish"""


def fabric_of(network: Expander, priorities: int) -> ExpanderFabric:
    return ExpanderFabric(network, scheme_of("x", priorities), RunSettings(), queue_pairs=1)


any_failures = given(shape=SHAPES, seed=st.integers(1, 1000), priorities=st.integers(1, 3), failed=st.integers(1, 3))


@settings(max_examples=5, deadline=None)
@any_failures
def test_no_cycle_of_waits_when_links_fail(
    shape: tuple[int, int, int], seed: int, priorities: int, failed: int
) -> None:
    no_cycle(shape, seed, priorities, failed)


@pytest.mark.long
@settings(max_examples=20, deadline=None)
@any_failures
def test_no_cycle_of_waits_in_many_networks(
    shape: tuple[int, int, int], seed: int, priorities: int, failed: int
) -> None:
    no_cycle(shape, seed, priorities, failed)


def no_cycle(shape: tuple[int, int, int], seed: int, priorities: int, failed: int) -> None:
    """Neither before, nor after links have failed, nor while routes change."""
    n, s, v = shape
    network = fcplus(n, s, v, hosts=1, seed=seed) if v else jellyfish(n, s, hosts=1, seed=seed)
    topology, rng = network.topology, np.random.default_rng(seed)
    between = [link.index for link in topology.links if link.kind != "host"]
    failures = frozenset(Failure("link", int(i)) for i in rng.choice(between, failed, replace=False))
    policy = PathPolicy(4, priorities, max_hops=5)
    old = compute(network, policy, partial=True)
    new = compute(network.under(failures), policy, partial=True)
    with fabric_of(network, priorities) as fabric:
        before = fabric.installed()
        fabric.apply_failures(failures)
        fabric.replan(failures)
        after = fabric.installed()
    wires, lossless = wires_of(topology), (1 << priorities) - 1

    followed = Fabric(topology, before, lossless)
    pairs = all_pairs(network).tolist()
    followed.follow_all(pairs)
    lists = [(a, b, switches) for a, b, switches, _ in old]
    for source, target, switches in lists:
        assert max(followed.follow(source, target, switches)) < priorities
    later = Fabric(topology, after, lossless)
    later.waits = followed.waits  # both may be under way at once
    later.follow_all(pairs)
    for source, target, switches in [lists[int(i)] for i in rng.integers(0, len(lists), 60)]:
        later.follow(source, target, switches)
    for source, target, switches, _ in new:
        assert max(later.follow(source, target, switches)) < priorities
    assert not has_cycle(later.waits)

    checked = InstalledClasses(after, wires, lossless)
    for routes in (old, new):
        source = np.ascontiguousarray(routes.pairs[:, 0].astype(np.int64))
        assert checked.follow_listed(source, routes.first, routes.length, routes.columns).acyclic
    for state in (before, after):
        assert checked.follow_choices(plain_choices(state, topology, wires)).acyclic
    assert checked.follow_anywhere().acyclic
    classes = (schema.DSCP, schema.CHANNEL)
    for device in before:  # what classes packets does not change with routes
        kept = [[e for e in state[device] if getattr(e, "table", "") in classes] for state in (before, after)]
        assert kept[0] == kept[1]


@pytest.mark.parametrize("priorities", [1, 2])
def test_without_the_class_behind_the_last_one_both_find_a_cycle(priorities: int) -> None:
    network = fcplus(12, 6, 3, hosts=1, seed=1)
    topology, lossless = network.topology, (1 << priorities) - 1
    with fabric_of(network, priorities) as fabric:
        state = fabric.installed()
    unguarded = {
        device: [
            e
            for e in entities
            if not (
                isinstance(e, TableEntry) and e.table == schema.CHANNEL and e.members()[0]["priority"] == priorities
            )
        ]
        for device, entities in state.items()
    }
    followed = Fabric(topology, unguarded, lossless)
    followed.follow_all(all_pairs(network).tolist())
    wires = wires_of(topology)
    checked = InstalledClasses(unguarded, wires, lossless)
    waits = checked.follow_choices(plain_choices(unguarded, topology, wires))
    assert waits.acyclic == (not has_cycle(followed.waits))
    assert not waits.acyclic
    cycle = checked.follow_anywhere().cycle
    assert cycle
    ends = [name.split(" in ")[0].split(">") for name in cycle]
    assert all(a[1] == b[0] for a, b in zip(ends, [*ends[1:], ends[0]], strict=True))


# -- rises of priorities -------------------------------------------------------------------------------------


RISING_SHAPES = st.sampled_from([(16, 6, 3), (16, 6, 4), (20, 8, 5), (24, 10, 4), (24, 10, 6)])


def walk(network: Expander, switches: list[int], rising: list[set[tuple[int, int]]], last: int) -> list[int]:
    """The priority of every hop as the switches of a path switch it."""
    ports = {
        (s, int(peer)): int(network.hosts[s]) + 1 + column
        for s in switches
        for column, peer in enumerate(network.channels.neighbour[s].tolist())
    }
    priorities = [0]
    for (before, here), (_, after) in pairwise(pairwise(switches)):
        rises = (ports[here, before], ports[here, after]) in rising[here]
        priorities.append(min(last, priorities[-1] + rises))
    return priorities


@settings(max_examples=20, deadline=None)
@given(shape=RISING_SHAPES, seed=st.integers(1, 1000), priorities=st.integers(2, 3))
def test_switches_raise_the_priority_where_the_routes_do(
    shape: tuple[int, int, int], seed: int, priorities: int
) -> None:
    n, s, v = shape
    network = fcplus(n, s, v, hosts=1, seed=seed)
    routes = compute(network, PathPolicy(6, priorities, max_hops=5))
    rising = [set(transition_ports(network, switch)) for switch in range(n)]
    for row in np.random.default_rng(seed).integers(0, routes.total, 60).tolist():
        pair = int(np.searchsorted(routes.first, row, side="right")) - 1
        switches, planned = routes.path(row, int(routes.pairs[pair, 0]))
        assert walk(network, switches, rising, priorities - 1) == planned
    assert prove(routes).deadlock_free
