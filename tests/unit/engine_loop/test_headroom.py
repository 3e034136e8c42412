# SPDX-License-Identifier: Apache-2.0
"""`buffers.headroom` against the event loop: the least headroom that loses nothing, found by trying."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import pytest
import script_program as script
from script_program import frame
from scripted_networks import Bench

from detour.engine.buffers import Buffers, headroom

pytestmark = pytest.mark.slow

NS, US = 1000, 1_000_000
GBIT = 1_000_000_000
RESERVE = 4096
DATA, BACK = 0, 1
"""priorities: what is under PFC, and what goes the other way and is not"""
PHASES = 20
Arrival = tuple[int, int]
"""time, bytes"""


@dataclass(frozen=True)
class Cable:
    """A cable and the longest frame on it."""

    mtu: int
    rate_bps: int
    delay_ps: int
    overhead: int = 0

    def time(self, size: int) -> int:
        """What a frame takes to be sent, ps."""
        return (size + self.overhead) * 8 * 10**12 // self.rate_bps

    @property
    def frames(self) -> int:
        """Enough for a pause, and for everything that may be under way when it comes."""
        return 2 * self.delay_ps // self.time(self.mtu) + (RESERVE + 8 * self.mtu + 4000) // self.mtu + 16

    def headroom(self) -> int:
        """What is stated."""
        return headroom(self.rate_bps, self.delay_ps, self.mtu, self.overhead)


CABLES = [
    pytest.param(Cable(1518, 100 * GBIT, US), id="the review's"),
    pytest.param(Cable(1102, 100 * GBIT, US), id="our packets"),
    pytest.param(Cable(1024, 40 * GBIT, 700 * NS), id="40G"),
    pytest.param(Cable(9216, 100 * GBIT, US), id="jumbo"),
    pytest.param(Cable(9216, 400 * GBIT, 10 * NS), id="a rack"),
    pytest.param(Cable(64, 10 * GBIT, US), id="short frames"),
    pytest.param(Cable(1518, 3 * GBIT, 20 * US), id="frames of broken picoseconds"),
    pytest.param(Cable(1518, 100 * GBIT, US, overhead=20), id="preamble and gap"),
    pytest.param(Cable(64, 100 * GBIT, 300 * NS, overhead=20), id="short frames with preamble and gap"),
]


def _lost(
    make: Callable[..., Bench], cable: Cable, room: int, forth: Iterable[Arrival], back: Iterable[Arrival]
) -> int:
    """Frames lost to want of headroom. Those of `forth` cross a cable to a switch that they leave slowly, those of
    `back` go the other way, so that pauses must wait for one of them."""
    bench = make(packets=4 * cable.frames, frame_bytes=cable.mtu)
    for device_id in (1, 2):
        bench.switch(device_id, priorities=2)
    net = bench.net
    net._memory.g["overhead_bytes"] = cable.overhead
    net.connect((1, 1), (2, 2), cable.rate_bps, cable.delay_ps, queue_packets=4000)
    bench.sink(2, 1, rate_bps=cable.rate_bps // 100_000, queue_packets=4000)
    bench.sink(2, 3)
    bench.sink(1, 2)
    shared = 8 * cable.mtu + 100_000
    net.set_buffers(2, Buffers(RESERVE + room + shared, lossless=1 << DATA, headroom_bytes=room, xoff_shift=6))
    for time, size in forth:
        net.inject((1, 2), frame(script.UNICAST, 1, 0, 0, size), time)
    for time, size in back:
        net.inject((2, 3), frame(script.PRIORITY, 2, BACK, 0, size), time)
    net.run(2 * cable.delay_ps + 2 * cable.frames * cable.time(cable.mtu))
    stats, of_loop = net.buffer_stats(2), net.loop_stats()
    net.stop()
    assert of_loop["pool_drops"] == 0
    assert stats["pauses_sent"] >= 1
    assert stats["buffer_drops"] == 0
    return stats["headroom_drops"]


def _stream(cable: Cable, begin: int = 0) -> Iterator[Arrival]:
    """Frames of the MTU at line rate."""
    return ((begin + n * cable.time(cable.mtu), cable.mtu) for n in range(cable.frames))


def _least(make: Callable[..., Bench], cable: Cable, phases: list[int], enough: int) -> int:
    """The least headroom for full frames both ways that begin one of `phases` apart, by bisection.

    Frames are charged whole, so it is a number of frames."""
    most = 1
    for phase in phases:

        def loses(frames: int, phase: int = phase) -> bool:
            return _lost(make, cable, frames * cable.mtu, _stream(cable), _stream(cable, phase)) > 0

        if not loses(most):
            continue
        low, high = most, -(-enough // cable.mtu)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if loses(middle) else (low, middle)
        most = high
    return most * cable.mtu


@pytest.mark.parametrize("cable", CABLES)
def test_the_stated_headroom_is_safe_and_less_than_a_frame_too_much(make: Callable[..., Bench], cable: Cable) -> None:
    stated = cable.headroom()
    step = cable.time(cable.mtu) // PHASES
    phases = [cable.delay_ps % cable.time(cable.mtu) + k * step for k in range(PHASES)]
    for phase in phases:
        assert _lost(make, cable, stated, _stream(cable), _stream(cable, phase)) == 0
    assert stated - cable.mtu <= _least(make, cable, phases, stated) <= stated


@pytest.mark.parametrize("cable", CABLES)
@pytest.mark.parametrize("seed", range(6))
def test_frames_of_any_size_fit_into_the_stated_headroom(make: Callable[..., Bench], cable: Cable, seed: int) -> None:
    rng = random.Random(seed)
    sizes = (64, cable.mtu, cable.mtu, rng.randint(64, cable.mtu), max(cable.mtu - 1, 64))

    def mixed(begin: int) -> Iterator[Arrival]:
        end = cable.frames * cable.time(cable.mtu)
        while begin < end:
            size = rng.choice(sizes)
            yield begin, size
            begin += cable.time(size)

    assert _lost(make, cable, cable.headroom(), mixed(0), mixed(rng.randrange(cable.time(cable.mtu)))) == 0
