# SPDX-License-Identifier: Apache-2.0
"""LERP over many paths at once: what ACKs and silence say when every packet has a path of its own (`paths.spray`;
docs/transports.md, "SprayLERP").

`lerp` finds losses by order: what was sent before a packet that has arrived, on the same path, is lost. That holds for
each path by itself. So packets in flight are kept in one list per path (`flight`), and nothing is declared lost because
another path is faster. An ACK is about the transmission that caused it: what was sent on its path before is lost,
unless the ACK's bitmap says that only its answer was.

A silent path is in doubt first and dead later. So a dead path costs about two round trips, and one that passes probes
alone a packet each time; that the doubt lasts for longer costs nothing, as packets are missed one by one meanwhile. A
doubt that was wrong costs a packet: the window is not cut. One window and one estimate of the round trip serve all
paths; a path that is left alone takes nothing from the window.
"""

from __future__ import annotations

from detour.base.jit import inner, int64
from detour.hosts import rtt, timers
from detour.hosts.cc import control
from detour.hosts.frames.wire import COUNT_MASK, SACK_BITS, unwrap
from detour.hosts.nic import activate
from detour.hosts.paths import health, paths
from detour.hosts.paths.probes import send_ptm
from detour.hosts.records import Candidate, Config, PsnSlot, QueuePair, ReceivedFrame
from detour.hosts.rows import candidate_row, cfg_row, qp_row, slot_row
from detour.hosts.state import MAX_TIME, NIL, Handle
from detour.hosts.transport import flight, loss_classification
from detour.hosts.transport.progress import PROBE_DUE, PROBE_NONE, acked, cause_in_flight, has_new, lose_trimmed, slide


@inner
def on_positive(hs: Handle, i: int, q: QueuePair, f: ReceivedFrame, now: int) -> None:
    """The ACK in `f` came in."""
    q.st_ecn_marked += f.ce
    cand = _on_trigger(hs, i, q, f, now)
    for seq in range(q.snd_una, unwrap(f.psn, q.snd_una) + 1):
        acked(hs, i, q, seq, int64(-1), now)
    if cand != NIL:
        _lose_overtaken(hs, i, q, f, cand, now)
    slide(hs, i, q)


@inner
def on_trimmed(hs: Handle, i: int, q: QueuePair, f: ReceivedFrame, now: int) -> None:
    """A packet came without its payload. Its path lives, and has a full queue: to the scheme that is a mark. It has
    overtaken that queue, so its time says nothing of others."""
    index = cause_in_flight(hs, i, q, f)
    if index == NIL:
        return
    s = slot_row(hs, i, index)
    cand, txn = int64(s.cand), s.txn
    health.on_data(candidate_row(hs, i, cand))
    lose_trimmed(hs, i, q, index, now)
    f.ce = 1
    paths.on_answer(hs, i, q, cand, f, txn, now)


@inner
def _first_known(hs: Handle, q: QueuePair) -> int:
    """The first sequence number of which the slot has not been used again."""
    sent = q.st_packets - q.st_retransmitted
    return q.snd_nxt - min(sent, cfg_row(hs).window)


@inner
def _on_trigger(hs: Handle, i: int, q: QueuePair, f: ReceivedFrame, now: int) -> int:
    """The transmission that caused the ACK, even if another ACK has acknowledged the packet before. Returns its
    candidate, `NIL` if it was not the packet's last transmission, or went by a candidate of an earlier list."""
    seq = unwrap(f.trigger, q.snd_una)
    if seq < _first_known(hs, q) or seq >= q.snd_nxt:
        return int64(NIL)
    s = slot_row(hs, i, seq & (cfg_row(hs).window - 1))
    if s.count != f.count or s.epoch != q.epoch:
        if s.epoch == q.epoch and s.count == (f.count + 1) & COUNT_MASK and s.before < q.n_cand:
            health.on_earlier_data(candidate_row(hs, i, s.before))
        acked(hs, i, q, seq, f.count, now)
        return int64(NIL)
    cand = int64(s.cand)
    _hear(hs, i, q, cand, s, f, now)
    if f.ce:
        control.on_ecn(q, s.size, s.txn, now)
    if seq >= q.snd_una:
        acked(hs, i, q, seq, f.count, now)
    paths.on_answer(hs, i, q, cand, f, s.txn, now)
    return cand


@inner
def _hear(hs: Handle, i: int, q: QueuePair, cand: int, s: PsnSlot, f: ReceivedFrame, now: int) -> None:
    """The path of the packet in slot `s` lives, and this is what it is like."""
    c = candidate_row(hs, i, cand)
    health.on_data(c)
    if s.sent >= c.newest:
        c.newest = s.sent
        c.rtt = now - s.sent
    rtt.on_sample(q, now - s.sent)
    q.newest_sent = max(q.newest_sent, s.sent)
    q.last_progress = now
    _look_sooner(hs, i, q, now if q.tail_probe != PROBE_NONE else now + _patience(cfg_row(hs), q, cand, c, now))
    if not f.has_delay:
        return
    c.delay = f.delay
    if f.ce:
        loss_classification.note_mark(q, f)
    paths.on_delay(q, f.delay)


@inner
def _has_arrived(q: QueuePair, f: ReceivedFrame, seq: int) -> bool:
    """Return whether the bitmap of the ACK in `f` names packet `seq`."""
    place = seq - unwrap(f.base, q.snd_una)
    return f.bitmap != 0 and 0 <= place < SACK_BITS and (f.bitmap >> place) & 1 != 0


@inner
def _lose_overtaken(hs: Handle, i: int, q: QueuePair, f: ReceivedFrame, cand: int, now: int) -> None:
    """Mark as lost what was sent by candidate `cand` before the newest packet that has arrived there, by at least the
    time that late packets take."""
    cfg, c = cfg_row(hs), candidate_row(hs, i, cand)
    while c.head != NIL:
        index = c.head
        s = slot_row(hs, i, index)
        if s.sent >= c.newest - q.reorder_ps:
            return
        seq = flight.seq_of(hs, q, index)
        if _has_arrived(q, f, seq):
            acked(hs, i, q, seq, int64(-1), now)
            continue
        txn = s.txn
        flight.lose(hs, i, q, index)
        loss_classification.note_loss(q, txn)
        congested = loss_classification.is_congestion(cfg, q, f)
        control.on_lost(q, txn, congested, now)
        paths.on_lost(hs, i, q, cand, congested, now)


# -- time ---------------------------------------------------------------------------------------------------


@inner
def on_sent(hs: Handle, i: int, q: QueuePair, now: int) -> None:
    """A packet went out."""
    c = candidate_row(hs, i, q.cand)
    if q.blackhole_due == MAX_TIME:
        q.blackhole_due = now + _patience(cfg_row(hs), q, q.cand, c, now)
    if c.trust == health.TRUST_ON_TRIAL:  # no other packet may, until it is answered
        c.trust = health.TRUST_UNKNOWN
        c.ask_next = now + rtt.timeout(cfg_row(hs), q)
        q.blackhole_due = min(q.blackhole_due, c.ask_next)


@inner
def _look_sooner(hs: Handle, i: int, q: QueuePair, when: int) -> None:
    """Round trips turn out to be shorter than was thought."""
    if when < q.blackhole_due:
        q.blackhole_due = when
        timers.advance(hs, i, q, when)


@inner
def deadline(q: QueuePair) -> int:
    """The time to look for silent paths: a bound, made exact when it passes."""
    return q.blackhole_due if q.inflight > 0 else MAX_TIME


@inner
def _usual(cfg: Config, q: QueuePair) -> int:
    """The longest time, as far as is known, in which an answer comes back: what RFC 6298 says of all paths, and what
    any took of late."""
    return max(q.srtt + max(4 * q.rttvar, cfg.min_silence_ps), q.rtt_peak + q.rtt_peak // 8)


@inner
def _patience(cfg: Config, q: QueuePair, cand: int, c: Candidate, sent: int) -> int:
    """Return how long candidate `cand`, in row `c`, may be silent after a packet was sent at `sent`: what is usual, and
    one and a half of its own last round trip, less what has drained since. Of a detour that counts for no more than two
    mean ones, or an eighth more than its own: shortest paths are those that fill."""
    limit = rtt.timeout(cfg, q)
    if not rtt.is_known(q):
        return min(cfg.min_rto_ps, limit)
    usual = _usual(cfg, q)
    if c.rtt <= 0:
        others = q.detours_known and (cand >= q.n_short or c.answered > sent or not has_new(cfg, q))
        return min(max(usual, 2 * q.rtt_peak), limit) if others else limit
    age = max(0, sent - (c.newest + c.rtt))
    own = c.rtt - min(age, max(c.delay, 0) * cfg.tick_ps)
    more = own // 2
    if cand >= q.n_short:
        more = min(more, max(2 * q.srtt - own, own // 8))
    return min(max(usual, own + max(more, cfg.min_silence_ps)), limit)


@inner
def look(hs: Handle, i: int, q: QueuePair, now: int) -> int:
    """Give up what is in flight on paths that are silent while others answer, and say when to look again. Return
    since when nothing at all has been heard of packets, or `MAX_TIME` if there are none older than that."""
    quiet, due = MAX_TIME, MAX_TIME
    for cand in range(q.n_cand):
        c = candidate_row(hs, i, cand)
        while c.head != NIL:
            sent = slot_row(hs, i, c.head).sent
            patience = _patience(cfg_row(hs), q, cand, c, sent)
            if sent + patience > now:
                due = min(due, sent + patience)
                break
            if sent >= q.newest_sent:
                quiet = min(quiet, max(sent, q.last_progress))
                break
            flight.lose(hs, i, q, c.head)
            if c.silent == 0 and not paths.on_silent(hs, i, q, cand, now):
                _ask(hs, i, q, cand, rtt.timeout(cfg_row(hs), q), now)
        if c.silent > 0:
            if c.ask_next <= now:
                _give_up(hs, i, q, cand, now)
            due = min(due, c.ask_next)
    q.blackhole_due = due
    return quiet


@inner
def _ask(hs: Handle, i: int, q: QueuePair, cand: int, wait: int, now: int) -> None:
    """Ask whether candidate `cand` lives; for so long, at least, nothing takes it."""
    c = candidate_row(hs, i, cand)
    c.silent += 1
    c.trust = health.TRUST_UNKNOWN
    c.ask_next = now + wait
    send_ptm(hs, i, q, cand)
    activate(hs, i, q)


@inner
def _give_up(hs: Handle, i: int, q: QueuePair, cand: int, now: int) -> None:
    """Candidate `cand` was asked and has not answered."""
    c = candidate_row(hs, i, cand)
    if c.silent == 1:
        q.st_failovers += 1
    while c.head != NIL:
        flight.lose(hs, i, q, c.head)
    _ask(hs, i, q, cand, cfg_row(hs).spray_dead_ps << min(c.silent - 1, health.DOUBLINGS), now)


@inner
def lose_all(hs: Handle, i: int, q: QueuePair) -> int:
    """All that is in flight counts as lost, whatever its path; returns how many packets."""
    lost = 0
    for cand in range(q.n_cand):
        c = candidate_row(hs, i, cand)
        while c.head != NIL:
            flight.lose(hs, i, q, c.head)
            lost += 1
    return lost


@inner
def time_out(hs: Handle, i: int, q: QueuePair, now: int) -> int:
    """Nothing came back for a timeout: all that is in flight counts as lost, and its paths as silent, so that what is
    sent again takes others where there are some; returns how many packets."""
    wait = cfg_row(hs).spray_dead_ps
    q.probe_at = now
    for cand in range(q.n_cand):
        c = candidate_row(hs, i, cand)
        if c.head != NIL and c.silent == 0:
            _ask(hs, i, q, cand, wait, now)
            _look_sooner(hs, i, q, c.ask_next)
    return lose_all(hs, i, q)


@inner
def oldest(hs: Handle, i: int, q: QueuePair) -> int:
    """Slot of the packet that has been in flight for longest, or `NIL`."""
    slot = NIL
    for cand in range(q.n_cand):
        head = candidate_row(hs, i, cand).head
        if head != NIL and (slot == NIL or slot_row(hs, i, head).sent < slot_row(hs, i, slot).sent):
            slot = head
    return slot


@inner
def probe_tail(hs: Handle, i: int, q: QueuePair, now: int) -> None:
    """Nothing is heard of any path. After a mean round trip the oldest packet is sent again by another path than before
    (RFC 8985, 7); if that is not answered either, by one of the other kind, and so on, each an eighth more than that
    after the one before, or half of the time for which nothing had been heard then. Before the first round trip it is
    sent once, by one of the other kind."""
    first, measured = q.tail_probe == PROBE_NONE, rtt.is_known(q)
    if q.tail_probe == PROBE_DUE or not (first or measured):
        return
    next_after = q.srtt + q.srtt // 8
    due = q.last_progress + q.srtt if measured else now
    if not first:
        due = q.probe_at + max(next_after, (q.probe_at - q.last_progress) // 2)
    if due <= now:
        bad = slot_row(hs, i, oldest(hs, i, q)).cand
        if first and measured:
            candidate_row(hs, i, bad).answered = now + 2 * q.srtt
        else:
            q.probe_by = 1 + _elsewhere(hs, i, q, bad, now)
        q.tail_probe = PROBE_DUE
        q.probe_at = now
        due = now + next_after if measured else MAX_TIME
    q.blackhole_due = min(q.blackhole_due, due)


@inner
def _elsewhere(hs: Handle, i: int, q: QueuePair, bad: int, now: int) -> int:
    """A candidate that may take data and has none in flight, of the other kind (shortest, detour) than candidate `bad`
    if there is one."""
    best, best_value = bad, 0
    for step in range(q.n_cand):
        place = (q.next_txn + step) % q.n_cand
        idle = candidate_row(hs, i, place).head == NIL and health.is_alive(hs, i, place, now)
        value = 1 + 2 * int(idle) + int((place < q.n_short) != (bad < q.n_short))
        if place != bad and value > best_value:
            best, best_value = place, value
    return best


@inner
def abandon(hs: Handle, i: int) -> None:
    """The candidates of QP `i` are about to be others, by lists of which packets are in flight or will be: what is in
    flight is sent again by the others."""
    q = qp_row(hs, i)
    q.probe_by = 0
    lose_all(hs, i, q)
    while q.flight_head != NIL:
        flight.lose(hs, i, q, q.flight_head)
