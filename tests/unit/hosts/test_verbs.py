# SPDX-License-Identifier: Apache-2.0
"""The verbs-like API: objects, errors, statistics; and many QPs on one NIC."""

from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np
import pytest

from detour.base.errors import DetourError
from detour.hosts.config import HostConfig
from detour.hosts.decode import decode
from detour.hosts.endpoint import MAX_FRAME, MAX_TIME, deadline, make_hosts, transmit
from detour.hosts.parameters import host_config
from detour.hosts.state import set_host
from detour.hosts.verbs import (
    CQ,
    MR,
    PD,
    QP,
    SGE,
    AccessFlag,
    Context,
    Device,
    Endpoint,
    Path,
    QPInitAttr,
    QPState,
    SendWR,
)
from tests.property.lossy import Network, Weather, make_pair


def device(n_hosts: int = 1, n_qps: int = 4, arena: int = 1 << 16, **options: object) -> Device:
    """Hosts with addresses."""
    hs = make_hosts(n_hosts, n_qps, arena, **options)  # type: ignore[arg-type]
    for host in range(n_hosts):
        set_host(hs, host, f"fd00::{host + 1}")
    return Device(hs)


def test_memory_is_allocated_freed_and_joined_again() -> None:
    pd = PD(Context(device(n_hosts=1, arena=4096), 0))
    regions = [MR(pd, 1000) for _ in range(4)]
    assert len({region.addr for region in regions}) == 4
    with pytest.raises(DetourError, match="no contiguous 1000 bytes"):
        MR(pd, 1000)
    for region in (regions[0], regions[2], regions[1], regions[3]):
        region.close()
        region.close()
    assert MR(pd, 4096).addr == 0


def test_regions_give_and_take_bytes() -> None:
    pd = PD(Context(device(), 0))
    region = MR(pd, 100)
    region.write(b"hello", 10)
    assert region.read(7, 9) == b"\0hello\0"
    for call in (lambda: region.read(101), lambda: region.write(b"xx", 99), lambda: region.read(1, -1)):
        with pytest.raises(DetourError, match="outside the region"):
            call()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda d: Context(d, 1), "host 1 must be 0 to 0"),
        (lambda d: MR(PD(Context(d, 0)), 0), "a memory region of 0 bytes"),
        (lambda d: MR(PD(Context(d, 0)), 10, addr=1 << 16), "outside the arena"),
        (lambda d: MR(PD(Context(d, 0)), 10, AccessFlag.REMOTE_WRITE), "must have LOCAL_WRITE"),
        (lambda d: Path(1 << 16), "source port 65536"),
        (lambda d: Path(0, (1, 2, 3, 4, 5, 6, 7)), "1 to 6 uSIDs"),
        (lambda d: [CQ(Context(d, 0)) for _ in range(5)], "rows of the table cq are in use"),
        (lambda d: QP(PD(Context(d, 0)), CQ(Context(d, 0)), QPInitAttr(psn=1 << 24)), "PSN"),
        (lambda d: make_hosts(0, 1), "n_hosts is 0"),
        (lambda d: make_hosts(1, 1, window=100), "power of two"),
        (lambda d: make_hosts(1, 1, max_candidates=300), "max_candidates"),
        (lambda d: HostConfig(payload=0), "payload is 0"),
        (lambda d: HostConfig(payload=5000), "at most 4096"),
        (lambda d: host_config(delta1=1.5), "delta1"),
        (lambda d: HostConfig(max_rto_ps=1), "max_rto_ps is below"),
        (lambda d: host_config(empty_gain=1.5), "empty_gain is 1.5; it must be from 0 to 1"),
    ],
)
def test_errors_name_what_is_wrong(call: object, message: str) -> None:
    with pytest.raises(DetourError, match=message):
        call(device())  # type: ignore[operator]


def test_posting_checks_the_local_buffer_and_the_queue() -> None:
    pair = make_pair(sq_depth=4)
    good = pair.mr_a.sge(0, 10)
    cases = [
        (SGE(good.addr, 10, good.lkey ^ 1), "is not a memory region"),
        (SGE(good.addr, 10, pair.mr_b.lkey), "is not a memory region"),
        (SGE(good.addr - 1, 10, good.lkey), "outside its memory region"),
        (SGE(good.addr + pair.mr_a.length - 9, 10, good.lkey), "outside its memory region"),
    ]
    for sge, message in cases:
        with pytest.raises(DetourError, match=message):
            pair.qp_a.post_send(SendWR(1, sge, pair.mr_b.addr, pair.mr_b.rkey))
    with pytest.raises(DetourError, match="out of range"):
        pair.qp_a.post_send(SendWR(1, good, -1, pair.mr_b.rkey))
    for _ in range(4):
        pair.qp_a.post_send(SendWR(1, good, pair.mr_b.addr, pair.mr_b.rkey))
    with pytest.raises(DetourError, match="send queue is full"):
        pair.qp_a.post_send(SendWR(1, good, pair.mr_b.addr, pair.mr_b.rkey))
    fresh = QP(pair.pd_a, pair.cq_a)
    with pytest.raises(DetourError, match="not connected"):
        fresh.post_send(SendWR(1, good, pair.mr_b.addr, pair.mr_b.rkey))


def test_a_full_completion_queue_refuses_posts_instead_of_losing_completions() -> None:
    pair = make_pair(cq_depth=4, sq_depth=16)
    wr = SendWR(1, pair.mr_a.sge(0, 10), pair.mr_b.addr, pair.mr_b.rkey)
    for _ in range(4):
        pair.qp_a.post_send(wr)
    with pytest.raises(DetourError, match="completion queue is full"):
        pair.qp_a.post_send(wr)
    net = Network(pair.hs, Weather())
    net.run(lambda: False)
    with pytest.raises(DetourError, match="completion queue is full"):
        pair.qp_a.post_send(wr)
    assert len(pair.cq_a.poll(3)) == 3
    assert len(pair.cq_a.poll()) == 1
    pair.qp_a.post_send(wr)


def test_connecting() -> None:
    d = device(n_hosts=2)
    a, b = Context(d, 0), Context(d, 1)
    qp, other = QP(PD(a), CQ(a)), QP(PD(b), CQ(b))
    assert qp.state is QPState.RESET
    wire = json.loads(json.dumps(asdict(other.endpoint)))
    with pytest.raises(DetourError, match="1 to 64 candidate paths"):
        qp.connect(Endpoint(**wire), candidates=[])
    with pytest.raises(DetourError, match="window"):
        qp.connect(Endpoint(**(wire | {"window": 8})))
    qp.connect(Endpoint(**wire), path=Path(0x8005))
    assert qp.state is QPState.RTS
    assert qp.current_path == "sport:0x8005"
    with pytest.raises(DetourError, match="only one in RESET"):
        qp.connect(Endpoint(**wire))
    with pytest.raises(DetourError, match="either a path or candidates"):
        qp.set_path()
    with pytest.raises(DetourError, match="of host 0 cannot use a CQ of host 1"):
        QP(PD(a), CQ(b))


def test_closed_qps_are_gone_and_rows_are_used_again() -> None:
    pair = make_pair()
    for _ in range(40):
        qp = QP(pair.pd_a, pair.cq_a)
        qp.connect(pair.qp_b.endpoint)
        for number in range(3):
            qp.post_send(SendWR(number, pair.mr_a.sge(0, 5000), pair.mr_b.addr, pair.mr_b.rkey))
        buf = np.zeros(MAX_FRAME, np.uint8)
        assert transmit(pair.hs, 0, buf, 0, 1000)
        assert deadline(pair.hs, 0) < MAX_TIME
        qp.close()
        qp.close()
        assert transmit(pair.hs, 0, buf, 0, 2000) == 0, "what was queued is withdrawn"
        assert deadline(pair.hs, 0) == MAX_TIME
        with pytest.raises(DetourError, match="closed"):
            qp.post_send(SendWR(1, pair.mr_a.sge(0, 1), pair.mr_b.addr, pair.mr_b.rkey))
    assert pair.hs.cq[pair.cq_a.index]["reserved"] == 0


def test_qps_of_a_host_take_turns() -> None:
    """Round robin packet by packet, control first, whatever the sizes of the messages."""
    pair = make_pair(n_cqs=8)
    attr = QPInitAttr(congestion_control="fixed", initial_cwnd=50)
    qps = []
    for number in range(5):
        qp = QP(pair.pd_a, pair.cq_a, attr)
        qp.connect(pair.qp_b.endpoint, path=Path(number))
        qp.post_send(SendWR(1, pair.mr_a.sge(0, 1000 * (number + 1)), pair.mr_b.addr, pair.mr_b.rkey))
        qps.append(qp)
    buf = np.zeros(MAX_FRAME, np.uint8)
    order = []
    while length := int(transmit(pair.hs, 0, buf, 0, 0)):
        order.append(decode(buf[:length].tobytes())["sport"])
    assert order == [0, 1, 2, 3, 4, 1, 2, 3, 4, 2, 3, 4, 3, 4, 4]


def test_thousands_of_connections_on_two_hosts() -> None:
    count = 3_000
    config = HostConfig(elide_payload=True)
    d = device(2, 2 * count, 1 << 30, config=config, window=64, sq_depth=4, cq_depth=1 << 14, max_candidates=8)
    a, b = Context(d, 0), Context(d, 1)
    pd_a, pd_b, cq_a, cq_b = PD(a), PD(b), CQ(a), CQ(b)
    mr_a, mr_b = MR(pd_a, 1 << 20), MR(pd_b, 1 << 20, AccessFlag.LOCAL_WRITE | AccessFlag.REMOTE_WRITE)
    for _ in range(count):
        one, two = QP(pd_a, cq_a), QP(pd_b, cq_b)
        one.connect(two.endpoint)
        two.connect(one.endpoint)
        one.post_send(SendWR(1, mr_a.sge(0, 2500), mr_b.addr, mr_b.rkey))
    net = Network(d.hs, Weather())
    net.log.clear()
    net._travel = lambda host, frame: net._schedule(net.free_at[host] + 5_000_000, frame)  # type: ignore[method-assign]
    done = 0

    def finished() -> bool:
        nonlocal done
        done += len(cq_a.poll(1 << 14))
        return done == count

    assert net.run(finished)
    # 3 packets each; the last comes at line rate, 1,102 bytes (the last packet of a message has 500 less) every 88 ns
    assert net.frames == 6 * count
    assert net.now < count * 3 * 90_000 + 60_000_000


def test_statistics_name_everything_the_fabric_reports() -> None:
    pair = make_pair()
    pair.write(50_500)
    net = Network(pair.hs, Weather(mark=1.0, queue_of=lambda sport: 30))
    assert net.run(lambda: bool(pair.cq_a.poll()))
    stats = pair.qp_a.stats()
    expected = {"bytes": 50_500, "packets": 51, "retransmitted": 0, "ecn_marked": 51, "reroutes": 0, "rtos": 0,
                "spurious": 0, "state": "RTS"}  # fmt: skip
    assert {name: stats[name] for name in expected} == expected
    assert stats["queuing_delay_ns"] == {"min": 30, "mean": 30, "max": 30}
    assert list(stats["paths"].values()) == [51]
    assert json.dumps(stats)
    received = pair.qp_b.stats()
    assert (received["rx_packets"], received["rx_bytes"], received["rx_ecn_marked"]) == (51, 50_500, 51)
    assert received["queuing_delay_ns"] is None
