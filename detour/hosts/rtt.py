# SPDX-License-Identifier: Apache-2.0
"""Round-trip estimate and retransmission timeout (RFC 6298), in integer picoseconds."""

from __future__ import annotations

from detour.base.jit import inner
from detour.hosts.records import Config, QueuePair

_PEAK_SAMPLES = 512
"""samples in which the longest recent round trip loses 63 % of what it is above the mean"""
_MOST = 8
"""times the initial retransmission timeout at which doubling ends"""


@inner
def is_known(q: QueuePair) -> bool:
    """Return whether there was a sample of the current path."""
    return q.srtt > 0 and q.rtt_epoch == q.epoch


@inner
def on_sample(q: QueuePair, rtt: int) -> None:
    """Take a measured round trip of the current path; the first one of a path replaces the estimate."""
    if not is_known(q):
        q.rtt_epoch = q.epoch
        q.srtt = max(rtt, 1)
        q.rttvar = rtt // 2
        q.rtt_peak = q.srtt
        return
    error = rtt - q.srtt
    q.rttvar += (abs(error) - q.rttvar) // 4
    q.srtt = max(q.srtt + error // 8, 1)
    q.rtt_peak = max(q.rtt_peak - (q.rtt_peak - q.srtt) // _PEAK_SAMPLES, rtt)


@inner
def timeout(cfg: Config, q: QueuePair) -> int:
    """Retransmission timeout, doubled for every one in a row that has passed (RFC 6298, 2 and 5.5), up to `_MOST` times
    the initial one, or this path's first one if that is longer. On a path without a sample it begins with the initial
    one, for the path may be longer than the one before. However much round trips vary, it is not above `max_rto_ps` or
    two of them."""
    base = max(cfg.min_rto_ps, q.srtt + max(cfg.tick_ps, 4 * q.rttvar))
    if not is_known(q):
        base = max(base, cfg.initial_rto_ps)
    doubled = min(base << min(q.retries, 20), _MOST * max(cfg.initial_rto_ps, base))
    return min(doubled, max(cfg.max_rto_ps, 2 * q.srtt))


@inner
def probe_timeout(cfg: Config, q: QueuePair) -> int:
    """Time without progress after which a tail-loss probe is due (RFC 8985, 7.2)."""
    return max(2 * q.srtt, cfg.min_probe_timeout_ps)
