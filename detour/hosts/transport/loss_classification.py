# SPDX-License-Identifier: Apache-2.0
"""Classification of losses: a full queue, or a packet that was only late (docs/transports.md, "Losses, congestion and
order with LERP").

An answer that shows a loss is about a packet that was sent right after the lost one. If a full queue dropped that one,
this one waited in nearly as long a queue: for longer than packets wait where marks begin (`mark_wait`, the least delay
of a marked packet of this path), by half at least, since marks begin well below a full queue.

RFC 8985, 6.2, learns reordering by multiples of a quarter of the round trip; here the lateness itself is known, because
answers name transmissions.
"""

from __future__ import annotations

from detour.base.jit import inner
from detour.hosts.paths.delays import mtu_times
from detour.hosts.records import Config, QueuePair, ReceivedFrame

_PERSISTENCE = 16
"""round trips with losses, none of them spurious, after which reordering is forgotten (RFC 8985, 6.2.4)"""


@inner
def note_mark(q: QueuePair, f: ReceivedFrame) -> None:
    """The answer in `f` is about a packet of the current path that was marked."""
    if f.has_delay and (q.mark_wait < 0 or f.delay < q.mark_wait):
        q.mark_wait = f.delay


@inner
def is_congestion(cfg: Config, q: QueuePair, f: ReceivedFrame) -> bool:
    """Return whether a loss that the answer in `f` shows was a full queue; it is, if nothing is known of queues."""
    if cfg.every_loss_cuts or not f.has_delay:
        return True
    if q.mark_wait < 0:
        return f.delay * cfg.tick_ps > mtu_times(cfg, cfg.loss_mtus)
    return 2 * f.delay > 3 * q.mark_wait


@inner
def note_late(q: QueuePair, sent: int, newest: int) -> None:
    """A transmission of time `sent`, which was declared lost, has arrived; the newest one of its path that has was sent
    at `newest`."""
    q.reorder_ps = min(max(q.reorder_ps, newest - sent), q.srtt)
    q.reorder_left = _PERSISTENCE


@inner
def note_loss(q: QueuePair, txn: int) -> None:
    """Transmission `txn` of the current path was declared lost."""
    if txn < q.reorder_round:
        return
    q.reorder_round = q.next_txn
    q.reorder_left -= 1
    if q.reorder_left <= 0:
        q.reorder_ps = 0
