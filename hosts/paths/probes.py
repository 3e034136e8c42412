# SPDX-License-Identifier: Apache-2.0
"""Sending PTMs: what asks a path how long it waits, for whoever chooses paths."""

from __future__ import annotations

from detour.base.jit import inner
from detour.hosts.nic import CTL_PTM, push_ptm
from detour.hosts.records import QueuePair
from detour.hosts.rows import candidate_row, ptm_row
from detour.hosts.state import NIL, Handle


@inner
def send_ptm(hs: Handle, i: int, q: QueuePair, cand: int) -> None:
    """Queues a PTM on candidate `cand`."""
    index = push_ptm(hs, q.host)
    if index == NIL:
        return
    c = candidate_row(hs, i, cand)
    listed = c.dst_hi != 0
    m = ptm_row(hs, q.host, index)
    m.kind = CTL_PTM
    m.qp = i
    m.qpn = q.qpn
    m.psn = q.ptm_seq
    m.cand = cand
    m.sport = c.sport
    m.delay = 0
    m.dst_hi = c.dst_hi if listed else q.peer_hi
    m.dst_lo = c.dst_lo if listed else q.peer_lo
    m.final_hi = c.final_hi
    c.asked = q.ptm_seq
    q.ptm_seq = (q.ptm_seq + 1) & 0x7FFFFFFF
    q.st_ptms += 1
