# SPDX-License-Identifier: Apache-2.0
"""Hashes: of bytes, as `compiler.hashes` makes native code for them, and of what z3 knows of them."""

from __future__ import annotations

import binascii
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial, reduce

from detour.control.routes.hashes import crc16
from detour.engine.compiler.ir import TRUE, Value, const
from detour.engine.compiler.load import find_field
from detour.engine.compiler.model import Json, parse_hex
from detour.testgen.context import Hash, SymbolicContext
from detour.testgen.state import z3
from detour.testgen.terms import NotModelled, concatenated, folded, term_of, value_of, vector_of


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


ALGORITHMS: dict[str, tuple[int, Callable[[bytes], int]]] = {
    "crc32": (32, zlib.crc32),
    "crc32_custom": (32, zlib.crc32),
    "crc16": (16, crc16),
    "crc16_custom": (16, crc16),
    "crcCCITT": (16, lambda data: binascii.crc_hqx(data, 0xFFFF)),
    "csum16": (16, _checksum),
    "cksum16": (16, _checksum),
    "xor16": (16, partial(_xor, size=2)),
    "xor32": (32, partial(_xor, size=4)),
    "identity": (64, lambda data: int.from_bytes(data[:8], "big")),
}
"""of each the bits of its results, and the function"""
PRODUCT = "product"


def hash_of(algorithm: str, values: Iterable[Value]) -> int:
    """The hash of constants, one behind the other; or their product."""
    if algorithm == PRODUCT:
        a, b = values
        return (a.const or 0) * (b.const or 0) & (1 << a.bits) - 1
    bits = number = 0
    for value in values:
        bits, number = bits + value.bits, number << value.bits | (value.const or 0)
    return ALGORITHMS[algorithm][1]((number << -bits % 8).to_bytes((bits + 7) // 8, "big"))


# -- in symbolic execution

_BITS = 64
Parts = list[tuple[Value, Value]]
"""of a hash's input: whether each is there, and its value"""


def hashed(ctx: SymbolicContext, algorithm: str, inputs: Json, of_selector: bool = False) -> Value:
    """The hash of a calculation's input, 64 bits: a term for checksums, a variable for all others. Fields of invalid
    headers are left out, as by the engine; but compilers may copy them first, so where a test is followed nobody knows
    the hash. `of_selector`: fields that choose a member of an action profile are never copied."""
    parts: Parts = []
    with suppress(NotModelled):
        parts = [(there, value) for there, values in _inputs(ctx, inputs) for value in values]
    if ctx.given is not None and parts and algorithm in ALGORITHMS:
        known = [(folded(there), folded(value)) for there, value in parts]
        if not of_selector and any(there.const == 0 for there, _ in known):
            parts = []
        elif all(each.const is not None for part in known for each in part):
            return const(_BITS, hash_of(algorithm, (value for there, value in known if there.const)))
    if parts and algorithm in ("csum16", "cksum16") and (total := _internet_checksum(ctx, parts)) is not None:
        return total
    result = ctx.variable(f"hash {algorithm}", _BITS, free=True)
    if (bits := ALGORITHMS.get(algorithm, (_BITS,))[0]) < _BITS:
        ctx.always(z3.ULT(term_of(result), 1 << bits))
    if parts and algorithm in ALGORITHMS and not any(part["type"] == "payload" for part in inputs):
        ctx.findings.hashes.append(Hash(term_of(result), algorithm, parts))
    return result


def product(ctx: SymbolicContext, a: Value, b: Value) -> Value:
    """The product of two values: a variable, like a hash, as z3 finds terms of products hard. It is the same each time
    for the same values. That of a random number by 0 or 1 is what it is: a test that chooses the factor may settle what
    follows from it."""
    if _is_random(ctx, b):
        a, b = b, a
    result = _unknown_product(ctx, a, b)
    if not _is_random(ctx, a):
        return result
    zero, one = (ctx.f.compare("eq", b, const(b.bits, number)) for number in (0, 1))
    return ctx.f.select(zero, const(a.bits, 0), ctx.f.select(one, a, result))


def _is_random(ctx: SymbolicContext, value: Value) -> bool:
    term = vector_of(value)
    while term.num_args() == 1:
        term = term.arg(0)
    return term.decl().name() in ctx.findings.free


def _unknown_product(ctx: SymbolicContext, a: Value, b: Value) -> Value:
    parts = [(TRUE, a), (TRUE, b)]
    for each in ctx.findings.hashes:
        if each.algorithm == PRODUCT and all(
            term_of(one).eq(term_of(other)) for (_, one), (_, other) in zip(parts, each.parts, strict=True)
        ):
            return value_of(a.bits, each.result)
    result = ctx.variable(PRODUCT, a.bits, free=True)
    ctx.findings.hashes.append(Hash(term_of(result), PRODUCT, parts))
    return result


def _inputs(ctx: SymbolicContext, inputs: Json) -> Iterator[tuple[Value, list[Value]]]:
    """A payload of zeros is left out."""
    for part in inputs:
        match part["type"]:
            case "hexstr":
                yield TRUE, [const(part["bitwidth"], parse_hex(part["value"]))]
            case "field":
                ref = ctx.header(part["value"][0], part)
                names = [find_field(ref.header, part["value"][1])]
                yield TRUE if part.get("always") else ctx.is_valid(ref), ctx.on_the_wire(ref, names)
            case "header":
                ref = ctx.header(part["value"], part)
                yield ctx.is_valid(ref), ctx.on_the_wire(ref, ref.type.fields)
            case "payload":
                yield TRUE, ctx.payload_values()
            case other:
                raise NotModelled(f"{other} as input of a hash")


def _internet_checksum(ctx: SymbolicContext, parts: Parts) -> Value | None:
    """The checksum of RFC 1071, 64 bits; None: places of parts depend on conditions in another way than by whole words
    of 16 bits."""
    total, f, ctx.findings.sums = const(32, 0), ctx.f, True
    runs: list[tuple[Value, list[Value]]] = []
    for there, value in parts:
        if runs and term_of(runs[-1][0]).eq(term_of(there)):
            runs[-1][1].append(value)
        else:
            runs.append((there, [value]))
    for number, (there, values) in enumerate(runs, 1):
        bits = sum(value.bits for value in values)
        if bits % 16 and (number < len(runs) or bits % 8):
            return None
        whole = concatenated([*values, *([const(16 - bits % 16, 0)] if bits % 16 else [])])
        words = (f.resize(f.resize(f.lshr(whole, low), 16), 32) for low in range(0, whole.bits, 16))
        total = f.op("add", total, f.select(there, reduce(partial(f.op, "add"), words), const(32, 0)))
    for _ in range(2):
        total = f.op("add", f.op("and", total, const(32, 0xFFFF)), f.lshr(total, 16))
    return f.resize(f.resize(f.op("xor", total, const(32, 0xFFFF)), 16), _BITS)
