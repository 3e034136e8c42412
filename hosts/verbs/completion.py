# SPDX-License-Identifier: Apache-2.0
"""Completion queues: rings with one producer (the host) and one consumer (`verbs.CQ.poll`).

The two may be different threads: an entry is complete before the tail says that it is there.
Room is reserved before it is needed: a posted work request holds one entry until it completes without one or its
completion is polled, so no completion is ever lost.
"""

from __future__ import annotations

from typing import Any

from detour.hosts.jit import inner
from detour.hosts.rows import cfg_row, cq_row, cqe_row, host_row, publish


@inner
def reserve(hs: Any, cq: int) -> bool:
    """Takes one entry of the queue for a completion to come; False if there is none left."""
    c = cq_row(hs, cq)
    if c.reserved + c.tail - c.head >= cfg_row(hs).cq_depth:
        return False
    c.reserved += 1
    return True


@inner
def release(hs: Any, cq: int) -> None:
    """Gives a reserved entry back."""
    cq_row(hs, cq).reserved -= 1


@inner
def push(
    hs: Any,
    cq: int,
    wr_id: int,
    status: int,
    opcode: int,
    length: int,
    imm: int,
    qpn: int,
    flags: int,
    posted: int,
) -> None:
    """Fills a reserved entry; `posted` is when its work request was posted."""
    c = cq_row(hs, cq)
    e = cqe_row(hs, cq, c.tail & (cfg_row(hs).cq_depth - 1))
    e.wr_id = wr_id
    e.status = status
    e.opcode = opcode
    e.length = length
    e.imm = imm
    e.qpn = qpn
    e.flags = flags
    e.posted = posted
    e.done = host_row(hs, c.host).now
    c.reserved -= 1
    publish()
    c.tail += 1
