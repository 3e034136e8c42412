# SPDX-License-Identifier: Apache-2.0
"""CUBIC (RFC 9438), with HyStart++ (RFC 9406) unless `hystart` is 0. The window is in packets, times in seconds; what
is left of it after a loss is whole packets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from detour.base.jit import float64
from detour.base.structs import Float64, Int64, NativeRecord
from detour.hosts.cc.newreno import time_out
from detour.hosts.cc.plugin import CongestionAlgorithm, HostParameters, Packet, hook
from detour.hosts.records import Sender

_SECOND = 1e12  # ps
_SAMPLES = 8  # RTTs of a round before it is judged
_LEAST, _MOST = 4_000_000_000, 16_000_000_000  # of the RTT's growth that ends slow start, ps
_SLOWER, _ROUNDS = 4.0, 5  # conservative slow start: its growth and its length


@dataclass(frozen=True)
class CubicParameters(HostParameters):
    """`c` and `beta` as in RFC 9438. `reno_above`: where Reno's estimate is above the window before the last loss it
    grows by so many packets a round trip (4.3: 1; Linux stays at 0.53)."""

    c: float = 0.4
    beta: float = 0.7
    reno_above: float = 1.0
    fast_convergence: int = 1
    hystart: int = 1


class CubicState(NativeRecord):
    """CUBIC's state of a sender."""

    w_max: Float64
    k: Float64
    w_est: Float64
    prior: Float64
    epoch: Int64
    round_end: Int64
    round_rtt: Int64
    last_rtt: Int64
    samples: Int64
    css: Int64
    css_rtt: Int64
    recover: Int64
    timeouts: Int64


@hook
def _reduce(p: CubicParameters, s: CubicState, q: Sender, now: int) -> None:
    """Sections 4.6 and 4.7."""
    s.prior = q.cwnd
    if q.cwnd < s.w_max and p.fast_convergence > 0:
        s.w_max = q.cwnd * (1.0 + p.beta) / 2.0
    else:
        s.w_max = q.cwnd
    flight = min(np.floor(q.cwnd), float64(q.inflight))
    q.ssthresh = max(np.floor(flight * p.beta), 2.0)
    q.cwnd = q.ssthresh
    s.recover = q.next_txn
    s.epoch = 0
    s.css = 0


@hook
def _avoid(p: CubicParameters, s: CubicState, q: Sender, now: int) -> None:
    """Congestion avoidance: the steeper of the cubic and of what Reno would do (sections 4.2 to 4.5)."""
    if s.epoch == 0:
        s.epoch = now
        s.w_est = q.cwnd
        if q.cwnd < s.w_max:
            s.k = np.cbrt((s.w_max - q.cwnd) / p.c)
        else:
            s.k = 0.0
            s.w_max = q.cwnd
    t = (now - s.epoch) / _SECOND
    alpha = p.reno_above if s.w_est >= s.prior else 3.0 * (1.0 - p.beta) / (1.0 + p.beta)
    s.w_est += alpha / q.cwnd
    offset = t - s.k
    if p.c * offset * offset * offset + s.w_max < s.w_est:
        q.cwnd = max(q.cwnd, s.w_est)
        return
    offset += q.srtt / _SECOND
    target = p.c * offset * offset * offset + s.w_max
    target = min(max(target, q.cwnd), 1.5 * q.cwnd)
    q.cwnd += (target - q.cwnd) / q.cwnd


@hook
def _hystart(p: CubicParameters, s: CubicState, q: Sender, packet: Packet) -> None:
    """RFC 9406, 4.2: slow start becomes slower when round trips grow, and ends if they stay so."""
    if packet.txn >= s.round_end:
        s.round_end = q.next_txn
        s.last_rtt = s.round_rtt
        s.round_rtt = 0
        s.samples = 0
        if s.css > 0:
            s.css += 1
            if s.css > _ROUNDS:
                q.ssthresh = q.cwnd
                return
    if packet.rtt < 0:
        return
    s.round_rtt = packet.rtt if s.round_rtt == 0 else min(s.round_rtt, packet.rtt)
    s.samples += 1
    if s.samples < _SAMPLES or s.last_rtt == 0:
        return
    if s.css == 0:
        if s.round_rtt >= s.last_rtt + max(_LEAST, min(s.last_rtt // 8, _MOST)):
            s.css_rtt = s.round_rtt
            s.css = 1
    elif s.round_rtt < s.css_rtt:
        s.css = 0


@hook
def on_acked(p: CubicParameters, s: CubicState, q: Sender, packet: Packet, now: int) -> None:
    s.timeouts = 0
    if packet.txn < s.recover:
        return
    if packet.marked > 0:
        _reduce(p, s, q, now)
        return
    if 2 * q.inflight < q.cwnd:
        return
    if q.cwnd >= q.ssthresh:
        _avoid(p, s, q, now)
    else:
        if p.hystart > 0:
            _hystart(p, s, q, packet)
        q.cwnd += 1.0 / _SLOWER if s.css > 0 else 1.0
    q.cwnd = min(q.cwnd, float64(p.max_cwnd))


@hook
def on_lost(p: CubicParameters, s: CubicState, q: Sender, packet: Packet, now: int) -> None:
    if packet.txn >= s.recover:
        _reduce(p, s, q, now)


@hook
def on_rto(p: CubicParameters, s: CubicState, q: Sender, packet: Packet, now: int) -> None:
    """Section 4.8: what was the maximum counts no more."""
    time_out(s, q, q.inflight * p.beta)
    s.epoch = 0
    s.w_max = 0.0
    s.prior = 0.0
    s.css = 0


@hook
def on_idle(p: CubicParameters, s: CubicState, q: Sender, packet: Packet, now: int) -> None:
    q.cwnd = min(q.cwnd, q.cwnd_initial)
    s.epoch = 0


CUBIC = CongestionAlgorithm(CubicParameters(), CubicState, (on_acked, on_lost, on_rto, on_idle), name="cubic")
