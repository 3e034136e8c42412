# SPDX-License-Identifier: Apache-2.0
"""The FORS paper's scenarios, what is run for them, and what comes beside the paper's numbers."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from detour.base.errors import DetourError
from detour.base.records import as_json
from detour.control.fors import parse_fabric
from detour.control.fors.plan import PlanSeconds
from detour.control.fors.solve import proven_bound
from detour.experiments import reproduce
from detour.experiments.bench import fors as bench
from detour.experiments.fors import experiment as fors
from detour.experiments.fors.results import (
    Crowd,
    ForsBreak,
    ForsExchange,
    ForsExchangePoint,
    ForsPhases,
    ForsPhasesPoint,
    ForsPoint,
    ForsTimes,
    Spread,
)
from detour.experiments.fors.tables import draw, tables
from detour.fabric.traffic.outage import Detection
from detour.fabric.traffic.phased import ExchangeCounts
from tests.unit.experiments.printing import printed


@pytest.mark.parametrize(
    ("scenario", "links", "reduction"),
    [("0F", 0, 0), ("1F SW0", 1, 1), ("3F SW0", 3, 3), ("1F SW0,5,11", 3, 1), ("3F SW0,5,11", 9, 3),
     ("SW18,19", 36, 2), ("SW18,19,22,23", 72, 4)],
)  # fmt: skip
def test_scenarios_are_those_of_section_3(scenario: str, links: int, reduction: int) -> None:
    fabric = fors.fabric_of(scenario, seed=1)
    assert (len(fabric.failed), fabric.reduction, fabric.name) == (links, reduction, "FT(2;20,18)")


def test_links_of_the_scenarios() -> None:
    assert fors.failed_links("1F SW0,5,11", 1) == {(0, 0), (5, 1), (11, 2)}
    assert fors.failed_links("3F SW0,5,11", 1) >= {(0, 2), (5, 3), (11, 8)}
    assert {spine for _, spine in fors.failed_links("SW18,19,22,23", 1)} == {0, 1, 4, 5}
    assert fors.failed_links("1F SW0", 1) < fors.failed_links("2F SW0", 1) < fors.failed_links("3F SW0", 1)
    assert len({frozenset(fors.failed_links("1F SW0", seed)) for seed in range(20)}) > 5
    with pytest.raises(DetourError, match="no scenario '4F'"):
        fors.fabric_of("4F", 1)


def exchanges(points: list[ForsPoint]) -> list[ForsExchangePoint]:
    return [point for point in points if isinstance(point, ForsExchangePoint)]


def test_opensm_falls_back_to_min_hop_where_the_paper_says_so() -> None:
    points = fors.select()
    default = {p.scenario: p.routing for p in exchanges(points) if p.default}
    assert [name for name in fors.SCENARIOS if default[name] == "ftree"] == ["0F", "SW18,19", "SW18,19,22,23"]
    assert {p.routing for p in exchanges(points) if p.scenario == "1F SW0"} == {"fors", "minhop", "ftree-ar"}
    full = [p.routing for p in exchanges(fors.select("full"))]
    assert {name: full.count(name) for name in full} == dict.fromkeys(("fors", "ftree", "minhop", "ftree-ar"), 9)


@pytest.mark.parametrize(("m0", "m1"), fors.TOPOLOGIES[:3])
def test_phases_of_fig_7_are_the_papers_but_for_those_that_servers_need_anyway(m0: int, m1: int) -> None:
    result = fors.run(ForsPhasesPoint(spines=m0, leaves=m1))
    assert isinstance(result, ForsPhases)
    ours, paper = np.array(result.phases), np.array(result.paper_phases)
    assert (ours == np.maximum(paper, m0 * m1 - 1)).all()


RUN: dict[str, Any] = {
    "topology": "FT(2;20,18)", "servers": 360, "failed_links": 1, "reduction": 1, "rate_gbps": 200.0,
    "message_bytes": 600_000, "payload_bytes": 4_096, "phases": 360, "phases_executed": 3, "messages": 129_240,
    "ms": 12.3, "phase_us": Spread(32.0, 30.0, 32.0, 34.0), "barrier_us": Spread(2.0, 1.0, 2.0, 3.0),
    "most_flows_on_a_link": Crowd(1.0, 1), "exchange": ExchangeCounts(11_520, 11_520, 0, 0, 0, 13, 2),
    "queue_drops": 0, "link_drops": 0, "packet_hops": 10**6, "phase_lengths_us": [30.0, 32.0, 34.0], "moves": 0,
    "unreachable_leaves": [],
}  # fmt: skip
STORY = Detection(["0:0"], "port", 210.0, 215.0, 310.0, 371.5, 11, 348, 60, [])


def exchange(scenario: str, routing: str, gbps: float, default: bool) -> ForsExchange:
    return ForsExchange(**RUN, scenario=scenario, routing=routing, default=default, throughput_gbps=gbps, detections=[])


def broken(routing: str) -> ForsBreak:
    lengths: dict[str, Any] = {"phase_lengths_us": [30.0 + k % 3 for k in range(14)]}
    return ForsBreak(**RUN | lengths, routing=routing, throughput_gbps=132.0, broke_us=203, detections=[STORY])


TIMES = ForsTimes(
    scenario="SW18,19,22,23", phases=425, lower_bound=425, optimal=True, method="exact/integer-programme",
    verified=True, seconds=PlanSeconds(1.2345, 0.0123, 0.0456),
)  # fmt: skip
RESULTS = [
    exchange("0F", "fors", 136.0, False), exchange("0F", "ftree", 136.0, True),
    exchange("1F SW0", "fors", 132.0, False), exchange("1F SW0", "minhop", 85.0, True),
    exchange("SW18,19,22,23", "fors", 132.0, False), exchange("SW18,19,22,23", "ftree-ar", 126.5, False),
    broken("fors"), broken("minhop"), TIMES, fors.run(ForsPhasesPoint(spines=20, leaves=18)), None,
]  # fmt: skip


def test_rows_relate_to_fors_without_failures(tmp_path: Path) -> None:
    result = fors.collect(RESULTS)
    row = result.throughput[1]
    assert (row.fors_relative, row.default_relative, row.default) == (0.9706, 0.625, "minhop")
    assert (row.fors_paper, row.default_paper, row.ftree_ar_gbps) == (137.0, 87.0, None)
    assert row.ranges_gbps["minhop"] == [80.0, 85.0, pytest.approx(90.667, abs=0.001)]
    assert "11520 of 11520" in printed(tables(result))
    draw(result, tmp_path / "fors.svg")
    assert (tmp_path / "fors.svg").stat().st_size > 10_000
    with pytest.raises(DetourError, match="no finished point"):
        draw(fors.collect([]), tmp_path / "none.svg")


def test_results_come_back_from_json() -> None:
    decode = reproduce.FORS.decode
    assert [decode(json.loads(json.dumps(as_json(one)))) for one in RESULTS if one] == [one for one in RESULTS if one]
    assert "planning_seconds" not in as_json(RESULTS[0])


def test_it_is_listed_and_quick_leaves_out_what_is_dear() -> None:
    experiment = reproduce.EXPERIMENTS["fors"]
    now, later = reproduce.affordable(fors.select("quick"), experiment.seconds, 45.0, 2)
    assert sum(map(fors.seconds, now)) <= 90
    assert {p.kind for p in now} >= {"exchange", "times", "phases"}
    assert len(now) + len(later) == len(fors.select("quick"))


# -- bench fors ----------------------------------------------------------------------------------------------


def test_goals():
    report = bench.run(sets=8, phases=0)
    goals: Any = report.numbers["goals"]
    assert [set(goal) for goal in goals] == [{"name", "value", "goal", "at_most", "met"}] * 13
    timeless = {goal["name"]: goal for goal in goals if "seconds" not in goal["name"]}
    assert [goal["met"] for goal in timeless.values()] == [True] * 5 + [None]
    assert timeless["random failures: sets with phases = lower bound"]["value"] == 8
    assert timeless["FT(2;6,6), counterexample: phases"]["value"] == 45
    assert timeless["throughput with one failed link, relative to none"]["goal"] == 0.97


def test_one_more_failure_changes_neither_f_nor_phases():
    fabric = parse_fabric("ft:m0=6,m1=5", "0:0,1:1,2:2,2:3")
    after = bench.one_more(fabric, seed=1)
    assert after is not None
    assert len(after.failed - fabric.failed) == 1
    assert (after.reduction, proven_bound(after)) == (2, proven_bound(fabric))
    assert bench.one_more(parse_fabric("ft:m0=6,m1=5", "*:0"), seed=1) is None
