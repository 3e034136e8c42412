# SPDX-License-Identifier: Apache-2.0
"""The FC+ experiment: its points, its tables."""

import pytest

from detour.experiments.fcplus import experiment as fcplus
from detour.experiments.fcplus import figures as fcplus_figures
from detour.experiments.fcplus import paper


def test_every_printed_value_has_a_point_and_every_point_a_cost():
    points = fcplus.select("full")
    assert len({str(sorted(p.items())) for p in points}) == len(points)
    assert all(fcplus.seconds(p) > 0 for p in points)
    kinds = {kind: [p for p in points if p["kind"] == kind] for kind in {p["kind"] for p in points}}
    assert {(p["n"], p["k"]) for p in kinds["k2"]} == {(n, k) for n, row in paper.TABLE_2.items() for k in row}
    assert {(p["n"], p["v"]) for p in kinds["fcplus-counts"]} == {
        (n, v) for n, row in paper.TABLE_4.items() for v in row
    }
    assert {p["n"] for p in kinds["fc-paths"] if p["s"] == 22} == set(paper.TABLE_7)
    assert len(fcplus.select("normal")) < len(points)


def test_the_papers_fc_has_the_layers_that_its_numbers_of_paths_show():
    assert [paper.fc_layers(n, 18) for n in (100, 252, 300, 400, 500)] == [4, 4, 4, 5, 5]
    assert [paper.fc_layers(n, 22) for n in (120, 500, 1000, 1500)] == [4, 4, 5, 6]


def test_points_become_rows_beside_the_papers(tmp_path):
    points = [
        fcplus._flow(120, 22, "FC+ 1L", "near-worst", 32),
        fcplus._flow(120, 22, "Clos", "near-worst", 32),
        fcplus._flow(52, 18, "FC", "near-worst", 32),
        fcplus._point("k2", 100, 18, k=32, sources=3),
    ]
    result = fcplus.collect([*map(fcplus.run, points), None])
    rows = {row["network"]: row for row in result["table_8"]}
    assert rows["Clos"]["diverse"] == pytest.approx(0.524, abs=1e-3)
    assert rows["FC+ 1L"]["diverse"] >= 0.645
    assert rows["FC+ 1L"]["paper"] == 0.600
    assert result["table_2"][0]["k2"] == pytest.approx(36.67, rel=0.05)
    assert result["table_1"] == []
    fcplus_figures.draw(result["points"], tmp_path / "figures.svg")
    assert (tmp_path / "figures.svg").stat().st_size > 10_000
