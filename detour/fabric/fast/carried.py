# SPDX-License-Identifier: Apache-2.0
"""Rates that connections which spray, and differ for good, carry from one partition to the next.

Where draws of paths make connections unlike, ends of their messages drift apart, until there is another partition every
0.2 ms: no time to find rates in. But a connection sends what it did when the same others were on its links, whoever
else is in its partition: that is its *context*. It learns the means of its contexts in a first time in which nothing is
skipped, so that windows are what they are in a full run (later on they have less time to grow than there), and later
what it needs for those that are new. What it knows little of is averaged with its mean of that first time, if near.
"""

from __future__ import annotations

from detour.base.jit import inner
from detour.fabric.fast.records import (
    CONTEXTS,
    Flow,
    State,
    context_row,
    flow_row,
    hop_row,
    link_row,
    part_row,
    row_ago,
)
from detour.hosts.state import MAX_TIME

_SETTLED, _TEST = 4, 4
"""looks after which a new partition counts, and those in which each connection sends and loses nothing before a jump"""
_LEARNT = 1536
"""looks of a connection's first time"""
_LEAST, _ENOUGH = 4, 16
"""looks from which on a context's mean counts if it is near that of the first time, and if it is not"""
_NEAR = 0.1
_WAYS = 8
"""rows in which a context may be"""
_KEY = (1 << 62) - 1
_UNKNOWN = -1


@inner
def take(s: State, p: int) -> int:
    """Give a partition's connections the rates that they carry, and learn; return for how many ps they may count at
    most; -1: some are not known."""
    part, flow = part_row(s, p), part_row(s, p).first
    if flow_row(s, flow).sprays == 0 or s.paced != 0 or part.flows == 1:
        return _UNKNOWN
    if s.look == part.since or s.look - part.formed <= _SETTLED:
        return _UNKNOWN
    _find_contexts(s, p)
    _learn(s, p)
    if s.look - part.since < _TEST:
        return _UNKNOWN
    for _ in range(part.flows):
        if not _goes_on(s, flow):
            return _UNKNOWN
        flow = flow_row(s, flow).next
    return MAX_TIME if have_rates(s, p) else _UNKNOWN


@inner
def have_rates(s: State, p: int) -> bool:
    """Return whether all connections of a partition have learnt their rates; those that have, have them then."""
    _find_contexts(s, p)
    known, flow = True, part_row(s, p).first
    for _ in range(part_row(s, p).flows):
        known = _has_rate(s, flow_row(s, flow)) and known
        flow = flow_row(s, flow).next
    return known


@inner
def take_mean(f: Flow, every_ps: int) -> bool:
    """Give a connection the mean rate of its first time, if that is over."""
    if f.differs == 0 or f.looks < _LEARNT:
        return False
    f.rate = f.learnt / (f.looks * every_ps)
    return True


@inner
def tell(s: State, p: int, differ: bool) -> None:
    """A partition's connections differ, and not by chance; or they do not."""
    flow = part_row(s, p).first
    for _ in range(part_row(s, p).flows):
        flow_row(s, flow).differs = 1 if differ else 0
        flow = flow_row(s, flow).next


@inner
def forget(s: State, flow: int) -> None:
    """A connection has learnt nothing: its links, or what they carry, are others now."""
    f = flow_row(s, flow)
    f.differs = 0
    if f.looks == 0:
        return  # its rows have not been touched, so they take no memory yet
    f.learnt = f.looks = 0
    for k in range(flow * CONTEXTS, (flow + 1) * CONTEXTS):
        context_row(s, k).key = 0


@inner
def _find_contexts(s: State, p: int) -> None:
    """Find the contexts of a partition's connections, unless that has been done."""
    part, flow = part_row(s, p), part_row(s, p).first
    if part.placed != 0:
        return
    part.placed = 1
    s.mark += 1
    for _ in range(part.flows):
        f = flow_row(s, flow)
        for k in range(f.data_hops):
            link = link_row(s, hop_row(s, f.first_hop + k).channel)
            if link.mark != s.mark:
                link.mark = s.mark
                link.crowd = 0
            link.crowd ^= f.key
        flow = f.next
    flow = part.first
    for _ in range(part.flows):
        f = flow_row(s, flow)
        key = 0
        for k in range(f.data_hops):
            key = (key * 31 + link_row(s, hop_row(s, f.first_hop + k).channel).crowd) & _KEY
        f.context = _row_of(s, flow * CONTEXTS, key)
        flow = f.next


@inner
def _row_of(s: State, first: int, key: int) -> int:
    """Return the row of a context among those of a connection: another one, of which least is known, is forgotten if
    it has none. Most contexts are there for a moment, and few come again and again."""
    least = first + key % CONTEXTS
    for k in range(_WAYS):
        row = first + (key + k) % CONTEXTS
        if context_row(s, row).key == key:
            return row
        if context_row(s, row).looks < context_row(s, least).looks:
            least = row
    c = context_row(s, least)
    c.key = key
    c.packets = c.looks = 0
    return least


@inner
def _learn(s: State, p: int) -> None:
    """Count what a partition's connections have sent since the last look, as far as it is wanted."""
    flow = part_row(s, p).first
    for _ in range(part_row(s, p).flows):
        f = flow_row(s, flow)
        c = context_row(s, f.context)
        sent = row_ago(s, flow, 0).acked - row_ago(s, flow, 1).acked
        if f.looks < _LEARNT or c.looks < _ENOUGH:
            c.packets += sent
            c.looks += 1
        if f.looks < _LEARNT:
            f.learnt += sent
            f.looks += 1
        flow = f.next


@inner
def _goes_on(s: State, flow: int) -> bool:
    """Return whether a connection sends, and loses nothing."""
    begin, now = row_ago(s, flow, _TEST), row_ago(s, flow, 0)
    return now.acked != begin.acked and now.trouble == begin.trouble


@inner
def _has_rate(s: State, f: Flow) -> bool:
    """Return whether a connection has learnt its rate, which it has then."""
    c = context_row(s, f.context)
    if f.differs == 0 or f.looks < _LEARNT or c.looks < _LEAST or c.packets == 0:
        return False
    mean = f.learnt / f.looks
    is_near = abs(c.packets - mean * c.looks) <= _NEAR * mean * c.looks
    if is_near:
        f.rate = (c.packets + _ENOUGH * mean) / ((c.looks + _ENOUGH) * s.every_ps)
    else:
        f.rate = c.packets / (c.looks * s.every_ps)
    return is_near or c.looks >= _ENOUGH
