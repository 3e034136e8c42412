# SPDX-License-Identifier: Apache-2.0
"""`detour reproduce tcp`: the formulas, and short runs beside them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from detour.base.errors import DetourError
from detour.experiments.tcp import experiment, linux, ns3
from detour.experiments.tcp.ns3 import Curve, LinkConditions, sawtooth


def test_formulas_are_those_of_the_papers() -> None:
    assert experiment.reno_window(0.01) == pytest.approx(13.1)
    # RFC 9438, figure 6, with C = 0.4: 1.054 * RTT^0.75 / p^0.75; above Reno's only at long round trips
    assert experiment.cubic_window(1e-5, 0.1) == pytest.approx(1.054 * 0.1**0.75 / 1e-5**0.75, rel=1e-3)
    assert experiment.cubic_window(0.01, 0.01) == experiment.reno_window(0.01)
    # figure 12 of DCTCP's paper: two flows at K = 40 move between 31 and 42
    top, mean = experiment.dctcp_queue(2, 82.6, 40)
    assert (top, mean) == (42, pytest.approx(36.5, abs=0.1))


def test_a_flow_at_random_losses_has_about_the_known_rate() -> None:
    point = next(p for p in experiment.select("quick", (0.01,)) if p.kind == "loss" and p.cc == "newreno")
    (row,) = experiment.run(point).rows
    assert abs(row.error) < 0.1


def test_two_flows_share_and_fill_a_cable() -> None:
    point = next(p for p in experiment.select("quick", flows=(2,)) if p.kind == "share" and p.cc == "newreno")
    fair, all_of_it = experiment.run(point).rows
    assert fair.measured > 0.98
    assert abs(all_of_it.error) < 0.02


def test_two_flows_of_dctcp_keep_their_queue_where_its_formula_says() -> None:
    point = next(p for p in experiment.select("quick") if p.kind == "queue" and p.flows == 2)
    longest, mean = experiment.run(point).rows
    assert abs(longest.error) < 0.05
    assert abs(mean.error) < 0.05


def test_what_cannot_be_compared_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DetourError, match=r"0\.0001 to 0\.05"):
        experiment.select(loss=(0.5,))
    with pytest.raises(DetourError, match="newreno and cubic"):
        linux.compare("dctcp")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(DetourError, match="needs root"):
        linux.compare("cubic")


@pytest.mark.kernel
def test_linux_and_our_hosts_talk_through_the_engine_alike() -> None:
    """Short: whether both kinds of flows run at all; how near they are to each other says the command."""
    comparison = linux.compare("newreno", 2.0, 1)
    assert all(row.linux > 0.2 and row.ours > 0.2 for row in comparison.rows)


# -- --ns3 ---------------------------------------------------------------------------------------------------


_ROAD = LinkConditions("any", 10.0, 20.0, 50, 100.0, 0.1, 20.0)
_QUICK = [case for case in ns3.NS3_CASES if case[0] != "long"]


def test_the_sawtooth_of_a_known_curve_is_found() -> None:
    # From 40 to 79 in four seconds, a bottom of two samples; what lies before `settle` is something else.
    tooth = [39.0, *range(40, 79)]
    curve = Curve([500.0] * 200 + tooth * 20, 0.0)
    measured = sawtooth(curve, _ROAD)
    assert (measured.highest, measured.lowest, measured.period) == (78.0, 39.0, pytest.approx(4.0))
    assert measured.mean == pytest.approx(np.mean(tooth))


def test_a_window_that_hardly_moves_has_no_period() -> None:
    shape = sawtooth(Curve([40.0, 41.0, 39.5, 40.5] * 250, 0.0), _ROAD)
    assert (shape.highest, shape.lowest, shape.period) == (41.0, 39.5, None)


@pytest.fixture(scope="module")
def beside_stored() -> ns3.Ns3Findings:
    """Our flows beside the stored curves, whether ns-3 is here or not."""
    patch = pytest.MonkeyPatch()
    with patch.context() as here:
        here.setattr(ns3, "missing", lambda: "not asked for")
        return ns3.compare()


@pytest.mark.parametrize(
    ("road", "control", "near"),
    # What explains the wider ones stands in docs/hosts.md.
    [
        ("short", "TcpNewReno", 0.05), ("short", "TcpLinuxReno", 0.09), ("short", "TcpCubic", 0.13),
        ("long", "TcpNewReno", 0.20), ("long", "TcpLinuxReno", 0.02), ("long", "TcpCubic", 0.03),
    ],
)  # fmt: skip
def test_our_windows_move_as_those_of_ns3(beside_stored: ns3.Ns3Findings, road: str, control: str, near: float) -> None:
    row = next(row for row in beside_stored.rows if (row.road, row.control) == (road, control))
    assert not row.measured
    assert row.ns3.period is not None
    assert row.ours.period == pytest.approx(row.ns3.period, rel=near)
    assert row.ours.highest == pytest.approx(row.ns3.highest, rel=0.02)
    assert row.ours.lowest == pytest.approx(row.ns3.lowest, rel=0.08)
    assert row.goodput == pytest.approx(row.ns3_goodput, rel=0.015)


def test_dctcp_keeps_about_the_window_of_ns3(beside_stored: ns3.Ns3Findings) -> None:
    row = beside_stored.rows[-1]
    assert row.cc == "dctcp"
    assert row.ours.mean == pytest.approx(row.ns3.mean, rel=0.1)
    assert row.goodput == pytest.approx(row.ns3_goodput, rel=0.002)


@pytest.mark.skipif(ns3.missing() is not None, reason=f"ns-3 cannot run: {ns3.missing()}")
@pytest.mark.skipif(not list(Path("/usr/lib").glob("*/libns3-core.so.37")), reason="stored curves are of ns-3 3.37")
def test_ns3_gives_the_stored_curves() -> None:
    stored = ns3.stored()
    for key, curve in ns3.measure(_QUICK).items():
        assert curve.cwnd == pytest.approx(stored[key].cwnd, abs=0.006), key
        assert curve.goodput == pytest.approx(stored[key].goodput, abs=1e-5)


def test_a_compiler_that_refuses_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = tmp_path / "g++"
    compiler.write_text("#!/bin/sh\necho 'no such header' >&2; exit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(DetourError, match=r"g\+\+ ended with 1: no such header"):
        ns3.build(tmp_path)


def test_the_command_prints_and_draws(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    refused: Callable[..., str],
    run_json: Callable[..., Any],
    beside_stored: ns3.Ns3Findings,
) -> None:
    monkeypatch.setattr(ns3, "compare", lambda: beside_stored)
    picture = tmp_path / "windows.svg"
    report = run_json("reproduce", "tcp", "--ns3", "--plot", str(picture))
    assert [row["control"] for row in report["rows"]] == [control for _, _, control in ns3.NS3_CASES]
    assert {"road", "cc", "measured", "ns3_goodput", "ns3", "goodput", "ours"} <= set(report["rows"][0])
    assert picture.read_text().count("<path") > 20
    assert "--plot is for --ns3" in refused("reproduce", "tcp", "--plot", str(picture))
