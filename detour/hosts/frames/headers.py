# SPDX-License-Identifier: Apache-2.0
"""Ethernet, IPv4 (RFC 791) and IPv6 (RFC 8200) headers, written at addresses."""

from __future__ import annotations

from detour.base.jit import inner, int64
from detour.base.memory import load16be, load32be, store16be, store32be, store64be
from detour.hosts.frames.checksum import sum_bytes, words

# Typed, because Numba compiles a function once per plain constant that it is called with.
ETHERNET_BYTES = int64(14)
IPV4_BYTES = int64(20)
IPV6_BYTES = int64(40)
TYPE_IPV4 = int64(0x0800)
TYPE_IPV6 = int64(0x86DD)
TYPE_ARP = int64(0x0806)


@inner
def load48(address: int) -> int:
    """A MAC."""
    return (load16be(address) << 32) | load32be(address + 2)


@inner
def store48(address: int, value: int) -> None:
    """Write a MAC."""
    store16be(address, value >> 32)
    store32be(address + 2, value)


@inner
def put_ethernet(frame: int, to: int, source: int, kind: int) -> None:
    """Write an Ethernet header."""
    store48(frame, to)
    store48(frame + 6, source)
    store16be(frame + 12, kind)


@inner
def put_ipv6(
    ip: int, flow: int, length: int, proto: int, hops: int, src_hi: int, src_lo: int, dst_hi: int, dst_lo: int
) -> None:
    """Write an IPv6 header. `flow`: traffic class << 20 | flow label; `length`: of what is behind it."""
    store32be(ip, (6 << 28) | flow)
    store32be(ip + 4, (length << 16) | (proto << 8) | hops)
    store64be(ip + 8, src_hi)
    store64be(ip + 16, src_lo)
    store64be(ip + 24, dst_hi)
    store64be(ip + 32, dst_lo)


@inner
def put_ipv4(ip: int, total: int, flags: int, ttl: int, proto: int, src: int, dst: int) -> int:
    """Write an IPv4 header with checksum 0 and return its sum."""
    store32be(ip, (0x45 << 24) | total)
    store32be(ip + 4, flags)
    store32be(ip + 8, (ttl << 24) | (proto << 16))
    store32be(ip + 12, src)
    store32be(ip + 16, dst)
    return sum_bytes(ip, IPV4_BYTES)


@inner
def pseudo_sum(src_hi: int, src_lo: int, dst_hi: int, dst_lo: int, proto: int, length: int) -> int:
    """Sum of a pseudo header, not folded."""
    return words(src_hi) + words(src_lo) + words(dst_hi) + words(dst_lo) + proto + length
