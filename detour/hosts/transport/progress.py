# SPDX-License-Identifier: Apache-2.0
"""Bookkeeping for an acknowledged packet, whichever transport finds out that it arrived."""

from __future__ import annotations

from detour.base.jit import inner, int64
from detour.hosts import rtt
from detour.hosts.cc import control
from detour.hosts.frames.wire import unwrap
from detour.hosts.paths.delays import is_empty
from detour.hosts.records import Config, PsnSlot, QueuePair, ReceivedFrame
from detour.hosts.rows import candidate_row, cfg_row, frame_row, slot_row, wqe_row
from detour.hosts.state import NIL, SLOT_ACKED, SLOT_FLIGHT, SLOT_FREE, SLOT_LOST, WC_SUCCESS, Handle
from detour.hosts.transport import flight, plugin
from detour.hosts.transport.queues import complete

PROBE_NONE, PROBE_DUE, PROBE_SENT = 0, 1, 2
"""`tail_probe` of a QP"""


@inner
def has_new(cfg: Config, q: QueuePair) -> bool:
    """Return whether there is something to send for the first time, and room for it in the receiver's window."""
    return q.snd_nxt < q.snd_end and q.nak_seq < 0 and q.snd_nxt - q.snd_una < cfg.window


@inner
def measured_path(hs: Handle, i: int, q: QueuePair, f: ReceivedFrame) -> int:
    """Candidate whose queuing delay the ACK reflects if that is the current path, else `NIL`."""
    index = cause_in_flight(hs, i, q, f) if f.has_delay else int64(NIL)
    return int64(slot_row(hs, i, index).cand) if index != NIL else index


@inner
def cause_in_flight(hs: Handle, i: int, q: QueuePair, f: ReceivedFrame) -> int:
    """Slot of the packet that caused the answer, if that transmission is in flight, by a path of now; else `NIL`."""
    seq = unwrap(f.trigger, q.snd_una)
    if seq < q.snd_una or seq >= q.snd_nxt:
        return int64(NIL)
    index = seq & (cfg_row(hs).window - 1)
    s = slot_row(hs, i, index)
    fresh = s.state == SLOT_FLIGHT and s.count == f.count and s.epoch == q.epoch
    return index if fresh else int64(NIL)


@inner
def lose_trimmed(hs: Handle, i: int, q: QueuePair, index: int, now: int) -> None:
    """The packet in slot `index` came trimmed: a full queue cost it its payload, and it is to be sent again."""
    txn = slot_row(hs, i, index).txn
    q.retries = 0
    q.last_progress = now
    flight.lose(hs, i, q, index)
    control.on_lost(q, txn, True, now)


@inner
def sample_round_trip(q: QueuePair, s: PsnSlot, count: int, now: int) -> None:
    """Transmission `count` of a packet has arrived. Since ACKs name it, packets sent twice give samples too (no need
    for Karn's rule), also if the last transmission was in vain: a timeout that was too short corrects itself."""
    if s.state == SLOT_ACKED or s.epoch != q.epoch:
        return
    if count == s.count:
        rtt.on_sample(q, now - s.sent)
    elif count == 0 and s.first >= 0:
        rtt.on_sample(q, now - s.first)


@inner
def acked(hs: Handle, i: int, q: QueuePair, seq: int, count: int, now: int) -> int:
    """Packet `seq` has arrived; `count` says in which transmission (-1: not known).

    Returns the transmission's number if it is one of the current epoch from which the loss of earlier ones
    follows, else -1."""
    index = seq & (cfg_row(hs).window - 1)
    s = slot_row(hs, i, index)
    if s.state != SLOT_FLIGHT and s.state != SLOT_LOST:
        return -1
    q.retries = 0
    in_flight = s.state == SLOT_FLIGHT
    if not in_flight or (count >= 0 and count != s.count):
        q.st_spurious += 1
        if s.epoch == q.epoch and plugin.has(q, plugin.TRANSPORT_LATE):
            _was_late(hs, i, q, s, in_flight, count, now)
    if s.epoch == q.epoch:
        q.last_progress = now
        q.epoch_rtos = 0
        q.tail_probe = PROBE_NONE
    current = in_flight and s.epoch == q.epoch
    if current:
        empty = is_empty(cfg_row(hs), q.delay)
        if q.cc_told:
            f = frame_row(hs)
            caused = seq == unwrap(f.trigger, q.snd_una) and s.count == f.count
            control.tell(cfg_row(hs), q, f, caused, now - s.sent)
        control.on_acked(q, s.size, s.txn, empty, now)
    flight.take(hs, i, q, index)
    is_this_one = count == s.count or (count < 0 and s.count == 0)
    if not current or not is_this_one:
        return -1
    q.newest_sent = max(q.newest_sent, s.sent)
    return s.txn


@inner
def _was_late(hs: Handle, i: int, q: QueuePair, s: PsnSlot, in_flight: bool, count: int, now: int) -> None:
    """A packet of the current path that was declared lost has arrived after all: its last transmission, unless it was
    sent again since."""
    control.on_spurious(q, now)
    if in_flight and (count != 0 or s.first < 0):
        return
    news = plugin.news_of(q)
    news.sent = s.first if in_flight else s.sent
    news.newest = candidate_row(hs, i, s.cand).newest if q.sprays else q.newest_sent
    plugin.call(hs, i, q, plugin.TRANSPORT_LATE, now)


@inner
def slide(hs: Handle, i: int, q: QueuePair) -> None:
    """Move the window over what is acknowledged and complete work requests in order."""
    mask = cfg_row(hs).window - 1
    while q.snd_una < q.snd_nxt:
        s = slot_row(hs, i, q.snd_una & mask)
        if s.state == SLOT_FLIGHT or s.state == SLOT_LOST:
            break
        s.state = SLOT_FREE
        q.snd_una += 1
    while q.sq_una < q.sq_end:
        w = wqe_row(hs, i, q.sq_una & (cfg_row(hs).sq_depth - 1))
        if w.first + w.packets > q.snd_una:
            break
        if q.sq_nxt == q.sq_una:
            q.sq_nxt += 1
        complete(hs, i, q, int64(WC_SUCCESS))


@inner
def on_refused(hs: Handle, i: int, q: QueuePair, seq: int) -> None:
    """Remote access error at `seq`: nothing from there on is sent any more; what precedes it is completed."""
    if seq < q.snd_una or seq >= q.snd_nxt:
        return
    if q.nak_seq < 0:
        q.nak_end = q.snd_nxt
    for k in range(seq, q.snd_nxt):
        flight.take(hs, i, q, k & (cfg_row(hs).window - 1))
    q.nak_seq = seq
    q.snd_nxt = seq
    q.retries = 0
