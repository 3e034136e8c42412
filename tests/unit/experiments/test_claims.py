# SPDX-License-Identifier: Apache-2.0
"""The paper's claims: verdicts follow from runs, and change with them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from detour.experiments.nonshortest.claims import Claim, claims
from detour.experiments.nonshortest.deadlock import PAPER
from detour.experiments.nonshortest.experiment import NonshortestRun
from detour.experiments.nonshortest.pfc_gain import PfcGain
from tests.unit.experiments.test_nonshortest import run


def cell(scheme: str, wire: float, pattern: str = "adv1", pairs: int = 64, topology: str = "D1") -> NonshortestRun:
    return replace(run(scheme, wire), pattern=pattern, pairs=pairs, topology=topology)


def claims_of(*runs: NonshortestRun) -> dict[str, Claim]:
    return {claim.text: claim for claim in claims(runs, [], [], [])}


def test_without_runs_nothing_is_claimed() -> None:
    assert claims([], [], [], []) == []


@pytest.mark.parametrize(("lerp", "verdict"), [(700.0, "yes"), (610.0, "partly"), (590.0, "no")])
def test_ahead_by_so_many_percent(lerp: float, verdict: str) -> None:
    runs = [cell(name, wire, "unf", 1_152) for name, wire in (("TelemetryLERP", lerp), ("Benchmark", 600.0))]
    claim = claims_of(*runs)["UNF on D1: ahead at 1000 connections or more"]
    assert claim.verdict == verdict
    assert claim.ours == f"{100 * (lerp / 600 - 1):+.1f} %"
    assert claim.letter is None
    assert ("75 % of the ceiling: +33 % at most" in claim.why) == (verdict != "yes")


def test_the_letter_stands_beside_it() -> None:
    rates = (("TelemetryLERP", 700.0), ("Benchmark", 600.0), ("TelemetryLERP-literal", 300.0))
    claim = claims_of(*(cell(name, wire, "unf", 1_152) for name, wire in rates))
    assert claim["UNF on D1: ahead at 1000 connections or more"].letter == "-50.0 %"
    assert claim["Ahead of Benchmark in all of Table III"].letter == "0 of 1"
    assert claim["Ahead of Benchmark in all of Table III"].ours == "1 of 1"


def test_an_unsteady_run_is_marked() -> None:
    runs = [cell("TelemetryLERP", 700.0, "unf", 1_152), replace(cell("Benchmark", 600.0, "unf", 1_152), steady=False)]
    assert claims_of(*runs)["UNF on D1: ahead at 1000 connections or more"].ours == "+16.7 % *"


@pytest.mark.parametrize(("third", "verdict"), [(900.0, "yes"), (650.0, "no")])
def test_the_gain_grows_with_the_network(third: float, verdict: str) -> None:
    runs = []
    for topology, pairs, wire in (("D1", 64, 650.0), ("D2", 144, 700.0), ("D3", 256, third)):
        runs += [
            cell("TelemetryLERP", wire, "adv1", pairs, topology),
            cell("Benchmark", 600.0, "adv1", pairs, topology),
        ]
    assert claims_of(*runs)["The gain grows with the network"].verdict == verdict


@pytest.mark.parametrize(
    ("rates", "verdict"), [((100.0, 99.0), "yes"), ((100.0, 96.0), "partly"), ((100.0, 90.0), "no")]
)
def test_a_constant_rate(rates: tuple[float, float], verdict: str) -> None:
    runs = [cell("ShortestPath", wire, pairs=pairs) for pairs, wire in zip((8, 64), rates, strict=True)]
    assert claims_of(*runs)["ADV1: ShortestPath in Gb/s"].verdict == verdict


@pytest.mark.parametrize(
    ("others", "verdict"), [((770.0, 780.0), "yes"), ((780.0, 600.0), "partly"), ((500.0, 600.0), "no")]
)
def test_slightly_lower(others: tuple[float, float], verdict: str) -> None:
    runs = []
    for pairs, wire in zip((8, 64), others, strict=True):
        runs += [cell("TelemetryLERP", 790.0, "adv2", pairs), cell("ShortestPath", wire, "adv2", pairs)]
    claim = claims_of(*runs)["ADV2 on D1: ShortestPath slightly lower than TelemetryLERP"]
    assert claim.verdict == verdict


def test_buffers_are_counted() -> None:
    lerp = replace(cell("TelemetryLERP", 790.0), buffer_peak_bytes=1_395_000)
    benchmark = replace(cell("Benchmark", 790.0), buffer_peak_bytes=153_000)
    claim = claims_of(lerp, benchmark)["Fewer buffers in switches"]
    assert claim.verdict == "partly"
    assert "lower at 0 of 1 points" in claim.ours


@pytest.mark.parametrize(("rate", "verdict"), [(805.0, "yes"), (830.0, "no")])
def test_constants_are_reasonable_if_no_other_value_is_better(rate: float, verdict: str) -> None:
    runs = [cell("TelemetryLERP", 800.0), replace(cell("TelemetryLERP", rate), hosts={"delta1": 0.6})]
    (claim,) = claims([], runs, [], [])
    assert claim.verdict == verdict
    assert "delta1 = 0.6" in claim.why


def test_the_idle_wait() -> None:
    runs = [cell("TelemetryGBN", 800.0), replace(cell("TelemetryGBN", 700.0), hosts={"idle_wait": False})]
    (claim,) = claims([], runs, [], [])
    assert (claim.verdict, claim.ours) == ("no", "-12.5 %")


def test_table_1() -> None:
    row = PfcGain(
        connections=65_535, lerp_gbps=34_795.0, pfc_gbps=10_894.0, gain=219.4, paper_gain=219.4,
        paper_lerp_gbps=34_795, paper_pfc_gbps=10_894, bound_gbps=34_800.0,
    )  # fmt: skip
    (claim,) = claims([], [], [row], [])
    assert (claim.verdict, claim.ours) == ("yes", "+219 %")
    assert PAPER
