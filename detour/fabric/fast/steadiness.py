# SPDX-License-Identifier: Apache-2.0
"""Which partitions are steady, and the rates of their connections in the long run.

The last looks are two halves. A partition is steady if what it has sent and what it has in flight differ by no more
than a bound from one to the other, every connection has sent in both, and nothing was lost or sent again. A half takes
some round trips, so that what swings about a mean from one round trip to the next is in both of them; what drifts is
not.

Two DCTCP senders at a link have equal shares over a long time only; from moment to moment these wander by a quarter,
and what a moment shows must not count for long. So the rates of connections that are alike are averages over them. They
are alike if they have the same bottleneck and equally long paths. Where others pass that bottleneck too, whose paths
are longer or have another bottleneck besides, windows need some milliseconds to find shares that nobody can tell
beforehand: there the mean of a long time counts, and not for long.
"""

from __future__ import annotations

from detour.base.jit import inner
from detour.fabric.fast.records import HALF, KEPT, NONE, Look, State, flow_row, hop_row, link_row, look_row, part_row
from detour.hosts.state import MAX_TIME

FLYING = 5.0
"""times the bound on rates: by how much what is in flight may differ"""
ROUNDING = 2
"""packets by which counts at the ends of a half may be off"""
_FULL = 0.93
"""use of a link from which on it is a bottleneck"""
_MEAN, _SETTLED, _MOST_MEANS = 256, 2, 8
"""of connections that are not alike: looks in a mean, how many of these pass before one counts, and for how long it may
count at most, in its own length"""
_UNSTEADY = -1
_PS_PER_SECOND_OF_BITS = 8e12


@inner(forceinline=True)
def _row(s: State, flow: int, ago: int) -> Look:
    """A connection some looks ago."""
    return look_row(s, (s.look - ago) % KEPT * s.count + flow)


@inner
def is_steady(s: State, p: int) -> bool:
    """Return whether the sums of a partition's rates and of what it has in flight do not change."""
    part = part_row(s, p)
    if s.look - part.since < 2 * HALF:
        return False
    first = second = early = late = 0
    flow = part.first
    for _ in range(part.flows):
        begin, middle, last = _row(s, flow, 2 * HALF), _row(s, flow, HALF), _row(s, flow, 0)
        if middle.acked <= begin.acked or last.acked <= middle.acked or last.trouble != begin.trouble:
            return False
        first += middle.acked - begin.acked
        second += last.acked - middle.acked
        early += middle.flying - begin.flying
        late += last.flying - middle.flying
        flow = flow_row(s, flow).next
    if abs(second - first) > s.error * max(first, second) + ROUNDING:
        return False
    return abs(late - early) <= FLYING * s.error * max(early, late) + HALF


@inner
def find_rates(s: State, p: int) -> int:
    """Finds the rates of a steady partition's connections, and returns for how many ps they may count at most; -1: it
    is not steady."""
    _find_load(s, p)
    if not _group(s, p):
        return _find_means(s, p)
    part, flow = part_row(s, p), part_row(s, p).first
    for _ in range(part.flows):
        f = flow_row(s, flow)
        if f.group == flow:
            if abs(f.late - f.early) > s.error * max(f.early, f.late) + ROUNDING:
                return _UNSTEADY
            # Counts of packets are rounded; a link that seems to be in use all the time is.
            both = f.early + f.late
            f.rate = (both if both < f.most * f.members - ROUNDING else f.most * f.members) / (f.members * _span(s))
        flow = f.next
    flow = part.first
    for _ in range(part.flows):
        f = flow_row(s, flow)
        f.rate = flow_row(s, f.group).rate
        flow = f.next
    return MAX_TIME


@inner
def _span(s: State) -> int:
    """Return the time that is looked back on."""
    return 2 * HALF * s.every_ps


@inner
def _bits(s: State) -> float:
    """Return what a packet a ps takes of a link, bits a second."""
    return (s.wire + s.overhead) * _PS_PER_SECOND_OF_BITS


@inner
def _free(s: State, channel: int) -> float:
    """Return what data may take of a link, bits a second."""
    return float(link_row(s, channel).rate_bps - link_row(s, channel).load_bps)


@inner
def _find_load(s: State, p: int) -> None:
    """Finds what a partition's connections send, and what its links carry of it."""
    part, flow = part_row(s, p), part_row(s, p).first
    s.mark += 1
    for _ in range(part.flows):
        f = flow_row(s, flow)
        begin, middle, last = _row(s, flow, 2 * HALF), _row(s, flow, HALF), _row(s, flow, 0)
        f.early = float(middle.acked - begin.acked)
        f.late = float(last.acked - middle.acked)
        f.members = 1
        f.most = 1e30
        f.group = flow
        for k in range(f.data_hops):
            link = link_row(s, hop_row(s, f.first_hop + k).channel)
            if link.mark != s.mark:
                link.mark = s.mark
                link.used_bps = 0.0
                link.users = 0
                link.group = NONE
            link.used_bps += (f.early + f.late) * _bits(s) / _span(s)
            link.users += 1
        flow = f.next


@inner
def _is_full(s: State, channel: int) -> bool:
    return link_row(s, channel).used_bps >= _FULL * _free(s, channel)


@inner
def _group(s: State, p: int) -> bool:
    """Finds which connections are alike; False: some with the same bottleneck are not."""
    part, flow = part_row(s, p), part_row(s, p).first
    for _ in range(part.flows):
        f = flow_row(s, flow)
        for k in range(f.data_hops):
            channel = hop_row(s, f.first_hop + k).channel
            if _is_full(s, channel):
                link = link_row(s, channel)
                if f.group == flow and link.group != NONE:
                    f.group = link.group
                if link.group == NONE:
                    link.group = f.group
                elif link.group != f.group:
                    return False
        if f.group != flow:
            one = flow_row(s, f.group)
            if not _are_alike(s, f.group, flow):
                return False
            one.early += f.early
            one.late += f.late
            one.members += 1
        flow = f.next
    flow = part.first
    for _ in range(part.flows):
        f = flow_row(s, flow)
        one = flow_row(s, f.group)
        for k in range(f.data_hops):
            channel = hop_row(s, f.first_hop + k).channel
            if _is_full(s, channel):
                one.most = min(one.most, _free(s, channel) * _span(s) / (_bits(s) * link_row(s, channel).users))
        flow = f.next
    return True


@inner
def _are_alike(s: State, one: int, other: int) -> bool:
    """Return whether two connections have the same bottlenecks and equally long paths."""
    f, g = flow_row(s, one), flow_row(s, other)
    k = m = 0
    while f.delay_ps == g.delay_ps:
        while k < f.data_hops and not _is_full(s, hop_row(s, f.first_hop + k).channel):
            k += 1
        while m < g.data_hops and not _is_full(s, hop_row(s, g.first_hop + m).channel):
            m += 1
        if k == f.data_hops or m == g.data_hops:
            return k == f.data_hops and m == g.data_hops
        if hop_row(s, f.first_hop + k).channel != hop_row(s, g.first_hop + m).channel:
            return False
        k += 1
        m += 1
    return False


@inner
def _find_means(s: State, p: int) -> int:
    """Finds the mean of a long time, if there is one by now; returns for how long it counts, -1: there is none."""
    part = part_row(s, p)
    looks = s.look - part.noted
    if part.noted != NONE and looks < _MEAN:
        return _UNSTEADY
    counts = part.noted != NONE
    if counts:
        part.means += 1
    counts = counts and part.means >= _SETTLED
    flow = part.first
    for _ in range(part.flows):
        f = flow_row(s, flow)
        acked = look_row(s, s.look % KEPT * s.count + flow).acked
        f.rate = (acked - f.noted) / (max(looks, 1) * s.every_ps)
        counts = counts and acked > f.noted
        f.noted = acked
        flow = f.next
    part.noted = s.look
    return _MOST_MEANS * _MEAN * s.every_ps if counts else _UNSTEADY
