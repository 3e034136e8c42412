# SPDX-License-Identifier: Apache-2.0
"""Links fail in a small FC+ fabric whose memory is shallow and whose senders nothing holds: without the class behind
the last one it locks up, and the watcher says at once who waits for whom; with it, it does not."""

from __future__ import annotations

import logging
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from detour.base.times import US
from detour.cli import main
from detour.control.expander.routes import PathPolicy, compute
from detour.experiments.fcplus import deadlock
from detour.experiments.fcplus.experiment import packet_level
from detour.experiments.fcplus.results import StuckPoint
from detour.experiments.nonshortest import deadlock as figure_2
from detour.fabric.backends.virtual.fabric import VirtualFabric
from detour.fabric.backends.virtual.scheme import (
    BENCHMARK,
    BENCHMARK_DCTCP,
    ROCE_WITH_PFC,
    SHORTEST_PATH,
    TELEMETRY_LERP,
    RunSettings,
    Scheme,
)
from detour.fabric.backends.virtual.watch import WATCH_PS, DeadlockFound, DeadlockWatch
from detour.fabric.traffic.expander import BY_ADDRESS, ExpanderFabric, lists_anew, lists_of, scheme_of
from detour.fabric.traffic.open_loop import REFERENCES, OpenLoop, reference
from detour.topo import parse_topology
from detour.topo.expander import fcplus
from detour.topo.failures import parse_failure

DOWN = [point for point in packet_level(False) if isinstance(point, StuckPoint) and isinstance(point.fail, str)]


def test_three_failed_links_lock_up_what_has_no_class_behind_the_last_one(caplog: pytest.LogCaptureFixture) -> None:
    point = next(point for point in DOWN if point.guard is False)
    with caplog.at_level(logging.WARNING):
        result = deadlock.run(point)
    assert result.deadlock
    assert result.remains
    assert result.goodput_gbps_after < result.goodput_gbps_before / 10
    assert isinstance(result.circle, list)
    assert len(result.circle) > 1
    message = caplog.messages[0]
    assert message.startswith(f"deadlock at {result.found_at_us:g} us of virtual time, {result.stuck_queues} queues")
    for queue in result.circle:
        assert f" {queue} waits for " in message


@pytest.mark.parametrize("network", ["FC+ 1L", "FC+ 2L"])
def test_with_it_they_go_on(network: str, caplog: pytest.LogCaptureFixture) -> None:
    point = next(point for point in DOWN if point.network == network and point.guard is not False)
    for seed in (1, 2):
        result = deadlock.run(replace(point, us=400, seed=seed))
        assert not result.deadlock
        assert result.goodput_gbps_after > result.goodput_gbps_before / 2
        assert isinstance(result.goodput_gbps_anew, float)
        assert result.goodput_gbps_anew > result.goodput_gbps_before / 2
    assert not caplog.messages


def test_looking_changes_nothing() -> None:
    network = fcplus(12, 6, 3, hosts=3, seed=1)
    routes = compute(network, PathPolicy(8, 1, max_hops=5))
    pairs, rows = deadlock.draw(routes, 4, 1)
    seen = []
    for watched in (True, False):
        with ExpanderFabric(network, scheme_of("1L", 1), RunSettings(), queue_pairs=len(pairs)) as fabric:
            fabric.connect_routed(pairs, lists_of(routes, pairs, rows))
            fabric.send(200_000)
            if watched:
                fabric.run(10 * WATCH_PS + 1)
            else:
                fabric.network.run(10 * WATCH_PS + 1)
            seen.append((fabric.deadlock_found, fabric.column("st_rx_bytes").tolist()))
    assert seen[0] == seen[1]


def looks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Times, ps, at which watchers look from now on."""
    times: list[int] = []
    look = DeadlockWatch._look

    def noting(watch: DeadlockWatch) -> None:
        times.append(watch._network.now_ps)
        look(watch)

    monkeypatch.setattr(DeadlockWatch, "_look", noting)
    return times


@pytest.mark.parametrize(
    "scheme", [BENCHMARK, BENCHMARK_DCTCP, SHORTEST_PATH, ROCE_WITH_PFC, TELEMETRY_LERP], ids=lambda scheme: scheme.name
)
def test_whatever_pauses_is_watched_and_nothing_else(scheme: Scheme, monkeypatch: pytest.MonkeyPatch) -> None:
    times = looks(monkeypatch)
    with VirtualFabric(parse_topology("d1"), scheme) as fabric:
        fabric.run(3 * WATCH_PS)
        fabric.clock.wait(fabric.now_ps + 2 * WATCH_PS)
        idle = list(times)
        fabric.connect([(0, 70)])
        fabric.send(1_000_000)  # 80 us at 100 Gb/s
        fabric.run(8 * WATCH_PS)
    # Where nothing is paused and no event is due nothing has changed, so nobody looks until the end of a run.
    assert [time // WATCH_PS for time in idle] == ([1, 4] if scheme.pfc else [])
    assert [time // WATCH_PS for time in times] == ([1, 4, 6, 7, 8] if scheme.pfc else [])


@pytest.mark.parametrize("name", REFERENCES)
def test_runs_of_qcn_switch_are_watched(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    times = looks(monkeypatch)
    with OpenLoop(parse_topology("d1"), reference(name), load=0.1) as fabric:
        fabric.measure(WATCH_PS, 2 * WATCH_PS)
    assert times == [WATCH_PS, 2 * WATCH_PS, 3 * WATCH_PS]


def test_runs_of_the_non_shortest_paper_say_who_waits(caplog: pytest.LogCaptureFixture) -> None:
    run = next(figure_2.run(point) for point in figure_2.select() if point.case == "PFC, 1 VC")
    (message,) = caplog.messages
    assert " us of virtual time, 6 queues are stuck: " in message
    assert message.count(" waits for ") == 6
    assert run.found_at_us is not None
    # The run itself looks more often. Two looks: between them nothing has moved.
    assert 0 <= float(message.split()[2]) - run.found_at_us <= 2 * WATCH_PS / US


def test_detour_sim_says_who_waits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Five switches in a ring, everybody sends two switches on: shortest paths close a cycle."""
    count, hosts = 5, 3
    links = [(f"h{hosts * i + j}", f"s{i}") for i in range(count) for j in range(hosts)]
    links += [(f"s{i}", f"s{(i + 1) % count}") for i in range(count)]
    (tmp_path / "ring.csv").write_text("a,b\n" + "".join(f"{a},{b}\n" for a, b in links))
    (tmp_path / "mine.py").write_text(
        "from detour.fabric.backends.virtual.scheme import ROCE_WITH_PFC as pausing\n"
        "def around(topology):\n"
        "    return [(i, (i + 6) % 15, 1_000_000) for i in range(15)]\n"
    )
    mine = f"{tmp_path / 'mine.py'}"
    options = ["--workload", f"{mine}:around", "--scheme", f"{mine}:pausing", "--buffer", "40k", "--duration", "5ms"]
    main(["sim", "--topo", str(tmp_path / "ring.csv"), *options])
    message = "5 queues are stuck: s0-s1, priority 0 waits for s1-s2, priority 0 waits for s2-s3, priority 0 waits for"
    assert message in " ".join(capsys.readouterr().out.split())


def test_what_it_says() -> None:
    error = DeadlockFound(120 * US, ((1, 1, 0), (2, 1, 0)), ("s0-s1, priority 0", "s1-s0, priority 0"))
    text = "s0-s1, priority 0 waits for s1-s0, priority 0 waits for s0-s1, priority 0"
    assert str(error) == f"deadlock at 120 us of virtual time, 2 queues are stuck: {text}"


@pytest.mark.parametrize("priorities", [1, 2])
def test_new_lists_leave_out_what_is_down_and_stay_lossless(priorities: int) -> None:
    network = fcplus(12, 6, 3, hosts=3, seed=1)
    topology = network.topology
    routes = compute(network, PathPolicy(8, priorities, max_hops=5))
    failures = frozenset(parse_failure(topology, name) for name in ("s6-s1", "s0-s10", "s7-s2"))
    dead = {frozenset(ends) for ends in ((6, 1), (0, 10), (7, 2))}
    pairs, rows = deadlock.draw(routes, 2, 1)
    rows[0] = BY_ADDRESS
    lists = lists_of(routes, pairs, rows)
    anew = lists_anew(routes, pairs, rows, lists, failures)
    broken = compute(network.under(failures), routes.policy, partial=True)
    for k, ((source, target), row) in enumerate(zip(pairs, rows, strict=True)):
        if row == BY_ADDRESS:
            assert anew[k].tolist() == [0, 0]
            continue
        switches, _ = routes.path(row, topology.hosts[source].switch)
        hit = any(frozenset(ends) in dead for ends in pairwise(switches))
        assert hit == (anew[k].tolist() != lists[k].tolist())
        ends = topology.hosts[source].switch, topology.hosts[target].switch
        options = [row for a, b, row in _rows(broken) if (a, b) == ends]
        allowed = lists_of(broken, [(source, target)] * len(options), options).tolist() or [[0, 0]]
        assert not hit or anew[k].tolist() in allowed


def _rows(routes):
    """(source, destination, row) of every path."""
    for i, (source, target) in enumerate(routes.pairs.tolist()):
        for row in range(int(routes.first[i]), int(routes.first[i + 1])):
            yield source, target, row


def test_senders_take_to_new_lists_while_they_send() -> None:
    """All that is sent arrives, and none of it in the class that is not lossless once the lists are new."""
    network = fcplus(12, 6, 3, hosts=3, seed=1)
    routes = compute(network, PathPolicy(8, 2, max_hops=5))
    failures = frozenset(parse_failure(network.topology, name) for name in ("s6-s1", "s0-s10", "s7-s2"))
    pairs, rows = deadlock.draw(routes, 2, 1)
    lists = lists_of(routes, pairs, rows)
    with ExpanderFabric(network, scheme_of("2L", 2), RunSettings(), queue_pairs=len(pairs)) as fabric:
        fabric.connect_routed(pairs, lists)
        fabric.send(300_000)
        fabric.run(20 * US)
        fabric.apply_failures(failures)
        fabric.replan(failures)
        fabric.run(60 * US)
        fabric.lead(lists_anew(routes, pairs, rows, lists, failures))
        fabric.run(60_000 * US)
        assert fabric.unfinished() == 0
        assert fabric.column("st_rx_bytes").tolist() == [300_000] * len(pairs)
        assert fabric.deadlock_found is None
