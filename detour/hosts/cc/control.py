# SPDX-License-Identifier: Apache-2.0
"""Calls from the transport to congestion control, an algorithm that each QP has as a plug-in (`plugin`).

Hooks concern the QP's *current path*: what happens to packets of an earlier path epoch is not reported, for a window
and its feedback must belong to the same path (section II-B of the non-shortest-path paper). `nbytes` are payload bytes,
`length` those of a frame, `txn` is the place of the packet in question in the QP's order of transmissions, `q.next_txn`
the next one. When a hook for an acknowledged packet runs, that packet still counts in `q.inflight`.

The transport sends while `q.inflight < q.cwnd` (packets) and not before `q.pace_next`, and calls `on_timer` when
`q.cc_timer` (`MAX_TIME`: never) has passed.
"""

from __future__ import annotations

import numpy as np

from detour.base.jit import float64, inner
from detour.base.times import MAX_TIME
from detour.hosts.cc import plugin
from detour.hosts.records import Config, QueuePair, ReceivedFrame, Sender


@inner
def on_path(cfg: Config, q: QueuePair, window: float, now: int) -> None:
    """A path begins: slow start from `window` packets. For the first path of a QP that is its initial window, to
    which it also comes back after idle times."""
    if q.cwnd_initial == 0:
        q.cwnd_initial = window
    q.cwnd = max(float64(cfg.min_cwnd), window)
    q.ssthresh = np.inf
    q.pace_next = 0
    q.cc_timer = MAX_TIME
    plugin.call(q, plugin.HOOK_PATH, now)


@inner
def on_move(q: Sender, now: int) -> None:
    """Another path takes over, with the window as it is."""
    q.pace_next = 0
    plugin.call(q, plugin.HOOK_MOVE, now)


@inner
def window(q: QueuePair) -> float:
    """Packets a round trip."""
    return float64(q.inflight) if q.rate_based else q.cwnd


@inner
def on_idle(q: Sender, now: int) -> None:
    """Sending begins after an idle time longer than the retransmission timeout."""
    plugin.call(q, plugin.HOOK_IDLE, now)


@inner
def on_sent(q: Sender, length: int, txn: int, now: int) -> None:
    """A packet goes out; a paced algorithm sets `pace_next` here."""
    if plugin.has(q, plugin.HOOK_SENT):
        packet = plugin.packet_of(q)
        packet.bytes = length
        packet.txn = txn
        plugin.call(q, plugin.HOOK_SENT, now)


@inner
def tell(cfg: Config, q: Sender, f: ReceivedFrame, caused: bool, rtt: int) -> None:
    """Before `on_acked`: what is known of the packet. `caused`: the answer in `f` is about it; `rtt`: its round trip
    then."""
    packet = plugin.packet_of(q)
    packet.rtt = rtt if caused else -1
    has_delay = caused and f.has_delay != 0
    packet.delay = f.delay * cfg.tick_ps if has_delay else -1
    packet.hops = f.hops if has_delay else -1
    packet.marked = f.ce if caused else 0


@inner
def on_acked(q: Sender, nbytes: int, txn: int, empty: bool, now: int) -> None:
    """A packet has arrived; `empty`: the path has next to no queue. If it was marked, `on_ecn` was called before."""
    packet = plugin.packet_of(q)
    packet.bytes = nbytes
    packet.txn = txn
    packet.empty = empty
    plugin.call(q, plugin.HOOK_ACKED, now)


@inner
def on_ecn(q: Sender, nbytes: int, txn: int, now: int) -> None:
    """A packet has arrived with a CE mark."""
    packet = plugin.packet_of(q)
    packet.bytes = nbytes
    packet.txn = txn
    plugin.call(q, plugin.HOOK_ECN, now)


@inner
def on_lost(q: Sender, txn: int, congested: bool, now: int) -> None:
    """A packet was found lost by a later one's arrival; `congested`: in a full queue, as far as the sender knows."""
    packet = plugin.packet_of(q)
    packet.txn = txn
    packet.congested = congested
    plugin.call(q, plugin.HOOK_LOST, now)


@inner
def on_spurious(q: Sender, now: int) -> None:
    """A packet that had been reported as lost, by `on_lost` or `on_rto`, has arrived."""
    plugin.call(q, plugin.HOOK_SPURIOUS, now)


@inner
def on_spurious_timeout(q: Sender, now: int) -> None:
    """All that the timeout called lost has arrived, as far as it has not been sent again; `on_spurious` was called for
    each before."""
    plugin.call(q, plugin.HOOK_SPURIOUS_TIMEOUT, now)


@inner
def on_rto(q: QueuePair, lost: int, now: int) -> None:
    """The retransmission timeout has passed, and so many packets in flight count as lost."""
    packet = plugin.packet_of(q)
    packet.lost = lost
    packet.timeouts = q.epoch_rtos
    plugin.call(q, plugin.HOOK_RTO, now)


@inner
def on_cnp(q: Sender, now: int) -> None:
    """A congestion notification packet has come (for rate-based algorithms)."""
    plugin.call(q, plugin.HOOK_CNP, now)


@inner
def on_timer(q: Sender, now: int) -> None:
    """`q.cc_timer` has passed."""
    q.cc_timer = MAX_TIME
    plugin.call(q, plugin.HOOK_TIMER, now)
