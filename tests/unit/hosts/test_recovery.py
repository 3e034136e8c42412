# SPDX-License-Identifier: Apache-2.0
"""How LERP finds losses: by order on a path, by probe, by timeout; and what a change of path means."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from typing import Any

import pytest

from detour.base.errors import DetourError
from detour.hosts.config import LITERAL_LOSS, HostConfig
from detour.hosts.decode import decode
from detour.hosts.parameters import host_config, real_time
from detour.hosts.transport import TRANSPORT_REGISTRY
from detour.hosts.verbs import Path, QPInitAttr, QPState, SendWR, WCStatus
from tests.property.lossy import US, Network, Weather, check_cost, complete, ended, losing, make_pair, transfer

FIXED_WINDOW = QPInitAttr(psn=0, congestion_control="fixed", initial_cwnd=40)
SLOW, FAST = Path(0x0001), Path(0x0002)


LOSSES: dict[str, tuple[int, list[tuple[int, int]], dict[str, int], tuple[int, int]]] = {
    "nothing": (200, [], {"packets": 200, "retransmitted": 0, "lost": 0, "tail_probes": 0}, (0, 1000)),
    "a gap: one more round trip of 10 us, no timer":
        (30, [(7, 0), (9, 0), (10, 0)], {"retransmitted": 3, "lost": 3, "spurious": 0, "tail_probes": 0}, (0, 25)),
    "a repeat: found by order too":
        (200, [(7, 0), (7, 1), (7, 2), (7, 3)], {"retransmitted": 4, "spurious": 0, "tail_probes": 0}, (0, 1000)),
    "a tail: the probe repeats the last packet, its ACK shows the other loss":
        (100, [(98, 0), (99, 0)], {"tail_probes": 1, "retransmitted": 2, "spurious": 0}, (0, 80)),
    "a probe: another one comes twice as late":
        (100, [(99, 0), (99, 1), (99, 2)], {"tail_probes": 3}, (7 * 20, 200)),
    "so much that a timeout passes: the tail is probed anew":
        (100, [(98, 0), (98, 1), *((99, k) for k in range(6))], {"tail_probes": 5, "rtos": 1}, (0, 200 + 4 * 20)),
}  # fmt: skip
"""packets, which transmissions are lost, what is counted, and how long it takes, us (a tail-loss probe waits for 20 us
at least, a timeout for 200)"""


@pytest.mark.parametrize("what", LOSSES)
def test_what_a_loss_costs(what: str) -> None:
    packets, lost, expected, took = LOSSES[what]
    check_cost(packets, {"data": lost}, expected, took, attr_a=FIXED_WINDOW)


def test_hosts_of_papers_probe_once() -> None:
    pair = make_pair(attr_a=FIXED_WINDOW, config=host_config(**LITERAL_LOSS))
    net = Network(pair.hs, Weather(), filter=losing([(99, 0), (99, 1)]))
    stats = transfer(pair, net, 100)
    assert (stats["tail_probes"], stats["rtos"]) == (1, 1), net.schedule()
    assert net.now > HostConfig().min_rto_ps


def test_lost_acks_are_made_up_for_by_later_ones() -> None:
    pair = make_pair(attr_a=FIXED_WINDOW)
    count = 0

    def every_other_ack(host: int, frame: bytes) -> bytes | None:
        nonlocal count
        count += host
        return None if host == 1 and count % 2 else frame

    net = Network(pair.hs, Weather(), filter=every_other_ack)
    stats = transfer(pair, net, 200)
    assert (stats["retransmitted"], stats["rtos"]) == (0, 0), net.schedule()


def test_lost_acks_behind_a_gap_are_made_up_for_by_the_bitmap() -> None:
    pair = make_pair(attr_a=FIXED_WINDOW)
    lose_gap = losing([(5, 0)])

    def gap_and_acks(host: int, frame: bytes) -> bytes | None:
        f = decode(frame)
        if f["kind"] == "ack" and f["trigger"] in (3, 6, 7, 8, 9, 10, 14):
            return None
        return lose_gap(host, frame)

    net = Network(pair.hs, Weather(), filter=gap_and_acks)
    stats = transfer(pair, net, 30)
    assert (stats["retransmitted"], stats["spurious"], stats["rtos"]) == (1, 0, 0), net.schedule()


def moved(
    packets: int,
    moment: int,
    slow: int = 60 * US,
    old: Path = SLOW,
    new: Path = FAST,
    rate: int = 10**11,
    lost: Any = (),
) -> dict[str, Any]:
    """Statistics of a sender that changes its path at a moment, ps."""
    pair = make_pair(attr_a=FIXED_WINDOW, connect={"path": old}, window=1024)
    weather = Weather(delay_of=lambda sport: slow if sport == SLOW.sport else 2 * US, rate_bps=rate)
    net = Network(pair.hs, weather, filter=losing(lost))
    pair.write(packets * 1000)
    net.run(lambda: net.now > moment)
    pair.qp_a.set_path(new, now_ps=net.now)
    return complete(pair, net, packets)


@pytest.mark.parametrize(("old", "new"), [(SLOW, FAST), (FAST, SLOW)])
@pytest.mark.parametrize("slow", [60, 350])
@pytest.mark.parametrize("moment", [3, 20, 800])
def test_a_change_of_path_loses_and_repeats_nothing(old: Path, new: Path, slow: int, moment: int) -> None:
    """Even if the slow path's round trip is beyond the shortest timeout of the fast one."""
    stats = moved(200, moment * US, slow * US, old, new, 10**9)
    assert (stats["retransmitted"], stats["spurious"], stats["lost"], stats["reroutes"]) == (0, 0, 0, 1)


def test_losses_on_the_old_path_are_found_on_the_old_path() -> None:
    """Order among the packets of the old path shows the first gap at once; the last of them needs a timeout."""
    stats = moved(250, 4 * US, lost=[(3, 0), (39, 0)])
    assert (stats["retransmitted"], stats["spurious"], stats["rtos"]) == (2, 0, 0)


def test_a_repeat_on_the_new_path_does_not_condemn_the_old_packets() -> None:
    """PSN 3 is lost on the slow path, repeated on the fast one and overtakes what is still under way there."""
    stats = moved(60, 62 * US + 500_000, lost=[(3, 0)])
    assert (stats["retransmitted"], stats["spurious"]) == (1, 0)


@pytest.mark.parametrize("transport", TRANSPORT_REGISTRY.built_in)
def test_a_dead_connection_fails_and_flushes(transport: str) -> None:
    config = HostConfig(retry_ps=14_000 * US)
    attr = replace(FIXED_WINDOW, transport=transport)
    pair = make_pair(attr_a=attr, attr_b=attr, config=config)
    net = Network(pair.hs, Weather(dead=lambda sport, now: now > 5 * US))
    for number in range(3):
        pair.write(100_000, number)
    done: list[tuple[int, WCStatus]] = []
    assert net.run(lambda: done.extend((wc.wr_id, wc.status) for wc in pair.cq_a.poll()) or len(done) == 3)
    assert done == [(0, WCStatus.RETRY_EXC_ERR), (1, WCStatus.WR_FLUSH_ERR), (2, WCStatus.WR_FLUSH_ERR)]
    assert pair.qp_a.state is QPState.ERR
    assert pair.qp_a.stats()["rtos"] == 4
    # backoff: 1 + 2 + 4 + 8 initial timeouts, as there never was a sample of the round trip
    assert net.now == pytest.approx(15 * config.initial_rto_ps, rel=0.05)
    assert net.run(lambda: False) is False, "and then it is silent"


@pytest.mark.parametrize("transport", ["lerp", "gbn"])
def test_timeouts_double_up_to_eight_initial_ones(transport: str) -> None:
    """From the one that the round trip says (RFC 6298), for as long as the connection tries."""
    config, attr = HostConfig(), QPInitAttr(transport=transport)
    pair = make_pair(attr_a=attr, attr_b=attr, config=config)
    net = Network(pair.hs, Weather())
    transfer(pair, net, 50)
    net.weather.dead = lambda sport, now: True
    pair.write(50_000, 2)
    q, times = pair.hs.qp[pair.qp_a.index], [net.now]

    def over() -> bool:
        if q["st_rtos"] > len(times) - 1:
            times.append(net.now)
        return bool(pair.cq_a.poll())

    assert net.run(over)
    waits = [round((b - a) / config.min_rto_ps) for a, b in itertools.pairwise(times)]
    assert waits[:6] == [1, 2, 4, 8, 16, 32]
    assert set(waits[6:]) == {8 * config.initial_rto_ps // config.min_rto_ps}
    assert len(waits) == 67, "what docs/transports.md says of half a second"
    assert pair.qp_a.state is QPState.ERR


@pytest.mark.parametrize("transport", ["lerp", "gbn"])
@pytest.mark.parametrize("seed", [0, 1, 3, 4])
def test_a_path_that_loses_nine_of_ten_acks(transport: str, seed: int) -> None:
    """Nothing that was sent is lost, and timeouts that find that out do not cost the window (RFC 5682)."""
    attr, draw = QPInitAttr(transport=transport), random.Random(seed)
    pair = make_pair(memory=1 << 21, attr_a=attr, attr_b=attr, seed=seed)
    net = Network(pair.hs, Weather(), seed, filter=lambda host, f: f if host == 0 or draw.random() > 0.9 else None)
    stats = transfer(pair, net, 2000)
    assert stats["rtos"] > 0
    assert stats["cwnd"] > 100
    assert net.now < 500_000 * US, stats


def test_a_timeout_in_a_row_does_not_lower_the_threshold_again() -> None:
    """RFC 5681, 3.1: half of what was in flight before the first one; what is sent again is not that."""
    pair = make_pair(config=HostConfig(retry_ps=60_000_000 * US))
    dead = [(30 * US, 4_000 * US)]
    net = Network(pair.hs, Weather(dead=lambda sport, now: dead[0][0] < now < dead[0][1]))
    q = pair.hs.qp[pair.qp_a.index]
    pair.write(250_000)
    net.run(lambda: net.now >= 30 * US)
    window = float(q["cwnd"])
    net.run(lambda: net.now >= dead[0][1])
    assert q["st_rtos"] >= 4
    assert q["ssthresh"] >= window / 2 > 4
    assert net.run(lambda: bool(pair.cq_a.poll())), net.schedule()


@pytest.mark.parametrize("transport", ["lerp", "gbn"])
def test_in_real_time_an_outage_of_a_minute_is_survived(transport: str) -> None:
    """The controller shares a busy machine with the hosts and may take as long to mend paths (RFC 1122, 4.2.3.5)."""
    minute, attr = 60_000_000 * US, QPInitAttr(transport=transport)
    pair = make_pair(attr_a=attr, attr_b=attr, config=real_time())
    net = Network(pair.hs, Weather(rate_bps=20_000_000, dead=lambda sport, now: 10_000 * US < now < minute))
    pair.write(100_000)
    assert ended(pair, net, limit_ps=10 * minute) == [WCStatus.SUCCESS]
    assert minute < net.now < minute + 2 * real_time().max_rto_ps
    # But not for ever.
    net.weather.dead = lambda sport, now: True
    pair.write(100_000, 2)
    begun = net.now
    assert net.run(lambda: bool(pair.cq_a.poll()), limit_ps=10 * minute)
    assert minute < net.now - begun < 2 * minute


@pytest.mark.parametrize("transport", ["lerp", "gbn"])
@pytest.mark.parametrize("outage_ms", [50, 200])
def test_an_outage_of_a_fixed_path_is_survived(transport: str, outage_ms: int) -> None:
    attr, end = QPInitAttr(transport=transport), outage_ms * 1000 * US
    pair = make_pair(attr_a=attr, attr_b=attr)
    net = Network(pair.hs, Weather(dead=lambda sport, now: 30 * US < now < end))
    stats = transfer(pair, net, 200)
    assert stats["rtos"] > 5
    assert end < net.now < 2 * end + HostConfig().max_rto_ps


@pytest.mark.parametrize(
    ("timeout", "retry_cnt", "least_us", "most_us"),
    [(8, 0, 1_049, 5_000), (8, 7, 8_389, 20_000), (None, 0, 67_109, 200_000), (None, None, 500_000, 700_000)],
)
def test_how_long_a_connection_tries(timeout: int | None, retry_cnt: int | None, least_us: int, most_us: int) -> None:
    pair = make_pair(attr_a=QPInitAttr(timeout=timeout, retry_cnt=retry_cnt))
    net = Network(pair.hs, Weather(dead=lambda sport, now: True))
    pair.write(10_000)
    assert ended(pair, net) == [WCStatus.RETRY_EXC_ERR]
    assert least_us * US <= net.now <= most_us * US


def test_with_timeout_zero_a_connection_tries_for_ever() -> None:
    pair = make_pair(attr_a=QPInitAttr(timeout=0))
    net = Network(pair.hs, Weather(dead=lambda sport, now: True))
    pair.write(10_000)
    assert not net.run(lambda: bool(pair.cq_a.poll()), limit_ps=30_000_000 * US)


@pytest.mark.parametrize("wrong", [{"timeout": 32}, {"timeout": -1}, {"retry_cnt": 8}])
def test_budgets_that_verbs_do_not_have(wrong: dict[str, Any]) -> None:
    with pytest.raises(DetourError, match="must be 0 to 31 and retry_cnt"):
        make_pair(attr_a=QPInitAttr(**wrong))


def test_psn_wraps_in_the_middle_of_a_message_with_losses() -> None:
    first = (1 << 24) - 20
    attr = QPInitAttr(psn=first, congestion_control="fixed", initial_cwnd=40)
    pair = make_pair(attr_a=attr, attr_b=QPInitAttr(psn=(1 << 24) - 1))
    lost = {((first + k) & 0xFFFFFF, 0) for k in (3, 19, 20, 21, 44)}
    net = Network(pair.hs, Weather(), filter=losing(lost))
    stats = transfer(pair, net, 100)
    assert (stats["retransmitted"], stats["spurious"], stats["rtos"]) == (5, 0, 0), net.schedule()


def test_round_trip_and_timeout_follow_rfc_6298() -> None:
    pair = make_pair(attr_a=FIXED_WINDOW)
    net = Network(pair.hs, Weather(delay_of=lambda sport: 100 * US))
    stats = transfer(pair, net, 40)
    assert stats["srtt_ns"] == pytest.approx(200_000, rel=0.02)
    q = pair.hs.qp[pair.qp_a.index]
    assert q["rttvar"] < 20 * US, "constant round trip: the variation decays"


def test_unsignaled_requests_complete_silently_and_errors_do_not() -> None:
    pair = make_pair(attr_a=FIXED_WINDOW)
    net = Network(pair.hs, Weather())
    for number in range(4):
        wr = SendWR(number, pair.mr_a.sge(0, 5000), pair.mr_b.addr, pair.mr_b.rkey, signaled=number == 3)
        pair.qp_a.post_send(wr)
    done: list[int] = []
    assert net.run(lambda: bool(done.extend(wc.wr_id for wc in pair.cq_a.poll()) or done))
    assert done == [3]
    assert pair.hs.cq[pair.cq_a.index]["reserved"] == 0


def test_a_timeout_that_is_too_short_corrects_itself() -> None:
    """A queue builds up until the round trip is beyond the timeout; ACKs of what was sent in vain show its length."""
    config = HostConfig(min_rto_ps=20 * US, min_probe_timeout_ps=10 * US)
    pair = make_pair(attr_a=FIXED_WINDOW, config=config)
    now = [0]
    net = Network(pair.hs, Weather(delay_of=lambda sport: 5 * US if now[0] < 100 * US else 200 * US))
    for number in range(5):
        pair.write(250_000, number)
    done = 0

    def finished() -> bool:
        nonlocal done
        now[0] = net.now
        done += len(pair.cq_a.poll())
        return done == 5

    assert net.run(finished), net.schedule()
    stats = pair.qp_a.stats()
    assert stats["srtt_ns"] == pytest.approx(400_000, rel=0.1)
    assert stats["spurious"] < 200, "the first window or two"
    rtos = stats["rtos"]
    pair.write(250_000, 9)
    assert net.run(lambda: bool(pair.cq_a.poll()))
    assert pair.qp_a.stats()["rtos"] == rtos
