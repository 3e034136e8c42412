# SPDX-License-Identifier: Apache-2.0
"""Go-back-N: one NAK a gap, back to the first missing packet, ACK coalescing, the wait before a change of path."""

from __future__ import annotations

from typing import Any

import pytest

from detour.base.errors import DetourError
from detour.hosts.config import HostConfig
from detour.hosts.decode import decode
from detour.hosts.frames.wire import SYNDROME_SEQUENCE
from detour.hosts.parameters import host_config
from detour.hosts.verbs import Path, QPInitAttr
from tests.property import lossy
from tests.property.lossy import US, Network, Pair, Weather, check_cost, losing, make_pair


def gbn(cwnd: float = 40, **changes: Any) -> dict[str, Any]:
    """Attributes for both ends: go-back-N, a fixed window, PSN 0."""
    values = {"psn": 0, "congestion_control": "fixed", "initial_cwnd": cwnd} | changes
    attr = QPInitAttr(transport="gbn", **values)
    return {"attr_a": attr, "attr_b": attr}


def transfer(pair: Pair, net: Network, packets: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Writes whole packets, checks them, returns the statistics of sender and receiver."""
    sent, received = lossy.transfer(pair, net, packets), pair.qp_b.stats()
    assert received["rx_delivered"] == received["rx_bytes"] == packets * 1000, "every byte once"
    return sent, received


LOSSES: dict[str, tuple[int, dict[str, set[Any]], dict[str, int], tuple[int, int]]] = {
    "nothing": (200, {}, {"packets": 200, "retransmitted": 0, "lost": 0, "naks": 0, "rx_naks": 0}, (0, 1000)),
    "a packet: one NAK, and 7 to 29 again; one more round trip of 10 us, no timer":
        (30, {"data": {(7, 0)}}, {"naks": 1, "rx_naks": 1, "rx_early_dropped": 22, "retransmitted": 23}, (0, 25)),
    "another one after the first has come, which rearms the NAK":
        (30, {"data": {(7, 0), (20, 1)}}, {"naks": 2, "rx_naks": 2, "retransmitted": 23 + 10}, (0, 200)),
    "a repeat: the gap was reported, and the packet that would rearm the NAK is the missing one":
        (30, {"data": {(7, 0), (7, 1)}}, {"rx_naks": 1, "rtos": 1, "retransmitted": 2 * 23}, (200, 1000)),
    "the NAK": (30, {"data": {(7, 0)}, "naks": {7}}, {"rx_naks": 1, "naks": 0, "rtos": 1}, (200, 1000)),
    "a tail: its NICs have no tail probe":
        (30, {"data": {(29, 0)}}, {"rtos": 1, "tail_probes": 0, "retransmitted": 1}, (200, 1000)),
}  # fmt: skip
"""packets, which frames are lost, what is counted at both ends, and how long it takes, us (a timeout waits for 200)"""


@pytest.mark.parametrize("what", LOSSES)
def test_what_a_loss_costs(what: str) -> None:
    check_cost(*LOSSES[what], **gbn())


def test_a_duplicate_nak_is_not_believed() -> None:
    pair = make_pair(**gbn())
    drop = losing(data={(7, 0)})
    net = Network(pair.hs, Weather())

    def twice(host: int, frame: bytes) -> bytes | None:
        f = decode(frame)
        if f["kind"] == "ack" and f["syndrome"] == SYNDROME_SEQUENCE:
            net._schedule(net.now + 12 * US, frame)  # again, after the sender went back
        return drop(host, frame)

    net.filter = twice
    stats, _ = transfer(pair, net, 60)
    assert (stats["naks"], stats["rtos"]) == (2, 0), net.schedule()
    assert stats["retransmitted"] == stats["lost"] == 40, "the window of 40 from 7 on, once"


def test_psn_wraps() -> None:
    first = (1 << 24) - 20
    pair = make_pair(**gbn(psn=first))
    lost = {((first + k) & 0xFFFFFF, 0) for k in (3, 19, 20, 44)}
    stats, _ = transfer(pair, Network(pair.hs, Weather(), filter=losing(data=lost)), 100)
    assert (stats["naks"], stats["rtos"]) == (2, 0), "19 and 20 are repeated together with 3"


@pytest.mark.parametrize("every", [1, 8, 64])
def test_ack_coalescing(every: int) -> None:
    pair = make_pair(config=host_config(ack_every=every), window=1024, **gbn(cwnd=1000))
    net = Network(pair.hs, Weather())
    stats, _ = transfer(pair, net, 200)
    asked = {k for k in range(200) if k % every == 0} | {199}
    assert net.frames == 200 + len(asked)
    assert stats["rtos"] == 0


def test_a_small_window_asks_for_answers_in_time() -> None:
    pair = make_pair(config=host_config(ack_every=1000), **gbn(cwnd=4))
    net = Network(pair.hs, Weather())
    stats, _ = transfer(pair, net, 100)
    assert stats["rtos"] == 0, "a sender that has to wait asks"
    assert net.now < 100 / 4 * 11 * US


def test_marks_are_answered_at_once_and_counted_exactly() -> None:
    pair = make_pair(config=host_config(ack_every=16), window=1024, **gbn(cwnd=1000))
    net = Network(pair.hs, Weather(mark=0.3), seed=4)
    stats, received = transfer(pair, net, 200)
    assert stats["ecn_marked"] == received["rx_ecn_marked"] > 40


def test_the_receive_window_bounds_what_is_sent() -> None:
    pair = make_pair(window=32, **gbn(cwnd=1000))
    net = Network(pair.hs, Weather(delay_of=lambda sport: 100 * US))
    pair.write(100_000)
    net.run(lambda: net.now > 50 * US)
    assert pair.qp_a.stats()["packets"] == 32


def test_dctcp_halves_once_a_gap() -> None:
    pair = make_pair(**gbn(congestion_control="dctcp", initial_cwnd=40))
    net = Network(pair.hs, Weather(), filter=losing(data={(7, 0)}))
    pair.write(60_000)
    q = pair.hs.qp[pair.qp_a.index]
    windows = []
    net.run(lambda: windows.append(float(q["cwnd"])) or q["st_naks"] == 1)
    assert windows[-1] == pytest.approx(windows[-2] / 2)


# -- changes of path --------------------------------------------------------------------------------------------

OLD, NEW = 0x0001, 0x8002
QUEUE = {OLD: 50_000, NEW: 10_000}


def reroute(transport: str, reordering: bool = False, cwnd: int = 1000) -> tuple[Any, Any, dict[str, list[int]]]:
    """A transfer that finds the second path better; its queues delay as they say. Statistics, and when packets of
    the two paths were sent."""
    control = "fixed"
    attr = QPInitAttr(psn=0, transport=transport, reordering=reordering, congestion_control=control, initial_cwnd=cwnd)
    candidates = [Path(OLD), Path(NEW)]
    config = host_config(delta3=1 << 30)
    pair = make_pair(memory=1 << 20, config=config, attr_a=attr, attr_b=attr, connect={"candidates": candidates})
    sent: dict[str, list[int]] = {"old": [], "new": [], "ptr": []}
    weather = Weather(delay_of=lambda s: 2 * US + QUEUE[s] * 1000, queue_of=lambda s: QUEUE[s])
    net = Network(pair.hs, weather)

    def watch(_: int, frame: bytes) -> bytes:
        f = decode(frame)
        if f["kind"] == "data":
            sent["old" if f["sport"] == OLD else "new"].append(net.now)
        return frame

    net.filter = watch
    stats, received = transfer(pair, net, 1000)
    assert stats["reroutes"] == 1
    return stats, received, sent


def test_go_back_n_waits_for_the_difference_and_loses_nothing() -> None:
    # The window is full before the old path's delay is known: without that it must not be left.
    stats, received, sent = reroute("gbn", cwnd=200)
    assert (received["rx_early_dropped"], stats["retransmitted"], stats["rtos"]) == (0, 0, 0)
    assert min(sent["new"]) - max(sent["old"]) >= (QUEUE[OLD] - QUEUE[NEW]) * 1000


def test_selective_repeat_and_a_reordering_receiver_do_not_wait() -> None:
    for kind in (("lerp", False), ("gbn", True)):
        stats, received, sent = reroute(*kind)
        assert stats["retransmitted"] == 0
        assert min(sent["new"]) - max(sent["old"]) < (QUEUE[OLD] - QUEUE[NEW]) * 1000
        assert received["rx_held_peak"] > 0


# -- beside LERP ------------------------------------------------------------------------------------------------


def time_of(transport: str, loss: float, seed: int) -> int:
    """Time to transfer 1 MB under DCTCP, ps."""
    attr = QPInitAttr(psn=0, transport=transport, initial_cwnd=100)
    pair = make_pair(memory=1 << 20, attr_a=attr, attr_b=attr, config=HostConfig(retry_ps=60_000_000 * US))
    net = Network(pair.hs, Weather(loss=loss), seed=seed)
    transfer(pair, net, 1000)
    return net.now


def test_the_transports_are_equal_without_loss_and_lerp_is_ahead_with_it() -> None:
    assert time_of("lerp", 0.0, 1) == time_of("gbn", 0.0, 1)
    lerp = [time_of("lerp", 0.01, seed) for seed in range(5)]
    gbn_times = [time_of("gbn", 0.01, seed) for seed in range(5)]
    assert sum(gbn_times) > 1.3 * sum(lerp), (lerp, gbn_times)


# -- a receiver that holds --------------------------------------------------------------------------------------


def holding(**changes: Any) -> dict[str, Any]:
    """Attributes for both ends with a reordering receiver."""
    return gbn(cwnd=60, reordering=True, **changes)


@pytest.mark.parametrize("seed", range(5))
def test_reordering_costs_nothing(seed: int) -> None:
    pair = make_pair(**holding())
    net = Network(pair.hs, Weather(reorder=0.3), seed=seed)
    stats, received = transfer(pair, net, 250)
    assert (stats["retransmitted"], stats["naks"], stats["rtos"]) == (0, 0, 0), net.schedule()
    assert 0 < received["rx_held_peak"] <= 60
    assert received["rx_held_bytes_peak"] == 1000 * received["rx_held_peak"]
    q = pair.hs.qp[pair.qp_b.index]
    assert (q["rcv_early"], q["rcv_held"]) == (0, 0)


@pytest.mark.parametrize("seed", range(5))
def test_whoever_asked_too_early_is_answered_when_the_gap_is_filled(seed: int) -> None:
    """A message's last packet asks for an ACK; what it overtook does not."""
    pair = make_pair(config=host_config(ack_every=8), window=1024, **holding())
    net = Network(pair.hs, Weather(reorder=0.3), seed=seed)
    stats, received = transfer(pair, net, 250)
    assert (stats["retransmitted"], stats["rtos"]) == (0, 0), net.schedule()
    assert received["rx_held_peak"] > 0
    assert net.frames < 250 + 200, "ACKs are still put off"


def test_the_peak_is_what_waits_for_one_packet() -> None:
    pair = make_pair(**holding())
    net = Network(pair.hs, Weather())
    late: list[bytes] = []

    def hold_back(_: int, frame: bytes) -> bytes | None:
        f = decode(frame)
        if f["kind"] == "data" and f["psn"] == 5 and not late:
            late.append(frame)
            net._schedule(40 * US, frame)
            return None
        return frame

    net.filter = hold_back
    stats, received = transfer(pair, net, 100)
    assert (received["rx_held_peak"], received["rx_held_bytes_peak"]) == (59, 59_000), "the window of 60 from PSN 5 on"
    assert stats["retransmitted"] == 0


def test_a_loss_behind_a_holding_receiver_needs_the_timeout() -> None:
    pair = make_pair(**holding())
    net = Network(pair.hs, Weather(), filter=losing(data={(7, 0)}))
    stats, received = transfer(pair, net, 30)
    assert (stats["naks"], stats["rtos"], received["rx_naks"]) == (0, 1, 0), net.schedule()


def test_ends_that_do_not_match_are_refused() -> None:
    with pytest.raises(DetourError, match="different transport or receiver"):
        make_pair(attr_a=gbn()["attr_a"])
    with pytest.raises(DetourError, match="reordering receiver is for go-back-N"):
        make_pair(attr_a=QPInitAttr(reordering=True))
