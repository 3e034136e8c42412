# SPDX-License-Identifier: Apache-2.0
"""Calls from the transport to the path scheme that each QP has as a plug-in (`plugin`), and shared operations on paths.

A candidate path is a UDP source port (most significant bit 0: a shortest path, 1: a non-shortest one) and
optionally a uSID list; the sender knows nothing of the topology behind it.
"""

from __future__ import annotations

from detour.base.jit import float64, inner
from detour.hosts import rtt
from detour.hosts.cc import control
from detour.hosts.frames import wire
from detour.hosts.nic import CTL_PTR, activate, push_control
from detour.hosts.paths import health, plugin
from detour.hosts.records import ControlMessage, QueuePair, RdmaHost, ReceivedFrame
from detour.hosts.rows import candidate_row, cfg_row, ctl_row, frame_row, host_row, qp_row, slot_row
from detour.hosts.state import NIL, QPS_RTS, Handle


@inner
def _idle_time(hs: Handle, i: int, q: QueuePair, cand: int, now: int) -> int:
    """Return how long a sender whose receiver wants order must wait, so that packets on candidate `cand` do not
    overtake those on the current path: the difference of the queuing delays, ps. Of a path from which nothing has come
    back yet, the time for which that has been so is all that is known."""
    new = candidate_row(hs, i, cand).delay * cfg_row(hs).tick_ps
    if not q.in_order or cfg_row(hs).idle_wait == 0 or new < 0:
        return 0
    if q.delay >= 0:  # both are what a peer says: no more than a timeout's worth is believed
        return min(q.delay * cfg_row(hs).tick_ps - new, cfg_row(hs).max_rto_ps)
    return now - slot_row(hs, i, q.flight_head).sent - new if q.flight_head != NIL else 0


@inner
def move(hs: Handle, i: int, q: QueuePair, cand: int, now: int) -> None:
    """The QP leaves its path for candidate `cand`: a new epoch, slow start."""
    wait = _begin_epoch(hs, i, q, cand, now)
    control.on_path(cfg_row(hs), q, float64(cfg_row(hs).reroute_cwnd), now)
    _set_off(hs, i, q, wait, now)


@inner
def move_on(hs: Handle, i: int, q: QueuePair, cand: int, now: int) -> None:
    """So it does, with the window as it is."""
    wait = _begin_epoch(hs, i, q, cand, now)
    control.on_move(q, now)
    _set_off(hs, i, q, wait, now)


@inner
def _begin_epoch(hs: Handle, i: int, q: QueuePair, cand: int, now: int) -> int:
    """Packets from now on are of another path, `cand`. Returns for how long the sender has to wait."""
    wait = _idle_time(hs, i, q, cand, now)
    rto = rtt.timeout(cfg_row(hs), q)
    leftovers = q.flight_head != q.epoch_head
    q.left_rto = max(rto, q.left_rto) if leftovers else rto
    q.epoch += 1
    q.cand = cand
    q.delay = candidate_row(hs, i, cand).delay
    q.mark_wait = NIL
    q.epoch_head = NIL
    q.inflight = 0
    q.epoch_rtos = 0
    q.tail_probe = 0
    q.last_progress = now
    q.st_reroutes += 1
    return wait


@inner
def _set_off(hs: Handle, i: int, q: QueuePair, wait: int, now: int) -> None:
    if wait > 0:
        q.pace_next = now + wait
    plugin.call(hs, i, q, plugin.PATH_MOVE, now)
    activate(hs, i, q)


# -- data packets -------------------------------------------------------------------------------------------


@inner
def choose(hs: Handle, i: int, q: QueuePair, now: int) -> int:
    """Spraying: the candidate for the packet that goes out now; one that may take data, if there is one."""
    return health.first_alive(hs, i, q, plugin.call(hs, i, q, plugin.PATH_CHOOSE, now), now)


@inner
def before_data(hs: Handle, i: int, q: QueuePair, now: int) -> None:
    """A new data packet is about to go out. After an idle time of more than a retransmission timeout what was known
    about window and paths is out of date (RFC 5681, 4.1)."""
    idle = q.inflight == 0 if q.sprays else q.flight_head == NIL
    if idle and q.n_lost == 0 and now - q.last_sent > rtt.timeout(cfg_row(hs), q):
        control.on_idle(q, now)
        plugin.call(hs, i, q, plugin.PATH_IDLE, now)
    plugin.call(hs, i, q, plugin.PATH_NEW, now)


@inner
def after_data(hs: Handle, i: int, q: QueuePair, now: int) -> None:
    """A data packet went out."""
    q.last_sent = now
    plugin.call(hs, i, q, plugin.PATH_SENT, now)


@inner
def on_delay(q: QueuePair, delay: int) -> None:
    """A data packet waited for so many ticks."""
    q.delay = delay
    if q.st_delay_samples == 0 or delay < q.st_delay_min:
        q.st_delay_min = delay
    q.st_delay_max = max(q.st_delay_max, delay)
    q.st_delay_sum += delay
    q.st_delay_samples += 1


@inner
def on_data_delay(hs: Handle, i: int, q: QueuePair, cand: int, f: ReceivedFrame, txn: int, now: int) -> None:
    """The answer in `f` reflects the delay that a data packet of the current epoch accumulated, transmission `txn`."""
    c = candidate_row(hs, i, cand)
    c.delay = f.delay
    health.on_data(c)
    on_delay(q, f.delay)
    on_answer(hs, i, q, cand, f, txn, now)


@inner
def on_answer(hs: Handle, i: int, q: QueuePair, cand: int, f: ReceivedFrame, txn: int, now: int) -> None:
    """The answer in `f` is the first one about a packet that went by candidate `cand`."""
    if plugin.has(q, plugin.PATH_ANSWER):
        news = plugin.news_of(q)
        news.cand = cand
        news.delay = f.delay if f.has_delay else -1
        news.marked = f.ce
        news.txn = txn
        plugin.call(hs, i, q, plugin.PATH_ANSWER, now)


@inner
def on_lost(hs: Handle, i: int, q: QueuePair, cand: int, congested: bool, now: int) -> None:
    """Spraying: a packet was overtaken on its path by a later one. `congested`: a queue was full."""
    if plugin.has(q, plugin.PATH_LOST):
        news = plugin.news_of(q)
        news.cand = cand
        news.congested = congested
        plugin.call(hs, i, q, plugin.PATH_LOST, now)


@inner
def on_silent(hs: Handle, i: int, q: QueuePair, cand: int, now: int) -> bool:
    """Spraying: candidate `cand` is silent while others answer. Whether the scheme sees to it."""
    if not plugin.has(q, plugin.PATH_SILENT):
        return False
    plugin.news_of(q).cand = cand
    plugin.call(hs, i, q, plugin.PATH_SILENT, now)
    return True


@inner
def on_deadline(hs: Handle, i: int, q: QueuePair, now: int) -> None:
    """Do what is due."""
    if q.path_timer <= now:
        plugin.call(hs, i, q, plugin.PATH_TIMER, now)


# -- probes -------------------------------------------------------------------------------------------------


@inner
def write_ptm(hs: Handle, frame: int, h: RdmaHost, m: ControlMessage, now: int) -> int:
    """Write the PTM in control message `m`."""
    q = qp_row(hs, m.qp)
    if plugin.has(q, plugin.PATH_PROBE_SENT):
        plugin.news_of(q).seq = m.psn
        plugin.call(hs, m.qp, q, plugin.PATH_PROBE_SENT, now)
    return wire.write_probe(hs, frame, h, m, wire.PTM)


@inner
def answer_ptm(hs: Handle, host: int) -> None:
    """The PTM in `frame_row(hs)` came in: queues the PTR that reflects its delay. Needs no connection."""
    f = frame_row(hs)
    index = push_control(hs, host)
    if index == NIL:
        return
    host_row(hs, host).ptm_answered += 1
    m = ctl_row(hs, host, index)
    m.kind = CTL_PTR
    m.qpn = f.qpn
    m.psn = f.psn
    m.cand = f.cand
    m.sport = f.sport  # back the same way, for the reason given in `responder`
    m.delay = f.delay
    m.dst_hi = f.src_hi
    m.dst_lo = f.src_lo
    m.final_hi = 0


@inner
def _is_awaited(hs: Handle, i: int, q: QueuePair, f: ReceivedFrame) -> bool:
    """Return whether the PTR in `f` answers the last PTM on its candidate and came back by the port of that one."""
    if f.cand >= q.n_cand:
        return False
    c = candidate_row(hs, i, f.cand)
    return c.asked == f.psn and c.sport == f.sport


@inner
def on_ptr(hs: Handle, i: int, now: int) -> bool:
    """The PTR in `frame_row(hs)` came in for QP `i`; False if it is not believed."""
    f = frame_row(hs)
    q = qp_row(hs, i)
    if q.state != QPS_RTS or not _is_awaited(hs, i, q, f):
        q.st_answers_dropped += 1
        return False
    c = candidate_row(hs, i, f.cand)
    c.asked = NIL
    c.delay = f.reflected
    q.st_ptrs += 1
    if q.sprays:
        health.on_probe(c)
    elif f.cand == q.cand:
        q.delay = f.reflected
    if plugin.has(q, plugin.PATH_PROBE):
        news = plugin.news_of(q)
        news.cand = f.cand
        news.delay = f.reflected
        news.seq = f.psn
        plugin.call(hs, i, q, plugin.PATH_PROBE, now)
    return True
