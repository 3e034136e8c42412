# SPDX-License-Identifier: Apache-2.0
"""Flat fabrics compared: connections, failures, schemes, settings, cells, and runs on small networks."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from detour import cli
from detour.base.errors import DetourError
from detour.base.records import as_json, decoder
from detour.experiments.flat import cells, collectives, experiment, schemes, selection, settings
from detour.experiments.flat.cases import case_of, network_of
from detour.experiments.flat.points import (
    FAMILIES,
    WAYS,
    ClaimsPoint,
    CollectivePoint,
    CollectiveRun,
    FlatPoint,
    FlatRun,
    FlatSetting,
)
from detour.experiments.messages import Percentiles
from detour.fabric.traffic import tasks
from detour.fabric.workloads.jobs import job_by_name

DOCS = Path(__file__).resolve().parents[3] / "docs"
SMALL = "rng:n=20,d=5,hosts=2"


def point(routing: str = "ksp", scheme: str = "SprayLERP", matrix: str = "random-matching", **more) -> FlatPoint:
    return FlatPoint(topology=SMALL, routing=routing, scheme=scheme, matrix=matrix, us=100, **more)


# -- what all schemes have in common ------------------------------------------------------------------------


@pytest.mark.parametrize("matrix", ["uniform", "all-to-all", "hubs:0.3", "clique:0.3", "ring-random", "moe:0.3"])
def test_connections_ask_for_what_the_matrix_does(matrix: str) -> None:
    """No host is asked for more than its rate, and where all switches are alike none gets more (to within a connection
    where they are not); at the optimum none does."""
    case = case_of(SMALL, matrix, "none", 3)
    source, target = np.array(case.pairs).T
    sent, received = (np.bincount(ends, case.share, minlength=40) for ends in (source, target))
    assert sent.max() == pytest.approx(1.0)
    alike = matrix in ("uniform", "all-to-all", "ring-random")
    most = 1.83 if matrix == "moe:0.3" else 1.0  # the most popular of 20 switches: 20 / sum of k ** -0.3
    assert received.max() <= most + (1e-9 if alike else 2 * case.share.max())
    assert case.lp * received.max() <= 1.0 + 1e-9
    assert (source // 2 != target // 2).all()
    assert case.demand.amount.sum() == pytest.approx(case.share.sum())


def test_failures_are_drawn_by_seed_and_hosts_of_dead_switches_are_left_out() -> None:
    links = case_of(SMALL, "random-matching", "links:0.05,replanned", 1)
    assert len(links.failures) == round(0.05 * 50)
    assert links.replanned
    assert {failure.kind for failure in links.failures} == {"link"}
    assert case_of(SMALL, "random-matching", "links:0.05", 2).failures != links.failures
    switches = case_of(SMALL, "random-matching", "switches:0.05", 1)
    (dead,) = (failure.index for failure in switches.failures)
    assert not {dead} & {host // 2 for pair in switches.pairs for host in pair}
    with pytest.raises(DetourError, match="expected none, links:SHARE or switches:SHARE"):
        case_of(SMALL, "random-matching", "hosts:0.1", 1)


def test_the_optimum_is_that_of_what_is_left() -> None:
    whole, broken = (case_of(SMALL, "longest-matching", f, 1).optimum.theta for f in ("none", "links:0.2"))
    assert broken < whole


# -- runs ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", [("ecmp", "LERP"), ("spraypoint", "REPS"), ("ugal-l", "LERP"), ("wmp", "PathSet")])
def test_a_run_has_three_numbers_in_order(way: tuple[str, str]) -> None:
    """What arrives is no more than the optimum, and all messages do. The same point gives the same result."""
    run = experiment.run_matrix(point(*way))
    assert 0.3 * run.lp < run.measured <= run.lp * 1.02
    assert run.routing_lp is None or run.routing_lp <= run.lp * (1 + run.lp_gap)
    assert (run.unfinished, run.hosts) == (0, 40)
    assert run.slowdown.p50 >= 0.9
    assert experiment.run_matrix(point(*way)) == run
    assert decoder(FlatRun, CollectiveRun)(json.loads(json.dumps(as_json(run)))) == run


def test_lists_avoid_failures_that_are_known() -> None:
    """With a tenth of the links down all messages arrive, by paths of the broken network."""
    run = experiment.run_matrix(point("edge-disjoint", "PathSet", failures="links:0.1,replanned"))
    assert run.unfinished == 0
    assert run.routing_lp is not None
    unknown = experiment.run_matrix(point("edge-disjoint", "PathSet", failures="links:0.1"))
    assert unknown.routing_lp is None
    # Path health leaves lists that are silent; answers go by the old routes, some of which end at dead links.
    assert unknown.unfinished < unknown.messages / 3
    assert unknown.measured < run.measured


def test_messages_at_once() -> None:
    """Every host sends and gets one; hosts of half of the switches get theirs from two links away, by one link."""
    network = network_of("slimfly:n=50,s=7,hosts=4", 1)
    draw = np.random.default_rng(1)
    source, target = np.array(collectives.permutation(network, draw)).T
    assert sorted(source) == sorted(target) == list(range(200))
    assert (source != target).all()
    linked = [{int(one) for one in row if one >= 0} for row in network.channels.neighbour]
    pairs = np.array(collectives.adversarial(network, draw))
    assert len(np.unique(pairs[:, 0])) == len(np.unique(pairs[:, 1])) == len(pairs) == 25 * 4
    last: dict[int, set[int]] = {}
    for a, b in (pairs // 4).tolist():
        assert b not in linked[a]
        last[b] = last.get(b, linked[b]) & linked[a]
    assert [len(via) for via in last.values()] == 25 * [1]


@pytest.mark.parametrize("way", [("ksp", "REPS"), ("placed", "LERP"), ("spraypoint", "SprayLERP")])
def test_collectives_take_at_least_the_ideal_time(way: tuple[str, str]) -> None:
    routing, scheme = way
    asked = CollectivePoint(
        topology=SMALL, routing=routing, scheme=scheme, collective="all-to-all", ranks=16, size=200_000
    )
    run = collectives.run(asked)
    assert run.time_us is not None
    assert run.ideal_us <= run.time_us < 10 * run.ideal_us


def test_what_does_not_exist_is_refused() -> None:
    for way, message in ((("kps", "REPS"), "there are ecmp"), (("ksp", "SRD"), "there are LERP, SprayLERP")):
        with pytest.raises(DetourError, match=message):
            experiment.run_matrix(point(*way))
    with pytest.raises(DetourError, match="expected ROUTING/SCHEME"):
        selection.select_asked(ways=["ksp"])


def test_weights_of_longer_paths_fall_with_the_exponent() -> None:
    """A path of three links weighs (2/3)^2 of one of two."""
    flat = replace(point("ksp", "PathSet"), setting=FlatSetting(exponent=2))
    case = case_of(SMALL, "random-matching", "none", 1)
    with schemes.FlatFabric(case.network, flat, len(case.pairs)) as fabric:
        fabric.connect(case.pairs)
        rows = fabric.hs.candidate[fabric.flows.sender[:1]][0]
        routes = schemes.family_paths(flat, "ksp", case.network, case.demand.pairs[:1]).routes
        length = routes.length.astype(float)
        weight = rows["weight"][: length.size]
    assert weight / weight[0] == pytest.approx((length[0] / length) ** 2, rel=0.15)


# -- settings, points, cells --------------------------------------------------------------------------------


def test_every_way_has_the_best_of_all_settings_that_were_tried() -> None:
    rows = decoder(list[settings.TriedSetting])(json.loads(settings.FLAT_SETTINGS_FILE.read_bytes()))
    for routing, scheme in WAYS:
        mine = [row for row in rows if (row.routing, row.scheme) == (routing, scheme)]
        assert {row.setting for row in mine} == set(settings.candidates(routing, scheme))
        best = min(mine, key=lambda row: row.score)
        assert settings.chosen(routing, scheme) == best.setting
        assert best.score == pytest.approx(best.p99 / best.share, rel=1e-3)


def test_results_use_no_seed_that_settings_were_chosen_on() -> None:
    assert all(one.seed == settings.TRAINING_SEED for one in settings.settings_points())
    for extent in ("quick", "normal", "full"):
        points = selection.select_asked(extent)
        assert len(points) == len(set(points))
        assert all(1 <= one.seed <= 10 for one in points if not isinstance(one, ClaimsPoint))
    paths = selection.select_asked("normal", part="paths")
    assert {one.seed for one in paths if isinstance(one, FlatPoint)} == {1, 2, 3, 4, 5}


def test_of_a_part_what_is_named_is_run() -> None:
    points = selection.select_asked(part="collectives", topologies=[selection.RNG], ways=["edge-disjoint/PathSet"])
    some = [one for one in points if isinstance(one, CollectivePoint)]
    assert len(some) == len(points) > 0
    assert {(one.topology, one.routing) for one in some} == {(selection.RNG, "edge-disjoint")}
    with pytest.raises(DetourError, match="--part failures has no such topology"):
        selection.select_asked(part="failures", topologies=[selection.FAT_TREE])


def _run(measured: float, p99: float, **more) -> FlatRun:
    given = {"routing": "ksp", "scheme": "REPS", "seed": 1} | more
    return FlatRun(
        topology=selection.RNG, matrix="uniform", **given, hosts=1064, lp=0.6, lp_gap=0.01, routing_lp=0.55,
        measured=measured, steady=True, messages=10, slowdown=Percentiles(2, 2, 3, p99), unfinished=0, retransmitted=0,
        drops=0,
    )  # fmt: skip


def test_draws_make_a_cell_for_each_equality_and_senders_are_held_against_spraypoint() -> None:
    runs = [_run(0.4, 4.0), _run(0.5, 6.0, seed=2)]
    rivals = [_run(0.3, 5.5, routing="spraypoint", seed=seed) for seed in (1, 2)]
    rivals += [_run(0.44, 7.0, routing="spraypoint", scheme="LERP", seed=seed) for seed in (1, 2)]
    found = cells.collect([*runs, *rivals])
    mine = [cell for cell in found.cells if cell.routing == "ksp"]
    assert [cell.equality for cell in mine] == list(selection.EQUALITIES[selection.RNG])
    assert {(cell.measured, cell.p99_slowdown, cell.graphs, cell.steady) for cell in mine} == {(0.45, 5.0, 2, 2)}
    assert mine[0].measured_spread == pytest.approx(0.0707, abs=1e-4)
    (goal,) = found.goals
    assert (goal.cells, goal.throughput, goal.p99) == (1, 1, 1)
    assert set(FAMILIES) > {"ksp"}


def test_the_page_is_made_of_the_runs_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "flat.jsonl.xz").symlink_to(DOCS / "flat.jsonl.xz")
    assert cli.main(["reproduce", "flat", "--from", "docs/flat.jsonl.xz", "--write", "docs/flat-fabrics.md"]) == 0
    assert (tmp_path / "docs" / "flat-fabrics.md").read_text() == (DOCS / "flat-fabrics.md").read_text()
    figures = sorted(file.name for file in (tmp_path / "docs" / "figures").iterdir())
    assert figures == ["flat-failures.svg", "flat-networks.svg", "flat-paths.svg"]


def test_a_collective_keeps_its_queue_pairs_where_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """What PathSet knows of a path would be lost with a lease, and stored results with it."""
    asked = CollectivePoint(topology=SMALL, routing="edge-disjoint", scheme="PathSet", collective="all-to-all", ranks=8)
    kept = collectives.run(asked)
    monkeypatch.setattr(tasks, "_MOST_KEPT", 4)
    assert collectives.run(asked) == kept


@pytest.mark.parametrize(
    "way", [("ecmp", "LERP"), ("spraypoint", "REPS"), ("ugal-l", "LERP"), ("wmp", "REPS"), ("ksp", "SprayLERP")]
)
def test_a_leased_queue_pair_has_the_paths_of_its_connection(way: tuple[str, str]) -> None:
    """To the picosecond; connections inside a switch have one path."""
    asked = CollectivePoint(topology=SMALL, routing=way[0], scheme=way[1], collective="all-to-all", ranks=16)
    network = network_of(SMALL, 1)
    graph = job_by_name("all-to-all:bytes=64000,ranks=16,at_once=2", network.topology)
    ran = list[tuple[list[int], list[int]]]()
    for room in (tasks.connections_of(graph, 1), 120):
        with schemes.FlatFabric(network, asked, room) as fabric:
            result = tasks.run_tasks(fabric, graph, 10**10, lanes=1)
            assert result.completed
            assert bool(fabric.hs.cfg[0]["leased"]) == (room == 120)
            ran.append((result.finish_ps.tolist(), fabric.column("st_packets").tolist()))
    assert ran[0] == ran[1]
