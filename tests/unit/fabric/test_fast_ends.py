# SPDX-License-Identifier: Apache-2.0
"""Messages that end, and connections that begin, while their partition is suspended."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from detour.fabric.backends.virtual.fabric import VirtualFabric
from detour.fabric.backends.virtual.scheme import RunSettings, scheme
from detour.fabric.fast.execution import Execution
from detour.fabric.fast.skipping import LOOK_PS, Skipper
from detour.hosts import rdma
from detour.hosts.state import WQE_SIGNALED
from detour.topo import parse_topology

_ENDS = np.array([(0, 4), (1, 5), (2, 6)])
_SIZE, _PAYLOAD = 6_000_001, 4096
_MOST = 4
"""messages of a connection"""
_PACKETS = -(-_SIZE // _PAYLOAD)
_BEGINNING_PS = 15_000_000
"""until packets arrive as fast as they do later on"""
_AGAIN_PS = 1_200_000_000


class _Sending:
    """Three connections that spray, and know what they send together."""

    def __init__(self, fabric: VirtualFabric, full: _Sending | None) -> None:
        """`full`: the same without jumps, None: this is that."""
        self.fabric, self.hs = fabric, fabric.hs
        self.execution = Skipper(fabric, _ENDS, 0.02) if full else Execution(fabric)
        self.posted = np.zeros(3, np.int64)
        self.done_ps: list[list[int]] = [[], [], []]
        if full and isinstance(self.execution, Skipper):
            self.flows = flows = self.execution._flows
            took_ps = np.array([done[0] for done in full.done_ps]) - _BEGINNING_PS
            flows["differs"], flows["looks"], flows["learnt"] = 1, 1536, 1536 * _PACKETS * LOOK_PS / took_ps

    def post(self, k: int) -> None:
        """One more message of a connection, from a place of its own to another one."""
        at = int(k * _MOST + self.posted[k]) * _SIZE
        row, key = int(self.fabric.flows.sender[k]), int(self.fabric.flows.rkey[k])
        there = at + 3 * _MOST * _SIZE
        assert not rdma.post_write(self.hs.listing, row, k, at, there, key, _SIZE, WQE_SIGNALED, 0, self.fabric.now_ps)
        self.posted[k] += 1
        self.fabric.network.kick_host(k)

    def run(self, until_ps: int) -> Iterator[bool]:
        """Look by look: whether all that are busy are suspended."""
        while self.fabric.now_ps < until_ps:
            self.execution.run(self.fabric.now_ps + LOOK_PS)
            for k, sender in enumerate(self.fabric.flows.sender.tolist()):
                one = self.hs.qp[sender]
                if len(self.done_ps[k]) < one["sq_una"]:
                    self.done_ps[k].append(int(one["st_last_done_ps"]))
                    self.check(k)
            yield self.execution.skips

    def check(self, k: int) -> None:
        """What is complete has arrived byte for byte."""
        arrived = slice(_MOST * k * _SIZE, (_MOST * k + len(self.done_ps[k])) * _SIZE)
        assert (self.hs.memory[3 * _MOST * _SIZE :][arrived] == self.hs.memory[arrived]).all()


@contextmanager
def _sending(full: _Sending | None = None) -> Iterator[_Sending]:
    settings = RunSettings(payload=True, jitter_ps=-1)
    topology = parse_topology("leaf-spine:leaves=2,spines=2,hosts=4")
    with VirtualFabric(topology, scheme("PathSet").with_mtu(_PAYLOAD), settings, queue_pairs=6) as fabric:
        fabric.hs.cfg[0]["elide_payload"] = 1
        fabric.connect(_ENDS)
        fabric.hs.cfg[0]["elide_payload"] = 0
        fabric.hs.memory[: 3 * _MOST * _SIZE] = np.random.default_rng(1).integers(0, 256, 3 * _MOST * _SIZE, np.uint8)
        yield _Sending(fabric, full)


def _post(one: _Sending, *messages: int) -> None:
    """So many of each connection, one behind the other."""
    for k in np.repeat(range(3), messages).tolist():
        one.post(k)


def _end(one: _Sending) -> None:
    """Everything comes to its end, and no frame is left."""
    list(one.run(one.fabric.now_ps + 3_000_000_000))
    one.execution.wake_all()
    one.fabric.run(one.fabric.now_ps + 20_000_000_000)
    assert [len(done) for done in one.done_ps] == one.posted.tolist()
    flows, qp = one.fabric.flows, one.hs.qp
    for name in ("st_rx_bytes", "st_rx_delivered"):
        assert (qp[name][flows.receiver] == one.posted * _SIZE).all()
    assert (qp["st_bytes"][flows.sender] == one.posted * _SIZE).all()
    assert (qp["st_rx_packets"][flows.receiver] == one.posted * _PACKETS).all()
    assert one.fabric.network.idle
    assert one.fabric.network.loop_stats()["used"] == 0


def _last_ps(one: _Sending) -> int:
    return max(done[-1] for done in one.done_ps)


def test_message_behind_another_one_begins_in_the_jump() -> None:
    """It takes as long as its rate says, to a part of a look."""
    with _sending() as full:
        _post(full, 3, 3, 3)
        _end(full)
    with _sending(full) as fast:
        _post(fast, 3, 3, 3)
        asleep = list(fast.run(1_500_000_000))
        assert all(asleep[20:])
        assert [len(done) for done in fast.done_ps] == [2, 1, 2]
        for k in 0, 2:
            took_ps = fast.done_ps[k][1] - fast.done_ps[k][0]
            assert took_ps == pytest.approx(_PACKETS / fast.flows["rate"][k], rel=1e-3)
        _end(fast)


def test_connections_leave_and_join_a_jump() -> None:
    """A connection ends: the others wake, as they do not know what they send without it. It comes again: they go on as
    before. It ends once more: now they know."""
    with _sending() as full:
        asleep = _pause(full)
        assert not any(asleep)
        _end(full)
    with _sending(full) as fast:
        asleep = _pause(fast)
        end, again = (ps // LOOK_PS for ps in fast.done_ps[1][:2])
        begin = _AGAIN_PS // LOOK_PS
        assert not asleep[end + 3]
        assert all(asleep[begin - 5 : again + 10])
        took_ps = fast.done_ps[1][1] - _AGAIN_PS
        assert _PACKETS / took_ps == pytest.approx(fast.flows["rate"][1], rel=0.03)  # and some packets on their way
        _end(fast)
        assert _last_ps(fast) == pytest.approx(_last_ps(full), rel=0.05)


def _pause(one: _Sending) -> list[bool]:
    """The second connection sends nothing for a while after its first message."""
    _post(one, 4, 1, 4)
    asleep = list(one.run(_AGAIN_PS))
    _post(one, 0, 1, 0)
    return asleep + list(one.run(_AGAIN_PS + 1_000_000_000))
