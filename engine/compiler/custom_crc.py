# SPDX-License-Identifier: Apache-2.0
"""The CRCs whose parameters are set while the switch runs: `crc16_custom` and `crc32_custom`.

Every calculation that names one has a slot. It is 0 until parameters are set; then it has the address of a block of
words: initial remainder, final XOR, whether the remainder is reflected, a table that reflects bytes or leaves them as
they are, and the CRC's own. The remainder is kept reflected, so one loop serves all four ways to reflect.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from detour.engine.compiler.hashes import hash_function
from detour.engine.compiler.ir import Module, Value, const
from detour.engine.compiler.runtime import loop
from detour.engine.compiler.slots import CUSTOM_CRCS

_INITIAL, _XOR, _REFLECTED, _BYTES, _TABLE = 0, 1, 2, 3, 3 + 256
_WORDS = _TABLE + 256


@dataclass(frozen=True, slots=True)
class CrcParameters:
    """Of a CRC in the usual notation: the polynomial without its highest term, most significant bit first."""

    polynomial: int
    initial: int
    final_xor: int
    data_reflected: bool
    remainder_reflected: bool


def reflected(value: int, bits: int) -> int:
    """The bits in the opposite order."""
    return int(f"{value:0{bits}b}"[::-1], 2)


def words(crc: CrcParameters, bits: int) -> NDArray[np.uint64]:
    """The block that compiled code reads."""
    block = np.zeros(_WORDS, dtype=np.uint64)
    block[_INITIAL], block[_XOR] = reflected(crc.initial, bits), crc.final_xor
    block[_REFLECTED] = int(crc.remainder_reflected)
    polynomial = reflected(crc.polynomial, bits)
    for byte in range(256):
        block[_BYTES + byte] = byte if crc.data_reflected else reflected(byte, 8)
        remainder = byte
        for _ in range(8):
            remainder = remainder >> 1 ^ (polynomial if remainder & 1 else 0)
        block[_TABLE + byte] = remainder
    return block


def custom_crc_function(module: Module, algorithm: str) -> str:
    """Adds `(ptr block, ptr data, i64 bytes) -> i64` unless it is there; a block of null: the initial parameters."""
    name, bits = f"chosen_{algorithm}", CUSTOM_CRCS[algorithm]
    plain = hash_function(module, algorithm)
    if name in module.runtime:
        return name
    module.runtime.add(name)
    f = module.function(f"internal i64 @{name}(i64 %block, ptr %data, i64 %n) nounwind")
    address = Value(64, "%block")
    initial, chosen = f.block("initial"), f.block("chosen")
    f.branch(f.compare("eq", address, const(64, 0)), initial, chosen)
    f.enter(initial)
    f.ret(f.call(64, plain, ["%data", Value(64, "%n")]))
    f.enter(chosen)
    block = f.value(f"inttoptr {address.typed} to ptr")
    state = f.alloca("i64")

    def word(at: int, index: Value | None = None) -> Value:
        place = f.at(block, 8 * at)
        return f.load(64, place if index is None else f.at(place, f.shl(index, 3)), 8)

    f.store(word(_INITIAL), state, 8)

    def one(i: Value) -> None:
        remainder = f.load(64, state, 8)
        byte = word(_BYTES, f.resize(f.load(8, f.at("%data", i)), 64))
        index = f.op("and", f.op("xor", byte, remainder), const(64, 0xFF))
        f.store(f.op("xor", word(_TABLE, index), f.lshr(remainder, 8)), state, 8)

    loop(f, Value(64, "%n"), one)
    remainder = f.resize(f.load(64, state, 8), bits)
    straight = f.reverse_bits(remainder)
    kept = f.compare("ne", word(_REFLECTED), const(64, 0))
    f.ret(f.op("xor", f.resize(f.select(kept, remainder, straight), 64), word(_XOR)))
    return name
