# SPDX-License-Identifier: Apache-2.0
"""Spraying: every packet of a QP takes a path of its own, chosen by what earlier ones met. docs/transports.md,
"SprayLERP", has the rules with their probabilities; here is why they are so.

* A path that is slow to answer gives its token back late, and is used less by that alone (REPS, arXiv 2407.21625). Here
  every answer brings the queuing delay of its path, so a token can be exchanged where that pays.
* A detour costs the fabric about twice what a shortest path costs, as UGAL has it in a switch (Singh, 2005). Tokens are
  exchanged in small steps, for all senders decide by the same queues, and by what these were a wait ago. Where all need
  detours, more would make that queue swing. Where few do, most detours are a mistake that soon mends itself.
* A token that stays where it is takes its queue along: where only marks move it, some links have queues up to the mark
  while others stand empty. With 1/4 all senders leave such a queue together, and the next one swings.
* If a detour has answered and no shortest path, which should have done so before, shortest paths are crowded.
* A detour that nobody has tried is taken only with so much to send behind it that it is there before the message's last
  packet all the same. While nothing is known of detours, what waits on a shortest path may wait on every path, as in
  front of the receiver.
* What shortest paths and detours lose alike is lost on the link of a host, and leaving a path is no help. Two shortest
  paths that lose share something.

Rivals of which the rules are known as well: `built_in.OBLIVIOUS_PATHS`, and in `experiments.rivals.paths` REPS, MRC and
Spritz.
"""

from __future__ import annotations

from detour.hosts.draws import random_below
from detour.hosts.paths import memory
from detour.hosts.paths.delays import mtu_times
from detour.hosts.paths.health import is_alive
from detour.hosts.paths.memory import SprayState
from detour.hosts.paths.plugin import PathNews, PathScheme, hook
from detour.hosts.paths.tokens import draw, forget, pop, push
from detour.hosts.records import Config, QueuePair
from detour.hosts.rows import candidate_row, cfg_row, host_row
from detour.hosts.state import NIL, Handle

_SMOOTHING = 16
"""answers in which means follow"""
_ALL = 1 << 16
"""what `short_share` is if all answers come by shortest paths"""
_LEAVE, _EXPLORE, _COME_BACK, _MOVE_ON = 2, 16, 24, 16
"""one over the probabilities with which a token leaves shortest paths, does so while nothing is known of detours, comes
back, and leaves a detour with a longer queue than others"""
_CALM = 3
"""what waits on shortest paths in the mean is so many times below `_limit` where they serve well"""
_LOSS_SMOOTHING, _LOSS_BITS = 256, 24
"""packets in which the parts that links lose follow, and bits of their fraction"""
_BEGIN_SHORT = 4
"""one over the probability with which a packet that need not be fast takes a shortest path before anything is known"""


@hook
def on_candidates(hs: Handle, i: int, q: QueuePair, p: Config, s: SprayState, news: PathNews, now: int) -> None:
    on_idle(hs, i, q, p, s, news, now)
    s.short_time = 0
    s.short_mean = 0
    s.short_share = 0


@hook
def on_idle(hs: Handle, i: int, q: QueuePair, p: Config, s: SprayState, news: PathNews, now: int) -> None:
    """What was known of paths is out of date."""
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
    """What a packet would wait on a shortest path, ticks: what the last one waited, less what can have been sent
    since; 0 if nothing is known."""
    return max(0, s.short_wait - (now - s.short_time) // cfg.tick_ps) if s.short_wait >= 0 else 0


@hook
def _margin(cfg: Config) -> int:
    """By how many ticks less a packet must wait elsewhere for that to count."""
    return mtu_times(cfg, cfg.spray_margin_mtus) // cfg.tick_ps


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
        if cand >= q.n_short and _ends_short(hs, q, s, now):
            short = draw(hs, i, q, 0, q.n_short, now)
            cand = short if is_alive(hs, i, short, now) else cand
        if is_alive(hs, i, cand, now):
            return cand
    memory.recall(hs, q, s, now)
    if not _has_both(q):
        return draw(hs, i, q, 0, q.n_cand, now)
    if _begins_short(hs, q, s, now):
        cand = draw(hs, i, q, 0, q.n_short, now)
        if is_alive(hs, i, cand, now):
            memory.on_sent_short(hs, q, s, now)
            return cand
    return _detour(hs, i, q, now)


@hook
def _begins_short(hs: Handle, q: QueuePair, s: SprayState, now: int) -> bool:
    """Whether a packet without a token takes a shortest path."""
    cfg, h = cfg_row(hs), host_row(hs, q.host)
    if memory.is_crowded_by_us(hs, q, now):
        return False
    if s.detour_wait == NIL:
        return not _may_explore(cfg, q) or s.short_wait != NIL or random_below(h, _BEGIN_SHORT) == 0
    return s.short_wait != NIL and _short_wait(cfg, s, now) <= _limit(cfg, s)


@hook
def _ends_short(hs: Handle, q: QueuePair, s: SprayState, now: int) -> bool:
    """Whether a message ends with the packets that are sent now, and shortest paths are clear."""
    cfg = cfg_row(hs)
    if not _has_both(q) or s.short_wait == NIL or q.snd_end - q.snd_nxt > cfg.spray_margin_mtus:
        return False
    return _is_clear(cfg, s, now) and not memory.is_crowded_by_us(hs, q, now)


@hook
def _is_clear(cfg: Config, s: SprayState, now: int) -> bool:
    """Whether shortest paths are clearly better than detours, as far as is known."""
    return 2 * _short_wait(cfg, s, now) < _limit(cfg, s)


@hook
def _may_explore(cfg: Config, q: QueuePair) -> bool:
    """Whether there is so much to send that a detour of which nothing is known cannot be what it ends with."""
    return q.snd_end - q.snd_nxt >= cfg.spray_ahead_mtus


@hook
def on_answer(hs: Handle, i: int, q: QueuePair, p: Config, s: SprayState, news: PathNews, now: int) -> None:
    push(s, _exchanged(hs, i, q, p, s, news, now))


@hook
def _exchanged(hs: Handle, i: int, q: QueuePair, p: Config, s: SprayState, news: PathNews, now: int) -> int:
    """What the token of a path becomes of which there is news."""
    cand, wait = news.cand, max(news.delay, 0)
    if not _has_both(q):
        return draw(hs, i, q, 0, q.n_cand, now) if news.marked else cand
    _note_share(q, s, cand)
    if cand < q.n_short:
        _note_short(p, s, wait, now)
        memory.on_shortest(hs, q, wait, now)
        if wait <= _limit(p, s):
            memory.on_short_way(hs, q)
            return cand
        if s.detour_wait == NIL:
            memory.ask(hs, i, q, wait, now)
        return _detour(hs, i, q, now) if _leaves(hs, q, s) else cand
    s.detour_wait = wait if s.detour_wait == NIL else s.detour_wait + (wait - s.detour_wait) // _SMOOTHING
    q.detours_known = 1
    memory.on_detour(hs, q, s.detour_wait, now)
    if news.marked or _moves_on(hs, q, s, wait):
        return _detour(hs, i, q, now)
    if _is_clear(p, s, now) and _comes_back(hs, q, s):
        return draw(hs, i, q, 0, q.n_short, now)
    return cand


@hook
def _note_share(q: QueuePair, s: SprayState, cand: int) -> None:
    """One answer more, about candidate `cand`."""
    s.short_share += ((_ALL if cand < q.n_short else 0) - s.short_share) // _SMOOTHING
    if cand < q.n_short:
        s.short_loss -= s.short_loss // _LOSS_SMOOTHING
    else:
        s.detour_loss -= s.detour_loss // _LOSS_SMOOTHING


@hook
def _note_link_loss(hs: Handle, i: int, q: QueuePair, s: SprayState, cand: int, now: int) -> None:
    """A link of candidate `cand` lost a packet: it is barred if paths of its kind lose clearly more than others do, and
    all shortest ones if another one is barred already; else none is any more."""
    one, bar_ps = 1 << _LOSS_BITS, cfg_row(hs).spray_dead_ps
    if cand < q.n_short:
        s.short_loss += (one - s.short_loss) // _LOSS_SMOOTHING
        own, other = s.short_loss, s.detour_loss
    else:
        s.detour_loss += (one - s.detour_loss) // _LOSS_SMOOTHING
        own, other = s.detour_loss, s.short_loss
    if own > 2 * other:
        candidate_row(hs, i, cand).answered = now + bar_ps // 4
        if cand < q.n_short and _barred(hs, i, q.n_short, now) > 1:
            for place in range(q.n_short):
                candidate_row(hs, i, place).answered = now + bar_ps
    elif other <= 2 * own:
        for place in range(q.n_cand):
            c = candidate_row(hs, i, place)
            c.answered = min(c.answered, now)


@hook
def _barred(hs: Handle, i: int, count: int, now: int) -> int:
    """How many of the first candidates are barred."""
    barred = 0
    for place in range(count):
        barred += int(candidate_row(hs, i, place).answered > now)
    return barred


@hook
def _note_short(cfg: Config, s: SprayState, wait: int, now: int) -> None:
    """A packet waited for so many ticks on a shortest path. The mean begins where it says that they are crowded."""
    if s.short_wait == NIL:
        s.short_mean = max(wait, _limit(cfg, s))
    else:
        s.short_mean += (wait - s.short_mean) // _SMOOTHING
    s.short_wait = wait
    s.short_time = now


@hook
def _moves_on(hs: Handle, q: QueuePair, s: SprayState, wait: int) -> bool:
    """Whether a token leaves a detour on which a packet waited for so many ticks, as others wait for clearly less."""
    if wait <= s.detour_wait + _margin(cfg_row(hs)):
        return False
    return random_below(host_row(hs, q.host), _MOVE_ON) == 0


@hook
def _comes_back(hs: Handle, q: QueuePair, s: SprayState) -> bool:
    """Whether a token comes back from a detour, as shortest paths are clear now."""
    chance = _ALL // _COME_BACK
    if _CALM * s.short_mean < _limit(cfg_row(hs), s):
        chance += (s.short_share * s.short_share // _ALL) // 2
    return random_below(host_row(hs, q.host), _ALL) < chance


@hook
def _leaves(hs: Handle, q: QueuePair, s: SprayState) -> bool:
    """Whether a token leaves the shortest paths, which are crowded."""
    h = host_row(hs, q.host)
    if s.detour_wait == NIL:
        return _may_explore(cfg_row(hs), q) and random_below(h, _EXPLORE) == 0
    return random_below(h, _LEAVE) == 0


@hook
def on_lost(hs: Handle, i: int, q: QueuePair, p: Config, s: SprayState, news: PathNews, now: int) -> None:
    if _has_both(q) and not news.congested:
        _note_link_loss(hs, i, q, s, news.cand, now)


@hook
def on_probe(hs: Handle, i: int, q: QueuePair, p: Config, s: SprayState, news: PathNews, now: int) -> None:
    """What a PTM waited counts for connections to come, not for this one, which would end with detours if it is short,
    and finds out by itself if it is long."""
    if news.cand >= q.n_short and q.n_short > 0:
        memory.on_detour(hs, q, news.delay, now)


SPRAYING_PATHS = PathScheme(
    None, SprayState, (on_candidates, on_idle, choose, on_answer, on_lost, on_probe), name="spraying", sprays=True
)
