# SPDX-License-Identifier: Apache-2.0
"""Runs in virtual time: same results wherever they are computed, bounds that hold, deadlocks that are found."""

from dataclasses import replace

import pytest

from detour.base.errors import DetourError
from detour.base.records import as_json
from detour.experiments import running, sweep
from detour.experiments.nonshortest import deadlock, pfc_gain
from detour.experiments.nonshortest import experiment as nonshortest
from detour.experiments.nonshortest.experiment import (
    CompletionNonshortestRun,
    NonshortestPoint,
    NonshortestSelection,
    SteadyNonshortestRun,
)
from detour.experiments.nonshortest.settings import Setting
from detour.experiments.running import RunTimes
from detour.experiments.store import Store, canonical
from detour.fabric.backends.virtual.scheme import ROCE_WITH_PFC, TELEMETRY_LERP
from detour.topo import parse_topology

SHORT: dict = {"virtual_us": 800, "tolerance": 0.05}
D1 = parse_topology("d1")
EARLY: tuple = (("ShortestPath", Setting("dcqcn", (400_000, 1_600_000), 0.2)),)
"""marks late: in so short a run DCQCN with its usual setting has not recovered from the common start"""


def points(**changes: object) -> list[NonshortestPoint]:
    values: dict = {"topology": "D1", "pattern": "adv1", "pairs": (8,), "schemes": ("TelemetryLERP",)} | changes
    return [replace(point, **SHORT) for point in nonshortest.select(NonshortestSelection(**values))]


def test_results_do_not_depend_on_processes() -> None:
    work = points(schemes=("TelemetryLERP", "ShortestPath"))
    alone = [nonshortest.run(point) for point in work]
    outcome = sweep.run(work, sweep.name_of(nonshortest.run), Store(None, "v", nonshortest.decode), processes=2)
    assert outcome.failures == []
    assert outcome.results == alone
    assert [canonical(as_json(result)) for result in outcome.results] == [canonical(as_json(run)) for run in alone]


def test_bounds_hold() -> None:
    schemes = ("TelemetryLERP", "TelemetryGBN-DCTCP", "Benchmark", "ShortestPath")
    runs = {point.scheme: nonshortest.run(point) for point in points(pairs=(64,), schemes=schemes, settings=EARLY)}
    assert runs["ShortestPath"].ceiling_gbps == 100
    assert runs["ShortestPath"].wire_gbps == pytest.approx(100, rel=0.01)
    for name, run in runs.items():
        assert isinstance(run, SteadyNonshortestRun)
        assert 0 < run.goodput_gbps < run.wire_gbps <= run.ceiling_gbps * 1.001, name
        assert run.ceiling_gbps == (100 if name == "ShortestPath" else 800)
        assert not run.deadlock
        lossless = name in ("Benchmark", "ShortestPath")
        assert (run.drops == 0) or not lossless, name
        assert (run.pauses == 0) or lossless, name
        assert len(run.series.wire_gbps) * run.series.interval_us == pytest.approx(run.virtual_ms * 1e3)
        assert run.virtual_ms == pytest.approx(0.8), "equal times for all"
        # of Benchmark's packets, ACKs count as well, and those find an empty direct link
        low, high = {"ShortestPath": (1, 1), "Benchmark": (0, 0.7)}.get(name, (0, 0.5))
        assert run.min_share is not None
        assert low <= run.min_share <= high, name
    assert runs["TelemetryLERP"].wire_gbps > 3 * runs["ShortestPath"].wire_gbps
    assert runs["TelemetryLERP"].reroutes > 0


def test_preamble_and_gap_take_their_share_of_a_link() -> None:
    """A shortest path of 100 Gb/s carries 1102 of every 1122 bytes; with what links take counted it is as full."""
    plain, gap = (
        nonshortest.run(points(pairs=(64,), schemes=("ShortestPath",), settings=EARLY, overhead_bytes=size)[0])
        for size in (0, 20)
    )
    assert plain.wire_gbps == pytest.approx(100, rel=0.01)
    assert gap.wire_gbps == pytest.approx(100, rel=0.01)
    assert gap.goodput_gbps / plain.goodput_gbps == pytest.approx(1102 / 1122, rel=0.005)


def test_completion_times() -> None:
    (point,) = points(pairs=(4,), message_bytes=100_000)
    run = nonshortest.run(point)
    assert isinstance(run, CompletionNonshortestRun)
    assert run.unfinished == 0
    assert run.fct_us is not None
    # a message of 100 packets of 1102 bytes at 100 Gb/s, and at least three links there and back
    assert 8.8 + 6 < run.fct_us.p50 <= run.fct_us.max < 200


def test_figure_2() -> None:
    runs = {point.case: deadlock.run(point) for point in deadlock.select()}
    assert {case: run.deadlock for case, run in runs.items()} == deadlock.PAPER
    stuck = runs["PFC, 1 VC"]
    circle = {queue.split(",")[0] for queue in stuck.queues}
    assert {"s0-s1", "s2-s3", "s4-s5"} <= circle or {"s1-s0", "s3-s2", "s5-s4"} <= circle
    assert stuck.goodput_gbps_after == 0
    assert runs["PFC, 3 VCs"].goodput_gbps_after > 0
    assert runs["PFC, 3 VCs"].drops == 0
    assert runs["no PFC, 1 VC"].drops > 0


def test_a_deadlock_ends_a_run() -> None:
    topology = parse_topology(deadlock.FIGURE_2)
    scheme = deadlock.case_scheme("PFC, 1 VC")
    pairs = deadlock.cycle(topology)
    times = RunTimes(virtual_us=100_000)
    run = running.steady_state(topology, scheme, pairs, running.settings(len(pairs), 1), times)
    assert run.deadlock
    assert not run.steady
    assert len(run.deadlocked_queues) >= 6
    assert run.virtual_ms < 5


def test_table_1_in_small() -> None:
    point = replace(pfc_gain.select("quick", [16])[0], tree="fat-tree:k=4,blocking=2", **SHORT)
    lerp = pfc_gain.run(point)
    pfc = pfc_gain.run(replace(point, scheme=ROCE_WITH_PFC.name))
    assert lerp.bound_gbps == pfc.bound_gbps
    assert 0.7 * lerp.bound_gbps < lerp.goodput_gbps < 1.3 * lerp.bound_gbps
    assert pfc.drops == 0


def test_table_1_refuses_more_than_it_has() -> None:
    with pytest.raises(DetourError, match="Table I has 16 to 65535"):
        pfc_gain.select("normal", [65_536])


def test_windows_shrink_with_numbers() -> None:
    assert [running.window(n) for n in (1, 4_000, 12_000, 32_768)] == [1024, 512, 256, 128]
    with pytest.raises(DetourError, match="third group"):
        nonshortest.select(NonshortestSelection("dragonfly:p=2,a=1,h=1", "adv1", (1,), (TELEMETRY_LERP.name,)))
