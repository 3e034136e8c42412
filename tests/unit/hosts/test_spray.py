# SPDX-License-Identifier: Apache-2.0
"""Packets of one QP on many paths at once: which path the next one takes, and what is taken for lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from detour.base.errors import DetourError
from detour.hosts.config import HostConfig
from detour.hosts.frames.dissect import decode
from detour.hosts.verbs.bulk import connect_many
from detour.hosts.verbs.verbs import (
    CongestionControl,
    Path,
    PathChoice,
    QPInitAttr,
    SendWR,
    Transport,
    WCStatus,
)
from tests.property.lossy import US, Network, Pair, Weather, make_pair, through_switches

DETOURS = 7
PATHS = [*(Path(0x8000 + k) for k in range(1, 1 + DETOURS)), Path(0x0001)]
"""seven detours and, given last, one shortest path, as on D1"""
PACKETS = 2000
ROUND_TRIP = 10 * US
WINDOW = 40
BREAK = 60 * US
FIXED = QPInitAttr(psn=0, congestion_control=CongestionControl.FIXED, initial_cwnd=WINDOW)
Keep = Callable[[int, bytes], bytes | None]


def begin(
    weather: Weather, choice: PathChoice = PathChoice.SPRAYING, *, keep: Keep | None = None, **options: Any
) -> tuple[Pair, Network]:
    """A sender in the middle of a long message."""
    packets = options.pop("packets", PACKETS)
    paths = options.pop("paths", PATHS)
    options.setdefault("attr_a", FIXED)
    pair = make_pair(memory=1 << 21, connect={"candidates": paths, "choice": choice}, **options)
    pair.qp_a.post_send(SendWR(1, pair.mr_a.sge(0, packets * 1000), pair.mr_b.addr, pair.mr_b.rkey))
    return pair, Network(pair.hs, weather, filter=keep)


def finish(pair: Pair, net: Network, packets: int = PACKETS) -> dict[str, Any]:
    """Everything arrives, once; the sender's statistics."""
    status: list[WCStatus] = []
    assert net.run(lambda: bool(status.extend(wc.status for wc in pair.cq_a.poll()) or status)), net.schedule()
    assert status == [WCStatus.SUCCESS], net.schedule()
    assert pair.mr_b.read(packets * 1000) == pair.mr_a.read(packets * 1000)
    return pair.qp_a.stats()


class Sent:
    """A filter that remembers the source ports of data packets, and may lose some frames."""

    def __init__(self, lose: Callable[[dict[str, Any], int], bool] = lambda f, number: False) -> None:
        self.sports: list[int] = []
        self._lose = lose

    def __call__(self, _: int, frame: bytes) -> bytes | None:
        f = decode(through_switches(frame))
        if f["kind"] == "data":
            self.sports.append(f["sport"])
        return None if self._lose(f, len(self.sports)) else frame

    def share(self, first: int = 0) -> float:
        """Of packets from number `first` on, the part that took the shortest path."""
        return Counter(self.sports[first:])[1] / len(self.sports[first:])


def test_on_an_idle_fabric_a_short_message_takes_no_detour() -> None:
    sent = Sent()
    stats = finish(*begin(Weather(), keep=sent, packets=64), packets=64)
    assert set(sent.sports) == {1}
    assert (stats["retransmitted"], stats["lost"], stats["ptms"]) == (0, 0, 0)


def test_a_long_message_begins_on_both_and_comes_back() -> None:
    """Before anything has come back nobody knows whether the shortest path is crowded."""
    sent = Sent()
    finish(*begin(Weather(), keep=sent))
    assert 0.2 < Counter(sent.sports[:WINDOW])[1] / WINDOW < 0.8
    assert sent.share(PACKETS * 3 // 4) > 0.9


def test_a_crowded_shortest_path_is_left_for_detours_and_taken_again() -> None:
    crowded: list[bool] = [True]
    weather = Weather(queue_of=lambda sport: 10_000 if sport == 1 and crowded[0] else 0)
    sent = Sent()
    pair, net = begin(weather, keep=sent, packets=PACKETS)
    net.run(lambda: len(sent.sports) >= PACKETS // 2)
    assert sent.share(PACKETS // 4) < 0.1, "10 us are above the margin of 15 MTU times, which is 1.2 us"
    assert len(set(sent.sports)) == 1 + DETOURS, "and it is not one detour that they take"
    crowded[0] = False
    finish(pair, net)
    assert sent.share(PACKETS * 9 // 10) > 0.5


def test_a_shortest_path_is_worth_twice_the_wait_of_a_detour() -> None:
    """Detours that wait for 5 us: a shortest path may have 10, and 1.2 of margin."""
    for wait, stays in ((11_000, True), (13_000, False)):
        queue = Weather(queue_of=lambda sport, wait=wait: wait if sport == 1 else 5_000)  # type: ignore[misc]
        sent = Sent()
        pair, net = begin(queue, keep=sent)
        pair.hs.qp[pair.qp_a.index]["detour_wait"] = 5_000
        finish(pair, net)
        assert (sent.share(200) > 0.9) is stays


def test_a_marked_detour_is_given_up_for_another() -> None:
    weather = Weather(mark=1.0, queue_of=lambda sport: 50_000 if sport == 1 else 0)
    sent = Sent()
    finish(*begin(weather, keep=sent))
    late = Counter(sent.sports[PACKETS // 2 :])
    assert max(late.values()) < PACKETS // 2 / 3, "no path keeps its packets"
    # without marks a path that answers is used again and again: the first few share all packets
    assert len(late) >= DETOURS


def test_paths_of_different_delay_lose_nothing() -> None:
    delay = {0x8000 + k: (5 + 7 * k) * US for k in range(1, 1 + DETOURS)}
    for choice in (PathChoice.SPRAYING, PathChoice.OBLIVIOUS, PathChoice.REPS):
        weather = Weather(delay_of=lambda sport: delay.get(sport, 5 * US), queue_of=lambda s: 20_000 * (s == 1))
        stats = finish(*begin(weather, choice))
        assert (stats["lost"], stats["retransmitted"], stats["rtos"]) == (0, 0, 0), choice


def test_a_loss_shows_by_the_next_packet_on_its_path() -> None:
    sent = Sent(lambda f, number: f["kind"] == "data" and number == 500)
    pair, net = begin(Weather(), PathChoice.OBLIVIOUS, keep=sent)
    stats = finish(pair, net)
    assert (stats["lost"], stats["retransmitted"], stats["spurious"], stats["rtos"]) == (1, 1, 0, 0)


def test_a_lost_answer_is_no_lost_packet() -> None:
    answers = 0

    def loses(f: dict[str, Any], _: int) -> bool:
        nonlocal answers
        answers += f["kind"] == "ack"
        return f["kind"] == "ack" and answers % 50 == 0

    pair, net = begin(Weather(), PathChoice.OBLIVIOUS, keep=Sent(loses))
    stats = finish(pair, net)
    assert stats["rtos"] == 0
    assert stats["retransmitted"] <= 2, "what was sent at the very end may be"


def test_a_dead_path_costs_less_than_three_round_trips() -> None:
    weather = Weather(dead=lambda sport, now: sport == 0x8003 and now > BREAK)
    pair, net = begin(weather, PathChoice.OBLIVIOUS)
    c = pair.hs.candidate[pair.qp_a.index]
    dead = next(k for k in range(len(PATHS)) if c[k]["sport"] == 0x8003)
    assert net.run(lambda: int(c[dead]["silent"]) > 0), net.schedule()
    assert net.now < BREAK + 3 * ROUND_TRIP
    assert net.run(lambda: int(c[dead]["silent"]) > 1), net.schedule()
    assert net.now < BREAK + 5 * ROUND_TRIP
    assert int(c[dead]["head"]) == -1, "nothing is in flight there any more"
    stats = finish(pair, net)
    assert (stats["failovers"], stats["rtos"]) == (1, 0), net.schedule()


def test_a_path_whose_answers_are_lost_still_carries_data() -> None:
    """Answers that come by other paths say that everything has arrived."""
    nets: list[Network] = []
    lost = Sent(lambda f, _: f["kind"] == "ack" and f["sport"] == 0x8003 and nets[0].now > BREAK)
    pair, net = begin(Weather(), PathChoice.OBLIVIOUS, keep=lost)
    nets.append(net)
    stats = finish(pair, net)
    assert stats["retransmitted"] <= 2, net.schedule()
    assert stats["rtos"] == 0


def test_a_path_that_comes_back_is_used_again() -> None:
    config = HostConfig(spray_dead_ps=100 * US)
    sent = Sent()
    weather = Weather(dead=lambda sport, now: sport == 0x8003 and BREAK < now < 2 * BREAK)
    pair, net = begin(weather, PathChoice.OBLIVIOUS, keep=sent, config=config)
    finish(pair, net)
    assert 0x8003 in sent.sports[-200:]


def test_where_nobody_answers_it_is_no_path() -> None:
    weather = Weather(dead=lambda sport, now: BREAK < now < BREAK + 8 * ROUND_TRIP)
    stats = finish(*begin(weather))
    assert stats["failovers"] == 0


def test_all_paths_dead_for_good_end_in_an_error() -> None:
    pair, net = begin(Weather(dead=lambda sport, now: now > BREAK), config=HostConfig(retry_ps=5_000 * US))
    status: list[WCStatus] = []
    assert net.run(lambda: bool(status.extend(wc.status for wc in pair.cq_a.poll()) or status)), net.schedule()
    assert status == [WCStatus.RETRY_EXC_ERR]


def test_reps_uses_again_what_was_not_marked() -> None:
    """Of eight paths five mark everything: packets end up on the three others."""
    marked = {0x8001, 0x8002, 0x8003, 0x8004, 0x8005}
    sent = Sent()
    pair, net = begin(Weather(), PathChoice.REPS)
    weather = net.weather

    def keep(host: int, frame: bytes) -> bytes | None:
        f = decode(through_switches(frame))
        weather.mark = 1.0 if f["kind"] == "data" and f["sport"] in marked else 0.0
        return sent(host, frame)

    net.filter = keep
    finish(pair, net)
    late = Counter(sent.sports[PACKETS // 2 :])
    assert sum(late[sport] for sport in marked) < 0.05 * sum(late.values())


def test_oblivious_spraying_uses_all_paths_alike() -> None:
    sent = Sent()
    finish(*begin(Weather(), PathChoice.OBLIVIOUS, keep=sent))
    counts = Counter(sent.sports)
    assert len(counts) == 1 + DETOURS
    assert min(counts.values()) > 0.7 * PACKETS / len(counts)


def test_go_back_n_cannot_spray() -> None:
    attr = QPInitAttr(transport=Transport.GO_BACK_N)
    with pytest.raises(DetourError, match="only LERP"):
        make_pair(attr_a=attr, attr_b=attr, connect={"candidates": PATHS, "choice": PathChoice.SPRAYING})
    pair = make_pair()
    with pytest.raises(DetourError, match="only LERP"):
        connect_many(pair.device, [0], [1], transport=Transport.GO_BACK_N, choice=PathChoice.REPS)
