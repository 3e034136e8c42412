# SPDX-License-Identifier: Apache-2.0
"""`detour reproduce tcp`: the formulas, and short runs beside them."""

from __future__ import annotations

import os

import pytest

from detour.base.errors import DetourError
from detour.experiments.tcp import experiment, linux


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
    result = linux.compare("newreno", 4.0, 1)
    assert all(row.linux > 0.2 and row.ours > 0.2 for row in result.rows)
