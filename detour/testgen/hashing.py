# SPDX-License-Identifier: Apache-2.0
"""v1model's hash algorithms on bytes, as `compiler.hashes` makes native code of them."""

from __future__ import annotations

import binascii
import zlib
from collections.abc import Callable
from functools import partial, reduce

from detour.engine.compiler.hashes import remainder


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


def _crc16(data: bytes) -> int:
    return reduce(lambda crc, byte: remainder(crc ^ byte, 0xA001), data, 0)


def _ccitt(data: bytes) -> int:
    return binascii.crc_hqx(data, 0xFFFF)


def _identity(data: bytes) -> int:
    return int.from_bytes(data[:8], "big")


ALGORITHMS: dict[str, Callable[[bytes], int]] = {
    "crc32": zlib.crc32,
    "crc32_custom": zlib.crc32,
    "crc16": _crc16,
    "crc16_custom": _crc16,
    "crcCCITT": _ccitt,
    "csum16": _checksum,
    "cksum16": _checksum,
    "xor16": partial(_xor, size=2),
    "xor32": partial(_xor, size=4),
    "identity": _identity,
}
