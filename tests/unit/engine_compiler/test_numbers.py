# SPDX-License-Identifier: Apache-2.0
"""Arithmetic against Python's integers."""

from __future__ import annotations

import json
import random

import pytest

from detour.engine.compiler.program import Program

from .bitstring import Spec, join, signed, split
from .conftest import PROGRAMS, MiniSwitch, program

# name, bits, signed, padding of the input, padding of the output
KINDS = [
    ("8", 8, False, 0, 0), ("13", 13, False, 6, 7), ("64", 64, False, 0, 0), ("130", 130, False, 4, 6),
    ("s8", 8, True, 0, 0), ("s33", 33, True, 6, 3), ("s64", 64, True, 0, 0),
]  # fmt: skip
RESULTS = ["add", "sub", "mul", "neg", "inv", "band", "bor", "bxor", "shl", "shr", "sadd", "ssub", "mux"]


def _input() -> Spec:
    return [
        (f"{name}.{f}", n)
        for name, bits, _, pad, _ in KINDS
        for f, n in (("a", bits), ("b", bits), ("s", 8), ("pad", pad))
    ]


def _output() -> Spec:
    return [
        (f"{name}.{f}", n)
        for name, bits, _, _, pad in KINDS
        for f, n in (*((r, bits) for r in RESULTS), ("cmp", 8), ("pad", pad))
    ]


def _expected(a: int, b: int, s: int, bits: int, is_signed: bool) -> dict[str, int]:
    if is_signed:
        a, b = signed(a, bits), signed(b, bits)
    top = (1 << (bits - is_signed)) - 1
    bottom = -(1 << (bits - 1)) if is_signed else 0
    compare = 0
    for bit in (a < b, a <= b, a == b, a != b, a > b, a >= b):
        compare = compare << 1 | bit
    values = {
        "add": a + b,
        "sub": a - b,
        "mul": a * b,
        "neg": -a,
        "inv": ~a,
        "band": a & b,
        "bor": a | b,
        "bxor": a ^ b,
        "shl": a << s,
        "shr": a >> s,
        "sadd": min(max(a + b, bottom), top),
        "ssub": min(max(a - b, bottom), top),
        "mux": a + 1 if a < b else b - 1,
    }
    return {k: v & ((1 << bits) - 1) for k, v in values.items()} | {"cmp": compare}


def _interesting(rng: random.Random, bits: int) -> int:
    full = (1 << bits) - 1
    return rng.choice([0, 1, 2, full, full - 1, 1 << (bits - 1), (1 << (bits - 1)) - 1, rng.getrandbits(bits)])


@pytest.mark.parametrize("seed", range(20))
def test_operators_at_all_widths(seed: int) -> None:
    rng = random.Random(seed)
    switch = MiniSwitch(program("numbers"))
    for _ in range(25):
        values: dict[str, int] = {}
        expected: dict[str, int] = {}
        for name, bits, is_signed, _, _ in KINDS:
            a, b = _interesting(rng, bits), _interesting(rng, bits)
            s = rng.choice([0, 1, bits - 1, bits, bits + 1, 255, rng.randrange(256)]) & 255
            values |= {f"{name}.a": a, f"{name}.b": b, f"{name}.s": s}
            expected |= {f"{name}.{k}": v for k, v in _expected(a, b, s, bits, is_signed).items()}
        data = join(_input(), values)
        ((port, out),) = switch.send(0, data)
        got = split(_output(), out[len(data) :])
        assert port == 1
        assert {k: got[k] for k in expected} == expected


def test_division_at_all_widths() -> None:
    """p4c makes no divisions of fields, BMv2 has them: the products of the program become quotients."""
    text = json.dumps(json.loads((PROGRAMS / "numbers.json").read_text()))
    for op, compute in (("/", lambda a, b: a // b), ("%", lambda a, b: a % b)):
        rng = random.Random(op)
        switch = MiniSwitch(Program.from_json(text.replace('"op": "*"', f'"op": "{op}"')))
        for _ in range(40):
            values: dict[str, int] = {}
            expected: dict[str, int] = {}
            for name, bits, is_signed, _, _ in KINDS:
                top = (1 << (bits - is_signed)) - 1
                a, b = rng.choice([0, 1, top, rng.getrandbits(bits) & top]), rng.choice([1, 2, 7, top, top >> 1])
                values |= {f"{name}.a": a, f"{name}.b": b}
                expected[f"{name}.mul"] = compute(a, b)
            data = join(_input(), values)
            ((_, out),) = switch.send(0, data)
            got = split(_output(), out[len(data) :])
            assert {k: got[k] for k in expected} == expected
        assert switch.errors == []


WIDTHS_IN: Spec = [("a", 128), ("b", 48), ("c", 16), ("d", 16), ("w", 512)]
WIDTHS_OUT: Spec = [
    ("middle", 16), ("swapped", 64), ("replaced", 128), ("joined", 32), ("quotient", 48), ("remainder", 48),
    ("extended", 32), ("narrowed", 8), ("unsigned_of", 32), ("wide_sum", 512), ("wide_shift", 512), ("top", 8),
    ("shifted", 16), ("flag", 1), ("rest", 7),
]  # fmt: skip


@pytest.mark.parametrize("seed", range(50))
def test_slices_casts_and_wide_values(seed: int) -> None:
    rng = random.Random(seed)
    a, b, w = rng.getrandbits(128), rng.choice([7, rng.getrandbits(48)]), rng.getrandbits(512)
    c, raw = rng.choice([99, 100, 101, rng.getrandbits(16)]), rng.getrandbits(16)
    d = signed(raw, 16)
    data = join(WIDTHS_IN, {"a": a, "b": b, "c": c, "d": d, "w": w})
    ((_, out),) = MiniSwitch(program("widths")).send(0, data)
    full = (1 << 512) - 1
    assert split(WIDTHS_OUT, out[len(data) :]) == {
        "middle": a >> 56 & 0xFFFF,
        "swapped": (a & 0xFFFFFFFF) << 32 | a >> 96,
        "replaced": a & ~(0xFFFF << 64) | c << 64,
        "joined": c << 16 | b & 0xFFFF,
        "quotient": b // 1024,
        "remainder": b % 1024,
        "extended": d & 0xFFFFFFFF,
        "narrowed": d & 0xFF,
        "unsigned_of": raw,
        "wide_sum": (w + a) & full,
        "wide_shift": (w << 77 | w >> 200) & full,
        "top": w >> 504,
        "shifted": (d >> 3) & 0xFFFF,
        "flag": int(c > 100 and (d < 0 or b == 7)),
        "rest": 0x55,
    }
