# SPDX-License-Identifier: Apache-2.0
"""`bench ai-fabric` on a small fabric: values beside what must hold of them, and the report."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from detour.cli import main
from detour.experiments.bench import ai_fabric
from detour.experiments.bench.ai_fabric_draft import TESTS
from detour.experiments.bench.ai_fabric_page import FabricTest, notes
from detour.experiments.bench.ai_fabric_procedures import JCT_OVERHEAD, PROCEDURES, Measure, Trial
from detour.topo import parse_topology

SMALL = "bench ai-fabric --topo leaf-spine:leaves=2,spines=2,hosts=2 --sizes 64k --draws 2"


def measured(capsys: pytest.CaptureFixture[str], more: str) -> dict[tuple[str, str], Any]:
    main([*SMALL.split(), *more.split(), "--json"])
    tests = json.loads(capsys.readouterr().out)["tests"]
    assert all({"name", "section", "scheme", "value", "unit", "ideal"} <= test.keys() for test in tests)
    assert {test["section"] for test in tests} <= {test.section for test in TESTS if test.done != "no"}
    return {(test["scheme"], test["name"]): test for test in tests}


def test_spraying_fills_uplinks_equally_and_nothing_beats_an_empty_fabric(capsys, tmp_path: Path) -> None:
    out = tmp_path / "report"
    tests = measured(capsys, f"--draws 1 --scheme ecmp,placed,spray --procedures collectives balance --out {out}")
    index = {scheme: tests[scheme, "Jain's index of uplinks, 1 QP a pair"] for scheme in ("ecmp", "placed", "spray")}
    assert index["ecmp"]["value"] < 0.8
    assert index["placed"]["value"] > 0.9
    assert index["spray"]["value"] > 0.95
    busbw = [test for (_, name), test in tests.items() if "busbw" in name]
    assert len(busbw) == 9
    assert all(0 < test["value"] <= test["ideal"] * 1.001 for test in busbw)
    page, text = (out / "report.html").read_text(), (out / "report.md").read_text()
    pictures = sorted(file.stem for file in out.glob("*.svg"))
    assert "jain-s-index-of-uplinks" in pictures
    assert page.count("<svg") == len(pictures)
    for test in TESTS:
        assert f"| {test.section} | {test.test} | {test.done} |" in text
        assert f"<td>{test.section}</td><td>{test.test}</td>" in page


def test_hashed_connections_wait_for_the_controller_and_sprayed_ones_do_not(capsys) -> None:
    tests = measured(capsys, "--scheme ecmp,spray --procedures failover")
    recover = {scheme: tests[scheme, "time to recover, leaf uplink"]["value"] for scheme in ("ecmp", "spray")}
    assert recover["ecmp"] > 500
    assert recover["spray"] < recover["ecmp"] / 2
    longer = {scheme: tests[scheme, "JCT overhead, leaf uplink"]["value"] for scheme in ("ecmp", "spray")}
    assert longer["ecmp"] > 500
    assert longer["spray"] < 400


def test_pfc_pauses_under_incast(capsys) -> None:
    tests = measured(capsys, "--scheme RoCEv2+PFC,ecmp --procedures incast --sizes 1M")
    assert tests["RoCEv2+PFC", "PAUSE frames under incast, 2:1"]["value"] > 0
    assert tests["RoCEv2+PFC", "paused time under incast, 2:1"]["value"] > 0
    assert tests["RoCEv2+PFC", "frames lost under incast, 2:1"]["value"] == 0
    assert tests["ecmp", "PAUSE frames under incast, 2:1"]["value"] == 0
    assert tests["ecmp", "ECN marks under incast, 2:1"]["value"] > 1


@pytest.mark.parametrize(("most", "value"), [(100_000, 64_000), (3_999, 0), (1 << 30, 4_096_000)])
def test_the_longest_burst_is_found(most: int, value: int) -> None:
    def run(text: str) -> Any:
        senders, size = (int(part.partition("=")[2]) for part in text.split(","))
        assert senders == 8
        return SimpleNamespace(counters=SimpleNamespace(drops=int(size > most)))

    (burst,) = PROCEDURES["burst"](cast(Trial, SimpleNamespace(hosts=10, run=run)))
    assert burst.value == value


def test_what_varies_or_is_not_complete_is_marked(monkeypatch, capsys) -> None:
    def procedure(trial: Any) -> Any:
        yield Measure("5.1", "varies", "us", float(trial.draw))
        yield Measure("5.1", "is level", "us", 7.0)
        yield Measure("5.1", "stops", "us", 7.0, settled=trial.draw == 1)
        yield Measure("5.1", "has none", "us", None)

    monkeypatch.setitem(PROCEDURES, "made up", procedure)
    report = ai_fabric.run("leaf-spine:leaves=2,spines=2,hosts=2", "spray", procedures=["made up"], draws=2)
    cells = {row[0]: row[-1] for row in report.rows}
    assert cells == {"5.1 varies": "1.5*", "5.1 is level": "7", "5.1 stops": "7*", "5.1 has none": "–"}


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ("--procedures dancing", "no procedure"),
        ("--scheme dancing", "no scheme"),
        ("--topo leaf-spine:leaves=1,spines=1,hosts=2", "three"),
    ],
)
def test_what_cannot_be_run_is_told(wrong, why, capsys) -> None:
    assert main([*SMALL.split(), *wrong.split()]) == 2
    assert why in capsys.readouterr().err


def test_the_draft_has_each_section_once() -> None:
    sections = [tuple(map(int, test.section.split("."))) for test in TESTS]
    assert sections == sorted(set(sections))
    assert {test.done for test in TESTS} == {"yes", "in part", "no"}


def test_times_and_ratios_are_not_below_those_of_an_empty_fabric(capsys) -> None:
    names = "throughput latency convergence job tenants scale soak"
    tests = measured(capsys, f"--scheme placed --draws 1 --procedures {names}")
    at_least = [test for test in tests.values() if test["unit"] in ("us", "") and "deviation" not in test["name"]]
    assert {test["section"] for test in at_least} == {"5.2", "7.3", "10.1", "10.3", "11.1", "12.1"}
    assert all(test["value"] is None or test["value"] >= test["ideal"] * 0.999 for test in at_least)
    assert (
        tests["placed", "throughput of a host, 64kB"]["value"] <= tests["placed", "throughput of a host, 64kB"]["ideal"]
    )
    assert sum(name.startswith("JCT ratio of a soak") for _, name in tests) == 12


def test_an_overhead_below_zero_is_explained() -> None:
    fields: dict[str, Any] = {"section": "11.2", "scheme": "spray", "unit": "us", "ideal": 0.0, "at": None, "cv": 0.0}
    test = FabricTest(name="JCT overhead, leaf uplink", test=JCT_OVERHEAD, value=-0.04, steady=True, **fields)
    topology = parse_topology("leaf-spine:leaves=2,spines=2,hosts=2")
    bench = SimpleNamespace(topology=topology, draws=3, tests=[test])
    assert "the failure cost nothing that could be measured" in notes(bench)[-1]  # type: ignore[arg-type]
    bench.tests = [replace(test, value=36.0)]
    assert len(notes(bench)) == 2  # type: ignore[arg-type]
