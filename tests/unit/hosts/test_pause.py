# SPDX-License-Identifier: Apache-2.0
"""A paused priority stops data and PTMs and nothing else (PFC); data's DSCP is a parameter."""

from __future__ import annotations

import pytest

from detour.hosts import nic
from detour.hosts.config import HostConfig
from detour.hosts.decode import decode
from detour.hosts.endpoint import deadline, pause
from detour.hosts.verbs import MR, AccessFlag, Path, SendWR, WCStatus
from tests.native import from_python
from tests.property.lossy import US, Network, Pair, Weather, make_pair
from tests.unit.hosts.frames import data_frame, deliver, next_frame


def busy_pair(config: HostConfig | None = None) -> Pair:
    """Both hosts have data to send; `a` probes as well."""
    pair = make_pair(memory=1 << 17, config=config, connect={"candidates": [Path(1), Path(0x8001), Path(0x8002)]})
    pair.write(100_000)
    return pair


def kinds(pair: Pair, host: int, count: int = 100) -> list[str]:
    """Kinds of the frames that a host sends now."""
    seen = []
    while len(seen) < count and (frame := next_frame(pair, host)):
        seen.append(decode(frame)["kind"])
    return seen


def test_nothing_of_data_priority_goes_while_it_is_paused() -> None:
    pair = busy_pair()
    pause(pair.hs, 0, 0b1)
    assert next_frame(pair, 0) == b""
    assert not from_python(nic.has_work)(pair.hs.native, 0)
    pause(pair.hs, 0, 0)
    assert from_python(nic.has_work)(pair.hs.native, 0)
    assert kinds(pair, 0, 3) == ["data", "ptm", "ptm"]


@pytest.mark.parametrize("mask", [0b10, 0b11111110, 1 << 7])
def test_other_priorities_do_not_matter(mask: int) -> None:
    pair = busy_pair()
    pause(pair.hs, 0, mask)
    assert kinds(pair, 0, 1) == ["data"]


def test_the_data_priority_is_a_parameter_and_so_is_its_dscp() -> None:
    pair = busy_pair(HostConfig(data_priority=3, data_dscp=11))
    pause(pair.hs, 0, 0b111)
    frame = next_frame(pair, 0)
    assert int.from_bytes(frame[14:16], "big") >> 4 & 0xFF == 11 << 2 | 2, "DSCP 11, ECT(0)"
    pause(pair.hs, 0, 0b1000)
    assert next_frame(pair, 0) == b""
    assert int.from_bytes(data_frame(10)[14:16], "big") >> 4 & 0xFF == 2, "by default DSCP 0"


def test_answers_go_on_although_data_and_probes_wait() -> None:
    pair = busy_pair()
    assert kinds(pair, 0, 1) == ["data"]  # the round's two PTMs are in their ring now
    open_to_all = MR(pair.pd_a, 3000, AccessFlag.LOCAL_WRITE | AccessFlag.REMOTE_WRITE)
    pair.qp_b.post_send(SendWR(1, pair.mr_b.sge(0, 3000), open_to_all.addr, open_to_all.rkey))
    pause(pair.hs, 0, 0b1)
    for _ in range(3):
        deliver(pair, 0, next_frame(pair, 1))
    assert kinds(pair, 0) == ["ack"] * 3, "not stuck behind the PTMs"
    pause(pair.hs, 0, 0)
    assert kinds(pair, 0, 3) == ["ptm", "ptm", "data"]


def test_a_transfer_with_pauses_is_only_late() -> None:
    pair = busy_pair()
    net = Network(pair.hs, Weather())
    net.run(lambda: net.now > 3 * US)
    pause(pair.hs, 0, 0b1)
    assert not net.run(lambda: net.now > 100 * US, limit_ps=100 * US) or deadline(pair.hs, 0) > net.now
    sent = pair.qp_a.stats()["packets"]
    net.now = 150 * US
    pause(pair.hs, 0, 0)
    done: list[WCStatus] = []
    assert net.run(lambda: bool(done.extend(wc.status for wc in pair.cq_a.poll()) or done)), net.schedule()
    stats = pair.qp_a.stats()
    assert sent < stats["packets"] == 100
    assert (stats["retransmitted"], stats["rtos"]) == (0, 0), net.schedule()
