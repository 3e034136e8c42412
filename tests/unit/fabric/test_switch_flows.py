# SPDX-License-Identifier: Apache-2.0
"""Watched flows at switches that are dictionaries: what is read, written, told to senders, and kept."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import cast

import pytest

from detour.base.errors import DetourError
from detour.control.entries import Plan
from detour.control.p4runtime.watching import CELLS, CLASS_MEANS, Cell, slot_cells
from detour.fabric.backends.clock import PS, VirtualClock
from detour.fabric.operations.control_plane import ControlPlane
from detour.fabric.operations.live_flows import LiveFlows
from detour.fabric.operations.switch_flows import READING_SHARE, SwitchFlows, next_window
from detour.fabric.records import SwitchFlowTotals
from detour.topo import parse_topology

MS = 1_000_000_000
TICK_PS = 1_000_000
SOURCE = 0xFD00 << 112 | 1


class Switches:
    """Counters, entries and labels."""

    def __init__(self) -> None:
        self.cells: defaultdict[tuple[int, Cell], tuple[int, int]] = defaultdict(lambda: (0, 0))
        self.held: Plan = {}
        self.labels: dict[str, int] = {}
        self.now_ps = 0
        self.refuse = False
        self.clock = VirtualClock(lambda: self.now_ps, self.run)
        self.window_s = MS / PS
        self.topology = parse_topology("d1")
        self.flows = SwitchFlows(cast(ControlPlane, self), cast(LiveFlows, self), self.clock, TICK_PS, kept=4)

    def run(self, until_ps: int) -> None:
        self.now_ps = until_ps

    def read_cells(self, cells: Mapping[int, Sequence[Cell]]) -> dict[int, list[tuple[int, int]]]:
        return {device: [self.cells[device, cell] for cell in indices] for device, indices in cells.items()}

    def rewrite(self, before: Plan, after: Plan) -> None:
        if self.refuse:
            raise DetourError("the switch refuses")
        assert before == self.held
        self.held = after

    def set_label(self, flow: str, value: int) -> None:
        self.labels[flow] = value

    def count(self, device: int, slot: int, packets: int, *, marked: int = 0, delay: int = 0) -> None:
        """Packets of 1000 bytes with a class of delay pass a switch."""
        unmarked, mark, *waited = slot_cells(slot)
        for cell, more in ((unmarked, packets - marked), (mark, marked), (waited[delay], packets)):
            had = self.cells[device, cell]
            self.cells[device, cell] = had[0] + more, had[1] + 1000 * more

    def window(self) -> None:
        self.clock.wait(self.now_ps + MS)


def at(switches: Switches, flow: str, device: int) -> SwitchFlowTotals:
    return {row.switch: row for row in switches.flows.rows(flow)}[f"s{device - 1}"]


def test_windows_of_a_flow_at_a_switch() -> None:
    switches = Switches()
    switches.count(5, 0, 77)  # of whoever had the slot before
    switches.flows.add("a", SOURCE, [1, 5, 2])
    assert switches.labels == {"a": 1}
    assert {device: len(entries) for device, entries in switches.held.items()} == {1: 1, 5: 1, 2: 1}
    for packets in (100, 100, 60):
        switches.count(5, 0, packets, marked=packets // 4, delay=9)
        switches.window()
    window = at(switches, "a", 5)
    assert (window.packets, window.bytes, window.ecn_packets) == (260, 260_000, 65)
    assert window.rate_bps == pytest.approx(60 * 8000 / 1e-3)
    assert (window.drop, window.ecn_share) == (pytest.approx(0.4), 0.25)
    assert window.delay_ps == CLASS_MEANS[9] * TICK_PS
    assert window.delays == [0] * 9 + [260] + [0] * (CELLS - 12)
    assert at(switches, "a", 1).packets == 0
    assert [row.switch for row in switches.flows.rows("a")] == ["s0", "s4", "s1"], "in the order of the path"
    for _ in range(9):
        switches.window()
    times, rows = switches.flows.monitor.history("a", 5)
    assert (times.tolist(), len(rows)) == ([k * MS for k in range(9, 13)], 4), "bounded"


def test_a_flow_that_moves_and_ends() -> None:
    switches = Switches()
    switches.flows.add("a", SOURCE, [1, 5, 2])
    switches.count(1, 0, 10)
    switches.flows.move("a", [1, 6, 2])
    switches.count(1, 0, 10)
    switches.count(5, 0, 3)
    switches.window()
    assert set(switches.held) == {1, 5, 2, 6}
    assert (at(switches, "a", 1).packets, at(switches, "a", 5).packets) == (20, 3)
    switches.flows.move("a", [1, 7, 2])
    assert set(switches.held) == {1, 2, 6, 7}
    switches.flows.move("nobody", [1])
    switches.flows.remove("a")
    switches.flows.remove("a")
    assert (switches.held, switches.labels, switches.flows.rows("a")) == ({}, {"a": 0}, [])
    switches.flows.add("b", SOURCE, [1])
    assert at(switches, "b", 1).packets == 0, "the slot's former flow is taken off"


def test_what_a_switch_refuses_is_not_watched() -> None:
    switches = Switches()
    switches.refuse = True
    with pytest.raises(DetourError, match="refuses"):
        switches.flows.add("a", SOURCE, [1, 2])
    assert "a" not in switches.flows
    assert (switches.flows.plan(), switches.labels) == ({}, {})
    switches.refuse = False
    switches.flows.add("a", SOURCE, [1, 2])
    switches.window()
    assert len(switches.flows.rows("a")) == 2
    switches.refuse = True
    with pytest.raises(DetourError, match="refuses"):
        switches.flows.move("a", [1, 3])
    assert ("a" not in switches.flows, switches.labels) == (True, {"a": 0})


def test_one_slow_reading_is_not_held_against_the_next_windows() -> None:
    assert next_window(0.1, 0.1, 0.9) == 0.2
    assert next_window(0.2, 0.1, 0.001) == 0.1


def test_windows_become_as_long_as_reading_needs() -> None:
    window = 0.1
    for _ in range(10):
        window = next_window(window, 0.1, 0.09)
    assert window == pytest.approx(0.09 / READING_SHARE)
