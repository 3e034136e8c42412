# SPDX-License-Identifier: Apache-2.0
"""`bench lab`: short runs of its cases, its figures, and another simulator's program in its place."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest

from detour.base.errors import DetourError
from detour.experiments.bench import lab, p4sim
from detour.experiments.bench.lab import ONE_SWITCH, LabFlow, LabNetwork
from detour.fabric.backends.clock import PS
from detour.topo import parse_topology

FAKE = """#!/bin/sh
echo "$@" >> "{folder}/calls"
echo "  TX: 5000 bytes  (3s -> 4s)"
echo "  RX: 4000 bytes  (3s -> 4s)"
"""


@pytest.fixture
def other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that answers as p4sim's example does, of which four datagrams arrive."""
    program = tmp_path / "simulator"
    program.write_text(FAKE.format(folder=tmp_path))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv(p4sim.VARIABLE, str(program))
    return tmp_path


def test_every_datagram_of_one_switch_arrives() -> None:
    row = lab.traffic(lab.LabCase(ONE_SWITCH, 1_000.0, 0.02))
    assert (row.packets, row.mbps, row.network, row.measured) == (2_500, 1_000.0, "one switch", True)
    assert row.packets_per_s == row.packets / row.seconds


def test_every_datagram_of_the_fat_tree_arrives_after_the_switches_on_its_way() -> None:
    assert lab.traffic(lab.LabCase(lab.LAB_FAT_TREE, 10.0, 0.1)).packets == 8 * 125
    topology = parse_topology(lab.LAB_FAT_TREE)
    with LabNetwork(topology, lambda _: 10**9) as tree:
        port = tree.stack.host(15).udp_port(9_093)
        tree.send(LabFlow(0, 15, 1e6), 1)
        tree.network.run(PS)
        result = port.results()[0]
        passed = tree.network.switch_stats()["packets"].sum()
    assert passed == 5
    bits = (1_000 + 42) * 8
    assert result.delay_mean_ps == 6 * (10_000_000 + bits * 1_000)


def test_the_slow_road_marks() -> None:
    row = lab.ecn_minute(5.0)
    assert row.packets > 100
    assert "marked" in row.note


def test_systems_are_measured_by_turns_where_they_are(other: Path) -> None:
    report = lab.run((1.0,), 0.1)
    rows: Any = report.numbers["rows"]
    assert [row["system"] for row in rows] == ["detour", "p4sim", "ns-3 bridge", "detour", "detour"]
    assert all(row["measured"] for row in rows)
    assert {"system", "mbps", "packets", "seconds", "packets_per_s", "measured"} <= set(rows[0])
    assert rows[1]["packets"] == 4
    calls = (other / "calls").read_text().splitlines()
    assert [call.split()[0] for call in calls] == ["--model=0", "--model=1"]
    assert "--appDataRate=1Mbps" in calls[0]
    assert "--flowDuration=0.1" in calls[0]
    assert {goal.text for goal in report.goals if goal.value is None} == set()


def test_without_them_published_figures_are_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = lab.published()
    assert [row.packets_per_s for row in rows] == [23_000, 2_080, 60_000, 6_200]
    assert not any(row.measured for row in rows)
    assert all(row.packets == 3_640_000 for row in rows)
    ours = lab.LabRow.of("detour", 10_000.0, 10, 1.0)
    goals = {goal.text: goal.value for goal in lab.report([ours, *rows], False).goals}
    assert goals["times p4sim's packets a second"] is None


def test_a_simulator_that_is_none_is_told(other: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (other / "simulator").write_text("#!/bin/sh\necho no flow table >&2; exit 3\n")
    with pytest.raises(DetourError, match="ended with 3: no flow table"):
        p4sim.run(other / "simulator", p4sim.P4SIM, 1.0, 1_000, 1.0, 10**9)
    monkeypatch.setenv(p4sim.VARIABLE, str(other / "nothing"))
    with pytest.raises(DetourError, match="not an executable"):
        lab.run((1.0,), 0.1)


@pytest.mark.parametrize("wrong", [{"speeds": ()}, {"speeds": (0.0,)}, {"seconds": 0.0}, {"turns": 0}])
def test_nonsense_is_refused(wrong: dict) -> None:
    with pytest.raises(DetourError, match="above 0"):
        lab.run(**wrong)
