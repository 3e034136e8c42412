# SPDX-License-Identifier: Apache-2.0
"""The Internet checksum (RFC 1071), and the pattern of payloads whose sums are known before.

Byte n of a stream is byte n mod `PERIOD` of the pattern. `g.sums` holds the sums of its beginnings, so that a sender
knows the sum of any piece without reading it; receivers add up what has come.
"""

from __future__ import annotations

import numpy as np

from detour.base.jit import inner, int64
from detour.base.raw import compare_bytes, load8, load32, load64, move_bytes, set_bytes
from detour.hosts.ip.layout import LONGEST_FRAME, PERIOD, StackGlobals

_LOW = int64(0xFFFFFFFF)


def make_pattern(seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """The pattern, as long as a period and the longest frame, and the sums of its beginnings."""
    one = np.random.default_rng(seed).integers(0, 256, PERIOD, np.uint8)
    length = PERIOD + LONGEST_FRAME
    pattern = np.resize(one, length)
    weighted = pattern.astype(np.int64) << np.where(np.arange(length) % 2 == 0, 8, 0)
    return pattern, np.concatenate([np.zeros(1, np.int64), np.cumsum(weighted)]).astype(np.int32)


@inner()
def fold(total: int) -> int:
    """A sum of 16-bit words, not negative, as one word."""
    total = (total & _LOW) + (total >> 32)
    total = (total & 0xFFFF) + (total >> 16)
    total = (total & 0xFFFF) + (total >> 16)
    return (total & 0xFFFF) + (total >> 16)


@inner()
def words(value: int) -> int:
    """Sum of the four words of a 64-bit one. (::ffff: of a mapped IPv4 address counts as 0.)"""
    return (value & 0xFFFF) + ((value >> 16) & 0xFFFF) + ((value >> 32) & 0xFFFF) + ((value >> 48) & 0xFFFF)


@inner()
def swapped(word: int) -> int:
    """A 16-bit word with its bytes exchanged: what the sum of the same bytes one place further is."""
    return ((word & 0xFF) << 8) | (word >> 8)


@inner()
def sum_bytes(address: int, length: int) -> int:
    """Sum of `length` bytes as big-endian words."""
    total = int64(0)
    eights = length >> 3
    for k in range(eights):
        word = load64(address + 8 * k)
        total += (word & _LOW) + ((word >> 32) & _LOW)
    at = address + 8 * eights
    if length & 4:
        total += load32(at) & _LOW
        at += 4
    if length & 2:
        total += load8(at) | (load8(at + 1) << 8)
        at += 2
    if length & 1:
        total += load8(at)
    return swapped(fold(total))


@inner()
def put_pattern(g: StackGlobals, address: int, place: int, length: int) -> None:
    """Writes the bytes of a stream from `place` on."""
    move_bytes(address, g.pattern + place % PERIOD, length)


@inner()
def put_zeros(address: int, length: int) -> None:
    """An elided payload, as far as it is stored."""
    set_bytes(address, 0, length)


@inner()
def pattern_sum(g: StackGlobals, place: int, length: int) -> int:
    """Sum of the bytes of a stream from `place` on, at an even place of the packet."""
    first = place % PERIOD
    total = load32(g.sums + 4 * (first + length)) - load32(g.sums + 4 * first)
    return swapped(fold(total)) if first & 1 else total


@inner()
def is_pattern(g: StackGlobals, address: int, place: int, length: int) -> bool:
    """Whether bytes are those of a stream from `place` on."""
    return compare_bytes(address, g.pattern + place % PERIOD, length) == 0
