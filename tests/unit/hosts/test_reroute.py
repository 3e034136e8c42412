# SPDX-License-Identifier: Apache-2.0
"""Rerouting by the NIC: what makes a sender leave its path, where it goes, and that messages survive it."""

from __future__ import annotations

from typing import Any

import pytest

from detour.hosts.config import HostConfig
from detour.hosts.parameters import host_config
from detour.hosts.transport import TRANSPORT_REGISTRY
from detour.hosts.verbs import Path, QPInitAttr, SendWR, WCOpcode
from tests.property.lossy import US, Network, Pair, Weather, make_pair, mark

CANDIDATES = [Path(1 + k, (2 + k, 1, 0x8001)) for k in range(3)]
"""uSID lists by way of three spines; their source ports tell the simulator which is which"""
WINDOW = QPInitAttr(psn=0, congestion_control="fixed", initial_cwnd=40)
QUICK = host_config(react_hold_ps=15 * US)


def start(weather: Weather, messages: int = 12, size: int = 60_000, **options: Any) -> tuple[Pair, Network]:
    """A sender with messages to send that goes by the first candidate."""
    more = {key: options.pop(key) for key in ("filter", "seed") if key in options}
    options = {"attr_a": WINDOW, "config": QUICK} | options
    pair = make_pair(memory=messages * size, connect={"candidates": CANDIDATES, "react": True}, **options)
    for k in range(messages):
        there = pair.mr_b.addr + k * size
        pair.qp_a.post_send(SendWR(k, pair.mr_a.sge(k * size, size), there, pair.mr_b.rkey, k))
    return pair, Network(pair.hs, weather, **more)


def finish(pair: Pair, net: Network, messages: int = 12) -> dict[str, Any]:
    """Runs to the end; every message is there, once, in place, and completions were in order."""
    sent: list[int] = []
    arrived: list[int | None] = []

    def done() -> bool:
        sent.extend(wc.wr_id for wc in pair.cq_a.poll())
        arrived.extend(wc.imm_data for wc in pair.cq_b.poll() if wc.opcode is WCOpcode.RECV_RDMA_WITH_IMM)
        return len(sent) >= messages

    assert net.run(done, max_frames=400_000), net.schedule()
    assert sent == arrived == list(range(messages)), net.schedule()
    assert pair.mr_a.read() == pair.mr_b.read()
    return pair.qp_a.stats()


def test_a_queue_that_grows_makes_the_sender_take_the_next_path() -> None:
    net: Network | None = None
    begin = 50 * US

    def queue(sport: int) -> int:
        assert net is not None
        return int(max(0, net.now - begin) // 2_000) if sport == 1 else 0  # ticks of 1 ns: half a tick a nanosecond

    weather = Weather(queue_of=queue)
    pair, net = start(weather)
    stats = finish(pair, net)
    assert (stats["reroutes"], stats["retransmitted"]) == (1, 0)
    assert set(stats["paths"]) == {str(CANDIDATES[0]), str(CANDIDATES[1])}
    moved = int(pair.qp_a.path_state["moved"])
    # 5 us of queue after 10 us, eight answers, and half a round trip of 10 us back
    assert 60 * US < moved < 75 * US


def test_a_queue_that_stands_is_no_reason() -> None:
    weather = Weather(queue_of=lambda sport: 20_000 if sport > 1 else 0, dead=lambda sport, now: sport == 1)
    pair, net = start(weather, config=HostConfig(initial_rto_ps=50 * US, min_rto_ps=50 * US))
    stats = finish(pair, net)
    assert stats["reroutes"] == 1, "the first path swallows everything, the second one has a queue that never changes"
    assert pair.qp_a.current_path == str(CANDIDATES[1])


def test_marks_make_it_move_and_when_all_are_marked_it_stays() -> None:
    pair, net = start(Weather(mark=1.0))
    stats = finish(pair, net)
    assert stats["reroutes"] == 2, "all three paths were tried, none of them again so soon"
    one, other = start(Weather(mark=1.0), config=host_config(react_hold_ps=15 * US, react_penalty_ps=30 * US))
    assert finish(one, other)["reroutes"] > 2


def test_single_marks_are_not_enough() -> None:
    seen = 0

    def every_other(_: int, frame: bytes) -> bytes:
        nonlocal seen
        seen += 1
        return mark(frame) if seen % 4 == 0 else frame

    pair, net = start(Weather(), filter=every_other)
    assert finish(pair, net)["reroutes"] == 0


def test_a_loss_makes_it_move() -> None:
    lost: list[int] = []

    def lose_one(host: int, frame: bytes) -> bytes | None:
        if host == 0 and len(frame) > 1000 and not lost and net.now > 20 * US:
            lost.append(net.now)
            return None
        return frame

    pair, net = start(Weather(), filter=lose_one)
    stats = finish(pair, net)
    assert (stats["reroutes"], stats["retransmitted"]) == (1, 1)


@pytest.mark.parametrize("transport", TRANSPORT_REGISTRY.built_in)
@pytest.mark.parametrize("seed", range(4))
def test_messages_survive_rerouting_in_bad_weather(seed: int, transport: str) -> None:
    weather = Weather(loss=0.01, duplicate=0.01, corrupt=0.005, mark=0.3, queue_of=lambda sport: 900 * sport)
    attr = QPInitAttr(psn=0xFFFFF0, transport=transport)
    config = host_config(react_hold_ps=20 * US, react_penalty_ps=20 * US, react_answers=3)
    pair, net = start(weather, seed=seed, attr_a=attr, attr_b=QPInitAttr(transport=transport), config=config)
    assert finish(pair, net)["reroutes"] > 1


def test_probes_are_never_sent() -> None:
    pair, net = start(Weather(mark=1.0))
    assert finish(pair, net)["ptms"] == 0
