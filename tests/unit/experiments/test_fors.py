# SPDX-License-Identifier: Apache-2.0
"""The FORS paper's scenarios, what is run for them, and what comes beside the paper's numbers."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from detour.base.errors import DetourError
from detour.experiments import reproduce
from detour.experiments.fors import experiment as fors
from detour.experiments.fors import figures


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


def test_opensm_falls_back_to_min_hop_where_the_paper_says_so() -> None:
    points = fors.select()
    default = {p["scenario"]: p["routing"] for p in points if p["kind"] == "exchange" and p["default"]}
    assert [name for name in fors.SCENARIOS if default[name] == "ftree"] == ["0F", "SW18,19", "SW18,19,22,23"]
    assert {p["routing"] for p in points if p["kind"] == "exchange" and p["scenario"] == "1F SW0"} == {
        "fors", "minhop", "ftree-ar"
    }  # fmt: skip
    full = [p["routing"] for p in fors.select("full") if p["kind"] == "exchange"]
    assert {name: full.count(name) for name in full} == dict.fromkeys(("fors", "ftree", "minhop", "ftree-ar"), 9)


@pytest.mark.parametrize(("m0", "m1"), fors.TOPOLOGIES[:3])
def test_phases_of_fig_7_are_the_papers_but_for_those_that_servers_need_anyway(m0: int, m1: int) -> None:
    found = fors.run({"kind": "phases", "spines": m0, "leaves": m1})
    ours, paper = (np.array(found[name]) for name in ("phases", "paper_phases"))
    assert (ours == np.maximum(paper, m0 * m1)).all()


def exchange(scenario: str, routing: str, gbps: float, default: bool) -> dict[str, Any]:
    lengths = [30.0, 32.0, 34.0]
    return {
        "kind": "exchange", "scenario": scenario, "routing": routing, "default": default, "throughput_gbps": gbps,
        "phases": 360, "reduction": 1, "failed_links": 1, "phase_lengths_us": lengths,
        "phase_us": {"mean": 32.0, "min": 30.0, "median": 32.0, "max": 34.0},
    }  # fmt: skip


def test_rows_relate_to_fors_without_failures(tmp_path: Path) -> None:
    runs = [
        exchange("0F", "fors", 136.0, False), exchange("0F", "ftree", 136.0, True),
        exchange("1F SW0", "fors", 132.0, False), exchange("1F SW0", "minhop", 85.0, True), None,
    ]  # fmt: skip
    found = fors.collect(runs)
    row = found["throughput"][1]
    assert (row["fors_relative"], row["default_relative"], row["default"]) == (0.9706, 0.625, "minhop")
    assert (row["fors_paper"], row["default_paper"], row["ftree_ar_gbps"]) == (137.0, 87.0, None)
    assert row["ranges_gbps"]["minhop"] == [80.0, 85.0, pytest.approx(90.667, abs=0.001)]
    figures.fors(found, tmp_path / "fors.svg")
    assert (tmp_path / "fors.svg").stat().st_size > 10_000
    with pytest.raises(DetourError, match="no finished point"):
        figures.fors(fors.collect([]), tmp_path / "none.svg")


def test_it_is_listed_and_quick_leaves_out_what_is_dear() -> None:
    experiment = reproduce.EXPERIMENTS["fors"]
    now, later = reproduce.affordable(fors.select("quick"), experiment.seconds, 45.0, 2)
    assert sum(map(fors.seconds, now)) <= 90
    assert {p["kind"] for p in now} >= {"exchange", "times", "phases"}
    assert len(now) + len(later) == len(fors.select("quick"))
