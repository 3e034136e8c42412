# SPDX-License-Identifier: Apache-2.0
"""The sending half of all transports: what goes next, when, and who looks at what comes back.

Losses are found by the transport (`plugin`): `lerp` by order on a path, `gbn` by NAKs. What is found goes to the end of
the QP's list of lost packets, which are sent before new ones. Timers are here: the retransmission timeout (RFC 6298),
with selective ACKs tail-loss probes (RFC 8985, 7) from two round trips without progress on, for leftovers of an older
path a timeout of their own.
"""

from __future__ import annotations

from detour.base.jit import inner, int64
from detour.hosts import rtt, timers
from detour.hosts.cc import control
from detour.hosts.frames import wire
from detour.hosts.frames.wire import unwrap
from detour.hosts.nic import activate
from detour.hosts.paths import paths
from detour.hosts.paths import plugin as path_plugin
from detour.hosts.records import Config, QueuePair
from detour.hosts.rows import candidate_row, cfg_row, frame_row, host_row, qp_row, slot_row, wqe_row
from detour.hosts.state import MAX_TIME, NIL, QPS_RTS, WC_REM_ACCESS_ERR, WC_RETRY_EXC_ERR, Handle
from detour.hosts.transport import ack_validation, blackhole, flight, multipath, plugin
from detour.hosts.transport.progress import PROBE_DUE, PROBE_NONE, PROBE_SENT, has_new, on_refused
from detour.hosts.transport.queues import fail

# -- sending ------------------------------------------------------------------------------------------------


@inner
def can_send(hs: Handle, q: QueuePair) -> bool:
    """Return whether the window lets a packet go, not asking about pacing."""
    if q.state != QPS_RTS:
        return False
    if q.tail_probe == PROBE_DUE:
        return True
    return q.inflight + 1 <= q.cwnd and (q.n_lost > 0 or has_new(cfg_row(hs), q))


@inner
def next_frame(hs: Handle, i: int, q: QueuePair, frame: int, now: int) -> int:
    """Write the QP's next data packet; 0 if there is none to send now."""
    if not can_send(hs, q):
        return 0
    if q.pace_next > now:
        timers.advance(hs, i, q, q.pace_next)
        return 0
    if q.tail_probe == PROBE_DUE:
        q.tail_probe = PROBE_SENT
        q.st_tail_probes += 1
        if _probes_with_last(hs, q):
            return _repeat_last(hs, i, q, frame, now)
    if q.n_lost > 0:
        return _repeat(hs, i, q, q.lost_head, frame, now)
    return _send_new(hs, i, q, frame, now)


@inner
def _probes_with_last(hs: Handle, q: QueuePair) -> bool:
    """Return whether a tail-loss probe repeats what is in flight: after a timeout as well, since answers to what was
    lost then tell a timeout for nothing only while it has not been sent again."""
    if q.sprays:
        return q.n_lost == 0
    return q.epoch_rtos > 0 or (q.n_lost == 0 and not has_new(cfg_row(hs), q))


@inner
def _send_new(hs: Handle, i: int, q: QueuePair, frame: int, now: int) -> int:
    seq = q.snd_nxt
    depth = cfg_row(hs).sq_depth
    w = wqe_row(hs, i, q.sq_nxt & (depth - 1))
    if seq >= w.first + w.packets:
        q.sq_nxt += 1
        w = wqe_row(hs, i, q.sq_nxt & (depth - 1))
    index = seq & (cfg_row(hs).window - 1)
    s = slot_row(hs, i, index)
    s.wqe = q.sq_nxt & (depth - 1)
    s.count = 0
    s.first = now
    s.size = min(cfg_row(hs).payload, w.length - (seq - w.first) * cfg_row(hs).payload)
    q.snd_nxt = seq + 1
    paths.before_data(hs, i, q, now)
    return _emit(hs, i, q, index, seq, frame, now)


@inner
def _repeat(hs: Handle, i: int, q: QueuePair, index: int, frame: int, now: int) -> int:
    """Send a packet again that is on one of the lists."""
    s = slot_row(hs, i, index)
    seq = flight.seq_of(hs, q, index)
    flight.take(hs, i, q, index)
    s.count = (s.count + 1) & wire.COUNT_MASK
    if s.epoch != q.epoch or q.sprays:
        s.first = NIL
    q.st_retransmitted += 1
    return _emit(hs, i, q, index, seq, frame, now)


@inner
def _repeat_last(hs: Handle, i: int, q: QueuePair, frame: int, now: int) -> int:
    """The tail-loss probe when there is nothing new: the last packet, whose ACK shows what is missing. Of a QP that
    sprays always the oldest one, which takes another path than before."""
    last = multipath.oldest(hs, i, q) if q.sprays else q.flight_tail
    if last == NIL:
        return 0
    return _repeat(hs, i, q, last, frame, now)


@inner
def _emit(hs: Handle, i: int, q: QueuePair, index: int, seq: int, frame: int, now: int) -> int:
    s = slot_row(hs, i, index)
    if q.sprays:
        q.cand = paths.choose(hs, i, q, now) if q.probe_by == 0 else q.probe_by - 1
        q.probe_by = 0
        multipath.on_sent(hs, i, q, now)
    flight.append(hs, i, q, index, now)
    c = candidate_row(hs, i, q.cand)
    c.packets += 1
    q.st_packets += 1
    paths.after_data(hs, i, q, now)
    w = wqe_row(hs, i, s.wqe)
    low = int64(s.count)
    if q.selective or _wants_answer(hs, i, q, seq, s.wqe, now):
        low |= 0x80
    length = wire.write_data(hs, frame, q, c, w, seq, low, seq - w.first)
    control.on_sent(q, length, s.txn, now)
    timers.advance(hs, i, q, _deadline_of_timers(hs, i, q))
    return length


@inner
def _wants_answer(hs: Handle, i: int, q: QueuePair, seq: int, wqe: int, now: int) -> bool:
    """Return whether the packet asks for an ACK, or the sender has to wait after it."""
    if not plugin.has(q, plugin.TRANSPORT_ASKS) or not can_send(hs, q):
        return True
    news = plugin.news_of(q)
    news.seq = seq
    news.wqe = wqe
    return plugin.call(hs, i, q, plugin.TRANSPORT_ASKS, now) != 0


@inner
def continue_after(hs: Handle, i: int, q: QueuePair, length: int, now: int) -> None:
    """The QP has sent a frame of `length` bytes and can send more. If it is paced and its next packet is not due when
    the link is free again, its timer says when."""
    if q.pace_next <= now or q.pace_next - now <= length * 8_000_000_000_000 // cfg_row(hs).link_rate_bps:
        activate(hs, i, q)
    else:
        timers.advance(hs, i, q, q.pace_next)


# -- acknowledgements ---------------------------------------------------------------------------------------


@inner
def on_ack(hs: Handle, i: int, now: int) -> None:
    """The ACK or NAK in `frame_row(hs)` came in for QP `i`."""
    f = frame_row(hs)
    q = qp_row(hs, i)
    if q.state != QPS_RTS:
        host_row(hs, q.host).rx_wrong_state += 1
        return
    if not ack_validation.is_answer(hs, i, q, f):
        q.st_answers_dropped += 1
        return
    timed_out, spurious = q.retries > 0, q.st_spurious
    if f.syndrome == wire.SYNDROME_ACK:
        if q.sprays:
            multipath.on_positive(hs, i, q, f, now)
        else:
            plugin.call(hs, i, q, plugin.TRANSPORT_ACK, now)
    elif f.syndrome == wire.SYNDROME_SEQUENCE:
        plugin.call(hs, i, q, plugin.TRANSPORT_GAP, now)
    elif f.syndrome == wire.SYNDROME_TRIMMED:
        if q.sprays:
            multipath.on_trimmed(hs, i, q, f, now)
        else:
            plugin.call(hs, i, q, plugin.TRANSPORT_TRIMMED, now)
    elif f.syndrome == wire.SYNDROME_ACCESS:
        on_refused(hs, i, q, unwrap(f.psn, q.snd_una))
    elif unwrap(f.psn, q.snd_una) >= q.snd_una:  # not ready
        q.retries = 0
    if timed_out and q.retries == 0 and q.n_lost == 0 and q.st_spurious > spurious:
        control.on_spurious_timeout(q, now)
    if q.nak_seq >= 0 and q.snd_una >= q.nak_seq:
        fail(hs, i, int64(WC_REM_ACCESS_ERR))
    elif q.pace_next <= now and can_send(hs, q):  # else the timer will say when it may
        activate(hs, i, q)


# -- time ---------------------------------------------------------------------------------------------------


@inner
def deadline(hs: Handle, i: int, q: QueuePair) -> int:
    """The time at which QP `i` wants `on_deadline` to be called."""
    when = _deadline_of_timers(hs, i, q)
    if q.pace_next and not q.active and can_send(hs, q):
        when = min(when, q.pace_next)
    return when


@inner
def _deadline_of_timers(hs: Handle, i: int, q: QueuePair) -> int:
    """`deadline`, leaving pacing aside."""
    return min(_loss_deadline(hs, i, q), blackhole.deadline(hs, i, q), q.path_timer, q.cc_timer)


@inner
def _loss_deadline(hs: Handle, i: int, q: QueuePair) -> int:
    if q.sprays:
        return multipath.deadline(q)
    if q.flight_head == NIL:
        return MAX_TIME
    cfg = cfg_row(hs)
    rto = rtt.timeout(cfg, q)
    when = MAX_TIME
    if q.epoch_head != NIL:
        quiet = max(slot_row(hs, i, q.epoch_head).sent, q.last_progress)
        when = quiet + rto
        when = min(when, _next_probe(cfg, q, quiet))
    if q.flight_head != q.epoch_head:
        when = min(when, slot_row(hs, i, q.flight_head).sent + q.left_rto)
    return when


@inner
def _next_probe(cfg: Config, q: QueuePair, quiet: int) -> int:
    """The time at which the tail is probed if nothing comes back, as since `quiet`. A probe may be lost too: each
    waits for twice as long as the one before (RFC 9002, 6.2.1), and anew after a timeout. Hosts of papers send one
    (RFC 8985, 7)."""
    if not q.selective or q.tail_probe == PROBE_DUE or not rtt.is_known(q):
        return MAX_TIME
    if q.tail_probe == PROBE_NONE:
        return quiet + rtt.probe_timeout(cfg, q)
    return quiet + (rtt.probe_timeout(cfg, q) << q.probes) if cfg.leaves_silent_paths else MAX_TIME


@inner
def on_deadline(hs: Handle, i: int, now: int) -> None:
    """Do whatever of the QP's timers is due."""
    q = qp_row(hs, i)
    if q.state != QPS_RTS:
        return
    if q.cc_timer <= now:
        control.on_timer(q, now)
    paths.on_deadline(hs, i, q, now)
    blackhole.on_deadline(hs, i, q, now)
    if _loss_deadline(hs, i, q) <= now:
        _on_loss_deadline(hs, i, q, now)
    if q.state == QPS_RTS and can_send(hs, q):
        activate(hs, i, q)


@inner
def _on_blackhole(hs: Handle, i: int, q: QueuePair, now: int) -> None:
    """`_on_loss_deadline` of a QP that sprays."""
    if _is_over(hs, q, now):  # what is asked in vain is sent again each time, so no packet may be as old as a timeout
        fail(hs, i, int64(WC_RETRY_EXC_ERR))
        return
    quiet = multipath.look(hs, i, q, now)
    if quiet < MAX_TIME:
        rto = rtt.timeout(cfg_row(hs), q)
        if quiet + rto <= now:
            _on_rto(hs, i, q, quiet, now)
            return
        q.blackhole_due = min(q.blackhole_due, quiet + rto)
    elif q.tail_probe == PROBE_NONE or q.inflight == 0:
        return
    multipath.probe_tail(hs, i, q, now)


@inner
def _on_loss_deadline(hs: Handle, i: int, q: QueuePair, now: int) -> None:
    if q.sprays:
        _on_blackhole(hs, i, q, now)
        return
    index = q.flight_head
    while index != NIL and index != q.epoch_head:  # leftovers of older paths
        s = slot_row(hs, i, index)
        if s.sent + q.left_rto > now:
            break
        if plugin.has(q, plugin.TRANSPORT_TIMEOUT):
            plugin.call(hs, i, q, plugin.TRANSPORT_TIMEOUT, now)
            return
        after = s.next
        flight.lose(hs, i, q, index)
        index = after
    if q.epoch_head == NIL:
        return
    quiet = max(slot_row(hs, i, q.epoch_head).sent, q.last_progress)
    if quiet + rtt.timeout(cfg_row(hs), q) <= now:
        _on_rto(hs, i, q, quiet, now)
    elif _next_probe(cfg_row(hs), q, quiet) <= now:
        q.probes = 1 if q.tail_probe == PROBE_NONE else q.probes + 1
        q.tail_probe = PROBE_DUE


@inner
def _is_over(hs: Handle, q: QueuePair, now: int) -> bool:
    """Return whether nothing has come back for as long as the QP waits."""
    return q.retries > 0 and now - q.quiet_since >= (q.retry_ps if q.retry_ps > 0 else cfg_row(hs).retry_ps)


@inner
def _on_rto(hs: Handle, i: int, q: QueuePair, quiet: int, now: int) -> None:
    """Nothing has come back on this path since `quiet`: all of it counts as lost (RFC 6298, 5.4 to 5.6)."""
    if q.retries == 0:
        q.quiet_since = quiet
    q.st_rtos += 1
    q.retries += 1
    q.epoch_rtos += 1
    if _is_over(hs, q, now):
        fail(hs, i, int64(WC_RETRY_EXC_ERR))
        return
    plugin.call(hs, i, q, plugin.TRANSPORT_TIMEOUT, now)
    lost = multipath.time_out(hs, i, q, now) if q.sprays else 0
    while q.epoch_head != NIL:
        flight.lose(hs, i, q, q.epoch_head)
        lost += 1
    q.tail_probe = PROBE_SENT
    q.probes = 0
    control.on_rto(q, lost, now)
    path_plugin.call(hs, i, q, path_plugin.PATH_TIMEOUT, now)
