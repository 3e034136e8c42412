# SPDX-License-Identifier: Apache-2.0
"""FC+'s routes beside others under real transports: which points there are, and that each does what it says."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from msgspec import UNSET, UnsetType

from detour import cli
from detour.base.errors import DetourError
from detour.base.times import US
from detour.control.expander.demand import demand_of, hop_distances
from detour.control.expander.routes import ExpanderRoutes, PathPolicy, compute
from detour.control.policy import Amount, RedMarking, StepMarking
from detour.experiments.fcplus import experiment, transports
from detour.experiments.fcplus import experiment as fcplus
from detour.experiments.fcplus.packets import RATE_BPS
from detour.experiments.fcplus.results import TransportPoint, TransportSetting
from detour.experiments.fcplus.settings import SETTINGS_SEED, candidates, chosen_setting, stored_settings, swept
from detour.experiments.fcplus.tables import transport_rows
from detour.experiments.messages import draw
from detour.fabric.backends.virtual.scheme import LinkSettings, RunSettings
from detour.fabric.traffic.expander import ExpanderFabric, lists_of
from detour.hosts.verbs.bulk import PathSets
from detour.topo import expander


def point(
    routing: str,
    transport: str = "lossless",
    pattern: str = "uniform",
    setting: TransportSetting | UnsetType = UNSET,
    load: float = 0.5,
) -> TransportPoint:
    return TransportPoint(
        n=24,
        s=10,
        hosts=2,
        us=400,
        load=load,
        k=8,
        routing=routing,
        transport=transport,
        pattern=pattern,
        setting=setting,
    )


@pytest.mark.parametrize("transport", ["lossless", "lossy"])
@pytest.mark.parametrize("routing", experiment.ROUTING_NAMES)
def test_every_routing_delivers_all_messages(routing: str, transport: str) -> None:
    result = transports.run(point(routing, transport))
    assert (result.unfinished, result.deadlock) == (0, False)
    assert 0 < result.goodput_gbps < result.offered_gbps * 1.01
    assert 1 <= result.slowdown.p50 <= result.slowdown.p99
    assert result.buffer_peak_bytes > 0
    assert (result.detours > 0) == routing.startswith("UGAL-L")
    assert result.drops == 0
    if transport == "lossless":
        assert result.retransmitted == 0
    else:
        assert result.pauses == 0


def test_a_run_is_the_same_again() -> None:
    assert transports.run(point("SprayLERP")) == transports.run(point("SprayLERP"))


def test_paths_are_those_of_the_routing() -> None:
    network = expander.fcplus(24, 10, hosts=2)
    demand = demand_of("uniform", network, 1)
    far = hop_distances(network)
    shortest, union = (transports._routes(point(name), network, demand) for name in ("UGAL-L", "shortest-union"))
    for routes, fractions in (shortest, union):
        assert np.add.reduceat(fractions, routes.first[:-1]) == pytest.approx(1)
    for i, (a, b) in enumerate(demand.pairs.tolist()):
        for (routes, fractions), most in ((shortest, far[a, b]), (union, max(2, far[a, b]))):
            rows = slice(routes.first[i], routes.first[i + 1])
            assert ((fractions[rows] > 0) == (routes.length[rows] <= most)).all()


def test_detours_pass_a_third_switch_and_begin_at_the_ports_that_are_looked_at() -> None:
    network = expander.fcplus(24, 10, hosts=2)
    demand = demand_of("uniform", network, 1)
    messages = draw(network, demand, 0.5, RATE_BPS, 400 * US, "equal", 1)
    pairs = list(zip(messages.source.tolist(), messages.target.tolist(), strict=True))
    ways = transports._ways(point("UGAL-L"), network, demand, messages, pairs)
    assert ways.other_links is not None
    assert ways.ports is not None
    assert (ways.other_links >= ways.links).all()
    assert ways.other_links.max() <= 5
    for (device, port), source in zip(
        ((int(key) // 1024, int(key) % 1024) for key in ways.ports[:, 1]), messages.source.tolist(), strict=True
    ):
        switch = network.topology.switches[device - 1]
        assert switch.index == network.topology.hosts[source].switch
        peer = switch.peer(port)
        assert peer is not None
        assert peer.kind == "local"


def test_shallow_memory_drops_and_all_arrives_nonetheless() -> None:
    step = TransportSetting("dctcp", (80_000,))
    result = transports.run(point("KSP", "shallow", "near-worst", step, load=1.5))
    assert (result.unfinished, result.pauses) == (0, 0)
    assert 0 < result.drops <= result.retransmitted
    assert result.buffer_peak_bytes < (10 + 2) * 40_000


# -- SprayLERP --------------------------------------------------------------------------------------------


class Sprayed(NamedTuple):
    """FC+'s lists of a fabric's pairs of switches, and messages with the pair of each."""

    routes: ExpanderRoutes
    sets: PathSets
    links: np.ndarray
    pair_of: np.ndarray
    ends: np.ndarray


def sprayed(first: bool) -> Sprayed:
    network = expander.fcplus(24, 10, hosts=2)
    demand = demand_of("near-worst", network, 1)
    messages = draw(network, demand, 0.5, RATE_BPS, 400 * US, "equal", 1)
    setting = TransportSetting("dctcp", (40_000,), shortest_first=first)
    sets, links = transports._sprays(point("SprayLERP", setting=setting), network, demand)
    routes = compute(network, PathPolicy(8, 2, max_hops=5), demand.pairs)
    return Sprayed(routes, sets, links, messages.pair, np.stack([messages.source, messages.target], axis=1))


def test_packets_choose_among_the_lists_of_their_pair() -> None:
    routes, sets, links, pair_of, ends = sprayed(first=True)
    nodes = np.array([host.node_id for host in routes.network.topology.hosts])
    lists = sets.lists(pair_of, nodes[ends[:, 1]])
    for k, pair in enumerate(pair_of.tolist()):
        rows = range(int(routes.first[pair]), int(routes.first[pair + 1]))
        assert sets.counts[pair] == len(rows)
        assert lists[k, : len(rows)].tolist() == lists_of(routes, [tuple(ends[k])] * len(rows), rows).tolist()
        lengths = routes.length[rows.start : rows.stop].tolist()
        assert links[pair, : len(rows)].tolist() == lengths == sorted(lengths)
        assert sets.shortest[pair] == lengths.count(lengths[0])
    assert (sets.shortest < sets.counts).any()
    alike = sprayed(first=False).sets
    assert (alike.shortest == alike.counts).all()


def one_message(case: Sprayed, transport: str, settings: RunSettings) -> ExpanderFabric:
    scheme = transports.TRANSPORTS[transport].scheme("SprayLERP", None)
    fabric = ExpanderFabric(case.routes.network, scheme, settings, queue_pairs=1)
    fabric.connect([tuple(case.ends[0].tolist())])
    return fabric


def test_a_message_is_spread_over_several_of_its_lists() -> None:
    case = sprayed(first=False)
    with one_message(case, "lossless", RunSettings(LinkSettings(rate_bps=RATE_BPS), seed=1)) as fabric:
        fabric.give_sets(np.arange(1), case.ends[:1], case.pair_of[:1], case.sets, "spray")
        fabric.send(500_000)
        fabric.run(1000 * US)
        assert fabric.unfinished() == 0
        packets, count = fabric.hs.candidate["packets"][fabric.flows.sender[0]], case.sets.counts[case.pair_of[0]]
        assert packets.sum() == 500
        assert (packets[:count] > 0).sum() > 4
        assert packets[count:].sum() == 0


def test_more_lists_than_hosts_have_room_for_are_refused() -> None:
    case = sprayed(first=False)
    sets = case.sets._replace(
        words=np.repeat(case.sets.words, 5, axis=1), shift=np.repeat(case.sets.shift, 5, axis=1),
        weights=np.repeat(case.sets.weights, 5, axis=1),
    )  # fmt: skip
    with (
        one_message(case, "lossy", RunSettings()) as fabric,
        pytest.raises(DetourError, match="40 paths of a connection; hosts have room for 32"),
    ):
        fabric.give_sets(np.arange(1), case.ends[:1], case.pair_of[:1], sets, "spray")


# -- settings ---------------------------------------------------------------------------------------------


def test_the_stored_sweep_has_tried_everything_and_the_best_is_chosen() -> None:
    expected = {(one.transport, one.routing): one.tried for one in stored_settings()}
    assert len(expected) == len(experiment.TRANSPORT_NAMES) * len(experiment.ROUTING_NAMES)
    for (transport, routing), tried in expected.items():
        assert {one.setting for one in tried} == set(candidates(transport, routing))
        assert chosen_setting(transport, routing) == tried[0].setting
        best = min(
            one.score
            for one in tried
            if all(one.gbps[name] >= 0.98 * max(other.gbps[name] for other in tried) for name in one.gbps)
        )
        assert tried[0].score == best
        for one in tried:
            assert one.score == pytest.approx(math.sqrt(math.prod(one.p99.values())), abs=0.001)


def test_a_sweep_is_told_from_results_and_ranked() -> None:
    good, bad = TransportSetting("dctcp", (20_000,)), TransportSetting("dctcp", (1_000,))
    one = transports.run(point("ECMP", "lossy", setting=good))
    results = [
        replace(one, seed=SETTINGS_SEED, setting=setting, pattern=pattern, goodput_gbps=gbps)
        for setting, gbps in ((bad, 97.0), (good, 100.0))
        for pattern in ("uniform", "near-worst")
    ]
    (result,) = swept([*results, one])
    assert (result.transport, result.routing) == ("lossy", "ECMP")
    assert [tried.text for tried in result.tried] == ["DCTCP 20 kB", "DCTCP 1 kB"]
    (row,) = transport_rows([*results, one, replace(one, seed=2, goodput_gbps=one.goodput_gbps + 2)])
    assert (row.draws, row.setting) == (2, "DCTCP 20 kB")
    assert row.goodput_gbps.mean == pytest.approx(one.goodput_gbps + 1)
    assert row.goodput_gbps.spread == pytest.approx(math.sqrt(2), abs=0.1)


def test_settings_are_what_runs_use() -> None:
    dcqcn = TransportSetting("dcqcn", (20_000, 100_000), 0.2, 1000)
    scheme = transports.TRANSPORTS["lossless"].scheme("FC+ 2L", dcqcn)
    assert (scheme.control, scheme.channels, scheme.pfc) == ("dcqcn", 2, True)
    assert dict(scheme.hosts)["dcqcn_min_bps"] == 10**9
    assert scheme.ecn == RedMarking(Amount(20_000, "bytes"), Amount(100_000, "bytes"), 0.2)
    step = TransportSetting("dctcp", (20_000,))
    for transport in ("lossless", "lossy"):
        for routing in ("FC+ 2L", "SprayLERP"):
            chosen = transports.TRANSPORTS[transport].scheme(routing, step)
            assert (chosen.control, chosen.ecn) == ("dctcp", StepMarking(Amount(20_000, "bytes")))
    near, far = (
        transports.run(point("UGAL-L", "lossy", "near-worst", TransportSetting("dctcp", (80_000,), bias_bytes=bias)))
        for bias in (0, 1_000_000_000)
    )
    assert near.detours > far.detours == 0


def test_which_points_there_are() -> None:
    points = fcplus.select("normal", seeds=2, part="transports")
    assert len(points) == len(set(points)) == 2 * 2 * 3 * len(experiment.ROUTING_NAMES)
    assert len(fcplus.select("normal", part="transports")) == 5 * len(points) / 2
    tried = fcplus.select("normal", part="settings")
    assert {p.seed for p in tried} == {SETTINGS_SEED}
    assert not {p.seed for p in fcplus.select("full", part="transports")} & {SETTINGS_SEED}
    assert set(experiment.TRANSPORT_NAMES) == set(transports.TRANSPORTS)
    assert set(experiment.ROUTING_NAMES) == set(transports.LOSSLESS_PRIORITIES)
    assert not any(isinstance(p, TransportPoint) for p in fcplus.select("full"))
    assert all(0 < fcplus.seconds(p) < 60 for p in points)


def test_unknown_routings_are_refused() -> None:
    network = expander.fcplus(24, 10, hosts=2)
    with pytest.raises(DetourError, match="routing 'RIP'; there are FC"):
        transports._routes(point("RIP"), network, demand_of("uniform", network, 1))


def test_its_figures_are_the_papers(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    plot = tmp_path / "none.svg"
    assert cli.main(["reproduce", "fcplus", "--part", "transports", "--plot", str(plot), "--json"]) == 2
    out, err = capsys.readouterr()
    assert "--part transports has none" in err
    assert not out
