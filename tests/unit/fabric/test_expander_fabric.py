# SPDX-License-Identifier: Apache-2.0
"""An FC+ fabric in virtual time: planned paths deliver, and links that fail cost time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from detour.base.errors import DetourError
from detour.base.times import US
from detour.control.expander.routes import PathPolicy, compute
from detour.control.verifier.dependencies import InstalledClasses, plain_choices, wires_of
from detour.fabric.backends.virtual.scheme import RunSettings
from detour.fabric.traffic.expander import BY_ADDRESS, ExpanderFabric, lists_anew, lists_of, scheme_of
from detour.topo.expander import fcplus
from detour.topo.failures import Failures, parse_failure
from detour.topo.paths import named_switches

NETWORK = fcplus(12, 6, 3, hosts=2, seed=3)
TWO = compute(NETWORK, PathPolicy(12, 2, max_hops=5))


def turning_rows(count: int) -> list[tuple[int, int, int]]:
    """(row, source, destination switch) of paths that go down and up again, long ones first."""
    rows = []
    for i, (source, target) in enumerate(TWO.pairs.tolist()):
        for row in range(int(TWO.first[i]), int(TWO.first[i + 1])):
            switches, priorities = TWO.path(row, source)
            if priorities[-1] == 1:
                rows.append((-len(switches), row, source, target))
    return [(row, source, target) for _, row, source, target in sorted(rows)[:count]]


def port_between(a: int, b: int) -> int:
    ports = NETWORK.topology.switches[a].ports
    return next(n for n, peer in enumerate(ports, 1) if peer and peer.kind != "host" and peer.index == b)


def connected(rows: Sequence[tuple[int, int, int]]) -> ExpanderFabric:
    pairs = pairs_of(rows)
    fabric = ExpanderFabric(NETWORK, scheme_of("2L", 2), RunSettings(), queue_pairs=len(pairs))
    fabric.connect_routed(pairs, lists_of(TWO, pairs, [row for row, _, _ in rows]))
    return fabric


def pairs_of(rows: Sequence[tuple[int, int, int]]) -> list[tuple[int, int]]:
    """A host of the source switch, one of the destination's."""
    hosts_of = NETWORK.topology.hosts_of
    return [(hosts_of[a][0].index, hosts_of[b][1].index) for _, a, b in rows]


def test_every_planned_path_delivers() -> None:
    """All paths of some pairs at once, whatever their priorities."""
    rows = [
        (row, source, target)
        for i, (source, target) in enumerate(TWO.pairs.tolist())
        if i % 11 == 0
        for row in range(int(TWO.first[i]), int(TWO.first[i + 1]))
    ]
    with connected(rows) as fabric:
        fabric.send(3_000)
        fabric.run(2_000 * US)
        assert len(rows) > 100
        assert fabric.unfinished() == 0
        assert fabric.column("st_rx_bytes").tolist() == [3_000] * len(rows)
        assert fabric.column("st_retransmitted").sum() == 0
        assert fabric.deadlock() == []


def test_inside_a_switch_and_by_address_no_list_is_needed() -> None:
    pairs = [(0, 1), (0, 23)]
    with ExpanderFabric(NETWORK, scheme_of("1L", 1), RunSettings(), queue_pairs=2) as fabric:
        fabric.connect_routed(pairs, lists_of(TWO, pairs, [BY_ADDRESS, BY_ADDRESS]))
        fabric.send(10_000)
        fabric.run(200 * US)
        assert fabric.unfinished() == 0


def test_pfc_is_per_priority_of_the_routes() -> None:
    assert scheme_of("KSP", 0).lossless == 0b1
    assert scheme_of("2L", 2).lossless == 0b11
    assert scheme_of("2L", 2).policy.channels == 2
    assert not scheme_of("2L", 2).policy.valiant
    assert [scheme_of("", count).policy.channels for count in (0, 1, 6)] == [0, 1, 6]
    with pytest.raises(DetourError, match="expected 1 to 6"):
        scheme_of("7L", 7)


def test_a_link_that_is_down_for_a_while_costs_time_and_no_message() -> None:
    """Its pauses are forgotten at both ends: nothing waits for ever for a link that has come back."""
    rows = turning_rows(40)
    first, _ = TWO.path(rows[0][0], rows[0][1])
    end = NETWORK.topology.switches[first[0]].device_id, port_between(first[0], first[1])
    with connected(rows) as fabric:
        fabric.send(1_000_000)
        fabric.run(30 * US)
        fabric.network.set_link(end, False)
        fabric.run(12_000 * US)
        assert fabric.unfinished() > 0
        fabric.network.set_link(end, True)
        fabric.run(200_000 * US)
        assert fabric.unfinished() == 0
        assert fabric.column("st_rx_bytes").tolist() == [1_000_000] * len(rows)
        assert fabric.column("st_rtos").sum() > 0
        assert fabric.deadlock() == []


def change(fabric: ExpanderFabric, failures: Failures, lists: np.ndarray) -> None:
    """As `detour fail` and `detour heal` do it: what fails is dead first, then senders hear of it, then switches; what
    comes back is there first, then in the tables, then on the lists."""
    back = failures < fabric.failures
    fabric.apply_failures(failures)
    if back:
        fabric.replan(failures)
    fabric.lead(lists)
    if not back:
        fabric.replan(failures)


def test_links_fail_and_come_back_while_senders_send() -> None:
    """One failure after the other, then back: at every step no list uses what is down, what switches hold and what
    senders send by has no cycle of waits, and all arrives."""
    rows, topology = turning_rows(60), NETWORK.topology
    pairs = pairs_of(rows)
    chosen = [row for row, _, _ in rows]
    first = TWO.path(*rows[0][:2])[0]
    names = [f"s{first[0]}-s{first[1]}", f"s{first[2]}-s{first[1]}"]
    one, both = (frozenset(parse_failure(topology, name) for name in some) for some in (names[:1], names))
    own = lists_of(TWO, pairs, chosen)
    wires = wires_of(topology)
    followed = None
    with ExpanderFabric(NETWORK, scheme_of("2L", 2), RunSettings(), queue_pairs=len(pairs)) as fabric:
        fabric.connect_routed(pairs, own)
        fabric.send(400_000)
        moved = []
        for step, failures in enumerate((one, both, one, frozenset())):
            fabric.run((step + 1) * 15 * US)
            change(fabric, failures, lists_anew(TWO, pairs, chosen, own, failures))
            candidate, senders = fabric.hs.candidate, fabric.flows.sender
            now = np.stack([candidate[name][senders, 0] for name in ("dst_hi", "dst_lo")], axis=1)
            moved.append(int((now != own).any(axis=1).sum()))
            assert now.tolist() == lists_anew(TWO, pairs, chosen, own, failures).tolist()
            held = fabric.installed()
            # What was followed before stays: packets by old lists may be under way still.
            followed = followed or InstalledClasses(held, wires, 0b11)
            assert followed.follow_choices(plain_choices(held, topology, wires)).acyclic
            assert followed.follow_paths(used(now, pairs)).acyclic
        assert 0 < moved[0] < moved[1]
        assert fabric.failures == frozenset()
        assert now.tolist() == own.tolist()
        fabric.run(200_000 * US)
        assert fabric.unfinished() == 0
        assert fabric.column("st_rx_bytes").tolist() == [400_000] * len(pairs)
        assert fabric.deadlock_found is None


def used(lists: np.ndarray, pairs: Sequence[tuple[int, int]]) -> list[tuple[int, ...]]:
    """The switches of uSID lists that name them."""
    paths, hosts = [], NETWORK.topology.hosts
    for (high, low), (source, _) in zip(lists.tolist(), pairs, strict=True):
        if high:
            text = f"{high & (1 << 64) - 1:016x}{low & (1 << 64) - 1:016x}"
            usids = [usid for i in range(8, 32, 4) if (usid := int(text[i : i + 4], 16))]
            switches = named_switches(NETWORK.topology, hosts[source], usids)
            assert switches is not None
            paths.append(switches)
    return paths
