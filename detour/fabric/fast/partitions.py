# SPDX-License-Identifier: Apache-2.0
"""Busy connections by the links that their data share: a partition shares none with another one."""

from __future__ import annotations

from detour.base.jit import inner, int64
from detour.fabric.fast import jumps
from detour.fabric.fast.records import ASLEEP, AWAKE, FREE, NONE, Flow, State, flow_row, hop_row, link_row, part_row


@inner
def begin(s: State, flow: int) -> None:
    """A connection has become busy; what it joins is awake."""
    f = flow_row(s, flow)
    f.part = _new(s, flow)
    for k in range(f.data_hops):
        link = link_row(s, hop_row(s, f.first_hop + k).channel)
        other = link.part
        if other == NONE:
            link.part = f.part
        elif other != f.part:
            if part_row(s, other).state == ASLEEP:
                jumps.wake(s, other)
            if part_row(s, other).flows < part_row(s, f.part).flows:
                _absorb(s, f.part, other)
            else:
                _absorb(s, other, f.part)
    part = part_row(s, f.part)
    part.since = part.formed = s.look
    part.refused = part.means = part.key = part.placed = 0
    part.noted = part.compared = NONE


@inner
def end(s: State, flow: int) -> None:
    """A connection has nothing to send any more; its partition is awake."""
    form_again(s, flow_row(s, flow).part, flow)


@inner
def form_again(s: State, p: int, without: int) -> None:
    """The connections of a partition, which is awake, become partitions anew, but for one (-1: all)."""
    one = dissolve(s, p)
    while one != NONE:
        following = flow_row(s, one).next
        if one != without:
            begin(s, one)
        one = following


@inner
def dissolve(s: State, p: int) -> int:
    """Return the first connection of a partition, which is none any more."""
    part = part_row(s, p)
    flow = part.first
    for _ in range(part.flows):
        f = flow_row(s, flow)
        f.part = NONE
        give_links(s, f, int64(NONE))
        flow = f.next
    part.state = FREE
    s.awake -= 1
    return part.first


@inner
def give_links(s: State, f: Flow, p: int) -> None:
    """The links of a connection's data are a partition's (-1: nobody's)."""
    for k in range(f.data_hops):
        link_row(s, hop_row(s, f.first_hop + k).channel).part = p


@inner
def _new(s: State, flow: int) -> int:
    """Return a partition with one connection."""
    p = 0
    while p < s.most and part_row(s, p).state != FREE:
        p += 1
    s.most = max(s.most, p + 1)
    part = part_row(s, p)
    part.state = AWAKE
    part.half = s.half
    part.first = flow
    part.flows = 1
    flow_row(s, flow).next = NONE
    s.awake += 1
    return p


@inner
def _absorb(s: State, p: int, other: int) -> None:
    """Another partition becomes part of one; both are awake."""
    part, gone = part_row(s, p), part_row(s, other)
    flow, last = gone.first, gone.first
    for _ in range(gone.flows):
        f = flow_row(s, flow)
        f.part = p
        for k in range(f.data_hops):
            link = link_row(s, hop_row(s, f.first_hop + k).channel)
            if link.part == other:
                link.part = p
        last, flow = flow, f.next
    flow_row(s, last).next = part.first
    part.first = gone.first
    part.flows += gone.flows
    gone.state = FREE
    s.awake -= 1
