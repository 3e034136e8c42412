# SPDX-License-Identifier: Apache-2.0
"""The test for steady partitions, and the rates of their connections in the long run.

The last looks are two halves. A partition is steady if what it has sent and what it has in flight differ by no more
than a bound from one to the other, every connection has sent in both, and nothing was lost or sent again. A half takes
some round trips, so that what swings about a mean from one round trip to the next is in both of them; what drifts is
not.

Two DCTCP senders at a link have equal shares over a long time only; from moment to moment these wander by a quarter,
and what a moment shows must not count for long. So the rates of connections that are alike are averages over them. They
are alike if they have the same bottleneck and equally long paths. Where others pass that bottleneck too, whose paths
are longer or have another bottleneck besides, windows need some milliseconds to find shares that nobody can tell
beforehand: there the mean of a long time counts, and not for long.

Senders with a rate (DCQCN) keep unequal shares for milliseconds, and timers change their rates in steps: halves are
longer, each goes on with its share of the last one, and no longer than a drift that the test has not noticed needs to
exceed the bound. Connections that spray are alike if they have the same shares of links and share these with as many
others. If they are not, but differ by chance only, the mean of all counts.

A connection that shares no link is nobody's business but its own: a short time and a narrow bound tell its rate.
"""

from __future__ import annotations

from detour.base.jit import inner
from detour.fabric.fast import carried
from detour.fabric.fast.records import LINE_HALF, NONE, State, flow_row, hop_row, link_row, part_row, row_ago
from detour.hosts.state import MAX_TIME

FLYING = 5.0
"""times the bound on rates: by how much what is in flight may differ"""
ROUNDING = 2
"""packets by which counts at the ends of a half may be off"""
_ALONE = 0.002
"""bound on the rate of a connection that shares no link: nobody else's wandering is in it"""
_RAMP = 3
"""halves after which its beginning does not count any more"""
_LEAST_CHANGE = 1e-3
"""of a rate from one half to the next that is told from none"""
_MOST_HALVES = 8.0
"""for which shares of senders with a rate count at most"""
_FULL, _FILLED = 0.93, 0.97
"""use of a link from which on it is a bottleneck; and one that a sender with a rate fills"""
_MEAN, _SETTLED, _MOST_MEANS = 256, 2, 8
"""of connections that are not alike: looks in a mean, how many of these pass before one counts, and for how long it may
count at most, in its own length"""
_SAME, _SAME_WEIGHTED = 0.1, 0.01
"""of what connections that spray share with others: difference that counts as none, as they draw their paths; of those
whose paths have weights, which are unlike as soon as others use them more"""
_APART, _LASTING, _DIFFERENT = 128, 0.75, 2.0
"""of connections that spray: looks in a half; up to what part of the bound on rates differences that last from one half
to the next are chance; and from which on they are none for sure"""
_UNSTEADY = -1
_PS_PER_SECOND_OF_BITS = 8e12


@inner
def _sent(s: State, p: int, flow: int, ago: int) -> float:
    """Return how many packets a connection has sent in the half that began so many looks ago. The times at which the
    last ones at its ends were acknowledged count, so this is no whole number; negative: none was."""
    half = part_row(s, p).half
    begin, end = row_ago(s, flow, ago), row_ago(s, flow, ago - half)
    if end.acked <= begin.acked or end.at <= begin.at:
        return -1.0
    return (end.acked - begin.acked) * (half * s.every_ps / (end.at - begin.at))


@inner
def is_steady(s: State, p: int) -> bool:
    """Return whether the sums of a partition's rates and of what it has in flight do not change."""
    part = part_row(s, p)
    if part.flows == 1:
        part.half = LINE_HALF
        if _is_steady(s, p, _ALONE, 0.0) and (s.paced == 0 or _fills_link(s, p)):
            return True
        if s.look - part.since < _RAMP * s.half:
            return False  # a mean with the beginning in it would be too low
    part.half = s.half
    return _is_steady(s, p, s.error, float(ROUNDING))


@inner
def _is_steady(s: State, p: int, error: float, rounding: float) -> bool:
    """`is_steady` for the halves that the partition has now, with a bound on rates."""
    part = part_row(s, p)
    if s.look - part.since < 2 * part.half:
        return False
    first = second = 0.0
    early = late = 0
    flow = part.first
    for _ in range(part.flows):
        begin, middle, last = row_ago(s, flow, 2 * part.half), row_ago(s, flow, part.half), row_ago(s, flow, 0)
        one, other = _sent(s, p, flow, 2 * part.half), _sent(s, p, flow, part.half)
        if one < 0 or other < 0 or last.trouble != begin.trouble:
            return False
        first += one
        second += other
        early += middle.flying - begin.flying
        late += last.flying - middle.flying
        flow = flow_row(s, flow).next
    if abs(second - first) > error * max(first, second) + rounding:
        return False
    return abs(late - early) <= FLYING * s.error * max(early, late) + part.half


@inner
def _fills_link(s: State, p: int) -> bool:
    """Return whether a connection that shares links with nobody sends as much as one of these carries, but for answers
    of others: nothing makes it faster."""
    flow, most = part_row(s, p).first, 1e30
    f = flow_row(s, flow)
    for k in range(f.data_hops):
        hop = hop_row(s, f.first_hop + k)
        most = min(most, _free(s, hop.channel) / hop.share)
    return _sent(s, p, flow, LINE_HALF) * _bits(s) >= _FILLED * most * LINE_HALF * s.every_ps


@inner
def find_rates(s: State, p: int) -> int:
    """Find the rates of a steady partition's connections, and return for how many ps they may count at most; -1: it
    is not steady."""
    _find_load(s, p)
    if not _group(s, p):
        return _find_means(s, p)
    part, flow = part_row(s, p), part_row(s, p).first
    change, counts_ps = 0.0, MAX_TIME
    for _ in range(part.flows):
        f = flow_row(s, flow)
        if f.group == flow:
            change = max(change, abs(f.late - f.early) / max(f.early, f.late))
            if abs(f.late - f.early) > s.error * max(f.early, f.late) + ROUNDING:
                return _UNSTEADY
            # Counts of packets are rounded; a link that seems to be in use all the time is.
            both = f.early + f.late
            f.most = both / f.members if both < f.most * f.members - ROUNDING else f.most
        flow = f.next
    flow = part.first
    for _ in range(part.flows):
        f = flow_row(s, flow)
        one = flow_row(s, f.group)
        f.rate = one.most / _span(s, p)
        if s.paced != 0:
            f.rate *= f.own * one.members / one.late  # shares wander: those of the last half
        flow = f.next
    if s.paced != 0 and part.half == s.half:  # what drifts on by as much has changed by the bound then
        counts_ps = int(part.half * s.every_ps * min(s.error / max(change, _LEAST_CHANGE), _MOST_HALVES))
    return counts_ps


@inner
def _span(s: State, p: int) -> int:
    """Return the time that is looked back on."""
    return 2 * part_row(s, p).half * s.every_ps


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
    """Find what a partition's connections send, and what its links carry of it."""
    part, flow = part_row(s, p), part_row(s, p).first
    s.mark += 1
    for _ in range(part.flows):
        f = flow_row(s, flow)
        f.early = _sent(s, p, flow, 2 * part.half)
        f.late = _sent(s, p, flow, part.half)
        f.own = f.late
        f.members = 1
        f.most = 1e30
        f.group = flow
        for k in range(f.data_hops):
            hop = hop_row(s, f.first_hop + k)
            link = link_row(s, hop.channel)
            if link.mark != s.mark:
                link.mark = s.mark
                link.used_bps = 0.0
                link.users = 0.0
                link.group = NONE
            link.used_bps += hop.share * (f.early + f.late) * _bits(s) / _span(s, p)
            link.users += hop.share
        flow = f.next


@inner
def _is_full(s: State, channel: int) -> bool:
    return link_row(s, channel).used_bps >= _FULL * _free(s, channel)


@inner
def _group(s: State, p: int) -> bool:
    """Find which connections are alike; False: some with the same bottleneck are not."""
    part, flow = part_row(s, p), part_row(s, p).first
    for _ in range(part.flows):
        f = flow_row(s, flow)
        if f.sprays != 0:
            f.group = _find_twin(s, p, flow)
        for k in range(f.data_hops):
            channel = hop_row(s, f.first_hop + k).channel
            if _is_full(s, channel):
                link = link_row(s, channel)
                if f.sprays == 0 and f.group == flow and link.group != NONE:
                    f.group = link.group
                if link.group == NONE:
                    link.group = f.group
                elif link.group != f.group:
                    return False
        if f.group != flow:
            one = flow_row(s, f.group)
            if f.sprays == 0 and not _are_alike(s, f.group, flow):
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
                one.most = min(one.most, _free(s, channel) * _span(s, p) / (_bits(s) * link_row(s, channel).users))
        flow = f.next
    return True


@inner
def _find_twin(s: State, p: int, flow: int) -> int:
    """Return the first connection of a partition that has the same shares of links as one that sprays, and shares them
    with as many others; they may be other links."""
    f = flow_row(s, flow)
    f.load, same = 0.0, _SAME_WEIGHTED if f.weighted != 0 else _SAME
    for k in range(f.data_hops):
        hop = hop_row(s, f.first_hop + k)
        f.load += hop.share * link_row(s, hop.channel).users
    other = part_row(s, p).first
    while other != flow:
        g = flow_row(s, other)
        alike = g.sprays != 0 and g.delay_ps == f.delay_ps and abs(g.load - f.load) < same * f.load
        if alike and g.group == other:
            return other
        other = g.next
    return flow


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
    """Find the mean of a long time, if there is one by now; return for how long it counts, -1: there is none."""
    part = part_row(s, p)
    part.by_chance = 1 if flow_row(s, part.first).sprays != 0 and _differ_by_chance(s, p) else 0
    if part.by_chance != 0:
        return _MOST_MEANS * 2 * _APART * s.every_ps
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
        acked = row_ago(s, flow, 0).acked
        f.rate = (acked - f.noted) / (max(looks, 1) * s.every_ps)
        counts = counts and acked > f.noted
        f.noted = acked
        flow = f.next
    part.noted = s.look
    return _MOST_MEANS * _MEAN * s.every_ps if counts else _UNSTEADY


@inner
def _differ_by_chance(s: State, p: int) -> bool:
    """Find the rates of connections that spray, if they differ by chance: what tells each from the mean of all in one
    half of some ms is not what does in the next, but for less than the bound. Each has the mean of all."""
    part = part_row(s, p)
    if part.compared != NONE and s.look - part.compared < _APART:
        return False
    part.halves = 0 if part.compared == NONE else part.halves + 1
    early = late = 0.0
    flow = part.first
    for _ in range(part.flows):
        f = flow_row(s, flow)
        acked = row_ago(s, flow, 0).acked
        f.early = f.before
        f.late = f.before = (acked - f.seen) * (_APART / max(s.look - part.compared, 1))
        f.seen = acked
        early += f.early
        late += f.late
        flow = f.next
    part.compared = s.look
    if part.halves < 2 or abs(late - early) > s.error * max(early, late) + ROUNDING:
        return False
    early /= part.flows
    late /= part.flows
    lasting = 0.0
    flow = part.first
    for _ in range(part.flows):
        f = flow_row(s, flow)
        lasting += (f.early - early) * (f.late - late) / part.flows
        f.rate = (early + late) / (2 * _APART * s.every_ps)
        flow = f.next
    mean = (early + late) / 2
    carried.tell(s, p, lasting > (_DIFFERENT * s.error * mean) ** 2)
    return lasting <= (_LASTING * s.error * mean) ** 2
