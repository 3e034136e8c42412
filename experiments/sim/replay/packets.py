# SPDX-License-Identifier: Apache-2.0
"""Packets of hosts as they lie in frames of a trace: which they are, and whether they are marked. In virtual time
frames have their headers only, so nothing but those is read."""

from __future__ import annotations

from dataclasses import dataclass

from detour.engine.trace.matching import Key, read_key
from detour.hosts.frames.wire import PORT_ROCE

_ETHERNET, _IPV6 = 14, 40
_HOP_BY_HOP, _ROUTING, _UDP = 0, 43, 17
_ACK = 0x11
_MARKED = 3


@dataclass(frozen=True)
class PacketName:
    """What tells a packet of a connection from others: source address as a number, UDP source port, BTH opcode,
    destination QP and PSN."""

    source: int
    sport: int
    opcode: int
    qp: int
    psn: int

    @property
    def is_data(self) -> bool:
        """Whether it carries a part of a message."""
        return self.opcode < _ACK


def packet_name(frame: bytes) -> PacketName | None:
    """The name of a RoCEv2 packet; None: it is something else."""
    if _number(frame, 12, 2) != 0x86DD:
        return None
    kind, at = frame[_ETHERNET + 6], _ETHERNET + _IPV6
    while kind in (_HOP_BY_HOP, _ROUTING) and at + 2 <= len(frame):
        kind, at = frame[at], at + 8 * (frame[at + 1] + 1)
    if kind != _UDP or at + 20 > len(frame) or _number(frame, at + 2, 2) != PORT_ROCE:
        return None
    return PacketName(
        _number(frame, _ETHERNET + 8, 16),
        _number(frame, at, 2),
        frame[at + 8],
        _number(frame, at + 13, 3),
        _number(frame, at + 17, 3),
    )


def is_marked(frame: bytes) -> bool:
    """Whether IP says congestion experienced (RFC 3168)."""
    return bool(read_key(frame, 0)[Key.ECN] == _MARKED)


def _number(frame: bytes, at: int, size: int) -> int:
    return int.from_bytes(frame[at : at + size], "big")
