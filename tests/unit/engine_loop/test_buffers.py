# SPDX-License-Identifier: Apache-2.0
"""Shared packet memory, PFC with accounts and headroom, mirrored loads, deadlocks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import script_program as script
from script_program import frame
from scripted_networks import Bench

from detour.base.errors import DetourError
from detour.engine.buffers import Buffers, headroom

NS = 1000
US = 1_000_000
FAST, SLOW = 100_000_000_000, 10_000_000_000
SIZE = 1000
WIRE_PS = SIZE * 8 * 10
"""time of a frame at the fast rate"""

Make = Callable[..., Bench]


def _chain(make: Make, buffers: Buffers | None, delay_ps: int = US) -> Bench:
    """Frames for port 1 enter switch 1 at port 2, cross a fast cable to switch 2 and leave it by a slow port."""
    bench = make(packets=4096)
    for device_id in (1, 2, 3):
        bench.switch(device_id, priorities=2)
    bench.net.connect((1, 1), (2, 2), FAST, delay_ps, queue_packets=2000)
    bench.net.connect((2, 1), (3, 2), SLOW, US, queue_packets=2000)
    bench.sink(3, 1, queue_packets=2000)
    bench.sink(1, 2)
    if buffers is not None:
        bench.net.set_buffers(2, buffers)
    return bench


def _send(bench: Bench, count: int, *, operation: int = script.UNICAST, argument: int = 0) -> None:
    for n in range(count):
        bench.net.inject((1, 2), frame(operation, 1, argument, n & 0xFF, SIZE), n * WIRE_PS)


def test_headroom_rule():
    assert headroom(FAST, US, 1000) == 25_000 + 3000 + 64
    assert headroom(FAST, 3, 1) == 1 + 3 + 64  # rounded up
    assert headroom(FAST, US, 1518) >= 28_842, "19 packets, one of which was lost with 28,036 bytes"
    assert headroom(FAST, US, 1000, 20) == -(-(25_000 + 2 * 1020 + 84) * 1000 // 1020) + 1000


def _lossless(shared_bytes: int = 40_000) -> Buffers:
    """Class 0 loses nothing: its headroom is as stated, for two ports."""
    room = headroom(FAST, US, SIZE)
    return Buffers(total_bytes=2 * (room + 4096) + shared_bytes, lossless=0b1, headroom_bytes=room)


def test_pfc_loses_nothing_at_the_stated_headroom(make):
    bench = _chain(make, _lossless())
    bench.net.set_buffers(1, _lossless(2_000_000))
    _send(bench, 1000)
    bench.net.run(2000 * US)
    stats, upstream = bench.net.buffer_stats(2), bench.net.buffer_stats(1)
    assert len(bench.frames(1, 3)) == 1000
    assert stats["headroom_drops"] == 0 == bench.counter("queue_drops", 2)
    assert stats["pauses_sent"] >= 2
    assert stats["buffer_peak"] <= stats["buffer_bytes"]
    assert stats["buffer_used"] == 0
    # Frames come in for 80 us and go out in 800 us: a tenth of the time the cable between is used.
    assert upstream["pauses_received"] == stats["pauses_sent"]
    assert 0.8 < upstream["paused_ps"] / (800 * US) < 0.95


def test_too_little_headroom_loses(make):
    bench = _chain(make, Buffers(total_bytes=50_000, lossless=0b1, headroom_bytes=3000), delay_ps=2 * US)
    _send(bench, 1000)
    bench.net.run(2000 * US)
    lost = bench.net.buffer_stats(2)["headroom_drops"]
    assert lost > 0
    assert len(bench.frames(1, 3)) == 1000 - lost


def test_a_paused_class_lets_the_others_pass(make):
    bench = _chain(make, _lossless())
    _send(bench, 500)
    bench.net.inject((1, 2), frame(script.PRIORITY, 1, 1, 7, SIZE), 30 * US)
    bench.net.run(2000 * US)
    arrived = [data[0] for data in bench.frames(1, 3)]
    assert len(arrived) == 501
    # It left switch 1 while class 0 was paused, and overtook what waited in switch 2 too.
    assert arrived.index(script.PRIORITY) < 100


def test_shared_memory_with_dynamic_threshold(make):
    bench = _chain(make, Buffers(total_bytes=100_000, alpha=1.0))
    _send(bench, 1000)
    bench.net.run(2000 * US)
    stats = bench.net.buffer_stats(2)
    # One queue with alpha 1 takes half of the memory: q <= total - q.
    assert 49_000 <= stats["buffer_peak"] <= 50_000
    assert stats["buffer_drops"] == bench.counter("queue_drops", 2) > 0
    assert len(bench.frames(1, 3)) == 1000 - stats["buffer_drops"]


def test_mirrored_load(make):
    bench = _chain(make, None)
    cell = np.zeros(2, np.uint32)
    bench.net.mirror_load((2, 1), cell.ctypes.data + 4)
    _send(bench, 100)
    seen = []
    for step in range(1, 60):
        bench.net.run(step * 2 * US)
        assert cell[1] == bench.port(1, 2)["queue_packets"]
        seen.append(int(cell[1]))
    assert max(seen) > 80
    assert seen[-1] == 0 == cell[0]


def _ring(make: Make, buffers: Buffers | None) -> Bench:
    """Three switches in a ring; a frame for port 1 goes round for ever."""
    bench = make(packets=4096)
    for device_id in (1, 2, 3):
        bench.switch(device_id)
    for device_id in (1, 2, 3):
        bench.net.connect((device_id, 1), (device_id % 3 + 1, 2), FAST, US, queue_packets=100)
        bench.sink(device_id, 3)
    if buffers is not None:
        for device_id in (1, 2, 3):
            bench.net.set_buffers(device_id, buffers)
    for n in range(600):
        bench.net.inject((n % 3 + 1, 3), frame(script.UNICAST, 1, 0, n & 0xFF, SIZE), n * WIRE_PS // 6)
    return bench


def test_a_deadlock_is_found_and_ends_when_the_cable_is_pulled(make):
    bench = _ring(make, _lossless(100_000))
    bench.net.run(US // 2)
    assert bench.net.deadlock() == []
    bench.net.run(200 * US)
    assert bench.net.deadlock() == [(1, 1, 0), (2, 1, 0), (3, 1, 0)]
    accounts = bench.net._memory.table("queues")
    accounts["in_bytes"][accounts["in_paused"] != 0] += 1  # as if packets were out of the network for a while
    assert bench.net.deadlock() == []
    accounts["in_bytes"][accounts["in_paused"] != 0] -= 1
    sent = bench.port(1, 1)["tx_packets"]
    bench.net.run(400 * US)
    assert bench.port(1, 1)["tx_packets"] == sent
    bench.net.set_link((1, 1), False)
    bench.net.run(2000 * US)
    assert bench.net.deadlock() == []
    assert bench.net.loop_stats()["used"] == 0


def test_no_deadlock_without_pfc(make):
    bench = _ring(make, Buffers(total_bytes=150_000))
    bench.net.run(200 * US)
    assert bench.net.deadlock() == []
    sent = bench.port(1, 1)["tx_packets"]
    bench.net.run(220 * US)
    assert bench.port(1, 1)["tx_packets"] > sent


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"total_bytes": 0}, "cannot work with 0 bytes"),
        ({"total_bytes": 1000, "lossless": 1}, "PFC needs headroom"),
        ({"total_bytes": 1000, "lossless": 256}, "classes 0 to 7"),
        ({"total_bytes": 1000, "alpha": 0.0}, "alpha is 0.0"),
        ({"total_bytes": 1000, "reserve_bytes": -1}, "cannot be negative"),
    ],
)
def test_impossible_buffers(options, message):
    with pytest.raises(DetourError, match=message):
        Buffers(**options)


def test_accounts_must_fit(make):
    bench = make()
    bench.switch(1)
    bench.switch(2)
    bench.net.connect((1, 1), (2, 1))
    with pytest.raises(DetourError, match=r"1 accounts .* do not fit into 30000 bytes"):
        bench.net.set_buffers(1, Buffers(total_bytes=30_000, lossless=1, headroom_bytes=27_000))
