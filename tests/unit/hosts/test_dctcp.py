# SPDX-License-Identifier: Apache-2.0
"""DCTCP against closed forms (RFC 8257; Alizadeh et al., SIGCOMM 2010, section 3.3)."""

from __future__ import annotations

import math
from collections import deque
from typing import Any

import pytest

from detour.hosts.cc import algorithm
from detour.hosts.cc import control as native_control
from detour.hosts.verbs import algorithms
from tests.native import FromPython, control_all, control_state, controlled

SIZE = 1000

cc = FromPython(native_control)


class Flow:
    """The hooks as a transport calls them, for packets that arrive in order."""

    def __init__(self, window: float, **changes: Any) -> None:
        self.hs = controlled("dctcp", window, **changes)
        self.q, self.s = self.hs.qp[0], control_state(self.hs)[0]
        self.flight: deque[tuple[int, bool]] = deque()

    def fill(self) -> None:
        """Sends as much as the window lets."""
        while len(self.flight) < math.floor(self.q["cwnd"]):
            self.send()

    def send(self, marked: bool = False) -> None:
        self.flight.append((int(self.q["next_txn"]), marked))
        cc.on_sent(self.q, SIZE, int(self.q["next_txn"]), 0)
        self.q["next_txn"] += 1
        self.q["inflight"] = len(self.flight)

    def ack(self, empty: bool = False) -> None:
        """The oldest packet in flight is acknowledged."""
        txn, marked = self.flight.popleft()
        if marked:
            cc.on_ecn(self.q, SIZE, txn, 0)
        cc.on_acked(self.q, SIZE, txn, empty, 0)
        self.q["inflight"] = len(self.flight)

    def round_trip(self, marked: int = 0, empty: bool = False) -> None:
        """All that is in flight is acknowledged, packet by packet; `marked` of those sent meanwhile will be."""
        for _ in range(len(self.flight)):
            self.ack(empty)
            while len(self.flight) < math.floor(self.q["cwnd"]):
                self.send(marked > 0)
                marked -= 1


def test_on_an_empty_path_the_window_grows_by_a_share_if_it_is_used_up() -> None:
    flow = Flow(10, empty_gain=0.25)
    flow.q["ssthresh"] = 40.0
    flow.q["cwnd"] = 40.0
    flow.fill()
    flow.round_trip(empty=True)
    assert float(flow.q["cwnd"]) == pytest.approx(50, abs=1)
    before = float(flow.q["cwnd"])
    flow.round_trip()
    assert float(flow.q["cwnd"]) == pytest.approx(before + 1, abs=0.1), "RFC 8257 where there is a queue"
    flow.q["cwnd"] = 1.5 * len(flow.flight)
    before = float(flow.q["cwnd"])
    for _ in range(len(flow.flight) // 4):
        flow.ack(empty=True)
    assert float(flow.q["cwnd"]) - before < 1, "something else than the window limits the sender"


def test_slow_start_doubles_and_congestion_avoidance_adds_one() -> None:
    flow = Flow(10)
    flow.fill()
    for expected in (20, 40, 80):
        flow.round_trip()
        assert flow.q["cwnd"] == expected
    cc.on_lost(flow.q, int(flow.q["next_txn"]) - 1, True, 0)
    assert (flow.q["cwnd"], flow.q["ssthresh"]) == (40, 40)
    flow.flight = deque(list(flow.flight)[:40])
    flow.round_trip()  # what was out when the loss was found does not make the window grow
    assert flow.q["cwnd"] == 40
    for k in range(1, 4):
        flow.round_trip()
        assert flow.q["cwnd"] == pytest.approx(40 + k, abs=0.05 * k)


def test_an_unused_window_does_not_grow() -> None:
    flow = Flow(100)
    for _ in range(20):
        for _ in range(40):
            flow.send()
        for _ in range(40):
            flow.ack()
    assert flow.q["cwnd"] == 100


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
@pytest.mark.parametrize("g", [1 / 16, 1 / 4])
def test_alpha_converges_to_the_marked_share(share: float, g: float) -> None:
    """alpha_n = F + (1 - F)(1 - g)^n from alpha_0 = 1 (RFC 8257, 3.3)."""
    flow = Flow(100, dctcp_g=g, min_cwnd=100, max_cwnd=100)
    flow.fill()
    for _ in range(2):
        flow.round_trip(marked=round(100 * share))
    flow.s["alpha"] = 1.0
    for n in range(1, 40):
        flow.round_trip(marked=round(100 * share))
        assert flow.s["alpha"] == pytest.approx(share + (1 - share) * (1 - g) ** n)


def test_a_marked_window_is_cut_once_by_half_of_alpha() -> None:
    for alpha in (1.0, 0.5, 0.1):
        flow = Flow(100, max_cwnd=100)
        flow.q["ssthresh"] = 100
        flow.fill()
        flow.round_trip()
        flow.s["alpha"] = alpha
        flow.flight = deque((txn, k >= 50) for k, (txn, _) in enumerate(flow.flight))
        for _ in range(100):
            flow.ack()
        alpha *= 1 - 1 / 16  # the first of these ACKs ends a window without marks
        assert flow.q["cwnd"] == pytest.approx(100 * (1 - alpha / 2)), "50 marks, one cut"


def test_a_loss_halves_once_a_window_and_the_floor_is_two() -> None:
    flow = Flow(64)
    flow.fill()
    newest = int(flow.q["next_txn"]) - 1
    for txn in range(newest - 20, newest + 1):
        cc.on_lost(flow.q, txn, True, 0)
    assert flow.q["cwnd"] == 32
    for expected in (16, 8, 4, 2, 2):
        flow.q["next_txn"] += 1
        cc.on_lost(flow.q, int(flow.q["next_txn"]) - 1, True, 0)
        assert flow.q["cwnd"] == expected
    flow.q["cwnd"] = 50.0
    cc.on_rto(flow.q, 1, 0)
    assert (flow.q["cwnd"], flow.q["ssthresh"]) == (2, 25)


def test_idle_restart_remembers_where_it_was() -> None:
    flow = Flow(10, initial_cwnd=10)
    flow.q["cwnd"] = 80.0
    cc.on_idle(flow.q, 0)
    assert (flow.q["cwnd"], flow.q["ssthresh"]) == (10, 60)


def test_line_rate_start() -> None:
    dctcp = algorithm("dctcp")
    assert algorithms.initial_window(Flow(2).hs, dctcp) == 10
    assert algorithms.initial_window(Flow(2, line_rate_start=True, line_rate_cwnd=333).hs, dctcp) == 333


def test_a_fixed_window_stays() -> None:
    flow = Flow(30)
    control_all(flow.hs, "fixed")
    flow.fill()
    for _ in range(30):
        flow.round_trip(marked=10)
    cc.on_lost(flow.q, 1 << 40, True, 0)
    cc.on_rto(flow.q, 1, 0)
    assert flow.q["cwnd"] == 30


def run_bottleneck(pipe: int, threshold: int, packets: int) -> tuple[list[float], list[float], list[int]]:
    """One flow over a link that carries one packet a step, `pipe` packets of propagation, marking at `threshold`
    packets of queue. Returns windows, alphas and queue lengths over time."""
    flow = Flow(10, max_cwnd=10_000)
    flow.fill()
    windows, alphas, queues = [], [], []
    for _ in range(packets):
        flow.ack()
        while len(flow.flight) < math.floor(flow.q["cwnd"]):
            flow.send(marked=len(flow.flight) - pipe >= threshold)
        windows.append(float(flow.q["cwnd"]))
        alphas.append(float(flow.s["alpha"]))
        queues.append(max(0, len(flow.flight) - pipe))
    return windows, alphas, queues


@pytest.mark.parametrize(("pipe", "threshold"), [(80, 20), (200, 40)])
def test_single_flow_sawtooth(pipe: int, threshold: int) -> None:
    """W* = C RTT + K; alpha ~ sqrt(2 / W*); amplitude D ~ (W* + 1) alpha / 2 = sqrt(W* / 2); Q_max = K + 1."""
    windows, alphas, queues = run_bottleneck(pipe, threshold, 40_000)
    settled = len(windows) // 2
    peak = pipe + threshold
    alpha = sum(alphas[settled:]) / len(alphas[settled:])
    assert alpha == pytest.approx(math.sqrt(2 / peak), rel=0.35)
    assert max(windows[settled:]) == pytest.approx(peak + 1, abs=2)
    amplitude = max(windows[settled:]) - min(windows[settled:])
    assert amplitude == pytest.approx(math.sqrt(peak / 2), rel=0.5)
    assert max(queues[settled:]) <= threshold + 2
    assert min(queues[settled:]) > 0, "K > C RTT / 7 keeps the link busy (SIGCOMM 2010, 3.4)"
