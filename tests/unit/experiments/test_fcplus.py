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
from detour.experiments.fcplus.tables import (
    CompletionRow,
    DeadlockRow,
    FcplusFindings,
    NetworkOrder,
    ThroughputRow,
    VirtualRow,
    collect,
    grouped,
    tables,
)
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
    found = collect([*results, None])
    rows = {row.network: row for row in found.table_8}
    assert rows["Clos"].diverse == pytest.approx(0.524, abs=1e-3)
    diverse = rows["FC+ 1L"].diverse
    assert diverse is not None
    assert diverse >= 0.645
    assert rows["FC+ 1L"].paper == 0.600
    assert found.table_2[0]["k2"] == pytest.approx(36.67, rel=0.05)
    assert found.table_1 == []
    decode = reproduce.FCPLUS.decode
    assert [decode(json.loads(json.dumps(as_json(result)))) for result in results] == results
    fcplus_figures.draw(found, tmp_path / "figures.svg")
    assert (tmp_path / "figures.svg").stat().st_size > 10_000


FINDINGS = FcplusFindings(
    points=[],
    table_1=[{"n": 100, "layers": 4, "disjoint": 5.894, "paper_disjoint": 6.48, "up_down": 31.811, "paper_up_down": 31.67}],
    table_2=[{"n": 1500, "k": 100, "k2": 257.912, "paper": 257.91}],
    table_3=[{"n": 1000, "layers": 10, "n_p": 170.421, "n_p6": 25.613, "n_p4": 3.592, "paper": [170.42, 25.61, 3.59]}],
    table_4=[{"n": 1000, "v": 10, "longest": 6.443, "shortest": 5.002, "n_p4": 3.591, "paper": [6.44, 5.00, 3.59]}],
    table_5=[VirtualRow(v=10, plain=0.27812, diverse=None, paper=0.278)],
    table_6=[{"n": 500, "layers": 5, "disjoint": 4.552, "paper_disjoint": 4.55}],
    table_7=[{"n": 2000, "layers": 6, "disjoint": 8.112, "paper_disjoint": 8.11}],
    table_8=[ThroughputRow(network="FC+ 2L", pattern="all-to-all", plain=1.20412, diverse=1.20512, paper=1.204)],
    completion=[
        CompletionRow(
            network="FC+ 2L", pattern="near-worst", sizes="equal", us=5000, seed=1, messages=187_512, unfinished=1_234,
            deadlock=False, mean_hops=2.715, pauses=123_456, p50=12.345, p99=123.456, p50_us=2345.678,
            p99_us=23456.789, paper_p50=113.753, paper_p99=225.508,
        ),
    ],
    order=[NetworkOrder("near-worst", ["FC+ 2L", "KSP", "FC+ 1L"], ["FC+ 2L", "KSP", "FC+ 1L"], True)],
    deadlocks=[
        DeadlockRow(
            network="FC+ 2L", n=120, s=22, dcqcn=True, seed=1, deadlock=True, stuck_queues=1_234, remains=True,
            found_at_us=2000.0, goodput_gbps_before=24_512.3, goodput_gbps_after=12_345.6, pauses=123_456, drops=0,
            possible=True,
        ),
    ],
)  # fmt: skip


def test_tables_fit_a_terminal() -> None:
    text = printed(tables(FINDINGS))
    assert "near-worst, median: FC+ 2L < KSP < FC+ 1L (the paper's order" in " ".join(text.split())
    assert all(f"Table {number}:" in text for number in ("I", "II", "III", "IV", "V", "VI", "VII", "VIII"))
    assert "123456" in printed(tables(FINDINGS), wide=True)


def test_what_is_left_out_is_told_by_question_and_network() -> None:
    points = [fcplus._flow(n, 18, name, "uniform", 32) for n in (52, 100) for name in ("KSP", "FC+ 1L")]
    lines = grouped([*points, K2Point(n=500, s=18, k=32, sources=None)])
    assert lines == ["throughput uniform of FC+ 1L, KSP, N = 52, 100: 4 points", "k2, N = 500: 1 points"]
