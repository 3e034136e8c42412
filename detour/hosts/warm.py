# SPDX-License-Identifier: Apache-2.0
"""Compiles everything that hosts need, so that later processes load it from the cache (`detour.base.jit`)."""

from __future__ import annotations

import numpy as np

from detour.hosts.driver import BATCH, ROOM, receive_many, survey, transmit_many
from detour.hosts.endpoint import deadline, expire, make_hosts, receive, transmit
from detour.hosts.state import Hosts, set_host
from detour.hosts.verbs import CQ, MR, PD, QP, AccessFlag, Context, Device, Path, SendWR


def warm() -> None:
    """Lets two hosts talk, with every function that Python calls."""
    hs = make_hosts(2, 4, 1 << 16)
    set_host(hs, 0, "fd00::1")
    set_host(hs, 1, "fd00::2")
    device = Device(hs)
    pds = [PD(Context(device, host)) for host in range(2)]
    regions = [MR(pd, 1 << 15, AccessFlag.LOCAL_WRITE | AccessFlag.REMOTE_WRITE) for pd in pds]
    qps = [QP(pd, CQ(pd.context)) for pd in pds]
    paths = [Path(0x0001), Path(0x8001)]
    qps[0].connect(qps[1].endpoint, candidates=paths)
    qps[1].connect(qps[0].endpoint)
    qps[0].post_send(SendWR(1, regions[0].sge(), regions[1].addr, regions[1].rkey))
    qps[0].probe()
    for now in range(1_000_000, 10_000_000, 1_000_000):
        _exchange(hs, now)
    qps[0].set_path(candidates=paths[::-1])
    for qp in qps:
        qp.close()


def _exchange(hs: Hosts, now: int) -> None:
    buf = np.zeros(BATCH * ROOM, np.uint8)
    lengths = np.zeros(BATCH, np.int64)
    survey(hs, np.arange(2), np.zeros(2, np.int64), np.zeros(2, np.bool_))
    for host in range(2):
        count = transmit_many(hs, host, buf, lengths, BATCH, now)
        receive_many(hs, 1 - host, buf, lengths, count, now)
        receive(hs, 1 - host, buf, 0, int(transmit(hs, host, buf, 0, now)), now)
        if deadline(hs, host) <= now:
            expire(hs, host, now)
    expire(hs, 0, now)
