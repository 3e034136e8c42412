# SPDX-License-Identifier: Apache-2.0
"""Suspended senders with a rate (DCQCN): their congestion control goes on, and the queues of links are fluids.

Shares of such senders are unequal for tenths of a second and become equal slowly, by timers and marks. So their rates
do not stand still in a jump: the algorithm of each sender is called every `STEP_PS`, as if so many packets had been
sent, and told of a mark as often as one of these would have found a queue that marks, an answer's way ago. What a
link carries of a flow goes to the next one; a window limits a sender to what it holds in a round trip.
"""

from __future__ import annotations

from detour.base.jit import inner
from detour.engine.loop import suspension as frames
from detour.engine.loop.layout import LoopGlobals
from detour.fabric.fast.records import (
    DEPTH,
    NONE,
    Flow,
    Hop,
    Link,
    Queue,
    State,
    buffer_row,
    flow_row,
    hop_row,
    link_row,
    part_row,
    queue_row,
    row_ago,
)
from detour.hosts import draws
from detour.hosts.cc import control
from detour.hosts.rows import cfg_row, qp_row
from detour.hosts.state import Handle, hosts_at

STEP_PS = 1_000_000
"""time between two calls of a sender's algorithm"""
SETTLED = 6
"""looks after which nothing is left of a beginning"""
BOUND = 0.01
"""error of rates below which fluids are not asked for"""
_LINE = 0.9
"""of a link's rate: who has less was told of marks"""
_BITS_PS = 8e12
"""ps in a second, bits in a byte"""
_MOST_LAG = 62
"""steps by which a pause may come late"""
_LEAST_TURN = 1e-3
"""packets that a NIC sends of a connection in a step"""
_LEAST_BYTES = 1000
"""of which a sender's algorithm is told, to say its rate precisely"""


@inner
def is_settled(s: State, hs: Handle, p: int) -> bool:
    """Return whether a partition is as it is for long enough, nothing was lost, and somebody has a rate below the
    link's, so that rates say who sends what; note what connections send. Where all have the link's rate pauses say it,
    and shares stay what they are (`steadiness`)."""
    part, flow, slows = part_row(s, p), part_row(s, p).first, False
    if s.look - part.since < SETTLED:
        return False
    for _ in range(part.flows):
        f, before, now = flow_row(s, flow), row_ago(s, flow, SETTLED), row_ago(s, flow, 0)
        if now.trouble != before.trouble or now.acked <= before.acked:
            return False
        f.rate = (now.acked - before.acked) / (SETTLED * s.every_ps)
        q, line = qp_row(hs, f.sender), link_row(s, hop_row(s, f.first_hop).channel).rate_bps
        slows = slows or _BITS_PS * s.wire < _LINE * line * (q.pace_next - q.last_sent)
        flow = f.next
    return slows


@inner
def looks_left(s: State, p: int) -> int:
    """Return how many looks pass at least before a message of a suspended partition may end."""
    flow, least = part_row(s, p).first, 1e30
    for _ in range(part_row(s, p).flows):
        f = flow_row(s, flow)
        line = link_row(s, hop_row(s, f.first_hop).channel).rate_bps
        least = min(least, (f.spare - f.gained) * (_BITS_PS * s.wire) / line)
        flow = f.next
    return int(least / s.every_ps)


@inner
def begin(s: State, g: LoopGlobals, p: int) -> None:
    """Note the queues of a partition's links, before its frames are taken. Each connection has its part of them."""
    part, flow = part_row(s, p), part_row(s, p).first
    s.mark += 1
    for _ in range(part.flows):
        f = flow_row(s, flow)
        f.gained = f.sent = 0.0
        f.pace_next = qp_row(hosts_at(s.hosts, 0), f.sender).pace_next
        for k in range(f.data_hops):
            hop = hop_row(s, f.first_hop + k)
            link = link_row(s, hop.channel)
            if link.mark != s.mark:
                link.mark = s.mark
                _begin_link(s, g, hop, link)
            link.users += hop.share * f.rate
            link.behind += 1.0
        flow = f.next
    flow = part.first
    for _ in range(part.flows):
        f = flow_row(s, flow)
        for k in range(f.data_hops):
            hop = hop_row(s, f.first_hop + k)
            link = link_row(s, hop.channel)
            hop.queue = link.queue * hop.share * f.rate / link.users if hop.port >= 0 else 0.0
            if k > 0:
                before = link_row(s, hop_row(s, f.first_hop + k - 1).channel)
                before.held += hop.queue
                before.shared = before.frozen = _shared(s, g, before)
        flow = f.next
    part.fluid_ps = g.now


@inner
def _begin_link(s: State, g: LoopGlobals, hop: Hop, link: Link) -> None:
    """Note what waits at a link, and what may of that which came by it."""
    link.users = link.held = link.fresh = link.waits = 0.0
    link.passes = 1.0
    link.pauses = 0
    link.step = g.now // STEP_PS
    link.queue = float(frames.waiting(g, hop.port)) if hop.port >= 0 else 0.0
    link.shared = link.wanted = link.turn = link.behind = link.left = 0.0
    link.most = 1.0
    link.buffer = frames.lossless_behind(g, hop.channel)
    link.frozen = 0.0
    for ago in range(DEPTH):
        _queue(s, hop.channel, ago).packets = link.queue


@inner
def end(s: State, p: int) -> None:
    """Switches have of a partition what they had before its jump."""
    part, flow = part_row(s, p), part_row(s, p).first
    for _ in range(part.flows):
        f = flow_row(s, flow)
        for k in range(f.data_hops):
            link = link_row(s, hop_row(s, f.first_hop + k).channel)
            if link.buffer >= 0:
                buffer_row(s, link.buffer).added -= link.shared - link.frozen
                link.buffer = NONE
        flow = f.next


@inner
def _queue(s: State, channel: int, step: int) -> Queue:
    """A link's queue at a step."""
    return queue_row(s, channel * DEPTH + (step & (DEPTH - 1)))


@inner
def advance(s: State, p: int, until: int) -> None:
    """A suspended partition sends until then."""
    part, hs = part_row(s, p), hosts_at(s.hosts, 0)
    for _ in range((until - part.fluid_ps) // STEP_PS):
        part.fluid_ps += STEP_PS
        flow = part.first
        for _ in range(part.flows):
            f = flow_row(s, flow)
            quiet = _move(s, f, part.fluid_ps)
            _send(s, hs, f, part.fluid_ps)
            if quiet < 1.0 and draws.draw(s) > quiet * draws.BELOW:
                _notify(hs, f, part.fluid_ps)
            flow = f.next


@inner
def _move(s: State, f: Flow, now: int) -> float:
    """Packets of a connection pass its links, the last one first; return the probability that none is marked."""
    step, quiet = now // STEP_PS, 1.0
    f.flying = 0.0
    for k in range(f.data_hops):
        hop = hop_row(s, f.first_hop + k)
        link = link_row(s, hop.channel)
        if link.step != step:
            _serve(s, hop, link, step)
    for back in range(1, f.data_hops + 1):
        place = f.first_hop + f.data_hops - back
        hop = hop_row(s, place)
        link = link_row(s, hop.channel)
        passed = hop.queue * link.passes if hop.port >= 0 else _take_turn(hop, link)
        hop.queue -= passed
        link.queue -= passed
        f.flying += hop.queue
        if back > 1:
            following = hop_row(s, place + 1)
            following.queue += passed
            link_row(s, following.channel).queue += passed
            link.held += passed
            link.fresh += passed
        else:
            f.gained += passed
        if back < f.data_hops:
            link_row(s, hop_row(s, place - 1).channel).held -= passed
            ago = int((f.delay_ps + link.waits) / STEP_PS)
            quiet -= passed * _marks(s, _queue(s, hop.channel, step - min(ago, DEPTH - 1)).packets)
        else:
            f.sent = passed
    return quiet


@inner
def _take_turn(hop: Hop, link: Link) -> float:
    """Return what a NIC sends of a connection: it goes round those that have something, so each has as much as another
    one, or less, as who waits for its rate's next packet joins the round again behind all others."""
    if link.passes == 0 or hop.queue <= 0:
        return 0.0
    wanted = link.turn
    if hop.queue < link.most:
        wanted = 1.0 / (1.0 / hop.queue + 1.0 / link.turn - 1.0 / link.most)
    link.wanted += wanted
    link.behind += (wanted / link.turn) ** 2
    passed = min(min(wanted, hop.queue), link.left)
    link.left -= passed
    return passed


@inner
def _serve(s: State, hop: Hop, link: Link, step: int) -> None:
    """Find what part of a link's queue passes in this step: none while the switch behind it has enough of what came by
    it."""
    link.step = step
    most = (link.rate_bps - link.load_bps) * STEP_PS / (_BITS_PS * (s.wire + s.overhead))
    if hop.port < 0 and link.passes > 0:
        if link.turn == 0:
            link.turn = most / link.behind  # nothing waits there yet
        elif link.wanted > 0:
            turn = link.turn + (most - link.wanted) / max(link.behind, 1.0)
            link.turn = min(max(turn, _LEAST_TURN), most)
        link.wanted = link.behind = 0.0
        link.left = link.most = most
    if link.buffer >= 0:
        _share(s, link)
    link.fresh = 0.0
    late = min(2 * link.delay_ps // STEP_PS, _MOST_LAG)
    link.passes = 0.0 if link.pauses >> late & 1 else min(most / max(link.queue, most), 1.0)
    waiting = link.queue * (1.0 - link.passes)  # others have come in this step, and pass in it
    _queue(s, hop.channel, step).packets = waiting
    link.waits = waiting / most * STEP_PS


@inner
def _shared(s: State, g: LoopGlobals, link: Link) -> float:
    """Return what a link has of the memory that all share in the switch behind it, packets."""
    if link.buffer < 0:
        return 0.0
    return max(link.held - link.fresh - frames.switch_of(g, link.buffer).reserve / s.wire, 0.0)


@inner
def _share(s: State, link: Link) -> None:
    """A link takes its part of the memory of the switch behind it, which pauses it, or not any more."""
    g = frames.loop_at(s.loop)
    buffer, switch, shared = buffer_row(s, link.buffer), frames.switch_of(g, link.buffer), _shared(s, g, link)
    buffer.added += shared - link.shared
    link.shared = shared
    free = (switch.shared_bytes - switch.shared_used) / s.wire - buffer.added
    most, paused = free * 0.5**switch.xoff_shift, link.pauses & 1
    if shared > 0 and shared >= most:
        paused = 1
    elif shared == 0 or shared + switch.xon_offset / s.wire <= most:
        paused = 0
    link.pauses = link.pauses << 1 | paused


@inner
def _send(s: State, hs: Handle, f: Flow, now: int) -> None:
    """A sender sends for a step what its rate and its window say, unless its NIC has something of it."""
    q, hop = qp_row(hs, f.sender), hop_row(s, f.first_hop)
    size = max(int(f.sent * s.wire), _LEAST_BYTES)
    control.on_sent(q, size, q.next_txn, now)
    packets = size / (s.wire * max(q.pace_next - now, 1)) * STEP_PS
    rest = f.delay_ps - f.data_hops * STEP_PS
    packets = min(packets, (f.window - f.flying) * STEP_PS / max(rest, STEP_PS)) - hop.queue
    if packets > 0:
        hop.queue += packets
        link_row(s, hop.channel).queue += packets


@inner
def _notify(hs: Handle, f: Flow, now: int) -> None:
    """A sender hears of a mark."""
    q, r = qp_row(hs, f.sender), qp_row(hs, f.receiver)
    if cfg_row(hs).cnp_interval_ps == 0:
        control.on_ecn(q, 0, q.next_txn, now)
    elif r.cnp_next <= now:
        r.cnp_next = now + cfg_row(hs).cnp_interval_ps
        control.on_cnp(q, now)


@inner
def _marks(s: State, queue: float) -> float:
    """Return the probability that a packet is marked that finds a queue."""
    if queue <= s.mark_from:
        return 0.0
    return 1.0 if queue > s.mark_all else (queue - s.mark_from) * s.mark_slope
