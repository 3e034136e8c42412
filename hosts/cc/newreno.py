# SPDX-License-Identifier: Apache-2.0
"""NewReno: RFC 5681 (slow start, congestion avoidance), RFC 6582 (one reduction an episode), RFC 3168 (marks).

The window is in packets, counted as RFC 3465 counts bytes: each packet that has arrived adds one in slow start and its
part of one else. It does not grow while less than half of it is under way (RFC 5681, 4.1; RFC 7661). What is left of
it after a loss is whole packets.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from detour.hosts.cc.own import CongestionAlgorithm, hook


@dataclass(frozen=True)
class NewRenoParameters:
    """`beta`: what is left of the window after a loss; `beta_ecn`: after a mark."""

    beta: float = 0.5
    beta_ecn: float = 0.5


@hook
def reduce_to(s, q, window):
    """Once for all that was sent until now."""
    q.ssthresh = max(np.floor(window), 2.0)
    q.cwnd = q.ssthresh
    s.recover = q.next_txn


@hook
def on_acked(p, s, q, packet, now):
    s.timeouts = 0
    if packet.txn < s.recover:
        return
    if packet.marked > 0:
        reduce_to(s, q, np.floor(q.cwnd) * p.beta_ecn)
    elif 2 * q.inflight < q.cwnd:
        return
    elif q.cwnd < q.ssthresh:
        q.cwnd = min(q.cwnd + 1.0, p.max_cwnd)
    else:
        q.cwnd = min(q.cwnd + 1.0 / q.cwnd, p.max_cwnd)


@hook
def on_lost(p, s, q, packet, now):
    if packet.txn >= s.recover:
        reduce_to(s, q, q.inflight * p.beta)


@hook
def on_rto(p, s, q, packet, now):
    # Of the same data only the first timeout counts (RFC 5681, 3.1).
    if s.timeouts == 0:
        q.ssthresh = max(q.inflight * p.beta, 2.0)
    s.timeouts += 1
    q.cwnd = 1.0
    s.recover = q.next_txn


@hook
def on_idle(p, s, q, packet, now):
    q.cwnd = min(q.cwnd, q.cwnd_initial)


NEWRENO = CongestionAlgorithm(
    NewRenoParameters(), {"recover": int, "timeouts": int}, (on_acked, on_lost, on_rto, on_idle), name="newreno"
)
