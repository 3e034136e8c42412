# SPDX-License-Identifier: Apache-2.0
"""TCP of the IP hosts: everything arrives whatever the network does, connections open and end as RFC 9293 says, and
segments are what scapy makes of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scapy.layers.inet import IP, TCP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scripted_networks import IpPair

from detour.base.errors import DetourError
from detour.base.times import MS, US
from detour.hosts.ip.addressing import IpHostConfig
from detour.hosts.ip.tcp.config import TcpConfig
from detour.hosts.ip.tcp.layout import ConnRecord
from detour.hosts.ip.tcp.recovery import reduce
from tests.native import from_python

SECOND = 1_000 * MS
MAC_A, MAC_B = "08:00:00:00:01:11", "08:00:00:00:02:22"
A = IpHostConfig(
    "h1", MAC_A, "10.0.0.1/24", ipv6="2001:db8::1/64", neighbours={"10.0.0.2": MAC_B, "2001:db8::2": MAC_B}
)
B = IpHostConfig(
    "h2", MAC_B, "10.0.0.2/24", ipv6="2001:db8::2/64", neighbours={"10.0.0.1": MAC_A, "2001:db8::1": MAC_A}
)


@pytest.fixture
def pair(ip_pair: Callable[..., IpPair]) -> Callable[..., IpPair]:
    """The way to h2 is the narrow one."""

    def make(
        seed: int = 1,
        rate_bps: int = 10**8,
        delay_ps: int = 5 * MS,
        queue: int = 100,
        elide: bool = False,
        access_bps: int = 10**11,
    ) -> IpPair:
        return ip_pair([A, B], [(access_bps, delay_ps, 1 << 12), (rate_bps, 1, queue)], elide=elide, seed=seed)

    return make


def transfer(p: IpPair, nbytes: int, config: TcpConfig, to: str = "10.0.0.2") -> tuple[Any, Any]:
    """What both ends say of a transfer in the end."""
    listener = p.h2.tcp_port(config=config)
    flow = p.h1.tcp(to, nbytes=nbytes, config=config)
    p.net.run(p.net.now_ps + 600 * SECOND)
    (got,) = listener.results()
    return flow.result(), got


@pytest.mark.parametrize("to", ["10.0.0.2", "2001:db8::2"])
@pytest.mark.parametrize("nbytes", [0, 1, 1448, 100_001])
def test_a_stream_arrives_and_both_ends_close(pair: Callable[..., IpPair], to: str, nbytes: int) -> None:
    sent, got = transfer(pair(), nbytes, TcpConfig(), to)
    assert sent.acked == got.bytes == nbytes
    assert sent.done
    assert (sent.state, got.state, sent.error) == ("closed", "closed", "")
    assert (sent.retransmitted, got.corrupt, got.duplicates) == (0, 0, 0)


WEATHERS = {
    "loss": {"loss": 0.08},
    "order": {"late": 0.3, "late_ps": 8 * MS},
    "twice": {"duplicate": 0.2},
    "all": {"loss": 0.04, "late": 0.1, "late_ps": 3 * MS, "duplicate": 0.05, "corrupt": 0.03},
}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("weather", WEATHERS)
@pytest.mark.parametrize("kind", ["rack", "sack", "plain"])
def test_everything_arrives_in_any_weather(pair: Callable[..., IpPair], weather: str, kind: str, seed: int) -> None:
    """All bytes, in order, and no end stays open, with faults on both ways."""
    p = pair(seed)
    p.net.set_faults((1, 2), **WEATHERS[weather])
    config = TcpConfig(
        cc="cubic" if seed % 2 else "newreno",
        sack=kind != "plain",
        timestamps=seed < 2,
        recovery="sack" if kind == "sack" else "rack",
        pacing=seed == 3,
        max_retries=60,
    )
    sent, got = transfer(p, 300_000, config)
    assert sent.acked == got.bytes == 300_000
    assert got.corrupt == 0
    assert (sent.error, sent.state, got.state) == ("", "closed", "closed")
    if weather == "twice":
        assert got.duplicates > 20


def test_segments_are_what_scapy_makes_of_them(pair: Callable[..., IpPair]) -> None:
    p = pair()
    p.net.set_faults((1, 2), loss=0.05)
    p.h1.sniff()
    p.h2.sniff()
    for to in ("10.0.0.2", "2001:db8::2"):
        p.h2.tcp_port(80 + len(to), config=TcpConfig(ecn=True))
        p.h1.tcp(to, port=80 + len(to), nbytes=60_001, config=TcpConfig(ecn=True))
        p.h1.tcp(to, port=9, nbytes=1)
    p.net.run(60 * SECOND)
    packets = [Ether(data) for host in (p.h1, p.h2) for _, data in host.sniffed()]
    kinds = {str(packet[TCP].flags) for packet in packets}
    assert {"SEC", "SAE", "A", "RA"} <= kinds
    assert any(name == "SAck" for packet in packets for name, _ in packet[TCP].options)
    for packet in packets:
        copy = packet.copy()
        del copy[TCP].chksum
        if IP in copy:
            del copy[IP].chksum
        assert bytes(copy) == bytes(packet), packet.show(dump=True)
        assert (IP in packet) != (IPv6 in packet)


def test_the_syn_offers_what_it_should(pair: Callable[..., IpPair]) -> None:
    p = pair()
    p.h1.sniff()
    p.h2.sniff()
    transfer(p, 10, TcpConfig(receive_buffer=1 << 20))
    syn, answer = Ether(p.h2.sniffed()[0][1])[TCP], Ether(p.h1.sniffed()[0][1])[TCP]
    for segment in (syn, answer):
        options = dict(segment.options)
        assert options["MSS"] == 1460
        assert options["WScale"] == 5
        assert "SAckOK" in options
        assert "Timestamp" in options


def test_a_port_without_a_listener_refuses(pair: Callable[..., IpPair]) -> None:
    p = pair()
    flow = p.h1.tcp("10.0.0.2", nbytes=10)
    p.net.run(SECOND)
    assert (flow.result().state, flow.result().error) == ("closed", "refused")


def test_a_peer_that_is_silent_is_given_up(pair: Callable[..., IpPair]) -> None:
    p = pair()
    p.net.set_faults((1, 2), loss=1.0)
    flow = p.h1.tcp("10.0.0.2", nbytes=10, config=TcpConfig(max_retries=4))
    p.net.run(30 * SECOND)
    assert flow.result().error == ""
    # 1 + 2 + 4 + 8 + 16 s (RFC 6298, 5.5)
    p.net.run(32 * SECOND)
    assert (flow.result().state, flow.result().error) == ("closed", "timed out")
    assert flow.result().sent_segments == 5


def test_a_reset_in_the_window_that_is_not_next_is_challenged(pair: Callable[..., IpPair]) -> None:
    """RFC 5961, 3.2."""
    p = pair()
    p.h2.sniff()
    listener = p.h2.tcp_port()
    flow = p.h1.tcp("10.0.0.2")
    p.net.run(SECOND // 2)
    flow.close()
    data = [Ether(frame)[TCP] for _, frame in p.h2.sniffed()]
    last = data[-1]
    ip = IP(src="10.0.0.1", dst="10.0.0.2")
    away = (last.seq + 50_000) & 0xFFFFFFFF
    forged = TCP(sport=last.sport, dport=last.dport, seq=away, flags="R")
    p.h1.send_frames([Ether(dst=MAC_B, src=MAC_A) / ip / forged])
    p.net.run(2 * SECOND)
    (got,) = listener.results()
    assert got.bytes == flow.result().acked
    assert (flow.result().error, got.state) == ("", "closed")


def test_a_small_window_of_the_peer_is_kept(pair: Callable[..., IpPair]) -> None:
    p = pair(delay_ps=50 * MS)
    listener = p.h2.tcp_port(config=TcpConfig(receive_buffer=20_000))
    flow = p.h1.tcp("10.0.0.2", nbytes=500_000)
    p.net.run(60 * SECOND)
    assert listener.results()[0].bytes == 500_000
    assert listener.results()[0].dropped == 0
    # A window of 13 segments a round trip of 100 ms, hardly more.
    assert flow.result().goodput_bps < 20_000 * 8 / 0.1 * 1.05


def test_timeouts_follow_rfc_6298(pair: Callable[..., IpPair]) -> None:
    """The link is cut for 5 s: timeouts double, and what comes after goes on."""
    p = pair(queue=1 << 12)
    config = TcpConfig(min_rto_ps=SECOND, recovery="sack")
    listener = p.h2.tcp_port(config=config)
    flow = p.h1.tcp("10.0.0.2", nbytes=2_000_000, config=config)
    p.net.run(60 * MS)
    p.net.set_link((1, 2), False)
    p.net.run(5 * SECOND)
    # due at about 1 and 3 s after the last acknowledgement, and next at 7 s
    assert flow.result().timeouts == 2
    assert flow.result().cwnd == 1.0
    p.net.set_link((1, 2), True)
    p.net.run(60 * SECOND)
    assert listener.results()[0].bytes == 2_000_000


def test_three_sacked_segments_make_a_hole_lost_and_one_reduction(pair: Callable[..., IpPair]) -> None:
    """RFC 6675: one loss in a full window costs half the window once and no timeout."""
    for recovery in ("sack", "rack"):
        p = pair(queue=1 << 12, rate_bps=10**9)
        config = TcpConfig(cc="newreno", recovery=recovery)
        p.h2.tcp_port(config=config)
        flow = p.h1.tcp("10.0.0.2", nbytes=3_000_000, config=config, curve_ps=1)
        p.net.run(52 * MS)
        _until_a_burst(p)
        _lose_all(p, 40 * US)
        p.net.run(60 * SECOND)
        result = flow.result()
        assert 0 < result.lost == result.retransmitted < 20
        assert result.timeouts == 0
        windows = result.curve["cwnd"]
        drops = np.flatnonzero(np.diff(windows) < -1)
        assert len(drops) == 1
        assert windows[drops[0] + 1] == pytest.approx(windows[drops[0]] / 2, abs=1.5)


REDUCE = from_python(reduce)


def _recovery(lost: int, acks: int) -> tuple[list[int], int]:
    """What proportional rate reduction sends for each ACK from the third duplicate on, and what is under way then, in
    the examples of RFC 6937 (3.1): of a window of 20 segments the first `lost` are missing, two more went out for the
    first two duplicates, and the target is 10."""
    conn = np.zeros(1, ConnRecord.dtype)
    c = conn[0]
    c["sack_ok"], c["cwnd"], c["recover"] = 1, 10.0, 1
    # 22 were sent, two were SACKed before this recovery (RFC 9937).
    c["recover_fs"], c["prr_limit"], c["delivered"] = 20, 1, 1
    c["inflight"] = 20 - lost
    sent = []
    for _ in range(acks):
        c["inflight"] -= 1
        REDUCE(c, False)
        sent.append(int(c["prr_limit"] - c["prr_out"]))
        c["inflight"] += sent[-1]
        c["prr_out"] += sent[-1]
    return sent, int(c["inflight"])


def test_one_loss_is_answered_by_every_second_acknowledgement() -> None:
    """RFC 6937, 3.1, first example: ACKs 3 to 16 as in its table, and the target at ACK 19."""
    sent, under_way = _recovery(1, 17)
    assert sent[:14] == [1, 0] * 7
    assert under_way == 10


def test_many_losses_are_answered_by_as_much_as_arrives() -> None:
    """RFC 6937, 3.1, second example, PRR-CRB: 15 of 20 are lost."""
    assert _recovery(15, 3) == ([1, 1, 1], 5)


def test_an_acknowledgement_that_is_safe_lets_one_more_go() -> None:
    """RFC 9937: below the target a segment more than was delivered; never above it, nor for no delivery."""
    conn = np.zeros(1, ConnRecord.dtype)
    c = conn[0]
    c["sack_ok"], c["cwnd"], c["recover"], c["recover_fs"], c["prr_out"] = 1, 10.0, 1, 20, 9
    for inflight, safe, delivered, more in ((4, True, 1, 2), (4, False, 1, 1), (9, True, 3, 1), (4, True, 0, 1)):
        c["inflight"], c["delivered"] = inflight, delivered
        REDUCE(c, safe)
        assert c["prr_limit"] - c["prr_out"] == more


def test_a_retransmission_that_is_lost_costs_no_second_reduction(pair: Callable[..., IpPair]) -> None:
    """As in Linux: RACK sees it, and the window stays what the first loss has made it. The peer's window is small, so
    that no queue is before the retransmission."""
    p = pair(rate_bps=10**9)
    config = TcpConfig(cc="newreno", receive_buffer=30_000)
    p.h2.tcp_port(config=config)
    flow = p.h1.tcp("10.0.0.2", config=config, curve_ps=1)
    p.net.run(52 * MS)
    _until_a_burst(p)
    _lose_all(p, 40 * US)
    while flow.result().retransmitted == 0:
        p.net.run(p.net.now_ps + US)
    p.net.run(p.net.now_ps + 4_995 * US)  # it is under way for 5 ms
    once = flow.result().lost
    _lose_all(p, 20 * US)
    p.net.run(p.net.now_ps + 100 * MS)
    result = flow.result()
    assert (result.lost > once, result.timeouts) == (True, 0)
    assert len(np.flatnonzero(np.diff(result.curve["cwnd"]) < -1)) == 1


def test_what_is_sacked_later_does_not_put_a_timeout_off(pair: Callable[..., IpPair]) -> None:
    """RFC 6298, 5.3: a retransmission is lost, which RFC 6675 does not see. Data that were sent after it arrive and are
    SACKed all the time; the timeout comes nevertheless, and halves the window, not all that is outstanding by then."""
    p = pair(queue=1 << 12, rate_bps=10**9)
    config = TcpConfig(cc="newreno", recovery="sack")
    p.h2.tcp_port(config=config)
    flow = p.h1.tcp("10.0.0.2", config=config)
    p.net.run(52 * MS)
    _until_a_burst(p)
    _lose_all(p, 40 * US)
    while flow.result().retransmitted == 0:
        p.net.run(p.net.now_ps + 50 * US)
    p.net.run(p.net.now_ps + 5 * MS)  # it is under way for as long
    _lose_all(p, 200 * US)
    p.net.run(p.net.now_ps + 10 * MS)
    stuck = flow.result()
    assert stuck.timeouts == 0
    p.net.run(p.net.now_ps + 100 * MS)
    waiting = flow.result()
    assert (waiting.acked, waiting.timeouts) == (stuck.acked, 0)
    assert waiting.sent_segments > stuck.sent_segments + waiting.cwnd
    p.net.run(p.net.now_ps + 150 * MS)
    after = flow.result()
    assert after.timeouts == 1
    assert after.acked > waiting.acked
    assert after.ssthresh <= waiting.cwnd


def _lose_all(p: IpPair, duration: int) -> None:
    """What comes to h2 for so long is lost."""
    p.net.set_faults((1, 2), loss=1.0, both=False)
    p.net.run(p.net.now_ps + duration)
    p.net.set_faults((1, 2), loss=0.0, both=False)


def _until_a_burst(p: IpPair) -> None:
    """Runs until segments come in one behind the other."""
    for _ in range(1000):
        before = p.h2.counters()["rx_frames"]
        p.net.run(p.net.now_ps + 100 * US)
        if p.h2.counters()["rx_frames"] > before + 6:
            return
    raise AssertionError("no burst")


def test_a_lost_tail_is_probed(pair: Callable[..., IpPair]) -> None:
    """RFC 8985, 7: the last segments are lost; with a probe that takes two round trips, without one a timeout."""
    took = {}
    for recovery in ("rack", "sack"):
        p = pair()
        config = TcpConfig(recovery=recovery)
        listener = p.h2.tcp_port(config=config)
        flow = p.h1.tcp("10.0.0.2", nbytes=10 * 1448, config=config)
        p.net.run(10_500 * US)
        _lose_all(p, 19_500 * US)
        p.net.run(60 * SECOND)
        assert listener.results()[0].bytes == 14_480
        took[recovery] = flow.result().last_ack_ps
        assert flow.result().probes == (1 if recovery == "rack" else 0)
    assert took["rack"] < took["sack"] - 100 * MS


def test_a_probe_whose_turn_comes_after_the_acknowledgement_stops_nobody(pair: Callable[..., IpPair]) -> None:
    """Eight connections share a slow link of the host, so that two round trips pass before each has its turn."""
    p = pair(rate_bps=10**9, delay_ps=10 * US, access_bps=10**8)
    p.h2.tcp_port()
    flows = [p.h1.tcp("10.0.0.2", nbytes=100_000) for _ in range(8)]
    p.net.run(SECOND)
    assert [flow.result().acked for flow in flows] == [100_000] * 8


def test_ecn_reduces_the_window_without_a_loss(pair: Callable[..., IpPair]) -> None:
    """Marks put on by hand: the receiver echoes until CWR, the sender reduces once a window (RFC 3168, 6.1)."""
    p = pair(elide=True)
    config = TcpConfig(cc="newreno", ecn=True)
    listener = p.h2.tcp_port(config=config)
    flow = p.h1.tcp("10.0.0.2", nbytes=400_000, config=config, tos=1)
    p.net.run(60 * SECOND)
    assert flow.result().ece_acks == 0
    assert listener.results()[0].ce == 0
    assert flow.result().acked == 400_000


@pytest.mark.parametrize("cc", ["newreno", "cubic", "dctcp"])
def test_the_same_seed_gives_the_same_curve(pair: Callable[..., IpPair], cc: str) -> None:
    curves = []
    for elide in (False, True):
        p = pair(7, elide=elide)
        p.net.set_faults((1, 2), loss=0.01)
        p.h2.tcp_port(config=TcpConfig(cc=cc))
        flow = p.h1.tcp("10.0.0.2", nbytes=2_000_000, config=TcpConfig(cc=cc), curve_ps=1)
        p.net.run(100 * SECOND)
        curves.append(flow.result().curve)
    assert len(curves[0]) > 500
    assert (curves[0] == curves[1]).all()


def test_wrong_parameters_are_named(pair: Callable[..., IpPair]) -> None:
    p = pair()
    for wrong, says in (
        (lambda: p.h1.tcp("10.0.0.2", config=TcpConfig(cc="dcqcn")), "does not support TCP"),
        (lambda: p.h1.tcp("10.0.0.2", config=TcpConfig(cc="newren")), "newreno"),
        (lambda: p.h1.tcp("10.0.0.2", port=70_000), "port is 70000"),
        (lambda: TcpConfig(window_segments=100), "power of two"),
        (lambda: TcpConfig(recovery="none"), "rack or sack"),
        (lambda: TcpConfig(min_rto_ps=0), "the minimum timeout must be above 0"),
    ):
        with pytest.raises(DetourError, match=says):
            wrong()
    p.h2.tcp_port(80)
    with pytest.raises(DetourError, match="in use"):
        p.h2.tcp_port(80)
