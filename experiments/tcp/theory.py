# SPDX-License-Identifier: Apache-2.0
"""What is known of TCP's rate and of DCTCP's queue. Windows and queues are in packets, times in seconds."""

from __future__ import annotations

import math


def reno_window(loss: float) -> float:
    """Mean window at random losses with every packet acknowledged: 1.31 / sqrt(p) (Mathis, Semke, Mahdavi, Ott, "The
    Macroscopic Behavior of the TCP Congestion Avoidance Algorithm", CCR 27(3), 1997, table 1; at periodic losses it is
    1.22)."""
    return 1.31 / math.sqrt(loss)


def cubic_window(loss: float, rtt: float, c: float = 0.4, beta: float = 0.7) -> float:
    """Mean window of CUBIC at periodic losses (RFC 9438, 5.1), or Reno's where that is larger (4.3)."""
    cubic = (c * (3 + beta) / (4 * (1 - beta))) ** 0.25 * rtt**0.75 / loss**0.75
    return max(cubic, reno_window(loss))


def dctcp_queue(flows: int, bdp: float, k: float) -> tuple[float, float]:
    """(longest, mean) queue of `flows` synchronised flows of DCTCP at a marking threshold `k`, with `bdp` packets in a
    round trip without a queue (Alizadeh et al., "Data Center TCP", SIGCOMM 2010, 3.3): K + N, less half a sawtooth of
    sqrt(2 N (C RTT + K)) / 2."""
    top = k + flows
    return top, max(top - math.sqrt(2 * flows * (bdp + k)) / 4, 0.0)
