# SPDX-License-Identifier: Apache-2.0
"""`reproduce rivals`: what is run, what is made of it, and the goals."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from detour.base.errors import DetourError
from detour.experiments.rivals import experiment as rivals
from detour.experiments.rivals.experiment import RivalRun, RivalTimes
from detour.experiments.rivals.page import write
from detour.experiments.rivals.tables import goals, tables
from detour.experiments.rivals.workloads import RIVAL_PATTERNS, busiest_global_link, draw
from detour.topo import parse_topology

D1 = parse_topology("dragonfly:p=2,a=4,h=2")
TINY = "dragonfly:p=1,a=2,h=1"


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
    found = rivals.collect([ran("REPS"), ran("REPS", seed=2, throughput_fraction=0.6, steady=False), None])
    (cell,) = found.cells
    assert (cell.throughput_fraction, cell.draws, cell.steady, cell.chosen_on) == (0.7, 2, False, True)
    assert cell.spread == pytest.approx(0.1414, abs=1e-4)
    (other,) = rivals.collect([ran("REPS", topology="D2")]).cells
    assert not other.chosen_on


def test_goals_name_the_cells_where_they_are_missed() -> None:
    found = rivals.collect(
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
    assert [(goal.met, goal.cells, len(goal.missed)) for goal in goals(found)] == [
        (2, 3, 1), (0, 1, 1), (2, 2, 0), (0, 1, 1), (1, 1, 0),
    ]  # fmt: skip
    assert "D1 unf heavy: 70.0%, REPS 80.0%" in goals(found)[0].missed


def test_a_scheme_that_left_messages_unfinished_has_no_tail() -> None:
    found = rivals.collect([messages("SprayLERP", 70.0), messages("REPS", 10.0, unfinished=3)])
    assert goals(found)[2].met == 1


def test_the_page_holds_all_cells(tmp_path: Path) -> None:
    found = rivals.collect([ran("SprayLERP"), messages("REPS", 10.0)])
    assert [len(table.rows) for table in tables(found)] == [1, 1]
    write(tmp_path / "rivals.md", found, rivals.usual("quick"))
    text = (tmp_path / "rivals.md").read_text()
    assert "reproduce rivals --quick --write" in text
    assert "| D1 | unf light |" in text


def test_a_run_of_each_kind() -> None:
    """Tiny, but real: endless, a message each, and a link that breaks."""
    for pattern, size in (("permutation", 0), ("permutation", 20_000), ("failed-link", 0)):
        what = rivals.RivalSelection((TINY,), (pattern,), (size,), ("SprayLERP",), 1, "quick")
        (point,) = rivals.select(what)
        found = rivals.run(point)
        assert found.pairs == 6
        assert (found.fct_us is not None) is (size > 0)
        assert (found.recovery_us is not None) is (pattern == "failed-link")
        if size:
            assert found.unfinished == 0
        else:
            assert 0 < (found.throughput_fraction or 0) <= 1
