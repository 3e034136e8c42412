# SPDX-License-Identifier: Apache-2.0
"""A sender believes a peer field by field, and only what can be true (the table in docs/transports-reference.md)."""

from __future__ import annotations

from typing import Any

import pytest

from detour.hosts.config import HostConfig
from detour.hosts.decode import decode
from detour.hosts.endpoint import expire
from detour.hosts.parameters import host_config
from detour.hosts.transport import TRANSPORT_REGISTRY
from detour.hosts.verbs import (
    MR,
    QP,
    AccessFlag,
    Path,
    QPInitAttr,
    QPState,
    SendWR,
    WCStatus,
)
from tests.property.lossy import US, Pair, make_pair, mark
from tests.unit.hosts.frames import deliver, next_frame, reseal

P = 0x010000
"""first PSN; five packets of ten are sent"""
SENT = 5
WINDOW = 64
BTH = 62
PLACES = {
    "qpn": (BTH + 5, 3), "psn": (BTH + 9, 3), "syndrome": (BTH + 12, 1), "msn": (BTH + 13, 3), "trigger": (BTH + 17, 3),
    "count": (BTH + 20, 1), "base": (BTH + 21, 3), "bitmap": (BTH + 28, 8),
}  # fmt: skip
"""where an answer, which has no hop-by-hop header, has its fields"""


def change(frame: bytes, places: dict[str, tuple[int, int]] = PLACES, /, **fields: int) -> bytes:
    """The frame with these fields and sums that are right."""
    work = bytearray(frame)
    for name, value in fields.items():
        at, width = places[name]
        work[at : at + width] = (value & ((1 << 8 * width) - 1)).to_bytes(width, "big")
    return reseal(work)


def connection(transport: str, **options: Any) -> tuple[Pair, list[bytes], bytes]:
    """A pair, the first five data packets of ten, and the ACK of the first two: PSN and trigger P + 1."""
    attr = QPInitAttr(psn=P, transport=transport, congestion_control="fixed", initial_cwnd=40)
    pair = make_pair(attr_a=attr, attr_b=attr, window=WINDOW, **options)
    pair.write(10_000)
    data = [next_frame(pair, 0) for _ in range(SENT)]
    deliver(pair, 1, data[0])
    next_frame(pair, 1)
    deliver(pair, 1, data[1])
    return pair, data, next_frame(pair, 1)


def books(pair: Pair) -> dict[str, Any]:
    """What an answer may change at the sender."""
    q = pair.hs.qp[pair.qp_a.index]
    names = (
        "snd_una snd_nxt sq_una nak_seq inflight n_lost srtt retries cwnd delay state st_cnps st_ptrs st_naks st_lost"
    )
    return {name: q[name].item() for name in names.split()}


NOT_ANSWERS: dict[str, dict[str, int]] = {
    "a PSN never sent": {"psn": P + SENT},
    "the last PSN that will be sent": {"psn": P + 9},
    "a PSN far ahead": {"psn": P + 0x7FFFFF},
    "a PSN behind the window": {"psn": P - WINDOW - 1},
    "a PSN far behind": {"psn": P - 0x7FFFFF},
    "caused by a packet never sent": {"trigger": P + SENT},
    "caused by a transmission never made": {"count": 1},
    "a count that no packet has": {"count": 0x80},
    "no such syndrome": {"syndrome": 0x63},
    "an ACK with credits": {"syndrome": 0},
    "refused, what was never sent": {"syndrome": 0x62, "psn": P + SENT, "trigger": P + SENT},
    "refused, about another packet": {"syndrome": 0x62, "psn": P, "trigger": P + 1},
    "refused, before the first packet": {"syndrome": 0x62, "psn": P - 1, "trigger": P - 1},
    "not ready for what was never sent": {"syndrome": 0x20, "psn": P + SENT, "trigger": P + SENT},
}
ONLY_LERP: dict[str, dict[str, int]] = {
    "a bitmap with what was never sent": {"psn": P - 1, "base": P, "bitmap": 0b100010},
    "a bitmap that begins elsewhere": {"psn": P - 1, "base": P + 1, "bitmap": 0b11},
    "a bitmap that begins far away": {"psn": P - 1, "base": P + 0x400000, "bitmap": 0b10},
    "a bitmap without the packet that it answers": {"psn": P - 1, "base": P, "bitmap": 0b100},
    "no bitmap although something is missing": {"psn": P - 1, "base": P},
    "a sequence error, which LERP does not have": {"syndrome": 0x60, "psn": P, "trigger": P + 1},
}
ONLY_GBN: dict[str, dict[str, int]] = {
    "a sequence error about what was never sent": {"syndrome": 0x60, "psn": P + SENT, "trigger": P + SENT + 1},
    "a sequence error without a packet that came early": {"syndrome": 0x60, "psn": P + 1},
    "a sequence error by a transmission never made": {"syndrome": 0x60, "psn": P, "count": 5},
    "a sequence error behind the window": {"syndrome": 0x60, "psn": P - WINDOW - 1},
}
CASES = [("lerp", name) for name in NOT_ANSWERS | ONLY_LERP]
CASES += [("gbn", name) for name in NOT_ANSWERS | ONLY_GBN]


@pytest.mark.parametrize(("transport", "name"), CASES)
def test_what_is_no_answer_changes_nothing(transport: str, name: str) -> None:
    pair, _, ack = connection(transport)
    before = books(pair)
    deliver(pair, 0, change(ack, **(NOT_ANSWERS | ONLY_LERP | ONLY_GBN)[name]), US)
    assert books(pair) == before
    assert pair.qp_a.stats()["answers_dropped"] == 1
    assert pair.cq_a.poll() == []
    deliver(pair, 0, ack, US)
    assert books(pair)["snd_una"] == P + 2, "the true one is believed"
    assert pair.qp_a.stats()["answers_dropped"] == 1


@pytest.mark.parametrize("transport", TRANSPORT_REGISTRY.built_in)
def test_the_last_one_of_a_window_is_believed(transport: str) -> None:
    """An ACK may be as late as a window, name any message and, with go-back-N, have any bitmap."""
    pair, _, ack = connection(transport)
    late = {"psn": P - WINDOW, "msn": 0xABCDEF} | ({"bitmap": -1} if transport == "gbn" else {})
    deliver(pair, 0, change(ack, **late, trigger=P - WINDOW), US)
    assert pair.qp_a.stats()["answers_dropped"] == 0
    assert books(pair)["snd_una"] == P, "and acknowledges nothing any more"


@pytest.mark.parametrize("transport", TRANSPORT_REGISTRY.built_in)
def test_nothing_is_complete_by_an_ack_of_what_was_never_sent(transport: str) -> None:
    """One of half of all PSNs completed whatever was in flight."""
    pair, data, ack = connection(transport)
    data += [next_frame(pair, 0) for _ in range(5)]
    for ahead in (10, 11, 1000, 0x10000, 0x7FFFF0):
        deliver(pair, 0, change(ack, psn=P + ahead, trigger=P + ahead, base=P + ahead + 1), US)
    assert pair.cq_a.poll() == []
    assert pair.qp_a.stats()["answers_dropped"] == 5
    for frame in data[2:]:
        deliver(pair, 1, frame, US)
    while answer := next_frame(pair, 1, US):
        deliver(pair, 0, answer, 2 * US)
    assert [wc.status for wc in pair.cq_a.poll()] == [WCStatus.SUCCESS]
    assert pair.mr_b.read(10_000) == pair.mr_a.read(10_000)


def test_a_refused_packet_is_named_again() -> None:
    """What was sent behind it and what comes late about it is not a lie."""
    attr = QPInitAttr(psn=P, congestion_control="fixed", initial_cwnd=40)
    pair = make_pair(attr_a=attr, attr_b=attr, window=WINDOW)
    pair.write(2000)
    pair.qp_a.post_send(SendWR(2, pair.mr_a.sge(0, 2000), pair.mr_b.addr, pair.mr_b.rkey ^ 1))
    pair.write(2000, 3)
    data = [next_frame(pair, 0) for _ in range(6)]
    for k in (4, 2, 3, 0, 5, 1):
        deliver(pair, 1, data[k])
    answers = [next_frame(pair, 1) for _ in range(6)]
    for k in (1, 0, 1, 2, 4, 3, 5):
        deliver(pair, 0, answers[k], US)
    assert pair.qp_a.stats()["answers_dropped"] == 0
    statuses = [wc.status for wc in pair.cq_a.poll()]
    assert statuses == [WCStatus.SUCCESS, WCStatus.REM_ACCESS_ERR, WCStatus.WR_FLUSH_ERR]


@pytest.mark.parametrize("transport", TRANSPORT_REGISTRY.built_in)
def test_a_failed_connection_takes_no_answers_and_no_data(transport: str) -> None:
    pair, data, ack = connection(transport, config=HostConfig(retry_ps=1))
    expire(pair.hs, 0, 10_000 * US)
    assert pair.qp_a.state is QPState.ERR
    before = books(pair)
    deliver(pair, 0, ack, 10_001 * US)
    deliver(pair, 0, to_the_sender(data[2], pair), 10_001 * US)
    assert pair.a.stats()["rx_wrong_state"] == 2
    assert books(pair) == before


def to_the_sender(frame: bytes, pair: Pair) -> bytes:
    """A data packet sent back to the QP that it is from, as if its peer had written."""
    places = {"qpn": (75, 3), "src": (22, 16), "dst": (38, 16)}
    src, dst = (int.from_bytes(frame[at : at + 16], "big") for at in (22, 38))
    return change(frame, places, qpn=pair.qp_a.qp_num, src=dst, dst=src)


def test_go_back_n_does_not_wait_for_an_hour() -> None:
    """However long a delay the peer reports for the path that is left (here 4.3 s)."""
    attr = QPInitAttr(psn=P, transport="gbn")
    config = host_config(initial_probes=0)
    candidates = [Path(0x0001), Path(0x8123)]
    pair = make_pair(attr_a=attr, attr_b=attr, config=config, connect={"candidates": candidates})
    pair.write(10_000)
    deliver(pair, 1, next_frame(pair, 0))
    places = {"flags": (BTH + 16, 1), "delay": (BTH + 24, 4)}
    deliver(pair, 0, change(next_frame(pair, 1), places, flags=0x82, delay=0xFFFFFFFF), US)
    pair.qp_a.probe()
    while frame := next_frame(pair, 0, US):
        deliver(pair, 1, frame, US)
    while frame := next_frame(pair, 1, US):
        if decode(frame).get("cand") == 1:
            deliver(pair, 0, frame, 2 * US)
    q = pair.hs.qp[pair.qp_a.index]
    assert q["st_reroutes"] == 1
    assert 0 < q["pace_next"] - 2 * US <= config.max_rto_ps


# -- notifications and probes -----------------------------------------------------------------------------------


def with_cnp(control: str = "dcqcn") -> tuple[Pair, bytes]:
    """A pair and a CNP about its first packet; the sender runs `control`."""
    attr = QPInitAttr(psn=P, congestion_control="dcqcn")
    pair = make_pair(
        attr_a=QPInitAttr(psn=P, congestion_control=control), attr_b=attr, config=HostConfig(cnp_interval_ps=US)
    )
    pair.write(10_000)
    deliver(pair, 1, mark(next_frame(pair, 0)))
    frame = next_frame(pair, 1)
    assert decode(frame)["kind"] == "cnp"
    return pair, frame


def test_a_notification_is_believed_by_who_has_sent_what_it_is_about_and_has_dcqcn() -> None:
    pair, cnp = with_cnp()
    idle = QP(pair.pd_a, pair.cq_a, pair.qp_a.attr)
    idle.connect(pair.qp_b.endpoint)
    other, unknown = with_cnp("dctcp")
    for at, frame, qp, believed in (
        (pair, change(cnp, psn=7), pair.qp_a, False),
        (pair, change(cnp, qpn=idle.qp_num), idle, False),
        (other, unknown, other.qp_a, False),
        (pair, cnp, pair.qp_a, True),
    ):
        before = qp.stats()
        deliver(at, 0, frame)
        counted = [qp.stats()[name] - before[name] for name in ("cnps", "answers_dropped")]
        assert counted == [believed, not believed]


PROBE = {"sport": (62, 2), "qpn": (74, 4), "psn": (78, 4), "cand": (86, 2)}
"""where a PTR, which has a hop-by-hop header, has its fields"""


@pytest.mark.parametrize(
    "fields", [{"psn": 1}, {"psn": 0x7FFFFFFF}, {"cand": 0}, {"cand": 2}, {"cand": 0xFFFF}, {"sport": 0x8124}]
)
def test_an_answer_to_a_probe_that_was_not_sent(fields: dict[str, int]) -> None:
    pair = make_pair(connect={"candidates": [Path(0x0001), Path(0x8123)]})
    pair.write(50_000)
    next_frame(pair, 0)
    deliver(pair, 1, next_frame(pair, 0))
    ptr = next_frame(pair, 1)
    assert decode(ptr)["kind"] == "ptr"
    deliver(pair, 0, change(ptr, PROBE, **fields))
    assert (pair.qp_a.stats()["ptrs"], pair.qp_a.stats()["answers_dropped"]) == (0, 1)
    deliver(pair, 0, ptr)
    deliver(pair, 0, ptr)
    assert (pair.qp_a.stats()["ptrs"], pair.qp_a.stats()["answers_dropped"]) == (1, 2), "once"


# -- data -------------------------------------------------------------------------------------------------------

DATA = {"flags": (71, 1), "psn": (79, 3), "va": (82, 8), "rkey": (90, 4), "length": (94, 4)}
"""where a data packet, which has a hop-by-hop header, has its fields"""


def test_a_marked_packet_outside_of_the_window_notifies_nobody() -> None:
    attr = QPInitAttr(psn=P, congestion_control="dcqcn")
    pair = make_pair(attr_a=attr, attr_b=attr, config=HostConfig(cnp_interval_ps=US), window=WINDOW)
    pair.write(1000)
    deliver(pair, 1, mark(change(next_frame(pair, 0), DATA, psn=P + WINDOW)))
    assert pair.b.stats()["rx_out_of_window"] == 1
    assert next_frame(pair, 1) == b""


def test_an_immediate_ends_its_message() -> None:
    pair = make_pair()
    pair.qp_a.post_send(SendWR(1, pair.mr_a.sge(0, 100), pair.mr_b.addr, pair.mr_b.rkey, 5))
    deliver(pair, 1, change(next_frame(pair, 0), DATA, flags=0))
    assert pair.b.stats()["rx_malformed"] == 1
    assert pair.cq_b.poll() == []


def test_the_key_of_an_earlier_registration_opens_nothing() -> None:
    """A write that was under way when its memory was registered anew, by the same receiver in the same row."""
    pair = make_pair(n_mrs=2, attr_a=QPInitAttr(psn=P))
    pair.write(1000)
    late = next_frame(pair, 0)
    before = pair.hs.memory.copy()
    for _ in range(600):
        old, region = pair.mr_b.rkey, pair.mr_b
        region.close()
        access = AccessFlag.LOCAL_WRITE | AccessFlag.REMOTE_WRITE
        pair.mr_b = MR(pair.pd_b, region.length, access, addr=region.addr)
        assert pair.mr_b.rkey != old
        assert pair.hs.mr[1]["used"], "the same row"
    deliver(pair, 1, late)
    assert pair.qp_b.stats()["rx_refused"] == 1
    assert (before == pair.hs.memory).all()
