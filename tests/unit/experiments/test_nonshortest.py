# SPDX-License-Identifier: Apache-2.0
"""Points of the non-shortest-path paper: what is run, what is refused, what comes beside the paper's numbers."""

import pytest

from detour.base.errors import DetourError
from detour.base.records import decoder
from detour.control.policy import StepMarking
from detour.experiments import reproduce
from detour.experiments.nonshortest import paper, pfc_gain, results, results_text
from detour.experiments.nonshortest.experiment import NonshortestSelection, changed, collect, select
from detour.fabric.footings.virtual.scheme import scheme
from detour.hosts.config import host_changes
from tests.unit.experiments.sweep_workers import Side, Square, area


def test_points_of_a_selection() -> None:
    points = select(
        NonshortestSelection("d1", "adv1", (4, 64), ("TelemetryLERP", "Benchmark"), seeds=2, thresholds=(0, 20))
    )
    assert len(points) == 2 * 2 + 2 * 2 * 2
    assert {p["topology"] for p in points} == {"D1"}
    assert {(p["scheme"], p["threshold"]) for p in points} == {
        ("TelemetryLERP", 0), ("Benchmark", 0), ("Benchmark", 20)
    }  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"pairs": (65,)}, "there are 1 to 64"),
        ({"pattern": "adv3"}, "allowed: unf, adv1, adv2"),
        ({"schemes": ("Best",)}, "allowed: all, TelemetryLERP, TelemetryGBN, Benchmark, ShortestPath"),
        ({"topology": "D4"}, "there is no 'D4'"),
        ({"topology": "leaf-spine:leaves=2,spines=2,hosts=2"}, "needs two groups"),
        ({"topology": "dragonfly:p=2,a=1,h=1", "pairs": (1,)}, "third group"),
        ({"topology": "dragonfly:p=2,a=1,h=1", "pairs": (1,), "schemes": ("Benchmark",)}, "third group"),
        ({"schemes": ("ShortestPath",), "headroom_bytes": 0}, "PFC without headroom"),
        ({"schemes": ("ShortestPath",), "headroom_bytes": 200_000}, "do not fit"),
        ({"seeds": 0}, "0 seeds"),
        ({"loss": 1.5}, "no probability"),
        ({"delays_us": (1.0, -1.0, 1.0)}, "cannot be negative"),
    ],
)
def test_refusals(changes: dict, rule: str) -> None:
    values = {"topology": "D1", "pattern": "adv1", "pairs": (4,), "schemes": ("TelemetryLERP",)} | changes
    with pytest.raises(DetourError, match=rule):
        select(NonshortestSelection(**values))


def result(scheme: str, wire: float, threshold: int = 0, seed: int = 1) -> dict:
    return {
        "topology": "D1", "pattern": "adv1", "scheme": scheme, "pairs": 64, "seed": seed,
        "threshold": threshold, "wire_gbps": wire,
    }  # fmt: skip


def test_changes_to_hosts_and_step_are_part_of_a_point() -> None:
    plain, others = (
        select(NonshortestSelection("D1", "adv1", (8,), ("TelemetryLERP", "Benchmark"), hosts=hosts, step_bytes=step))
        for hosts, step in (((), None), (host_changes(["own_share=no", "delta3=50"]), 90_000))
    )
    assert all("hosts" not in point and "step_bytes" not in point for point in plain)
    for point, marks in zip(others, (90_000, None), strict=True):
        found = changed(scheme(point["scheme"]), point)
        assert dict(found.hosts)["own_share"] is False
        assert dict(found.hosts)["delta3"] == 50
        assert (found.ecn.k.value if isinstance(found.ecn, StepMarking) else None) == marks
    assert dict(scheme("TelemetryLERP").hosts)["own_share"] is True, "the scheme itself stays as it is"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("speed=3", "no host parameter 'speed'"),
        ("delta3=x", "delta3 is int; 'x' is none"),
        ("delta1", "delta1 is float; '' is none"),
        ("own_share=perhaps", "own_share is bool"),
    ],
)
def test_changes_to_hosts_that_are_none(text: str, said: str) -> None:
    with pytest.raises(DetourError, match=said):
        host_changes([text])


def test_connections_get_time_to_probe_all_candidates() -> None:
    def least(pairs: int, name: str) -> float:
        return select(NonshortestSelection("D3", "adv1", (pairs,), (name,)))[0]["least_us"]

    assert least(1024, "Benchmark") == 2_000
    assert least(8, "TelemetryLERP") == 4_000
    assert least(1024, "TelemetryLERP") == 8_000, "32 candidates, a probe every 100 packets, 3.1 Gb/s: 9 ms"


def test_benchmark_counts_with_its_best_threshold() -> None:
    found = collect(
        [
            result("TelemetryLERP", 790.0),
            result("TelemetryLERP", 770.0, seed=2),
            *(result("Benchmark", wire, t) for t, wire in ((0, 700.0), (10, 750.0), (20, 600.0))),
            None,
        ]
    )
    assert len(found["points"]) == 3
    best = found["points"][-1]
    assert (best["threshold"], best["wire_gbps"]) == (10, 750.0)
    assert best["wire_gbps_by_threshold"] == {"0": 700.0, "10": 750.0, "20": 600.0}
    assert found["gains"] == [
        {"topology": "D1", "pattern": "adv1", "pairs": 64, "gain": 4.0, "load": "heavy", "paper_gain": 3}
    ]


def test_benchmarks_threshold_is_the_same_for_all_seeds() -> None:
    wires = {(0, 1): 700.0, (0, 2): 500.0, (10, 1): 650.0, (10, 2): 600.0, (20, 1): 900.0}
    found = collect([result("Benchmark", wire, t, seed=seed) for (t, seed), wire in wires.items()])
    assert [(p["threshold"], p["seed"], p["wire_gbps"]) for p in found["points"]] == [(10, 1, 650.0), (10, 2, 600.0)]
    assert found["points"][0]["wire_gbps_by_threshold"] == {"0": 700.0, "10": 650.0, "20": 900.0}


def test_table_1_needs_both_schemes() -> None:
    runs = [
        {"connections": 16, "scheme": "LERP", "seed": 1, "goodput_gbps": 1500.0, "bound_gbps": 1600.0},
        {"connections": 16, "scheme": "RoCEv2+PFC", "seed": 1, "goodput_gbps": 1000.0, "bound_gbps": 1600.0},
        {"connections": 32, "scheme": "LERP", "seed": 1, "goodput_gbps": 1000.0, "bound_gbps": 1600.0},
    ]
    points = pfc_gain.collect(runs)["points"]
    assert [(p["connections"], p["gain"], p["paper_gain"]) for p in points] == [(16, 50.0, 5.59)]


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
        "sides", "squares", area, decoder(Square), lambda found: {"areas": [s.area_m2 for s in found if s]},
        lambda side: side.length_m, prepare=lambda points: None,
    )  # fmt: skip
    found = reproduce.reproduce(experiment, points, reproduce.Means(budget_s=20.0))
    assert [failure.point for failure in found.failures] == [Side(-1.0)]
    assert reproduce.document(found) == {
        "experiment": "sides",
        "areas": [4.0],
        "failures": [{"point": {"length_m": -1.0}, "reason": "ValueError: no such side"}],
        "left_out": [{"length_m": 30.0}],
    }


@pytest.mark.parametrize("extent", ["quick", "normal", "full"])
def test_what_results_are_made_of(extent: str) -> None:
    points = results.points_of(results.selections(extent))
    keys = [tuple(sorted((k, str(v)) for k, v in point.items())) for point in points]
    assert len(set(keys)) == len(keys)
    assert {p["scheme"] for p in points} == {"TelemetryLERP", "TelemetryGBN", "Benchmark", "ShortestPath"}
    if extent == "full":
        assert results.left_out(extent) == []
        assert {(p["topology"], p["pattern"]) for p in points} == set(paper.TABLE_2)


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


def test_the_document_sets_ours_beside_the_papers() -> None:
    runs = []
    for name, wire in (("TelemetryLERP", 780.0), ("Benchmark", 400.0)):
        point = result(name, wire) | {
            "ceiling_gbps": 800.0, "goodput_gbps": wire / 1.1, "paper": None, "deadlock": False, "converged": True,
            "fairness": 0.9, "min_share": 0.2, "reroutes": 640, "marked": 10, "packets": 1000, "drops": 0,
            "retransmitted": 5, "pauses": 7, "buffer_peak_bytes": 9000, "virtual_ms": 2.0, "loss": 0.0,
        }  # fmt: skip
        runs.append(point)
    nothing = {"points": [], "failures": [], "left_out": []}
    found = {
        "curves": collect(runs) | {"failures": [], "left_out": [{"scheme": "x"}]},
        "extras": nothing,
        "table1": nothing | {"topology": pfc_gain.FAT_TREE},
        "deadlock": nothing | {"topology": "t"},
    }
    text = results_text.document(found, "normal", {}, [("some", "detour reproduce nonshortest")])
    assert "| ADV1 | heavy | +95 % (64) | +3 % |" in text
    assert "| D1 ADV1 heavy | +95 % | +3 % | 98 | 50 | 100 | 5.00 | 80 | 7 |" in text
    assert "- some: `detour reproduce nonshortest`" in text
    assert "- 1 points of this extent" in text
