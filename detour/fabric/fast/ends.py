# SPDX-License-Identifier: Apache-2.0
"""Messages that end, and connections that begin, while their partition is suspended.

Connections that carry rates (`carried`) know what they send while others come and go. So the end of a message wakes
nobody as long as all know their rates with those that are left: the message is complete at the time that its rate
says, between two looks, and its connection has the next one, or leaves the partition. What begins on links of one
suspended partition only, joins it.

A connection whose message ends so has no frames any more: they are of that message. What would be in flight is as much
as its window, less what is on the way back; it begins with that when it wakes, and counts as ahead by it until then.
"""

from __future__ import annotations

from detour.base.jit import inner, int64
from detour.engine.loop import suspension as frames
from detour.fabric.fast import carried, jumps, partitions
from detour.fabric.fast.records import ASLEEP, FREE, NONE, Flow, State, flow_row, hop_row, link_row, part_row
from detour.hosts import suspension as hosts
from detour.hosts.rows import qp_row
from detour.hosts.state import Handle, hosts_at

_MARKED, _NOT = int64(1), int64(0)


@inner
def begin(s: State, p: int) -> None:
    """Suspend a partition whose connections know their rates, unless one has parts of two messages in flight."""
    hs, part, flow = hosts_at(s.hosts, 0), part_row(s, p), part_row(s, p).first
    for _ in range(part.flows):
        f = flow_row(s, flow)
        if not hosts.can_finish(hs, f.sender, f.receiver):
            return
        flow = f.next
    flow = part.first
    for _ in range(part.flows):
        f = flow_row(s, flow)
        f.gained = 0.0
        f.left = float(hosts.undelivered(hs, f.sender, f.receiver))
        f.flying = float(hosts.under_way(hs, f.sender, f.receiver))
        flow = f.next
    part.fluid_ps = NONE
    part.covers = 1
    part.check_ps = 0
    part.moved_ps = frames.loop_at(s.loop).now
    jumps.suspend(s, p, _next_end(s, p) - part.moved_ps)


@inner
def act(s: State, p: int) -> None:
    """End the messages of a suspended partition that do so before the next look."""
    hs, part, flow = hosts_at(s.hosts, 0), part_row(s, p), part_row(s, p).first
    jumps.advance(s, p)
    now, left, goes_on = part.moved_ps, False, True
    for _ in range(part.flows):
        f = flow_row(s, flow)
        following = f.next
        ends = now + max(int(f.left / f.rate), 0)
        if ends < now + s.every_ps:
            _finish(s, hs, p, f, ends)
            if qp_row(hs, f.sender).snd_una < qp_row(hs, f.sender).snd_end:
                f.left += hosts.undelivered(hs, f.sender, f.receiver)
                goes_on = goes_on and hosts.can_finish(hs, f.sender, f.receiver)
            else:
                _leave(s, hs, p, flow)
                left = True
        flow = following
    if part.flows == 0:
        part.state = FREE
        s.asleep -= 1
    elif not goes_on:
        _wake(s, p)
    elif left:
        _change(s, p)
    else:
        part.until_ps = _next_end(s, p)


@inner
def join(s: State, flow: int) -> bool:
    """Let a connection that has become busy take part in the jump of the partition on its links; False: there is none,
    or it is over."""
    hs, g, f = hosts_at(s.hosts, 0), frames.loop_at(s.loop), flow_row(s, flow)
    p = NONE
    for k in range(f.data_hops):
        other = link_row(s, hop_row(s, f.first_hop + k).channel).part
        if other != NONE and p != NONE and other != p:
            return False
        p = other if other != NONE else p
    if p == NONE:
        return False
    part = part_row(s, p)
    if part.state != ASLEEP or part.covers == 0 or not hosts.can_finish(hs, f.sender, f.receiver):
        return False
    if not carried.take_mean(f, s.every_ps):
        return False
    jumps.advance(s, p)
    f.next = part.first
    part.first = flow
    part.flows += 1
    part.placed = 0
    s.mark += 1
    jumps.mark(s, f, _MARKED, _MARKED)
    jumps.take(s, g, hs, p, f)
    jumps.mark(s, f, _NOT, _NOT)
    f.part = p
    f.gained = f.loads = 0.0
    f.left = hosts.undelivered(hs, f.sender, f.receiver) + _ahead(f)
    f.left -= min(g.now - hosts.posted(hs, f.sender), s.every_ps) * f.rate
    _land(s, hs, p, f)
    partitions.give_links(s, f, p)
    _change(s, p)
    return True


@inner
def _next_end(s: State, p: int) -> int:
    """Return the last look before the next message of a suspended partition ends."""
    part, flow = part_row(s, p), part_row(s, p).first
    ends = 1e30
    for _ in range(part.flows):
        f = flow_row(s, flow)
        ends = min(ends, f.left / f.rate)
        flow = f.next
    return (part.moved_ps + int(max(ends, 0.0))) // s.every_ps * s.every_ps


@inner
def _ahead(f: Flow) -> float:
    """Return how many packets of a connection's are on their way: all that its window lets it send, less those that are
    answered."""
    return max(f.window - f.rate * f.delay_ps / 2, 0.0)


@inner
def _finish(s: State, hs: Handle, p: int, f: Flow, when: int) -> None:
    """The message of a suspended connection ends."""
    packets = hosts.unsent(hs, f.sender) - 1
    if packets > 0:
        hosts.skip(hs, f.sender, packets)
        jumps.credit(s, hs, f, packets)
        f.gained -= packets
        f.counted -= packets
    hosts.finish(hs, f.sender, f.receiver, when)
    _land(s, hs, p, f)
    g = frames.loop_at(s.loop)
    frames.kick(g, f.nic)
    frames.kick(g, hop_row(s, f.first_hop + f.data_hops).nic)


@inner
def _land(s: State, hs: Handle, p: int, f: Flow) -> None:
    """A suspended connection has no frames any more."""
    if qp_row(hs, f.sender).snd_una < qp_row(hs, f.sender).snd_nxt:
        hosts.land(hs, f.sender, f.receiver)
    jumps.mark(s, f, _MARKED, _MARKED)
    frames.drop(s.loop, s.frames, part_row(s, p).frames)
    hosts.drop_answers(hs, s.kept, part_row(s, p).answers)
    jumps.mark(s, f, _NOT, _NOT)
    f.flying = _ahead(f)


@inner
def _leave(s: State, hs: Handle, p: int, flow: int) -> None:
    """A suspended connection has no message any more, and goes on."""
    part, f = part_row(s, p), flow_row(s, flow)
    g = frames.loop_at(s.loop)
    jumps.load_one(s, g, f, jumps.MINUS)
    partitions.give_links(s, f, int64(NONE))
    if part.first == flow:
        part.first = f.next
    else:
        before = flow_row(s, part.first)
        while before.next != flow:
            before = flow_row(s, before.next)
        before.next = f.next
    part.flows -= 1
    part.placed = 0
    f.part = NONE
    f.busy = 0
    jumps.count_one(s, f, int(f.gained))
    hosts.resume(hs, f.sender, f.window, int64(0), g.now - f.begun_ps, s.control_times, s.path_times)
    _claim(s, p)


@inner
def _claim(s: State, p: int) -> None:
    """The links of its connections are a partition's."""
    flow = part_row(s, p).first
    for _ in range(part_row(s, p).flows):
        partitions.give_links(s, flow_row(s, flow), p)
        flow = flow_row(s, flow).next


@inner
def _change(s: State, p: int) -> None:
    """Others are in a suspended partition: it goes on with the rates that these connections know."""
    part, g = part_row(s, p), frames.loop_at(s.loop)
    if carried.have_rates(s, p):
        part.check_ps = 0
    elif part.check_ps == 0:
        part.check_ps = g.now + s.every_ps
    jumps.load(s, g, p, jumps.MINUS)
    flow = part.first
    for _ in range(part.flows):
        flow_row(s, flow).loads = flow_row(s, flow).rate
        flow = flow_row(s, flow).next
    jumps.load(s, g, p, jumps.PLUS)
    part.until_ps = _next_end(s, p)
    if part.check_ps > 0:
        part.until_ps = min(part.until_ps, part.check_ps)


@inner
def check(s: State, p: int) -> None:
    """Wake a suspended partition whose connections do not know their rates, not even after the next look: the end of a
    message lets another one begin, so there are sets of connections that are there for a moment only."""
    if 0 < part_row(s, p).check_ps <= frames.loop_at(s.loop).now:
        _wake(s, p)


@inner
def _wake(s: State, p: int) -> None:
    """Wake a partition, of which connections have left."""
    jumps.wake(s, p)
    partitions.form_again(s, p, int64(NONE))
