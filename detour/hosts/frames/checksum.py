# SPDX-License-Identifier: Apache-2.0
"""CRC-32 (IEEE 802.3, reflected, as in the ICRC) sixteen bytes a step, and the Internet checksum (RFC 1071)."""

from __future__ import annotations

import numpy as np

from detour.base.jit import inner, int64
from detour.base.memory import load8, load32, load64

CRC_START = int64(0xFFFFFFFF)
_SLICES = 16
_LOW = int64(0xFFFFFFFF)


def _tables() -> np.ndarray:
    """Row k maps a byte to its remainder with k zero bytes behind it (slicing, Kounavis and Berry 2005)."""
    table = np.zeros((_SLICES, 256), np.uint32)
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0xEDB88320 if crc & 1 else 0)
        table[0, byte] = crc
    for k in range(1, _SLICES):
        table[k] = (table[k - 1] >> 8) ^ table[0][table[k - 1] & 0xFF]
    return table


_TABLE = _tables()


@inner
def _slice8(word: int, row: int) -> int:
    """Remainder of the eight bytes of `word` (first byte lowest) with `row` - 7 bytes of zeros behind them."""
    crc = int64(0)
    for k in range(8):
        crc ^= int64(_TABLE[row - k, (word >> (8 * k)) & 0xFF])
    return crc


@inner
def crc32_word(word: int, crc: int) -> int:
    """Carry CRC register `crc` over eight bytes, the first one the lowest of `word`."""
    return _slice8(word ^ crc, int64(7))


@inner
def crc32_update(at: int, end: int, crc: int) -> int:
    """Carry CRC register `crc` (initially `CRC_START`, finally to be inverted) over the bytes from `at` to `end`."""
    while at + 16 <= end:
        crc = _slice8(load64(at) ^ crc, int64(15)) ^ _slice8(load64(at + 8), int64(7))
        at += 16
    while at < end:
        crc = (crc >> 8) ^ int64(_TABLE[0, (crc ^ load8(at)) & 0xFF])
        at += 1
    return crc


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
