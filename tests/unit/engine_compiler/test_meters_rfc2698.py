# SPDX-License-Identifier: Apache-2.0
"""Two-rate three-colour markers by the network's clock, packet by packet against RFC 2698, section 3, colour-blind."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest

from detour.engine.clock import Virtual
from detour.engine.network import Network
from detour.engine.state import SwitchState
from detour.engine.tables import MeterRates

from .bitstring import Spec, join, split
from .conftest import program

OP: Spec = [("op", 8), ("index", 32), ("value", 200), ("colour", 8)]
SHORTEST = 31
GREEN, YELLOW, RED = 0, 1, 2
PS = 10**12
BY_PACKETS, BY_BYTES = 5, 6


class Marker:
    """RFC 2698: token buckets that are full at time 0 and gain one token PIR (CIR) times a second."""

    def __init__(self, rates: MeterRates, tick_ps: int) -> None:
        self.rates, self.tick_ps = rates, tick_ps
        self.peak, self.committed, self.ticks = rates.pburst, rates.cburst, 0

    def _gained(self, rate: float, ticks: int) -> int:
        """Tokens from the beginning to the last tick, less those until now."""
        per_tick = Fraction(rate).limit_denominator(10**6) * Fraction(self.tick_ps, PS)
        return int(ticks * per_tick) - int(self.ticks * per_tick)

    def colour(self, time_ps: int, size: int) -> int:
        ticks = time_ps // self.tick_ps
        self.peak = min(self.peak + self._gained(self.rates.pir, ticks), self.rates.pburst)
        self.committed = min(self.committed + self._gained(self.rates.cir, ticks), self.rates.cburst)
        self.ticks = ticks
        if self.peak < size:
            return RED
        self.peak -= size
        if self.committed < size:
            return YELLOW
        self.committed -= size
        return GREEN


def colours(rates: MeterRates, op: int, times_ps: list[int], sizes: list[int], tick_ps: int) -> list[int]:
    """What a switch in virtual time makes of packets that come at these times."""
    code = program("stateful")
    seen: list[bytes] = []
    with Network(Virtual(), tick_ps=tick_ps) as network:
        network.add_switch(1)
        state = SwitchState(code, 1, tick_ps)
        network.set_pipeline(1, code, state)
        state.meters["TheIngress.slow" if op == BY_PACKETS else "TheIngress.fast"].configure(2, rates)
        network.attach_sink((1, 1), lambda data, _: seen.append(data), queue_packets=999)
        head = np.frombuffer(join(OP, {"op": op, "index": 2, "value": 0, "colour": 9}), np.uint8)
        frames = np.tile(head, (len(times_ps), 1))
        assert network.inject_many((1, 1), np.array(times_ps), frames, np.array(sizes)) == len(times_ps)
        network.run(times_ps[-1] + PS)
    return [split(OP, data[:SHORTEST])["colour"] for data in seen]


@pytest.mark.parametrize("tick_ps", [1_000, 1_000_000])
@pytest.mark.parametrize("op", [BY_PACKETS, BY_BYTES])
@pytest.mark.parametrize("seed", range(4))
def test_every_colour_is_rfc_2698s(seed: int, op: int, tick_ps: int) -> None:
    rng = random.Random(f"{seed} {op} {tick_ps}")
    unit = 1 if op == BY_PACKETS else 1500
    cir = rng.choice([999_983, 100_000, 0.5e6, 333_333.25]) * unit
    rates = MeterRates(cir, rng.randrange(2, 20) * unit, cir * rng.choice([1, 1.5, 3]), rng.randrange(2, 40) * unit)
    times, now = [], rng.randrange(1 << 40)
    period_ps = round(PS * unit / rates.pir)
    for _ in range(400):
        # Around the rates; often when a token is due, to a tick.
        now += rng.choice([rng.randrange(period_ps), rng.randrange(3) * period_ps // tick_ps * tick_ps])
        times.append(now)
    sizes = [rng.randrange(1000, 2000) for _ in times]
    marker = Marker(rates, tick_ps)
    expected = [marker.colour(t, 1 if op == BY_PACKETS else size) for t, size in zip(times, sizes, strict=True)]
    assert colours(rates, op, times, sizes, tick_ps) == expected
    assert len(set(expected)) >= 2, "rates and times should give more than one colour"


@pytest.mark.parametrize("tick_ps", [1_000, 1_000_000])
def test_a_token_is_there_in_the_tick_in_which_it_is_due(tick_ps: int) -> None:
    """290,000 a second: 29 in 100 us. As a double, 100 * 0.29 is less than 29."""
    us = 1_000_000
    times = [96 * us, 97 * us, 99 * us, 100 * us]  # tokens 28 (at 96.6), none, 29 (at 100)
    rates = MeterRates(290_000, 1, 290_000, 1)
    marker = Marker(rates, tick_ps)
    assert colours(rates, BY_PACKETS, times, [SHORTEST] * 4, tick_ps) == [GREEN, GREEN, RED, GREEN]
    assert [marker.colour(time_ps, 1) for time_ps in times] == [GREEN, GREEN, RED, GREEN]


def test_tokens_do_not_drift_in_days() -> None:
    rate, day = 12_500_000_000, 86_400 * PS
    rates = MeterRates(rate, 1000, rate, 1000)
    times = [day, day + 79_000, day + 80_000, day + 160_000, day + 239_000]  # 1000 bytes come in 80 ns
    assert colours(rates, BY_BYTES, times, [1000] * 5, 1_000) == [GREEN, RED, GREEN, GREEN, RED]


def test_rates_are_read_back_as_they_were_set() -> None:
    state = SwitchState(program("stateful"), 1, 1_000)
    for rates in (
        MeterRates(1, 2, 3, 4),
        MeterRates(0.000001, 1, 12_500_000_000, 1 << 40),
        MeterRates(0, 0, 0, 0),
        MeterRates(333_333.25, 7, 10**12, 9),
    ):
        state.meters["TheIngress.fast"].configure(0, rates)
        assert state.meters["TheIngress.fast"].config(0) == rates
