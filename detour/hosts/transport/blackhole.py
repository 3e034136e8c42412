# SPDX-License-Identifier: Apache-2.0
"""Leaving a path that swallows everything, within three round trips (not in the non-shortest-path paper;
docs/transports.md, "A blackhole is left within three round trips").

A timeout is a long time, because a path that is merely slow must not be taken for a dead one. Here a sender asks
instead. An answer on its own path means that what was sent before the PTM is lost, for paths keep order; if data is not
answered then, the path passes probes alone. Answers on others alone mean that it is dead: the peer lives and hears us.
No answers at all leave it to the timeouts.

The longest recent round trip (`rtt.on_sample`) is what tells dead from slow: queues that grow and shrink raise it, and
a path on which round trips have varied gets that much more time.
"""

from __future__ import annotations

from detour.base.jit import inner, int64
from detour.hosts import rtt
from detour.hosts.nic import activate
from detour.hosts.paths import health, paths
from detour.hosts.paths.probes import probe_others, send_ptm
from detour.hosts.records import Config, QueuePair
from detour.hosts.rows import candidate_row, cfg_row, frame_row, slot_row
from detour.hosts.state import MAX_TIME, NIL, Handle
from detour.hosts.transport import flight
from detour.hosts.transport.progress import PROBE_DUE, PROBE_NONE


@inner
def _watches(cfg: Config, q: QueuePair) -> bool:
    """Return whether there is something to wait for, a round trip to measure the wait by, and somewhere else to go."""
    if not cfg.leaves_silent_paths or not q.watches or q.n_cand < 2 or not q.selective:
        return False
    return q.epoch_head != NIL and rtt.is_known(q)


@inner
def _since(hs: Handle, i: int, q: QueuePair) -> int:
    """Since when nothing has come back although something should have."""
    return max(slot_row(hs, i, q.epoch_head).sent, q.last_progress)


@inner
def _ask_after(cfg: Config, q: QueuePair) -> int:
    return max(q.rtt_peak + q.rtt_peak // 8, cfg.min_silence_ps)


@inner
def _dead_after(cfg: Config, q: QueuePair) -> int:
    return 2 * _ask_after(cfg, q)


@inner
def deadline(hs: Handle, i: int, q: QueuePair) -> int:
    """The time to ask, or to give the path up."""
    cfg = cfg_row(hs)
    if not _watches(cfg, q):
        return MAX_TIME
    since = _since(hs, i, q)
    if q.asked_since != since:
        return since + _ask_after(cfg, q)
    return max(since, q.asked_lives) + _dead_after(cfg, q) if q.asked_best != NIL else MAX_TIME


@inner
def on_deadline(hs: Handle, i: int, q: QueuePair, now: int) -> None:
    """Do what is due."""
    if deadline(hs, i, q) > now:
        return
    if q.asked_since != _since(hs, i, q):
        _ask(hs, i, q)
    else:
        _leave(hs, i, q, now)


@inner
def _ask(hs: Handle, i: int, q: QueuePair) -> None:
    q.asked_since = _since(hs, i, q)
    q.asked_best = NIL
    q.asked_lives = 0
    q.asked_first = q.ptm_seq
    send_ptm(hs, i, q, q.cand)
    probe_others(hs, i, q, min(cfg_row(hs).initial_probes, q.n_cand - 1))
    activate(hs, i, q)


@inner
def on_answer(hs: Handle, i: int, q: QueuePair, now: int) -> None:
    """The PTR in `frame_row(hs)` came in, answers the last PTM on its candidate, and has not made the QP move."""
    cfg, f = cfg_row(hs), frame_row(hs)
    if not _watches(cfg, q) or q.asked_since != _since(hs, i, q):
        return
    if (f.psn - q.asked_first) & 0x7FFFFFFF >= 1 << 30:  # sent before
        return
    if f.cand == q.cand:
        q.asked_lives = now
        if q.tail_probe == PROBE_NONE:
            q.tail_probe = PROBE_DUE
            activate(hs, i, q)
        return
    if health.is_barred(candidate_row(hs, i, f.cand), now):
        return
    if q.asked_best == NIL or f.reflected < candidate_row(hs, i, q.asked_best).delay:
        q.asked_best = int64(f.cand)
    on_deadline(hs, i, q, now)


@inner
def _leave(hs: Handle, i: int, q: QueuePair, now: int) -> None:
    best = q.asked_best
    health.bar(hs, i, q, now)
    q.st_failovers += 1
    while q.epoch_head != NIL:
        flight.lose(hs, i, q, q.epoch_head)
    q.asked_best = NIL
    paths.move(hs, i, q, best, now)
