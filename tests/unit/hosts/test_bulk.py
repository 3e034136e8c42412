# SPDX-License-Identifier: Apache-2.0
"""Many connections at once: the same as one by one, and fast."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from detour.base.arrays import CACHE_LINE
from detour.base.errors import DetourError
from detour.base.structs import offsets
from detour.hosts.config import HostConfig
from detour.hosts.endpoint import Hosts, deadline, make_hosts, not_before, receive, transmit
from detour.hosts.records import Candidate, QueuePair, RdmaHost
from detour.hosts.state import BY_ENTRY, FIRST_QPN, MAX_TIME, WC_SUCCESS, set_host
from detour.hosts.verbs import Device
from detour.hosts.verbs.bulk import Flows, connect_many, counters, drain, draw_ports, path_packets, post_many

ROOM = 2048


def fabric(hosts: int, flows: int, **sizes: Any) -> Device:
    """Hosts without anything between them."""
    sizes = {"arena_bytes": 1 << 41, "window": 64, "max_candidates": 8, "sq_depth": 4} | sizes
    hs = make_hosts(hosts, 2 * flows, config=HostConfig(elide_payload=True), **sizes)
    for host in range(hosts):
        set_host(hs, host, f"fd00:0:0:{host:x}::1")
    return Device(hs)


def exchange(hs: Hosts, hosts: int, buf: Any, rounds: int, now: int) -> int:
    """In every round every host sends a frame, which arrives at once; returns how many there were."""
    frames = 0
    for _ in range(rounds):
        now += 100_000
        for host in range(hosts):
            length = transmit(hs, host, buf, 0, now)
            if length > 0:
                frames += 1
                receive(hs, int(buf[45]), buf, 0, length, now)  # low byte of the subnet: the host's number
    return frames


def run(device: Device, rounds: int, now: int = 0) -> int:
    return exchange(device.hs, len(device.hs.host), np.zeros(2 * ROOM, np.uint8), rounds, now)


def test_flows_deliver_what_was_posted() -> None:
    device = fabric(4, 6)
    flows = connect_many(device, [0, 0, 1, 1, 2, 2], [3, 3, 3, 2, 0, 1], non_shortest=3, seed=5)
    lengths = np.array([5000, 1, 0, 12_345, 1000, 20_000])
    post_many(flows, lengths, now_ps=7, wr_id=np.arange(6))
    run(device, 200)
    got = counters(device.hs, flows.receiver)
    assert got["rx_delivered"].tolist() == got["rx_bytes"].tolist() == lengths.tolist()
    sent = counters(device.hs, flows.sender)
    assert sent["packets"].tolist() == [5, 1, 1, 13, 1, 20]
    assert (sent["first_done_ps"] == sent["last_done_ps"]).all()
    done = drain(device)
    assert len(done) == 6
    assert len(drain(device)) == 0
    done = done[np.argsort(done["wr_id"])]
    assert (done["qpn"] - FIRST_QPN).tolist() == flows.sender.tolist()
    assert (done["status"] == WC_SUCCESS).all()
    assert (done["posted"] == 7).all()
    assert done["done"].tolist() == sent["last_done_ps"].tolist()
    shortest, non_shortest = path_packets(device.hs, flows.sender)
    assert (shortest + non_shortest).tolist() == sent["packets"].tolist()
    assert non_shortest.sum() == 0, "the first path is a shortest one and nothing made them leave it"


@pytest.mark.parametrize("control", ["fixed", "dctcp", "dcqcn"])
@pytest.mark.parametrize(("transport", "reordering"), [("lerp", False), ("gbn", False), ("gbn", True)])
def test_every_combination(transport: str, reordering: bool, control: str) -> None:
    device = fabric(2, 10)
    kind = {"transport": transport, "reordering": reordering, "congestion_control": control}
    flows = connect_many(device, [0] * 10, [1] * 10, **kind)
    post_many(flows, 30_000)
    run(device, 1000)
    assert (counters(device.hs, flows.receiver)["rx_delivered"] == 30_000).all()
    assert counters(device.hs, flows.sender)["retransmitted"].sum() == 0


def test_a_message_may_have_2_to_the_40_bytes() -> None:
    device = fabric(2, 1)
    flows = connect_many(device, [0], [1])
    post_many(flows, 1 << 40)
    run(device, 500)
    assert counters(device.hs, flows.receiver)["rx_delivered"][0] > 400_000
    q = device.hs.qp[flows.sender[0]]
    assert q["snd_end"] - q["snd_una"] > 1_000_000_000
    with pytest.raises(DetourError, match="too long"):
        post_many(flows, (1 << 40) + 1)


def test_candidates_are_distinct_and_begin_with_the_shortest() -> None:
    ports = draw_ports(3000, 2, 30, seed=1)
    assert ports.shape == (3000, 32)
    assert (np.diff(np.sort(ports, axis=1), axis=1) > 0).all()
    assert (ports[:, :2] < 0x8000).all()
    assert (ports[:, 2:] >= 0x8000).all()
    assert (draw_ports(3000, 2, 30, seed=1) == ports).all()
    assert (draw_ports(3000, 2, 30, seed=2) != ports).any()


def test_32768_connections_are_set_up_at_once() -> None:
    count = 1 << 15
    device = fabric(64, count, max_candidates=32, cq_depth=1 << 13)
    source = np.random.default_rng(3)
    pairs = source.integers(0, 64, (2, count))
    flows = connect_many(device, pairs[0], pairs[1], shortest=1, non_shortest=31)
    post_many(flows, 1 << 30)
    assert (device.hs.qp["snd_end"][flows.sender] > device.hs.qp["snd_nxt"][flows.sender]).all()


def test_no_deadline_is_earlier_than_the_bound() -> None:
    device = fabric(4, 12)
    rng = np.random.default_rng(2)
    flows = connect_many(device, rng.integers(0, 2, 12), rng.integers(2, 4, 12))
    post_many(flows, np.full(12, 30_000))
    hs, late = device.hs, 0
    for turn in range(60):
        run(device, 1, now=turn * 400_000)
        for host in range(4):
            bound = int(not_before(hs, host))
            # Exact deadlines make bounds exact too: then the first key is the deadline.
            late += bound < int(deadline(hs, host))
            assert bound <= int(deadline(hs, host)) == int(not_before(hs, host))
    assert late
    assert int(not_before(hs, 3)) == MAX_TIME


def test_rows_of_hosts_do_not_share_sets_of_the_cache() -> None:
    hs = fabric(8, 8, window=256, control_depth=1024).hs
    for name in ("slot", "arrival", "ctl", "ptm", "heap", "wqe"):
        table = getattr(hs, name)
        across, along = table.strides if name in BY_ENTRY else table.strides[::-1]
        assert across == table.itemsize, name
        assert along // 64 % 2 or along < 64, name
        assert hs.native[f"{name}_length"] * table.itemsize == along


def test_what_packets_touch_fills_whole_lines_of_the_cache() -> None:
    hs = fabric(8, 8).hs
    for table in (hs.host, hs.qp):
        assert table.ctypes.data % CACHE_LINE == 0
        assert table.itemsize % CACHE_LINE == 0
    requester, responder, rest = (offsets(QueuePair)[name] for name in ("qpn", "pd", "generation"))
    assert requester % CACHE_LINE == responder % CACHE_LINE == QueuePair.CC_AT % CACHE_LINE == 0
    assert rest // CACHE_LINE == responder // CACHE_LINE + 1
    assert offsets(RdmaHost)["rx_bad_checksum"] == 3 * CACHE_LINE
    assert offsets(Candidate)["asked"] == CACHE_LINE


def test_the_first_entries_of_all_rings_take_few_pages() -> None:
    hs = fabric(64, 64, control_depth=1024).hs
    for name in BY_ENTRY:
        table = getattr(hs, name)
        first = table[0, 0:1].ctypes.data
        assert table[-1, 0:1].ctypes.data - first == (len(table) - 1) * table.itemsize, name


def test_so_do_the_first_of_many_candidates() -> None:
    for most, by_entry in ((64, False), (65, True)):
        table = fabric(64, 64, max_candidates=most).hs.candidate
        assert (table.strides[0] == table.itemsize) is by_entry


def test_candidates_are_the_same_however_they_are_laid_out() -> None:
    tables = []
    for most in (64, 65):
        device = fabric(4, 6, max_candidates=most)
        flows = connect_many(device, [0, 0, 1, 1, 2, 2], [3, 3, 3, 2, 0, 1], shortest=2, non_shortest=6, choice="spray")
        post_many(flows, 60_000)
        run(device, 500)
        assert (counters(device.hs, flows.receiver)["rx_delivered"] == 60_000).all()
        tables.append(device.hs.candidate[:, :8].copy())
    assert (tables[0] == tables[1]).all()
    assert (tables[0]["packets"] > 0).sum() > 6, "several of most flows' are used"


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(DetourError, match="elide_payload"):
        connect_many(Device(make_hosts(2, 2)), [0], [1])
    device = fabric(2, 1)
    with pytest.raises(DetourError, match="must be equal"):
        connect_many(device, [0, 1], [1])
    with pytest.raises(DetourError, match="hosts 0 to 2 must be 0 to 1"):
        connect_many(device, [0], [2])
    with pytest.raises(DetourError, match="reordering receiver is for go-back-N"):
        connect_many(device, [0], [1], reordering=True)
    with pytest.raises(DetourError, match="candidates"):
        connect_many(device, [0], [1], non_shortest=300)
    with pytest.raises(DetourError, match="candidate ports have shape"):
        connect_many(device, [0], [1], ports=np.zeros((1, 9), np.int64))
    with pytest.raises(DetourError, match="all 2 rows of the table qp"):
        connect_many(device, [0, 0], [1, 1])


def test_a_full_queue_is_told() -> None:
    device = fabric(2, 2)
    flows: Flows = connect_many(device, [0, 0], [1, 1])
    for _ in range(4):
        post_many(flows, 10)
    with pytest.raises(DetourError, match="send queue is full"):
        post_many(flows, 10)
    assert isinstance(device.hs, Hosts)
