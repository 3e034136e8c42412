# SPDX-License-Identifier: Apache-2.0
"""NSCC, the sender's congestion control of Ultra Ethernet (Ultra Ethernet Specification 1.0, section 3.6.13), with the
constants of the Consortium's own simulator, uet-htsim; a window in packets. Plugged in (`cc.plugin`), called `nscc`.

Made for packets that take many paths. Of every answer two things count, whether it is marked and how long its packet
waited:

| | waited less than the target | longer |
|---|---|---|
| not marked | grow, the more the less it waited; with next to no wait for a whole window, fast | grow a little |
| marked | nothing: another path will do | shrink, by how much the mean wait is above the target |

* Growth is collected and given to the window every 8 packets or reference round trip (`period_us`), when it also grows
  by `eta` packets for fairness. Shrinking happens once a round trip, by half at most.
* Quick adapt: if a whole round trip and target brought less than an eighth of the largest window, and there were losses
  or waits beyond four targets, the window becomes what did arrive; the rest of what was under way is not held against
  it.
* The window is at most 1.5 bandwidth-delay products, which is also where it begins.

The wait of a packet is not its round trip less the shortest one, as in the specification, but what the switches of this
fabric add up: paths here are of different lengths, and the shortest round trip would call detours congested. Packets
are not trimmed here; a loss is what a trimmed packet is there. The specification's text was not at hand: this is after
uet-htsim, whose authors say where it follows the specification.
"""

from __future__ import annotations

from dataclasses import dataclass

from detour.base.structs import Float64, Int64, NativeRecord
from detour.hosts.cc.plugin import CongestionAlgorithm, HostParameters, Packet, hook
from detour.hosts.records import Sender


@dataclass(frozen=True)
class NsccParameters(HostParameters):
    """Parameters for the reference network, 100 Gb/s and 12 us, where both of the simulator's scaling factors are 1."""

    period_us: float = 12.0
    """the network's round trip, without queues"""
    target_us: float = 12.0
    """wait that it aims at: a round trip, as where packets are not trimmed"""
    fair: float = 5.0
    """packets that the window grows by a window of answers that are not marked and waited for longer"""
    proportional: float = 4.0
    """packets that it grows by a window of answers that have not waited at all"""
    fast: float = 0.25
    """packets that it grows by each answer after a whole window of waits below `fast_us`"""
    fast_us: float = 1.0
    eta: float = 0.15
    """packets that it grows by a period"""
    gamma: float = 0.8
    """part of the wait above the target that shrinks it"""
    smoothing: float = 0.0125
    """gain of the mean wait"""
    adjust_packets: int = 8
    """answers after which growth is given to the window"""
    quick_waits: float = 4.0
    """times the target: waits after which quick adapt is due"""
    quick_gate: int = 8
    """and a round trip brought less than the largest window divided by that"""
    most: float = 1.5
    """bandwidth-delay products that the window has at most"""


class NsccState(NativeRecord):
    """NSCC's state of a queue pair."""

    mean: Float64  # wait, ps
    grown: Float64  # growth that the window has not got yet, times the window
    answers: Int64  # since then
    fast_count: Float64  # packets in a row that met next to no queue
    is_fast: Int64
    adjusted: Int64  # when the window got its growth, ps
    shrunk: Int64  # when it was made smaller
    arrived: Float64  # packets since the last look of quick adapt
    look_at: Int64  # when the next one is, ps; 0: none yet
    lost: Int64  # 1: something was lost since
    ignored: Float64  # packets under way before quick adapt that were answered since, and how many there are
    ignore: Float64


_US = 1e6
"""ps"""


@hook
def _largest(p: NsccParameters) -> float:
    """Packets of the largest window."""
    return p.most * p.period_us * 1e-6 * p.link_rate_bps / 8 / p.payload


@hook
def _bounded(p: NsccParameters, q: Sender) -> None:
    q.cwnd = min(max(q.cwnd, float(p.min_cwnd)), _largest(p))


@hook
def on_path(p: NsccParameters, s: NsccState, q: Sender, packet: Packet, now: int) -> None:
    """A connection begins with the largest window."""
    q.cwnd = _largest(p)
    s.mean = 0.0
    s.grown = 0.0
    s.fast_count = 0.0
    s.is_fast = 0
    s.look_at = 0
    s.arrived = 0.0
    s.ignore = 0.0
    s.ignored = 0.0


@hook
def _quick_adapt(p: NsccParameters, s: NsccState, q: Sender, wait: float, held_against: int, now: int) -> bool:
    """Return whether the window was set to what arrived, or the packet is one that does not count."""
    done = False
    if s.ignored < s.ignore and held_against:
        done = True
    elif now > s.look_at:
        due = s.lost or wait > p.quick_waits * p.target_us * _US
        if s.look_at and due and s.arrived < _largest(p) / p.quick_gate:
            q.cwnd = max(s.arrived, float(p.min_cwnd))
            s.ignore = float(q.inflight)
            s.ignored = 0.0
            s.lost = 0
            done = True
        s.arrived = 0.0
        s.look_at = now + int((p.period_us + p.target_us) * _US)
    if done:
        s.grown = 0.0
        s.answers = 0
    return done


@hook
def on_acked(p: NsccParameters, s: NsccState, q: Sender, packet: Packet, now: int) -> None:
    """The table above. An answer of which the wait is not known counts with the mean."""
    s.arrived += 1
    s.ignored += 1
    s.answers += 1
    wait, target = s.mean, p.target_us * _US
    if packet.delay >= 0:
        wait = float(packet.delay)
        s.mean += p.smoothing * (wait - s.mean)
    if _quick_adapt(p, s, q, wait, packet.marked, now):
        return
    if packet.marked:
        if wait >= target:
            _shrink(p, s, q, target, now)
    elif wait >= target:
        s.grown += p.fair
    else:
        _grow(p, s, q, wait, target)
    _bounded(p, q)
    if s.answers > p.adjust_packets or now - s.adjusted > p.period_us * _US:
        _adjust(p, s, q, now)
        _bounded(p, q)


@hook
def _grow(p: NsccParameters, s: NsccState, q: Sender, wait: float, target: float) -> None:
    if wait < p.fast_us * _US:
        s.fast_count += 1
        if s.fast_count > q.cwnd or s.is_fast:
            q.cwnd += p.fast
            s.is_fast = 1
            return
    else:
        s.fast_count = 0.0
    s.is_fast = 0
    s.grown += p.proportional * (target - wait) / (p.period_us * _US)


@hook
def _shrink(p: NsccParameters, s: NsccState, q: Sender, target: float, now: int) -> None:
    s.is_fast = 0
    s.fast_count = 0.0
    if s.mean > target and now - s.shrunk > p.period_us * _US:
        q.cwnd *= max(1.0 - p.gamma * (s.mean - target) / s.mean, 0.5)
        s.shrunk = now


@hook
def _adjust(p: NsccParameters, s: NsccState, q: Sender, now: int) -> None:
    q.cwnd += s.grown / q.cwnd
    if now - s.adjusted >= p.period_us * _US:
        q.cwnd += p.eta
        s.adjusted = now
    s.grown = 0.0
    s.answers = 0


@hook
def on_lost(p: NsccParameters, s: NsccState, q: Sender, packet: Packet, now: int) -> None:
    """A packet less, or what quick adapt says."""
    s.lost = 1
    s.ignored += 1
    if not _quick_adapt(p, s, q, 0.0, 1, now):
        q.cwnd -= 1
        _bounded(p, q)


@hook
def on_rto(p: NsccParameters, s: NsccState, q: Sender, packet: Packet, now: int) -> None:
    """All that was under way is lost."""
    q.cwnd -= float(packet.lost)
    _bounded(p, q)


NSCC = CongestionAlgorithm(NsccParameters(), NsccState, (on_path, on_acked, on_lost, on_rto), name="nscc")
