# SPDX-License-Identifier: Apache-2.0
"""Settings of schemes: how the best is found, where it is kept, and what an addition is worth."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from detour.base.errors import DetourError
from detour.control.policy import RedMarking, StepMarking
from detour.experiments.nonshortest import ablation, additions, experiment, settings, tuning
from detour.experiments.nonshortest.experiment import NonshortestRun, NonshortestSelection, changed, select
from detour.experiments.nonshortest.settings import Setting, setting_of
from detour.experiments.nonshortest.workloads import HOLD_OUTS
from detour.fabric.backends.virtual.scheme import BENCHMARK, OTHERS, SCHEMES, SHORTEST_PATH, TELEMETRY_GBN, scheme
from detour.topo import parse_topology
from tests.unit.experiments.test_nonshortest import run

ALL = (*SCHEMES.values(), *OTHERS)


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.name)
def test_a_schemes_own_setting_is_itself(one) -> None:  # type: ignore[no-untyped-def]
    assert setting_of(one).of(one) == one


def test_settings_mark_by_a_step_or_between_two() -> None:
    step, red = Setting("dctcp", (80_000,)), Setting("dcqcn", (40_000, 200_000), 0.2, 10)
    assert isinstance(step.ecn, StepMarking)
    assert isinstance(red.ecn, RedMarking)
    assert step.text("TelemetryLERP") == "DCTCP, ECN 80 kB"
    assert red.text("Benchmark") == "DCQCN, ECN 40 to 200 kB, 0.2, T = 10"
    assert red.text("ShortestPath") == "DCQCN, ECN 40 to 200 kB, 0.2"


def test_the_sweep_gives_every_candidate_the_same_time_draws_and_cells() -> None:
    points = tuning.select("d1")
    cells = {(p.pattern, p.pairs, p.virtual_us, p.seed) for p in points}
    assert len(cells) == 6
    for name, candidates in settings.CANDIDATES.items():
        for setting in candidates:
            mine = [p for p in points if (p.scheme, p.setting) == (name, setting)]
            assert {(p.pattern, p.pairs, p.virtual_us, p.seed) for p in mine} == cells
    with pytest.raises(DetourError, match="works on D1, D2, D3, not on"):
        tuning.select("dragonfly:p=2,a=8,h=4")


def test_larger_topologies_are_swept_with_the_best_of_the_smaller_ones() -> None:
    for name, (smaller, count) in tuning.SHORTLISTS.items():
        result = tuning.candidates(name)
        assert set(result) == set(tuning.HELD_OUT)
        for one, some in result.items():
            best = settings.stored().topologies[smaller].schemes[one].tried
            assert list(some) == [tried.setting for tried in best[:count]]
        assert tuning.candidates(name, whole=True) == settings.CANDIDATES
    assert tuning.candidates("D1") == settings.CANDIDATES


def test_a_scheme_that_was_not_swept_takes_the_setting_of_the_nearest_where_it_was() -> None:
    network = parse_topology("d2")
    for name in (TELEMETRY_GBN, SHORTEST_PATH):
        assert settings.chosen(network, name) == settings.stored().topologies["D1"].schemes[name.name].setting
    assert settings.chosen(network, BENCHMARK) == settings.stored().topologies["D2"].schemes["Benchmark"].setting


def test_no_result_uses_the_draw_that_settings_were_chosen_on() -> None:
    assert {point.seed for point in tuning.select("D1")} == {settings.TUNING_SEED}
    full = [p.seed for one in tuning.selections("full", 10) for p in select(one)]
    assert max(full) < settings.TUNING_SEED


def test_the_best_on_average_is_chosen_and_what_failed_is_not() -> None:
    points = [p for p in tuning.select("D1") if p.scheme == "ShortestPath"]
    candidates = settings.CANDIDATES["ShortestPath"]
    rates = dict(zip(candidates, (100.0, 700.0, 300.0, 790.0), strict=True))
    failed = points[-1]
    assert failed.setting == candidates[-1]
    results: list[NonshortestRun | None] = [
        None if point is failed else replace(run("ShortestPath", rates[point.setting]), pattern=point.pattern)
        for point in points
    ]
    choice = tuning.choices([], points, results).schemes["ShortestPath"]
    assert choice.setting == candidates[1]
    assert [one.score for one in choice.tried] == [0.875, 0.375, 0.125]
    assert len(choice.tried[0].cells) == 6


def test_choices_are_kept_beside_those_of_other_topologies(tmp_path: Path) -> None:
    file = tmp_path / "chosen.json"
    assert settings.read(file).topologies == {}
    one = settings.tried(Setting("dctcp", (9_000,)), {"unf 8": 0.51234})
    for topology in ("D2", "D1", "D2"):
        settings.write(file, settings.best(topology, {"unf": 1}, [("Benchmark", [one]), ("LERP", [])]))
    result = settings.read(file).topologies
    assert list(result) == ["D1", "D2"]
    assert result["D1"].schemes["Benchmark"].tried == [one]
    assert one.score == 0.5123
    file.write_text("{")
    with pytest.raises(DetourError, match=r"chosen\.json"):
        settings.read(file)


def test_topologies_without_a_sweep_take_the_nearest(monkeypatch: pytest.MonkeyPatch) -> None:
    def choices(name: str, k: int) -> settings.TopologySettings:
        tried = settings.tried(Setting("dctcp", (k,)), {"unf 8": 0.5})
        return settings.best(name, {}, [("TelemetryLERP", [tried])])

    expected = settings.StoredSettings(
        {name: choices(name, k) for name, k in (("D1", 1_000), ("D2", 2_000), ("D3", 3_000))}
    )
    monkeypatch.setattr(settings, "stored", lambda: expected)
    for spec, k in (("d1", 1_000), ("dragonfly:p=4,a=4,h=2", 1_000), ("dragonfly:p=2,a=8,h=4", 2_000), ("d3", 3_000)):
        assert settings.chosen(parse_topology(spec), scheme("TelemetryLERP")).ecn_bytes == (k,)
    assert settings.chosen(parse_topology("d1"), scheme("Benchmark")) == setting_of(scheme("Benchmark"))


def test_what_is_stored_was_tried() -> None:
    for name, result in settings.stored().topologies.items():
        assert result.topology == name
        for one, choice in result.schemes.items():
            assert {each.setting for each in choice.tried} == set(tuning.candidates(name)[one]), (name, one)
            assert choice.tried[0].score == max(each.score for each in choice.tried)
            assert choice.setting == choice.tried[0].setting


# -- additions ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.name)
def test_every_addition_can_be_left_out(one) -> None:  # type: ignore[no-untyped-def]
    for addition in additions.additions_of(one):
        left = additions.undo(one, addition.name)
        assert left != one
        assert additions.undo(left, addition.name) == left
    with pytest.raises(DetourError, match="has no addition 'magic'"):
        additions.undo(one, "magic")


def test_the_seven_additions_of_the_telemetry_scheme() -> None:
    lerp, literal = scheme("TelemetryLERP"), scheme("TelemetryLERP-literal")
    names = [one.name for one in additions.additions_of(lerp)]
    assert names == [
        "own_share", "standing_delay", "confirmations", "reroute_cwnd", "delta2_empty", "empty_gain", "crowded_probes",
        "ecn",
    ]  # fmt: skip
    for name in names:
        lerp = additions.undo(lerp, name)
    assert replace(lerp, name=literal.name) == literal


def test_a_point_without_an_addition() -> None:
    chosen = NonshortestSelection("D1", "adv1", (8,), ("TelemetryLERP",), without="own_share")
    (point,) = select(chosen)
    assert "own_share" not in dict(changed(scheme("TelemetryLERP"), point).hosts)
    with pytest.raises(DetourError, match="has no addition"):
        select(replace(chosen, without="threshold"))


def test_what_an_addition_is_worth() -> None:
    def cell(wire: float, seed: int, without: str | None = None, steady: bool = True) -> NonshortestRun:
        result = run("TelemetryLERP", wire, seed=seed)
        return replace(result, steady=steady) if without is None else replace(result, steady=steady, without=without)

    result = ablation.collect(
        [
            *(cell(110.0, seed) for seed in (1, 2, 3)),
            *(cell(wire, seed, "own_share") for seed, wire in ((1, 100.0), (2, 110.0))),
            cell(220.0, 1, "empty_gain", steady=False),
        ]
    )
    worth = {row.name: row.worth for row in result.settings}
    (own,), (empty,) = worth["own_share"], worth["empty_gain"]
    assert (own.draws, own.gain, own.spread, own.steady) == (2, 4.76, 7.07, True)
    assert (empty.gain, empty.spread, empty.steady) == (-50.0, None, False)
    assert worth["confirmations"] == []


def test_cells_of_the_ablation() -> None:
    assert ablation.cells("D1", None, ()) == list(ablation.ABLATED)
    assert ablation.cells("D2", "adv1", ()) == [("adv1", 18), ("adv1", 144)]
    assert ablation.cells("D1", "permutation", ()) == [("permutation", 72)]
    assert ablation.cells("D1", None, (4, 5)) == [("adv1", 4), ("adv1", 5)]


def test_hold_outs_are_none_of_what_settings_were_chosen_on() -> None:
    chosen_on = {(point.topology, point.pattern) for name in ("D1", "D2", "D3") for point in tuning.select(name)}
    cells = {(one.topology, one.pattern) for one in tuning.selections("normal")}
    assert not cells & chosen_on
    assert {pattern for topology, pattern in cells if topology == "D1"} == set(HOLD_OUTS)
    assert experiment.load_of("D1", "permutation", 72) is None
