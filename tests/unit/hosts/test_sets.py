# SPDX-License-Identifier: Apache-2.0
"""A weighted set of paths: whose turn it is, what retires a path and what restores it."""

from __future__ import annotations

from collections import Counter
from ipaddress import IPv6Address
from typing import Any

import pytest

from detour.base.dataplane import TRIMMED_DSCP
from detour.base.errors import DetourError
from detour.hosts.config import HostConfig
from detour.hosts.decode import decode
from detour.hosts.state import MAX_TIME
from detour.hosts.verbs import Path, QPInitAttr
from tests.property.lossy import US, Network, Pair, Weather, complete, through_switches
from tests.unit.hosts.test_spray import PACKETS, ROUND_TRIP, Sent, begin

SET = [Path(k) for k in range(1, 9)]


def sending(weather: Weather, **options: Any) -> tuple[Pair, Network]:
    return begin(weather, "pathset", paths=options.pop("paths", SET), **options)


def candidate(pair: Pair, sport: int) -> Any:
    rows = pair.hs.candidate[pair.qp_a.index]
    return next(rows[k] for k in range(len(SET)) if rows[k]["sport"] == sport)


class Frames(Sent):
    """Remembers (kind, source port) of what went by one port, and its times."""

    def __init__(self, lose: Any) -> None:
        super().__init__(lose)
        self.seen: list[tuple[str, int]] = []

    def __call__(self, host: int, frame: bytes) -> bytes | None:
        f = decode(frame)
        self.seen.append((f["kind"], f["sport"]))
        return super().__call__(host, frame)


def test_equal_paths_have_equal_shares() -> None:
    sent = Sent()
    complete(*sending(Weather(), keep=sent), PACKETS)
    counts = Counter(sent.sports)
    assert max(counts.values()) - min(counts.values()) <= len(SET)


def test_shares_are_as_weights() -> None:
    sent = Sent()
    complete(*sending(Weather(), keep=sent, paths=[Path(1), Path(2, weight=2), Path(3, weight=5)]), PACKETS)
    share = {sport: count / PACKETS for sport, count in Counter(sent.sports).items()}
    assert share == pytest.approx({1: 1 / 8, 2: 2 / 8, 3: 5 / 8}, abs=0.02)


@pytest.mark.parametrize("window", [10, 21])
@pytest.mark.parametrize("weights", [[1, 3] * 16, [255, 1], [1, 2, 5], [9, *[1] * 9]], ids=str)
def test_shares_are_as_weights_also_with_few_packets_in_flight(weights: list[int], window: int) -> None:
    """Within 2 % of the largest share; a round trip lasts for longer than the packets in flight take."""
    sent, packets = Sent(), 768
    attr = QPInitAttr(psn=0, congestion_control="fixed", initial_cwnd=window)
    paths = [Path(k, weight=weight) for k, weight in enumerate(weights, 1)]
    complete(*sending(Weather(), keep=sent, paths=paths, attr_a=attr, packets=packets), packets)
    counts, largest = Counter(sent.sports), max(weights)
    for weight in set(weights):
        packets_of = sum(counts[k] for k, each in enumerate(weights, 1) if each == weight)
        share = weights.count(weight) * weight / sum(weights)
        assert abs(packets_of / packets - share) <= 0.02 * weights.count(weight) * largest / sum(weights)


def test_a_heavy_path_that_takes_longer_gets_less_than_its_weight() -> None:
    sent = Sent()
    paths = [Path(1, weight=30), Path(2), Path(3)]
    slow = Weather(delay_of=lambda sport: (100 if sport == 1 else 5) * US)
    complete(*sending(slow, keep=sent, paths=paths, packets=600), 600)
    counts = Counter(sent.sports)
    assert counts[1] < 0.8 * 600, "its weight is 0.94"
    assert min(counts[2], counts[3]) > 0.05 * 600


class Trims(Sent):
    """A filter that cuts every tenth data packet to its headers, as a switch does whose queue is full."""

    def __call__(self, host: int, frame: bytes) -> bytes | None:
        super().__call__(host, frame)
        if decode(through_switches(frame))["kind"] != "data" or len(self.sports) % 10:
            return frame
        cut = bytearray(frame[:144])
        for ip in (14, 62)[: 1 + (frame[54] == 41)]:  # the outer header, and an inner one
            first = int.from_bytes(cut[ip : ip + 4], "big") & ~(0x3F << 22) | TRIMMED_DSCP << 22
            cut[ip : ip + 6] = first.to_bytes(4, "big") + (144 - ip - 40).to_bytes(2, "big")
        return bytes(cut)


@pytest.mark.parametrize("choice", ["pathset", "spray", "fixed"])
def test_trimmed_packets_are_sent_again_and_retire_no_path(choice: str) -> None:
    dctcp = QPInitAttr(psn=0)
    stats = complete(*begin(Weather(), choice, keep=Trims(), paths=SET, attr_a=dctcp, attr_b=dctcp), PACKETS)
    assert stats["retransmitted"] == stats["lost"] == pytest.approx(PACKETS / 9, abs=PACKETS / 60)
    assert (stats["failovers"], stats["rtos"], stats["spurious"]) == (0, 0, 0)
    assert stats["cwnd"] < 64, "it is congestion"


def test_trimmed_packets_cost_go_back_n_what_lost_ones_do() -> None:
    gbn = QPInitAttr(psn=0, transport="gbn")
    stats = complete(*begin(Weather(), "fixed", keep=Trims(), paths=SET[:1], attr_a=gbn, attr_b=gbn), PACKETS)
    assert stats["naks"] > 0


def test_weights_out_of_range() -> None:
    with pytest.raises(DetourError, match="weight 0 of a path must be 1 to 255"):
        Path(1, weight=0)


def test_a_path_that_takes_longer_gets_less() -> None:
    sent = Sent()
    complete(*sending(Weather(delay_of=lambda sport: (20 if sport == 3 else 5) * US), keep=sent), PACKETS)
    counts = Counter(sent.sports)
    assert counts[3] < 0.5 * counts[4]


def test_one_loss_retires_a_path_until_a_probe_is_answered() -> None:
    gone: list[int] = []

    def loses(f: dict[str, Any], number: int) -> bool:
        first = f["kind"] == "data" and f["sport"] == 3 and number > 200 and not gone
        first_answer = f["kind"] == "ptr" and f["sport"] == 3 and frames.seen.count(("ptr", 3)) == 1
        gone.extend([number] * first)
        return first or first_answer

    frames = Frames(loses)
    stats = complete(*sending(Weather(), keep=frames), PACKETS)
    assert (stats["failovers"], stats["lost"], stats["rtos"]) == (1, 1, 0)
    of_path = [kind for kind, sport in frames.seen if sport == 3]
    asked, restored = of_path.index("ptm"), len(of_path) - of_path[::-1].index("ptr")
    assert of_path.count("ptm") == 2, "the first one is not answered"
    assert of_path[asked:restored].count("data") == 0, "no data while it is asked"
    assert of_path[restored:].count("data") > 10, "and then it carries data again"


def test_a_path_that_flaps_is_asked_less_and_less_often() -> None:
    """It breaks whenever it has been restored."""
    nets: list[Network] = []
    weather = Weather(dead=lambda sport, now: sport == 3 and now > 60 * US and bool(nets) and carries())
    pair, net = sending(weather)
    nets.append(net)
    c = candidate(pair, 3)

    def carries() -> bool:
        return int(c["answered"]) != MAX_TIME

    strikes: list[int] = []
    for _ in range(2):
        assert net.run(lambda: not carries()), net.schedule()
        strikes.append(int(c["strikes"]))
        assert net.run(carries), net.schedule()
    assert strikes == [0, 1]


def test_a_dead_path_is_left_in_less_than_two_round_trips_and_comes_back() -> None:
    sent = Sent()
    weather = Weather(dead=lambda sport, now: sport == 3 and 60 * US < now < 150 * US)
    pair, net = sending(weather, keep=sent)
    c = candidate(pair, 3)
    assert net.run(lambda: int(c["answered"]) == MAX_TIME), net.schedule()
    assert net.now < 60 * US + 2 * ROUND_TRIP
    stats = complete(pair, net, PACKETS)
    assert (stats["failovers"], stats["rtos"]) == (1, 0)
    assert 3 in sent.sports[-50:]


def test_where_nobody_answers_it_is_no_path() -> None:
    weather = Weather(dead=lambda sport, now: 60 * US < now < 60 * US + 8 * ROUND_TRIP)
    complete(*sending(weather), PACKETS)


def test_paths_that_all_lose_go_on_being_used() -> None:
    complete(*sending(Weather(loss=0.2), config=HostConfig(every_loss_cuts=False)), PACKETS)


LISTS = [Path(k, usids=(2, k, 0x8001)) for k in range(1, 9)]


@pytest.mark.parametrize("trims", [False, True])
def test_lists_may_be_outer_addresses(trims: bool) -> None:
    """H.Encaps.Red: the peer's address is inside, and sums are over it."""
    seen: set[tuple[int, int, str, str]] = set()
    sent = Trims() if trims else Sent()

    def keep(host: int, frame: bytes) -> bytes | None:
        if frame[20] == 0 and frame[54] == 41 and len(frame) > 1000:
            outer, inner = (str(IPv6Address(frame[at : at + 16])) for at in (38, 86))
            seen.add((len(frame), int.from_bytes(frame[66:68], "big"), outer, inner))
        return sent(host, frame)

    dctcp, config = QPInitAttr(psn=0), HostConfig(encapsulates=True)
    stats = complete(*sending(Weather(), keep=keep, paths=LISTS, config=config, attr_a=dctcp, attr_b=dctcp), PACKETS)
    udp = 8 + 12 + 16 + 1000 + 4
    assert seen == {(14 + 40 + 8 + 40 + udp, udp, "fcbb:bb00:8001::", "fd00:0:1:2::1")}
    assert (stats["retransmitted"] > 0) is trims
    assert (stats["failovers"], stats["rtos"]) == (0, 0)


def test_encapsulated_packets_have_less_room() -> None:
    with pytest.raises(DetourError, match="payload is 4096; it must be at most 4056"):
        HostConfig(encapsulates=True, payload=4096)
