# SPDX-License-Identifier: Apache-2.0
"""A transport as a plugin (`hosts.plugins`): what a sender does about losses, by what the receiver tells it.

    @hook
    def on_timeout(hs, i, q, p, s, news, now):
        flight.rewind(hs, i, q)

A hook gets what a path scheme's gets (`hosts.paths.plugin`), with `TransportNews` for `news`. The answer that came in
is `frame_row(hs)`.

| hook | is called when |
|---|---|
| `on_ack` | an ACK came in; of a QP that sprays `multipath` takes it |
| `on_gap` | a NAK came in: packets are missing at the receiver (unless `selective`) |
| `on_trimmed` | a packet arrived without its payload (`selective`, not spraying) |
| `on_timeout` | what was sent on this path, or on one that was left, was not acknowledged in time |
| `on_late` | a packet that was declared lost has arrived: `sent` then, the `newest` of its path that has arrived then |
| `wants_answer` | packet `seq` of work request `wqe` goes out: whether it asks for an ACK (`selective`: all do) |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from detour.base.jit import inner
from detour.base.pointers import record_address, record_by_address
from detour.base.structs import Int64, NativeRecord
from detour.hosts import plugins
from detour.hosts.paths.plugin import qp_entries
from detour.hosts.plugins import PACKET_AT, Plugin
from detour.hosts.plugins import hook as hook
from detour.hosts.records import Config, QueuePair
from detour.hosts.state import Handle

TRANSPORT_HOOKS = ("on_ack", "on_gap", "on_trimmed", "on_timeout", "on_late", "wants_answer")
TRANSPORT_ACK, TRANSPORT_GAP, TRANSPORT_TRIMMED, TRANSPORT_TIMEOUT, TRANSPORT_LATE, TRANSPORT_ASKS = range(6)


class TransportNews(NativeRecord):
    """The information that a hook is given."""

    seq: Int64
    wqe: Int64
    sent: Int64
    newest: Int64


@dataclass(frozen=True)
class Transport(Plugin):
    """`selective`: the receiver takes packets in any order and its ACKs say which have arrived, so that every packet
    may have a path of its own; else it drops or holds what comes early, and reports the gap once."""

    selective: bool = False

    HOOKS: ClassVar[tuple[str, ...]] = TRANSPORT_HOOKS
    TAKES: ClassVar[tuple[str, ...]] = ("hs", "i", "q", "p", "s", "news", "now")
    NEWS: ClassVar[type[NativeRecord]] = TransportNews
    OF_HOST: ClassVar[tuple[str, ...]] = Config.dtype.names or ()


if TYPE_CHECKING:
    TransportParameters = Config
else:

    class TransportParameters:
        """A transport's parameters extend it: its hooks are given those of the hosts as well."""


entry_of = qp_entries(TransportNews, "wants_answer")
_news_at = record_by_address(TransportNews)


@inner
def news_of(q: QueuePair) -> TransportNews:
    """The record that the next call of a hook is about."""
    return _news_at(q.transport_row + PACKET_AT, 0)


@inner
def call(hs: Handle, i: int, q: QueuePair, which: int, now: int) -> int:
    """Call a hook of the QP's transport, if it has that; return what `wants_answer` does."""
    return plugins.call(q.transport_row, record_address(hs), i, which, now)


@inner
def has(q: QueuePair, which: int) -> bool:
    """Return whether the QP's transport has a hook."""
    return plugins.has(q.transport_row, which)
