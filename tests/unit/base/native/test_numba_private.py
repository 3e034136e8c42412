# SPDX-License-Identifier: Apache-2.0
"""Each private interface of Numba and llvmlite that detour uses is as it takes it to be: where a release changes one,
a test here fails and says which."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any, NamedTuple

import llvmlite.binding as llvm
import numba
import numpy as np
import pytest
from numba import types

from detour.base import places
from detour.base.jit import COMPILED
from detour.base.native import numba_private

pytestmark = pytest.mark.skipif(not COMPILED, reason="NUMBA_DISABLE_JIT is set")

NAMES = {
    # Name: its parameters, where detour calls or overrides it.
    "numba.core.codegen.JITCPUCodegen": None,
    "numba.core.codegen.JITCPUCodegen.set_env": ["self", "env_name", "env"],
    "numba.core.codegen.JITCPUCodegen._library_class": None,
    "numba.core.codegen.JITCodeLibrary.add_linking_library": ["self", "library"],
    "numba.core.codegen.JITCodeLibrary.add_llvm_module": ["self", "ll_module"],
    "numba.core.codegen.JITCodeLibrary.get_pointer_to_function": ["self", "name"],
    "numba.core.codegen.JITCodeLibrary._get_module_for_linking": ["self"],
    "numba.core.codegen.JITCodeLibrary._optimize_final_module": ["self"],
    "numba.core.compiler_lock.global_compiler_lock": None,
    "numba.core.errors.NumbaError": None,
    "numba.core.errors.TypingError": None,
    "numba.core.registry.cpu_target.target_context": None,
    "numba.core.registry.cpu_target.typing_context": None,
    "numba.core.runtime.nrtdynmod.create_nrt_module": ["ctx"],
    "numba.core.types.BaseTuple.from_types": ["tys", "pyclass"],
    "numba.core.types.ExternalFunction.__init__": ["self", "symbol", "sig"],
    "numba.core.types.Record.typeof": ["self", "key"],
    "numba.np.arrayobj.populate_array": ["array", "data", "shape", "strides", "itemsize", "meminfo", "parent"],
}


def _changed(name: str, how: str) -> str:
    return (
        f"private interface {name} of Numba {version('numba')} and llvmlite {version('llvmlite')} has changed: {how};"
        " detour/base/native/numba_private.py uses it"
    )


@contextmanager
def using(*names: str) -> Iterator[None]:
    """What goes wrong inside is told as a change of these."""
    try:
        yield
    except Exception as error:
        pytest.fail(_changed(", ".join(names), repr(error)))


def _find(name: str) -> Any:
    parts = name.split(".")
    for end in range(len(parts) - 1, 0, -1):
        try:
            value = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for part in parts[end:]:
            if not hasattr(value, part):
                pytest.fail(_changed(name, f"{value!r} has no {part}"))
            value = getattr(value, part)
        return value
    pytest.fail(_changed(name, "there is no such module"))


@pytest.mark.parametrize("name", NAMES)
def test_names_and_parameters(name: str) -> None:
    value, expected = _find(name), NAMES[name]
    if name.endswith(".typeof") and value.__module__ == numba_private.__name__:
        return  # ours has replaced it in this process
    parameters = list(inspect.signature(value).parameters) if expected else None
    assert parameters == expected, _changed(name, f"its parameters are {parameters}, and were {expected}")


def test_what_has_changed_is_named() -> None:
    with pytest.raises(pytest.fail.Exception, match=r"numba\.core\.codegen\.NoSuchLibrary of Numba .* has no NoSuch"):
        _find("numba.core.codegen.NoSuchLibrary")
    with (
        pytest.raises(pytest.fail.Exception, match=r"JITCodeLibrary\._tm of Numba .* KeyError"),
        using("JITCodeLibrary._tm"),
    ):
        raise KeyError


_DOCUMENTED = {"numba", "numba.types", "numba.extending", "llvmlite", "llvmlite.ir", "llvmlite.binding"}
_TAKEN = {"numba": {"types"}, "numba.extending": {"typeof_impl"}, "llvmlite": {"ir"}}


def test_no_other_module_uses_any() -> None:
    """All others import what the manuals describe, and no module of Numba but these."""
    wrong: list[str] = []
    for path in places.modules():
        text = path.read_text()
        if path.stem == "numba_private" or not ("numba" in text or "llvmlite" in text):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import):
                modules = {alias.name: set[str]() for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                modules = {node.module: {alias.name for alias in node.names}}
            else:
                continue
            for module, names in modules.items():
                if module.split(".")[0] in ("numba", "llvmlite") and (
                    module not in _DOCUMENTED or not names <= _TAKEN.get(module, set())
                ):
                    wrong.append(f"{path}: {module} {sorted(names)}")
    assert not wrong


# -- functions


def _twice(number: int) -> int:
    return 2 * number


def _result(arrays: bool = False) -> Any:
    made = numba_private.dispatcher(_twice, arrays=arrays, forceinline=True)
    return numba_private.compiled(made, (types.int64,))


@pytest.mark.parametrize("arrays", [True, False])
def test_functions_are_compiled_with_options_that_the_manual_does_not_have(arrays: bool) -> None:
    with using("options no_cpython_wrapper, no_cfunc_wrapper, forceinline and _nrt of njit"):
        result = _result(arrays)
    with using("Dispatcher.overloads, CompileResult.fndesc"):
        assert numba_private.result_type(result) == types.int64
    with using("CompileResult.library"):
        assert "alwaysinline" in str(result.library.get_llvm_str()), "forceinline"


def test_values_have_types() -> None:
    with using("typing_context.refresh and resolve_value_type"):
        made = numba_private.intrinsic_of_numbers(1, lambda ir, builder, args: args[0], "int64")
        assert isinstance(numba_private.type_of(made), types.Function)


class _Pair(NamedTuple):
    one: int
    other: float


def test_named_tuples_have_types() -> None:
    with using("numba.core.types.BaseTuple.from_types"):
        assert numba_private.tuple_type([types.int64, types.float64], _Pair) == numba.typeof(_Pair(1, 2.0))


def test_compiling_waits_for_other_threads() -> None:
    with using("numba.core.compiler_lock.global_compiler_lock"), numba_private.alone():
        assert importlib.import_module("numba.core.compiler_lock").global_compiler_lock.is_locked()


def test_a_field_that_a_record_has_not_is_told() -> None:
    record: Any = numba.from_dtype(np.dtype([("size", np.int64)]))
    numba_private.report_fields(lambda name, names: f"no {name} but {', '.join(names)}")
    try:
        with using("numba.core.types.Record.typeof and fields"):
            assert record.typeof("size") == types.int64
        with pytest.raises(numba_private.NumbaError, match="no length but size"):
            record.typeof("length")
    finally:
        numba_private.report_fields(importlib.import_module("detour.base.jit").no_field)


# -- operations


def _called(made: Any, *arguments: int) -> int:
    """The result of an operation, out of compiled code."""
    names = ", ".join(f"a{number}" for number in range(len(arguments)))
    function: Any = numba.njit(eval(f"lambda {names}: made({names})", {"made": made}))
    return function(*arguments)


def test_intrinsics_of_numbers() -> None:
    with using("get_dummy_value of intrinsics' context"):
        assert _called(numba_private.intrinsic_of_numbers(2, lambda ir, b, args: b.add(*args), "int64"), 3, 4) == 7
        nothing = numba_private.intrinsic_of_numbers(1, lambda ir, builder, args: None, "void")
        assert _called(nothing, 1) is None


def test_functions_of_the_c_library() -> None:
    with using("numba.core.types.ExternalFunction"):
        assert _called(numba_private.external("labs", "int64", "int64"), -5) == 5


def test_records_by_address() -> None:
    rows = np.zeros(3, [("first", np.int64), ("second", np.int64)])
    rows["second"] = 10, 11, 12
    at, address = numba_private.record_at(rows.dtype), numba_private.record_address()
    with using("get_value_type of intrinsics' context", "records as pointers"):
        second = numba.njit(lambda base, index: at(base, index).second)
        assert second(rows.ctypes.data, 2) == 12
        where = numba.njit(lambda base, index: address(at(base, index)))
        assert where(rows.ctypes.data, 1) == rows.ctypes.data + 16


# -- objects, in processes of their own, since linking once is for all that a process compiles

_BEGIN = """
import ctypes, sys
import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba import types
from typing import NamedTuple
from detour.base.native import NativeCode, building, numba_private, runtime

I64 = ir.IntType(64)

class Pair(NamedTuple):
    one: int
    other: int

def exported(function, kinds, returned, arguments_of, arrays=False):
    made = numba_private.dispatcher(function, arrays=arrays, forceinline=False)
    result = numba_private.compiled(made, kinds)
    module = ir.Module("test")
    outer = ir.Function(module, ir.FunctionType(numba_private.value_type(returned), [I64]), "outer")
    builder = ir.IRBuilder(outer.append_basic_block())
    failed, value = numba_private.call(module, builder, result, arguments_of(builder, outer.args[0]), returned)
    builder.ret(value)
    linked = numba_private.Linked("test")
    linked.add(result)
    linked.add_text(str(module))
    for text in runtime.modules() if arrays else ():
        linked.add_text(text)
    return linked

def run(linked, argument):
    code = NativeCode(linked.emit())
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(code.address("outer"))(argument)
"""
_ONE_LINK = "numba_private.install()\n"
_CASES = {
    "call_conv.call_function, get_function_type, fndesc.llvm_func_name, cast, CodeLibrary._linking_libraries": (
        """
def function(n):
    return 3 * n
print(run(exported(function, (types.int64,), types.int64, lambda builder, n: [n]), 5))
""",
        "15",
    ),
    "None as a result": (
        """
def function(n):
    return None
print(run(exported(function, (types.int64,), types.int64, lambda builder, n: [n]), 5))
""",
        "0",
    ),
    "make_tuple": (
        """
kind = numba_private.tuple_type([types.int64, types.int64], Pair)
def function(pair):
    return 10 * pair.one + pair.other
made = lambda builder, n: [numba_private.tuple_of(builder, kind, [n, I64(7)])]
print(run(exported(function, (kind,), types.int64, made), 5))
""",
        "57",
    ),
    "make_array, populate_array, _getvalue": (
        """
kind = types.Array(types.int64, 2, "C")
def function(rows):
    return rows[1, 2] + 100 * rows.shape[0] + 1000 * len(rows[0])
made = lambda builder, at: [numba_private.array_of(builder, kind, at, [I64(2), I64(3)], [I64(24), I64(8)])]
rows = np.arange(6, dtype=np.int64).reshape(2, 3)
print(run(exported(function, (kind,), types.int64, made, True), rows.ctypes.data))
""",
        "3205",
    ),
    "create_nrt_module, NRT_MemInfo_alloc_aligned and others": (
        """
def function(n):
    rows = np.ones(n)
    for _ in range(1000):
        rows = rows.copy()
    items = [i for i in range(n)]
    return int(rows.sum()) + len(items)
print(run(exported(function, (types.int64,), types.int64, lambda builder, n: [n], True), 50))
""",
        "100",
    ),
    "CodeLibrary._dynamic_globals": (
        """
def function(n):
    return n
print(exported(function, (types.int64,), types.int64, lambda builder, n: [n]).lasting)
""",
        "True",
    ),
    "_codegen._tm, _final_module.triple and data_layout": (
        """
llvm.initialize_all_targets()
llvm.initialize_all_asmprinters()
def function(n):
    return 3 * n
linked = exported(function, (types.int64,), types.int64, lambda builder, n: [n])
machine = llvm.Target.from_triple("aarch64-unknown-linux-gnu").create_target_machine(cpu="generic")
print(linked.emit(machine)[:20].hex()[36:])
""",
        "b700",
    ),
}


_ALL = """
import contextlib, io, json
for names, code in json.load(sys.stdin).items():
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        try:
            exec(code, dict(globals()))
        except Exception as error:
            print(repr(error))
    print(json.dumps([names, printed.getvalue().strip()]), flush=True)
"""


@pytest.fixture(scope="module", params=[True, False], ids=["linked once", "as Numba links"])
def printed(request: pytest.FixtureRequest) -> dict[str, str]:
    """What each case prints, in one process for all."""
    command = [sys.executable, "-c", (_ONE_LINK if request.param else "").join((_BEGIN, _ALL))]
    cases = json.dumps({names: code for names, (code, _) in _CASES.items()})
    done = subprocess.run(command, input=cases, stdout=subprocess.PIPE, text=True, check=False)
    return dict(map(json.loads, done.stdout.splitlines()))


@pytest.mark.parametrize("names", _CASES)
def test_objects(names: str, printed: dict[str, str]) -> None:
    result = printed.get(names, "the process has crashed in it or before")
    assert result == _CASES[names][1], _changed(names, result)


def test_linking_once_keeps_only_the_ir_of_a_function() -> None:
    """The replaced classes are those that Numba makes libraries with."""
    code = _BEGIN + _ONE_LINK + "print(type(numba_private.Linked('test')._library).__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "_OneLink", _changed("numba.core.codegen.JITCPUCodegen", done.stderr)


def test_llvm_links_functions_that_may_be_defined_more_than_once() -> None:
    with using("llvmlite.binding.ModuleRef.link_in(preserve), clone, ValueRef.linkage, Linkage.external"):
        module = llvm.parse_assembly("define i64 @one() { ret i64 1 }")
        other = module.clone()
        for function in other.functions:
            assert function.linkage == llvm.Linkage.external
            function.linkage = "linkonce_odr"
        module.link_in(other, preserve=True)
        assert [one.name for one in module.functions if not one.is_declaration] == ["one"]


def test_it_is_told_what_only_numba_has() -> None:
    code = (
        _BEGIN + _ONE_LINK + "linked = numba_private.Linked('test')\n"
        "linked.add_text('declare i64 @numba_something(i64) define i64 @outer(i64 %n)"
        " { %r = call i64 @numba_something(i64 %n) ret i64 %r }')\nlinked.emit()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "test needs numba_something, which only Numba has" in done.stderr
