# SPDX-License-Identifier: Apache-2.0
"""Hash algorithms of v1model, as BMv2 computes them: `name(ptr, bytes) -> i64`.

CRCs are table-driven, eight bytes at a step. The `_custom` CRCs have BMv2's initial configuration: the same
polynomials as their plain counterparts. `random` is not a function of its input.

The parameters of `crc16_custom` and `crc32_custom` can be set while the switch runs. Every calculation that names one
has a slot. It is 0 until parameters are set; then it has the address of a block of words: initial remainder, final XOR,
whether the remainder is reflected, a table that reflects bytes or leaves them as they are, and the CRC's own. The
remainder is kept reflected, so one loop serves all four ways to reflect.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from detour.engine.compiler.ir import Function, Module, Value, const
from detour.engine.compiler.runtime import loop
from detour.engine.compiler.slots import CUSTOM_CRCS


class _Crc(NamedTuple):
    """A reflected CRC: `poly` with its bits reversed."""

    bits: int
    poly: int
    init: int
    xor: int


_CRCS = {
    "crc32": _Crc(32, 0xEDB88320, 0xFFFFFFFF, 0xFFFFFFFF),
    "crc32_custom": _Crc(32, 0xEDB88320, 0xFFFFFFFF, 0xFFFFFFFF),
    "crc16": _Crc(16, 0xA001, 0, 0),
    "crc16_custom": _Crc(16, 0xA001, 0, 0),
    "crc64_custom": _Crc(64, 0xD800000000000000, 0, 0),
}
ALGORITHMS = frozenset((*_CRCS, "crcCCITT", "csum16", "cksum16", "xor16", "xor32", "identity", "random"))


def hash_function(module: Module, algorithm: str) -> str:
    """Add the algorithm to the module unless it is there; return the function's name."""
    name = f"hash_{algorithm}"
    if name not in module.runtime:
        module.runtime.add(name)
        f = module.function(f"internal i64 @{name}(ptr %data, i64 %n) nounwind")
        _WRITERS[algorithm](module, f)
    return name


def remainder(byte: int, polynomial: int) -> int:
    """Return the remainder of a byte, or the next one of a remainder with a byte added; all reflected."""
    for _ in range(8):
        byte = (byte >> 1) ^ (polynomial if byte & 1 else 0)
    return byte


def crc_table(crc: _Crc) -> list[int]:
    """T[k][b] for k in 0..7: the CRC of byte b followed by k zero bytes."""
    first = [remainder(byte, crc.poly) for byte in range(256)]
    rows = [first]
    for _ in range(7):
        rows.append([first[r & 0xFF] ^ (r >> 8) for r in rows[-1]])
    return [r for row in rows for r in row]


def _write_crc(module: Module, f: Function, crc: _Crc) -> None:
    table = module.table(f"table_{crc.bits}_{crc.poly:x}", crc.bits, crc_table(crc))
    state = f.variable(64, crc.init)
    count = Value(64, "%n")
    words = f.lshr(count, 3)

    def entry(row: Value, byte: Value) -> Value:
        at = f.op("add", f.op("and", byte, const(64, 0xFF)), f.shl(row, 8))
        return f.resize(f.load(crc.bits, f.at(table, f.op("mul", at, const(64, crc.bits // 8)))), 64)

    def eight(i: Value) -> None:
        x = f.op("xor", f.load(64, f.at("%data", f.shl(i, 3))), f.load(64, state, 8))
        r = const(64, 0)
        for k in range(8):
            r = f.op("xor", r, entry(const(64, 7 - k), f.lshr(x, 8 * k)))
        f.store(r, state, 8)

    loop(f, words, eight)
    # The up to seven bytes that are left at once as well: what is read behind them is not used.
    left = f.op("and", count, const(64, 7))
    x = f.op("xor", f.load(64, f.at("%data", f.shl(words, 3))), f.load(64, state, 8))
    f.store(f.raw("lshr", f.load(64, state, 8), f.shl(left, 3)), state, 8)

    def one(i: Value) -> None:
        row = f.op("sub", f.op("sub", left, const(64, 1)), i)
        part = entry(row, f.raw("lshr", x, f.shl(i, 3)))
        f.store(f.op("xor", part, f.load(64, state, 8)), state, 8)

    loop(f, left, one)
    f.ret(f.op("xor", f.load(64, state, 8), const(64, crc.xor)))


def _write_ccitt(module: Module, f: Function) -> None:
    """CRC-16/CCITT-FALSE: not reflected, initial value 0xFFFF."""
    values = []
    for byte in range(256):
        r = byte << 8
        for _ in range(8):
            r = ((r << 1) ^ (0x1021 if r & 0x8000 else 0)) & 0xFFFF
        values.append(r)
    table = module.table("table_ccitt", 16, values)
    state = f.variable(64, 0xFFFF)

    def one(i: Value) -> None:
        s = f.load(64, state, 8)
        index = f.op("xor", f.resize(f.load(8, f.at("%data", i)), 64), f.lshr(s, 8))
        t = f.resize(f.load(16, f.at(table, f.shl(f.op("and", index, const(64, 0xFF)), 1))), 64)
        f.store(f.op("and", f.op("xor", t, f.shl(s, 8)), const(64, 0xFFFF)), state, 8)

    loop(f, Value(64, "%n"), one)
    f.ret(f.load(64, state, 8))


def _write_checksum(module: Module, f: Function) -> None:
    """The internet checksum: halves of 64-bit words are added in memory order, then folded and swapped."""
    total = f.variable(64)
    count = Value(64, "%n")

    def add(v: Value) -> None:
        f.store(f.op("add", f.load(64, total, 8), f.resize(v, 64)), total, 8)

    def eight(i: Value) -> None:
        v = f.load(64, f.at("%data", f.shl(i, 3)))
        add(f.lshr(v, 32))
        add(f.resize(v, 32))

    loop(f, f.lshr(count, 3), eight)
    for bit, bits in ((4, 32), (2, 16), (1, 8)):
        some, none = f.block("tail"), f.block("next")
        f.branch(f.compare("ne", f.op("and", count, const(64, bit)), const(64, 0)), some, none)
        f.enter(some)
        add(f.load(bits, f.at("%data", f.op("and", count, const(64, -2 * bit)))))
        f.enter(none)
    s = f.load(64, total, 8)
    for _ in range(4):  # 64 bits fold to 16 in at most four steps
        s = f.op("add", f.op("and", s, const(64, 0xFFFF)), f.lshr(s, 16))
    f.ret(f.resize(f.swap_bytes(f.op("xor", f.resize(s, 16), const(16, -1))), 64))


def _write_xor(module: Module, f: Function, bits: int) -> None:
    """XOR of big-endian words; the last one is filled with zeros on the right."""
    state = f.variable(64)

    def one(i: Value) -> None:
        # Byte i goes to position i modulo the word, the first at the top.
        position = f.op("and", i, const(64, bits // 8 - 1))
        shift = f.shl(f.op("sub", const(64, bits // 8 - 1), position), 3)
        v = f.raw("shl", f.resize(f.load(8, f.at("%data", i)), 64), shift)
        f.store(f.op("xor", f.load(64, state, 8), v), state, 8)

    loop(f, Value(64, "%n"), one)
    f.ret(f.load(64, state, 8))


def _write_identity(module: Module, f: Function) -> None:
    """The first eight bytes as a number."""
    state = f.variable(64)
    count = Value(64, "%n")
    limit = f.select(f.compare("ult", count, const(64, 8)), count, const(64, 8))

    def one(i: Value) -> None:
        v = f.resize(f.load(8, f.at("%data", i)), 64)
        f.store(f.op("or", f.shl(f.load(64, state, 8), 8), v), state, 8)

    loop(f, limit, one)
    f.ret(f.load(64, state, 8))


_WRITERS: dict[str, Callable[[Module, Function], None]] = {
    "crcCCITT": _write_ccitt,
    "csum16": _write_checksum,
    "cksum16": _write_checksum,
    "xor16": lambda m, f: _write_xor(m, f, 16),
    "xor32": lambda m, f: _write_xor(m, f, 32),
    "identity": _write_identity,
}
_WRITERS.update({name: lambda m, f, c=crc: _write_crc(m, f, c) for name, crc in _CRCS.items()})


# -- CRCs whose parameters can be set

_INITIAL, _XOR, _REFLECTED, _BYTES, _TABLE = 0, 1, 2, 3, 3 + 256
_WORDS = _TABLE + 256


@dataclass(frozen=True, slots=True)
class CrcParameters:
    """Parameters of a CRC in the usual notation: the polynomial without its highest term, most significant bit
    first."""

    polynomial: int
    initial: int
    final_xor: int
    data_reflected: bool
    remainder_reflected: bool


def reflected(value: int, bits: int) -> int:
    return int(f"{value:0{bits}b}"[::-1], 2)


def words(crc: CrcParameters, bits: int) -> NDArray[np.uint64]:
    """The block that compiled code reads."""
    block = np.zeros(_WORDS, dtype=np.uint64)
    block[_INITIAL], block[_XOR] = reflected(crc.initial, bits), crc.final_xor
    block[_REFLECTED] = int(crc.remainder_reflected)
    polynomial = reflected(crc.polynomial, bits)
    for byte in range(256):
        block[_BYTES + byte] = byte if crc.data_reflected else reflected(byte, 8)
        block[_TABLE + byte] = remainder(byte, polynomial)
    return block


def custom_crc_function(module: Module, algorithm: str) -> str:
    """Add `(ptr block, ptr data, i64 bytes) -> i64` unless it is there; a block of null: the initial parameters."""
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
    block, state = f.value(f"inttoptr {address.typed} to ptr"), f.alloca("i64")

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
