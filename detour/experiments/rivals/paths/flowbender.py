# SPDX-License-Identifier: Apache-2.0
"""Leaving a path by its marks: FlowBender and PLB, which differ in two numbers.

A QP stays on one path and counts, a round trip at a time, how many of its packets were marked.
A round trip with more than the fraction `bend_share` of them is congested; after `bend_rounds` of those in a row, and
after every retransmission timeout, the sender takes another candidate at random, but none that was left by a timeout
lately. Window and congestion control go on as they are. FlowBender (Kabbani et al., CoNEXT 2014, section 3): more than
5 %, one round trip. PLB (Qureshi et al., SIGCOMM 2022; Linux' `tcp_plb`): 50 %, 12 round trips; that it also moves when
it is idle, after 3, is left out, for senders here are never idle between packets of a message.

Both were made for equal-cost paths. Here the candidates are those of the other schemes, detours included.
"""

from __future__ import annotations

from dataclasses import dataclass

from detour.base.structs import Int64, NativeRecord
from detour.hosts.config import check_numbers
from detour.hosts.paths import health, paths
from detour.hosts.paths.plugin import PathNews, PathParameters, PathScheme, hook
from detour.hosts.records import QueuePair
from detour.hosts.state import Handle


@dataclass(frozen=True)
class Parameters(PathParameters):
    """Parameters of the scheme."""

    bend_share: float = 0.05
    """a round trip in which more than this fraction of packets is marked is congested (FlowBender's
    T)"""
    bend_rounds: int = 1
    """congested round trips in a row that make the sender take another path (FlowBender's N)"""

    def __post_init__(self) -> None:
        check_numbers(self, shares=("bend_share",))


class State(NativeRecord):
    """The scheme's state of a QP."""

    answers: Int64  # of this round, and marked ones
    marks: Int64
    rounds: Int64  # congested ones in a row
    end: Int64  # the transmission that ends the round


@hook
def on_candidates(hs: Handle, i: int, q: QueuePair, p: Parameters, s: State, news: PathNews, now: int) -> None:
    s.rounds = 0
    _begin_round(q, s)


@hook
def on_answer(hs: Handle, i: int, q: QueuePair, p: Parameters, s: State, news: PathNews, now: int) -> None:
    s.answers += 1
    s.marks += news.marked
    if news.txn < s.end:
        return
    congested = s.marks > p.bend_share * s.answers
    s.rounds = s.rounds + 1 if congested else 0
    _begin_round(q, s)
    if s.rounds >= p.bend_rounds:
        _leave(hs, i, q, s, now)


@hook
def _begin_round(q: QueuePair, s: State) -> None:
    s.answers = 0
    s.marks = 0
    s.end = q.next_txn


@hook
def on_timeout(hs: Handle, i: int, q: QueuePair, p: Parameters, s: State, news: PathNews, now: int) -> None:
    health.bar(hs, i, q, now)
    _leave(hs, i, q, s, now)


@hook
def _leave(hs: Handle, i: int, q: QueuePair, s: State, now: int) -> None:
    """Take another candidate, with the window as it is."""
    s.rounds = 0
    if q.n_cand < 2:
        return
    paths.move_on(hs, i, q, health.another(hs, i, q, now), now)
    _begin_round(q, s)


FLOWBENDER = PathScheme(Parameters(), State, (on_candidates, on_answer, on_timeout), name="flowbender")
