# SPDX-License-Identifier: Apache-2.0
"""Queues, ports and receivers of a lab over time, and their picture."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from detour.cli import main
from detour.fabric.labs.folder import LabFolder
from detour.fabric.labs.programs import contents_of, programs_of
from detour.fabric.labs.reading import read_lab
from detour.fabric.labs.results import MOST_SAMPLES, LabSampler, document_of
from detour.fabric.labs.virtual import VirtualLab
from detour.fabric.labs.workloads import activities_of

ECN = Path(__file__).parents[3] / "docs" / "labs" / "ecn"
OVERLOAD = "udp:src=h1,dst=h3,rate=20M,ecn=1,time=200ms"
WITHOUT_MATPLOTLIB = "plots need matplotlib"


def _run(sampled: bool) -> tuple[dict[str, object], LabSampler | None]:
    lab = read_lab(LabFolder.given(str(ECN)))
    with VirtualLab(lab, contents_of(lab, programs_of(lab))) as virtual:
        jobs = virtual.do(activities_of(lab, OVERLOAD))
        sampler = LabSampler(virtual.booted, jobs) if sampled else None
        end = virtual.run_until_over(jobs, None, sampler=sampler)
        return document_of(virtual.booted, jobs, end), sampler


def test_looking_on_changes_nothing_and_sees_the_queue_fill() -> None:
    plain, _ = _run(False)
    seen, sampler = _run(True)
    assert seen == plain
    assert sampler is not None
    series = sampler.series()
    assert len(series.times_ps) <= MOST_SAMPLES
    assert (np.diff(series.times_ps) > 0).all()
    bottleneck = series.ports.index("s1-3 (to s2-p2)")
    queue = series.queue_packets[:, bottleneck]
    # 20 Mb/s onto 10: the 64 places are full after about 50 ms, and empty again 50 ms after the last packet.
    assert queue.max() == 64
    assert queue[np.searchsorted(series.times_ps, 25 * 10**9)] == pytest.approx(32, abs=4)
    assert queue[-1] == 0
    (row,) = plain["udp"]  # type: ignore[misc]
    assert series.flows == (f"h1:{row['sport']} to 10.0.3.3:5201",)
    assert series.marked[-1, 0] == row["marked"] > 0
    assert series.queue_drops[-1, bottleneck] == row["lost"]
    assert series.delivered[-1, 0] == plain["delivered_bytes"]


def test_the_picture_is_written_and_a_missing_folder_is_told_before_anything_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib", reason=WITHOUT_MATPLOTLIB)
    picture = tmp_path / "ecn.svg"
    assert main(["sim", "--lab", str(ECN), "--plot", str(picture), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["completed"] == 18
    drawn = picture.read_text()
    assert "<svg" in drawn
    assert main(["sim", "--lab", str(ECN), "--plot", str(tmp_path / "none" / "ecn.svg")]) == 2
    assert "there is no folder" in capsys.readouterr().err
