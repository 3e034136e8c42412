# SPDX-License-Identifier: Apache-2.0
"""Programs that p4c would not write: each was a crash, a hang or an unclear error, found by fuzzing."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from detour.base.errors import DetourError, InternalError
from detour.engine.compiler.program import Program

from .conftest import PROGRAMS

Json = Any


@cache
def _source(name: str) -> Json:
    return json.loads((PROGRAMS / f"{name}.json").read_text())


def _table(program: Json, index: int = 0) -> Json:
    return program["pipelines"][0]["tables"][index]


def _states(program: Json) -> list[Json]:
    return program["parsers"][0]["parse_states"]


CASES: dict[str, tuple[str, Callable[[Json], Any], str]] = {
    "cycle of tables": (
        "matching",
        lambda p: _table(p)["next_tables"].update(dict.fromkeys(_table(p)["next_tables"], _table(p)["name"])),
        "comes back to",
    ),
    "header twice in stacks": (
        "stacks",
        lambda p: p["header_stacks"].append({**p["header_stacks"][0], "name": "again"}),
        "in a stack already",
    ),
    "stack of other headers": (
        "stacks",
        lambda p: p["header_stacks"][0].update(header_type=p["headers"][0]["header_type"]),
        "other headers than those of its type",
    ),
    "two headers of one name": ("stacks", lambda p: p["headers"].append({**p["headers"][-1], "id": 999}), "two of"),
    "negative size": ("stateful", lambda p: p["register_arrays"][0].update(size=-1), "has -1 elements"),
    "all memory": ("stateful", lambda p: p["register_arrays"][0].update(size=(1 << 31) - 1), "the limit is"),
    "no bits": ("stateful", lambda p: p["register_arrays"][0].update(bitwidth=0), "has 0 bits"),
    "wide field": ("matching", lambda p: p["header_types"][1]["fields"][0].__setitem__(1, 1 << 20), "1048576 bits"),
    "half a byte": ("matching", lambda p: p["header_types"][-1]["fields"].append(["x", 4, False]), "not whole bytes"),
    "table of another kind": ("matching", lambda p: _table(p).update(match_type="other"), "its key is"),
    "ids that are no numbers": (
        "copies",
        lambda p: p["field_lists"][0].update(id="0, label %body.1 ]\nret i64 0"),
        "are not different numbers",
    ),
    "name with a line break": (
        "matching",
        lambda p: _table(p, 1)["key"][0].update(target=["a\n\ud800b", "c"]),
        "header",
    ),
    "list instead of object": ("matching", lambda p: p.update(headers=[[1]]), "malformed"),
    "assignment to nothing, beside a field of 0 bits": (
        "numbers",
        lambda p: (
            p["header_types"][0]["fields"].append(["empty", 0, False]),
            p["actions"][0]["primitives"].append({"op": "assign", "parameters": []}),
        ),
        "takes 2 arguments",
    ),
    "missing state": ("parsing", lambda p: _states(p)[0]["transitions"][0].update(next_state="gone"), "'gone'"),
    "too many arguments": (
        "numbers",
        lambda p: p["actions"][0]["primitives"].append(
            {"op": "mark_to_drop", "parameters": [{"type": "hexstr", "value": "0x1"}] * 40}
        ),
        "takes 1 arguments",
    ),
    "expression that is a number": (
        "numbers",
        lambda p: p["actions"][0]["primitives"].append(
            {"op": "mark_to_drop", "parameters": [{"type": "expression", "value": 1}]}
        ),
        "malformed: 1 is not an expression",
    ),
    "error that the program does not declare": ("parsing", lambda p: p.pop("errors"), "not an error of the program"),
    "action that is called without arguments": (
        "matching",
        lambda p: p["pipelines"][0].update(
            action_calls=[{"name": "call", "action_id": _with_arguments(p), "next_node": None}], init_table="call"
        ),
        "without arguments",
    ),
}


def _with_arguments(program: Json) -> int:
    return next(a["id"] for a in program["actions"] if a["runtime_data"])


@pytest.mark.parametrize("case", CASES)
def test_what_cannot_be_is_refused(case: str) -> None:
    name, change, message = CASES[case]
    program = copy.deepcopy(_source(name))
    change(program)
    with pytest.raises(DetourError, match=message) as caught:
        Program.from_json(program)
    assert "\n" not in str(caught.value)
    str(caught.value).encode()


def test_documents_too_deep_to_read() -> None:
    for text in ('{"a":' * 5000 + "1" + "}" * 5000, '{"headers":' + "[" * 100_000 + "]" * 100_000 + "}"):
        with pytest.raises(DetourError, match="not JSON"):
            Program.from_json(text)


def test_choices_within_choices_compile_in_time() -> None:
    """The width of a choice was found by compiling both sides apart, at every level: 2^60 times for this one."""
    program = copy.deepcopy(_source("faults"))
    one: Json = {"type": "hexstr", "value": "0x01"}
    header = program["headers"][-1]["name"]
    cond = {"type": "expression", "value": {"op": "valid", "left": None, "right": {"type": "header", "value": header}}}
    e = one
    for _ in range(60):
        e = {"type": "expression", "value": {"op": "?", "cond": cond, "left": e, "right": one}}
    program["actions"][0]["primitives"] = [{"op": "assert", "parameters": [e]}]
    Program.from_json(program)


@pytest.mark.parametrize("error", [AttributeError("x"), AssertionError("y"), TypeError("z\nz"), KeyError("k")])
def test_a_mistake_of_the_compiler_is_not_blamed_on_the_program(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise error

    monkeypatch.setattr("detour.engine.compiler.program.write_deparser", broken)
    with pytest.raises(InternalError, match="internal error of detour while compiling") as caught:
        Program(_source("matching"), use_cache=False)
    assert "detour/engine/compiler/program.py" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.__cause__ is error


def test_code_that_llvm_refuses_is_a_mistake_of_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("detour.engine.compiler.ir.Module.text", lambda _: "define i64 @parse() { ret i32 0 }")
    with pytest.raises(InternalError, match="invalid IR"):
        Program(_source("matching"), use_cache=False)
