# SPDX-License-Identifier: Apache-2.0
"""Spraying: every packet of a QP takes a path of its own, chosen by what earlier ones met. docs/transports.md,
"SprayLERP", has the four rules and what each is worth; here is why they are so.

* A path that is slow to answer gives its token back late, and is used less by that alone (REPS, arXiv 2407.21625). Here
  every answer brings the queuing delay of its path, so a token can be exchanged where that pays.
* A detour costs the fabric about twice what a shortest path costs, as UGAL has it in a switch (Singh, 2005). Tokens are
  exchanged in small steps, for all senders decide by the same queues, and by what these were a wait ago. Where all need
  detours, more would make that queue swing. Where few do, most detours are a mistake that soon mends itself.
* If a detour has answered and no shortest path, which should have done so before, shortest paths are crowded.
* While nothing is known of detours, what waits on a shortest path may wait on every path, as in front of the receiver.
  The more there is to send behind a packet, the sooner it may take a detour that nobody has tried: it is there before
  the message's last packet all the same. A path that all of a host's short messages take fills as well (`crowd`).
* What shortest paths and detours lose alike is lost on the link of a host, and leaving a path is no help. Two shortest
  paths that lose share something.
"""

from __future__ import annotations

from detour.hosts.draws import random_below
from detour.hosts.paths import crowd
from detour.hosts.paths.crowd import SprayState
from detour.hosts.paths.delays import mtu_times
from detour.hosts.paths.health import is_alive
from detour.hosts.paths.plugin import PathNews, PathScheme, hook
from detour.hosts.paths.tokens import draw, forget, pop, push
from detour.hosts.records import Config, QueuePair
from detour.hosts.rows import candidate_row, cfg_row, host_row
from detour.hosts.state import NIL, Handle

_SMOOTHING = 16
"""answers in which means follow"""
_COME_BACK, _MOVE_ON = 24, 16
"""one over the probabilities with which a token comes back, and leaves a detour with a longer queue than others"""
_RETURN_RUN = 2
"""answers by shortest paths in a row after which a token comes back with probability 1/2, if these are clear in the
mean: where most are not, senders that come back together make the queue swing"""
_CLEAR = 3
"""what waits on shortest paths is so many times below `_limit` where they are clear"""
_LOSS_BITS = 24
"""of the part of packets that links lose"""
_BEGIN_SHORT = 4
"""one over the least probability with which a packet takes a shortest path before anything is known"""


@hook
def on_candidates(hs: Handle, i: int, q: QueuePair, p: Config, s: SprayState, news: PathNews, now: int) -> None:
    on_idle(hs, i, q, p, s, news, now)
    s.short_time = 0
    s.short_mean = 0
    s.short_run = 0


@hook
def on_idle(hs: Handle, i: int, q: QueuePair, p: Config, s: SprayState, news: PathNews, now: int) -> None:
    """Forget the state of paths, which is out of date."""
    forget(s)
    s.short_wait = NIL
    s.detour_wait = NIL
    s.short_loss = 0
    s.detour_loss = 0
    q.detours_known = 0


# -- candidates ---------------------------------------------------------------------------------------------


@hook
def _detour(hs: Handle, i: int, q: QueuePair, now: int) -> int:
    """The better of two random detours; there are some."""
    count = q.n_cand - q.n_short
    a, b = draw(hs, i, q, q.n_short, count, now), draw(hs, i, q, q.n_short, count, now)
    if is_alive(hs, i, b, now) and candidate_row(hs, i, b).delay < candidate_row(hs, i, a).delay:
        return b
    return a


@hook
def _has_both(q: QueuePair) -> bool:
    return 0 < q.n_short < q.n_cand


@hook
def _short_wait(cfg: Config, s: SprayState, now: int) -> int:
    """Return how long a packet would wait on a shortest path, in ticks: the wait of the last one, less what can have
    been sent since; 0 if nothing is known."""
    return max(0, s.short_wait - (now - s.short_time) // cfg.tick_ps) if s.short_wait >= 0 else 0


@hook
def _margin(cfg: Config) -> int:
    """Ticks by which a packet must wait less elsewhere for that to count."""
    return mtu_times(cfg, cfg.bdp_packets // 8) // cfg.tick_ps


@hook
def _limit(cfg: Config, s: SprayState) -> int:
    """The wait on a shortest path, ticks, that is worth as much as a detour."""
    return 2 * max(s.detour_wait, 0) + _margin(cfg)


# -- rules --------------------------------------------------------------------------------------------------


@hook
def choose(hs: Handle, i: int, q: QueuePair, p: Config, s: SprayState, news: PathNews, now: int) -> int:
    """The oldest token, or what a packet without one takes."""
    while s.n_tokens:
        cand = pop(s)
        if is_alive(hs, i, cand, now):
            return cand
    if not _has_both(q):
        return draw(hs, i, q, 0, q.n_cand, now)
    crowd.on_begin(hs, q, s, now)
    if _begins_short(hs, q, s, now):
        cand = draw(hs, i, q, 0, q.n_short, now)
        if is_alive(hs, i, cand, now):
            crowd.on_sent_short(hs, q, now)
            return cand
    return _detour(hs, i, q, now)


@hook
def _begins_short(hs: Handle, q: QueuePair, s: SprayState, now: int) -> bool:
    """Return whether a packet without a token takes a shortest path."""
    cfg = cfg_row(hs)
    if crowd.is_crowded_by_us(hs, q, now):
        return False
    if s.detour_wait != NIL:
        return s.short_wait != NIL and _short_wait(cfg, s, now) <= _limit(cfg, s)
    return s.short_wait != NIL or _tries_short(hs, q, cfg, now)


@hook
def _tries_short(hs: Handle, q: QueuePair, cfg: Config, now: int) -> bool:
    """Return whether a packet does before the first answer."""
    behind, bdp = q.snd_end - q.snd_nxt, cfg.bdp_packets
    if behind < bdp and crowd.groups_begun(hs, q, now) > 1:
        return True
    return random_below(host_row(hs, q.host), bdp) >= min(2 * behind, bdp - bdp // _BEGIN_SHORT)


@hook
def _loss_smoothing(cfg: Config) -> int:
    """Packets in which the parts that links lose follow."""
    return 2 * cfg.bdp_packets


@hook
def on_answer(hs: Handle, i: int, q: QueuePair, p: Config, s: SprayState, news: PathNews, now: int) -> None:
    if not _has_both(q):
        push(s, draw(hs, i, q, 0, q.n_cand, now) if news.marked else news.cand)
    elif news.cand < q.n_short:
        push(s, _after_short(hs, i, q, p, s, news, now))
    else:
        push(s, _after_detour(hs, i, q, p, s, news, now))


@hook
def _after_short(hs: Handle, i: int, q: QueuePair, p: Config, s: SprayState, news: PathNews, now: int) -> int:
    """Return the next use of a shortest path's token."""
    wait = max(news.delay, 0)
    if s.short_wait == NIL:  # it begins where it says that they are crowded
        s.short_mean = max(wait, _limit(p, s))
    else:
        s.short_mean += (wait - s.short_mean) // _SMOOTHING
    s.short_wait = wait
    s.short_time = now
    s.short_run += 1
    s.short_loss -= s.short_loss // _loss_smoothing(p)
    if wait <= _limit(p, s):
        crowd.on_short_way(hs, q)
        return news.cand
    leaves = s.detour_wait != NIL and random_below(host_row(hs, q.host), 2) == 0
    return _detour(hs, i, q, now) if leaves else news.cand


@hook
def _after_detour(hs: Handle, i: int, q: QueuePair, p: Config, s: SprayState, news: PathNews, now: int) -> int:
    """Return the next use of a detour's token."""
    wait, h, run = max(news.delay, 0), host_row(hs, q.host), s.short_run
    s.detour_wait = wait if s.detour_wait == NIL else s.detour_wait + (wait - s.detour_wait) // _SMOOTHING
    s.short_run = 0
    s.detour_loss -= s.detour_loss // _loss_smoothing(p)
    q.detours_known = 1
    if news.marked:
        return _detour(hs, i, q, now)
    limit = _limit(p, s)
    if _CLEAR * _short_wait(p, s, now) < limit:
        soon = run >= _RETURN_RUN and _CLEAR * s.short_mean < limit
        if random_below(h, 2 if soon else _COME_BACK) == 0:
            return draw(hs, i, q, 0, q.n_short, now)
    if wait > s.detour_wait + _margin(p) and random_below(h, _MOVE_ON) == 0:
        return _detour(hs, i, q, now)
    return news.cand


@hook
def on_lost(hs: Handle, i: int, q: QueuePair, p: Config, s: SprayState, news: PathNews, now: int) -> None:
    """A link lost a packet: its path is left if paths of its kind lose clearly more than the others, and with it all
    shortest ones if it is the second of these; if both kinds lose alike none is left any more."""
    if news.congested or not _has_both(q):
        return
    one, is_short = 1 << _LOSS_BITS, news.cand < q.n_short
    if is_short:
        s.short_loss += (one - s.short_loss) // _loss_smoothing(p)
    else:
        s.detour_loss += (one - s.detour_loss) // _loss_smoothing(p)
    own, other = (s.short_loss, s.detour_loss) if is_short else (s.detour_loss, s.short_loss)
    if own > 2 * other:
        second = is_short and _another_left(hs, i, q, news.cand, now)
        candidate_row(hs, i, news.cand).answered = now + p.spray_dead_ps
        for place in range(q.n_short if second else 0):
            candidate_row(hs, i, place).answered = now + p.spray_dead_ps
    elif other <= 2 * own:
        for place in range(q.n_cand):
            candidate_row(hs, i, place).answered = 0


@hook
def _another_left(hs: Handle, i: int, q: QueuePair, cand: int, now: int) -> bool:
    """Return whether a shortest path other than candidate `cand` has been left."""
    left = False
    for place in range(q.n_short):
        left = left or (place != cand and candidate_row(hs, i, place).answered > now)
    return left


SPRAY = PathScheme(
    None,
    SprayState,
    (on_candidates, on_idle, choose, on_answer, on_lost),
    name="spray",
    times=("short_time",),
    sprays=True,
)
