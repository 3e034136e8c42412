# SPDX-License-Identifier: Apache-2.0
"""A write that is not allowed is refused with a remote access error and touches no memory."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from detour.hosts.decode import decode
from detour.hosts.verbs import MR, PD, AccessFlag, QPState, SendWR, WCOpcode, WCStatus
from tests.property.lossy import Network, Pair, Weather, make_pair
from tests.unit.hosts.frames import deliver, next_frame

BOTH = AccessFlag.LOCAL_WRITE | AccessFlag.REMOTE_WRITE
MEMORY = 1 << 16


def run(pair: Pair, count: int, loss: float = 0.0) -> list[tuple[int, WCStatus]]:
    """Runs until `count` completions are there."""
    net = Network(pair.hs, Weather(loss=loss), seed=4)
    done: list[tuple[int, WCStatus]] = []
    assert net.run(lambda: done.extend((wc.wr_id, wc.status) for wc in pair.cq_a.poll()) or len(done) >= count)
    return done


# (address, rkey) of a write of 2,500 bytes that must not be done
VIOLATIONS: dict[str, Callable[[Pair], tuple[int, int]]] = {
    "before the region": lambda p: (p.mr_b.addr - 2500, p.mr_b.rkey),
    "behind the region": lambda p: (p.mr_b.addr + MEMORY, p.mr_b.rkey),
    "far away": lambda p: ((1 << 63) - 1000, p.mr_b.rkey),
    "wrong key byte": lambda p: (p.mr_b.addr, p.mr_b.rkey ^ 1),
    "no such region": lambda p: (p.mr_b.addr, 7 << 8),
    "index beyond the table": lambda p: (p.mr_b.addr, 0xFFFFFF << 8),
    "another host's region": lambda p: (p.mr_a.addr, p.mr_a.rkey),
    "another domain": lambda p: _other(MR(PD(p.b), MEMORY, BOTH, addr=p.mr_b.addr)),
    "no remote write": lambda p: _other(MR(p.pd_b, MEMORY, AccessFlag.LOCAL_WRITE, addr=p.mr_b.addr)),
    "closed region": lambda p: _closed(MR(p.pd_b, MEMORY, BOTH, addr=p.mr_b.addr)),
}


def _other(region: MR) -> tuple[int, int]:
    return region.addr, region.rkey


def _closed(region: MR) -> tuple[int, int]:
    region.close()
    return region.addr, region.rkey


@pytest.mark.parametrize("name", VIOLATIONS)
@pytest.mark.parametrize("loss", [0.0, 0.3])
def test_violation_is_refused_and_touches_nothing(name: str, loss: float) -> None:
    pair = make_pair(memory=MEMORY)
    address, rkey = VIOLATIONS[name](pair)
    before = pair.hs.memory.copy()
    pair.qp_a.post_send(SendWR(1, pair.mr_a.sge(0, 2500), address, rkey, imm_data=5))
    pair.qp_a.post_send(SendWR(2, pair.mr_a.sge(0, 100), address, rkey))
    assert run(pair, 2, loss) == [(1, WCStatus.REM_ACCESS_ERR), (2, WCStatus.WR_FLUSH_ERR)]
    assert (before == pair.hs.memory).all()
    assert pair.qp_a.state is QPState.ERR
    assert pair.qp_b.state is QPState.ERR
    assert pair.cq_b.poll() == [], "an immediate of a refused message is not delivered"


@pytest.mark.parametrize(("offset", "touched"), [(MEMORY - 1500, (MEMORY - 1500, MEMORY - 500)), (-1, None)])
def test_what_crosses_an_edge_is_refused_and_touches_nothing_outside(
    offset: int, touched: tuple[int, int] | None
) -> None:
    """Each packet is checked by itself: those inside the region that come before the first violation are placed."""
    pair = make_pair(memory=MEMORY)
    before = pair.hs.memory.copy()
    pair.qp_a.post_send(SendWR(1, pair.mr_a.sge(0, 2500), pair.mr_b.addr + offset, pair.mr_b.rkey))
    assert run(pair, 1) == [(1, WCStatus.REM_ACCESS_ERR)]
    if touched:
        start, end = (pair.mr_b.addr + edge for edge in touched)
        before[start:end] = pair.hs.memory[start:end]
    assert (before == pair.hs.memory).all()


def test_requests_before_the_violation_complete_in_order() -> None:
    for loss in (0.0, 0.2):
        pair = make_pair(memory=MEMORY)
        for number in range(5):
            rkey = pair.mr_b.rkey ^ (number == 3)
            offset = number * 10_000
            pair.qp_a.post_send(SendWR(number, pair.mr_a.sge(offset, 10_000), pair.mr_b.addr + offset, rkey))
        ok, bad, flushed = WCStatus.SUCCESS, WCStatus.REM_ACCESS_ERR, WCStatus.WR_FLUSH_ERR
        assert [status for _, status in run(pair, 5, loss)] == [ok, ok, ok, bad, flushed]
        assert pair.mr_b.read(30_000) == pair.mr_a.read(30_000)


def test_nothing_is_accepted_behind_a_violation() -> None:
    pair = make_pair(memory=MEMORY)
    pair.write(1000)
    pair.qp_a.post_send(SendWR(2, pair.mr_a.sge(0, 1000), pair.mr_b.addr, 0))
    pair.qp_a.post_send(SendWR(3, pair.mr_a.sge(0, 1000), pair.mr_b.addr + 5000, pair.mr_b.rkey))
    first, refused, behind = (next_frame(pair, 0) for _ in range(3))
    before = pair.hs.memory.copy()
    deliver(pair, 1, refused)
    deliver(pair, 1, behind)
    assert (before == pair.hs.memory).all()
    for _ in range(2):
        nak = decode(next_frame(pair, 1))
        assert (nak["syndrome"], nak["psn"]) == (0x62, decode(refused)["psn"]), "the NAK names the refused packet"
    assert pair.qp_b.state is QPState.RTS, "what precedes the violation may still come"
    deliver(pair, 1, first)
    assert pair.mr_b.read(1000) == pair.mr_a.read(1000)
    assert pair.qp_b.state is QPState.ERR
    deliver(pair, 1, refused)
    assert decode(next_frame(pair, 1))["syndrome"] == 0x1F
    assert decode(next_frame(pair, 1))["syndrome"] == 0x62, "a lost NAK can be had again"


def test_zero_length_writes_need_no_region() -> None:
    pair = make_pair(memory=MEMORY)
    pair.qp_a.post_send(SendWR(1, pair.mr_a.sge(0, 0), 0, 0, imm_data=9))
    assert run(pair, 1) == [(1, WCStatus.SUCCESS)]
    (wc,) = pair.cq_b.poll()
    assert (wc.opcode, wc.imm_data, wc.byte_len) == (WCOpcode.RECV_RDMA_WITH_IMM, 9, 0)


def test_frames_of_strangers_are_ignored() -> None:
    pair = make_pair(memory=MEMORY)
    pair.write(1000)
    frame = next_frame(pair, 0)
    before = pair.hs.memory.copy()
    # another pair's QP with the same number but another peer address
    pair.hs.qp[pair.qp_b.index]["peer_lo"] += 1
    deliver(pair, 1, frame)
    deliver(pair, 0, frame)
    assert pair.b.stats()["rx_unknown_qp"] == 1
    assert pair.a.stats()["rx_not_mine"] == 1
    assert (before == pair.hs.memory).all()
    assert next_frame(pair, 1) == b""


def test_a_full_completion_queue_delays_an_immediate_and_loses_nothing() -> None:
    pair = make_pair(memory=MEMORY, cq_depth=4)
    net = Network(pair.hs, Weather())
    sent, got = 0, []
    for _ in range(12):
        pair.qp_a.post_send(SendWR(sent, pair.mr_a.sge(0, 10), pair.mr_b.addr, pair.mr_b.rkey, imm_data=sent))
        sent += 1
        net.run(lambda: False, limit_ps=net.now + 3_000_000_000)
        pair.cq_a.poll()
        if pair.qp_b.stats()["rx_not_ready"]:
            break
    assert pair.qp_b.stats()["rx_not_ready"], "the responder ran out of room"
    for _ in range(60):
        got += [wc.imm_data for wc in pair.cq_b.poll()]
        net.run(lambda: False, limit_ps=net.now + 3_000_000_000)
    assert got == list(range(sent))
    assert pair.qp_a.state is QPState.RTS


def test_both_directions_at_once() -> None:
    pair = make_pair(memory=MEMORY)
    mr = MR(pair.pd_a, 20_000, BOTH, addr=pair.mr_a.addr + 30_000)
    pair.write(20_000)
    pair.mr_b.write(b"b" * 20_000, 30_000)
    pair.qp_b.post_send(SendWR(2, pair.mr_b.sge(30_000, 20_000), mr.addr, mr.rkey))
    net = Network(pair.hs, Weather(loss=0.1), seed=1)
    done: list[int] = []
    assert net.run(lambda: done.extend(w.wr_id for w in pair.cq_a.poll() + pair.cq_b.poll()) or len(done) == 2)
    assert mr.read() == b"b" * 20_000
    assert pair.mr_b.read(20_000) == pair.mr_a.read(20_000)


def test_posting_on_a_failed_qp_is_flushed() -> None:
    pair = make_pair(memory=MEMORY)
    pair.qp_a.post_send(SendWR(1, pair.mr_a.sge(0, 100), pair.mr_b.addr, 0))
    assert run(pair, 1) == [(1, WCStatus.REM_ACCESS_ERR)]
    pair.write(100, 2)
    assert [(wc.wr_id, wc.status) for wc in pair.cq_a.poll()] == [(2, WCStatus.WR_FLUSH_ERR)]
