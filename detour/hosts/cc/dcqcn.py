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
nothing but time, so it is made up for then (`_catch_up`), or when a notification comes. Idle QPs cost nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from detour.base.jit import float64, int64
from detour.base.structs import Float64, Int64, NativeRecord
from detour.base.times import MAX_TIME, US
from detour.hosts.cc.plugin import CongestionAlgorithm, HostParameters, Packet, hook
from detour.hosts.config import check_numbers
from detour.hosts.records import Sender

MBPS = 1_000_000


@dataclass(frozen=True)
class DcqcnParameters(HostParameters):
    """Parameters; the defaults are `DCQCN_VENDOR`. Beside them counts `HostConfig.cnp_interval_ps`."""

    dcqcn_alpha_ps: int = 1 * US
    """time between updates of alpha"""
    dcqcn_decrease_ps: int = 4 * US
    """time between checks whether a notification came, which cut the rate; 0: the notification itself cuts it"""
    dcqcn_increase_ps: int = 300 * US
    """time from a cut, or an increase, to the next increase"""
    dcqcn_bytes: int = 0
    """bytes from a cut, or an increase, to the next increase; 0: only time counts"""
    dcqcn_g: float = 1 / 256
    """gain of alpha"""
    dcqcn_recovery: int = 1
    """F: increases that are fast recovery"""
    dcqcn_ai_bps: int = 20 * MBPS
    """step of the additive increase"""
    dcqcn_hai_bps: int = 200 * MBPS
    """step of the hyper increase"""
    dcqcn_min_bps: int = 1000 * MBPS
    """floor of the rate, if the link has as much"""
    dcqcn_clamp_target: bool = False
    """every cut lowers the target to the rate, not only the first one after an increase by time"""
    dcqcn_reroute_share: float = 0.1
    """fraction of the link's rate at which a new path begins; the target is all of it (section III: "slow-start")"""

    def __post_init__(self) -> None:
        check_numbers(self, ("dcqcn_decrease_ps", "dcqcn_bytes"), ("dcqcn_g", "dcqcn_reroute_share"))


class DcqcnState(NativeRecord):
    """DCQCN's state of a queue pair."""

    rate: Float64
    target: Float64
    alpha: Float64
    alpha_at: Int64  # times of the next update of alpha, check for a cut, increase; ps
    cut_at: Int64
    rise_at: Int64
    seen_alpha: Int64  # whether a notification came since the last update, and the last check
    seen_cut: Int64
    by_time: Int64  # increases since the last cut: T and B
    by_bytes: Int64
    sent: Int64  # bytes since the last cut or increase by bytes


@hook
def on_path(p: DcqcnParameters, s: DcqcnState, q: Sender, packet: Packet, now: int) -> None:
    """Start afresh, on a path after the first one as after a cut. The window stays as it is."""
    q.cwnd = max(float64(p.min_cwnd), q.cwnd_initial)
    line = float64(p.link_rate_bps)
    first = q.epoch == 0
    s.rate = line if first else _at_least_floor(p, line * p.dcqcn_reroute_share)
    s.target = line
    s.alpha = 1.0
    s.alpha_at = MAX_TIME
    s.cut_at = MAX_TIME
    s.rise_at = MAX_TIME if first else now + p.dcqcn_increase_ps
    s.seen_alpha = 0
    s.seen_cut = 0
    _restart_counts(s)


@hook
def on_sent(p: DcqcnParameters, s: DcqcnState, q: Sender, packet: Packet, now: int) -> None:
    """A frame of `length` bytes goes out: says when the next one may."""
    _catch_up(p, s, now)
    if p.dcqcn_bytes:
        s.sent += packet.bytes
        while s.sent >= p.dcqcn_bytes:
            s.sent -= p.dcqcn_bytes
            _increase(p, s)
            s.by_bytes += 1
    q.pace_next = now + int64(packet.bytes * 8e12 / s.rate)


@hook
def on_ecn(p: DcqcnParameters, s: DcqcnState, q: Sender, packet: Packet, now: int) -> None:
    """An ACK says that a packet was marked, and stands for a CNP if there are none."""
    if p.cnp_interval_ps == 0:
        _notify(p, s, now)


@hook
def on_cnp(p: DcqcnParameters, s: DcqcnState, q: Sender, packet: Packet, now: int) -> None:
    _notify(p, s, now)


@hook
def _notify(p: DcqcnParameters, s: DcqcnState, now: int) -> None:
    """A CNP, or an ACK that stands for one, came in."""
    _catch_up(p, s, now)
    if p.dcqcn_decrease_ps == 0:
        _cut(p, s, now)
        s.alpha = (1.0 - p.dcqcn_g) * s.alpha + p.dcqcn_g
        s.alpha_at = now + p.dcqcn_alpha_ps
        return
    s.seen_cut = 1
    s.seen_alpha = 1
    if s.alpha_at == MAX_TIME:  # the first one
        s.seen_alpha = 0
        s.alpha_at = now + p.dcqcn_alpha_ps
        s.cut_at = now + p.dcqcn_decrease_ps


@hook
def _catch_up(p: DcqcnParameters, s: DcqcnState, now: int) -> None:
    """Do what the timers would have done until `now`. At most one check finds a notification to act on, for
    nothing came in since the last call."""
    period = p.dcqcn_decrease_ps
    check = s.cut_at
    cut = check <= now and s.seen_cut != 0
    when = check if cut else now
    while True:
        _rise_until(p, s, when)
        _update_alpha_until(p, s, when)
        if cut:
            s.seen_cut = 0
            _cut(p, s, when)
            cut = False
        if when == now:
            break
        when = now
    if check <= now:
        s.cut_at = check + ((now - check) // period + 1) * period


@hook
def _update_alpha_until(p: DcqcnParameters, s: DcqcnState, now: int) -> None:
    if s.alpha_at > now:
        return
    times = (now - s.alpha_at) // p.dcqcn_alpha_ps + 1
    s.alpha_at += times * p.dcqcn_alpha_ps
    keep = 1.0 - p.dcqcn_g
    if s.seen_alpha:  # only the first of these updates can have seen it
        s.alpha = keep * s.alpha + p.dcqcn_g
        s.seen_alpha = 0
        times -= 1
    if times < 8:
        for _ in range(times):
            s.alpha *= keep
    else:
        s.alpha *= keep ** float64(times)


@hook
def _rise_until(p: DcqcnParameters, s: DcqcnState, now: int) -> None:
    line = float64(p.link_rate_bps)
    while s.rise_at <= now:
        if s.rate > line * (1.0 - 1e-9):  # there is nowhere to go; an idle QP must not count for hours
            s.rate = line
            times = (now - s.rise_at) // p.dcqcn_increase_ps + 1
            s.by_time += times
            s.rise_at += times * p.dcqcn_increase_ps
            return
        _increase(p, s)
        s.by_time += 1
        s.rise_at += p.dcqcn_increase_ps


@hook
def _increase(p: DcqcnParameters, s: DcqcnState) -> None:
    most = max(s.by_time, s.by_bytes)
    least = min(s.by_time, s.by_bytes) if p.dcqcn_bytes else s.by_time
    if most >= p.dcqcn_recovery:
        step = p.dcqcn_hai_bps if least > p.dcqcn_recovery else p.dcqcn_ai_bps
        s.target = min(s.target + step, float64(p.link_rate_bps))
    s.rate = s.rate / 2 + s.target / 2


@hook
def _cut(p: DcqcnParameters, s: DcqcnState, now: int) -> None:
    if p.dcqcn_clamp_target or s.by_time > 0:
        s.target = s.rate
    s.rate = _at_least_floor(p, s.rate * (1.0 - s.alpha / 2))
    s.rise_at = now + p.dcqcn_increase_ps
    _restart_counts(s)


@hook
def _at_least_floor(p: DcqcnParameters, rate: float) -> float:
    return max(rate, float64(min(p.dcqcn_min_bps, p.link_rate_bps)))


@hook
def _restart_counts(s: DcqcnState) -> None:
    s.by_time = 0
    s.by_bytes = 0
    s.sent = 0


DCQCN = CongestionAlgorithm(
    DcqcnParameters(),
    DcqcnState,
    (on_path, on_sent, on_ecn, on_cnp),
    name="dcqcn",
    times=("alpha_at", "cut_at", "rise_at"),
    rate_based=True,
    told=False,
)

DCQCN_VENDOR: dict[str, Any] = {
    "cnp_interval_ps": 0, "dcqcn_alpha_ps": 1 * US, "dcqcn_decrease_ps": 4 * US, "dcqcn_increase_ps": 300 * US,
    "dcqcn_bytes": 0, "dcqcn_g": 1 / 256, "dcqcn_recovery": 1, "dcqcn_ai_bps": 20 * MBPS, "dcqcn_hai_bps": 200 * MBPS,
    "dcqcn_min_bps": 1000 * MBPS, "dcqcn_clamp_target": False,
}  # fmt: skip
"""DCQCN as HPCC's ns-3 has it for 100 Gb/s (`rdma-hw.cc`, `run.py --cc dcqcn`; no byte counter there); the defaults"""
DCQCN_PAPER: dict[str, Any] = DCQCN_VENDOR | {
    "cnp_interval_ps": 50 * US, "dcqcn_alpha_ps": 55 * US, "dcqcn_decrease_ps": 0, "dcqcn_increase_ps": 55 * US,
    "dcqcn_bytes": 10_000_000, "dcqcn_recovery": 5, "dcqcn_clamp_target": True,
}  # fmt: skip
"""DCQCN of SIGCOMM 2015, sections 3.1 to 3.3 and 5: alpha's timer must be longer than the interval of CNPs"""
