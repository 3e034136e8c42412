# SPDX-License-Identifier: Apache-2.0
"""DCQCN (Zhu et al., SIGCOMM 2015, 3.3) and the variant in HPCC's ns-3 (`rdma-hw.cc`); rates in bit/s
(docs/facts.md, "DCQCN").

State: rate, target, alpha. A notification (a CNP, or without CNPs the CE bit of an ACK) cuts: target <- rate (unless
`dcqcn_clamp_target` is off and there was no increase by time since the last cut), rate <- rate (1 - alpha / 2), floor
`dcqcn_min_bps`. Increases come `dcqcn_increase_ps` after a cut or an increase, and every `dcqcn_bytes` sent; T and B
count them since the last cut. If both are below F: fast recovery, rate <- (rate + target) / 2. If both are above F:
first target += `dcqcn_hai_bps`; else first target += `dcqcn_ai_bps`; never above the link's rate.

* `dcqcn_decrease_ps` = 0 (the paper): a notification cuts at once, alpha <- (1 - g) alpha + g; alpha_ps later and
  from then on every alpha_ps without one, alpha <- (1 - g) alpha.
* above 0 (HPCC's ns-3): from the first notification on, rate is cut every `dcqcn_decrease_ps`, if there was a
  notification since the last cut; alpha is updated every `dcqcn_alpha_ps`, with + g if there was one since the last
  update. At the same moment increases come first, then alpha, then the cut.

A flow begins at line rate with alpha = 1. On a new path it begins at a fraction of it and recovers as after a cut.

There are no timer events. The rate matters only when a packet goes out, and what timers do in between depends on
nothing but time, so it is made up for then (`catch_up`), or when a notification comes. Idle QPs cost nothing.
"""

from __future__ import annotations

from detour.base.jit import float64, inner, int64
from detour.base.times import MAX_TIME
from detour.hosts.records import Config, QueuePair


@inner
def on_path(cfg: Config, q: QueuePair, now: int) -> None:
    """Starts afresh, on a path after the first one as after a cut."""
    line = float64(cfg.link_rate_bps)
    first = q.epoch == 0
    q.dcqcn_rate = line if first else _at_least_floor(cfg, line * cfg.dcqcn_reroute_share)
    q.dcqcn_target = line
    q.dcqcn_alpha = 1.0
    q.dcqcn_alpha_at = MAX_TIME
    q.dcqcn_cut_at = MAX_TIME
    q.dcqcn_rise_at = MAX_TIME if first else now + cfg.dcqcn_increase_ps
    q.dcqcn_seen_alpha = 0
    q.dcqcn_seen_cut = 0
    _restart_counts(q)


@inner
def on_sent(cfg: Config, q: QueuePair, length: int, now: int) -> None:
    """A frame of `length` bytes goes out: says when the next one may."""
    catch_up(cfg, q, now)
    if cfg.dcqcn_bytes:
        q.dcqcn_sent += length
        while q.dcqcn_sent >= cfg.dcqcn_bytes:
            q.dcqcn_sent -= cfg.dcqcn_bytes
            _increase(cfg, q)
            q.dcqcn_by_bytes += 1
    q.pace_next = now + int64(length * 8e12 / q.dcqcn_rate)


@inner
def on_notification(cfg: Config, q: QueuePair, now: int) -> None:
    """A CNP, or an ACK that stands for one, came in."""
    catch_up(cfg, q, now)
    if cfg.dcqcn_decrease_ps == 0:
        _cut(cfg, q, now)
        q.dcqcn_alpha = (1.0 - cfg.dcqcn_g) * q.dcqcn_alpha + cfg.dcqcn_g
        q.dcqcn_alpha_at = now + cfg.dcqcn_alpha_ps
        return
    q.dcqcn_seen_cut = 1
    q.dcqcn_seen_alpha = 1
    if q.dcqcn_alpha_at == MAX_TIME:  # the first one
        q.dcqcn_seen_alpha = 0
        q.dcqcn_alpha_at = now + cfg.dcqcn_alpha_ps
        q.dcqcn_cut_at = now + cfg.dcqcn_decrease_ps


@inner
def catch_up(cfg: Config, q: QueuePair, now: int) -> None:
    """Does what the timers would have done until `now`. At most one check finds a notification to act on, for
    nothing came in since the last call."""
    period = cfg.dcqcn_decrease_ps
    check = q.dcqcn_cut_at
    cut = check <= now and q.dcqcn_seen_cut != 0
    when = check if cut else now
    while True:
        _rise_until(cfg, q, when)
        _update_alpha_until(cfg, q, when)
        if cut:
            q.dcqcn_seen_cut = 0
            _cut(cfg, q, when)
            cut = False
        if when == now:
            break
        when = now
    if check <= now:
        q.dcqcn_cut_at = check + ((now - check) // period + 1) * period


@inner
def _update_alpha_until(cfg: Config, q: QueuePair, now: int) -> None:
    if q.dcqcn_alpha_at > now:
        return
    times = (now - q.dcqcn_alpha_at) // cfg.dcqcn_alpha_ps + 1
    q.dcqcn_alpha_at += times * cfg.dcqcn_alpha_ps
    keep = 1.0 - cfg.dcqcn_g
    if q.dcqcn_seen_alpha:  # only the first of these updates can have seen it
        q.dcqcn_alpha = keep * q.dcqcn_alpha + cfg.dcqcn_g
        q.dcqcn_seen_alpha = 0
        times -= 1
    if times < 8:
        for _ in range(times):
            q.dcqcn_alpha *= keep
    else:
        q.dcqcn_alpha *= keep ** float64(times)


@inner
def _rise_until(cfg: Config, q: QueuePair, now: int) -> None:
    line = float64(cfg.link_rate_bps)
    while q.dcqcn_rise_at <= now:
        if q.dcqcn_rate > line * (1.0 - 1e-9):  # there is nowhere to go; an idle QP must not count for hours
            q.dcqcn_rate = line
            times = (now - q.dcqcn_rise_at) // cfg.dcqcn_increase_ps + 1
            q.dcqcn_by_time += times
            q.dcqcn_rise_at += times * cfg.dcqcn_increase_ps
            return
        _increase(cfg, q)
        q.dcqcn_by_time += 1
        q.dcqcn_rise_at += cfg.dcqcn_increase_ps


@inner
def _increase(cfg: Config, q: QueuePair) -> None:
    most = max(q.dcqcn_by_time, q.dcqcn_by_bytes)
    least = min(q.dcqcn_by_time, q.dcqcn_by_bytes) if cfg.dcqcn_bytes else q.dcqcn_by_time
    if most >= cfg.dcqcn_recovery:
        step = cfg.dcqcn_hai_bps if least > cfg.dcqcn_recovery else cfg.dcqcn_ai_bps
        q.dcqcn_target = min(q.dcqcn_target + step, float64(cfg.link_rate_bps))
    q.dcqcn_rate = q.dcqcn_rate / 2 + q.dcqcn_target / 2


@inner
def _cut(cfg: Config, q: QueuePair, now: int) -> None:
    if cfg.dcqcn_clamp_target or q.dcqcn_by_time > 0:
        q.dcqcn_target = q.dcqcn_rate
    q.dcqcn_rate = _at_least_floor(cfg, q.dcqcn_rate * (1.0 - q.dcqcn_alpha / 2))
    q.dcqcn_rise_at = now + cfg.dcqcn_increase_ps
    _restart_counts(q)


@inner
def _at_least_floor(cfg: Config, rate: float) -> float:
    return max(rate, float64(min(cfg.dcqcn_min_bps, cfg.link_rate_bps)))


@inner
def _restart_counts(q: QueuePair) -> None:
    q.dcqcn_by_time = 0
    q.dcqcn_by_bytes = 0
    q.dcqcn_sent = 0
