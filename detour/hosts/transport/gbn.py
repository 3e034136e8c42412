# SPDX-License-Identifier: Apache-2.0
"""The sending half of go-back-N: its reaction to ACKs and NAKs (RoCEv2's reliable connection; IBTA 9.7.5;
docs/facts.md, "Go-back-N").

An ACK stands for everything up to its PSN, and for nothing else: the packet that caused it only tells its round trip,
mark and delay. A NAK (PSN sequence error) does the same for what precedes its PSN, and makes the sender go back: all
that is unacknowledged is sent again, in order, before anything new. The retransmission timeout does that too.

A NAK is about the transmission that came too early. If that has been repeated since, the sender went back already
and the NAK, a duplicate or a late one, says nothing new.
"""

from __future__ import annotations

from dataclasses import dataclass

from detour.base.jit import inner, int64
from detour.base.structs import NativeRecord
from detour.hosts.cc import control
from detour.hosts.frames.wire import unwrap
from detour.hosts.paths import paths
from detour.hosts.records import QueuePair, ReceivedFrame
from detour.hosts.rows import cfg_row, frame_row, slot_row, wqe_row
from detour.hosts.state import NIL, SLOT_FLIGHT, Handle
from detour.hosts.transport import flight
from detour.hosts.transport.plugin import Transport, TransportNews, TransportParameters, hook
from detour.hosts.transport.progress import acked, measured_path, sample_round_trip, slide


@dataclass(frozen=True)
class GoBackNParameters(TransportParameters):
    ack_every: int = 1
    """data packets an ACK; the last of a message and marked ones are answered at once"""


@hook
def on_ack(
    hs: Handle, i: int, q: QueuePair, p: GoBackNParameters, s: NativeRecord, news: TransportNews, now: int
) -> None:
    f = frame_row(hs)
    q.st_ecn_marked += f.ce
    measured = measured_path(hs, i, q, f)
    _on_trigger(hs, i, q, f, now)
    _acked_before(hs, i, q, unwrap(f.psn, q.snd_una) + 1, now)
    if measured != NIL:
        paths.on_data_delay(hs, i, q, measured, f, int64(-1), now)


@hook
def on_gap(
    hs: Handle, i: int, q: QueuePair, p: GoBackNParameters, s: NativeRecord, news: TransportNews, now: int
) -> None:
    """The packet that the NAK names is missing at the receiver."""
    f = frame_row(hs)
    q.st_ecn_marked += f.ce
    q.st_naks += 1
    fresh = _on_trigger(hs, i, q, f, now)
    _acked_before(hs, i, q, unwrap(f.psn, q.snd_una), now)
    if not fresh or q.flight_head == NIL:
        return
    if q.flight_head == q.epoch_head:
        control.on_lost(q, slot_row(hs, i, q.flight_head).txn, True, now)
    flight.rewind(hs, i, q)


@hook
def on_timeout(
    hs: Handle, i: int, q: QueuePair, p: GoBackNParameters, s: NativeRecord, news: TransportNews, now: int
) -> None:
    flight.rewind(hs, i, q)


@hook
def wants_answer(
    hs: Handle, i: int, q: QueuePair, p: GoBackNParameters, s: NativeRecord, news: TransportNews, now: int
) -> int:
    w = wqe_row(hs, i, news.wqe)
    return news.seq % p.ack_every == 0 or news.seq == w.first + w.packets - 1


GBN = Transport(GoBackNParameters(), hooks=(on_ack, on_gap, on_timeout, wants_answer), name="gbn")


@inner
def _on_trigger(hs: Handle, i: int, q: QueuePair, f: ReceivedFrame, now: int) -> bool:
    """Round trip and mark of the packet that caused the answer; whether it is still that transmission's turn."""
    seq = unwrap(f.trigger, q.snd_una)
    if seq < q.snd_una or seq >= q.snd_nxt:
        return False
    s = slot_row(hs, i, seq & (cfg_row(hs).window - 1))
    sample_round_trip(q, s, f.count, now)
    if s.state != SLOT_FLIGHT or s.count != f.count:
        return False
    if f.ce and s.epoch == q.epoch:
        control.on_ecn(q, s.size, s.txn, now)
    return True


@inner
def _acked_before(hs: Handle, i: int, q: QueuePair, end: int, now: int) -> None:
    """All packets before `end`, which have all been sent, have arrived."""
    for seq in range(q.snd_una, end):
        acked(hs, i, q, seq, int64(-1), now)
    slide(hs, i, q)
