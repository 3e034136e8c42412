# SPDX-License-Identifier: Apache-2.0
"""v1model's hash algorithms on bytes, as `compiler.hashes` makes native code of them."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import partial, reduce


def _words(data: bytes, size: int) -> list[int]:
    padded = data + bytes(-len(data) % size)
    return [int.from_bytes(padded[at : at + size], "big") for at in range(0, len(padded), size)]


def _checksum(data: bytes) -> int:
    total = sum(_words(data, 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def _xor(data: bytes, size: int) -> int:
    return reduce(lambda a, b: a ^ b, _words(data, size), 0)


def _reflected_crc(data: bytes, polynomial: int) -> int:
    remainder = 0
    for byte in data:
        remainder ^= byte
        for _ in range(8):
            remainder = remainder >> 1 ^ (polynomial if remainder & 1 else 0)
    return remainder


def _ccitt(data: bytes) -> int:
    remainder = 0xFFFF
    for byte in data:
        remainder ^= byte << 8
        for _ in range(8):
            remainder = (remainder << 1 ^ (0x1021 if remainder & 0x8000 else 0)) & 0xFFFF
    return remainder


def _identity(data: bytes) -> int:
    return int.from_bytes(data[:8], "big")


ALGORITHMS: dict[str, Callable[[bytes], int]] = {
    "crc32": zlib.crc32,
    "crc32_custom": zlib.crc32,
    "crc16": partial(_reflected_crc, polynomial=0xA001),
    "crc16_custom": partial(_reflected_crc, polynomial=0xA001),
    "crcCCITT": _ccitt,
    "csum16": _checksum,
    "cksum16": _checksum,
    "xor16": partial(_xor, size=2),
    "xor32": partial(_xor, size=4),
    "identity": _identity,
}
