# SPDX-License-Identifier: Apache-2.0
"""`reproduce rivals`: what is run, what is made of it, and the goals."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from detour import cli
from detour.base.errors import DetourError
from detour.experiments.reproduce import RIVALS, Means, keep, reproduce
from detour.experiments.rivals import htsim
from detour.experiments.rivals import points as rivals
from detour.experiments.rivals.experiment import RivalRun, RivalTimes, least_p99, run
from detour.experiments.rivals.page import every_cell, write
from detour.experiments.rivals.points import RIVAL_PATTERNS, busiest_global_link, draw, points_in
from detour.experiments.rivals.tables import collect, goals, goals_table, lateness_table
from detour.experiments.store import Store, source_version
from detour.topo import parse_topology

D1 = parse_topology("dragonfly:p=2,a=4,h=2")
TINY = "dragonfly:p=1,a=2,h=1"
DOCS = Path(__file__).resolve().parents[3] / "docs"


@pytest.mark.parametrize("pattern", RIVAL_PATTERNS)
def test_pairs_are_of_different_hosts_and_the_same_for_the_same_seed(pattern: str) -> None:
    pairs = draw(D1, pattern, None, 3)
    assert pairs == draw(D1, pattern, None, 3)
    assert len(set(pairs)) == len(pairs) > 0
    assert all(a != b for a, b in pairs)


def test_an_incast_has_a_background_that_it_has_no_part_in() -> None:
    pairs = draw(D1, "incast", None, 1)
    (receiver, senders), *_ = Counter(b for _, b in pairs).most_common(1)
    assert senders == 8, "as many as a group has hosts"
    inside = {receiver, *(a for a, b in pairs if b == receiver)}
    others = [(a, b) for a, b in pairs if b != receiver]
    assert {a for a, _ in others} == {b for _, b in others} == set(range(72)) - inside


def test_loads_are_in_order() -> None:
    light, medium, heavy = (len(draw(D1, "unf", load, 1)) for load in ("light", "medium", "heavy"))
    assert (light, medium, heavy) == (288, 576, 1152)


def test_the_link_that_breaks_is_one_that_is_used() -> None:
    pairs = [(0, 8), (1, 9), (2, 16)]
    link = D1.links[busiest_global_link(D1, pairs)]
    assert {D1.switches[end[0]].group for end in (link.a, link.b)} == {0, 1}
    with pytest.raises(DetourError, match="no global links"):
        busiest_global_link(parse_topology("leaf-spine:leaves=2,spines=2,hosts=2"), [(0, 2)])


def test_all_schemes_get_the_same() -> None:
    points = rivals.select(rivals.usual("normal"))
    by_scheme: dict[str, list[rivals.RivalPoint]] = {}
    for point in points:
        by_scheme.setdefault(point.scheme, []).append(replace(point, scheme=""))
    first = by_scheme["SprayLERP"]
    assert set(by_scheme) == set(rivals.COMPARED)
    assert all(some == first for some in by_scheme.values())
    assert {p.seed for p in first} == {1, 2, 3, 4, 5}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"patterns": ("nonsense",)}, "no traffic pattern"),
        ({"schemes": ("nonsense",)}, "no scheme"),
        ({"sizes": (-1,)}, "a message of -1 bytes"),
    ],
)
def test_what_cannot_be_run(change: dict[str, tuple[object, ...]], words: str) -> None:
    with pytest.raises(DetourError, match=words):
        rivals.select(replace(rivals.usual("quick"), **change))  # type: ignore[arg-type]


def ran(scheme: str, **changes: object) -> RivalRun:
    base = RivalRun(
        topology="D1", pattern="unf", load="light", message_bytes=0, scheme=scheme, seed=1, pairs=288, steady=True,
        throughput_fraction=0.8, goodput_gbps=1.0, fct_us=None, unfinished=0, jain=0.9, recovery_us=None, rtt_us=None,
        marked_fraction=0.1, retransmitted_fraction=0.0, detour_fraction=0.2, timeouts=0, held_packets_peak=5,
    )  # fmt: skip
    return replace(base, **changes)  # type: ignore[arg-type]


def messages(scheme: str, p99: float, size: int = 1_000_000, mean: float = 50.0, **changes: object) -> RivalRun:
    times = RivalTimes(mean, 40.0, p99, p99)
    return ran(scheme, message_bytes=size, fct_us=times, throughput_fraction=None, jain=None, **changes)


def test_a_cell_is_the_mean_of_its_draws() -> None:
    result = collect([ran("REPS"), ran("REPS", seed=2, throughput_fraction=0.6, steady=False)])
    (cell,) = result.cells
    assert (cell.throughput_fraction, cell.draws, cell.steady, cell.chosen_on) == (0.7, 2, False, True)
    assert cell.spread == pytest.approx(0.1414, abs=1e-4)
    (other,) = collect([ran("REPS", topology="D2")]).cells
    assert not other.chosen_on


def test_goals_name_the_cells_where_they_are_missed() -> None:
    result = collect(
        [
            ran("SprayLERP", throughput_fraction=0.795),
            ran("REPS"),
            ran("SprayLERP", load="heavy", throughput_fraction=0.7),
            ran("REPS", load="heavy"),
            messages("SprayLERP", 70.0),
            messages("TelemetryLERP", 100.0),
            messages("SprayLERP", 20.0, 64_000, mean=12.0),
            messages("LERP-shortest", 20.0, 64_000, mean=11.0),
            ran("SprayLERP", pattern="failed-link", load=None, recovery_us=50.0, rtt_us=20.0),
            ran("REPS", pattern="failed-link", load=None, recovery_us=10.0, rtt_us=20.0),
        ]
    )
    assert [goal.met() for goal in goals(result)] == ["2 of 3", "0 of 1", "2 of 2", "0 of 1", "1 of 1"]
    missed = [column.of(goals(result)[0]) for column in goals_table(result).columns][2]
    assert missed == "D1 unf heavy: 70.0%, REPS 80.0%"


def test_goals_compare_equal_draws_only() -> None:
    runs = [messages("SprayLERP", 70.0), messages("REPS", 10.0), messages("REPS", 10.0, seed=2), messages("PLB", 80.0)]
    assert goals(collect(runs))[2].met() == "1 of 1", "one draw against REPS' two says nothing"
    assert goals(collect(runs[:2]))[2].met() == "0 of 1"


def test_a_scheme_that_left_messages_unfinished_has_no_tail() -> None:
    result = collect([messages("SprayLERP", 70.0), messages("REPS", 10.0, unfinished=3)])
    assert goals(result)[2].met() == "1 of 1"


def test_the_document_is_made_of_the_runs_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "rivals.jsonl.xz").symlink_to(DOCS / "rivals.jsonl.xz")
    assert cli.main(["reproduce", "rivals", "--from", "docs/rivals.jsonl.xz", "--write", "docs/rivals.md"]) == 0
    text = (tmp_path / "docs" / "rivals.md").read_text()
    assert text == (DOCS / "rivals.md").read_text()
    assert len(text.split()) <= 1_500


def page(file: Path, runs: list[RivalRun]) -> str:
    write(file, collect(runs), rivals.usual("quick"), "detour reproduce rivals --quick --write rivals.md")
    return file.read_text()


def test_the_page_sums_up_what_there_is(tmp_path: Path) -> None:
    heavy = [messages("SprayLERP", 90.0, load="heavy"), messages("TelemetryLERP", 100.0, load="heavy")]
    runs = [ran("SprayLERP"), ran("REPS", throughput_fraction=0.6), *heavy, messages("SprayLERP", 70.0, seed=2)]
    text = page(tmp_path / "rivals.md", runs)
    assert "reproduce rivals --quick --write" in text
    assert "There are 5 cells: 5 on D1; 5 of 1 draw." in text
    assert "Few cells have Benchmark-DCTCP (0), LERP-shortest (0), Spritz-Spray (0)." in " ".join(text.split())
    assert "| throughput first or within 1 % of first | 1 of 1 | 0 of 0 | – |" in text
    assert "| 0 of 1 | 0 of 0 | D1 1 MB: unf heavy |" in text
    assert "of the 1 cells that miss 0.6 of TelemetryLERP's p99" in text
    assert "| SprayLERP | 100%, 100% | – | 100%, 100% | – |" in text
    assert "| unf | 80.0% | 60.0% REPS | – | – | 90 | 100 TelemetryLERP |" in text


def test_a_page_has_every_cell() -> None:
    text = every_cell(collect([ran("SprayLERP", late=(1.0,)), messages("REPS", 10.0)]))
    assert text.count("| D1 | unf light | 288 | SprayLERP |") == 2, "throughput and order"
    assert "| D1 | unf light | 288 | REPS | 1 | 1 MB | 50.0 |" in text


def test_the_links_of_hosts_bound_p99() -> None:
    """One host takes 8 messages of 1 MB, at 88.16 us each; 92 others have a host each to themselves."""
    pairs = [(sender, 0) for sender in range(1, 9)] + [(20 + n, 200 + n) for n in range(92)]
    least = np.sort([88.16 * k for k in range(1, 9)] + [88.16] * 92)
    assert least_p99(pairs, 1_000_000) == pytest.approx(np.percentile(least, 99) - 20)
    assert least_p99([(0, 1)], 1000) == 0


def test_the_goal_says_what_hosts_links_alone_need() -> None:
    result = collect([messages("SprayLERP", 70.0, least_p99_us=65.0), messages("TelemetryLERP", 100.0)])
    assert [verdict.figures for verdict in goals(result)[1].missed] == ["0.70 (links of hosts: 0.65)"]


def test_lateness_is_a_distribution() -> None:
    cells = collect([ran("REPS", late=(0.5, 0.25, 0.25)), ran("REPS", seed=2, late=(1.0,))]).cells
    assert cells[0].late == [0.75, 0.125, 0.125]
    table = lateness_table(cells)
    values = [column.of(table.rows[0]) for column in table.columns]
    assert values[6:9] == ["0.750", "0.875", "1.000"]


def test_kept_runs_are_read_back_and_added_to(tmp_path: Path) -> None:
    file, store = tmp_path / "runs.xz", tmp_path / "store.jsonl"
    points = rivals.select(replace(rivals.usual("quick"), patterns=("unf",), sizes=(0,)))
    with pytest.raises(DetourError, match="no finished runs"):
        keep(file, store)
    Store[RivalRun](store, source_version()).add(points[0], ran(points[0].scheme), 1.0)
    Store[RivalRun](store, "other sources").add(points[2], ran(points[2].scheme), 1.0)
    assert keep(file, store) == 1
    store.unlink()
    Store[RivalRun](store, source_version()).add(points[1], ran(points[1].scheme), 1.0)
    assert keep(file, store) == 2
    assert points_in(file, rivals.usual("normal")) == [points[0], points[1]]
    assert points_in(file, rivals.usual("normal"), ["D2"]) == []
    result = reproduce(RIVALS, points[:2], Means(archive=file))
    assert [cell.scheme for cell in result.collected.cells] == [points[0].scheme, points[1].scheme]


def test_both_simulators_get_the_same_messages() -> None:
    lines = htsim.matrix("incast", 1).splitlines()
    pairs = draw(parse_topology(htsim.BOTH_TOPOLOGY), "incast", None, 1)
    assert lines[:2] == ["Nodes 128", f"Connections {len(pairs)}"]
    assert [line.split()[0] for line in lines[2:]] == [f"{a}->{b}" for a, b in pairs]
    begins = [int(line.split()[4]) for line in lines[2:]]
    assert set(begins) == set(range(20))
    printed = "Flow a flowId 2 uecSrc 78 finished at 91.0 total\nFlow b flowId 1 uecSrc 7 finished at 50.5 total"
    assert htsim.times(printed, {1: 0.5, 2: 1.0}) == {"mean": 70.0, "p50": 70.0, "p99": 89.6}


def test_pages_have_both_simulators(tmp_path: Path) -> None:
    one = messages("REPS-NSCC", 120.0, topology=htsim.BOTH_TOPOLOGY, pattern="permutation", load=None)
    runs = [one, messages("SprayLERP", 70.0)]
    expected = json.loads(htsim.DATA.read_text())["runs"]
    (mean,) = [
        r["mean"] for r in expected if (r["pattern"], r["seed"], r["load_balancing"]) == ("permutation", 1, "reps")
    ]
    assert f"| permutation | REPS-NSCC | 1 | 50.0 | {mean:.1f}" in every_cell(collect(runs))
    text = page(tmp_path / "rivals.md", runs)
    assert "also ran in uet-htsim" in text
    assert "There are 1 cells: 1 on D1" in text


def test_a_run_of_each_kind() -> None:
    """Tiny, but real: endless, a message each, and a link that breaks."""
    for pattern, size in (("permutation", 0), ("permutation", 20_000), ("failed-link", 0)):
        what = rivals.RivalSelection((TINY,), (pattern,), (size,), ("SprayLERP",), 1, "quick")
        (point,) = rivals.select(what)
        result = run(point)
        assert result.pairs == 6
        assert (result.fct_us is not None) is (size > 0)
        assert (result.recovery_us is not None) is (pattern == "failed-link")
        if size:
            assert result.unfinished == 0
        else:
            assert 0 < (result.throughput_fraction or 0) <= 1
