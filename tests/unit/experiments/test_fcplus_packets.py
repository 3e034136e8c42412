# SPDX-License-Identifier: Apache-2.0
"""The packet level of FC+: traffic, paths, completion times, deadlocks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from detour.base.times import US
from detour.control.expander import throughput
from detour.control.expander.demand import demand_of
from detour.control.expander.routes import PathPolicy, channels_of, compute
from detour.experiments.fcplus import deadlock as fcplus_deadlock
from detour.experiments.fcplus import experiment as fcplus
from detour.experiments.fcplus import experiment as fcplus_experiment
from detour.experiments.fcplus import packets as fcplus_packets
from detour.experiments.fcplus import paper as fcplus_paper
from detour.experiments.fcplus.packets import choose_paths
from detour.experiments.fcplus.results import NETWORKS, PacketsPoint, StuckPoint, answered
from detour.experiments.fcplus.tables import agrees, collect
from detour.experiments.messages import PACKET_BYTES, PAYLOAD, SIZES, Percentiles, draw, ideal_ps, mean_size, wire_bytes
from detour.fabric.backends.virtual.scheme import LinkSettings
from detour.topo.expander import equal_cost_clos
from detour.topo.expander import fcplus as build

RATE = 25_000_000_000
SMALL = PacketsPoint(n=24, s=10, v=4, hosts=2, k=8, network="KSP", pattern="near-worst", us=300)
DEADLOCK = StuckPoint(n=12, s=6, v=3, hosts=3, k=8, each=4, us=600, network="KSP", dcqcn=False)


# -- traffic ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", SIZES)
def test_the_load_is_what_is_asked_for(sizes: str) -> None:
    network = build(24, 10, 4, hosts=4, seed=1)
    result = draw(network, demand_of("uniform", network), 0.7, RATE, 400_000 * US, sizes, seed=3)
    sent = wire_bytes(result.size).sum() * 8 / 0.4
    assert sent == pytest.approx(0.7 * RATE * 24 * 4, rel=0.05)
    assert result.size.mean() == pytest.approx(mean_size(sizes), rel=0.05)


def test_web_search_has_the_mean_of_its_table() -> None:
    assert mean_size("web-search") == pytest.approx(1_711_250)
    assert mean_size("equal") == 500_000


def test_messages_follow_the_demand() -> None:
    network = build(24, 10, 4, hosts=4, seed=1)
    demand = demand_of("near-worst", network)
    result = draw(network, demand, 0.7, RATE, 20_000 * US, "equal", seed=3)
    switches = np.stack([result.source // 4, result.target // 4], axis=1)
    assert (switches == demand.pairs[result.pair]).all()
    assert set(result.source.tolist()) == set(result.target.tolist()) == set(range(96))
    assert (np.diff(result.at_ps) >= 0).all()
    assert result.at_ps.max() < 20_000 * US


def test_what_differs_between_networks_is_not_the_draw() -> None:
    one, clos = build(120, 22), equal_cost_clos(1200, 120)
    a, b = (draw(n, demand_of("all-to-all", n), 0.7, RATE, 500 * US, "web-search", seed=1) for n in (one, clos))
    assert np.array_equal(a.at_ps, b.at_ps)
    assert np.array_equal(a.size, b.size)
    assert not np.array_equal(a.source, b.source)


def test_paths_are_drawn_as_the_shares_say() -> None:
    network = build(24, 10, 4, hosts=2, seed=1)
    demand = demand_of("near-worst", network)
    routes = compute(network, PathPolicy(4, 2), demand.pairs)
    messages = draw(network, demand, 0.7, RATE, 2_000_000 * US, "equal", seed=1)
    fractions = np.tile([0.5, 0.0, 0.3, 0.2], len(demand.pairs))
    rows = choose_paths(routes, fractions, messages)
    assert (np.searchsorted(routes.first, rows, side="right") - 1 == messages.pair).all()
    counts = np.bincount(rows - routes.first[messages.pair], minlength=4) / len(rows)
    assert counts == pytest.approx([0.5, 0.0, 0.3, 0.2], abs=0.02)


@pytest.mark.parametrize("limit", [throughput.EXACT_PATHS, 0], ids=["HiGHS", "approximation"])
@pytest.mark.parametrize("pattern", ["all-to-all", "near-worst"])
def test_the_shares_carry_the_throughput_that_they_stand_for(
    pattern: str, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = build(24, 10, 4, hosts=2, seed=1)
    demand = demand_of(pattern, network)
    routes = compute(network, PathPolicy(8, 2), demand.pairs)
    theta = throughput.solve(routes, demand, "exact").theta
    begin, channels = channels_of(routes)
    monkeypatch.setattr(throughput, "EXACT_PATHS", limit)
    fractions = throughput.fractions(routes, demand, gap=0.01)
    assert np.add.reduceat(fractions, routes.first[:-1]) == pytest.approx(np.ones(len(demand.pairs)))
    flow = fractions * np.repeat(demand.amount, np.diff(routes.first))
    load = np.bincount(channels, weights=np.repeat(flow, np.diff(begin)))
    assert 1 / load.max() == pytest.approx(theta, rel=0.01)


# -- runs ---------------------------------------------------------------------------------------------------


def test_an_idle_network_slows_nothing_down() -> None:
    """One message at a time: nearly the ideal time, on one link between switches a little less, on three more."""
    size = np.array([500_000])
    assert ideal_ps(size, LinkSettings(rate_bps=RATE))[0] == (500 * PACKET_BYTES + 2 * PACKET_BYTES) * 320 + 6 * US
    assert PAYLOAD == 1000
    result = fcplus_packets.run(replace(SMALL, pattern="uniform", us=5))
    assert result.messages > 0
    assert 0.97 < result.slowdown.p50 < 1.06


@pytest.mark.parametrize("network", ["FC+ 2L", "FC+ 1L", "KSP"])
def test_messages_are_delivered_without_loss(network: str) -> None:
    point = replace(SMALL, network=network)
    result = fcplus_packets.run(point)
    assert result.messages > 20
    assert (result.unfinished, result.drops, result.retransmitted) == (0, 0, 0)
    assert not result.deadlock
    assert 1 <= result.mean_hops <= 5
    assert result.slowdown_percentiles == sorted(result.slowdown_percentiles)
    if network == "KSP":
        assert fcplus_packets.run(point) == result


@pytest.mark.parametrize("dcqcn", [False, True])
def test_ksp_deadlocks_under_pfc_in_one_priority_and_fc_plus_never(dcqcn: bool) -> None:
    outcome = {
        name: fcplus_deadlock.run(replace(DEADLOCK, network=name, dcqcn=dcqcn)) for name in ("KSP", "FC+ 1L", "FC+ 2L")
    }
    ksp = outcome.pop("KSP")
    assert ksp.deadlock
    assert ksp.remains
    assert ksp.stuck_queues >= 3
    assert ksp.goodput_gbps_after < 0.2 * ksp.goodput_gbps_before
    for safe in outcome.values():
        assert not safe.deadlock
        assert safe.pauses > 500
        assert safe.goodput_gbps_after > 0.8 * safe.goodput_gbps_before
    assert all(result.drops == 0 for result in (ksp, *outcome.values()))


# -- points and tables --------------------------------------------------------------------------------------


def test_all_printed_completion_times_have_points() -> None:
    points = fcplus_experiment.packet_level(full=False)
    assert {(p.network, p.pattern) for p in points if isinstance(p, PacketsPoint)} == {
        (network, pattern) for pattern, row in fcplus_paper.TABLE_8_FCT.items() for network in row
    }
    assert all(p in fcplus.select("normal") for p in points)
    assert sum(map(fcplus.seconds, points)) < 1200


def test_orders_agree_if_no_pair_is_the_other_way_round() -> None:
    theirs = {"a": 4.70, "b": 4.74, "c": 5.02}
    assert agrees({"a": 1.0, "b": 2.0, "c": 3.0}, theirs)
    assert agrees({"a": 2.0, "b": 1.0, "c": 3.0}, theirs), "the paper hardly tells a from b"
    assert not agrees({"a": 3.0, "b": 1.0, "c": 2.0}, theirs)


def result_of(network: str, p50: float) -> PacketsPoint:
    times = Percentiles(p50, p50, p50, 2 * p50)
    return answered(
        replace(SMALL, network=network), mean_hops=2.0, messages=9, bytes=9 * 500_000, fct_us=times,
        slowdown=times, slowdown_percentiles=[p50] * 101, unfinished=0, deadlock=False, virtual_ms=1.0, marked=0,
        pauses=0, drops=0, retransmitted=0, buffer_peak_bytes=1_000, packet_hops=9_000,
    )  # fmt: skip


def test_rows_stand_beside_the_papers() -> None:
    results = [result_of(network, 1.0 + k) for k, network in enumerate(NETWORKS)]
    collected = collect(results)
    assert collected.completion[0].paper_p50 == 68.713
    assert collected.order[0].agrees is False  # 1L before KSP
    assert collected.order[0].paper == ["FC+ 2L", "KSP", "FC+ 1L", "FC", "Clos"]
    assert collected.deadlocks == []
