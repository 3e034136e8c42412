# SPDX-License-Identifier: Apache-2.0
"""Section IV of the path placement paper: a throttled link, in virtual time and on the engine's wall clock."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from detour import cli
from detour.base.dataplane import PAYLOAD
from detour.base.errors import DetourError
from detour.base.records import as_json, decoder, extended
from detour.experiments.columns import taken
from detour.experiments.placement import experiment as path_placement
from detour.experiments.placement.scenario import (
    BACKENDS,
    MODES,
    ONSET,
    THROTTLE,
    PathPoint,
    PathRun,
    bins,
    recovery,
)
from detour.experiments.placement.tables import ComparedRun
from detour.experiments.reproduce import PATH_PLACEMENT, Means, reproduce

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def points(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the runs of `virtual` are kept."""
    return tmp_path_factory.mktemp("kept") / "points"


@pytest.fixture(scope="module")
def virtual(points: Path) -> dict[str, ComparedRun]:
    """A short run of every mode."""
    selected = path_placement.select("quick", "virtual", 0.004)
    return {r.mode: r for r in reproduce(PATH_PLACEMENT, selected, Means(store=points)).collected.runs}


def test_without_rerouting_the_throttle_costs_what_it_must(virtual: dict[str, ComparedRun]) -> None:
    share = THROTTLE
    least = ONSET + (1 - ONSET) * share
    assert virtual["uncongested"].delivered_fraction == 1.0
    assert virtual["none"].delivered_fraction == pytest.approx(least, abs=0.01)
    assert virtual["none"].recovery_s is None
    assert virtual["none"].reroute_s is None


@pytest.mark.parametrize("mode", ["controller", "nic"])
def test_rerouting_saves_the_volume(virtual: dict[str, ComparedRun], mode: str) -> None:
    run = virtual[mode]
    assert run.reroutes == 1
    assert run.delivered_fraction is not None
    assert run.delivered_fraction >= 0.99
    assert run.recovery_s is not None
    assert run.recovery_s <= 200e-6, "the paper's 200 ms, a thousandth of it"


def test_the_nic_reroutes_within_five_round_trips(virtual: dict[str, ComparedRun]) -> None:
    nic, controller = virtual["nic"], virtual["controller"]
    assert nic.reroute_rtts is not None
    assert 0 < nic.reroute_rtts <= 5
    assert nic.reroute_s is not None
    assert controller.reroute_s is not None
    assert nic.reroute_s < controller.reroute_s


def test_every_message_arrives_whole_once_and_in_order(virtual: dict[str, ComparedRun]) -> None:
    assert list(virtual) == list(MODES)
    for run in virtual.values():
        assert (run.lost_bytes, run.duplicate_bytes, run.in_order) == (0, 0, True)
        assert run.messages > 100


def test_switches_see_the_queue_that_is_to_blame(virtual: dict[str, ComparedRun]) -> None:
    for mode, passed in (("uncongested", ["gw2", "rt1", "gw1"]), ("none", ["gw2", "rt1", "gw1"])):
        run = virtual[mode]
        assert [at.switch for at in run.switches] == passed
        packets = run.messages * BACKENDS["virtual"].message_bytes // PAYLOAD + run.retransmitted
        assert [at.packets for at in run.switches] == [packets] * 3, "every packet at every switch"
    before, behind, last = virtual["none"].switches
    assert (before.ecn_packets, behind.ecn_packets) == (virtual["none"].ecn_marked, 0)
    assert before.delay_s > 2e-6
    assert max(behind.delay_s, last.delay_s) < before.delay_s / 10
    assert before.worst_window_delay_s > before.delay_s


def test_switches_watch_both_paths_of_a_flow_that_moves(virtual: dict[str, ComparedRun]) -> None:
    for mode in ("controller", "nic"):
        seen = {at.switch: at.packets for at in virtual[mode].switches}
        assert set(seen) == {"gw1", "gw2", "rt1", "rt2"}
        assert seen["rt1"] > 0
        assert seen["rt1"] + seen["rt2"] == seen["gw1"] == seen["gw2"]


def test_the_same_run_gives_the_same_numbers(virtual: dict[str, ComparedRun]) -> None:
    again = path_placement.run(PathPoint("virtual", "nic", 0.004))
    assert extended(ComparedRun, again, delivered_fraction=virtual["nic"].delivered_fraction) == virtual["nic"]


@pytest.mark.parametrize("mode", ["controller", "nic"])
def test_on_the_wall_clock_messages_survive_as_well(mode: str) -> None:
    run = path_placement.run(PathPoint("real", mode, 3.0))
    # Whether it is rerouted in time depends on the machine; tests/fault/test_placed_fabric.py waits until it is.
    assert (run.lost_bytes, run.in_order) == (0, True)
    assert run.messages > 0


@pytest.mark.parametrize(
    ("after", "expected"), [([10, 10, 10], 0.0), ([5, 8.9, 10], 0.15), ([5, 10, 8.9, 10], 0.25), ([5, 5, 5], None)]
)
def test_recovered_is_when_the_last_low_bin_ends(after: list[float], expected: float | None) -> None:
    rates = np.array([2, 10, 10, 10, *after])
    times = np.arange(1, len(rates) + 1, dtype=np.float64) * 0.1
    assert recovery(times, rates, 0.45) == (None if expected is None else pytest.approx(expected))


def test_bins_count_every_byte_once() -> None:
    ends, rates = bins([0.05, 0.1, 0.16, 0.3], [50, 100, 160, 300], 0.1)
    assert ends.tolist() == pytest.approx([0.1, 0.2, 0.3])
    assert rates.tolist() == pytest.approx([8000, 8000, 8000])


def test_a_run_is_kept_and_read_again(virtual: dict[str, ComparedRun]) -> None:
    run = taken(PathRun, virtual["nic"])
    assert decoder(PathRun)(json.loads(json.dumps(as_json(run)))) == run


def test_refusals(refused: Callable[..., str]) -> None:
    with pytest.raises(DetourError, match="there is no footing 'moon'"):
        path_placement.select(footing="moon")
    assert "too short" in refused("reproduce", "path-placement", "--seconds", "0.0001")


def test_the_command_prints_json_and_draws(
    virtual: dict[str, ComparedRun], points: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With runs that are kept already."""
    plot = tmp_path / "figure.png"
    arguments = ["--seconds", "0.004", "--json", "--plot", str(plot), "--out", str(points)]
    arguments += ["--processes", "1"]
    assert cli.main(["reproduce", "path-placement", *arguments]) == 0
    runs = json.loads(capsys.readouterr().out)["runs"]
    keys = {"mode", "delivered_fraction", "recovery_s", "lost_bytes", "duplicate_bytes"}
    assert [run["mode"] for run in runs] == list(MODES)
    assert [run["delivered_fraction"] for run in runs] == [virtual[mode].delivered_fraction for mode in MODES]
    assert all(keys <= set(run) for run in runs)
    assert plot.stat().st_size > 10_000
