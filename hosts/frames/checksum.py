# SPDX-License-Identifier: Apache-2.0
"""CRC-32 (IEEE 802.3, reflected, as in the ICRC) sixteen bytes a step, and the Internet checksum (RFC 1071)."""

from __future__ import annotations

from typing import Any

import numpy as np

from detour.base.jit import inner
from detour.hosts.frames.octets import load64le

CRC_START = np.int64(0xFFFFFFFF)
_SLICES = 16


def _tables() -> Any:
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
def _slice8(word: int, row: int) -> Any:
    """Remainder of the eight bytes of `word` (first byte lowest) with `row` - 7 bytes of zeros behind them."""
    crc = np.int64(0)
    for k in range(8):
        crc ^= np.int64(_TABLE[row - k, (word >> (8 * k)) & 0xFF])
    return crc


@inner
def crc32_word(word: int, crc: Any) -> Any:
    """Carries CRC register `crc` over eight bytes, the first one the lowest of `word`."""
    return _slice8(word ^ crc, np.int64(7))


@inner
def crc32_update(buf: Any, start: int, end: int, crc: Any) -> Any:
    """Carries CRC register `crc` (initially `CRC_START`, finally to be inverted) over `buf[start:end]`."""
    i = start
    while i + 16 <= end:
        crc = _slice8(load64le(buf, i) ^ crc, np.int64(15)) ^ _slice8(load64le(buf, i + 8), np.int64(7))
        i += 16
    while i < end:
        crc = (crc >> 8) ^ np.int64(_TABLE[0, (crc ^ np.int64(buf[i])) & 0xFF])
        i += 1
    return crc


@inner
def sum16(buf: Any, start: int, end: int) -> Any:
    """Sum of the 16-bit words of `buf[start:end]` in little-endian order, not yet folded; odd ends get a zero.

    The one's complement sum does not care in which byte order it is formed, so this one reads eight bytes a
    step and the result is swapped once (RFC 1071, 2B)."""
    total = np.int64(0)
    i = start
    while i + 8 <= end:
        word = load64le(buf, i)
        total += (word & 0xFFFFFFFF) + ((word >> 32) & 0xFFFFFFFF)
        i += 8
    shift = 0
    while i < end:
        total += np.int64(buf[i]) << shift
        shift ^= 8
        i += 1
    return total


@inner
def swap_words(value: int) -> Any:
    """Sum of the 16-bit words of a 64-bit big-endian number, as `sum16` would have read it from memory."""
    total = np.int64(0)
    for k in range(4):
        word = (value >> (16 * k)) & 0xFFFF
        total += ((word & 0xFF) << 8) | (word >> 8)
    return total


@inner
def fold16(total: int) -> int:
    """One's complement sum in network order from a sum formed in little-endian order."""
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return ((total & 0xFF) << 8) | (total >> 8)
