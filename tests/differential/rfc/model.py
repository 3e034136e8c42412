# SPDX-License-Identifier: Apache-2.0
"""A uSID node as the RFCs have it: what becomes of one packet.

Written from RFC 8200 (IPv6), 4291 (addresses), 4443 (ICMPv6), 8754 (SRH), 8986 (SRv6 behaviours: End, End.X, USD)
and 9800 (NEXT-CSID), and, where those leave the choice to a node, from docs/data-plane.md: its limits and what it drops
silently. It shares nothing with the P4 programs or the planners.

`Linux` is the same node with the differences of the kernel's seg6local, so that the model itself is held against
something.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

HOP_BY_HOP, IN_IPV6, ROUTING, FRAGMENT, AUTHENTICATION, ICMPV6, DESTINATION = 0, 41, 43, 44, 51, 58, 60
REDIRECT = 137
UNREACHABLE, TIME_EXCEEDED, PARAMETER_PROBLEM = 1, 3, 4
FIELD, NEXT_HEADER, UPPER_LAYER, TOO_BIG, TOO_MANY = 0, 1, 4, 6, 8
"""codes of a Parameter Problem (RFC 4443, 8754, 8883)"""

BLOCK_BITS = 32
SRH = 4
TRANSIT_MEASUREMENT = b"\0\x3e\x04"

# docs/data-plane.md
MOST_SEGMENTS_LEFT = 8
LONGEST_SRH = 8 + 8 * 16
LONGEST_OPTIONS = 64
LOOK_UPS = 6
FIRST_FUNCTION = 0xE000


class Outcome(NamedTuple):
    """What became of a packet: it left by a port, was answered with an ICMPv6 error, or neither."""

    port: int | None = None
    packet: bytes = b""
    icmp: tuple[int, int, int] | None = None
    """type, code, pointer"""


DISCARDED = Outcome()


@dataclass(frozen=True)
class Prefix:
    """An entry: `port` None is a uN, of a SID."""

    value: int
    length: int
    port: int | None


@dataclass(frozen=True)
class Node:
    """What a node knows."""

    block: int
    node_id: int
    sids: tuple[Prefix, ...]
    routes: tuple[Prefix, ...]


class _Discarded(Exception):
    """Silently."""


class _Answered(Exception):
    """With an ICMPv6 error."""

    def __init__(self, kind: int, code: int, pointer: int = 0) -> None:
        self.icmp = (kind, code, pointer)


def longest(entries: tuple[Prefix, ...], address: int) -> Prefix | None:
    """The most specific entry for an address."""
    best = None
    for entry in entries:
        if (address ^ entry.value) >> (128 - entry.length) == 0 and (best is None or entry.length > best.length):
            best = entry
    return best


class Rfc:
    """One packet at one node."""

    def __init__(self, node: Node, frame: bytes) -> None:
        """`frame`: what came in behind the Ethernet header, padding included."""
        self.node = node
        self.packet = bytearray(frame)
        self.padding = b""
        self.looked_up = 0

    def outcome(self) -> Outcome:
        """What becomes of it."""
        try:
            self._receive()
            port = self._forward()
            return Outcome(port, bytes(self.packet) + self.padding)
        except _Discarded:
            return DISCARDED
        except _Answered as answer:
            return Outcome(icmp=answer.icmp) if may_be_answered(bytes(self.packet)) else DISCARDED

    # -- fields

    @property
    def hop_limit(self) -> int:
        return self.packet[7]

    @property
    def destination(self) -> int:
        return int.from_bytes(self.packet[24:40], "big")

    @destination.setter
    def destination(self, address: int) -> None:
        self.packet[24:40] = address.to_bytes(16, "big")

    # -- RFC 8200

    def _receive(self) -> None:
        """Takes padding off, and refuses what is no packet or comes from where no packet can come from."""
        if len(self.packet) < 40 or self.packet[0] >> 4 != 6:
            raise _Discarded
        end = 40 + int.from_bytes(self.packet[4:6], "big")
        if end > len(self.packet):
            raise _Discarded
        self.padding = bytes(self.packet[end:]) + self.padding
        del self.packet[end:]
        source = int.from_bytes(self.packet[8:24], "big")
        # RFC 4291: multicast (2.7), link-local (2.5.6), unspecified (2.5.2), loopback (2.5.3).
        if source >> 120 == 0xFF or source >> 118 == 0x3FA or source in (0, 1):
            raise _Discarded

    def _hop(self) -> None:
        if self.hop_limit <= 1:
            raise _Answered(TIME_EXCEEDED, 0)
        self.packet[7] -= 1

    def _forward(self) -> int:
        """The port by which the packet leaves."""
        counted = False
        while self.looked_up < LOOK_UPS:
            sid = longest(self.node.sids, self.destination)
            if sid is None:
                return self._route(counted)
            self.looked_up += 1
            self._endpoint(sid)
            counted = True
            if sid.port is not None:
                return sid.port
            if not self._may_be_own():
                return self._route(counted)
        raise _Discarded

    def _may_be_own(self) -> bool:
        usid = self.destination >> 80 & 0xFFFF
        inside = self.destination >> 96 == self.node.block
        return inside and (usid == self.node.node_id or usid >= FIRST_FUNCTION)

    def _route(self, counted: bool) -> int:
        route = longest(self.node.routes, self.destination)
        if route is None or route.port is None:
            if self.destination >> 96 == self.node.block or self.destination >> 120 == 0xFF:
                raise _Discarded
            raise _Answered(UNREACHABLE, 0)
        if not counted:
            self._hop()
        return route.port

    # -- RFC 9800, 4.1.1 and 4.1.2

    def _endpoint(self, sid: Prefix) -> None:
        argument = self.destination & (1 << (128 - sid.length)) - 1
        if argument:
            self._hop()
            self.destination = self.node.block << 96 | argument << (sid.length - BLOCK_BITS)
        else:
            self._end()

    # -- RFC 8986, 4.1, 4.1.1 and 4.16.3

    def _end(self) -> None:
        """Processes extension headers in order, to the next segment or to the upper layer."""
        field, at, options = 6, 40, 0
        last = opaque = False  # the node takes no further header apart; not even an inner packet
        while self.packet[field] in (HOP_BY_HOP, ROUTING, FRAGMENT, DESTINATION):
            kind = self.packet[field]
            length = self._header(at, kind)
            if kind == HOP_BY_HOP and at != 40:
                raise _Answered(PARAMETER_PROBLEM, NEXT_HEADER, field)
            if last:
                raise _Answered(PARAMETER_PROBLEM, TOO_MANY, at)
            if kind == FRAGMENT:
                last = opaque = True
                if int.from_bytes(self.packet[at + 2 : at + 4], "big") >> 3:
                    raise _Discarded
            elif kind == ROUTING:
                if self._routing(at, length):
                    return
                last, opaque = True, self.packet[at + 2] != SRH
            elif length > LONGEST_OPTIONS:
                raise _Answered(PARAMETER_PROBLEM, TOO_BIG, at)
            elif kind == DESTINATION or self.packet[at + 1 : at + 4] != TRANSIT_MEASUREMENT:
                options += 1
                if options > 1:
                    raise _Answered(PARAMETER_PROBLEM, TOO_MANY, at)
            field, at = at, at + length
        if self.packet[field] != IN_IPV6:
            raise _Answered(PARAMETER_PROBLEM, UPPER_LAYER, at)
        if at + 40 > len(self.packet):
            raise _Discarded
        if opaque:
            raise _Answered(PARAMETER_PROBLEM, UPPER_LAYER, at)
        del self.packet[:at]
        self._receive()
        self._hop()

    def _header(self, at: int, kind: int) -> int:
        """Length of an extension header, which must be there as a whole."""
        if at + 8 > len(self.packet):
            raise _Discarded
        length = 8 if kind == FRAGMENT else 8 * (self.packet[at + 1] + 1)
        if at + length > len(self.packet):
            raise _Discarded
        return length

    def _routing(self, at: int, length: int) -> bool:
        """A routing header; True if it had another segment."""
        kind, left, last = self.packet[at + 2 : at + 5]
        if kind != SRH:
            if left:
                raise _Answered(PARAMETER_PROBLEM, FIELD, at + 2)  # RFC 8200, 4.4
            return False
        if left == 0:
            if length > LONGEST_SRH:
                raise _Answered(PARAMETER_PROBLEM, TOO_BIG, at)
            return False
        if self.hop_limit <= 1:
            raise _Answered(TIME_EXCEEDED, 0)
        max_last_entry = self.packet[at + 1] // 2 - 1
        if last > max_last_entry or left > last + 1:
            raise _Answered(PARAMETER_PROBLEM, FIELD, at + 3)
        if left > MOST_SEGMENTS_LEFT:
            raise _Answered(PARAMETER_PROBLEM, TOO_BIG, at)
        self._hop()
        self._advance(at)
        return True

    def _advance(self, at: int) -> None:
        self.packet[at + 3] -= 1
        segment = at + 8 + 16 * self.packet[at + 3]
        self.packet[24:40] = self.packet[segment : segment + 16]


class Linux(Rfc):
    """The kernel's seg6local, End and End.X with the next-csid flavour, where it differs from the RFCs.

    It counts a node once, sends errors that nobody sees here, forgets padding, refuses USD, finds an SRH behind any
    options, checks the TLVs of an SRH, and reads hop-by-hop options on the way.
    """

    def outcome(self) -> Outcome:
        bare = super().outcome()
        return bare._replace(packet=bare.packet[: len(bare.packet) - len(self.padding)], icmp=None)

    def _receive(self) -> None:
        super()._receive()
        if self.packet[6] == HOP_BY_HOP:
            self._header(40, HOP_BY_HOP)

    def _forward(self) -> int:
        port = super()._forward()
        if self.hop_limit <= 1:
            raise _Discarded
        self.packet[7] -= 1
        return port

    def _hop(self) -> None:
        pass  # ip6_forward does it, once

    def _may_be_own(self) -> bool:
        return True  # every address is looked up

    def _end(self) -> None:
        field, at = 6, 40
        while self.packet[field] in (HOP_BY_HOP, ROUTING, FRAGMENT, DESTINATION):
            kind = self.packet[field]
            length = self._header(at, kind)
            if kind == ROUTING and self.packet[at + 3]:
                self._segment(at, length)
                return
            field, at = at, at + length
        raise _Discarded

    def _segment(self, at: int, length: int) -> None:
        kind, left, last = self.packet[at + 2 : at + 5]
        if kind != SRH or last > self.packet[at + 1] // 2 - 1 or left > last + 1:
            raise _Discarded
        tlv = at + 8 + 16 * (last + 1)
        while tlv < at + length:
            if tlv + 2 > at + length:
                raise _Discarded
            tlv += 2 + self.packet[tlv + 1]
        if tlv > at + length:
            raise _Discarded
        self._advance(at)


def may_be_answered(packet: bytes) -> bool:
    """Whether an ICMPv6 error may answer a packet (RFC 4443, 2.4 e). Where it cannot be told what it is: no."""
    if packet[8] == 0xFF or packet[24] == 0xFF or not any(packet[8:24]):
        return False
    kind, at = packet[6], 40
    while kind in (HOP_BY_HOP, ROUTING, FRAGMENT, AUTHENTICATION, DESTINATION):
        if at + 8 > len(packet):
            return False
        if kind == FRAGMENT and int.from_bytes(packet[at + 2 : at + 4], "big") >> 3:
            # The headers that it goes on with are in another fragment.
            return packet[at] not in (HOP_BY_HOP, ROUTING, FRAGMENT, AUTHENTICATION, DESTINATION, ICMPV6)
        words = {FRAGMENT: 2, AUTHENTICATION: packet[at + 1] + 2}.get(kind, 2 * packet[at + 1] + 2)
        kind, at = packet[at], at + 4 * words
    if kind != ICMPV6:
        return True
    return at < len(packet) and packet[at] >= 128 and packet[at] != REDIRECT
