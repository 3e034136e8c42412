# SPDX-License-Identifier: Apache-2.0
"""Compiling apart: what takes too long or too much memory ends, and says so."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from detour.base.errors import DetourError, InternalError
from detour.engine.compiler import native
from detour.engine.compiler.native import CompileLimits, TooSlow, compile_apart
from detour.engine.compiler.program import Program

from .conftest import PROGRAMS

Json = Any
FIELD: Json = {"type": "field", "value": ["slow", "x"]}


def slow(statements: int) -> Json:
    """A program that LLVM takes long for: products of 2048 bits, each of a thousand multiplications."""
    program = copy.deepcopy(json.loads((PROGRAMS / "matching.json").read_text()))
    program["header_types"].append({"name": "slow_t", "id": 900, "fields": [["x", 2048, False]]})
    program["headers"].append({"name": "slow", "id": 900, "header_type": "slow_t", "metadata": True})
    product = {"type": "expression", "value": {"op": "*", "left": FIELD, "right": FIELD}}
    for action in program["actions"]:
        action["primitives"] = [{"op": "assign", "parameters": [FIELD, product]}] * statements
    return program


@pytest.mark.parametrize(
    ("limits", "error", "text"),
    [
        (CompileLimits(cpu_s=1), TooSlow, "limit of 1 s of CPU time"),
        (CompileLimits(patience_s=0.1), TooSlow, r"limit of 0\.1 s"),
        (CompileLimits(memory_bytes=100 << 20), MemoryError, "more than 100 MiB"),
    ],
)
def test_a_slow_program_ends_at_its_limits(limits: CompileLimits, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        Program(slow(200), use_cache=False, apart=limits)


def test_the_generator_is_limited_by_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("detour.engine.compiler.ir.MAX_LINES", 5000)
    with pytest.raises(DetourError, match="too large: more than 5000 instructions"):
        Program(slow(500), use_cache=False)


def test_apart_gives_the_same_object() -> None:
    text = Program(json.loads((PROGRAMS / "matching.json").read_text()), use_cache=False).ir()
    assert compile_apart(text) == native.compile_ir(text)


def test_invalid_code_is_a_mistake_of_the_compiler() -> None:
    with pytest.raises(InternalError, match="LLVM ended with"):
        compile_apart("define i64 @parse() { ret i32 0 }")
