# SPDX-License-Identifier: Apache-2.0
"""Steady partitions that were there before: what rates their connections had.

Rounds of a collective, and microbatches, are alike: a partition has the same connections as an earlier one, or is the
one that a jump has just ended. If what it sends and has in flight is, in two short halves each, what it had when it was
found steady, and that was twice, its rates are what they were: means of all times that they were found.

The mean of a long time counts for a multiple of that (`steadiness`), in all jumps together; found again, it counts for
as much more, or for ever if connections differ by chance: looking at them for longer makes it more exact, not other.
Nothing is remembered of senders with a rate (DCQCN): their shares depend on which of them began when, and rings went
wrong by up to 8 %.
"""

from __future__ import annotations

from detour.base.jit import inner
from detour.fabric.fast.records import MEMORIES, NONE, State, flow_row, memory_row, part_row, row_ago
from detour.fabric.fast.steadiness import FLYING, ROUNDING
from detour.hosts.state import MAX_TIME

TEST = 2
"""looks in a half of the time that is compared with what is remembered"""
_BOTH = 0.25
"""of the bound, for both halves: rates that are remembered count for long, and answers of others that are missing from
a link make 2 %"""
_TWICE = 2
"""times that rates were found before they are taken for what comes again"""
_UNKNOWN = -1


@inner
def recall(s: State, p: int) -> int:
    """Give a partition's connections the rates that they had, if it is as it was; return for how many ps they may
    count at most; -1: it is not."""
    part = part_row(s, p)
    if s.look - part.since < 2 * TEST:
        return _UNKNOWN
    _find(s, p)
    if part.known == 0 or memory_row(s, flow_row(s, part.first).memory).times < _TWICE or not _is_alike(s, p):
        return _UNKNOWN
    flow = part.first
    for _ in range(part.flows):
        f = flow_row(s, flow)
        f.rate = memory_row(s, f.memory).rate
        flow = f.next
    return memory_row(s, flow_row(s, part.first).memory).left_ps


@inner
def _find(s: State, p: int) -> None:
    """Find the key of a partition, which does not depend on the order of its connections, and what these remember,
    unless that has been done."""
    part, flow = part_row(s, p), part_row(s, p).first
    if part.key != 0:
        return
    part.known = 1
    for _ in range(part.flows):
        part.key ^= flow_row(s, flow).key
        flow = flow_row(s, flow).next
    flow = part.first
    for _ in range(part.flows):
        f = flow_row(s, flow)
        f.memory = _row_of(s, flow, part.key)
        if f.memory == NONE:
            part.known = 0
        flow = f.next


@inner
def _row_of(s: State, flow: int, key: int) -> int:
    for k in range(flow * MEMORIES, (flow + 1) * MEMORIES):
        if memory_row(s, k).key == key:
            return k
    return NONE


@inner
def _is_alike(s: State, p: int) -> bool:
    """Return whether a partition sends and has in flight what it did."""
    part, flow = part_row(s, p), part_row(s, p).first
    first = second = early = late = 0
    rate = flying = 0.0
    for _ in range(part.flows):
        begin, middle, last = row_ago(s, flow, 2 * TEST), row_ago(s, flow, TEST), row_ago(s, flow, 0)
        if last.acked == begin.acked or last.trouble != begin.trouble:
            return False
        first += middle.acked - begin.acked
        second += last.acked - middle.acked
        early += middle.flying - begin.flying
        late += last.flying - middle.flying
        m = memory_row(s, flow_row(s, flow).memory)
        rate += m.rate * TEST * s.every_ps
        flying += m.flying * TEST
        flow = flow_row(s, flow).next
    bound = s.error * rate + ROUNDING
    if abs(first - rate) > bound or abs(second - rate) > bound:
        return False
    if abs(first + second - 2 * rate) > _BOTH * s.error * 2 * rate + 1:
        return False
    bound = FLYING * s.error * flying + TEST
    return abs(early - flying) <= bound and abs(late - flying) <= bound


@inner
def keep(s: State, p: int, counts_ps: int) -> None:
    """Remember the rates of a steady partition, for how long they count, and what it has in flight. Rates that it had
    before within the bound are averaged with those."""
    if s.paced != 0:
        return
    part, flow = part_row(s, p), part_row(s, p).first
    _find(s, p)
    again = part.known != 0 and _has_rates(s, p)
    lasts = counts_ps == MAX_TIME or (part.by_chance != 0 and again)
    for _ in range(part.flows):
        f = flow_row(s, flow)
        if f.memory == NONE:
            f.memory = flow * MEMORIES + f.oldest
            f.oldest = (f.oldest + 1) % MEMORIES
        m = memory_row(s, f.memory)
        m.key = part.key
        m.times = m.times + 1 if again else 1
        m.rate = m.rate + (f.rate - m.rate) / m.times if again else f.rate
        f.rate = m.rate
        m.flying = (row_ago(s, flow, 0).flying - row_ago(s, flow, 2 * part.half).flying) / (2 * part.half)
        m.left_ps = MAX_TIME if lasts else counts_ps * m.times
        flow = f.next
    part.known = 1


@inner
def _has_rates(s: State, p: int) -> bool:
    """Return whether the sum of a partition's rates is what it was."""
    was, rate, flow = 0.0, 0.0, part_row(s, p).first
    for _ in range(part_row(s, p).flows):
        f = flow_row(s, flow)
        was += memory_row(s, f.memory).rate
        rate += f.rate
        flow = f.next
    return abs(rate - was) <= s.error * was


@inner
def spend(s: State, p: int, jump_ps: int) -> None:
    """Rates that count for some time have been used for a part of that."""
    part, flow = part_row(s, p), part_row(s, p).first
    if part.known == 0:
        return
    for _ in range(part.flows):
        m = memory_row(s, flow_row(s, flow).memory)
        if m.left_ps < MAX_TIME:
            m.left_ps -= jump_ps
        flow = flow_row(s, flow).next


@inner
def forget(s: State, flow: int) -> None:
    """A connection remembers nothing: its links, or what they carry, are others now."""
    for k in range(flow * MEMORIES, (flow + 1) * MEMORIES):
        memory_row(s, k).key = 0
