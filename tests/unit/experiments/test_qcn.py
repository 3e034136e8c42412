# SPDX-License-Identifier: Apache-2.0
"""The QCN-Switch experiment: findings and tables."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from detour.base.errors import DetourError
from detour.base.records import as_json
from detour.cli.reproduce import QUICK_SECONDS
from detour.experiments import reproduce
from detour.experiments.qcn import experiment as qcn_switch
from detour.experiments.qcn import goals, transients
from detour.experiments.qcn.experiment import QcnResult
from detour.experiments.qcn.tables import annotate, collect, draw, tables
from detour.experiments.qcn.transients import LoadWindow, Phase, judge_change, phases_of
from detour.experiments.store import Store, source_version
from tests.unit.experiments.printing import printed


def result(routing: str, pattern: str, load: float, accepted: float, latency_ns: float) -> QcnResult:
    injected = [0.4] * 7 + [0.2]
    return QcnResult(
        routing=routing, pattern=pattern, load=load, accepted=accepted, latency_ns=latency_ns, network_ns=2_000.0,
        switches=2.75, minimal=0.312, messages=123_456, notified=0.0015, lost=0, steady=True, injected=injected,
    )  # fmt: skip


RESULTS = [
    result("VAL", "ADV", 0.1, 0.1, 4_000.0), result("VAL", "ADV", 0.4, 0.38, 16_030.0),
    result("QCN-Switch-comparison", "ADV", 0.1, 0.1, 6_000.0),
    result("QCN-Switch-comparison", "ADV", 0.4, 0.4, 1_235_160.0),
    result("QCN-Switch-comparison", "UN", 0.5, 0.5, 2_630.0), result("QCN-Switch-comparison", "UN", 1.0, 0.45, 9e5),
]  # fmt: skip


def test_landmarks_relate_to_valiant_and_to_saturation() -> None:
    val, qcn = collect(RESULTS).landmarks
    assert (val.routing, val.saturation["ADV"], val.saturated["ADV"], val.un_drop) == ("VAL", 0.38, True, None)
    assert (qcn.adv_latency, qcn.saturated["ADV"], qcn.saturation["ADVc"]) == (1.5, False, None)
    assert (round(qcn.un_drop or 0, 3), round(qcn.fairness or 0, 3)) == (0.1, 0.533)


def test_results_come_back_from_json() -> None:
    decode = reproduce.QCN_SWITCH.decode
    assert [decode(json.loads(json.dumps(as_json(one)))) for one in RESULTS] == RESULTS
    assert "injected" not in as_json(collect(RESULTS))["curves"][0]


def test_tables_fit_a_terminal(tmp_path: Path) -> None:
    points = qcn_switch.select("quick")
    result = annotate(collect(RESULTS), points, [])
    text = printed(tables(result))
    assert all(cell in text for cell in ("QCN-Switch-comparison", "1235.16", "> 0.400", "UN: not measured at loads"))
    assert "123456" in printed(tables(result), wide=True)
    draw(result, tmp_path / "curves.svg")
    assert (tmp_path / "curves.svg").stat().st_size > 10_000


def test_runs_are_kept_in_a_file_and_taken_from_there(tmp_path: Path) -> None:
    kept, archive = tmp_path / "kept", tmp_path / "archive"
    chosen = qcn_switch.select(routing=["PB", "QCN-Switch-fast"], pattern=["ADV"], loads=[0.1, 0.4], windows=(5, 7))
    changes = transients.select(routing=["PB"])
    store = Store(kept, source_version())
    for point in chosen:
        store.add(point, result(point.routing, point.pattern, point.load, 0.1, 4000.0), 1.0)
    store.add(changes[0], transients.TransientResult([], []), 1.0)
    assert reproduce.keep(archive, kept) == 5
    assert qcn_switch.select(source=archive) == chosen
    assert qcn_switch.select(source=archive, routing=["PB"], loads=[0.4], windows=(0, 7)) == [chosen[1]]
    assert qcn_switch.select(source=archive, windows=(5, 8)) == qcn_switch.select("quick", source=archive) == []
    assert transients.select(source=archive) == changes
    assert transients.select(source=archive, pattern=["un:0.4", "adv1:0.4@2ms"]) == []
    findings = reproduce.reproduce(reproduce.QCN_SWITCH, chosen, reproduce.Means(archive=archive)).collected
    assert [row.routing for row in findings.curves] == [point.routing for point in chosen]


# -- goals --------------------------------------------------------------------------------------------------


def measured(
    routing: str, pattern: str, load: float, accepted: float, latency_ns: float = 2000.0, **more: object
) -> QcnResult:
    return replace(
        result(routing, pattern, load, accepted, latency_ns), injected=[accepted] * 4, notified=0.001, **more
    )


def test_goals_are_judged_beside_the_same_runs() -> None:
    runs = [
        measured("MIN", "UN", 0.5, 0.5), measured("QCN-Switch-fast", "UN", 0.5, 0.499),
        measured("MIN", "UN", 1.0, 0.95), measured("QCN-Switch-fast", "UN", 1.0, 0.9),
        measured("PB", "ADV", 0.5, 0.5), measured("QCN-Switch-fast", "ADV", 0.5, 0.495, 2300.0),
        measured("QCN-Switch-fast", "ADV+h", 0.5, 0.41),
    ]  # fmt: skip
    judged = {goal.goal: goal for goal in goals.of_curves(runs, small=True)}
    assert {name: goal.met for name, goal in judged.items()} == {
        "UN: accepted, of MIN's, at every load": False,
        "ADV: saturation, of PB's": True,
        "ADV+h: saturation": True,
        "latency below saturation, of PB's": False,
        "least injection of a switch of group 0, of the mean, from load 0.4 on": True,
        "notifications, of the hosts' links": True,
    }
    assert judged["latency below saturation, of PB's"].measured == 1.15
    assert "ADV+h: saturation" not in {goal.goal for goal in goals.of_curves(runs, small=False)}
    text = printed(goals.tables(list(judged.values())))
    assert "missed: UN: accepted" in text
    assert "missed: ADV: saturation" not in text


# -- transients ---------------------------------------------------------------------------------------------


def test_phases_are_read_as_they_are_written() -> None:
    phases = phases_of(("un:0.4", "adv1:0.4@1ms", "ADVc:.3@1.5ms"))
    assert phases == (Phase("un", 0.4, 0), Phase("adv1", 0.4, 1000), Phase("ADVc", 0.3, 1500))
    assert [str(phase) for phase in phases] == ["UN 0.4", "ADV+1 0.4", "ADVc 0.3"]
    assert str(Phase("adv+h", 0.2, 0)) == "ADV+h 0.2"


@pytest.mark.parametrize(
    "texts",
    [("un:0.4",), ("un", "adv:0.4@1ms"), ("un:0.4@1ms", "adv:0.4@2ms"), ("un:0.4", "adv:0.4"),
     ("un:0.4", "adv:0.4@2ms", "un:0.4@1ms"), ("un:0.4", "adv:1.4@1ms"), ("un:0.4", "adv:0.4@1h"),
     ("un:0.4", "adv:0.4@0.5us")],
)  # fmt: skip
def test_phases_of_another_form(texts: tuple[str, ...]) -> None:
    with pytest.raises(DetourError, match="--pattern"):
        phases_of(texts)


def windows(accepted: list[float], latency_us: list[float]) -> list[LoadWindow]:
    """Of 1000 packets at load 1, 1000 bytes each."""
    packets = [round(1000 * share) for share in accepted]
    return [
        LoadWindow(1000 * count, count, 1000 * us * count, 3 * count // 4, count - 3 * count // 4)
        for count, us in zip(packets, latency_us, strict=True)
    ]


NAMES = {"routing": "PB", "topology": "any", "change": "UN 0.4 -> ADV+1 0.4"}


def test_a_dip_and_a_peak_are_measured() -> None:
    """0.2 for 8 us, then the backlog, then 0.4; latency is high for 20 us."""
    accepted = [0.2] * 4 + [0.6] * 4 + [0.4] * 92
    latency = [12.0] * 10 + [4.0] * 90
    change = judge_change(windows(accepted, latency), 1e6, 0.4, NAMES)
    assert (change.react_us, change.peak_mean_latency_us, change.settle_us) == (8, 12.0, 20)
    assert change.minimal_share_after == 0.75


def test_what_never_comes_back() -> None:
    change = judge_change(windows([0.3] * 100, [float(us) for us in range(1, 101)]), 1e6, 0.4, NAMES)
    assert (change.react_us, change.settle_us) == (None, None)


def test_transients_are_tables_goals_and_a_figure(tmp_path: Path) -> None:
    change = judge_change(windows([0.4] * 100, [12.0] * 100), 1e6, 0.4, NAMES | {"routing": "QCN-Switch-fast"})
    assert change.react_us == 0
    series = transients.OverTime(accepted=[0.4] * 9, latency_us=[None] + [2.0] * 8, minimal=[0.5] * 9, **NAMES)
    results = [transients.TransientResult([change], [series])]
    assert reproduce.QCN_TRANSIENTS.decode(json.loads(json.dumps(as_json(results[0])))) == results[0]
    findings = transients.collect(results)
    assert [goal.met for goal in findings.goals] == [True, False]
    text = printed(transients.tables(findings))
    assert "missed: UN 0.4 -> ADV+1 0.4: peak mean latency, us" in text
    transients.draw(findings, tmp_path / "over_time.svg")
    assert (tmp_path / "over_time.svg").stat().st_size > 10_000


def test_a_small_transient() -> None:
    """PB follows at once; what MIN sends stays behind."""
    spec = "dragonfly:p=1,a=2,h=1"
    (point,) = transients.select("quick", topology=spec, routing=["MIN"], pattern=("un:0.4", "adv:0.9@100us"))
    one = transients.run(replace(point, draws=1))
    assert one.transients[0].react_us is None
    assert one.transients[0].minimal_share_after == 1.0
    assert len(one.series[0].accepted) == 500


@pytest.mark.parametrize("of", [qcn_switch, transients])
def test_quick_leaves_nothing_out_on_two_cores(of: ModuleType) -> None:
    _, left_out = reproduce.affordable(of.select("quick"), of.seconds, QUICK_SECONDS, 2)
    assert left_out == []
