# SPDX-License-Identifier: Apache-2.0
"""Pictures with the largest legends that they can have: all words are inside of the picture, and none lies on another.
Pictures that are left out have no more than these, from the same functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace as Row
from typing import Any

import numpy as np
import pytest

from detour.experiments.bench import ai_fabric_page
from detour.experiments.fcplus import figures as fcplus
from detour.experiments.fcplus.experiment import FIGURE_3
from detour.experiments.fcplus.paper import TABLE_8_FCT
from detour.experiments.fcplus.results import NETWORKS, FlowPoint, LengthPoint, PacketsPoint
from detour.experiments.fors import experiment as fors_experiment
from detour.experiments.fors import tables as fors
from detour.experiments.nonshortest import figures as nonshortest
from detour.experiments.placement import steps
from detour.experiments.qcn import tables as qcn_tables
from detour.experiments.qcn import transients
from detour.experiments.sim import figures as sim
from detour.experiments.sim import lab_figures
from detour.fabric.labs.results import LabSeries
from tests.unit.experiments.test_fors import RESULTS as FORS_RESULTS
from tests.unit.experiments.test_nonshortest import run as nonshortest_run
from tests.unit.experiments.test_sim_runs import simulated

pytestmark = pytest.mark.slow

pytest.importorskip("matplotlib")


def words(figure: Any) -> Iterator[tuple[str, Any]]:
    """(text, where) of what is written: titles, labels, numbers at axes; a legend as a whole and by its entries."""
    figure.draw_without_rendering()
    legends = [*figure.legends, *(axis.get_legend() for axis in figure.axes)]
    for legend in filter(None, legends):
        yield "legend " + legend.get_texts()[0].get_text(), legend.get_window_extent()
    for axis in (axis for axis in figure.axes if axis.get_visible() and axis.axison):
        texts = [axis.title, axis.xaxis.label, axis.yaxis.label, *axis.texts]
        for ruler in (axis.xaxis, axis.yaxis):
            low, high = sorted(ruler.get_view_interval())
            places = zip(ruler.get_majorticklocs(), ruler.get_majorticklabels(), strict=True)
            texts += [label for place, label in places if low <= place <= high]
        yield from ((text.get_text(), text.get_window_extent()) for text in texts if text.get_text())


def faults(figure: Any) -> list[str]:
    """What is cut off, or lies on something else."""
    shown = [(text, box.padded(-1)) for text, box in words(figure)]
    inside = figure.bbox
    cut = [f"cut off: {text}" for text, box in shown
           if box.x0 < inside.x0 or box.y0 < inside.y0 or box.x1 > inside.x1 or box.y1 > inside.y1]  # fmt: skip
    return cut + [f"{one} on {other}" for (one, a), (other, b) in combinations(shown, 2) if a.overlaps(b)]


def _throughput(file: Path) -> None:
    runs = [replace(nonshortest_run(scheme, 400.0), pairs=pairs, steady=False)
            for scheme in nonshortest._STYLES for pairs in (2, 8, 64, 1_024, 16_896)]  # fmt: skip
    nonshortest.throughput(runs, file)


def _throughput_bars(file: Path) -> None:
    topology = "dragonfly:p=2,a=4,h=2,rate=100G,global=25G"
    runs = [replace(nonshortest_run(scheme, 400.0), topology=topology) for scheme in nonshortest._STYLES]
    nonshortest.throughput(runs, file)


def _qcn(file: Path) -> None:
    loads = [Row(routing=name, pattern="ADV", load=load, latency_ns=9e3, accepted=load)
             for name in qcn_tables.STYLES for load in (0.1, 0.5, 1.0)]  # fmt: skip
    fairness = [Row(routing=name, switch=f"SW{k}", injected=0.4) for name in qcn_tables.STYLES for k in range(8)]
    qcn_tables.draw(Row(curves=loads, fairness=fairness), file)  # type: ignore[arg-type]


def _qcn_transients(file: Path) -> None:
    values = {"accepted": [0.4] * 99, "latency_us": [2.0] * 99, "minimal": [0.5] * 99}
    series = [Row(routing=name, change="UN 0.4 -> ADV+1 0.4", **values) for name in qcn_tables.STYLES]
    transients.draw(Row(series=series), file)  # type: ignore[arg-type]


def _fcplus(file: Path) -> None:
    points: list[Any] = [
        FlowPoint(n=n, s=s, network=name, pattern=pattern, k=k, v=None, theta=n / 900, upper_bound=0.99)
        for name in NETWORKS for pattern in TABLE_8_FCT for n in (100, 400, 800)
        for s, k in ((18, 32), (18, 64), (18, 128), (22, 40))
    ]  # fmt: skip
    points += [FlowPoint(n=n, s=s, network="FC+ 1L", pattern="near-worst", k=32, v=v, theta=0.5, upper_bound=1.0)
               for s, n in FIGURE_3.items() for v in (3, 4)]  # fmt: skip
    points += [LengthPoint(n=n, s=s, network=name, k=32, mean_length=2.5)
               for name in NETWORKS for n in (100, 400, 800) for s in (18, 22)]  # fmt: skip
    points += [PacketsPoint(n=100, s=18, network=name, k=32, us=1, pattern=pattern, slowdown_percentiles=[1.0, 9.0])
               for name in NETWORKS for pattern in TABLE_8_FCT]  # fmt: skip
    fcplus.draw(Row(points=points), file)  # type: ignore[arg-type]


def _fors(file: Path) -> None:
    fors.draw(fors_experiment.collect(FORS_RESULTS), file)


def _steps(file: Path) -> None:
    rows = [Row(planes=planes, failing=failing, load=load, scheme=scheme, step_us=90.0, ideal_us=80.0)
            for planes in steps._PLANES for failing in (False, True) for load in (0.2, 0.6, 1.0)
            for scheme in steps._STYLES]  # fmt: skip
    steps.draw(Row(steps=rows), file)  # type: ignore[arg-type]


def _sim(file: Path) -> None:
    sim.draw(file, simulated("permutation:bytes=10k"))


def _lab(file: Path) -> None:
    some, many = np.arange(101), np.outer(np.arange(101), np.arange(1, 9)) * 10**6
    ports = tuple(f"leaf-switch-{k}-eth1 (to spine-switch-{k}-eth2)" for k in range(8))
    flows = tuple(f"client-{k}:40000 to 2001:db8:aaaa:bbbb::{k}:5201" for k in range(8))
    lab_figures.draw_lab(file, LabSeries(some * 10**9, ports, many, many, many, flows, many, many))


def _ai_fabric(_: Path) -> None:
    tests = [
        ai_fabric_page.FabricTest(f"busbw all-to-all {at} ranks", "4.2", f"a long scheme's name {k}", 9.0, "Gb/s", 10.0,
                                  "busbw of all-to-all under background traffic", at, 0.1, steady=True)
        for at in (2, 4, 64) for k in range(9)
    ]  # fmt: skip
    assert list(ai_fabric_page._pictures(Row(tests=tests)))  # type: ignore[arg-type]


DRAWN: list[Callable[[Path], None]] = [
    _throughput, _throughput_bars, _qcn, _qcn_transients, _fcplus, _fors, _steps, _sim, _lab, _ai_fabric,
]  # fmt: skip


@pytest.mark.parametrize("draw", DRAWN, ids=lambda draw: draw.__name__.strip("_"))
def test_nothing_is_cut_off_and_no_words_lie_on_others(
    draw: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from matplotlib.figure import Figure

    seen: list[list[str]] = []
    written = Figure.savefig

    def savefig(figure: Any, *args: Any, **named: Any) -> None:
        seen.append(faults(figure))
        if named["format"] == "svg":  # which becomes part of a page; files of pixels are written in tests of commands
            written(figure, *args, **named)

    monkeypatch.setattr(Figure, "savefig", savefig)
    draw(tmp_path / "picture.png")
    assert seen
    assert not any(seen), seen
