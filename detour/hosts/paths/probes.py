# SPDX-License-Identifier: Apache-2.0
"""Sending PTMs: what asks a path how long it waits, for whoever chooses paths."""

from __future__ import annotations

from detour.base.jit import inner
from detour.hosts.draws import random_below
from detour.hosts.nic import CTL_PTM, push_ptm
from detour.hosts.records import QueuePair
from detour.hosts.rows import candidate_row, host_row, ptm_row
from detour.hosts.state import NIL, Handle


@inner
def send_ptm(hs: Handle, i: int, q: QueuePair, cand: int) -> None:
    """Queue a PTM on candidate `cand`."""
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
    q.answers += 1


@inner
def probe_others(hs: Handle, i: int, q: QueuePair, probes: int) -> None:
    """Queues PTMs on so many random candidates other than the current one, of which there are as many at least."""
    h, others, chosen = host_row(hs, q.host), q.n_cand - 1, 0
    for place in range(q.n_cand):  # each of those that remain with equal probability (Knuth's algorithm S)
        if place == q.cand:
            continue
        if random_below(h, others) < probes - chosen:
            send_ptm(hs, i, q, place)
            chosen += 1
        others -= 1
