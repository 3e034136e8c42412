# SPDX-License-Identifier: Apache-2.0
"""The sending half of LERP, the Lightweight Efficient Retransmission Protocol: its reaction to ACKs (non-shortest-path
paper, I, III).

Every transmission gets the next number of its QP's order of transmissions, `txn`, and the QP's path epoch. ACKs
name the transmission that caused them (PSN and count, `wire`). A path keeps order, so when transmission t of
an epoch has arrived, every earlier one *of that epoch* that is still in flight is lost and is sent again at
once; the same holds for retransmissions, which have numbers of their own. Packets of an older epoch say
nothing about those of the current path and the other way round: after a change of path nothing is declared lost
just because the new path is faster.

`loss_classification` finds out paths that do not keep order, and weighs what a loss says of congestion. What order
cannot show is left to timers (`sender`).
"""

from __future__ import annotations

from dataclasses import dataclass

from detour.base.jit import inner, int64
from detour.base.structs import NativeRecord
from detour.hosts.cc import control
from detour.hosts.frames.wire import SACK_BITS, unwrap
from detour.hosts.paths import paths
from detour.hosts.records import QueuePair
from detour.hosts.rows import cfg_row, frame_row, slot_row
from detour.hosts.state import NIL, SLOT_FLIGHT, Handle
from detour.hosts.transport import flight, loss_classification
from detour.hosts.transport.plugin import Transport, TransportNews, TransportParameters, hook
from detour.hosts.transport.progress import (
    acked,
    cause_in_flight,
    lose_trimmed,
    measured_path,
    sample_round_trip,
    slide,
)


@dataclass(frozen=True)
class LerpParameters(TransportParameters):
    adapts_to_reordering: bool = True
    """a packet that was declared lost and was only late makes the sender wait for longer (RFC 8985, 6.2.4); else paths
    keep order"""


@hook
def on_ack(hs: Handle, i: int, q: QueuePair, p: LerpParameters, s: NativeRecord, news: TransportNews, now: int) -> None:
    f = frame_row(hs)
    q.st_ecn_marked += f.ce
    measured = measured_path(hs, i, q, f)
    txn = (
        q.next_txn if measured == NIL else slot_row(hs, i, unwrap(f.trigger, q.snd_una) & (cfg_row(hs).window - 1)).txn
    )
    if measured != NIL and f.ce:
        loss_classification.note_mark(q, f)
    newest = _on_trigger(hs, i, q, now)
    for seq in range(q.snd_una, unwrap(f.psn, q.snd_una) + 1):
        newest = max(newest, acked(hs, i, q, seq, int64(-1), now))
    if f.bitmap:
        base = unwrap(f.base, q.snd_una)
        for k in range(max(0, q.snd_una - base), min(SACK_BITS, q.snd_nxt - base)):
            if (f.bitmap >> k) & 1:
                newest = max(newest, acked(hs, i, q, base + k, int64(-1), now))
    if newest >= 0:
        _lose_before(hs, i, q, q.epoch_head, newest, q.epoch, q.newest_sent, now)
    slide(hs, i, q)
    if measured != NIL:  # last, because it may make the QP leave the path that all this was about
        paths.on_data_delay(hs, i, q, measured, f, txn, now)


@hook
def on_trimmed(
    hs: Handle, i: int, q: QueuePair, p: LerpParameters, s: NativeRecord, news: TransportNews, now: int
) -> None:
    index = cause_in_flight(hs, i, q, frame_row(hs))
    if index != NIL:
        lose_trimmed(hs, i, q, index, now)


@hook
def on_late(
    hs: Handle, i: int, q: QueuePair, p: LerpParameters, s: NativeRecord, news: TransportNews, now: int
) -> None:
    if p.adapts_to_reordering:
        loss_classification.note_late(q, news.sent, news.newest)


LERP = Transport(LerpParameters(), hooks=(on_ack, on_trimmed, on_late), name="lerp", selective=True)


@inner
def _on_trigger(hs: Handle, i: int, q: QueuePair, now: int) -> int:
    """The packet that caused the ACK: round trip and mark. Returns its `txn`, as `acked` does."""
    f = frame_row(hs)
    seq = unwrap(f.trigger, q.snd_una)
    if seq < q.snd_una or seq >= q.snd_nxt:
        return -1
    s = slot_row(hs, i, seq & (cfg_row(hs).window - 1))
    sample_round_trip(q, s, f.count, now)
    if s.state != SLOT_FLIGHT or s.count != f.count:
        return acked(hs, i, q, seq, f.count, now)
    if s.epoch != q.epoch:
        txn, epoch, sent = s.txn, int64(s.epoch), s.sent
        acked(hs, i, q, seq, f.count, now)
        _lose_before(hs, i, q, q.flight_head, txn, epoch, sent, now)
        return -1
    if f.ce:
        control.on_ecn(q, s.size, s.txn, now)
    return acked(hs, i, q, seq, f.count, now)


@inner
def _lose_before(hs: Handle, i: int, q: QueuePair, index: int, txn: int, epoch: int, sent: int, now: int) -> None:
    """Declare lost what was sent in `epoch` before `txn`, which was sent at `sent`, by as much as packets are late on
    this path at least; beginning at `index` of the flight list. The answer that shows it is in `frame_row(hs)`."""
    cfg = cfg_row(hs)
    while index != NIL:
        s = slot_row(hs, i, index)
        if s.txn >= txn or s.epoch > epoch or s.sent > sent - q.reorder_ps:
            return
        after = s.next
        if s.epoch == epoch:
            flight.lose(hs, i, q, index)
            if epoch == q.epoch:
                loss_classification.note_loss(q, s.txn)
                control.on_lost(q, s.txn, loss_classification.is_congestion(cfg, q, frame_row(hs)), now)
        index = after
