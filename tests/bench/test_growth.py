# SPDX-License-Identifier: Apache-2.0
"""`bench growth` at its smaller sizes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from detour.base.errors import DetourError
from detour.experiments.bench import growth
from detour.topo import parse_topology

KEYS = ["topology", "hosts", "switches", "boot_s", "verify_s", "run_s", "peak_mib", "ns_per_packet_hop"]


def test_rows_are_in_order_of_size_and_say_what_was_measured(tmp_path: Path) -> None:
    report = growth.run(hosts=(342, 72), message=20_000, plot=tmp_path / "growth.svg")
    assert "hosts" in (tmp_path / "growth.svg").read_text()
    numbers: Any = report.numbers
    rows = numbers["rows"]
    assert [list(row) for row in rows] == [KEYS, KEYS]
    assert [(row["topology"], row["hosts"], row["switches"]) for row in rows] == [("d1", 72, 36), ("d2", 342, 114)]
    assert all(value > 0 for row in rows for name, value in row.items() if name != "topology")
    assert 100 < rows[0]["peak_mib"] < rows[1]["peak_mib"] < 1000
    assert len(report.rows) == 2
    assert not report.goals  # they are for the large ones


def test_the_command_prints_them() -> None:
    command = [sys.executable, "-m", "detour.cli", "bench", "growth", "--hosts", "72", "--message", "1000", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert [row["hosts"] for row in json.loads(done.stdout)["rows"]] == [72]


def test_sizes_are_those_of_topologies() -> None:
    with pytest.raises(DetourError, match="no topology has 73 hosts; there are 72, 342, 1056, 8192, 16512"):
        growth.run(hosts=(73,))
    for hosts, spec in growth.TOPOLOGIES.items():
        if hosts < 8000:
            assert len(parse_topology(spec).hosts) == hosts
