# SPDX-License-Identifier: Apache-2.0
"""Equal senders share a full queue: no phase between them decides whose packets are dropped."""

from __future__ import annotations

import numpy as np
import pytest
from script_program import CrossProgram, ScriptState
from test_native_hosts import GBIT, US, Pair

from detour.engine.clock import Virtual
from detour.engine.jitter import FULL_FRAME_BYTES
from detour.engine.network import Network
from detour.experiments.bench import fairness
from detour.experiments.running import jain
from detour.hosts.config import HostConfig

_EVERY_SECOND = (1, 8)
"""seeds with which senders begin together, and a microsecond apart"""


@pytest.mark.parametrize("senders", fairness.EQUAL_SENDERS)
@pytest.mark.parametrize("name", ["LERP, DCTCP, no marks", "LERP, DCTCP"])
def test_rdma_senders_are_equal(name: str, senders: int) -> None:
    for seed in _EVERY_SECOND:
        assert jain(fairness.rdma_shares(*fairness.RDMA_SENDERS[name], senders, seed)) >= fairness.FAIR_INDEX


def test_no_sender_with_a_fixed_window_is_left_behind() -> None:
    """Of two whose windows were used up by a packet that was lost again and again, one got 14 % of its share."""
    for seed in (9, 18):
        shares = fairness.rdma_shares(*fairness.RDMA_SENDERS["LERP, fixed window, no marks"], 8, seed)
        assert jain(shares) >= fairness.FAIR_INDEX


@pytest.mark.parametrize("senders", fairness.EQUAL_SENDERS)
def test_udp_senders_are_equal(senders: int) -> None:
    for seed in _EVERY_SECOND:
        assert jain(fairness.udp_shares(senders, seed)) >= fairness.FAIR_INDEX


@pytest.mark.parametrize(("control", "senders", "seed"), [("newreno", 2, 15), ("newreno", 3, 20), ("cubic", 3, 9)])
def test_tcp_senders_are_equal(control: str, senders: int, seed: int) -> None:
    """The seeds that were worst when a lost retransmission cut a window twice: 0.963, 0.971, 0.970."""
    assert jain(fairness.tcp_shares(control, senders, seed)) >= fairness.FAIR_INDEX


def _arrivals(jitter_ps: int, seed: int = 3) -> np.ndarray:
    """When data frames come to the second switch's host on an idle way, ps."""
    pair = Pair(Virtual(), HostConfig(line_rate_start=True), seed)
    times = []
    with pair.net as net:
        if jitter_ps >= 0:
            net.set_jitter(jitter_ps, 1102)
        pair.post()
        arrived = 0
        while not pair.done():
            net.run(net.now_ps + 5_000)
            now = int(net.host_stats()["rx_packets"][1])
            times += [net.now_ps] * (now - arrived)
            arrived = now
    return np.array(times)


def test_jitter_delays_by_less_than_it_says_and_keeps_the_rate() -> None:
    exact, late = _arrivals(-1), _arrivals(80_000)
    delay = late - exact[: len(late)]
    assert len(late) == len(exact)
    assert delay.min() >= -5_000
    assert 60_000 < delay.max() <= 80_000 + 5_000 + 88_160  # a frame behind a late one may wait for it at the switch
    assert late[-1] - late[0] == pytest.approx(exact[-1] - exact[0], rel=0.01)
    assert np.array_equal(late, _arrivals(80_000))
    assert not np.array_equal(late, _arrivals(80_000, seed=4)[: len(late)])
    assert np.array_equal(exact, _arrivals(0))


def test_the_slowest_link_says_how_much() -> None:
    pair = Pair(Virtual(), HostConfig())
    with pair.net as net:
        net.set_rate((1, 2), GBIT)
        net.set_jitter()
        per_byte = net._memory.column("channels", "jitter") / 256
        assert sorted(per_byte[per_byte > 0]) == pytest.approx([16_000, 16_000], rel=1e-3)
        net.set_queue((1, 2), rate_pps=1_000)
        net.set_jitter()
        per_byte = net._memory.column("channels", "jitter") / 256
        assert per_byte.max() * FULL_FRAME_BYTES == pytest.approx(2 * 10**9, rel=1e-3)


def test_a_network_is_idle_when_nothing_will_happen() -> None:
    pair = Pair(Virtual(), HostConfig())
    with pair.net as net:
        net.run(100 * US)
        assert net.idle
        pair.post()
        assert not net.idle
        net.run(net.now_ps + 10_000 * US)
        assert pair.done()
        assert net.idle


def test_no_hosts_no_jitter() -> None:
    with Network(Virtual()) as net:
        net.add_switch(1)
        net.set_pipeline(1, CrossProgram(), ScriptState())
        net.set_jitter()
        assert not net._memory.column("channels", "jitter").any()
