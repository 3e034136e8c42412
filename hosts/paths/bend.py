# SPDX-License-Identifier: Apache-2.0
"""Leaving a path by its marks: FlowBender and PLB, which differ in two numbers.

A QP in the mode `MODE_BEND` stays on one path and counts, a round trip at a time, how many of its packets were marked.
A round trip with more than the fraction `bend_share` of them is congested; after `bend_rounds` of those in a row, and
after every retransmission timeout, the sender takes another candidate at random, but none that was left by a timeout
lately. Window and congestion control go on as they are. FlowBender (Kabbani et al., CoNEXT 2014, section 3): more than
5 %, one round trip. PLB (Qureshi et al., SIGCOMM 2022; Linux' `tcp_plb`): 50 %, 12 round trips; that it also moves when
it is idle, after 3, is left out, for senders here are never idle between packets of a message.

Both were made for equal-cost paths. Here the candidates are those of the other schemes, detours included.
"""

from __future__ import annotations

from detour.base.jit import inner
from detour.hosts.paths import health, paths
from detour.hosts.records import QueuePair, ReceivedFrame
from detour.hosts.rows import cfg_row
from detour.hosts.state import MODE_BEND, Handle


@inner
def on_answer(hs: Handle, i: int, q: QueuePair, f: ReceivedFrame, txn: int, now: int) -> None:
    """The answer in `f` is about transmission `txn`, a data packet of the current path."""
    if q.mode != MODE_BEND:
        return
    q.bend_answers += 1
    q.bend_marks += f.ce
    if txn < q.bend_end:
        return
    cfg = cfg_row(hs)
    congested = q.bend_marks > cfg.bend_share * q.bend_answers
    q.bend_rounds = q.bend_rounds + 1 if congested else 0
    _begin_round(q)
    if q.bend_rounds >= cfg.bend_rounds:
        _leave(hs, i, q, now)


@inner
def _begin_round(q: QueuePair) -> None:
    q.bend_answers = 0
    q.bend_marks = 0
    q.bend_end = q.next_txn


@inner
def on_timeout(hs: Handle, i: int, q: QueuePair, now: int) -> None:
    """The retransmission timeout has passed."""
    if q.mode == MODE_BEND:
        health.bar(hs, i, q, now)
        _leave(hs, i, q, now)


@inner
def _leave(hs: Handle, i: int, q: QueuePair, now: int) -> None:
    """Takes another candidate, with the window as it is."""
    q.bend_rounds = 0
    if q.n_cand < 2:
        return
    cand = health.another(hs, i, q, now)
    paths.move_on(hs, i, q, cand, now)
    _begin_round(q)
