# SPDX-License-Identifier: Apache-2.0
"""The traffic manager: rates, depths and shares of queues, and pipelines that take time."""

from __future__ import annotations

import numpy as np
import pytest
import script_program as script
from script_program import RankingProgram as Ranking
from script_program import ScriptProgram, frame

from detour.base.errors import DetourError
from detour.engine.buffers import Buffers
from detour.engine.traffic_manager import PipelineSpeed, QueueSettings

US = 1_000_000
ONE_US_A_FRAME = 64 * 8 * 1_000_000  # the rate at which 64 bytes take a microsecond
TIMEDELTA = 14


def offer(bench, priorities: list[int], count: int, *, size: int = 64, time_ps: int = 0) -> None:
    """So many frames for each of these priorities of port 2, by turns; their tag is the priority."""
    for _ in range(count):
        for priority in priorities:
            bench.net.inject((1, 2), frame(script.PRIORITY, 2, priority, tag=priority, size=size), time_ps=time_ps)


def served(bench) -> list[int]:
    """Priorities in the order in which their frames left port 2."""
    return [f[3] for f in bench.frames(2)]


def ready(make, priorities: int = 4, **cable):
    bench = make()
    bench.switch(priorities=priorities)
    bench.sink(1, 2, **({"rate_bps": ONE_US_A_FRAME, "queue_packets": 1000} | cable))
    return bench


def test_settings_are_read_back(make):
    bench = ready(make)
    assert bench.net.queue_settings((1, 2), 3) == QueueSettings(packets=1000)
    bench.net.set_queue((1, 2), packets=7, bytes_limit=900, rate_pps=3_000_001, priority=3)
    bench.net.set_queue((1, 2), rate_bps=123_456_789, quantum=1500, priority=1)
    assert bench.net.queue_settings((1, 2), 3) == QueueSettings(7, 900, 3_000_001)
    assert bench.net.queue_settings((1, 2), 1) == QueueSettings(1000, 0, 0, 123_456_789, 1500)
    assert bench.net.queue_settings((1, 2), 0) == QueueSettings(1000)
    assert bench.net.rate_bps((1, 2)) == ONE_US_A_FRAME
    assert 2 in bench.net.ports(1)
    bench.net.set_pipeline_speed(1, PipelineSpeed(5 * US, 1_000_003, 9))
    assert bench.net.pipeline_speed(1) == PipelineSpeed(5 * US, 1_000_003, 9)


def test_states_of_queues(make):
    bench = ready(make, queue_packets=2)
    offer(bench, [0, 3], 4)
    bench.net.run(0)
    low, high = (bench.net.queue_states((1, 2))[priority] for priority in (0, 3))
    # The first, of priority 0, is on the line.
    assert (low.packets, low.bytes, low.drops, low.drop_bytes) == (2, 128, 1, 64)
    assert (high.packets, high.peak_packets, high.peak_bytes, high.drops) == (2, 2, 128, 2)


def test_bits_per_second_let_long_frames_wait_longer(make):
    bench = ready(make, rate_bps=0)
    bench.net.set_queue((1, 2), rate_bps=ONE_US_A_FRAME, priority=1)
    for size in (64, 128, 64, 64):
        bench.net.inject((1, 2), frame(script.PRIORITY, 2, 1, size=size), time_ps=10 * US)
    bench.net.run(100 * US)
    assert [round(t / US, 2) for t in bench.times(2)] == [10, 11, 13, 14]


def test_both_rates_of_a_queue_hold(make):
    bench = ready(make, rate_bps=0)
    bench.net.set_queue((1, 2), rate_bps=ONE_US_A_FRAME, rate_pps=250_000, priority=1)
    offer(bench, [1], 3, time_ps=10 * US)
    offer(bench, [1], 1, size=640, time_ps=10 * US)
    offer(bench, [1], 1, time_ps=10 * US)
    bench.net.run(100 * US)
    assert [round(t / US, 2) for t in bench.times(2)] == [10, 14, 18, 22, 32]


def test_a_rate_is_taken_away_again(make):
    bench = ready(make, rate_bps=0)
    bench.net.set_queue((1, 2), rate_pps=1000)
    bench.net.set_queue((1, 2), rate_pps=0)
    offer(bench, [0], 3, time_ps=10 * US)
    bench.net.run(100 * US)
    assert max(bench.times(2)) < 11 * US


def test_quanta_share_the_line_by_bytes(make):
    bench = ready(make)
    for priority, quantum in ((1, 300), (2, 600)):
        bench.net.set_queue((1, 2), quantum=quantum, priority=priority)
    for _ in range(300):
        bench.net.inject((1, 2), frame(script.PRIORITY, 2, 1, tag=1, size=192), time_ps=0)
        bench.net.inject((1, 2), frame(script.PRIORITY, 2, 2, tag=2, size=64), time_ps=0)
    bench.net.run(256 * US)  # both have frames to the end
    sent = {priority: sum(len(f) for f in bench.frames(2) if f[3] == priority) for priority in (1, 2)}
    assert abs(sent[2] - 2 * sent[1]) <= 600 + 2 * 300 + 2 * 192  # Shreedhar and Varghese, theorem on fairness
    assert sum(sent.values()) >= 255 * 64


def test_frames_longer_than_a_quantum_wait_for_some_rounds(make):
    bench = ready(make)
    bench.net.set_queue((1, 2), quantum=64)
    offer(bench, [0], 2, size=640)
    offer(bench, [1], 20, size=64)
    bench.net.run(100 * US)
    # The first goes at once; the second needs ten quanta, and in each round one of the others goes.
    assert served(bench) == [0, *[1] * 10, 0, *[1] * 10]


def test_what_is_strict_goes_before_the_round(make):
    bench = ready(make)
    for priority in (0, 2):
        bench.net.set_queue((1, 2), quantum=64, priority=priority)
    offer(bench, [0, 1, 2, 3], 3)
    bench.net.run(100 * US)
    assert served(bench) == [0, 3, 3, 3, 1, 1, 1, *served(bench)[7:]]
    rest = served(bench)[7:]
    assert sorted(rest) == [0, 0, 2, 2, 2]
    assert rest == [2, 0, 2, 0, 2]


def test_an_empty_queue_saves_nothing_up(make):
    bench = ready(make)
    bench.net.set_queue((1, 2), quantum=6400, priority=1)
    bench.net.set_queue((1, 2), quantum=64, priority=0)
    offer(bench, [1], 1)
    bench.net.run(50 * US)
    offer(bench, [0], 3, time_ps=50 * US)
    offer(bench, [1], 101, time_ps=50 * US)
    bench.net.run(1000 * US)
    # One of priority 0 at once, then a whole quantum of 100 frames, not what a turn long ago had left.
    order = served(bench)[1:]
    assert order[0] == 0
    assert order[1:].count(1) == 101
    assert max(len(run) for run in "".join(map(str, order)).split("0")) <= 101


def ranked(
    make,
    ranks: list[tuple[int, int]],
    *,
    quanta: dict[int, int] | None = None,
    rate_pps: int = 0,
    by: type[ScriptProgram] = Ranking,
):
    """Frames (priority, rank), of which the first is on the line before the others come."""
    bench = make(program=by())
    bench.switch(priorities=4)
    bench.sink(1, 2, rate_bps=ONE_US_A_FRAME, queue_packets=1000)
    bench.net.set_queue((1, 2), rate_pps=rate_pps)
    for priority, quantum in (quanta or {}).items():
        bench.net.set_queue((1, 2), quantum=quantum, priority=priority)
    for priority, rank in ranks:
        bench.net.inject((1, 2), frame(script.PRIORITY, 2, priority, tag=priority, rank=rank), time_ps=0)
    bench.net.run(1000 * US)
    return bench


def order(bench) -> list[tuple[int, int]]:
    """The same in the order of service."""
    return [(f[3], int.from_bytes(f[4:8], "little")) for f in bench.frames(2)]


def test_a_queue_goes_by_rank_and_equal_ranks_by_arrival(make):
    ranks = [(0, int(rank)) for rank in np.random.default_rng(3).integers(1, 20, 60)]
    assert order(ranked(make, ranks)) == [ranks[0], *sorted(ranks[1:], key=lambda frame: frame[1])]


def test_a_round_goes_by_rank_behind_strict_queues(make):
    rng = np.random.default_rng(4)
    ranks = [(int(rng.integers(4)), int(rank)) for rank in rng.permutation(80)]
    behind = sorted(ranks[1:], key=lambda frame: (frame[0] != 3, frame[1]))
    assert order(ranked(make, ranks, quanta={0: 64, 1: 64, 2: 64})) == [ranks[0], *behind]


def test_equal_ranks_take_turns_as_if_there_were_none(make):
    equal, quanta = [(k % 2, 7) for k in range(40)], {0: 64, 1: 128}
    assert order(ranked(make, equal, quanta=quanta)) == order(ranked(make, equal, quanta=quanta, by=ScriptProgram))
    falling = [(0, 40 - k) for k in range(40)]
    assert order(ranked(make, falling, by=ScriptProgram)) == falling


def test_a_ranked_queue_keeps_its_rate(make):
    falling = [(0, 40 - k) for k in range(40)]
    bench = ranked(make, falling, rate_pps=500_000)
    assert order(bench) == falling[::-1]
    assert np.diff(bench.times(2)).tolist() == [2 * US] * 39


def test_a_paced_queue_of_a_round_leaves_the_line_to_others(make):
    bench = ready(make)
    for priority in (0, 1):
        bench.net.set_queue((1, 2), quantum=64, priority=priority)
    bench.net.set_queue((1, 2), rate_pps=100_000, priority=1)
    offer(bench, [0, 1], 20)
    bench.net.run(30 * US)
    # At 10, 20 and 30 us, as BMv2 counts from the beginning; the third one is on the line.
    assert served(bench).count(1) == 2
    assert served(bench).count(0) == 20
    bench.net.run(300 * US)
    assert served(bench).count(1) == 20
    assert bench.net.loop_stats()["used"] == 0


def test_a_queue_shares_packet_memory(make):
    bench = ready(make)
    bench.net.set_buffers(1, Buffers(total_bytes=10 * 64, alpha=1.0))
    bench.net.set_queue((1, 2), packets=1000)
    offer(bench, [0, 1], 20)
    bench.net.run(0)
    # Alpha 1: a queue has at most as much as is free, so two of them have a third of it each.
    assert [state.packets for state in bench.net.queue_states((1, 2))] == [3, 4, 0, 0]


def test_a_pipeline_takes_time_and_ticks_tell(make):
    bench = ready(make)
    bench.net.set_pipeline_speed(1, PipelineSpeed(latency_ps=7 * US))
    offer(bench, [0], 2)
    bench.net.run(100 * US)
    assert bench.times(2) == [8 * US, 9 * US]  # the latency, then a frame's own time


def test_a_pipeline_takes_so_many_packets_a_second(make):
    bench = ready(make)
    bench.net.set_pipeline_speed(1, PipelineSpeed(latency_ps=US, packets_per_s=100_000, waiting=4))
    offer(bench, [0], 10)
    bench.net.run(500 * US)
    assert bench.times(2) == [2 * US + number * 10 * US for number in range(5)]
    assert bench.counter("input_drops") == 5
    bench.net.set_pipeline_speed(1, PipelineSpeed())
    offer(bench, [0], 2, time_ps=500 * US)
    bench.net.run(600 * US)
    assert bench.times(2)[5:] == [501 * US, 502 * US]
    assert bench.net.loop_stats()["used"] == 0


@pytest.mark.parametrize("operation", [script.RESUBMIT, script.RECIRCULATE])
def test_what_goes_round_goes_through_the_pipeline_again(make, operation):
    bench = ready(make)
    bench.net.set_pipeline_speed(1, PipelineSpeed(latency_ps=7 * US))
    bench.net.inject((1, 2), frame(operation, 2), time_ps=0)
    bench.net.run(100 * US)
    assert bench.times(2) == [15 * US]


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        (lambda net: net.set_queue((1, 2), quantum=63), "at least 64"),
        (lambda net: net.set_queue((1, 2), rate_bps=-1), "negative"),
        (lambda net: net.set_queue((1, 2), rate_pps=10**13), "at most"),
        (lambda net: net.set_queue((1, 9), packets=1), "port 9"),
        (lambda net: net.queue_settings((1, 2), 4), "priorities 0 to 3"),
        (lambda net: net.set_pipeline_speed(1, PipelineSpeed(latency_ps=-1)), "is out of range"),
        (lambda net: net.set_pipeline_speed(7, PipelineSpeed()), "no switch"),
    ],
)
def test_what_is_refused(make, wrong, what):
    bench = ready(make)
    with pytest.raises(DetourError, match=what):
        wrong(bench.net)


def test_lossless_classes_and_a_slow_pipeline_exclude_each_other(make):
    bench = ready(make)
    other = make()
    other.switch(2, priorities=4)
    other.net.set_pipeline_speed(2, PipelineSpeed(latency_ps=1))
    lossless = Buffers(total_bytes=1 << 20, lossless=1, headroom_bytes=1000)
    with pytest.raises(DetourError, match="lossless"):
        other.net.set_buffers(2, lossless)
    bench.net.set_buffers(1, lossless)
    with pytest.raises(DetourError, match="lossless"):
        bench.net.set_pipeline_speed(1, PipelineSpeed(latency_ps=1))


# -- an output queue against queueing theory -----------------------------------------------------------------


SERVICE_PS = 1_000_000
RATE_BPS = 64 * 8 * 1_000_000  # the rate at which 64 bytes take a microsecond
BATCH = 500


def departures(make, arrivals: np.ndarray) -> np.ndarray:
    """When packets that come at these times (ps) have left a link on which each takes `SERVICE_PS`."""
    bench = make().single(2, rate_bps=RATE_BPS, queue_packets=10_000)
    for first in range(0, len(arrivals), BATCH):
        batch = arrivals[first : first + BATCH]
        for time_ps in batch.tolist():
            bench.net.inject((1, 2), frame(script.UNICAST, 2), time_ps=time_ps)
        bench.net.run(int(batch[-1]))
    bench.net.run(int(arrivals[-1]) + len(arrivals) * SERVICE_PS)
    return np.array(bench.times(2))


@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
def test_an_output_queue_is_m_d_1(make, load: float) -> None:
    """Mean waiting time: rho / (2 (1 - rho)) services (Pollaczek and Khinchine)."""
    rng = np.random.default_rng(7)
    arrivals = np.cumsum(rng.exponential(SERVICE_PS / load, 30_000)).astype(np.int64)
    left = departures(make, arrivals)
    free, expected = 0, []
    for arrival in arrivals.tolist():  # Lindley's recursion
        free = max(free, arrival) + SERVICE_PS
        expected.append(free)
    assert left.tolist() == expected
    waited = (left - arrivals - SERVICE_PS).mean() / SERVICE_PS
    assert waited == pytest.approx(load / (2 * (1 - load)), rel=0.05)
