# SPDX-License-Identifier: Apache-2.0
"""Packets for the tests, built with scapy: a codec that shares nothing with the project's own."""

from __future__ import annotations

import ipaddress
import struct

from scapy.config import conf
from scapy.layers.inet import UDP
from scapy.layers.inet6 import (
    HBHOptUnknown,
    IPv6,
    IPv6ExtHdrDestOpt,
    IPv6ExtHdrHopByHop,
    IPv6ExtHdrSegmentRouting,
    RouterAlert,
)
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

# The UDP source port is the path and may be any number: no guessing of upper layers from ports.
conf.debug_dissector = False

BLOCK = "fcbb:bb00"
SOURCE_MAC = "02:00:00:00:00:01"
SWITCH_MAC = "02:00:00:00:00:02"
ROCE = 4791


def host(group: int, switch: int = 0, index: int = 0) -> str:
    """Address of a host."""
    return str(ipaddress.IPv6Address(f"fd00:{group:x}:{switch:x}:{index:x}::1"))


def usids(*ids: int) -> str:
    """The block and up to six uSIDs."""
    assert len(ids) <= 6
    groups = [f"{i:x}" for i in (*ids, 0, 0, 0, 0, 0, 0)[:6]]
    return str(ipaddress.IPv6Address(BLOCK + ":" + ":".join(groups)))


def number(address: str) -> int:
    """An address as a number, for table entries."""
    return int(ipaddress.IPv6Address(address))


def transit(delay: int) -> Packet:
    """Hop-by-hop header with the Transit Measurement option."""
    return IPv6ExtHdrHopByHop(options=[HBHOptUnknown(otype=0x3E, optlen=4, optdata=struct.pack("!I", delay))])


def router_alert() -> Packet:
    """Hop-by-hop header with a Router Alert option."""
    return IPv6ExtHdrHopByHop(options=[RouterAlert()])


def options(octets: int = 8) -> Packet:
    """Destination options of so many octets in all, with one that nobody knows and nobody minds."""
    size = octets - 4
    return IPv6ExtHdrDestOpt(options=[HBHOptUnknown(otype=0x1E, optlen=size, optdata=bytes(size))], autopad=0)


def srh(segments: list[str], left: int) -> Packet:
    """Segment routing header; `segments[0]` is the last one to visit."""
    return IPv6ExtHdrSegmentRouting(addresses=segments, segleft=left, lastentry=len(segments) - 1)


def ip(dst: str, src: str | None = None, hlim: int = 64, **fields: object) -> Packet:
    """An IPv6 header."""
    return IPv6(src=src or host(0), dst=dst, hlim=hlim, **fields)


def udp(sport: int = 1000, dport: int = ROCE, payload: bytes = b"payload of a test packet") -> Packet:
    """A UDP datagram; its checksum is none of the switch's business, so it is a constant."""
    return UDP(sport=sport, dport=dport, chksum=0xBEEF) / Raw(payload)


def frame(*layers: Packet) -> Packet:
    """Ethernet in front of `layers`, every length filled in: what is left is a packet of fixed bytes."""
    packet: Packet = Ether(src=SOURCE_MAC, dst=SWITCH_MAC)
    for layer in layers:
        packet = packet / layer
    return Ether(bytes(packet))


def delay_of(data: bytes) -> int:
    """The accumulated delay in a frame whose first extension header is the Transit Measurement one."""
    return struct.unpack_from("!I", data, 14 + 40 + 4)[0]
