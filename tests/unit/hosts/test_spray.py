# SPDX-License-Identifier: Apache-2.0
"""Packets of one QP on many paths at once: which path the next one takes, and what is taken for lost."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from detour.base.errors import DetourError
from detour.hosts.config import HostConfig
from detour.hosts.decode import decode
from detour.hosts.parameters import host_config
from detour.hosts.state import NIL
from detour.hosts.verbs import Path, QPInitAttr
from detour.hosts.verbs.bulk import connect_many
from tests.property.lossy import US, Network, Pair, Weather, complete, make_pair, through_switches

DETOURS = 7
PATHS = [*(Path(0x8000 + k) for k in range(1, 1 + DETOURS)), Path(0x0001)]
"""seven detours and, given last, one shortest path, as on D1"""
PACKETS = 2000
ROUND_TRIP = 10 * US
WINDOW = 40
BREAK = 60 * US
FIXED = QPInitAttr(psn=0, congestion_control="fixed", initial_cwnd=WINDOW)
Keep = Callable[[int, bytes], bytes | None]


def begin(weather: Weather, choice: str = "spray", *, keep: Keep | None = None, **options: Any) -> tuple[Pair, Network]:
    """A sender in the middle of a long message."""
    packets = options.pop("packets", PACKETS)
    paths = options.pop("paths", PATHS)
    options.setdefault("attr_a", FIXED)
    pair = make_pair(memory=1 << 21, connect={"candidates": paths, "choice": choice}, **options)
    pair.write(packets * 1000)
    return pair, Network(pair.hs, weather, filter=keep)


def suppose(pair: Pair, short_wait: int, short_time: int, detour_wait: int) -> None:
    """The sender knows that."""
    s = pair.qp_a.path_state
    s["short_wait"], s["short_time"], s["detour_wait"] = short_wait, short_time, detour_wait
    pair.hs.qp["detours_known"][pair.qp_a.index] = 1


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


def test_a_short_message_begins_on_both_and_ends_on_the_shortest_path() -> None:
    """It is over before the first answer: a detour is the less likely the fewer packets are behind."""
    sent = Sent()
    stats = complete(*begin(Weather(), keep=sent, packets=WINDOW), packets=WINDOW)
    assert 0.4 < sent.share() < 0.9, "of 2 r / 120 for r from 40 on, two thirds are expected"
    assert sent.share(WINDOW * 3 // 4) > sent.share()
    assert (stats["retransmitted"], stats["lost"], stats["ptms"]) == (0, 0, 0)


def test_a_long_message_begins_on_both_and_comes_back() -> None:
    """Before anything has come back nobody knows whether the shortest path is crowded."""
    sent = Sent()
    complete(*begin(Weather(), keep=sent), PACKETS)
    assert 0.1 < Counter(sent.sports[:WINDOW])[1] / WINDOW < 0.45, "a quarter is expected"
    assert sent.share(PACKETS * 9 // 10) > 0.75, "by one in 24 at a time"


def test_a_crowded_shortest_path_is_left_for_detours_and_taken_again() -> None:
    crowded: list[bool] = [True]
    weather = Weather(queue_of=lambda sport: 10_000 if sport == 1 and crowded[0] else 0)
    sent = Sent()
    pair, net = begin(weather, keep=sent, packets=PACKETS)
    net.run(lambda: len(sent.sports) >= PACKETS // 2)
    assert sent.share(PACKETS // 4) < 0.1, "10 us are above the margin of 15 MTU times, which is 1.2 us"
    assert len(set(sent.sports)) == 1 + DETOURS, "and it is not one detour that they take"
    crowded[0] = False
    complete(pair, net, PACKETS)
    assert sent.share(PACKETS * 9 // 10) > 0.5


def test_a_shortest_path_is_worth_twice_the_wait_of_a_detour() -> None:
    """Detours that wait for 5 us: a shortest path may have 10, and 1.2 of margin."""
    for wait, stays in ((11_000, True), (13_000, False)):
        queue = Weather(queue_of=lambda sport, wait=wait: wait if sport == 1 else 5_000)  # type: ignore[misc]
        sent = Sent()
        pair, net = begin(queue, keep=sent)
        suppose(pair, 0, net.now, 5_000)
        complete(pair, net, PACKETS)
        assert (sent.share(200) > 0.9) is stays


@pytest.mark.parametrize(("every", "least", "most"), [(40, 0.93, 1.0), (8, 0.2, 0.6)], ids=["calm", "crowded"])
def test_where_few_detours_are_needed_tokens_soon_come_back(every: int, least: float, most: float) -> None:
    """One packet in so many waits for 5 us on the shortest path. With 1/24 alone its share were 0.77 and 0.4."""
    queue = Weather(queue_of=lambda sport: 5_000 if sport == 1 and next(count) % every == 0 else 0)
    count, sent = itertools.count(1), Sent()
    pair, net = begin(queue, keep=sent)
    suppose(pair, 0, net.now, 0)
    complete(pair, net, PACKETS)
    assert least < sent.share(PACKETS // 2) < most


@pytest.mark.parametrize("answered", [True, False])
def test_a_window_does_not_grow_on_shortest_paths_that_owe_an_answer(answered: bool) -> None:
    """A detour is back first though it is longer: whatever the shortest path has, it is a queue."""
    sent = Sent()
    pair, net = begin(Weather(), packets=30, keep=sent)
    suppose(pair, (0 if answered else NIL), net.now, 0)
    complete(pair, net, 30)
    assert sent.sports[0] == 1 if answered else sent.sports[0] >= 0x8000


def test_a_marked_detour_is_given_up_for_another() -> None:
    weather = Weather(mark=1.0, queue_of=lambda sport: 50_000 if sport == 1 else 0)
    sent = Sent()
    complete(*begin(weather, keep=sent), PACKETS)
    late = Counter(sent.sports[PACKETS // 2 :])
    assert max(late.values()) < PACKETS // 2 / 3, "no path keeps its packets"
    # without marks a path that answers is used again and again: the first few share all packets
    assert len(late) >= DETOURS


def test_a_detour_that_waits_for_longer_than_others_is_used_less() -> None:
    """A queue below the mark, of which the time is no different, so that its answers are as soon back."""
    waits = {0x0001: 50_000, 0x8001: 8_000, 0x8002: 8_000}  # ns; the margin is 1.2 us
    sent = Sent()
    complete(*begin(Weather(queue_of=lambda sport: waits.get(sport, 0)), keep=sent), PACKETS)
    late = Counter(sent.sports[PACKETS // 2 :])
    others = [late[0x8000 + k] for k in range(3, 1 + DETOURS)]
    assert late[0x8001] + late[0x8002] < 2 * sum(others) / len(others) / 4


def test_paths_of_different_delay_lose_nothing() -> None:
    delay = {0x8000 + k: (5 + 7 * k) * US for k in range(1, 1 + DETOURS)}
    for choice in ("spray", "oblivious", "reps"):
        weather = Weather(delay_of=lambda sport: delay.get(sport, 5 * US), queue_of=lambda s: 20_000 * (s == 1))
        stats = complete(*begin(weather, choice), PACKETS)
        assert (stats["lost"], stats["retransmitted"], stats["rtos"]) == (0, 0, 0), choice


def test_a_loss_shows_by_the_next_packet_on_its_path() -> None:
    sent = Sent(lambda f, number: f["kind"] == "data" and number == 500)
    pair, net = begin(Weather(), "oblivious", keep=sent)
    stats = complete(pair, net, PACKETS)
    assert (stats["lost"], stats["retransmitted"], stats["spurious"], stats["rtos"]) == (1, 1, 0, 0)


def test_a_lost_answer_is_no_lost_packet() -> None:
    answers = 0

    def loses(f: dict[str, Any], _: int) -> bool:
        nonlocal answers
        answers += f["kind"] == "ack"
        return f["kind"] == "ack" and answers % 50 == 0

    pair, net = begin(Weather(), "oblivious", keep=Sent(loses))
    stats = complete(pair, net, PACKETS)
    assert stats["rtos"] == 0
    assert stats["retransmitted"] <= 2, "what was sent at the very end may be"


def test_a_dead_path_costs_less_than_three_round_trips() -> None:
    weather = Weather(dead=lambda sport, now: sport == 0x8003 and now > BREAK)
    pair, net = begin(weather, "oblivious")
    c = pair.hs.candidate[pair.qp_a.index]
    dead = next(k for k in range(len(PATHS)) if c[k]["sport"] == 0x8003)
    assert net.run(lambda: int(c[dead]["silent"]) > 0), net.schedule()
    assert net.now < BREAK + 3 * ROUND_TRIP
    assert net.run(lambda: int(c[dead]["head"]) == -1), net.schedule()
    assert net.now < BREAK + 5 * ROUND_TRIP, "nothing is in flight there any more"
    packets = int(c[dead]["packets"])
    assert net.run(lambda: int(c[dead]["silent"]) > 1), net.schedule()
    assert net.now < BREAK + 3 * ROUND_TRIP + HostConfig().min_rto_ps, "and a timeout later it is dead"
    stats = complete(pair, net, PACKETS)
    assert int(c[dead]["packets"]) == packets, "that the doubt lasted so long has cost no packet"
    assert (stats["failovers"], stats["rtos"]) == (1, 0), net.schedule()


def test_when_the_path_breaks_that_has_everything_another_one_is_asked() -> None:
    """All packets in flight are on one path, so there is no other answer that would tell of it."""
    sent = Sent()
    weather = Weather(dead=lambda sport, now: sport == 1 and now > BREAK, queue_of=lambda sport: 50_000 * (sport != 1))
    pair, net = begin(weather, keep=sent)
    suppose(pair, 0, net.now, 50_000)
    net.run(lambda: net.now > BREAK + 1.1 * ROUND_TRIP)
    assert set(sent.sports) == {1}
    arrived = pair.qp_b.stats()["rx_delivered"]
    assert net.run(lambda: int(pair.qp_b.stats()["rx_delivered"]) >= arrived + WINDOW * 1000), net.schedule()
    assert net.now < BREAK + 3.5 * ROUND_TRIP, net.schedule()
    stats = complete(pair, net, PACKETS)
    assert (stats["rtos"], stats["tail_probes"]) == (0, 1)


@pytest.mark.parametrize("wait", [3, 10])
def test_a_path_that_becomes_slow_is_not_dead(wait: int) -> None:
    """A queue of several round trips that comes at once, as where others begin to send: in doubt, but it answers."""
    slow: list[bool] = [False]
    weather = Weather(queue_of=lambda sport: wait * 10_000 if sport == 0x8003 and slow[0] else 0)
    pair, net = begin(weather, "oblivious")
    net.run(lambda: net.now > BREAK)
    slow[0] = True
    stats = complete(pair, net, PACKETS)
    assert (stats["failovers"], stats["rtos"]) == (0, 0), net.schedule()
    assert stats["retransmitted"] < PACKETS // 50


@pytest.mark.parametrize(("heard", "soon"), [(1 * BREAK, True), (4 * BREAK, False)], ids=["long ago", "just now"])
def test_an_old_round_trip_says_little_of_a_path_that_breaks(heard: int, soon: bool) -> None:
    """A path that had 50 us waiting once is missed as others are when that was long ago."""
    pair, net = begin(Weather(dead=lambda sport, now: sport == 0x8003 and now > 4 * BREAK), "oblivious")
    c = pair.hs.candidate[pair.qp_a.index]
    place = next(k for k in range(len(PATHS)) if c[k]["sport"] == 0x8003)
    net.run(lambda: net.now > 4 * BREAK + 1.1 * ROUND_TRIP)  # the last answer is there
    c[place]["rtt"], c[place]["delay"], c[place]["newest"] = 60 * US, 50_000, heard
    assert net.run(lambda: int(c[place]["silent"]) > 0), net.schedule()
    assert (net.now < 4 * BREAK + 4 * ROUND_TRIP) is soon, net.schedule()


def test_a_path_whose_answers_are_lost_still_carries_data() -> None:
    """Answers that come by other paths say that everything has arrived."""
    nets: list[Network] = []
    lost = Sent(lambda f, _: f["kind"] == "ack" and f["sport"] == 0x8003 and nets[0].now > BREAK)
    pair, net = begin(Weather(), "oblivious", keep=lost)
    nets.append(net)
    stats = complete(pair, net, PACKETS)
    assert stats["retransmitted"] <= 2, net.schedule()
    assert stats["rtos"] == 0


def test_a_path_that_comes_back_is_used_again() -> None:
    config = HostConfig(spray_dead_ps=100 * US)
    sent = Sent()
    weather = Weather(dead=lambda sport, now: sport == 0x8003 and BREAK < now < 2 * BREAK)
    pair, net = begin(weather, "oblivious", keep=sent, config=config)
    complete(pair, net, PACKETS)
    assert 0x8003 in sent.sports[-200:]


def test_where_nobody_answers_it_is_no_path() -> None:
    weather = Weather(dead=lambda sport, now: BREAK < now < BREAK + 8 * ROUND_TRIP)
    stats = complete(*begin(weather), PACKETS)
    assert stats["failovers"] == 0


@pytest.mark.parametrize(
    ("choice", "marked", "most"),
    [
        ("reps", {0x8001, 0x8002, 0x8003, 0x8004, 0x8005}, 0.05),
        ("spritz-scout", {0x0001}, 0.1),
        # what is drawn every 44 packets, and instead of what came back with a mark then, may be any
        ("spritz-spray", {0x8001, 0x8002, 0x8003, 0x8004, 0x0001}, 0.15),
    ],
)
def test_paths_that_mark_everything_are_hardly_used(choice: str, marked: set[int], most: float) -> None:
    sent = Sent()
    pair, net = begin(Weather(), choice)

    def keep(host: int, frame: bytes) -> bytes | None:
        f = decode(through_switches(frame))
        net.weather.mark = 1.0 if f["kind"] == "data" and f["sport"] in marked else 0.0
        return sent(host, frame)

    net.filter = keep
    complete(pair, net, PACKETS)
    late = Counter(sent.sports[PACKETS // 2 :])
    assert sum(late[sport] for sport in marked) < most * sum(late.values())


def test_oblivious_spraying_uses_all_paths_alike() -> None:
    sent = Sent()
    complete(*begin(Weather(), "oblivious", keep=sent), PACKETS)
    counts = Counter(sent.sports)
    assert len(counts) == 1 + DETOURS
    assert min(counts.values()) > 0.7 * PACKETS / len(counts)


def test_go_back_n_cannot_spray() -> None:
    attr = QPInitAttr(transport="gbn")
    with pytest.raises(DetourError, match="gbn needs one path at a time"):
        make_pair(attr_a=attr, attr_b=attr, connect={"candidates": PATHS, "choice": "spray"})
    pair = make_pair()
    with pytest.raises(DetourError, match="gbn needs one path at a time"):
        connect_many(pair.device, [0], [1], transport="gbn", choice="reps")


# -- Spritz ---------------------------------------------------------------------------------------------------


def test_scout_stays_on_the_shortest_path_that_is_not_marked() -> None:
    sent = Sent()
    complete(*begin(Weather(), "spritz-scout", keep=sent), PACKETS)
    late = Counter(sent.sports[PACKETS // 2 :])
    assert late[0x0001] > 0.9 * sum(late.values())
    assert len(late) > 1, "every 44 packets another one is drawn"


def test_spritz_draws_shortest_paths_by_weight() -> None:
    """Everything is marked, so that nothing is remembered: 5 to 1 for long messages, 100 to 1 for short ones."""
    for packets, short_of, least, most in ((PACKETS, 1 << 19, 0.34, 0.49), (500, 1 << 19, 0.88, 0.97)):
        sent = Sent()
        config = host_config(spritz_small_bytes=short_of)
        pair, net = begin(Weather(mark=1.0), "spritz-spray", keep=sent, packets=packets, config=config)
        complete(pair, net, packets)
        counts = Counter(sent.sports)
        assert least < counts[0x0001] / sum(counts.values()) < most


def test_a_spritz_path_that_loses_a_packet_is_forgotten() -> None:
    """Scout on the shortest path, which loses one packet: others follow, until it has answered again."""
    lost: list[int] = []

    def loses(f: dict[str, Any], number: int) -> bool:
        hit = f["kind"] == "data" and f["sport"] == 0x0001 and number > PACKETS // 2 and not lost
        if hit:
            lost.append(number)
        return hit

    stats = complete(*begin(Weather(), "spritz-scout", keep=Sent(loses)), PACKETS)
    assert lost
    assert stats["retransmitted"] >= 1


# -- what connections of a host know together -----------------------------------------------------------------


def group_row(pair: Pair) -> Any:
    """What the sender's host knows of the receiver's group."""
    rows = pair.hs.region[pair.qp_a.context.host]
    (row,) = rows[rows["owner"] > 0]
    return row


def _group(pair: Pair) -> Any:
    """The row of the receiver's group at the sender's host, which is its own from now on."""
    group = (int(pair.hs.qp[pair.qp_a.index]["peer_hi"]) >> 32) & 0xFFFF
    row = pair.hs.region[pair.qp_a.context.host, group & 0x3F]
    row["owner"] = group + 1
    return row


@pytest.mark.parametrize(
    ("begun", "detours"),
    [((2,), 30), ((2, 2), 30), ((1, 1), 0), ((2, 2, 2, 2), 0)],
    ids=["to one group", "to two", "each to another", "to more than half of seven"],
)
def test_a_host_that_sends_to_few_groups_avoids_shortest_paths(begun: tuple[int, ...], detours: int) -> None:
    """Its connections have sent 8 packets without news, a sixteenth of the bandwidth-delay product; the one that sends
    now is one of them."""
    sent = Sent()
    pair, net = begin(Weather(), packets=30, keep=sent)
    row = _group(pair)
    row["begun"], row["open"], row["open_time"], row["peer"] = (
        begun[0],
        8,
        1,
        int(pair.hs.qp[pair.qp_a.index]["peer_hi"]),
    )
    for place, count in enumerate(begun[1:], 40):
        other = pair.hs.region[pair.qp_a.context.host, place]
        other["owner"], other["begun"], other["open_time"] = place + 1, count, 1
    complete(pair, net, 30)
    assert 30 - Counter(sent.sports)[1] == detours


def test_news_of_a_short_wait_and_time_make_room_again() -> None:
    pair, net = begin(Weather(), packets=30)
    complete(pair, net, 30)
    row = group_row(pair)
    assert (row["begun"], row["open"]) == (1, 0), "each answer took one packet off"
    row["open"], row["begun"], row["open_time"] = 100, 3, net.now
    pair.write(1000, 2)
    net.run(lambda: net.now > 1000 * US)
    pair.write(1000, 3)
    assert net.run(lambda: group_row(pair)["begun"] == 1), "what was sent so long ago is forgotten"
