# SPDX-License-Identifier: Apache-2.0
"""The FC+ experiment: its points, its tables."""

import json

import pytest

from detour.base.records import as_json
from detour.experiments import reproduce
from detour.experiments.fcplus import experiment as fcplus
from detour.experiments.fcplus import figures as fcplus_figures
from detour.experiments.fcplus import paper
from detour.experiments.fcplus.results import FcPathsPoint, FcplusCountsPoint, K2Point
from detour.experiments.fcplus.tables import collect, groups, tables
from tests.unit.experiments.printing import printed


def test_every_printed_value_has_a_point_and_every_point_a_cost():
    points = fcplus.select("full")
    assert len(set(points)) == len(points)
    assert all(fcplus.seconds(p) > 0 for p in points)
    k2 = {(p.n, p.k) for p in points if isinstance(p, K2Point)}
    assert k2 == {(n, k) for n, row in paper.TABLE_2.items() for k in row}
    counts = {(p.n, p.v) for p in points if isinstance(p, FcplusCountsPoint)}
    assert counts == {(n, v) for n, row in paper.TABLE_4.items() for v in row}
    assert {p.n for p in points if isinstance(p, FcPathsPoint) and p.s == 22} == set(paper.TABLE_7)
    assert len(fcplus.select("normal")) < len(points)


def test_the_papers_fc_has_the_layers_that_its_numbers_of_paths_show():
    assert [paper.fc_layers(n, 18) for n in (100, 252, 300, 400, 500)] == [4, 4, 4, 5, 5]
    assert [paper.fc_layers(n, 22) for n in (120, 500, 1000, 1500)] == [4, 4, 5, 6]


def test_points_become_rows_beside_the_papers(tmp_path):
    points = [
        fcplus._flow(120, 22, "FC+ 1L", "near-worst", 32),
        fcplus._flow(120, 22, "Clos", "near-worst", 32),
        fcplus._flow(52, 18, "FC", "near-worst", 32),
        K2Point(n=100, s=18, k=32, sources=3),
    ]
    results = [fcplus.run(point) for point in points]
    outcome = collect(results)
    rows = {row.network: row for row in outcome.table_8}
    assert rows["Clos"].diverse == pytest.approx(0.524, abs=1e-3)
    diverse = rows["FC+ 1L"].diverse
    assert diverse is not None
    assert diverse >= 0.645
    assert rows["FC+ 1L"].paper == 0.600
    assert outcome.table_2[0]["k2"] == pytest.approx(36.67, rel=0.05)
    assert outcome.table_1 == []
    decode = reproduce.FCPLUS.decode
    assert [decode(json.loads(json.dumps(as_json(result)))) for result in results] == results
    fcplus_figures.draw(outcome, tmp_path / "figures.svg")
    assert (tmp_path / "figures.svg").stat().st_size > 10_000
    assert all(f"Table {number}:" in printed(tables(outcome)) for number in ("II", "VIII"))


def test_what_is_left_out_is_told_by_question_and_network() -> None:
    points = [fcplus._flow(n, 18, name, "uniform", 32) for n in (52, 100) for name in ("KSP", "FC+ 1L")]
    lines = groups([*points, K2Point(n=500, s=18, k=32, sources=None)])
    assert lines == ["throughput uniform of FC+ 1L, KSP, N = 52, 100: 4 points", "k2, N = 500: 1 points"]
