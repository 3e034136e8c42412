# SPDX-License-Identifier: Apache-2.0
"""Division against Python's integers."""

from __future__ import annotations

import json
import random

from detour.engine.compiler.program import Program

from .bitstring import Spec, join, split
from .conftest import PROGRAMS, MiniSwitch

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
