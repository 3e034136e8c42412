# SPDX-License-Identifier: Apache-2.0
"""The QCN-Switch experiment: findings and tables."""

from __future__ import annotations

import json
from pathlib import Path

from detour.base.records import as_json
from detour.experiments import reproduce
from detour.experiments.qcn import experiment as qcn_switch
from detour.experiments.qcn.experiment import QcnResult
from detour.experiments.qcn.tables import annotate, collect, draw, tables
from tests.unit.experiments.printing import printed


def result(routing: str, pattern: str, load: float, accepted: float, latency_ns: float) -> QcnResult:
    injected = [0.4] * 7 + [0.2]
    return QcnResult(
        routing=routing, pattern=pattern, load=load, accepted=accepted, latency_ns=latency_ns, network_ns=2_000.0,
        switches=2.75, minimal=0.312, messages=123_456, lost=0, steady=True, injected=injected,
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
