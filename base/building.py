# SPDX-License-Identifier: Apache-2.0
"""Builds the object of a part: its entries to IR, linked once with all that they call, optimised once, emitted once."""

from __future__ import annotations

import ctypes
import importlib
import json
import signal
import sys
import time
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import types
from numba.core import compiler_lock

from detour.base import compiled
from detour.base.parts import PARTS, NativeEntry, Part

_DIE_WITH_PARENT = 1
"""PR_SET_PDEATHSIG: the LLVM compiler hears no other signal"""
_TYPES = {"int": types.int64, "float": types.float64, "bool": types.int64, "None": types.int64}


def build(part: Part) -> bytes:
    """The object file, with a function `detour_NAME` for every entry, of C's calling convention."""
    for module in part.modules:
        importlib.import_module(module)
    with compiler_lock.global_compiler_lock:
        codegen = compiled.CONTEXT.codegen()
        library: Any = codegen.create_library(f"detour.{part.name}")
        module = ir.Module(part.name)
        for entry in part.entries.values():
            result = _compiled(entry)
            library.add_linking_library(result.library)
            _export(module, entry, result)
        library.add_llvm_module(llvm.parse_assembly(str(module)))
        return library.emit()


def _compiled(entry: NativeEntry) -> Any:
    signature = tuple(_TYPES[kind] for kind in entry.kinds[:-1])
    entry.dispatcher.compile(signature)
    return entry.dispatcher.overloads[signature]


def _export(module: ir.Module, entry: NativeEntry, result: Any) -> None:
    """`detour_NAME`, which calls the function by Numba's convention: a place for the result, one for an exception."""
    native = result.fndesc
    kind = compiled.CONTEXT.call_conv.get_function_type(native.restype, native.argtypes)
    callee = ir.Function(module, kind, native.llvm_func_name)
    numbers = [compiled.CONTEXT.get_value_type(one) for one in native.argtypes]
    result_type = compiled.CONTEXT.get_value_type(_TYPES[entry.kinds[-1]])
    function = ir.Function(module, ir.FunctionType(result_type, numbers), f"detour_{entry.name}")
    builder = ir.IRBuilder(function.append_basic_block())
    place, raised = (builder.alloca(one.pointee) for one in kind.args[:2])
    builder.store(ir.Constant(kind.args[0].pointee, None), place)
    builder.call(callee, [place, raised, *function.args])
    value = builder.load(place)
    if value.type != result_type:  # None is a pointer, a bool a byte
        value = ir.Constant(result_type, 0) if entry.kinds[-1] == "None" else builder.zext(value, result_type)
    builder.ret(value)


def _main() -> None:
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    name, *modules = sys.argv[1:]
    for module in modules:
        importlib.import_module(module)
    part, began = PARTS[name], time.monotonic()
    _ = part.code
    taken = {"seconds": round(time.monotonic() - began, 3), "cpu_seconds": round(time.process_time(), 3)}
    print(json.dumps({"name": name, "functions": part.functions} | taken | {"cached": not part.was_built}))


if __name__ == "__main__":
    _main()
