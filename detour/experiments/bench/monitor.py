# SPDX-License-Identifier: Apache-2.0
"""`detour bench monitor`: what monitoring costs, beside what the host stack itself costs.

Two hosts exchange data packets and ACKs directly, without switches, so that nothing but the host stack takes time. Two
parts are measured: what receivers add up for every packet (`HostConfig.monitor` on and off, in turns), and the call
that ends a window of all flows (`FlowMonitor.sample`), each of which has received something. Windows are 100 us of
100 Gb/s, a thousandth of the 100 ms of the wall clock, and 20 us, as `reproduce path-placement` has them; the longer
the window, the less the second part counts.
"""

from __future__ import annotations

import statistics
import time

import numpy as np

from detour.base.arrays import Int64s1
from detour.base.memory import call2, call3, call5, call6, load64, store64
from detour.base.native import Part
from detour.base.progress import Progress, silent
from detour.experiments.bench.report import BenchReport, Goal
from detour.fabric.monitoring.windows import FlowMonitor, receiver_counts
from detour.hosts.config import HostConfig
from detour.hosts.frames.sizes import MAX_FRAME
from detour.hosts.rdma import stack_of
from detour.hosts.stacks import WIRE_MASK, stack_at
from detour.hosts.state import Hosts, make_hosts, set_host
from detour.hosts.verbs import Device
from detour.hosts.verbs.bulk import connect_many, post_many

BENCH_MONITOR = Part("bench-monitor", __name__)
GOAL_SHARE = 2.0
PACKETS = 30_000
TURNS = 90
WINDOWS = 500
_TURNS_PER_WINDOW = 3
FLOWS = (1, 16, 64)
WINDOWS_PS = (100_000_000, 20_000_000)
_PACKET_PS = 88_160
"""a data packet of 1102 bytes at 100 Gb/s"""
_ENDLESS = 1 << 36


@BENCH_MONITOR.entry
def _exchange(stack: int, frame: int, packets: int, now: int) -> int:
    """Host 0 sends so many packets, host 1 answers each; returns the time then."""
    s = stack_at(stack, 0)
    for _ in range(packets):
        length = call5(s.transmit, s.state, 0, frame, MAX_FRAME, now) & WIRE_MASK
        if length > 0:
            call6(s.receive, s.state, 1, frame, length, length, now)
            length = call5(s.transmit, s.state, 1, frame, MAX_FRAME, now) & WIRE_MASK
            if length > 0:
                call6(s.receive, s.state, 0, frame, length, length, now)
        elif call2(s.deadline, s.state, 0) <= now:
            call3(s.expire, s.state, 0, now)
        now += _PACKET_PS
    return now


@BENCH_MONITOR.entry
def _arrive(counts: int, stride: int, rows: Int64s1, turn: int) -> None:
    """Every receiver counts a few packets that waited."""
    for row in rows:
        for k in range(5):
            at = counts + row * stride + 8 * k
            store64(at, load64(at) + 3 + (turn & 1))


class _Pair:
    """Two hosts with flows from one to the other."""

    def __init__(self, flows: int) -> None:
        self.hs: Hosts = make_hosts(2, 2 * flows, 1 << 40, config=HostConfig(elide_payload=True), n_cqs=2, n_mrs=2)
        set_host(self.hs, 0, "fd00:0:0:1::1")
        set_host(self.hs, 1, "fd00:0:1:2::1")
        self._stack, self._code = stack_of(self.hs)
        device = Device(self.hs)
        ends = np.zeros(flows, np.int64), np.ones(flows, np.int64)
        self.flows = connect_many(device, *ends, congestion_control="fixed", initial_cwnd=64.0)
        post_many(self.flows, _ENDLESS)
        self.buffer = np.zeros(4096, np.uint8)
        self.now = 0

    def seconds(self, packets: int, monitor: bool) -> float:
        """Processor time of so many packets."""
        self.hs.cfg[0]["monitor"] = int(monitor)
        begin = time.thread_time()
        self.now = int(_exchange(self._stack.ctypes.data, self.buffer.ctypes.data, packets, self.now))
        return time.thread_time() - begin

    def window_seconds(self, windows: int) -> float:
        """Processor time of the end of a window."""
        monitor, rows = FlowMonitor(self.hs), self.flows.receiver
        for flow, row in enumerate(rows.tolist()):
            monitor.add(str(flow), row)
        view = receiver_counts(self.hs)
        counts = view.ctypes.data, view.strides[0], np.ascontiguousarray(rows, np.int64)
        monitor.sample(1)
        _arrive(*counts, 0)
        begin = time.thread_time()
        for k in range(windows):
            _arrive(*counts, k)
            monitor.sample(2 + k)
        both = time.thread_time()
        for k in range(windows):
            _arrive(*counts, k)
        return max(0.0, 2 * both - begin - time.thread_time()) / windows


def _share(off: float, on: float, window: float, window_ps: int) -> float:
    """Percent of the host stack's time, from seconds a packet without and with, and seconds at the end of a window."""
    return 100 * (max(0.0, on - off) + window * _PACKET_PS / window_ps) / off


def _times(pair: _Pair, packets: int, turns: int, windows: int) -> tuple[float, float, float]:
    """Seconds a packet without monitoring and with it, and at the end of a window: medians (of differences).

    In short turns, each first or second by turns, with windows among them: the speed of a virtual machine changes by
    the second, and what is compared should have met the same."""
    without, differences, ends = [], [], []
    for turn in range(turns):
        times = {monitor: pair.seconds(packets, monitor) for monitor in (bool(turn % 2), not turn % 2)}
        without.append(times[False])
        differences.append(times[True] - times[False])
        if turn % _TURNS_PER_WINDOW == 0:
            ends.append(pair.window_seconds(windows))
    off = statistics.median(without)
    return off / packets, (off + statistics.median(differences)) / packets, statistics.median(ends)


def run(packets: int = PACKETS, turns: int = TURNS, windows: int = WINDOWS, progress: Progress = silent) -> BenchReport:
    """Measures for several numbers of flows."""
    rows, numbers = [], []
    for flows in FLOWS:
        progress(f"{flows} flows")
        pair = _Pair(flows)
        pair.seconds(packets // 10, True)
        off, on, window = _times(pair, packets, turns, windows)
        shares = [_share(off, on, window, length) for length in WINDOWS_PS]
        rows.append(
            (str(flows), f"{off * 1e9:.0f}", f"{(on - off) * 1e9:+.1f}", f"{window * 1e6:.2f}",
             *(f"{share:.2f} %" for share in shares))
        )  # fmt: skip
        numbers.append(
            {"flows": flows, "packet_ns": off * 1e9, "packet_monitor_ns": (on - off) * 1e9, "window_us": window * 1e6,
             "share_percent": shares[0], "share_percent_short": shares[1]}
        )  # fmt: skip
    worst = {key: max(point[key] for point in numbers) for key in ("share_percent", "share_percent_short")}
    long, short = (f"{length / 1e6:g} us" for length in WINDOWS_PS)
    return BenchReport(
        "monitor",
        {"windows_us": [length / 1e6 for length in WINDOWS_PS], "points": numbers} | worst,
        ("flows", "host stack, ns a packet", "+ monitoring, ns", "end of a window, us", f"share, {long}", short),
        tuple(rows),
        tuple(
            Goal(f"share of the host stack's time with windows of {length}, percent,", value, GOAL_SHARE, most=True)
            for length, value in zip((long, short), worst.values(), strict=True)
        ),
        ("host stack: both ends, data and ACK, at 100 Gb/s",),
    )
