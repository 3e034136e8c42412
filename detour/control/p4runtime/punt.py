# SPDX-License-Identifier: Apache-2.0
"""The controller's answers to packets that a switch gives up: ICMPv6 errors (RFC 4443), rate-limited.

Pure functions and a token bucket; `Responder` joins them to packet-ins and packet-outs.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from detour.base.dataplane import HOP_LIMIT
from detour.control.p4runtime.client import SwitchClient
from detour.topo import address

# Verdicts of the data plane that the controller answers (detour/p4src/include/headers.p4).
PUNT_NO_ROUTE = 3
PUNT_HOP_LIMIT = 6
PUNT_SID_EXHAUSTED = 7
PUNT_BAD_SRH = 13

# ICMPv6 types (RFC 4443) and codes of a Parameter Problem.
DESTINATION_UNREACHABLE = 1
TIME_EXCEEDED = 3
PARAMETER_PROBLEM = 4
ERRONEOUS_FIELD = 0
UNRECOGNIZED_NEXT_HEADER = 1
SR_UPPER_LAYER_HEADER = 4  # a SID with nothing left to do (RFC 8986, 4.1.1)
HEADER_TOO_BIG = 6  # an extension header that the switch cannot take apart (RFC 8883)
TOO_MANY_HEADERS = 8  # more extension headers than the switch looks past (RFC 8883)

# What a switch takes apart (detour/p4src/include/headers.p4, parser.p4).
MAX_SEGMENTS = 8
MAX_OPTIONS_BYTES = 64

MIN_MTU = 1280  # no ICMPv6 error is longer than this (RFC 4443, 2.4 c)

_ETHERNET = 14
_IPV6 = 40
_HOP_BY_HOP, _IN_IPV6, _ROUTING, _FRAGMENT, _AUTHENTICATION, _ICMPV6, _DESTINATION = 0, 41, 43, 44, 51, 58, 60
_NEXT_HEADER = 6  # where the IPv6 header says what follows
_EXTENSIONS = (_HOP_BY_HOP, _ROUTING, _FRAGMENT, _AUTHENTICATION, _DESTINATION)
_SRH = 4
_REDIRECT = 137
_TRANSIT_MEASUREMENT = b"\x00\x3e\x04"


@dataclass(frozen=True)
class UpperLayer:
    """End of the extension headers of an IPv6 packet."""

    protocol: int
    offset: int  # from the IPv6 header on
    fragment: bool  # a fragment other than the first: the upper-layer header is not in this packet


def upper_layer(packet: bytes) -> UpperLayer | None:
    """The upper-layer header of an IPv6 packet; None if the packet ends before it. In a fragment other than the first:
    what the first one begins with, which may be an extension header."""
    protocol, at = packet[6], _IPV6
    while protocol in _EXTENSIONS:
        if at + 8 > len(packet):
            return None
        if protocol == _FRAGMENT:
            if struct.unpack_from("!H", packet, at + 2)[0] >> 3:
                return UpperLayer(packet[at], at + 8, True)
            length = 8
        elif protocol == _AUTHENTICATION:
            length = 4 * (packet[at + 1] + 2)
        else:
            length = 8 * (packet[at + 1] + 1)
        protocol = packet[at]
        at += length
    return UpperLayer(protocol, at, False)


def sid_problem(packet: bytes) -> tuple[int, int] | None:
    """Code and pointer of the Parameter Problem about a packet that a switch's SID can do nothing with. Extension
    headers are processed in order (RFC 8200, section 4; RFC 8986, 4.1) until one is at fault or beyond what the switch
    takes apart (RFC 8883). None: nothing is to be said, as of a packet that ends within its headers."""
    field, at, options, last = _NEXT_HEADER, _IPV6, 0, False
    while packet[field] in (_HOP_BY_HOP, _DESTINATION, _ROUTING, _FRAGMENT):
        if at + 8 > len(packet):
            return None
        length = 8 if packet[field] == _FRAGMENT else 8 * (packet[at + 1] + 1)
        if at + length > len(packet):
            return None
        if packet[field] == _HOP_BY_HOP and at != _IPV6:
            return UNRECOGNIZED_NEXT_HEADER, field
        if last:
            return TOO_MANY_HEADERS, at
        if packet[field] == _FRAGMENT:
            if packet[at + 2] or packet[at + 3] & 0xF8:
                return None  # not the first one: no upper layer to point at
            last = True
        elif packet[field] == _ROUTING:
            problem = _routing_problem(packet, at, length)
            if problem is not None or packet[at + 3]:
                return problem
            last = True
        elif length > MAX_OPTIONS_BYTES:
            return HEADER_TOO_BIG, at
        elif packet[field] == _DESTINATION or packet[at + 1 : at + 4] != _TRANSIT_MEASUREMENT:
            options += 1
            if options > 1:
                return TOO_MANY_HEADERS, at
        field, at = at, at + length
    if packet[field] == _IN_IPV6 and at + _IPV6 > len(packet):
        return None
    return SR_UPPER_LAYER_HEADER, at


def _routing_problem(packet: bytes, at: int, length: int) -> tuple[int, int] | None:
    """Return the fault of the routing header at `at`, None if there is none."""
    kind, left, last = packet[at + 2 : at + 5]
    if kind != _SRH:
        return (ERRONEOUS_FIELD, at + 2) if left else None  # RFC 8200, 4.4
    if left and (2 * (last + 1) > length // 8 - 1 or left > last + 1):
        return ERRONEOUS_FIELD, at + 3  # RFC 8986, 4.1, S09 and S10
    if left > MAX_SEGMENTS or (not left and length > 8 + 16 * MAX_SEGMENTS):
        return HEADER_TOO_BIG, at
    return None


def may_answer(frame: bytes) -> bool:
    """Return whether an ICMPv6 error may answer this Ethernet frame (RFC 4443, 2.4 e)."""
    packet = _packet(frame)
    if packet is None or frame[0] & 1:
        return False
    source, destination = packet[8:24], packet[24:40]
    if source[0] == 0xFF or destination[0] == 0xFF or not any(source):
        return False
    upper = upper_layer(packet)
    if upper is None:
        return False
    if upper.protocol != _ICMPV6:
        return upper.protocol not in _EXTENSIONS
    if upper.fragment or upper.offset >= len(packet):
        return False  # it may be an error
    kind = packet[upper.offset]
    return kind >= 128 and kind != _REDIRECT


def _packet(frame: bytes) -> bytes | None:
    """The IPv6 packet in a frame, without padding behind it; None if there is no whole one."""
    packet = frame[_ETHERNET:]
    if len(packet) < _IPV6 or packet[0] >> 4 != 6:
        return None
    end = _IPV6 + int.from_bytes(packet[4:6], "big")
    return packet[:end] if end <= len(packet) else None


def answer(frame: bytes, reason: int, source: int) -> bytes | None:
    """The ICMPv6 error, as an Ethernet frame, to the sender of a frame that a switch gave up. `reason`: the verdict in
    the packet-in. `source`: the switch's IPv6 address. None: there is nothing to answer."""
    packet = _packet(frame)
    if packet is None or not may_answer(frame):
        return None
    head = _head(packet, reason)
    if head is None:
        return None
    message = head + packet[: MIN_MTU - _IPV6 - len(head)]
    ends = source.to_bytes(16, "big") + packet[8:24]
    message = message[:2] + struct.pack("!H", checksum(ends, message)) + message[4:]
    ipv6 = struct.pack("!IHBB", 6 << 28, len(message), _ICMPV6, HOP_LIMIT) + ends
    return frame[6:12] + frame[0:6] + b"\x86\xdd" + ipv6 + message


def _head(packet: bytes, reason: int) -> bytes | None:
    """Type, code, checksum 0 and the word behind it; None: nobody is told of this verdict."""
    if reason == PUNT_NO_ROUTE:
        return struct.pack("!BBHI", DESTINATION_UNREACHABLE, 0, 0, 0)
    if reason == PUNT_HOP_LIMIT:
        return struct.pack("!BBHI", TIME_EXCEEDED, 0, 0, 0)
    problem = sid_problem(packet) if reason in (PUNT_SID_EXHAUSTED, PUNT_BAD_SRH) else None
    return None if problem is None else struct.pack("!BBHI", PARAMETER_PROBLEM, problem[0], 0, problem[1])


def checksum(ends: bytes, message: bytes) -> int:
    """Internet checksum of an ICMPv6 message with its pseudo header (RFC 4443, 2.3); `ends`: both addresses."""
    data = ends + struct.pack("!II", len(message), _ICMPV6) + message
    data += b"\0" * (len(data) & 1)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


@dataclass
class TokenBucket:
    """At most `rate` a second in the long run and `burst` at once (RFC 4443, 2.4 f)."""

    rate: float = 100.0
    burst: float = 50.0
    clock: Callable[[], float] = time.monotonic
    _tokens: float = field(init=False)
    _filled: float = field(init=False)

    def __post_init__(self) -> None:
        self._tokens, self._filled = self.burst, self.clock()

    def take(self) -> bool:
        """Return whether one more may go now."""
        now = self.clock()
        self._tokens = min(self.burst, self._tokens + (now - self._filled) * self.rate)
        self._filled = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


class Responder:
    """Answers packet-ins of all switches; the handler to give to `FabricClient`."""

    def __init__(self, node_ids: Mapping[int, int], rate: float = 100.0, burst: float = 50.0) -> None:
        """`node_ids`: device id -> node id, whose locator is the switch's address. `rate`, `burst`: a switch."""
        self._sources = {device: address.locator(node) for device, node in node_ids.items()}
        self._buckets = {device: TokenBucket(rate, burst) for device in node_ids}
        self.answered = 0
        self.suppressed = 0

    async def __call__(self, switch: SwitchClient, frame: bytes, header: dict[str, int]) -> None:
        device = switch.target.device_id
        reply = answer(frame, header["reason"], self._sources[device])
        if reply is None:
            return
        if not self._buckets[device].take():
            self.suppressed += 1
            return
        self.answered += 1
        await switch.packet_out(reply)
