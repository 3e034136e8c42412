# SPDX-License-Identifier: Apache-2.0
"""DCQCN against a model that executes every timer event, against closed forms, and between two hosts."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pytest

from detour.hosts.cc import algorithm
from detour.hosts.cc import control as native_control
from detour.hosts.cc.dcqcn import DCQCN, DCQCN_PAPER, DCQCN_VENDOR, DcqcnParameters
from detour.hosts.decode import decode
from detour.hosts.parameters import host_config
from detour.hosts.transport import TRANSPORT_REGISTRY
from detour.hosts.verbs import Path, QPInitAttr, algorithms
from tests.native import FromPython, control_state, controlled
from tests.property.lossy import US, Network, Weather, make_pair, transfer

LINE = 100e9
GBPS = 1e9
FRAME = 1102
ORDER = ["rise", "fade", "check"]
ONE_BY_ONE = pytest.mark.parametrize("preset", [DCQCN_VENDOR, DCQCN_PAPER])

cc = FromPython(native_control)


def rate_of(pair: Any) -> float:
    """The rate of the QP that sends."""
    return float(algorithms.state_of(pair.hs, algorithm("dcqcn"))[pair.qp_a.index]["rate"])


def dcqcn_of(preset: dict[str, Any]) -> DcqcnParameters:
    """DCQCN's own parameters."""
    parameters: DcqcnParameters = DCQCN.on_hosts(host_config(**preset).plugins).parameters
    return parameters


class Flow:
    """The hooks of a QP."""

    def __init__(self, preset: dict[str, Any], **changes: Any) -> None:
        self.config = dcqcn_of(preset | changes)
        self.hs = controlled("dcqcn", 64.0, **(preset | changes))
        self.cfg, self.q, self.s = self.hs.cfg[0], self.hs.qp[0], control_state(self.hs)[0]

    def send(self, now: int, length: int = FRAME) -> float:
        """Sends a frame; returns the rate at which it goes."""
        cc.on_sent(self.q, length, 0, now)
        return float(self.s["rate"])

    def notify(self, now: int) -> None:
        cc.on_cnp(self.q, now)


class Model:
    """The algorithm as its authors wrote it, an event for every timer."""

    def __init__(self, c: DcqcnParameters) -> None:
        self.c = c
        self.rate = self.target = LINE
        self.alpha, self.first = 1.0, True
        self.flag_alpha = self.flag_cut = False
        self.by_time = self.by_bytes = self.bytes = 0
        self.timers: dict[str, int] = {}

    def run(self, now: int) -> None:
        """All events until `now`, at equal times increases first, then alpha, then the check."""
        while due := [(when, ORDER.index(name), name) for name, when in self.timers.items()]:
            when, _, name = min(due)
            if when > now:
                return
            getattr(self, name)(when)

    def rise(self, now: int) -> None:
        self.increase()
        self.by_time += 1
        self.timers["rise"] = now + self.c.dcqcn_increase_ps

    def alpha_step(self, seen: bool) -> None:
        self.alpha = (1 - self.c.dcqcn_g) * self.alpha + (self.c.dcqcn_g if seen else 0)

    def fade(self, now: int) -> None:
        self.alpha_step(self.flag_alpha)
        self.flag_alpha = False
        self.timers["fade"] = now + self.c.dcqcn_alpha_ps

    def check(self, now: int) -> None:
        self.timers["check"] = now + self.c.dcqcn_decrease_ps
        if self.flag_cut:
            self.flag_cut = False
            self.cut(now)

    def increase(self) -> None:
        counts = [self.by_time, self.by_bytes] if self.c.dcqcn_bytes else [self.by_time]
        if max(counts) >= self.c.dcqcn_recovery:
            hyper = min(counts) > self.c.dcqcn_recovery
            self.target = min(LINE, self.target + (self.c.dcqcn_hai_bps if hyper else self.c.dcqcn_ai_bps))
        self.rate = (self.rate + self.target) / 2

    def cut(self, now: int) -> None:
        if self.c.dcqcn_clamp_target or self.by_time:
            self.target = self.rate
        self.rate = max(self.c.dcqcn_min_bps, self.rate * (1 - self.alpha / 2))
        self.by_time = self.by_bytes = self.bytes = 0
        self.timers["rise"] = now + self.c.dcqcn_increase_ps

    def notify(self, now: int) -> None:
        self.run(now)
        if not self.c.dcqcn_decrease_ps:
            self.cut(now)
            self.alpha_step(True)
            self.timers["fade"] = now + self.c.dcqcn_alpha_ps
            return
        self.flag_cut, self.flag_alpha = True, not self.first
        if self.first:
            self.first = False
            self.timers |= {"fade": now + self.c.dcqcn_alpha_ps, "check": now + self.c.dcqcn_decrease_ps}

    def send(self, now: int, length: int) -> float:
        self.run(now)
        if self.c.dcqcn_bytes:
            self.bytes += length
            while self.bytes >= self.c.dcqcn_bytes:
                self.bytes -= self.c.dcqcn_bytes
                self.increase()
                self.by_bytes += 1
        return self.rate


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 6))])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"dcqcn_bytes": 30_000, "dcqcn_recovery": 2},
        {"dcqcn_clamp_target": True, "dcqcn_recovery": 3, "dcqcn_increase_ps": 7 * US, "dcqcn_g": 1 / 8},
        {"dcqcn_alpha_ps": 2_500_001, "dcqcn_increase_ps": 40 * US},
    ],
)
@ONE_BY_ONE
def test_the_result_is_that_of_a_timer_event_a_microsecond(preset: dict[str, Any], changes: Any, seed: int) -> None:
    flow = Flow(preset, **changes)
    model = Model(flow.config)
    source = random.Random(seed)
    now = slower = 0
    for _ in range(1500):
        now += source.choice([0, 88_160, 500_000, 1 * US, 3 * US + 7, 40 * US, 700 * US])
        if source.random() < 0.3:
            flow.notify(now)
            model.notify(now)
        if source.random() < 0.6:
            length = source.choice([66, FRAME, 4200])
            assert flow.send(now, length) == pytest.approx(model.send(now, length), rel=1e-9)
            assert flow.s["alpha"] == pytest.approx(model.alpha, rel=1e-9)
            assert flow.s["target"] == pytest.approx(model.target, rel=1e-9)
            slower += model.rate < 0.99 * LINE
    assert slower > 50, "there was something to compare"


# -- closed forms ---------------------------------------------------------------------------------------------------


@ONE_BY_ONE
def test_a_flow_starts_at_line_rate_and_keeps_it(preset: dict[str, Any]) -> None:
    flow = Flow(preset)
    for now in (0, 5 * US, 10**15):
        assert flow.send(now) == LINE
        assert flow.q["pace_next"] - now == FRAME * 80, "bytes on the wire at 100 Gb/s"


def test_vendor_mode_after_one_notification() -> None:
    """Cut at the check 4 us later, when alpha has been faded four times; then F = 1 recovery, AI, HAI."""
    flow = Flow(DCQCN_VENDOR)
    flow.notify(10 * US)
    assert flow.send(14 * US - 1) == LINE
    rate = LINE * (1 - (255 / 256) ** 4 / 2)
    assert flow.send(14 * US) == pytest.approx(rate)
    assert flow.q["pace_next"] - 14 * US == int(FRAME * 8e12 / rate)
    for k in range(1, 8):
        rate = (rate + LINE) / 2  # the first cut leaves the target where it is
        assert flow.send((14 + 300 * k) * US) == pytest.approx(rate)
    assert flow.s["alpha"] == pytest.approx((255 / 256) ** (4 + 300 * 7), rel=1e-9)


def test_additive_and_hyper_increase_of_vendor_mode() -> None:
    flow = Flow(DCQCN_VENDOR, dcqcn_clamp_target=True)
    for k in range(4):  # down to the floor: target = rate = 1 Gb/s
        flow.s["rate"] = GBPS
        flow.notify(k * 4 * US)
        flow.send(k * 4 * US + 4 * US)
    rate = target = GBPS
    for k in range(1, 30):
        if k > 1:
            target += 20e6 if k == 2 else 200e6
        rate = (rate + target) / 2
        assert flow.send((16 + 300 * k) * US) == pytest.approx(rate)


def test_paper_mode_halves_at_once_and_recovers_in_five_steps() -> None:
    flow = Flow(DCQCN_PAPER)
    for k in range(3):
        flow.notify(k * 50 * US)
        assert flow.send(k * 50 * US) == LINE / 2 ** (k + 1)
        assert flow.s["alpha"] == 1, "alpha = 1 stays 1 while there is a notification in every interval"
    target, rate, base = LINE / 4, LINE / 8, 100 * US
    for k in range(1, 6):
        rate = (rate + target) / 2
        assert flow.send(base + k * 55 * US) == pytest.approx(rate)
        assert flow.s["alpha"] == pytest.approx((255 / 256) ** k)
    for k in range(6, 12):
        target += 20e6  # the byte counter has not moved: additive
        rate = (rate + target) / 2
        assert flow.send(base + k * 55 * US) == pytest.approx(rate)


@ONE_BY_ONE
def test_a_new_path_begins_at_a_tenth_and_recovers(preset: dict[str, Any]) -> None:
    flow = Flow(preset)
    flow.notify(0)
    flow.q["epoch"] = 1
    cc.on_path(flow.cfg, flow.q, 10.0, 20 * US)
    assert flow.send(20 * US) == LINE / 10
    assert flow.q["cwnd"] == 64, "the bound on what is in flight stays"
    step = flow.config.dcqcn_increase_ps
    assert flow.send(20 * US + step) == pytest.approx(LINE * 0.55)
    assert flow.send(20 * US + 2 * step) == pytest.approx(LINE * 0.775)


# -- between hosts --------------------------------------------------------------------------------------------------


def dcqcn(transport: str = "lerp") -> dict[str, Any]:
    attr = QPInitAttr(psn=0, congestion_control="dcqcn", transport=transport)
    return {"attr_a": attr, "attr_b": attr}


@pytest.mark.parametrize("transport", TRANSPORT_REGISTRY.built_in)
def test_a_paced_flow_sends_at_its_rate(transport: str) -> None:
    config = host_config(dcqcn_reroute_share=0.05, dcqcn_increase_ps=10**12)
    pair = make_pair(config=config, **dcqcn(transport))
    net = Network(pair.hs, Weather())
    pair.qp_a.set_path(Path(2))  # 5 Gb/s from now on
    sent: list[int] = []

    def watch(host: int, frame: bytes) -> bytes:
        if host == 0:
            sent.append(net.now)
        return frame

    net.filter = watch
    transfer(pair, net, 100)
    assert {b - a for a, b in pairwise(sent)} == {FRAME * 8 * 200}


def test_a_flow_at_line_rate_leaves_no_gaps() -> None:
    pair = make_pair(window=1024, **dcqcn())
    net = Network(pair.hs, Weather())
    transfer(pair, net, 200)
    assert net.now == 200 * FRAME * 80 + 2 * 5 * US + 102 * 80, "frames back to back, two delays, the last ACK"


def test_marks_make_a_cnp_every_interval() -> None:
    pair = make_pair(memory=1 << 20, config=host_config(**DCQCN_PAPER), **dcqcn())
    net = Network(pair.hs, Weather(mark=1.0))
    cnps: list[int] = []

    def watch(_: int, frame: bytes) -> bytes:
        f = decode(frame)
        if f["kind"] == "cnp":
            cnps.append(net.now)
            assert len(frame) == 14 + 40 + 8 + 12 + 16 + 4
            assert frame[62 + 4] == 0x40, "BECN"
            assert int.from_bytes(frame[14:16], "big") >> 4 & 0xFF == 48 << 2
        return frame

    net.filter = watch
    transfer(pair, net, 1000)
    assert len(cnps) == pair.qp_a.stats()["cnps"] == pair.qp_b.stats()["rx_cnps"] >= 3
    assert all(50 * US <= b - a < 60 * US for a, b in pairwise(cnps))
    assert rate_of(pair) < LINE / 7


def test_without_cnps_the_bit_of_the_ack_is_the_notification() -> None:
    pair = make_pair(**dcqcn())
    net = Network(pair.hs, Weather(mark=1.0))
    transfer(pair, net, 250)
    assert pair.qp_a.stats()["cnps"] == 0
    assert rate_of(pair) < LINE / 7


def test_cnps_are_for_dcqcn_only_and_those_of_an_old_path_are_ignored() -> None:
    config = host_config(**DCQCN_PAPER)
    pair = make_pair(config=config, connect={"path": Path(1)})
    transfer(pair, Network(pair.hs, Weather(mark=1.0)), 100)
    assert pair.qp_b.stats()["rx_cnps"] == 0, "DCTCP"
    pair = make_pair(config=config, connect={"path": Path(1)}, **dcqcn())
    net = Network(pair.hs, Weather(mark=1.0))
    pair.write(20_000)
    net.run(lambda: pair.qp_b.stats()["rx_cnps"] == 1)
    pair.qp_a.set_path(Path(2), now_ps=net.now)
    net.weather.mark = 0.0
    assert net.run(lambda: pair.qp_a.stats()["cnps"] == 1)
    assert rate_of(pair) == LINE / 10, "a new path's rate, not cut"
