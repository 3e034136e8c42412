# SPDX-License-Identifier: Apache-2.0
"""Spraying: every packet of a QP takes a path of its own, chosen by what earlier ones met (docs/transports.md).

A QP keeps *tokens*, paths that have answered and wait to be used again: an answer gives its packet's path back, the
next packet takes the oldest token, and a path that is slow to answer is used less by that alone. REPS (arXiv
2407.21625) recycles paths so where an answer without a mark is all that is known of them. Here every answer brings the
queuing delay of its path, and the candidates are known to be shortest paths or detours, so a token can be exchanged
where that pays (`SprayLERP`):

* A detour costs the fabric about twice what a shortest path costs. So what waited on a shortest path is compared with
  twice what waits on detours and a margin, as UGAL does in a switch (Singh, 2005): with more, the token becomes a
  detour with probability 1/2; a detour becomes a shortest path again with probability 1/24 while the comparison clearly
  says otherwise. Both are small steps, for all senders decide by the same queues, and by what these were a wait ago.
  Where all do need detours, more would make that queue swing. But where few do, most detours are a mistake that soon
  mends itself: if shortest paths wait in the mean for a third of what would be worth a detour at most, half the square
  of the part of answers that come by them is added to 1/24.
* A detour that was marked becomes another one, the better of two; so does, with probability 1/16, one on which a packet
  waited longer than packets do on the QP's detours in the mean, and the margin. A token that stays where it is takes
  its queue along: where only marks move it, some links have queues up to the mark while others stand empty. With 1/4
  all senders leave such a queue together, and the next one swings.
* Without a token, which is how windows grow, a packet takes a shortest path while the comparison lets it, else the
  better of two detours. If a detour has answered and no shortest path, which should have done so before, it is crowded.
* Before anything has come back nobody knows. A packet behind which as much has to be sent as takes longer than a detour
  is longer (`spray_ahead_mtus`) takes one with probability 3/4: on an idle fabric it is there before the message's last
  packet all the same, and on a crowded one most of the window is not in the same queue, behind which a sender would
  have to wait before it may send anything else. All others take shortest paths, so a short message takes no detour.
* The last packets of a message take shortest paths instead of detours that have answered, if these are clear.
* What a host sends to one group by shortest paths, and has no news of, counts as a queue there if most of its
  connections that begin send to that group (`memory`): then the next ones take detours at once.
* While nothing is known of detours a token leaves a shortest path with probability 1/16 only, and only with as much to
  send behind it: what waits there may wait on every path, as in front of the receiver.
* What one connection finds out, others of its host begin with, and a short one that finds shortest paths crowded asks
  what detours are worth (`memory`).
* A path of which a link lost a packet (`transport.evidence`) is left alone for a quarter of `spray_dead_ps`, if paths
  of its kind, shortest or detours, lose more than twice what others do. What both lose alike is lost on the link of a
  host, and leaving is no help. Two shortest paths that lose share something: then all are left alone for
  `spray_dead_ps`.
* A path that does not answer is not taken (`health`), and its tokens are void.

What a token becomes is the only difference to rivals of which the rules are here as well:

* oblivious spraying: no tokens, a random candidate a packet;
* REPS: an unmarked answer gives a token, all else is drawn at random; after a timeout tokens are used without being
  used up;
* spraying over a set of paths as in MRC (arXiv 2605.04333): the tokens are the set, used in turn; a mark swaps its path
  for another candidate, a loss does and has the path left alone;
* Spritz (arXiv 2602.19567), in a module of its own (`spritz`).
"""

from __future__ import annotations

from detour.base.jit import inner
from detour.hosts.draws import random_below
from detour.hosts.paths import delays, memory, spritz
from detour.hosts.paths.health import first_alive, is_alive
from detour.hosts.paths.tokens import TOKENS, draw, pop, push
from detour.hosts.records import Config, QueuePair, ReceivedFrame
from detour.hosts.rows import candidate_row, cfg_row, host_row
from detour.hosts.state import MODE_OBLIVIOUS, MODE_REPS, MODE_SCOUT, MODE_SPRAY, MODE_SWAP, NIL, Handle

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


@inner
def is_spraying(q: QueuePair) -> bool:
    """Whether every packet of the QP has a path of its own."""
    return q.mode >= MODE_SPRAY


# -- candidates ---------------------------------------------------------------------------------------------


@inner
def _detour(hs: Handle, i: int, q: QueuePair, now: int) -> int:
    """The better of two random detours; there are some."""
    count = q.n_cand - q.n_short
    a, b = draw(hs, i, q, q.n_short, count, now), draw(hs, i, q, q.n_short, count, now)
    if is_alive(hs, i, b, now) and candidate_row(hs, i, b).delay < candidate_row(hs, i, a).delay:
        return b
    return a


@inner
def _has_both(q: QueuePair) -> bool:
    return 0 < q.n_short < q.n_cand


@inner
def _short_wait(cfg: Config, q: QueuePair, now: int) -> int:
    """What a packet would wait on a shortest path, ticks: what the last one waited, less what can have been sent
    since; 0 if nothing is known."""
    return max(0, q.short_wait - (now - q.short_time) // cfg.tick_ps) if q.short_wait >= 0 else 0


@inner
def _margin(cfg: Config) -> int:
    """By how many ticks less a packet must wait elsewhere for that to count."""
    return delays.mtu_times(cfg, cfg.spray_margin_mtus) // cfg.tick_ps


@inner
def _limit(cfg: Config, q: QueuePair) -> int:
    """The wait on a shortest path, ticks, that is worth as much as a detour."""
    return 2 * max(q.detour_wait, 0) + _margin(cfg)


# -- rules --------------------------------------------------------------------------------------------------


@inner
def choose(hs: Handle, i: int, q: QueuePair, now: int) -> int:
    """Candidate for the packet that goes out now; one that may take data, if there is one."""
    return first_alive(hs, i, q, _by_rule(hs, i, q, now), now)


@inner
def _by_rule(hs: Handle, i: int, q: QueuePair, now: int) -> int:
    """What the QP's mode makes of what it knows."""
    if q.mode == MODE_OBLIVIOUS:
        return draw(hs, i, q, 0, q.n_cand, now)
    if q.mode == MODE_SWAP:
        return _next_of_set(hs, i, q, now)
    if q.mode >= MODE_SCOUT:
        return spritz.choose(hs, i, q, now)
    if q.mode == MODE_REPS and q.n_tokens and now < q.short_time:  # frozen
        _push_again(q)
    while q.n_tokens:
        cand = pop(q)
        if q.mode == MODE_SPRAY and cand >= q.n_short and _ends_short(hs, q, now):
            short = draw(hs, i, q, 0, q.n_short, now)
            cand = short if is_alive(hs, i, short, now) else cand
        if is_alive(hs, i, cand, now):
            return cand
    if q.mode == MODE_SPRAY:
        memory.recall(hs, q, now)
    if q.mode == MODE_REPS or not _has_both(q):
        return draw(hs, i, q, 0, q.n_cand, now)
    if _begins_short(hs, q, now):
        cand = draw(hs, i, q, 0, q.n_short, now)
        if is_alive(hs, i, cand, now):
            memory.on_sent_short(hs, q, now)
            return cand
    return _detour(hs, i, q, now)


@inner
def _begins_short(hs: Handle, q: QueuePair, now: int) -> bool:
    """Whether a packet without a token takes a shortest path."""
    cfg, h = cfg_row(hs), host_row(hs, q.host)
    if memory.is_crowded_by_us(hs, q, now):
        return False
    if q.detour_wait == NIL:
        return not _may_explore(cfg, q) or q.short_wait != NIL or random_below(h, _BEGIN_SHORT) == 0
    return q.short_wait != NIL and _short_wait(cfg, q, now) <= _limit(cfg, q)


@inner
def _ends_short(hs: Handle, q: QueuePair, now: int) -> bool:
    """Whether a message ends with the packets that are sent now, and shortest paths are clear."""
    cfg = cfg_row(hs)
    if not _has_both(q) or q.short_wait == NIL or q.snd_end - q.snd_nxt > cfg.spray_margin_mtus:
        return False
    return _is_clear(cfg, q, now) and not memory.is_crowded_by_us(hs, q, now)


@inner
def _is_clear(cfg: Config, q: QueuePair, now: int) -> bool:
    """Whether shortest paths are clearly better than detours, as far as is known."""
    return 2 * _short_wait(cfg, q, now) < _limit(cfg, q)


@inner
def _may_explore(cfg: Config, q: QueuePair) -> bool:
    """Whether there is so much to send that a detour of which nothing is known cannot be what it ends with."""
    return q.snd_end - q.snd_nxt >= cfg.spray_ahead_mtus


@inner
def _push_again(q: QueuePair) -> None:
    """The oldest token goes to the end as well, so that the one that is taken is not used up."""
    cand = q.tokens & 0xFF
    if q.n_tokens == TOKENS:
        pop(q)
        push(q, cand)
        q.tokens = (q.tokens << 8 | cand) & ((1 << 8 * TOKENS) - 1)
    else:
        push(q, cand)


@inner
def on_answer(hs: Handle, i: int, q: QueuePair, cand: int, f: ReceivedFrame, now: int) -> None:
    """The answer in `f` is the first one about a packet that went by candidate `cand`."""
    if q.mode == MODE_OBLIVIOUS:
        return
    if q.mode == MODE_REPS:
        if not f.ce:
            push(q, cand)
        return
    if q.mode == MODE_SWAP:
        if f.ce:
            _swap(hs, i, q, cand, now)
        return
    if q.mode >= MODE_SCOUT:
        spritz.on_answer(hs, q, cand, f.ce)
        return
    push(q, _exchanged(hs, i, q, cand, f, now))


@inner
def _exchanged(hs: Handle, i: int, q: QueuePair, cand: int, f: ReceivedFrame, now: int) -> int:
    """What the token of a path becomes of which there is news."""
    cfg, wait = cfg_row(hs), f.delay if f.has_delay else 0
    if not _has_both(q):
        return draw(hs, i, q, 0, q.n_cand, now) if f.ce else cand
    _note_share(q, cand)
    if cand < q.n_short:
        _note_short(cfg, q, wait, now)
        memory.on_shortest(hs, q, wait, now)
        if wait <= _limit(cfg, q):
            memory.on_short_way(hs, q)
            return cand
        if q.detour_wait == NIL:
            memory.ask(hs, i, q, wait, now)
        return _detour(hs, i, q, now) if _leaves(hs, q) else cand
    q.detour_wait = wait if q.detour_wait == NIL else q.detour_wait + (wait - q.detour_wait) // _SMOOTHING
    memory.on_detour(hs, q, q.detour_wait, now)
    if f.ce or _moves_on(hs, q, wait):
        return _detour(hs, i, q, now)
    if _is_clear(cfg, q, now) and _comes_back(hs, q):
        return draw(hs, i, q, 0, q.n_short, now)
    return cand


@inner
def _note_share(q: QueuePair, cand: int) -> None:
    """One answer more, about candidate `cand`."""
    q.short_share += ((_ALL if cand < q.n_short else 0) - q.short_share) // _SMOOTHING
    if cand < q.n_short:
        q.short_loss -= q.short_loss // _LOSS_SMOOTHING
    else:
        q.detour_loss -= q.detour_loss // _LOSS_SMOOTHING


@inner
def _note_link_loss(hs: Handle, i: int, q: QueuePair, cand: int, now: int) -> None:
    """A link of candidate `cand` lost a packet: it is barred if paths of its kind lose clearly more than others do, and
    all shortest ones if another one is barred already; else none is any more."""
    one, bar_ps = 1 << _LOSS_BITS, cfg_row(hs).spray_dead_ps
    if cand < q.n_short:
        q.short_loss += (one - q.short_loss) // _LOSS_SMOOTHING
        own, other = q.short_loss, q.detour_loss
    else:
        q.detour_loss += (one - q.detour_loss) // _LOSS_SMOOTHING
        own, other = q.detour_loss, q.short_loss
    if own > 2 * other:
        candidate_row(hs, i, cand).answered = now + bar_ps // 4
        if cand < q.n_short and _barred(hs, i, q.n_short, now) > 1:
            for place in range(q.n_short):
                candidate_row(hs, i, place).answered = now + bar_ps
    elif other <= 2 * own:
        for place in range(q.n_cand):
            c = candidate_row(hs, i, place)
            c.answered = min(c.answered, now)


@inner
def _barred(hs: Handle, i: int, count: int, now: int) -> int:
    """How many of the first candidates are barred."""
    barred = 0
    for place in range(count):
        barred += int(candidate_row(hs, i, place).answered > now)
    return barred


@inner
def _note_short(cfg: Config, q: QueuePair, wait: int, now: int) -> None:
    """A packet waited for so many ticks on a shortest path. The mean begins where it says that they are crowded."""
    if q.short_wait == NIL:
        q.short_mean = max(wait, _limit(cfg, q))
    else:
        q.short_mean += (wait - q.short_mean) // _SMOOTHING
    q.short_wait = wait
    q.short_time = now


@inner
def _moves_on(hs: Handle, q: QueuePair, wait: int) -> bool:
    """Whether a token leaves a detour on which a packet waited for so many ticks, as others wait for clearly less."""
    if wait <= q.detour_wait + _margin(cfg_row(hs)):
        return False
    return random_below(host_row(hs, q.host), _MOVE_ON) == 0


@inner
def _comes_back(hs: Handle, q: QueuePair) -> bool:
    """Whether a token comes back from a detour, as shortest paths are clear now."""
    chance = _ALL // _COME_BACK
    if _CALM * q.short_mean < _limit(cfg_row(hs), q):
        chance += (q.short_share * q.short_share // _ALL) // 2
    return random_below(host_row(hs, q.host), _ALL) < chance


@inner
def on_probe(hs: Handle, q: QueuePair, cand: int, wait: int, now: int) -> None:
    """A PTR says what a packet waited on candidate `cand`: for connections to come, not for this one, which would
    end with detours if it is short, and finds out by itself if it is long."""
    if q.mode == MODE_SPRAY and cand >= q.n_short and q.n_short > 0:
        memory.on_detour(hs, q, wait, now)


@inner
def _next_of_set(hs: Handle, i: int, q: QueuePair, now: int) -> int:
    """The set's paths take turns; it is drawn when it is first used."""
    while q.n_tokens < min(TOKENS, q.n_cand):
        push(q, draw(hs, i, q, 0, q.n_cand, now))
    cand = pop(q)
    if not is_alive(hs, i, cand, now):
        cand = draw(hs, i, q, 0, q.n_cand, now)
    push(q, cand)
    return cand


@inner
def _swap(hs: Handle, i: int, q: QueuePair, cand: int, now: int) -> None:
    """Another candidate takes the place of `cand` in the set."""
    for _ in range(q.n_tokens):
        one = pop(q)
        push(q, draw(hs, i, q, 0, q.n_cand, now) if one == cand else one)


@inner
def on_loss(hs: Handle, i: int, q: QueuePair, cand: int, congested: bool, now: int) -> None:
    """A packet was overtaken on its path by a later one. `congested`: a queue was full."""
    if q.mode == MODE_SPRAY:
        if _has_both(q) and not congested:
            _note_link_loss(hs, i, q, cand, now)
    elif q.mode == MODE_SWAP:
        candidate_row(hs, i, cand).answered = now + cfg_row(hs).spray_dead_ps
        _swap(hs, i, q, cand, now)
    elif q.mode >= MODE_SCOUT:
        spritz.on_bad(q, cand)


@inner
def _leaves(hs: Handle, q: QueuePair) -> bool:
    """Whether a token leaves the shortest paths, which are crowded."""
    h = host_row(hs, q.host)
    if q.detour_wait == NIL:
        return _may_explore(cfg_row(hs), q) and random_below(h, _EXPLORE) == 0
    return random_below(h, _LEAVE) == 0


@inner
def on_timeout(hs: Handle, i: int, q: QueuePair, now: int) -> None:
    """Nothing comes back at all: REPS freezes what it has (arXiv 2407.21625, section 3.3)."""
    if q.mode == MODE_REPS:
        q.short_time = now + cfg_row(hs).spray_dead_ps
