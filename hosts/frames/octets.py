# SPDX-License-Identifier: Apache-2.0
"""Unaligned loads and stores of network-order integers in a `uint8` array, one machine instruction each.

Plain functions in Python; where Numba compiles the caller, LLVM loads and byte swaps. Values are `int64`
(64-bit words as their two's complement), because Numba turns a mixture of `int64` and `uint64` into floats.
Indices must be valid: there is no bounds check, as everywhere in native code.
"""

from __future__ import annotations

from typing import Any

from detour.base.jit import WHEN_COMPILING


def load16(buf: Any, i: int) -> int:
    """Big-endian 16-bit number at `buf[i:]`."""
    return (int(buf[i]) << 8) | int(buf[i + 1])


def load32(buf: Any, i: int) -> int:
    """Big-endian 32-bit number at `buf[i:]`."""
    return int.from_bytes(buf[i : i + 4].tobytes(), "big")


def load64(buf: Any, i: int) -> int:
    """Big-endian 64-bit word at `buf[i:]`, as a signed number."""
    return int.from_bytes(buf[i : i + 8].tobytes(), "big", signed=True)


def load64le(buf: Any, i: int) -> int:
    """Little-endian 64-bit word at `buf[i:]`, as a signed number."""
    return int.from_bytes(buf[i : i + 8].tobytes(), "little", signed=True)


def store16(buf: Any, i: int, value: int) -> None:
    """Write the low 16 bits of `value` at `buf[i:]`, big-endian."""
    _put(buf, i, value, 2, "big")


def store32(buf: Any, i: int, value: int) -> None:
    """Write the low 32 bits of `value` at `buf[i:]`, big-endian."""
    _put(buf, i, value, 4, "big")


def store32le(buf: Any, i: int, value: int) -> None:
    """Write the low 32 bits of `value` at `buf[i:]`, little-endian."""
    _put(buf, i, value, 4, "little")


def store64(buf: Any, i: int, value: int) -> None:
    """Write `value` at `buf[i:]`, big-endian."""
    _put(buf, i, value, 8, "big")


def swap64(word: int) -> int:
    """The 64-bit word with its bytes in the opposite order."""
    return int.from_bytes((int(word) & ((1 << 64) - 1)).to_bytes(8, "big"), "little", signed=True)


def _put(buf: Any, i: int, value: int, size: int, order: Any) -> None:
    octets = (int(value) & ((1 << (8 * size)) - 1)).to_bytes(size, order)
    for k in range(size):
        buf[i + k] = octets[k]


WHEN_COMPILING.append("detour.hosts.frames.octets_native")
