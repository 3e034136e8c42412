# SPDX-License-Identifier: Apache-2.0
"""Points of the non-shortest-path paper: what is run, what is refused, what comes beside the paper's numbers."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET

from detour.base.errors import DetourError
from detour.base.records import as_json, decoder
from detour.control.policy import StepMarking
from detour.experiments import reproduce, results
from detour.experiments.nonshortest import ablation, deadlock, figures, paper, pfc_gain, tables
from detour.experiments.nonshortest.experiment import (
    CompletionNonshortestRun,
    NonshortestRun,
    NonshortestSelection,
    SteadyNonshortestRun,
    changed,
    collect,
    find_topology,
    select,
)
from detour.experiments.nonshortest.pfc_gain import PfcGainRun
from detour.experiments.running import CompletionTimes, Series, SteadyRun
from detour.experiments.store import canonical
from detour.experiments.sweep import FailedPoint
from detour.fabric.backends.virtual.scheme import scheme
from detour.hosts.parameters import host_changes
from tests.unit.experiments.sweep_workers import Side, Square, area


def test_points_of_a_selection() -> None:
    points = select(
        NonshortestSelection("d1", "adv1", (4, 64), ("TelemetryLERP", "Benchmark"), seeds=2, thresholds=(0, 20))
    )
    assert len(points) == 2 * 2 + 2 * 2 * 2
    assert {point.topology for point in points} == {"D1"}
    assert {(point.scheme, point.threshold) for point in points} == {
        ("TelemetryLERP", 0), ("Benchmark", 0), ("Benchmark", 20)
    }  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"pairs": (65,)}, "there are 1 to 64"),
        ({"pattern": "adv3"}, "allowed: unf, adv1, adv2, permutation, advc, bit-reverse, two-jobs"),
        ({"schemes": ("Best",)}, "allowed: all, TelemetryLERP, TelemetryGBN, Benchmark, ShortestPath"),
        ({"topology": "D4"}, "there is no 'D4'"),
        ({"topology": "leaf-spine:leaves=2,spines=2,hosts=2"}, "needs two groups"),
        ({"topology": "dragonfly:p=2,a=1,h=1", "pairs": (1,)}, "third group"),
        ({"topology": "dragonfly:p=2,a=1,h=1", "pairs": (1,), "schemes": ("Benchmark",)}, "third group"),
        ({"schemes": ("ShortestPath",), "headroom_bytes": 0}, "PFC needs headroom"),
        ({"schemes": ("ShortestPath",), "headroom_bytes": 200_000}, "do not fit"),
        ({"seeds": 0}, "0 seeds"),
        ({"loss": 1.5}, "not a probability"),
        ({"delays_us": (1.0, -1.0, 1.0)}, "cannot be negative"),
    ],
)
def test_refusals(changes: dict, rule: str) -> None:
    values = {"topology": "D1", "pattern": "adv1", "pairs": (4,), "schemes": ("TelemetryLERP",)} | changes
    with pytest.raises(DetourError, match=rule):
        select(NonshortestSelection(**values))


def test_a_point_says_what_differs_and_nothing_else() -> None:
    chosen = NonshortestSelection("D1", "adv1", (8,), ("TelemetryLERP",))
    (plain,), (other,) = select(chosen), select(replace(chosen, loss=0.5, message_bytes=9, headroom_bytes=9000))
    assert as_json(plain) == {
        "experiment": "nonshortest", "topology": "D1", "pattern": "adv1", "scheme": "TelemetryLERP", "pairs": 8,
        "seed": 1, "threshold": 0, "control": "dctcp", "ecn_bytes": plain.ecn_bytes, "pmax": 1.0,
        "delays_us": (1.0, 1.0, 1.0), "virtual_us": 24_000, "tolerance": 0.01,
    }  # fmt: skip
    assert as_json(other) == as_json(plain) | {"loss": 0.5, "message_bytes": 9, "headroom_bytes": 9000}


def run(scheme: str, wire: float, threshold: int = 0, seed: int = 1) -> SteadyNonshortestRun:
    return SteadyNonshortestRun(
        topology="D1", pattern="adv1", scheme=scheme, pairs=64, seed=seed, threshold=threshold, ceiling_gbps=800.0,
        ceiling_bound="links of hosts", loss=0.0, paper=None, setting="", wire_gbps=wire, goodput_gbps=wire / 1.1,
        steady=True, warm_ms=0.5, converged=True, deadlock=False, deadlocked_queues=(), virtual_ms=2.0, fairness=0.9,
        series=Series(20.0), packets=1000,
        retransmitted=5, timeouts=0, marked=10, reroutes=640, probes=0, drops=0, pauses=7, paused_ms=0.0,
        buffer_peak_bytes=9000, queue_peak_bytes=9000, min_share=0.2, packet_hops=8000,
    )  # fmt: skip


def pfc_run(connections: int, scheme: str, goodput: float) -> PfcGainRun:
    steady: dict[str, Any] = {field.name: getattr(run("Benchmark", 1.0), field.name) for field in fields(SteadyRun)}
    steady["goodput_gbps"] = goodput
    return PfcGainRun(
        **steady, connections=connections, scheme=scheme, seed=1, bound_wire_gbps=1700.0,
        bound_gbps=1600.0,
    )  # fmt: skip


def test_changes_to_hosts_and_step_are_part_of_a_point() -> None:
    plain, others = (
        select(NonshortestSelection("D1", "adv1", (8,), ("TelemetryLERP", "Benchmark"), hosts=hosts, step_bytes=step))
        for hosts, step in (({}, None), (dict(host_changes(["own_share=no", "delta3=50"])), 90_000))
    )
    assert all(point.hosts is UNSET for point in plain)
    for point, marks in zip(others, (90_000, None), strict=True):
        result = changed(scheme(point.scheme), point)
        assert dict(result.hosts)["own_share"] is False
        assert dict(result.hosts)["delta3"] == 50
        assert (result.ecn.k.value if isinstance(result.ecn, StepMarking) else None) == marks
    assert dict(scheme("TelemetryLERP").hosts)["own_share"] is True, "the scheme itself stays as it is"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("speed=3", "no host parameter 'speed'"),
        ("delta3=x", "delta3 must be int, not 'x'"),
        ("delta1", "delta1 must be float, not ''"),
        ("own_share=perhaps", "own_share must be bool"),
    ],
)
def test_changes_to_hosts_that_are_none(text: str, message: str) -> None:
    with pytest.raises(DetourError, match=message):
        host_changes([text])


def test_all_schemes_and_loads_get_the_same_time() -> None:
    for topology, pattern, time_us in (("D1", "adv1", 24_000), ("D1", "unf", 6_000), ("D2", "unf", 3_200)):
        points = select(
            NonshortestSelection(topology, pattern, (4, 64), ("TelemetryLERP", "Benchmark", "ShortestPath"))
        )
        assert {point.virtual_us for point in points} == {time_us}


def test_draws_are_counted_with_their_spread() -> None:
    one = collect([run("TelemetryLERP", 790.0)]).points[0]
    assert (one.draws, one.spread) == (1, None)
    runs = [run(name, wire + seed, seed=seed) for name, wire in (("TelemetryLERP", 700.0), ("Benchmark", 500.0))
            for seed in (1, 2, 3)]  # fmt: skip
    result = collect([*runs, replace(run("Benchmark", 9.0, seed=4), steady=False)])
    assert [(p.scheme, p.draws) for p in result.points] == [("TelemetryLERP", 3)] * 3 + [("Benchmark", 4)] * 4
    assert result.points[0].spread == 1.0
    (gain,) = result.gains
    assert (gain.draws, gain.steady) == (3, True), "only draws of which both were run"
    assert gain.gain == pytest.approx(100 * (702 / 502 - 1), abs=0.01)
    assert gain.spread == pytest.approx(0.08, abs=0.01)


def test_a_gain_says_whether_its_runs_were_steady() -> None:
    runs = [run("TelemetryLERP", 790.0), replace(run("Benchmark", 700.0), steady=False)]
    assert [gain.steady for gain in collect(runs).gains] == [False]


def test_gains_over_both_variants_of_benchmark() -> None:
    runs = [run("TelemetryLERP", 790.0), run("Benchmark", 700.0), run("Benchmark-DCTCP", 780.0)]
    assert [gain.rival for gain in collect(runs).gains] == ["Benchmark", "Benchmark-DCTCP"]


def test_names_of_before_are_known() -> None:
    assert scheme("TelemetryGBN-DCQCN") == scheme("telemetrygbn")
    assert (scheme("TelemetryGBN").control, scheme("TelemetryGBN-DCTCP").control) == ("dcqcn", "dctcp")


def test_benchmark_counts_with_its_best_threshold() -> None:
    result = collect(
        [
            run("TelemetryLERP", 790.0),
            run("TelemetryLERP", 770.0, seed=2),
            *(run("Benchmark", wire, t) for t, wire in ((0, 700.0), (10, 750.0), (20, 600.0))),
        ]
    )
    assert len(result.points) == 3
    best = result.points[-1]
    assert (best.threshold, best.wire_gbps) == (10, 750.0)
    assert best.wire_gbps_by_threshold == {"0": 700.0, "10": 750.0, "20": 600.0}
    assert "wire_gbps_by_threshold" not in as_json(result.points[0])
    (gain,) = result.gains
    assert (gain.traffic, gain.load, gain.paper_gain) == (("D1", "adv1", 64), "heavy", 3)


def test_benchmarks_threshold_is_the_same_for_all_seeds() -> None:
    wires = {(0, 1): 700.0, (0, 2): 500.0, (10, 1): 650.0, (10, 2): 600.0, (20, 1): 900.0}
    result = collect([run("Benchmark", wire, t, seed=seed) for (t, seed), wire in wires.items()])
    assert [(p.threshold, p.seed, p.wire_gbps) for p in result.points] == [(10, 1, 650.0), (10, 2, 600.0)]
    assert result.points[0].wire_gbps_by_threshold == {"0": 700.0, "10": 650.0, "20": 900.0}


def test_table_1_needs_both_schemes() -> None:
    runs = [pfc_run(16, "LERP", 1500.0), pfc_run(16, "RoCEv2+PFC", 1000.0), pfc_run(32, "LERP", 1000.0)]
    points = pfc_gain.collect(runs).points
    assert [(p.connections, p.gain, p.paper_gain) for p in points] == [(16, 50.0, 5.59)]


def test_paper_states_few_numbers() -> None:
    assert paper.throughput("D3", "adv1", "ShortestPath", 7) == 100
    assert paper.throughput("D1", "adv1", "TelemetryLERP", 64) == 800
    assert paper.throughput("D1", "adv1", "TelemetryLERP", 16) is None
    assert paper.throughput("D2", "unf", "Benchmark", 64) is None


def test_a_budget_takes_what_fits() -> None:
    points = [{"cost": cost} for cost in (50, 3, 10, 4)]
    now, later = reproduce.affordable(points, lambda p: p["cost"], 10, processes=2)
    assert now == [{"cost": 3}, {"cost": 10}, {"cost": 4}]
    assert later == [{"cost": 50}]
    now, _ = reproduce.affordable([{"cost": 99}], lambda p: p["cost"], 10, processes=1)
    assert now == [{"cost": 99}]


def test_what_came_of_points_is_one_document() -> None:
    points = [Side(2.0), Side(-1.0), Side(30.0)]
    experiment = reproduce.Experiment(
        name="sides", text="squares", select=lambda extent: points, run=area, decode=decoder(Square),
        collect=lambda result: {"areas": [s.area_m2 for s in result]}, seconds=lambda side: side.length_m,
        tables=lambda result: [], prepare=lambda points: None,
    )  # fmt: skip
    result = reproduce.reproduce(experiment, points, reproduce.Means(budget_s=20.0))
    assert [failure.point for failure in result.failures] == [Side(-1.0)]
    assert reproduce.document(result) == {
        "experiment": "sides",
        "areas": [4.0],
        "failures": [{"point": {"length_m": -1.0}, "reason": "ValueError: no such side"}],
        "left_out": [{"length_m": 30.0}],
    }


@pytest.mark.parametrize("extent", ["quick", "normal", "full"])
def test_what_results_are_made_of(extent: str) -> None:
    points = results.points_of(results.selections(extent))
    keys = [canonical(as_json(point)) for point in points]
    assert len(set(keys)) == len(keys)
    assert {point.scheme for point in points} == {
        "TelemetryLERP", "TelemetryGBN", "Benchmark", "ShortestPath", "Benchmark-DCTCP", "TelemetryLERP-literal"
    }  # fmt: skip
    if extent == "full":
        assert results.left_out(extent) == []
        assert {(point.topology, point.pattern) for point in points} == set(paper.TABLE_2)


def test_what_is_left_out_is_named_with_its_command() -> None:
    missing = dict(results.left_out("normal"))
    run = {
        (selection.topology, selection.pattern, pairs)
        for selection in results.selections("normal")
        for pairs in selection.pairs
    }
    for selection in results.selections("full"):
        topology, pattern = selection.topology, selection.pattern
        start = f"detour reproduce nonshortest --topology {topology} --pattern {pattern} --pairs "
        named = [c.removeprefix(start).split(" ")[0].split(",") for c in missing.values() if c.startswith(start)]
        for pairs in selection.pairs:
            assert ((topology, pattern, pairs) in run) != any(str(pairs) in numbers for numbers in named)


def evaluation() -> results.Evaluation:
    """Two runs, and points that were left out or failed."""
    curves = collect([run("TelemetryLERP", 780.0), run("Benchmark", 400.0)])
    point = select(NonshortestSelection("D1", "adv1", (8,), ("TelemetryLERP",)))[0]
    failed = FailedPoint(point, "the process died")
    return results.Evaluation(
        reproduce.Reproduction("nonshortest", curves, [failed], [point]),
        reproduce.Reproduction("nonshortest", collect([run("TelemetryLERP", 9.0), run("Benchmark", 8.0)])),
        reproduce.Reproduction("nonshortest", collect([])),
        reproduce.Reproduction("nonshortest", ablation.collect([])),
        reproduce.Reproduction("nonshortest", []),
        reproduce.Reproduction("pfc-gain", pfc_gain.collect([])),
        reproduce.Reproduction("deadlock", deadlock.collect([])),
    )


def test_the_document_sets_ours_beside_the_papers() -> None:
    texts = results.documents(evaluation(), "normal", {}, [("some", "detour reproduce nonshortest")])
    text = "\n".join(texts.values())
    assert list(texts) == ["results.md", "results-settings.md"]
    assert "| ADV1 | heavy | +95.0 (64) | +3 |" in text
    assert "| D1 ADV1 heavy | 98 | 50 | 100 | 5.00 | 80 | 7 |" in text
    assert "| `D1` | adv1 | 64 | 1 | +12.5 |" in text
    assert "- some: `detour reproduce nonshortest`" in text
    assert "- 1 points of this extent" in text
    failed = "- failed: topology D1, pattern adv1, scheme TelemetryLERP, pairs 8, threshold 0, seed 1: the process died"
    assert failed in text


def test_figures_are_drawn_of_what_there_is(tmp_path: Path) -> None:
    drawn = results.draw(evaluation(), tmp_path)
    assert {name: Path(file).name for name, file in drawn.items()} == {"D1": "fig5-d1.svg", "time": "over-time.svg"}
    assert all((tmp_path / Path(file).name).stat().st_size > 5_000 for file in drawn.values())
    with pytest.raises(DetourError, match="no finished point"):
        figures.pfc_gain([], tmp_path / "table1.svg")


def test_heads_that_do_not_speak_for_themselves_have_a_legend() -> None:
    legend = tables.throughput([run("Benchmark", 1.0), run("Benchmark", 1.0, seed=2)]).legend(False)
    assert {line.split(":")[0] for line in legend} >= {"T", "MIN %", "steady", "means over 2 draws of pairs"}


def test_two_draws_of_completion_times_are_told_apart() -> None:
    values = {field.name: getattr(run("Benchmark", 1.0), field.name) for field in fields(NonshortestRun)}
    times = CompletionTimes(123_456.0, 123_456.0, 123_456.0, 123_456.0, 123_456.0)
    message = CompletionNonshortestRun(**values, message_bytes=2_000_000, fct_us=times, unfinished=100_000)
    titles = [table.title for table in tables.completion([message, replace(message, seed=2)])]
    assert [title.split(",")[2] for title in titles] == [" 64 pairs (draw 1)", " 64 pairs (draw 2)"]


def test_a_scheme_and_a_congestion_control_of_ones_own_are_those_of_a_point(tmp_path: Path) -> None:
    own = tmp_path / "own.py"
    own.write_text(
        "from dataclasses import replace\nfrom detour.fabric.backends.virtual.scheme import TELEMETRY_LERP\n"
        "mine = replace(TELEMETRY_LERP, control='fixed')\n"
    )
    name = scheme(f"{own}:mine").name
    (point,) = select(NonshortestSelection("d1", "adv1", (8,), (name,)))
    assert (point.scheme, point.control) == (name, "fixed")
    (point,) = select(NonshortestSelection("d1", "adv1", (8,), (name,), control="dcqcn"))
    assert changed(scheme(point.scheme), point).control == "dcqcn"


def test_a_topology_of_a_file_is_named_with_its_state(tmp_path: Path) -> None:
    net = tmp_path / "net.csv"
    net.write_text("a,b\n" + "".join(f"h{i},s{i % 2}\n" for i in range(4)) + "s0,s1\n")
    called, topology = find_topology(str(net))
    assert called == topology.spec == f"{net}#{called[-16:]}"
    net.write_text("a,b,gbps\nh0,s0,100\nh1,s0,400\n")
    with pytest.raises(DetourError, match="have different rates or delays"):
        find_topology(str(net))
