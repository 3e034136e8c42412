# SPDX-License-Identifier: Apache-2.0
"""Unaligned loads and stores of integers in a `uint8` array, in network order unless the name says otherwise.

Values are `int64` (64-bit words as their two's complement), because Numba turns a mixture of `int64` and `uint64` into
floats. Indices must be valid: there is no bounds check, as everywhere in native code.
"""

from __future__ import annotations

from typing import Any

from detour.base import raw
from detour.base.jit import inner, intrinsic


def _load(load_at: Any) -> Any:
    """`load(buf, i)`."""

    def load(buf: Any, i: int) -> int:
        return load_at(buf.ctypes.data + i)

    return inner(load, forceinline=True)


def _store(store_at: Any) -> Any:
    """`store(buf, i, value)`; of the value the low bits."""

    def store(buf: Any, i: int, value: int) -> None:
        store_at(buf.ctypes.data + i, value)

    return inner(store, forceinline=True)


load16, store16 = _load(raw.load16be), _store(raw.store16be)
load32, store32 = _load(raw.load32be), _store(raw.store32be)
load64, store64 = _load(raw.load64be), _store(raw.store64be)
load64le, store32le = _load(raw.load64), _store(raw.store32)


@intrinsic(lambda word: int.from_bytes((int(word) & ((1 << 64) - 1)).to_bytes(8, "big"), "little", signed=True))
def swap64() -> Any:
    """`swap64(word)`: the 64-bit word with its bytes in the opposite order."""
    return raw.generated(1, lambda ir, builder, args: builder.bswap(args[0]))
