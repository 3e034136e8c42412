# SPDX-License-Identifier: Apache-2.0
"""Exchanges in phases on small fat-trees: barrier, spines, breaks in their midst, every message exactly once."""

from dataclasses import replace

import numpy as np
import pytest

from detour.base.errors import DetourError
from detour.base.times import US
from detour.control.fors import FatTree, solve
from detour.control.fors.paths import by_phase
from detour.experiments.fors.exchange import ExchangeRun, execute, planned, planner_of
from detour.fabric.traffic.barrier import tree_parents
from detour.fabric.traffic.outage import Break, Breaks, Delays, OutageController
from detour.fabric.traffic.phased import Pace, PhasedExchange, PhasedMessages
from detour.fabric.traffic.pinned import PinnedFabric

pytestmark = pytest.mark.slow

FABRIC = FatTree(4, 3)
PACE = Pace(message=200_000)
QUICKLY = Delays(plan_ps=20 * US)


def test_a_tree_joins_all_members_and_leaves_a_leaf_once() -> None:
    parents = tree_parents(range(24), 8, 2)
    assert set(parents) == set(range(1, 24))
    for host in parents:
        seen = {host}
        while host in parents:
            host = parents[host]
            assert host not in seen
            seen.add(host)
        assert host == 0
    assert sum(host // 8 != parent // 8 for host, parent in parents.items()) == 2
    assert max(np.bincount(list(parents.values()))) <= 4


@pytest.mark.parametrize(("members", "arity", "rule"), [([], 2, "needs hosts"), ([0, 1], 0, "at least 1")])
def test_trees_that_are_refused(members: list[int], arity: int, rule: str) -> None:
    with pytest.raises(DetourError, match=rule):
        tree_parents(members, 4, arity)


def test_phases_are_drawn_from_all_parts_of_a_schedule() -> None:
    messages, phases = planned(FABRIC, "ftree")
    assert (len(messages), phases) == (132, 11)
    part = messages.sample(3, seed=5)
    drawn = np.unique(part.phase)
    assert [1 <= drawn[0] < 4, 4 <= drawn[1] < 8, 8 <= drawn[2] < 12] == [True] * 3
    assert len({tuple(np.unique(messages.sample(3, seed).phase)) for seed in range(20)}) > 10
    assert messages.sample(11, seed=5) is messages
    assert [len(one) for one in by_phase(part.phase)] == [12, 12, 12]


def exchange_of(fabric: PinnedFabric, routing: str = "fors") -> PhasedExchange:
    return PhasedExchange(fabric, planned(fabric.tree, routing)[0], PACE)


def test_nobody_sends_before_the_last_phase_has_been_acknowledged_and_spines_carry_what_the_plan_says() -> None:
    messages, _ = planned(FABRIC, "fors")
    with PinnedFabric(FABRIC, connections=PhasedExchange.connections(messages)) as fabric:
        exchange = PhasedExchange(fabric, messages, PACE)
        for done in exchange.steps():
            posted = int((exchange.state == PhasedExchange.DELIVERED).sum())
            assert posted == sum(map(len, exchange.phase_flights[:done]))
            assert not (exchange.state == PhasedExchange.SENT).any()
        assert exchange.check().delivered == len(messages) == 132
        stats = fabric.network.port_stats()
        rx = dict(zip(zip(stats["device_id"], stats["port"], strict=True), stats["rx_bytes"], strict=True))
        for spine in range(FABRIC.spines):
            device = fabric.topology.switches[FABRIC.leaves + spine].device_id
            for leaf in range(FABRIC.leaves):
                through = (messages.src // FABRIC.spines == leaf) & (messages.path == spine)
                payload = int(through.sum()) * PACE.message
                assert payload <= rx[device, leaf + 1] <= payload * 1.12 + 100_000  # headers, answers, barrier


def test_a_phase_costs_a_message_and_a_barrier() -> None:
    result = execute(ExchangeRun(FABRIC, "ftree", pace=PACE))
    wire_us = PACE.message * 8 / 200e3
    assert result.most_flows_on_a_link.max == 1
    assert wire_us < result.phase_us.min <= result.phase_us.max < wire_us + 10
    assert 0 < result.barrier_us.mean < 4
    assert result.throughput_gbps == pytest.approx(11 / 12 * 8 * 200e3 / 1e3 * 12 / result.ms / 1e3, rel=0.01)


def test_shared_links_take_min_hop_longer_than_fors() -> None:
    failed = FABRIC.with_failed({(0, 0)})
    fors, minhop = (execute(ExchangeRun(failed, name, pace=PACE)) for name in ("fors", "minhop"))
    assert fors.most_flows_on_a_link.max == 1 < minhop.most_flows_on_a_link.max
    assert fors.throughput_gbps > 1.2 * minhop.throughput_gbps
    assert {r.exchange.delivered for r in (fors, minhop)} == {132}


def test_the_same_seed_gives_the_same_run() -> None:
    broken = Break(25 * US, frozenset({(1, 2)}))
    first, second = (execute(ExchangeRun(FABRIC, "fors", (broken,), pace=PACE, delays=QUICKLY)) for _ in range(2))
    assert replace(first, planning_seconds=[]) == replace(second, planning_seconds=[])


@pytest.mark.parametrize("routing", ["fors", "minhop", "ftree-ar"])
@pytest.mark.parametrize("silent", [False, True])
def test_a_link_that_breaks_in_the_midst_costs_no_message(routing: str, silent: bool) -> None:
    broken = Break(31 * US, frozenset({(0, 0), (1, 3)}), silent=silent)
    result = execute(ExchangeRun(FABRIC, routing, (broken,), pace=PACE, delays=QUICKLY))
    counts = result.exchange
    assert counts.delivered == counts.messages == 132
    assert (counts.missing, counts.repeated, counts.given_up) == (0, 0, 0)
    assert counts.retransmitted_packets > 0  # something was under way there
    story = result.detections[0]
    assert story.detected_by == ("probe" if silent else "port")
    assert sorted(link for one in result.detections for link in one.links) == ["0:0", "1:3"]
    times = [story.detected_us, story.hosts_told_us, story.planned_us, story.in_force_us]
    passed = [when for when in times if when is not None]
    assert len(passed) == 4
    assert 31 < passed[0] < passed[1] < passed[2] <= passed[3]


def test_after_the_new_plan_phases_are_as_short_as_before() -> None:
    broken = Break(31 * US, frozenset({(0, 0)}))
    result = execute(ExchangeRun(FABRIC, "fors", (broken,), pace=PACE, delays=QUICKLY))
    lengths, first = result.phase_lengths_us, result.detections[0].in_force_from_phase
    assert first is not None
    assert 2 < first < len(lengths) - 3
    assert max(lengths[first + 1 :]) < min(lengths[:2]) + 2


def test_links_that_several_flows_use_after_a_break_are_counted_as_they_were_used() -> None:
    """Until the new plan is in force hosts avoid dead links, sharing others; phases are longer, and it is said so."""
    broken = Break(31 * US, frozenset({(0, 0), (0, 1)}))
    late = Delays(plan_ps=200 * US)
    with PinnedFabric(FABRIC, connections=2 * 132 + 12) as fabric:
        exchange = exchange_of(fabric)
        exchange.add(Breaks([broken]))
        exchange.add(OutageController(exchange, planner_of("fors"), late))
        exchange.run()
    lengths, crowds = exchange.times.lengths() / US, np.array(exchange.crowds)
    assert len(crowds) == len(lengths)
    assert set(crowds.tolist()) == {1, 2}
    assert crowds[[0, 1, -1, -2]].tolist() == [1] * 4
    apart = crowds == 1
    apart[2] = False  # what was lost in the phase of the break is sent again
    assert lengths[apart].max() < lengths[crowds == 2].max()
    assert lengths[crowds == 2].min() > lengths[:2].max()


def test_planning_takes_as_long_as_it_took() -> None:
    broken = Break(31 * US, frozenset({(0, 0)}))
    result = execute(ExchangeRun(FABRIC, "fors", (broken,), pace=PACE))
    story = result.detections[0]
    assert result.plan_time == "measured"
    assert result.exchange.delivered == 132
    assert isinstance(result.planning_seconds, list)
    if story.planned_us is not None:  # the exchange may be over before
        assert story.detected_us is not None
        assert story.planned_us - story.detected_us == pytest.approx(result.planning_seconds[0] * 1e6, abs=2)
    given = execute(ExchangeRun(FABRIC, "fors", (broken,), pace=PACE, delays=QUICKLY))
    detection = given.detections[0]
    assert given.plan_time == "given"
    assert detection.planned_us is not None
    assert detection.detected_us is not None
    assert detection.planned_us - detection.detected_us == pytest.approx(20, abs=0.001)


def test_late_hosts_make_barriers_longer() -> None:
    plain, jittery, again = (
        execute(ExchangeRun(FABRIC, "fors", pace=replace(PACE, jitter_ps=jitter))) for jitter in (0, 2 * US, 2 * US)
    )
    assert plain.barrier_us.max + 1 < jittery.barrier_us.mean < plain.barrier_us.mean + 10
    assert jittery == again
    assert jittery.exchange.delivered == 132


@pytest.mark.parametrize("host", [5, 0])
def test_a_straggler_delays_every_phase_by_as_much(host: int) -> None:
    """Also if it is the barrier's root."""
    plain = execute(ExchangeRun(FABRIC, "fors", pace=PACE))
    late = execute(ExchangeRun(FABRIC, "fors", pace=replace(PACE, stragglers=((host, 7 * US),))))
    assert late.phase_us.mean == pytest.approx(plain.phase_us.mean + 7, abs=0.7)
    with pytest.raises(DetourError, match=r"straggler 12: no such server participates \(there are 12\)"):
        execute(ExchangeRun(FABRIC, "fors", pace=replace(PACE, stragglers=((12, US),))))
    with pytest.raises(DetourError, match="must be 0 or more"):
        replace(PACE, jitter_ps=-1)


def test_a_spine_that_dies_costs_no_message() -> None:
    broken = Break(45 * US, frozenset((leaf, 1) for leaf in range(3)))
    result = execute(ExchangeRun(FABRIC, "fors", (broken,), pace=PACE, delays=QUICKLY))
    assert result.exchange.delivered == 132
    assert result.detections[0].links == ["0:1", "1:1", "2:1"]


def test_one_break_after_another() -> None:
    breaks = tuple(Break(at * US, frozenset({link})) for at, link in ((31, (0, 0)), (120, (0, 1)), (124, (2, 2))))
    result = execute(ExchangeRun(FABRIC, "fors", breaks, pace=PACE, delays=QUICKLY))
    assert result.exchange.delivered == 132
    assert sum(len(one.links) for one in result.detections) == 3


def test_servers_that_are_not_there_take_no_part() -> None:
    fabric = FatTree(4, 3, population=(4, 2, 3))
    result = execute(ExchangeRun(fabric, "fors", pace=PACE))
    assert result.exchange.delivered == 9 * 8


def test_a_plan_may_not_repeat_or_invent_messages() -> None:
    messages, _ = planned(FABRIC, "fors")
    with PinnedFabric(FABRIC, connections=PhasedExchange.connections(messages)) as fabric:
        exchange = exchange_of(fabric)
        steps = exchange.steps()
        next(steps)
        sent = exchange.phase_flights[0][:1]
        waiting = exchange.waiting()
        for phases in ([sent], [waiting[0], waiting[0]]):
            with pytest.raises(DetourError, match="not been sent yet"):
                exchange.replace(phases, exchange.path)


@pytest.mark.parametrize(
    ("values", "rule"), [({"routing": "ecmp"}, "allowed: fors, ftree"), ({"phases": -1}, "0 means all")]
)
def test_refused_runs(values: dict, rule: str) -> None:
    with pytest.raises(DetourError, match=rule):
        ExchangeRun(FABRIC, **values)


def test_messages_to_oneself_need_no_network() -> None:
    plan = solve(FatTree(2, 2))
    assert len(PhasedMessages.of(plan)) == 12
    with pytest.raises(DetourError, match="at least 1"):
        Pace(message=0)


def test_leaves_without_a_common_spine_are_named_and_may_be_skipped() -> None:
    parted = FatTree(2, 3, frozenset({(0, 0), (1, 1)}))
    with pytest.raises(DetourError, match="leaves 0 and 1"):
        execute(ExchangeRun(parted, "minhop", pace=PACE))
    for routing in ("fors", "minhop"):  # the barrier goes the longer way, by leaf 2
        result = execute(ExchangeRun(parted, routing, pace=PACE, skip_unreachable=True))
        assert result.exchange.delivered == 30 - 8
        assert result.unreachable_leaves == [[0, 1]]
    with pytest.raises(DetourError, match="leaf 1 has no link left"):
        planned(FatTree(2, 3, frozenset({(1, 0), (1, 1)})), "fors", skip_unreachable=True)


@pytest.mark.parametrize("routing", ["fors", "minhop"])
def test_messages_that_lose_their_last_common_spine_are_given_up_and_the_others_delivered(routing: str) -> None:
    breaks = (Break(20 * US, frozenset({(0, 0)})), Break(25 * US, frozenset({(1, 1)})))
    result = execute(ExchangeRun(FatTree(2, 3), routing, breaks, pace=PACE, delays=QUICKLY))
    counts = result.exchange
    assert counts.missing == counts.repeated == 0
    assert 0 < counts.given_up <= 8
    assert counts.delivered + counts.given_up == counts.messages == 30
    assert result.unreachable_leaves == [[0, 1]]


def test_a_phase_that_cannot_end_is_given_up() -> None:
    broken = Break(5 * US, frozenset((0, spine) for spine in range(4)))
    slow = Delays(look_ps=10_000 * US, probe_ps=0, plan_ps=10_000 * US)
    with pytest.raises(DetourError, match="phase 0 of the exchange is stuck, nothing arrives for 500 us"):
        execute(ExchangeRun(FABRIC, "fors", (broken,), pace=Pace(message=200_000, limit_ps=500 * US), delays=slow))
