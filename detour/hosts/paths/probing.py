# SPDX-License-Identifier: Apache-2.0
"""The sender probes, and leaves its path for a better one (non-shortest-path paper, section III;
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

from detour.base.jit import float64, int64
from detour.hosts import rtt, timers
from detour.hosts.cc import control
from detour.hosts.paths import delays, health, paths
from detour.hosts.paths.delays import Parameters, ProbingState
from detour.hosts.paths.plugin import PathNews, PathScheme, hook
from detour.hosts.paths.probes import probe_others, send_ptm
from detour.hosts.records import QueuePair
from detour.hosts.rows import candidate_row
from detour.hosts.state import MAX_TIME, NIL, Handle

ROUND_NONE, ROUND_FIRST, ROUND_ALL = 0, 1, 2
"""no round; waiting for the first PTR; waiting for the others"""


@hook
def on_candidates(hs: Handle, i: int, q: QueuePair, p: Parameters, s: ProbingState, news: PathNews, now: int) -> None:
    delays.begin(p, s, int64(NIL))
    s.low_before = NIL
    s.rr_next = 0
    s.probed = 0
    _end_round(q, s)


@hook
def on_move(hs: Handle, i: int, q: QueuePair, p: Parameters, s: ProbingState, news: PathNews, now: int) -> None:
    delays.begin(p, s, q.delay)
    s.since_ptm = 0
    _end_round(q, s)


@hook
def on_idle(hs: Handle, i: int, q: QueuePair, p: Parameters, s: ProbingState, news: PathNews, now: int) -> None:
    s.probed = 0


@hook
def on_new(hs: Handle, i: int, q: QueuePair, p: Parameters, s: ProbingState, news: PathNews, now: int) -> None:
    if not s.probed and q.snd_end - q.snd_una >= p.probe_backlog:
        s.probed = 1
        _start_round(hs, i, q, p, s, now)


@hook
def on_sent(hs: Handle, i: int, q: QueuePair, p: Parameters, s: ProbingState, news: PathNews, now: int) -> None:
    """Every max(cwnd, delta3) data packets the next candidate is probed, or the next `crowded_probes` of them by a
    sender that would leave its path if it knew an empty one."""
    s.since_ptm += 1
    if s.since_ptm < max(control.window(q), float64(p.delta3)):
        return
    s.since_ptm = 0
    for _ in range(p.crowded_probes if delays.is_crowded(p, q, s) else 1):
        s.rr_next = (s.rr_next + 1) % q.n_cand
        send_ptm(hs, i, q, s.rr_next)


@hook
def on_answer(hs: Handle, i: int, q: QueuePair, p: Parameters, s: ProbingState, news: PathNews, now: int) -> None:
    delays.note(p, s, news.delay, control.window(q))
    if s.round != ROUND_NONE and s.round_done == s.round_open:
        _decide(hs, i, q, p, s, now)


# -- probes -------------------------------------------------------------------------------------------------


@hook
def on_probe_sent(hs: Handle, i: int, q: QueuePair, p: Parameters, s: ProbingState, news: PathNews, now: int) -> None:
    """A round begins when its first PTM leaves the host."""
    if s.round == ROUND_FIRST and news.seq == s.round_first:
        s.round_start = now
        q.path_timer = now + rtt.timeout(p, q)


@hook
def _start_round(hs: Handle, i: int, q: QueuePair, p: Parameters, s: ProbingState, now: int) -> None:
    """Probe up to `initial_probes` random candidates other than the current one."""
    others = q.n_cand - 1
    probes = min(p.initial_probes, others)
    if probes < 1:
        return
    s.round = ROUND_FIRST
    s.round_first = q.ptm_seq
    s.round_open = probes
    s.round_done = 0
    s.round_start = now
    q.path_timer = now + rtt.timeout(p, q)
    probe_others(hs, i, q, probes)
    timers.advance(hs, i, q, q.path_timer)


@hook
def _end_round(q: QueuePair, s: ProbingState) -> None:
    s.round = ROUND_NONE
    q.path_timer = MAX_TIME


@hook
def on_probe(hs: Handle, i: int, q: QueuePair, p: Parameters, s: ProbingState, news: PathNews, now: int) -> None:
    if news.cand == q.cand:
        delays.note(p, s, news.delay, control.window(q))
    if s.round == ROUND_NONE:
        _consider(hs, i, q, p, s, news.cand, now)
        return
    place = (news.seq - s.round_first) & 0x7FFFFFFF
    if place >= s.round_open:
        return
    candidate_row(hs, i, news.cand).answered = s.round_first
    s.round_done += 1
    if s.round == ROUND_FIRST:
        s.round = ROUND_ALL
        q.path_timer = s.round_start + 3 * max(now - s.round_start, 1)
        timers.advance(hs, i, q, q.path_timer)
    if s.round_done == s.round_open and q.delay >= 0:
        _decide(hs, i, q, p, s, now)


@hook
def _consider(hs: Handle, i: int, q: QueuePair, p: Parameters, s: ProbingState, cand: int, now: int) -> None:
    """A PTR outside a round came in on `cand`: moves there if that is better and has been so often enough in a row."""
    c = candidate_row(hs, i, cand)
    current = delays.compared(p, q, s)
    if s.low_before < 0 or health.is_barred(c, now) or not delays.is_better(p, c.delay, current):
        c.better = 0
    elif c.better < delays.confirmations(p, c.delay, current):
        c.better += 1
        send_ptm(hs, i, q, cand)
    else:
        c.better = 0
        paths.move(hs, i, q, cand, now)


@hook
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
        so_far = candidate_row(hs, i, best)
        if c.silent < so_far.silent or (c.silent == so_far.silent and c.delay < so_far.delay):
            best = place
    return best


@hook
def _decide(hs: Handle, i: int, q: QueuePair, p: Parameters, s: ProbingState, now: int) -> None:
    """End the round: moves to the best path that answered if it is better than the current one, or if
    nothing is known of the current one although others answered.

    A sender whose receiver wants order cannot leave a path of unknown delay, as it would not know how long to wait:
    its round goes on until the first data packet has reported."""
    if q.in_order and q.delay < 0:
        s.round_open = s.round_done
        q.path_timer = MAX_TIME
        return
    best = _best(hs, i, q, s.round_first, now)
    _end_round(q, s)
    if best == NIL or candidate_row(hs, i, best).silent > candidate_row(hs, i, q.cand).silent:
        return
    delay = candidate_row(hs, i, best).delay
    if q.delay < 0 or delays.is_better(p, delay, delays.compared(p, q, s)):
        paths.move(hs, i, q, best, now)


@hook
def on_timeout(hs: Handle, i: int, q: QueuePair, p: Parameters, s: ProbingState, news: PathNews, now: int) -> None:
    """Nothing comes back on the current path: takes another and probes."""
    if q.epoch_rtos < p.dead_path_rtos or q.n_cand < 2:
        return
    health.bar(hs, i, q, now)
    best = _best(hs, i, q, int64(NIL), now)
    if best == NIL:
        best = health.another(hs, i, q, now)
    paths.move(hs, i, q, best, now)
    q.delay = NIL  # what was known is from before; an answer to the probes beats it
    delays.begin(p, s, int64(NIL))
    _start_round(hs, i, q, p, s, now)


@hook
def on_timer(hs: Handle, i: int, q: QueuePair, p: Parameters, s: ProbingState, news: PathNews, now: int) -> None:
    """End a round that has lasted long enough."""
    _decide(hs, i, q, p, s, now)


PROBING = PathScheme(
    Parameters(),
    ProbingState,
    (on_candidates, on_move, on_idle, on_new, on_sent, on_answer, on_probe_sent, on_probe, on_timeout, on_timer),
    name="probing",
    equal_paths=8,
    watches=True,
)
