# SPDX-License-Identifier: Apache-2.0
"""Numbers that tell connections and registrations apart: QPNs with a generation, a rest when all are used, rkeys."""

from __future__ import annotations

import numpy as np
import pytest

from detour.base.errors import DetourError
from detour.hosts import rdma
from detour.hosts.config import HostConfig
from detour.hosts.decode import decode
from detour.hosts.endpoint import make_hosts
from detour.hosts.state import FIRST_QPN, set_host
from detour.hosts.verbs import CQ, PD, QP, Context, Device, Path, QPInitAttr, SendWR
from detour.hosts.verbs.bulk import connect_many
from detour.hosts.verbs.device import next_key, qp_numbers
from tests.native import from_python
from tests.property.lossy import US, Pair, make_pair
from tests.unit.hosts.frames import deliver, next_frame

row_of = from_python(rdma.row_of)


def replace(pair: Pair, psn: int | None = None) -> None:
    """New QPs in the rows of those that were connected."""
    pair.qp_a.close()
    pair.qp_b.close()
    attr = QPInitAttr(psn=psn)
    pair.qp_a, pair.qp_b = QP(pair.pd_a, pair.cq_a, attr), QP(pair.pd_b, pair.cq_b, attr)
    pair.qp_a.connect(pair.qp_b.endpoint, path=Path(1))
    pair.qp_b.connect(pair.qp_a.endpoint)


def test_numbers_of_a_row_differ() -> None:
    pair = make_pair(n_qps=2)
    seen = set()
    for _ in range(50):
        for qp in (pair.qp_a, pair.qp_b):
            assert qp.qp_num == qp.endpoint.qpn < 1 << 24
            assert int(row_of(pair.hs.native, qp.qp_num)) == qp.index
            seen.add(qp.qp_num)
        replace(pair)
    assert len(seen) == 100
    assert {FIRST_QPN, FIRST_QPN + 1} < seen, "the first ones are what they would be without generations"


@pytest.mark.parametrize("n_qps", [1, 2, 3, 256, 257, 65_536, 1 << 20, (1 << 22) + 1, 1 << 23])
def test_numbers_fit_24_bits_for_any_size(n_qps: int) -> None:
    hs = make_hosts(1, 1)
    hs.cfg[0]["n_qps"], hs.cfg[0]["qpn_mask"] = n_qps, (1 << (n_qps - 1).bit_length()) - 1
    generations = Device(hs).generations
    assert generations >= 1
    hs.qp["generation"] = generations - 1
    last = int(qp_numbers(hs, np.array([0]))[0]) + n_qps - 1
    assert last < 0xFFFFFF, "which is the multicast QP"
    assert int(row_of(hs.native, last)) == n_qps - 1
    assert int(row_of(hs.native, FIRST_QPN - 1)) == -1
    assert n_qps & (n_qps - 1) == 0 or int(row_of(hs.native, FIRST_QPN + n_qps)) == -1


def test_frames_of_an_earlier_connection_are_counted_and_nothing_else() -> None:
    """Data at the receiver and ACKs, NAKs and PTRs at the sender, with first PSNs that are the same."""
    pair = make_pair(n_qps=2, attr_a=QPInitAttr(psn=5), attr_b=QPInitAttr(psn=5), connect={"path": Path(1)})
    pair.qp_a.post_send(SendWR(1, pair.mr_a.sge(0, 3000), pair.mr_b.addr, pair.mr_b.rkey, 9))
    pair.qp_a.probe()
    sent = [next_frame(pair, 0) for _ in range(4)]
    for frame in sent:
        deliver(pair, 1, frame)
    answers = [next_frame(pair, 1) for _ in range(4)]
    assert sorted(decode(frame)["kind"] for frame in answers) == ["ack", "ack", "ack", "ptr"]
    assert len(pair.cq_b.poll()) == 1

    replace(pair, psn=5)
    pair.mr_a.write(b"new" * 1000)
    pair.qp_a.post_send(SendWR(2, pair.mr_a.sge(0, 3000), pair.mr_b.addr, pair.mr_b.rkey, 10))
    fresh = [next_frame(pair, 0) for _ in range(3)]
    before = pair.hs.memory.copy()
    for frame in sent:
        deliver(pair, 1, frame)
    for frame in answers:
        deliver(pair, 0, frame)
    assert (before == pair.hs.memory).all()
    assert (pair.a.stats()["rx_old_connection"], pair.b.stats()["rx_old_connection"]) == (4, 3)
    assert pair.a.stats()["rx_unknown_qp"] == pair.b.stats()["rx_unknown_qp"] == 0
    assert (pair.cq_a.poll(), pair.cq_b.poll()) == ([], [])
    for frame in fresh:
        deliver(pair, 1, frame)
    assert pair.mr_b.read(3000) == b"new" * 1000
    assert [wc.imm_data for wc in pair.cq_b.poll()] == [10]


def test_a_closed_qp_is_an_earlier_connection_and_a_number_to_come_is_unknown() -> None:
    pair = make_pair(n_qps=2)
    pair.write(1000)
    late = next_frame(pair, 0)
    pair.qp_b.close()
    deliver(pair, 1, late)
    assert pair.b.stats()["rx_old_connection"] == 1
    pair.hs.qp["generation"] = 0
    deliver(pair, 1, late)
    assert pair.b.stats()["rx_unknown_qp"] == 1


def test_a_row_whose_numbers_are_used_up_rests() -> None:
    """Then its numbers begin anew, after the longest time that a frame can be under way."""
    pair = make_pair(n_qps=2, config=HostConfig(frame_life_ps=1000 * US))
    rows = {pair.qp_a.index, pair.qp_b.index}
    replace(pair)
    pair.hs.qp["generation"] = Device(pair.hs).generations - 1
    pair.hs.host["now"][1] = 70 * US
    pair.qp_a.close()
    pair.hs.host["now"][1] = 75 * US
    pair.qp_b.close()
    for now in (75, 1069):
        pair.hs.host["now"][0] = now * US
        with pytest.raises(DetourError, match=r"2 have no numbers left and rest for frame_life_ps"):
            QP(pair.pd_a, pair.cq_a)
    pair.hs.host["now"][0] = 1070 * US
    first = QP(pair.pd_a, pair.cq_a)
    assert first.qp_num == FIRST_QPN + first.index
    with pytest.raises(DetourError, match="1 have no numbers left"):
        QP(pair.pd_a, pair.cq_a)
    pair.hs.host["now"][0] = 1075 * US
    assert {first.index, QP(pair.pd_a, pair.cq_a).index} == rows


def test_whoever_runs_the_hosts_says_what_time_it_is() -> None:
    hs = make_hosts(1, 1, config=HostConfig(frame_life_ps=100))
    set_host(hs, 0, "fd00::1")
    time = [5]
    device = Device(hs, now=lambda: time[0])
    hs.qp["generation"] = device.generations - 1
    context = Context(device, 0)
    pd, cq = PD(context), CQ(context)
    QP(pd, cq).close()
    with pytest.raises(DetourError, match="rest"):
        QP(pd, cq)
    time[0] = 105
    QP(pd, cq)


def test_many_connections_at_once_have_generations_too() -> None:
    hs = make_hosts(2, 4, 1 << 20, config=HostConfig(elide_payload=True))
    for host in (0, 1):
        set_host(hs, host, f"fd00:0:0:{host:x}::1")
    hs.qp["generation"] = [0, 1, 2, 3]
    flows = connect_many(Device(hs), [0, 0], [1, 1])
    assert hs.qp["qpn"].tolist() == [0x100, 0x105, 0x10A, 0x10F]
    assert hs.qp["peer_qpn"][flows.sender].tolist() == hs.qp["qpn"][flows.receiver].tolist()
    assert hs.qp["peer_qpn"][flows.receiver].tolist() == hs.qp["qpn"][flows.sender].tolist()


@pytest.mark.parametrize(("n_mrs", "keys"), [(1, 5000), (16, 5000), (40_000, 5000), (1 << 23, 512)])
def test_keys_of_a_row_differ(n_mrs: int, keys: int) -> None:
    hs = make_hosts(1, 1, n_mrs=16)
    hs.cfg[0]["mr_mask"] = (1 << (n_mrs - 1).bit_length()) - 1
    index = min(15, n_mrs - 1)
    row_keys = [next_key(hs, index, 0xAB) for _ in range(keys)]
    assert len(set(row_keys)) == keys
    assert all(0 <= key < 1 << 32 and (key >> 8) & int(hs.cfg[0]["mr_mask"]) == index for key in row_keys)
    assert row_keys[0] == index << 8 | 0xAB
