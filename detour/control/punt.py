# SPDX-License-Identifier: Apache-2.0
"""What the controller answers when a switch gives a packet up: ICMPv6 errors (RFC 4443), rate-limited.

Pure functions and a token bucket; `Responder` joins them to packet-ins and packet-outs.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from detour.control.client import SwitchClient
from detour.topo import address

# Verdicts of the data plane that the controller answers (p4src/include/headers.p4).
PUNT_HOP_LIMIT = 6
PUNT_SID_EXHAUSTED = 7

TIME_EXCEEDED = 3
PARAMETER_PROBLEM = 4
SR_UPPER_LAYER_HEADER = 4
"""code of a Parameter Problem: a SID with nothing left to do (RFC 8986, 4.1.1)"""

MIN_MTU = 1280
"""no ICMPv6 error is longer than this (RFC 4443, 2.4 c)"""
HOP_LIMIT = 64

_ETHERNET = 14
_IPV6 = 40
_HOP_BY_HOP, _ROUTING, _FRAGMENT, _ICMPV6, _DESTINATION = 0, 43, 44, 58, 60
_REDIRECT = 137


@dataclass(frozen=True)
class UpperLayer:
    """Where the extension headers of an IPv6 packet end."""

    protocol: int
    offset: int
    """from the IPv6 header on"""
    fragment: bool
    """a fragment other than the first: the upper-layer header is not in this packet"""


def upper_layer(packet: bytes) -> UpperLayer | None:
    """The upper-layer header of an IPv6 packet; None if the packet ends before it."""
    protocol, at, fragment = packet[6], _IPV6, False
    while protocol in (_HOP_BY_HOP, _ROUTING, _FRAGMENT, _DESTINATION):
        if at + 8 > len(packet):
            return None
        if protocol == _FRAGMENT:
            fragment = fragment or struct.unpack_from("!H", packet, at + 2)[0] >> 3 != 0
            length = 8
        else:
            length = 8 * (packet[at + 1] + 1)
        protocol = packet[at]
        at += length
    return UpperLayer(protocol, at, fragment)


def may_answer(frame: bytes) -> bool:
    """Whether an ICMPv6 error may answer this Ethernet frame (RFC 4443, 2.4 e)."""
    packet = frame[_ETHERNET:]
    if len(packet) < _IPV6 or packet[0] >> 4 != 6 or frame[0] & 1:
        return False
    source, destination = packet[8:24], packet[24:40]
    if source[0] == 0xFF or destination[0] == 0xFF or not any(source):
        return False
    upper = upper_layer(packet)
    if upper is None:
        return False
    if upper.protocol != _ICMPV6:
        return True
    if upper.fragment or upper.offset >= len(packet):
        return False  # it may be an error
    kind = packet[upper.offset]
    return kind >= 128 and kind != _REDIRECT


def answer(frame: bytes, reason: int, source: int) -> bytes | None:
    """The ICMPv6 error, as an Ethernet frame, to the sender of a frame that a switch gave up.

    `reason`: the verdict in the packet-in. `source`: the switch's IPv6 address. None: there is nothing to answer.
    """
    if reason not in (PUNT_HOP_LIMIT, PUNT_SID_EXHAUSTED) or not may_answer(frame):
        return None
    packet = frame[_ETHERNET:]
    if reason == PUNT_HOP_LIMIT:
        head = struct.pack("!BBHI", TIME_EXCEEDED, 0, 0, 0)
    else:
        upper = upper_layer(packet)
        head = struct.pack("!BBHI", PARAMETER_PROBLEM, SR_UPPER_LAYER_HEADER, 0, upper.offset if upper else 0)
    message = head + packet[: MIN_MTU - _IPV6 - len(head)]
    ends = source.to_bytes(16, "big") + packet[8:24]
    message = message[:2] + struct.pack("!H", checksum(ends, message)) + message[4:]
    ipv6 = struct.pack("!IHBB", 6 << 28, len(message), _ICMPV6, HOP_LIMIT) + ends
    return frame[6:12] + frame[0:6] + b"\x86\xdd" + ipv6 + message


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
        """Whether one more may go now."""
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
