# SPDX-License-Identifier: Apache-2.0
"""Paths that swallow everything: how soon they are left, and what is not taken for one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from detour.hosts.config import LITERAL_LOSS, HostConfig
from detour.hosts.decode import decode
from detour.hosts.parameters import host_config
from detour.hosts.verbs import Path, QPInitAttr
from tests.property.lossy import US, Network, Pair, Weather, complete, make_pair, through_switches

PATHS = [Path(0x0001), Path(0x8002), Path(0x8003), Path(0x8004)]
PACKETS = 1000
BREAK = 60 * US
ROUND_TRIP = 10 * US
STAYS: dict[str, Any] = {"probe_backlog": 1 << 20, "delta2": 10_000}
"""no probing at first, and no path is better"""
Keep = Callable[[int, bytes], bytes | None]


def begin(weather: Weather, config: HostConfig | None = None, keep: Keep | None = None) -> tuple[Pair, Network]:
    """A sender with four paths, of which it begins on the first, in the middle of a long message."""
    config = config or host_config(**STAYS)
    pair = make_pair(memory=1 << 20, config=config, attr_a=QPInitAttr(psn=0), connect={"candidates": PATHS})
    net = Network(pair.hs, weather, filter=keep)
    pair.write(PACKETS * 1000)
    return pair, net


def silence(pair: Pair, net: Network) -> int:
    """Time from the last answer on the first path to the first one on another, ps."""
    q = pair.hs.qp[pair.qp_a.index]
    last = 0

    def moved() -> bool:
        nonlocal last
        if q["epoch"] == 0:
            last = int(q["last_progress"])
            return False
        return int(q["last_progress"]) > BREAK and int(q["inflight"]) > 0 and q["rtt_epoch"] == q["epoch"]

    assert net.run(moved), net.schedule()
    return net.now - last


def loses_answers(_: int, frame: bytes) -> bytes | None:
    """Filter: ACKs and PTRs of the first path do not come back from the break on."""
    f = decode(through_switches(frame))
    return None if loses_answers.net.now > BREAK and f["kind"] in ("ack", "ptr") and f["sport"] == 1 else frame  # type: ignore[attr-defined]


@pytest.mark.parametrize("way", ["there", "back"])
def test_a_dead_path_is_left_within_three_round_trips(way: str) -> None:
    weather = Weather(dead=lambda sport, now: way == "there" and sport == 1 and now > BREAK)
    pair, net = begin(weather, keep=loses_answers if way == "back" else None)
    loses_answers.net = net  # type: ignore[attr-defined]
    quiet = silence(pair, net)
    assert quiet < 3 * ROUND_TRIP + ROUND_TRIP + 2 * US, "three, and one until the first answer on the new path"
    stats = complete(pair, net, PACKETS)
    assert (stats["failovers"], stats["rtos"]) == (1, 0), net.schedule()


def test_by_the_letter_it_takes_two_timeouts() -> None:
    weather = Weather(dead=lambda sport, now: sport == 1 and now > BREAK)
    pair, net = begin(weather, host_config(**STAYS, **LITERAL_LOSS))
    assert silence(pair, net) > 2 * HostConfig().min_rto_ps
    assert complete(pair, net, PACKETS)["failovers"] == 0


def test_where_nobody_answers_it_is_not_the_path() -> None:
    weather = Weather(dead=lambda sport, now: BREAK < now < BREAK + 8 * ROUND_TRIP)
    pair, net = begin(weather)
    stats = complete(pair, net, PACKETS)
    assert (stats["failovers"], stats["reroutes"]) == (0, 0), net.schedule()


def test_a_lost_tail_on_a_living_path_is_sent_again_there_and_soon() -> None:
    doomed = {(seq, 0) for seq in range(PACKETS - 5, PACKETS)}

    def keep(_: int, frame: bytes) -> bytes | None:
        f = decode(through_switches(frame))
        return None if f["kind"] == "data" and (f["psn"], f["count"]) in doomed else frame

    pair, net = begin(Weather(), keep=keep)
    stats = complete(pair, net, PACKETS)
    assert (stats["failovers"], stats["reroutes"], stats["rtos"]) == (0, 0, 0), net.schedule()
    literal, slow = begin(Weather(), host_config(**STAYS, **LITERAL_LOSS), keep)
    assert complete(literal, slow, PACKETS)["rtos"] == 0
    assert net.now <= slow.now


@pytest.mark.parametrize("swings", [True, False])
def test_a_path_whose_round_trips_have_varied_gets_more_time(swings: bool) -> None:
    """Queues grow and shrink slowly by up to 15 us either way, or not; then all packets take 40 us at once."""
    jump = 600 * US

    def delay(now: int) -> int:
        if now > jump:
            return 40 * US
        return 5 * US + (abs((now // 10) % (30 * US) - 15 * US) if swings else 0)

    nets: list[Network] = []
    weather = Weather(rate_bps=10**10, delay_of=lambda sport: delay(nets[0].now) if sport == 1 else 5 * US)
    pair, net = begin(weather)
    nets.append(net)
    stats = complete(pair, net, PACKETS)
    assert net.now > jump
    assert stats["failovers"] == (0 if swings else 1), net.schedule()


def test_a_fixed_path_is_never_left() -> None:
    pair = make_pair(attr_a=QPInitAttr(psn=0), connect={"path": PATHS[0]})
    net = Network(pair.hs, Weather(dead=lambda sport, now: BREAK < now < 10 * BREAK))
    pair.write(200_000)
    assert net.run(lambda: bool(pair.cq_a.poll())), net.schedule()
    stats = pair.qp_a.stats()
    assert (stats["failovers"], stats["reroutes"], stats["ptms"]) == (0, 0, 0)
