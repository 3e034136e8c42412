# SPDX-License-Identifier: Apache-2.0
"""What is run in section IV of the SRv6 path placement paper, on whatever footing, and what a run measures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from detour.control.rerouting import Thresholds

_Floats = NDArray[np.floating[Any]]

TOPOLOGY = "leaf-spine:leaves=2,spines=2,hosts=1"
NAMES = {"s0": "gw1", "s1": "gw2", "s2": "rt1", "s3": "rt2"}
SENDER, RECEIVER = 1, 0
"""hosts: behind gw2, and behind gw1"""
SPINE_PATHS = ((1, 2, 0), (1, 3, 0))
"""by way of rt1, where the flow begins, and of rt2"""
THROTTLED = "s1-s2"
"""gw2-rt1"""

MODES = ("uncongested", "none", "controller", "nic")
THROTTLE = 0.65
"""share of the link's rate that is left"""
ONSET = 1 / 6
"""share of the run after which that happens: 5 of 30 s"""


@dataclass(frozen=True)
class Backend:
    """How long, how fast, and what with.

    `window_s`: of the monitor that the controller decides by; `bin_s`: of the time series, 100 ms in the paper;
    `delay_s`: queuing delay that means congestion; `hold_s`: see `rerouting.Thresholds`. `message_bytes`, `slots`: of a
    message, and messages under way: more work than a window of the monitor and, on the wall clock, than this process is
    ever late. `drain_s`: what was sent may take to arrive after the run. `push_s`: from the end of a window to the new
    uSID list at the sender (the report's way, the decision, the push), where that takes no time by itself. `watched`:
    switches watch the flow. `warm_bytes`: sent before the run, which on the wall clock would begin with whatever is
    loaded or compiled on first use.
    """

    rate_bps: int
    seconds: float
    quick_seconds: float
    window_s: float
    bin_s: float
    delay_s: float
    hold_s: float
    message_bytes: int
    text: str
    slots: int = 24
    drain_s: float = 20.0
    push_s: float = 0.0
    watched: bool = False
    warm_bytes: int = 20_000

    @property
    def thresholds(self) -> Thresholds:
        """Those of the controller."""
        hold = round(self.hold_s * 1e12)
        return Thresholds(delay_ps=self.delay_s * 1e12, hold_ps=hold, penalty_ps=100 * hold)


BACKENDS = {
    "virtual": Backend(
        100_000_000_000, 30e-3, 6e-3, 20e-6, 100e-6, 5e-6, 100e-6, 250_000,
        "engine in virtual time, all times a thousandth",
        slots=8, drain_s=10e-3, push_s=10e-6, watched=True, warm_bytes=0,
    ),
    "real": Backend(20_000_000, 30.0, 6.0, 10e-3, 100e-3, 2e-3, 100e-3, 16_000, "engine in real time"),
    "bmv2": Backend(1_102_000, 30.0, 12.0, 100e-3, 1.0, 80e-3, 1.0, 4_000, "simple_switch_grpc"),
}  # fmt: skip
"""virtual: a thirtieth of a second of 100 Gb/s is as many packets as a laptop simulates in seconds"""


@dataclass(frozen=True)
class SwitchOnPath:
    """What a switch saw of the flow: packets, those that it marked, the mean delay in its queues, and the longest mean
    of a window."""

    switch: str
    packets: int
    ecn_packets: int
    delay_s: float
    worst_window_delay_s: float


@dataclass(frozen=True)
class RunCourse:
    """What a run measured. `times_s`, `rates_bps`: the end of every bin and the payload rate in it; `onset_s`: when the
    link was throttled (the run's own clock, from the first packet); `rerouted_s`: when the sender changed its path;
    `switches`: in the order of the flow's path, if they watched it."""

    times_s: _Floats
    rates_bps: _Floats
    onset_s: float | None
    rerouted_s: tuple[float, ...]
    delivered_bytes: int
    sent_bytes: int
    arrived_bytes: int
    duplicate_bytes: int
    messages: int
    in_order: bool
    retransmitted: int
    ecn_marked: int
    rtt_s: float
    switches: tuple[SwitchOnPath, ...] = ()


def bins(times_s: Sequence[float], counts: Sequence[int], bin_s: float) -> tuple[_Floats, _Floats]:
    """(bins,) ends and rates in bits a second, from cumulative byte counts at increasing times; the run begins at 0 s
    with 0 bytes. Counts between samples are interpolated."""
    ends = np.arange(1, int(round(times_s[-1] / bin_s, 6)) + 1) * bin_s
    at = np.interp(ends, np.concatenate([[0.0], times_s]), np.concatenate([[0], counts]))
    return ends, np.diff(at, prepend=0.0) * 8 / bin_s
