# SPDX-License-Identifier: Apache-2.0
"""Probing and choice of paths by the sender (non-shortest-path paper, section III;
docs/facts.md, "Non-shortest paths: what the paper leaves open").

A candidate path is a UDP source port (most significant bit 0: a shortest path, 1: a non-shortest one) and
optionally a uSID list; the sender knows nothing of the topology behind it. Rules:

* A connection with much to send probes `initial_probes` random alternatives with PTMs while it sends on its first
  path. R after the start of the round the first PTR comes; the choice is made when all have come, at 3R at the
  latest, among the paths that answered.
* Afterwards a PTM goes out every max(cwnd, `delta3`) data packets, round robin over all candidates.
* When a path is better by its delay (`delays`), the connection moves at once, with slow start; with selective repeat no
  idle time is needed (section IV). With go-back-N the sender first waits for the difference of the two delays
  (section III).
* Options that are not in the paper: a probe that found a better path is repeated (`confirmations`), and a sender that
  would leave its path for an empty one probes several candidates at a time (`crowded_probes`).
* A path on which `dead_path_rtos` timeouts in a row passed is dead (not in the paper): the connection moves to the
  candidate with the least known delay, to a random one if none is known, and starts a round.

After an idle time of more than a retransmission timeout what was known about window and paths is out of date
(RFC 5681, 4.1): the window restarts and so does probing.
"""

from __future__ import annotations

from detour.base.jit import float64, inner, int64
from detour.hosts.cc import control
from detour.hosts.draws import random_below
from detour.hosts.frames import wire
from detour.hosts.nic import CTL_PTR, activate, push_control
from detour.hosts.paths import delays, health, spray, tokens
from detour.hosts.paths.probes import send_ptm
from detour.hosts.records import ControlMessage, QueuePair, RdmaHost, ReceivedFrame
from detour.hosts.rows import candidate_row, cfg_row, ctl_row, frame_row, host_row, qp_row, slot_row
from detour.hosts.state import MAX_TIME, MODE_AUTO, NIL, QPS_RTS, Handle
from detour.hosts.transport import rtt, timers

ROUND_NONE, ROUND_FIRST, ROUND_ALL = 0, 1, 2
"""no round; waiting for the first PTR; waiting for the others"""


@inner
def _idle_time(hs: Handle, i: int, q: QueuePair, cand: int, now: int) -> int:
    """How long a sender whose receiver wants order must wait, so that packets on candidate `cand` do not overtake
    those on the current path: the difference of the queuing delays, ps. Of a path from which nothing has come back
    yet, the time for which that has been so is all that is known."""
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
    delays.begin(cfg_row(hs), q, candidate_row(hs, i, cand).delay)
    q.epoch_head = NIL
    q.inflight = 0
    q.epoch_rtos = 0
    q.tail_probe = 0
    q.last_progress = now
    q.since_ptm = 0
    q.st_reroutes += 1
    q.react_hold = now + max(cfg_row(hs).react_hold_ps, 2 * q.srtt)
    return wait


@inner
def _set_off(hs: Handle, i: int, q: QueuePair, wait: int, now: int) -> None:
    if wait > 0:
        q.pace_next = now + wait
    activate(hs, i, q)


# -- data packets -------------------------------------------------------------------------------------------


@inner
def before_data(hs: Handle, i: int, q: QueuePair, now: int) -> None:
    """A new data packet is about to go out."""
    cfg = cfg_row(hs)
    idle = q.inflight == 0 if spray.is_spraying(q) else q.flight_head == NIL
    if idle and q.n_lost == 0 and now - q.last_sent > rtt.timeout(cfg, q):
        control.on_idle(q, now)
        q.probed = 0
        tokens.forget(q)
    if q.mode == MODE_AUTO and not q.probed and q.snd_end - q.snd_una >= cfg.probe_backlog:
        q.probed = 1
        start_round(hs, i, q, now)


@inner
def after_data(hs: Handle, i: int, q: QueuePair, now: int) -> None:
    """A data packet went out: every max(cwnd, delta3) of them the next candidate is probed, or the next
    `crowded_probes` of them by a sender that would leave its path if it knew an empty one."""
    q.last_sent = now
    if q.mode != MODE_AUTO:
        return
    q.since_ptm += 1
    cfg = cfg_row(hs)
    if q.since_ptm < max(control.window(q), float64(cfg.delta3)):
        return
    q.since_ptm = 0
    for _ in range(cfg.crowded_probes if delays.is_crowded(cfg, q) else 1):
        q.rr_next = (q.rr_next + 1) % q.n_cand
        send_ptm(hs, i, q, q.rr_next)


@inner
def on_data_delay(hs: Handle, i: int, q: QueuePair, cand: int, delay: int, now: int) -> None:
    """An ACK reflected the delay that a data packet of the current epoch accumulated."""
    delays.note(cfg_row(hs), q, delay, control.window(q))
    c = candidate_row(hs, i, cand)
    c.delay = delay
    health.on_data(c)
    if q.st_delay_samples == 0 or delay < q.st_delay_min:
        q.st_delay_min = delay
    q.st_delay_max = max(q.st_delay_max, delay)
    q.st_delay_sum += delay
    q.st_delay_samples += 1
    if q.round != ROUND_NONE and q.round_done == q.round_open:
        _decide(hs, i, q, now)


# -- probes -------------------------------------------------------------------------------------------------


@inner
def probe_all(hs: Handle, i: int) -> None:
    """Queues a PTM on every candidate of QP `i`; what is asked for from outside, not by the rules above."""
    q = qp_row(hs, i)
    for place in range(q.n_cand):
        send_ptm(hs, i, q, place)


@inner
def write_ptm(hs: Handle, frame: int, h: RdmaHost, m: ControlMessage, now: int) -> int:
    """Writes the PTM in control message `m`. A round begins when its first PTM leaves the host."""
    q = qp_row(hs, m.qp)
    if q.round == ROUND_FIRST and m.psn == q.round_first:
        q.round_start = now
        q.round_deadline = now + rtt.timeout(cfg_row(hs), q)
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
def start_round(hs: Handle, i: int, q: QueuePair, now: int) -> None:
    """Probes up to `initial_probes` random candidates other than the current one."""
    others = q.n_cand - 1
    probes = min(cfg_row(hs).initial_probes, others)
    if probes < 1:
        return
    q.round = ROUND_FIRST
    q.round_first = q.ptm_seq
    q.round_open = probes
    q.round_done = 0
    q.round_start = now
    q.round_deadline = now + rtt.timeout(cfg_row(hs), q)
    probe_others(hs, i, q, probes)
    timers.advance(hs, i, q, q.round_deadline)


@inner
def probe_others(hs: Handle, i: int, q: QueuePair, probes: int) -> None:
    """Queues PTMs on so many random candidates other than the current one, of which there are as many at least."""
    h, others, chosen = host_row(hs, q.host), q.n_cand - 1, 0
    for place in range(q.n_cand):  # each of those that remain with equal probability (Knuth's algorithm S)
        if place == q.cand:
            continue
        if random_below(h, others) < probes - chosen:
            send_ptm(hs, i, q, place)
            chosen += 1
        others -= 1


@inner
def end_round(q: QueuePair) -> None:
    """There is no round."""
    q.round = ROUND_NONE
    q.round_deadline = MAX_TIME


@inner
def _is_awaited(hs: Handle, i: int, q: QueuePair, f: ReceivedFrame) -> bool:
    """Whether the PTR in `f` answers the last PTM on its candidate and came back by the port of that one."""
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
    if spray.is_spraying(q):
        health.on_probe(c)
        spray.on_probe(hs, q, int64(f.cand), int64(f.reflected), now)
        return True
    if f.cand == q.cand:
        delays.note(cfg_row(hs), q, f.reflected, control.window(q))
    if q.round == ROUND_NONE:
        _consider(hs, i, q, f.cand, now)
        return True
    place = (f.psn - q.round_first) & 0x7FFFFFFF
    if place >= q.round_open:
        return True
    c.answered = q.round_first
    q.round_done += 1
    if q.round == ROUND_FIRST:
        q.round = ROUND_ALL
        q.round_deadline = q.round_start + 3 * max(now - q.round_start, 1)
        timers.advance(hs, i, q, q.round_deadline)
    if q.round_done == q.round_open and q.delay >= 0:
        _decide(hs, i, q, now)
    return True


@inner
def _consider(hs: Handle, i: int, q: QueuePair, cand: int, now: int) -> None:
    """A PTR outside a round came in on `cand`: moves there if that is better and has been so often enough in a row."""
    cfg, c = cfg_row(hs), candidate_row(hs, i, cand)
    current = delays.compared(cfg, q)
    if q.low_before < 0 or health.is_barred(c, now) or not delays.is_better(cfg, c.delay, current):
        c.better = 0
    elif c.better < delays.confirmations(cfg, c.delay, current):
        c.better += 1
        send_ptm(hs, i, q, cand)
    else:
        c.better = 0
        move(hs, i, q, cand, now)


@inner
def _best(hs: Handle, i: int, q: QueuePair, answered: int, now: int) -> int:
    """Candidate other than the current one that is not barred, of those that failed least the one with the least known
    delay, or `NIL`; with `answered` >= 0 only those that answered in the round that began with this sequence number."""
    best = NIL
    for place in range(q.n_cand):
        c = candidate_row(hs, i, place)
        if place == q.cand or c.delay < 0 or health.is_barred(c, now) or (answered >= 0 and c.answered != answered):
            continue
        if best == NIL:
            best = place
            continue
        known = candidate_row(hs, i, best)
        if c.silent < known.silent or (c.silent == known.silent and c.delay < known.delay):
            best = place
    return best


@inner
def _decide(hs: Handle, i: int, q: QueuePair, now: int) -> None:
    """Ends the round: moves to the best path that answered if it is better than the current one, or if
    nothing is known of the current one although others answered.

    A sender whose receiver wants order cannot leave a path of unknown delay, as it would not know how long to wait:
    its round goes on until the first data packet has reported."""
    if q.in_order and q.delay < 0:
        q.round_open = q.round_done
        q.round_deadline = MAX_TIME
        return
    best = _best(hs, i, q, q.round_first, now)
    end_round(q)
    if best == NIL or candidate_row(hs, i, best).silent > candidate_row(hs, i, q.cand).silent:
        return
    cfg, found = cfg_row(hs), candidate_row(hs, i, best).delay
    if q.delay < 0 or delays.is_better(cfg, found, delays.compared(cfg, q)):
        move(hs, i, q, best, now)


@inner
def leave_dead_path(hs: Handle, i: int, q: QueuePair, now: int) -> None:
    """Nothing comes back on the current path: takes another and probes."""
    if q.mode != MODE_AUTO or q.n_cand < 2:
        return
    health.bar(hs, i, q, now)
    best = _best(hs, i, q, int64(NIL), now)
    if best == NIL:
        best = health.another(hs, i, q, now)
    move(hs, i, q, best, now)
    delays.begin(cfg_row(hs), q, int64(NIL))  # what was known is from before; an answer to the probes beats it
    start_round(hs, i, q, now)


@inner
def deadline(q: QueuePair) -> int:
    """When the round ends at the latest."""
    return q.round_deadline


@inner
def on_deadline(hs: Handle, i: int, q: QueuePair, now: int) -> None:
    """Ends a round that has lasted long enough."""
    if q.round_deadline <= now:
        _decide(hs, i, q, now)
