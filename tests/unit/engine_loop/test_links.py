# SPDX-License-Identifier: Apache-2.0
"""Times, queues, losses: what links and output ports do."""

from __future__ import annotations

import numpy as np
import pytest
import script_program as script
from script_program import frame

from detour.base.errors import DetourError

US = 1_000_000
MBIT = 1_000_000
ONE_US_A_FRAME = 64 * 8 * MBIT  # the rate at which 64 bytes take a microsecond
ENQ_QDEPTH, DEQ_QDEPTH, TIMEDELTA = 11, 12, 14


def test_store_and_forward_times(make):
    bench = make()
    for device_id in (1, 2, 3):
        bench.switch(device_id)
    bench.net.connect((1, 2), (2, 1), ONE_US_A_FRAME, 5 * US)
    bench.net.connect((2, 2), (3, 1), 2 * ONE_US_A_FRAME, 7 * US)
    bench.sink(3, 2)
    bench.net.inject((1, 2), frame(script.UNICAST, 2), time_ps=0)
    bench.net.inject((1, 2), frame(script.UNICAST, 2, size=128), time_ps=0)
    bench.net.run(100 * US)
    first = 1 * US + 5 * US + US // 2 + 7 * US
    # The second takes 2 us, after the first; and then 1 us.
    second = 3 * US + 5 * US + 1 * US + 7 * US
    assert bench.times(2, 3) == [first, second]


def test_queue_metadata(make):
    bench = make(tick_ps=1000).single(2, rate_bps=ONE_US_A_FRAME)
    for _ in range(4):
        bench.net.inject((1, 2), frame(script.UNICAST, 2), time_ps=0)
    bench.net.run(100 * US)
    seen = [(f[ENQ_QDEPTH], f[DEQ_QDEPTH], f[TIMEDELTA] | f[TIMEDELTA + 1] << 8) for f in bench.frames(2)]
    # The first leaves at once; the others find 0, 1, 2 packets waiting. Ticks are ns.
    assert seen == [(0, 0, 0), (0, 2, 1000), (1, 1, 2000), (2, 0, 3000)]
    assert bench.times(2) == [US, 2 * US, 3 * US, 4 * US]


def test_ticks_are_differences_of_whole_ticks(make):
    bench = make(tick_ps=1000).single(2, rate_bps=ONE_US_A_FRAME)
    bench.net.inject((1, 2), frame(script.UNICAST, 2), time_ps=700)
    bench.net.inject((1, 2), frame(script.UNICAST, 2), time_ps=900)
    bench.net.run(100 * US)
    # Leaves at 1 000 700: tick 1000, came in tick 0.
    assert bench.frames(2)[1][TIMEDELTA] | bench.frames(2)[1][TIMEDELTA + 1] << 8 == 1000


def test_tail_drop_in_packets_and_bytes(make):
    bench = make().single(2, 3, rate_bps=ONE_US_A_FRAME, queue_packets=3)
    bench.net.set_queue((1, 3), packets=100, bytes_limit=130)
    for port in (2, 3):
        for tag in range(10):
            bench.net.inject((1, 2), frame(script.UNICAST, port, tag=tag), time_ps=0)
    bench.net.run(100 * US)
    assert [f[3] for f in bench.frames(2)] == [0, 1, 2, 3]
    assert [f[3] for f in bench.frames(3)] == [0, 1, 2]
    assert bench.port(2)["queue_drops"] == 6
    assert bench.port(3)["queue_drops"] == 7
    assert bench.port(2)["queue_peak_packets"] == 3
    assert bench.port(3)["queue_peak_bytes"] == 128
    assert bench.counter("queue_drops") == 13
    assert bench.port(2)["busy_ps"] == 4 * US
    assert bench.net.loop_stats()["used"] == 0


def test_strict_priority_highest_number_first(make):
    bench = make().single(2, rate_bps=ONE_US_A_FRAME, priorities=3)
    for tag, priority in enumerate((0, 0, 1, 2, 1, 2)):
        bench.net.inject((1, 2), frame(script.PRIORITY, 2, priority, tag=tag), time_ps=0)
    bench.net.run(100 * US)
    assert [f[3] for f in bench.frames(2)] == [0, 3, 5, 2, 4, 1]


def test_packets_per_second(make):
    bench = make().single(2, priorities=2)
    bench.net.set_queue((1, 2), rate_pps=1000, priority=1)
    for tag, priority in enumerate((1, 1, 1, 0)):
        bench.net.inject((1, 2), frame(script.PRIORITY, 2, priority, tag=tag), time_ps=5000 * US)
    bench.net.run(10_000 * US)
    # The limited queue leaves the line to the lower one meanwhile.
    assert [f[3] for f in bench.frames(2)] == [0, 3, 1, 2]
    assert [round(t / US) for t in bench.times(2)] == [5000, 5000, 6000, 7000]


def test_down_link_loses_what_is_in_flight_and_what_is_sent(make):
    bench = make()
    state = bench.switch(1)
    far = bench.switch(2)
    bench.net.connect((1, 2), (2, 1), 0, 10 * US)
    bench.sink(2, 2)
    bench.net.inject((1, 2), frame(script.UNICAST, 2, tag=1), time_ps=0)
    bench.net.run(5 * US)
    bench.net.set_link((2, 1), False)
    bench.net.inject((1, 2), frame(script.UNICAST, 2, tag=2))
    bench.net.run(50 * US)
    assert bench.frames(2, 2) == []
    assert bench.port(2)["link_drops"] == 2
    assert bench.port(2)["up"] == 0
    bench.net.set_link((1, 2), True)
    bench.net.inject((1, 2), frame(script.UNICAST, 2, tag=3))
    bench.net.run(100 * US)
    assert [f[3] for f in bench.frames(2, 2)] == [3]
    assert state.port_states[-2:] == [(2, False), (2, True)]
    assert far.port_states[-2:] == [(1, False), (1, True)]
    assert bench.net.loop_stats()["used"] == 0


def _lossy(make, seed: int, **faults: float) -> tuple[list[tuple[int, bytes]], dict[str, int]]:
    bench = make(seed=seed).single(2, rate_bps=100 * ONE_US_A_FRAME, queue_packets=2000)
    bench.net.set_faults((1, 2), **faults)
    for tag in range(1000):
        bench.net.inject((1, 2), frame(script.UNICAST, 2, tag=tag & 0xFF), time_ps=0)
    bench.net.run(1000 * US)
    assert bench.net.loop_stats()["used"] == 0
    return bench.out[1, 2], bench.port(2)


def test_loss_duplication_corruption(make):
    out, port = _lossy(make, 1, loss=0.3)
    assert port["link_drops"] == 1000 - len(out)
    assert 230 < port["link_drops"] < 370
    out, port = _lossy(make, 1, duplicate=0.3)
    assert 230 < port["duplicated"] < 370
    assert len(out) == 1000 + port["duplicated"]
    clean, _ = _lossy(make, 1)
    out, port = _lossy(make, 1, corrupt=0.3)
    assert 230 < port["corrupted"] < 370
    damage = [
        np.unpackbits(np.frombuffer(a, np.uint8) ^ np.frombuffer(b, np.uint8)).sum()
        for (_, a), (_, b) in zip(out, clean, strict=True)
    ]
    assert sum(damage) == port["corrupted"]
    assert max(damage) == 1


def test_late_frames_are_overtaken_and_none_is_lost(make):
    out, port = _lossy(make, 1, late=0.2, late_ps=5 * US)
    clean, _ = _lossy(make, 1)
    assert len(out) == 1000
    assert port["link_drops"] == 0
    assert sorted(data for _, data in out) == sorted(data for _, data in clean)
    assert [time for time, _ in out] == sorted(time for time, _ in out)
    on_time = {time for time, _ in clean}
    late = [time for time, _ in out if time not in on_time]
    assert 130 < len(late) < 270
    assert max(out)[0] <= max(clean)[0] + 5 * US
    assert [data for _, data in out] != [data for _, data in clean]


def test_without_late_frames_order_comes_back(make):
    bench = make(seed=3).single(2, rate_bps=ONE_US_A_FRAME)
    bench.net.set_faults((1, 2), late=1.0, late_ps=20 * US)
    for tag in range(10):
        bench.net.inject((1, 2), frame(script.UNICAST, 2, tag=tag), time_ps=0)
    bench.net.run(10 * US)
    bench.net.set_faults((1, 2))
    for tag in range(10, 20):
        bench.net.inject((1, 2), frame(script.UNICAST, 2, tag=tag))
    bench.net.run(60 * US)
    assert bench.times(2) == sorted(bench.times(2))
    tags = [f[3] for f in bench.frames(2)]
    assert sorted(tags) == list(range(20))
    assert [tag for tag in tags if tag >= 10] == list(range(10, 20))


def test_faults_follow_the_seed(make):
    faults = {"loss": 0.1, "duplicate": 0.1, "corrupt": 0.1, "late": 0.1, "late_ps": US}
    first, _ = _lossy(make, 5, **faults)
    again, _ = _lossy(make, 5, **faults)
    other, _ = _lossy(make, 6, **faults)
    assert first == again
    assert first != other


def test_all_or_nothing(make):
    out, port = _lossy(make, 1, loss=1.0)
    assert out == []
    assert port["link_drops"] == 1000


def test_rate_may_change(make):
    bench = make().single(2, rate_bps=ONE_US_A_FRAME)
    bench.net.inject((1, 2), frame(script.UNICAST, 2), time_ps=0)
    bench.net.run(10 * US)
    bench.net.set_rate((1, 2), ONE_US_A_FRAME // 3)
    bench.net.inject((1, 2), frame(script.UNICAST, 2))
    bench.net.run(20 * US)
    assert bench.times(2) == [US, 13 * US]


def test_injection_out_of_order_of_time(make):
    bench = make().single(2)
    for time in (30, 10, 20, 10, 40, 5):
        bench.net.inject((1, 2), frame(script.UNICAST, 2, tag=time), time_ps=time * US)
    bench.net.run(35 * US)
    assert [f[3] for f in bench.frames(2)] == [5, 10, 10, 20, 30]
    bench.net.run(40 * US)
    assert bench.times(2)[-1] == 40 * US


def test_an_empty_pool_is_an_error_for_who_injects(make):
    bench = make(packets=3).single(2)
    for _ in range(3):
        bench.net.inject((1, 2), frame(script.UNICAST, 2))
    with pytest.raises(DetourError, match="pool is empty"):
        bench.net.inject((1, 2), frame(script.UNICAST, 2))
    bench.net.run(US)
    bench.net.inject((1, 2), frame(script.UNICAST, 2))


def test_wrong_limits(one):
    for wrong in (
        lambda: one.net.set_faults((1, 1), loss=1.5),
        lambda: one.net.set_faults((1, 1), late=0.5),
        lambda: one.net.set_queue((1, 1), packets=-1),
        lambda: one.net.set_queue((1, 1), packets=5, priority=1),
        lambda: one.net.set_rate((1, 1), -1),
        lambda: one.net.connect((1, 7), (1, 7)),
        lambda: one.net.connect((1, 7), (1, 8), delay_ps=-1),
        lambda: one.net.run(-1),
    ):
        with pytest.raises(DetourError):
            wrong()


def test_a_loop_of_free_links_does_not_stop_time(make):
    bench = make()
    bench.switch(1)
    bench.switch(2)
    bench.net.connect((1, 2), (2, 2))
    bench.net.inject((1, 2), frame(script.UNICAST, 2))
    assert bench.net.run(US) == US
    assert bench.counter("packets", 1) == 501  # a hop a nanosecond, turn and turn about
