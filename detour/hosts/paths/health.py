# SPDX-License-Identifier: Apache-2.0
"""Path health: what happens to data decides whether a path is usable; an answered probe alone is not enough.

A path may lose data and pass probes: an MTU that is too small, a link that corrupts long frames, a filter, a class of
its own for data. So there are two rules, one for senders that spray and one for those that have one path at a time.

* Spraying (`transport.multipath`): a path in doubt takes no data. An answer to data ends the doubt, also one to a
  packet that was sent again by another path meanwhile, if the PTR follows it. On a path that keeps order answers to
  data come before the PTR. A PTR without them lets a single data packet try the path (`TRUST_ON_TRIAL`).
* One path at a time: a path that was left because data was not answered is barred for `react_penalty_ps`, twice as long
  each time in a row, whatever probes say of it. An answer to data ends that.
"""

from __future__ import annotations

from detour.base.jit import inner
from detour.hosts.draws import random_below
from detour.hosts.records import Candidate, QueuePair
from detour.hosts.rows import candidate_row, cfg_row, host_row
from detour.hosts.state import MAX_TIME, NIL, Handle

TRUST_UNKNOWN, TRUST_ANSWERED, TRUST_ON_TRIAL = 0, 1, 2
"""`trust` of a candidate in doubt: nothing has come back; data was answered; a probe was, and one packet may try it"""
DOUBLINGS = 6
"""of the time for which a path that fails again and again is left alone"""


@inner
def is_alive(hs: Handle, i: int, cand: int, now: int) -> bool:
    """Spraying: whether candidate `cand` may take data: it answers, as far as is known, and is not barred."""
    c = candidate_row(hs, i, cand)
    return (c.silent == 0 or c.trust == TRUST_ON_TRIAL) and c.answered <= now  # until when it is barred


@inner
def on_data(c: Candidate) -> None:
    """Data on candidate `c` was answered."""
    c.silent = 0
    c.trust = TRUST_UNKNOWN


@inner
def on_earlier_data(c: Candidate) -> None:
    """So was a packet that was sent again by another path meanwhile."""
    if c.silent == 0:
        return
    if c.trust == TRUST_ON_TRIAL:
        on_data(c)
    else:
        c.trust = TRUST_ANSWERED


@inner
def on_probe(c: Candidate) -> None:
    """A PTM on candidate `c` was answered."""
    if c.silent == 0:
        return
    if c.trust == TRUST_ANSWERED:
        on_data(c)
    else:
        c.trust = TRUST_ON_TRIAL
        c.ask_next = MAX_TIME


@inner
def first_alive(hs: Handle, i: int, q: QueuePair, cand: int, now: int) -> int:
    """Candidate `cand`, or the first one behind it that may take data if it may not; itself if none may. After a
    timeout the one that has failed least often: one that passes probes alone is on trial again and again."""
    best, fails = cand, MAX_TIME
    for step in range(q.n_cand):
        place = (cand + step) % q.n_cand
        c = candidate_row(hs, i, place)
        if c.silent < fails and is_alive(hs, i, place, now):
            best, fails = place, c.silent
            if q.retries == 0:
                break
    return best


# -- one path at a time ---------------------------------------------------------------------------------------


@inner
def bar(hs: Handle, i: int, q: QueuePair, now: int) -> None:
    """The QP leaves its path because data was not answered."""
    c = candidate_row(hs, i, q.cand)
    c.delay = NIL
    c.ask_next = now + (cfg_row(hs).react_penalty_ps << min(c.silent, DOUBLINGS))
    c.silent += 1


@inner
def is_barred(c: Candidate, now: int) -> bool:
    """Return whether candidate `c` was left so not long ago."""
    return c.silent > 0 and c.ask_next > now


@inner
def another(hs: Handle, i: int, q: QueuePair, now: int) -> int:
    """A random candidate other than the current one that is not barred, of all those the one that will be so for the
    shortest time; there are two candidates at least."""
    start = q.cand + 1 + random_below(host_row(hs, q.host), q.n_cand - 1)
    best = start % q.n_cand
    for step in range(q.n_cand):
        place = (start + step) % q.n_cand
        c = candidate_row(hs, i, place)
        if place == q.cand:
            continue
        if not is_barred(c, now):
            return place
        if c.ask_next < candidate_row(hs, i, best).ask_next:
            best = place
    return best
