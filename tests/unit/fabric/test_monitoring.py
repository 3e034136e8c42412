# SPDX-License-Identifier: Apache-2.0
"""Windows of flows and ports."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from detour.control.rerouting import FlowReport
from detour.fabric.backends.base import Fabric
from detour.fabric.monitoring.windows import FLOW_FIELDS, FlowMonitor
from detour.fabric.operations.counting import PortWatch
from detour.fabric.records import PortWindow
from detour.hosts.config import HostConfig
from detour.hosts.state import Hosts, make_hosts
from detour.topo import parse_topology

MS = 1_000_000_000


def receive(hs: Hosts, row: int, packets: int, marked: int = 0, ticks: int = 0) -> None:
    """The receiver of a QP counts packets of 1000 bytes, each of which waited `ticks`."""
    q = hs.qp[row]
    q["st_rx_packets"] += packets
    q["st_rx_bytes"] += 1000 * packets
    q["st_rx_ecn_marked"] += marked
    q["st_rx_delay_sum"] += ticks * packets
    q["st_rx_delay_samples"] += packets


def sample(monitor: FlowMonitor, now_ps: int) -> list[FlowReport]:
    monitor.sample(now_ps)
    return monitor.reports()


def test_windows_of_flows() -> None:
    hs = make_hosts(1, 4, 0, config=HostConfig())
    monitor = FlowMonitor(hs, kept=4)
    receive(hs, 2, 7)
    monitor.add("a", 2)
    monitor.add("b", 3)
    receive(hs, 2, 100, marked=25, ticks=3_000)
    (a, b) = sample(monitor, 1 * MS)
    assert (a.flow, b.flow) == ("a", "b")
    assert a.rate_bps == 100 * 8000 / 1e-3, "what came before is left out"
    assert (a.ecn_share, a.delay_ps, a.drop) == (0.25, 3_000_000, 0.0)
    assert (b.rate_bps, b.ecn_share, b.delay_ps, b.drop) == (0.0, 0.0, 0.0, 0.0)
    receive(hs, 2, 100)
    sample(monitor, 2 * MS)
    receive(hs, 2, 60)
    (a, _) = sample(monitor, 3 * MS)
    assert a.drop == pytest.approx(0.4), "the first window may have been a short one and does not count"
    times, rows = monitor.series("a")
    assert times.tolist() == [1 * MS, 2 * MS, 3 * MS]
    assert dict(zip(FLOW_FIELDS, rows[2], strict=True)) == pytest.approx(
        {"packets": 60, "bytes": 60_000, "rate_bps": 4.8e8, "drop": 0.4, "ecn_share": 0, "delay_ps": 0}
    )
    for k in range(4, 9):
        monitor.sample(k * MS)
    assert len(monitor.series("a")[0]) == 4, "bounded"
    monitor.remove("a")
    assert [totals.name for totals in monitor.totals()] == ["b"]
    assert len(sample(monitor, 9 * MS)) == 1
    monitor.add("c", 1)
    assert [report.rate_bps for report in monitor.reports()] == [0, 0], "the place of another flow, but not its windows"
    assert len(monitor.series("c")[0]) == 0


def test_usual_throughput_follows_slowly_while_it_is_low() -> None:
    hs = make_hosts(1, 1, 0, config=HostConfig())
    monitor = FlowMonitor(hs)
    monitor.add("a", 0)
    for k in range(2):
        receive(hs, 0, 100)
        monitor.sample((k + 1) * MS)
    for k in range(3, 22):
        receive(hs, 0, 50)
        monitor.sample(k * MS)
    (low,) = monitor.reports()
    assert low.drop > 0.3, "twenty windows later it is still remembered"
    for k in range(22, 300):
        receive(hs, 0, 50)
        monitor.sample(k * MS)
    (low,) = monitor.reports()
    assert low.drop < 0.1, "and in the end it is the usual one"


def test_a_queue_that_grows_is_more_delay_and_one_that_stands_soon_is_not() -> None:
    hs = make_hosts(1, 1, 0, config=HostConfig())
    monitor = FlowMonitor(hs)
    monitor.add("a", 0)
    more = []
    for k, ticks in enumerate([0, 0, 3000, 9000, *[9000] * 20, 1000, 2000]):
        receive(hs, 0, 100, ticks=ticks)
        (window,) = sample(monitor, (k + 1) * MS)
        assert window.delay_ps == ticks * 1000
        more.append(window.more_delay_ps / 1e6)
    assert more[:4] == pytest.approx([0, 0, 3, 8.25])
    assert more[-3] < 0.1, "9 us for twenty windows are usual"
    assert more[-2:] == pytest.approx([0, 1]), "and forgotten at once"


class CountedPorts(PortWatch):
    """Ports of two switches and a host that count what is said."""

    def __init__(self, counts: list[list[int]]) -> None:
        self.clock = SimpleNamespace(now_ps=0)
        topology = parse_topology("leaf-spine:leaves=1,spines=1,hosts=1")
        fabric = SimpleNamespace(topology=topology, clock=self.clock, ports=None)
        super().__init__(cast(Fabric, fabric), cast(Any, None))
        self.counts, self.waiting = np.array(counts), np.zeros(3, np.int64)

    def _read(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return self.counts.copy(), self.waiting.copy()

    def window(self, now_ps: int) -> None:
        self.clock.now_ps = now_ps
        self.end_window()


def test_windows_of_ports() -> None:
    ports = CountedPorts([[10, 10_000, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]])
    ports.window(0)
    ports.counts[0] += (100, 125_000, 50, 2)
    ports.waiting[0] = 12
    ports.window(MS)
    assert ports.windows["s0:1"] == PortWindow(tx_bps=1e9, queue_packets=12, marked_share=0.5, drops=2)
    assert ports.windows["s0:2"] == PortWindow(0.0, 0.0, 0.0, 0.0)


def test_a_clock_that_stands_still_ends_no_window() -> None:
    hs = make_hosts(1, 1, 0, config=HostConfig())
    monitor = FlowMonitor(hs)
    monitor.add("a", 0)
    receive(hs, 0, 100)
    monitor.sample(1 * MS)
    receive(hs, 0, 20)
    assert [report.rate_bps for report in sample(monitor, 1 * MS)] == [8e8], "not 20 packets in a picosecond"
    receive(hs, 0, 20)
    assert [report.rate_bps for report in sample(monitor, 2 * MS)] == [3.2e8], "they are part of the next window"
    ports = CountedPorts([[10, 10_000, 0, 0]] * 3)
    ports.window(0)
    ports.counts *= 2
    ports.window(1 * MS)
    ports.counts *= 2
    ports.window(1 * MS)
    assert ports.windows["s0:1"].tx_bps == 8e7
