# SPDX-License-Identifier: Apache-2.0
"""`bench parallel` on a small fat-tree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from detour.experiments.bench import parallel


def test_threads_and_critical_path(tmp_path: Path) -> None:
    plot = tmp_path / "threads.svg"
    report = parallel.run(k=4, message=50_000, turns=1, loads=(parallel.PERMUTATION, parallel.SHORT_CABLE), plot=plot)
    assert "speed-up" in plot.read_text()
    numbers: Any = report.numbers
    assert numbers["identical"] is True
    rows = [row for row in numbers["threads"] if row["workload"] == parallel.PERMUTATION]
    assert [row["threads"] for row in rows[:2]] == [1, 2]
    assert all(row["seconds"] > 0 and row["speedup"] > 0 for row in rows)
    assert rows[0]["waiting_fraction"] == 0 < rows[1]["waiting_fraction"] < 1
    path = numbers["critical_path"]
    assert [row["workers"] for row in path] == [2, 4, 8, 16, 64]
    speedups = [row["speedup"] for row in path]
    assert 1 < speedups[0] <= 2
    assert speedups == sorted(speedups)
    assert speedups[-1] <= path[0]["limit"] + 1e-9
