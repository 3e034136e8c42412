# SPDX-License-Identifier: Apache-2.0
"""Partitions that are suspended and go on later, when each of their senders has sent what its rate says.

The frames of a suspended partition are out of the network, its senders stand still, and its links count what they would
have carried. Everybody else goes on, on links that are slower by the answers that are missing.
"""

from __future__ import annotations

from detour.base.jit import inner, int64
from detour.base.memory import store8
from detour.engine.loop import suspension as frames
from detour.engine.loop.layout import LoopGlobals
from detour.fabric.fast import fluid
from detour.fabric.fast.records import (
    ASLEEP,
    AWAKE,
    NONE,
    Flow,
    Partition,
    State,
    flow_row,
    hop_row,
    link_row,
    part_row,
    row_ago,
)
from detour.hosts import suspension as hosts
from detour.hosts.rows import qp_row
from detour.hosts.state import Handle, hosts_at

PLUS, MINUS = int64(1), int64(-1)


@inner
def observe(s: State, hs: Handle, flow: int) -> None:
    """Note what a connection has at this look."""
    q, now = qp_row(hs, flow_row(s, flow).sender), row_ago(s, flow, 0)
    now.acked = q.snd_una
    now.at = q.last_progress
    now.flying = row_ago(s, flow, 1).flying + q.inflight
    now.trouble = q.st_lost + q.st_rtos + q.st_retransmitted + q.st_tail_probes


@inner
def gained(s: State, part: Partition, f: Flow) -> int:
    """Return how many packets a suspended sender has sent since its jump began."""
    if part.fluid_ps < 0 and part.covers == 0:
        return int((frames.loop_at(s.loop).now - part.begun_ps) * f.rate)
    return int(f.gained)


@inner
def advance(s: State, p: int) -> None:
    """Count what a suspended partition's connections have sent until now, if their rates change."""
    part, now = part_row(s, p), frames.loop_at(s.loop).now
    if part.fluid_ps >= 0:
        fluid.advance(s, p, now)
    elif part.covers != 0:
        flow = part.first
        for _ in range(part.flows):
            f = flow_row(s, flow)
            sent = (now - part.moved_ps) * f.rate
            f.gained += sent
            f.left -= sent
            flow = f.next
        part.moved_ps = now


@inner
def _left_out(s: State, hs: Handle, part: Partition, f: Flow) -> int:
    """Return how many packets of its message a sender that goes on need not send."""
    if part.covers == 0:
        return gained(s, part, f)
    unsent = hosts.unsent(hs, f.sender)
    return max(unsent - max(int(f.left - f.flying + 0.5), 1), 0)


@inner
def suspend(s: State, p: int, jump_ps: int) -> None:
    """Suspend a partition, unless not all is found that its connections have in flight."""
    hs, g, part = hosts_at(s.hosts, 0), frames.loop_at(s.loop), part_row(s, p)
    if part.fluid_ps >= 0:
        fluid.begin(s, g, p)
    data, answers, flow = 0, 0, part.first
    for _ in range(part.flows):
        f = flow_row(s, flow)
        mark(s, f, int64(frames.DATA), int64(frames.ANSWERS))
        q = qp_row(hs, f.sender)
        data += hosts.under_way(hs, f.sender, f.receiver)
        answers += q.inflight if q.selective else 0
        flow = f.next
    s.mark += 1
    s.frames.data = 0
    flow = part.first
    for _ in range(part.flows):
        f = flow_row(s, flow)
        take(s, g, hs, p, f)
        f.loads = f.rate if part.fluid_ps < 0 else f.rate * (s.answer + s.overhead) / s.answer
        flow = f.next
    flow = part.first
    for _ in range(part.flows):
        mark(s, flow_row(s, flow), int64(0), int64(0))
        flow = flow_row(s, flow).next
    part.begun_ps = g.now
    part.until_ps = g.now + jump_ps
    part.state = ASLEEP
    part.noted = part.compared = NONE
    s.awake -= 1
    s.asleep += 1
    load(s, g, p, PLUS)
    # A packet that has not arrived is a frame, and each other one in flight has an answer, if all are answered. If they
    # are not found, the paths are others than they seem to be.
    if s.frames.data != data or part.frames.count + part.answers.count < answers:
        part.refused += 1
        wake(s, p)


@inner
def take(s: State, g: LoopGlobals, hs: Handle, p: int, f: Flow) -> None:
    """Suspend a connection of a partition. Those whose frames are taken are marked, and links get another mark."""
    part = part_row(s, p)
    _take_frames(s, g, p, f)
    f.window = hosts.suspend(hs, f.sender)
    hosts.take_answers(hs, f.target, s.kept, part.answers)
    r = qp_row(hs, f.receiver)
    received = max(r.st_rx_packets, 1)
    f.marks = r.st_rx_ecn_marked / received
    f.queued = r.st_rx_delay_sum / received
    f.samples = r.st_rx_delay_samples / received
    f.counted = 0
    f.begun_ps = g.now


@inner
def mark(s: State, f: Flow, data: int, answers: int) -> None:
    store8(s.frames.marks + f.receiver, data)
    store8(s.frames.marks + f.sender, answers)


@inner
def _take_frames(s: State, g: LoopGlobals, p: int, f: Flow) -> None:
    """Take the frames of marked connections off a connection's links, and out of the queues in front of these."""
    for k in range(f.hops):
        hop = hop_row(s, f.first_hop + k)
        link = link_row(s, hop.channel)
        hop.left = 0
        if link.mark == s.mark:
            continue
        link.mark = s.mark
        frames.take_off_channel(g, hop.channel, s.frames, part_row(s, p).frames)
        if hop.port >= 0:
            frames.take_out_of_port(g, hop.port, s.frames, part_row(s, p).frames)
        hop.left = frames.time_left(g, hop.port, hop.nic)


@inner
def load(s: State, g: LoopGlobals, p: int, sign: int) -> None:
    """Links carry the answers of what is suspended all the same: they have so much less for others."""
    flow = part_row(s, p).first
    for _ in range(part_row(s, p).flows):
        load_one(s, g, flow_row(s, flow), sign)
        flow = flow_row(s, flow).next


@inner
def load_one(s: State, g: LoopGlobals, f: Flow, sign: int) -> None:
    """`load` for a connection."""
    for k in range(f.data_hops, f.hops):
        hop = hop_row(s, f.first_hop + k)
        link = link_row(s, hop.channel)
        link.load_bps += sign * int(hop.share * f.loads * s.answer * 8e12)
        frames.set_rate(g, hop.channel, link.rate_bps - link.load_bps)


@inner
def wake(s: State, p: int) -> None:
    """A partition goes on, having sent what it would have."""
    hs, g, part = hosts_at(s.hosts, 0), frames.loop_at(s.loop), part_row(s, p)
    advance(s, p)
    if part.fluid_ps >= 0:
        fluid.end(s, p)
    load(s, g, p, MINUS)
    count(s, p)
    elapsed, flow, answered = g.now - part.begun_ps, part.first, part.answers.count > 0
    for _ in range(part.flows):
        _occupy(s, g, flow_row(s, flow))
        flow = flow_row(s, flow).next
    frames.put_back(g, s.frames, part.frames, elapsed)
    flow = part.first
    for _ in range(part.flows):
        f = flow_row(s, flow)
        packets, times = _left_out(s, hs, part, f), s.control_times
        if part.fluid_ps >= 0:
            qp_row(hs, f.sender).pace_next = f.pace_next
            times = s.no_times  # its algorithm has been told of the time that has passed
        hosts.resume(hs, f.sender, f.window, packets, g.now - f.begun_ps, times, s.path_times)
        credit(s, hs, f, packets)
        observe(s, hs, flow)
        flow = f.next
    hosts.put_answers(hs, s.kept, part.answers)
    flow = part.first
    for _ in range(part.flows):
        f = flow_row(s, flow)
        frames.kick(g, f.nic)
        if answered:
            frames.kick(g, hop_row(s, f.first_hop + f.data_hops).nic)
        flow = f.next
    part.state = AWAKE
    part.covers = 0
    part.since = s.look
    s.asleep -= 1
    s.awake += 1


@inner
def credit(s: State, hs: Handle, f: Flow, packets: int) -> None:
    """Count packets that a connection has not sent."""
    hosts.credit(hs, f.sender, f.receiver, packets, int(f.marks * packets), int(f.queued * packets),
                 int(f.samples * packets))  # fmt: skip
    s.skipped += packets


@inner
def go_on(s: State, p: int) -> bool:
    """Find the rates of a suspended partition until now, if they change; False: it is to wake."""
    g, part = frames.loop_at(s.loop), part_row(s, p)
    now = g.now
    if part.fluid_ps < 0:
        return False
    fluid.advance(s, p, now)
    load(s, g, p, MINUS)
    flow = part.first
    for _ in range(part.flows):
        f = flow_row(s, flow)
        f.loads = f.gained / (now - part.begun_ps) * (s.answer + s.overhead) / s.answer
        flow = f.next
    load(s, g, p, PLUS)
    part.until_ps = now + fluid.looks_left(s, p) * s.every_ps
    return part.until_ps > now


@inner
def _occupy(s: State, g: LoopGlobals, f: Flow) -> None:
    """Ports and NICs of a connection are in use for as long as they were."""
    for k in range(f.hops):
        hop = hop_row(s, f.first_hop + k)
        frames.occupy(g, hop.port, hop.nic, hop.left)


@inner
def count(s: State, p: int) -> None:
    """Links count what the connections of a suspended partition have sent since they last did."""
    part, flow = part_row(s, p), part_row(s, p).first
    advance(s, p)
    for _ in range(part.flows):
        count_one(s, flow_row(s, flow), gained(s, part, flow_row(s, flow)))
        flow = flow_row(s, flow).next


@inner
def count_one(s: State, f: Flow, packets: int) -> None:
    """`count` for a connection that has sent so many packets."""
    g = frames.loop_at(s.loop)
    for k in range(f.hops):
        size = s.wire if k < f.data_hops else s.answer
        hop = hop_row(s, f.first_hop + k)
        frames.credit(g, hop.channel, int(hop.share * packets) - int(hop.share * f.counted), size)
    f.counted = packets
