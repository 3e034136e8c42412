# SPDX-License-Identifier: Apache-2.0
"""Random packets for a uSID node: every field that it reads at, below and beyond its bounds; seeded.

`PacketMaker.packet` is one IPv6 packet, perhaps with padding behind it. The flow label numbers packets, so that they
can be told apart at the other end.
"""

from __future__ import annotations

import ipaddress
import random
import struct

from tests.differential.rfc.model import Node, Prefix

BLOCK = 0xFCBBBB00
NODE = 1
FUNCTION_PORTS = {0xE003: 3, 0xE004: 4}
OWN = (NODE, *FUNCTION_PORTS)
FOREIGN_FUNCTIONS = (0xE005, 0xE00F, 0xFFFF, 0xE000, 0xF123)
"""uSIDs of the local range that are not this node's; the first two have routes"""
ELSEWHERE = (2, 0x8005, 0x77, 0)
SOURCE = int(ipaddress.IPv6Address("fd00:1::1"))
ROUTES = {
    "fcbb:bb00:2::/48": 2, "fcbb:bb00:8005::/48": 5, "fcbb:bb00:0:2::/64": 2, "fcbb:bb00:e005::/48": 2,
    "fcbb:bb00:e00f::/48": 5, "fd00:7::/32": 4,
}  # fmt: skip

HOP_BY_HOP, UDP, IN_IPV6, ROUTING, FRAGMENT, ICMPV6, NOTHING, DESTINATION = 0, 17, 41, 43, 44, 58, 59, 60
SRH = 4
TRANSIT = b"\0\x3e\x04\0\0\x04\xd2"
"""the rest of a Transit Measurement header behind Next Header: 1234 ticks"""
ROUTER_ALERT = b"\0\x05\x02\0\0\x01\0"
LONGEST_BODY = 3800
"""bytes; the engine's frames are not much longer"""
MAX_LABEL = (1 << 20) - 2


def number(text: str) -> int:
    """An address as a number."""
    return int(ipaddress.IPv6Address(text))


def usids(ids: list[int]) -> int:
    """A uSID list as an address."""
    value = BLOCK
    for position in range(6):
        value = value << 16 | (ids[position] if position < len(ids) else 0)
    return value


def prefix(text: str) -> tuple[int, int]:
    """`ADDRESS/LENGTH` as numbers."""
    address, length = text.split("/")
    return number(address), int(length)


def node() -> Node:
    """The node that these packets are for."""
    sids = [Prefix(usids([NODE]), 48, None)]
    for function, port in FUNCTION_PORTS.items():
        sids.append(Prefix(usids([function]), 48, port))
        sids.append(Prefix(usids([NODE, function]), 64, port))
    routes = [Prefix(*prefix(text), port) for text, port in ROUTES.items()]
    return Node(BLOCK, NODE, tuple(sids), tuple(routes))


def ipv6(dst: int, label: int, hop_limit: int, body: bytes, following: int, src: int = SOURCE) -> bytes:
    """A packet."""
    head = struct.pack("!IHBB", 6 << 28 | label, len(body), following, hop_limit)
    return head + src.to_bytes(16, "big") + dst.to_bytes(16, "big") + body


def udp(size: int) -> bytes:
    """A datagram with a checksum that nobody checks on the way."""
    return struct.pack("!HHHH", 1000, 4791, 8 + size, 0xBEEF) + bytes(size)


class PacketMaker:
    """`tame`: only what the kernel takes in as any router would, so that it can be compared with."""

    def __init__(self, seed: int | str, tame: bool = False) -> None:
        self.rng = random.Random(f"usid {seed}")
        self.tame = tame
        self._label = 0

    def packet(self) -> bytes:
        """The next packet."""
        self._label = self._label % MAX_LABEL + 1
        rng = self.rng
        hop_limit = rng.choice((0, 1, 2, 3, 4, 64, 64, 64, 255))
        body, following = self._body()
        while len(body) > LONGEST_BODY:
            body, following = self._body()
        data = ipv6(self._destination(), self._label, hop_limit, body, following, self._source())
        return self._damage(data) if rng.random() < 0.15 else data

    # -- addresses

    def list(self, most: int = 6) -> list[int]:
        """A uSID list: own ones first, often."""
        rng = self.rng
        own = [rng.choice(OWN) for _ in range(rng.choice((0, 1, 1, 1, 2, 3, 5)))]
        kind = rng.random()
        if kind < 0.25:
            own = [NODE, rng.choice(list(FUNCTION_PORTS))]
        elif kind < 0.45:
            own = [NODE] * rng.choice((1, 1, 1, 2)) + [rng.choice(FOREIGN_FUNCTIONS)]
        others = [rng.choice(ELSEWHERE + FOREIGN_FUNCTIONS[:2]) for _ in range(rng.choice((0, 0, 1, 2, 3, 4)))]
        return (own + others)[:most]

    def _destination(self) -> int:
        kind = self.rng.random()
        if kind < 0.85:
            return usids(self.list()) | (kind < 0.02)
        if kind < 0.93:
            return number("fd00:7::1")
        return number(self.rng.choice(("fd00:9::1", "fcbb:bb01::1", "2001:db8::1", "ff02::1", "ff05::2", "::1")))

    def _source(self) -> int:
        if self.rng.random() < 0.95:
            return SOURCE
        return number(
            self.rng.choice(("ff02::1", "ff0e::7", "::", "::1", "fe80::1", "febf::1", "fec0::1", "2001:db8::1"))
        )

    # -- what is inside

    def _body(self, depth: int = 0) -> tuple[bytes, int]:
        """Everything behind an IPv6 header, and the number of its first header."""
        rng = self.rng
        body, following = self._upper(depth)
        if rng.random() < 0.06:
            body, following = self._options(following) + body, DESTINATION
        if rng.random() < 0.05:
            offset = rng.choice((0, 0, 1, 185)) << 3
            body, following = struct.pack("!BBHI", following, 0, offset | rng.randrange(2), 7) + body, FRAGMENT
        if rng.random() < 0.5:
            body, following = self._routing(following) + body, ROUTING
            if rng.random() < 0.03 and not self.tame:
                body = self._routing(following) + body
        for _ in range(rng.choice((0,) * 7 + (1, 1, 2))):
            body, following = self._options(following) + body, DESTINATION
        if rng.random() < 0.02 and not self.tame:
            body, following = self._options(HOP_BY_HOP) + self._options(following) + body, DESTINATION
        if rng.random() < 0.25:
            body, following = self._hop_by_hop(following) + body, HOP_BY_HOP
        return body, following

    def _upper(self, depth: int) -> tuple[bytes, int]:
        rng = self.rng
        kind = rng.random()
        if kind < 0.5:
            return udp(rng.randrange(64)), UDP
        if kind < 0.55:
            return udp(0)[: rng.randrange(8)], UDP
        if kind < 0.75 and depth < 2:
            return self._inner(depth), IN_IPV6
        if kind < 0.85:
            return bytes((rng.choice((1, 3, 4, 127, 128, 129, 137, 200)), 0, 0, 0)) * rng.choice((0, 1, 4)), ICMPV6
        return bytes(rng.randrange(12)), rng.choice((NOTHING, 6, 50, 51, 132, 253))

    def _inner(self, depth: int) -> bytes:
        rng = self.rng
        body, following = self._body(depth + 1)
        hop_limit = rng.choice((0, 1, 2, 3, 64, 64))
        data = bytearray(ipv6(self._destination(), rng.randrange(1 << 20), hop_limit, body, following, self._source()))
        kind = rng.random()
        if kind < 0.15:
            data[0] = rng.choice((4, 5, 0, 15)) << 4
        elif kind < 0.25:
            data[4:6] = struct.pack("!H", max(0, len(body) + rng.choice((-9, -1, 1, 8, 60000))) & 0xFFFF)
        elif kind < 0.3:
            del data[rng.randrange(len(data)) :]
        return bytes(data)

    def _options(self, following: int) -> bytes:
        """A header of options that nobody has to know."""
        if self.tame:
            units = self.rng.choice((0, 0, 1, 2))
        else:
            units = self.rng.choice((0, 0, 0, 1, 2, 6, 7, 8, 20, 255))
        return bytes((following, units, 0x1E, 4)) + bytes(4) + b"\x1e\x06\0\0\0\0\0\0" * units

    def _hop_by_hop(self, following: int) -> bytes:
        kind = self.rng.random()
        if kind < 0.4:
            return bytes((following,)) + TRANSIT
        if kind < 0.7:
            return bytes((following,)) + ROUTER_ALERT
        if kind < 0.75 and not self.tame:
            return bytes((following, 0, 0x3E, self.rng.choice((0, 3, 5)))) + bytes(4)
        return self._options(following)

    def _routing(self, following: int) -> bytes:
        """A routing header whose fields are right, next to right, or anything."""
        rng = self.rng
        count = rng.choice((1, 1, 2, 2, 3, 4, 7, 8, 9, 10, 16, 0))
        if count == 16 and not self.tame:
            count = rng.choice((16, 40, 127))
        segments = b"".join(self._segment().to_bytes(16, "big") for _ in range(min(count, 12)))
        segments += bytes(16) * (count - min(count, 12))
        left = rng.choice((0, 1, count, count - 1, count + 1, rng.randrange(count + 1)))
        last, length = count - 1, 2 * count
        kind = rng.random()
        if kind < 0.1:
            last = rng.choice((count, count + 1, count - 2, 0, 254, 255, rng.randrange(256)))
        elif kind < 0.15:
            left = rng.choice((254, 255, 9, 10, rng.randrange(256)))
        elif kind < 0.2:
            length = min(255, max(0, length + rng.choice((-2, -1, 1, 2, 3))))
        fixed = bytes(
            (following, length, SRH if rng.random() < 0.95 else rng.choice((0, 2, 3, 5)), left & 255, last & 255)
        )
        data = fixed + bytes(3) + segments
        size = 8 + 8 * length
        return data[:size].ljust(size, b"\0") if rng.random() < 0.9 else data

    def _segment(self) -> int:
        kind = self.rng.random()
        if kind < 0.8:
            return usids(self.list())
        return number(self.rng.choice(("fd00:7::9", "2001:db8::5", "ff02::1", "fcbb:bb01:1::")))

    # -- faults

    def _damage(self, data: bytes) -> bytes:
        """Padding, a wrong length, a cut."""
        rng = self.rng
        kind = rng.random()
        if kind < 0.3:
            return data + rng.randbytes(rng.choice((1, 6, 46)))
        made = bytearray(data)
        if kind < 0.7:
            # Shorter than what comes: the rest is padding, headers in it or not.
            made[4:6] = struct.pack("!H", rng.randrange(len(data) - 39))
        elif kind < 0.85:
            del made[40 + rng.randrange(len(data) - 39) :]
            made[4:6] = struct.pack("!H", len(made) - 40)
        elif self.tame:
            return data
        elif kind < 0.9:
            made[0] = rng.choice((0x40, 0x50, 0x70, 0))
        elif kind < 0.95:
            made[4:6] = struct.pack("!H", min(0xFFFF, len(data) - 40 + rng.choice((1, 8, 3000))))
        else:
            del made[rng.randrange(len(made)) :]
        return bytes(made)
