# SPDX-License-Identifier: Apache-2.0
"""Builds the object of a part: its entries to IR, linked once with all that they call, optimised once, emitted once.

Also a program (`parts.BUILD_COMMAND`): whether a process that needs a part has used Numba itself does not matter then.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import compiler_lock
from numba.np.arrayobj import populate_array  # pyright: ignore[reportUnknownVariableType]
from numba.np.numpy_support import from_dtype

from detour.base import linking, runtime
from detour.base.linking import context
from detour.base.parts import PARTS, ArgumentKind, NativeEntry, Part, TupleKind

_DIE_WITH_PARENT = 1
"""PR_SET_PDEATHSIG: the LLVM compiler hears no other signal"""
_I64 = ir.IntType(64)
_HEAD = object.__basicsize__
"""of a PyArrayObject; behind it its data, number of dimensions and lengths (NumPy, "Python types and C-structures")"""


def build(part: Part) -> tuple[bytes, bool]:
    """The object file, with a function `detour_NAME` for every entry, of C's calling convention; and whether it will do
    in other processes."""
    assert part.entries, f"{part.name} has no entries"
    with compiler_lock.global_compiler_lock:
        library: Any = context().codegen().create_library(f"detour.{part.name}")
        module = ir.Module(part.name)
        for entry in part.entries.values():
            result = _compiled(entry)
            library.add_linking_library(result.library)
            _export(module, entry, result)
        texts = [str(module), *(runtime.modules() if any(one.has_arrays for one in part.entries.values()) else ())]
        for text in texts:
            library.add_llvm_module(llvm.parse_assembly(text))
        lasting = not any(one._dynamic_globals for one in linking.reached(library))
        return linking.object_of(library), lasting


def _type(kind: ArgumentKind) -> Any:
    """Numba's type."""
    if isinstance(kind, TupleKind):
        return types.BaseTuple.from_types([_type(each) for each in kind.kinds], kind.made)
    if isinstance(kind, np.ndarray):
        return types.Array(from_dtype(kind.dtype), kind.ndim, "C")
    return types.float64 if kind is float else types.int64


def _compiled(entry: NativeEntry) -> Any:
    signature = tuple(map(_type, entry.kinds[:-1]))
    code = entry.py_func.__globals__.get("_hook", entry).py_func.__code__  # see `hosts.plugins`
    try:
        entry.dispatcher.compile(signature)
    except linking.NumbaError as error:
        raise linking.syntax_error(error, (code.co_filename, code.co_firstlineno)) from error
    result = entry.dispatcher.overloads[signature]
    returned = result.fndesc.restype
    if entry.kinds[-1] in (int, float, bool) and not isinstance(returned, (types.Number, types.Boolean)):
        text = f"{code.co_name} returns {returned}; wanted is a number"
        raise SyntaxError(text, (code.co_filename, code.co_firstlineno, None, None))
    return result


def _export(module: ir.Module, entry: NativeEntry, result: Any) -> None:
    """`detour_NAME`, which calls the function by Numba's convention. With arrays, a last argument is an address for
    whether there was no memory."""
    native, convention = result.fndesc, context().call_conv
    callee = ir.Function(module, convention.get_function_type(native.restype, native.argtypes), native.llvm_func_name)
    numbers = [ir.DoubleType() if kind is float else _I64 for kind in entry.passed]
    result_type = _type(entry.kinds[-1])
    function = ir.Function(
        module, ir.FunctionType(context().get_value_type(result_type), numbers), f"detour_{entry.name}"
    )
    builder, passed = ir.IRBuilder(function.append_basic_block()), iter(function.args)
    arguments = [_value(builder, kind, passed) for kind in entry.kinds[:-1]]
    status, value = convention.call_function(builder, callee, native.restype, native.argtypes, arguments)
    if entry.has_arrays:
        builder.store(builder.zext(status.is_error, _I64), builder.inttoptr(next(passed), _I64.as_pointer()))
    if native.restype == types.none:
        value = _I64(0)
    else:
        value = context().cast(builder, value, native.restype, result_type)
    builder.ret(value)


def _value(builder: Any, kind: ArgumentKind, passed: Iterator[Any]) -> Any:
    """An argument as native code has it, of one that is passed or several."""
    if isinstance(kind, TupleKind):
        values = [_value(builder, each, passed) for each in kind.kinds]
        return context().make_tuple(builder, _type(kind), values)
    value = next(passed)
    return _array(builder, kind, value) if isinstance(kind, np.ndarray) else value


def _array(builder: Any, kind: np.ndarray, at: Any) -> Any:
    """Numba's array for NumPy's, whose address is given."""

    def word(number: int) -> Any:
        place = builder.add(at, _I64(_HEAD + 8 * number))
        return builder.load(builder.inttoptr(place, _I64.as_pointer()))

    array: Any = context().make_array(_type(kind))(context(), builder)
    lengths = builder.inttoptr(word(2), _I64.as_pointer())
    shape = [builder.load(builder.gep(lengths, [_I64(axis)])) for axis in range(kind.ndim)]
    strides = [_I64(kind.dtype.itemsize)]
    for length in shape[:0:-1]:
        strides.insert(0, builder.mul(strides[0], length))
    data = builder.inttoptr(word(0), array.data.type)
    populate_array(array, data=data, shape=shape, strides=strides, itemsize=strides[-1], meminfo=None)
    return array._getvalue()


def _main() -> None:
    """`NAME MODULE...` builds for the cache and says what that took; `--object` before it prints the object instead."""
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    linking.install()
    answer = os.dup(1)
    os.dup2(2, 1)  # what modules print is no answer
    whole = sys.argv[1] == "--object"
    name, *modules = sys.argv[1 + whole :]
    for module in modules:
        importlib.import_module(module)
    part, began = PARTS[name], time.monotonic()
    data = build(part)[0] if whole else part.build(lambda: build(part))
    taken = {"seconds": round(time.monotonic() - began, 3), "cpu_seconds": round(time.process_time(), 3)}
    report = {"name": name, "functions": part.functions} | taken | {"cached": not part.was_built}
    sys.stdout.flush()
    os.dup2(answer, 1)
    sys.stdout.buffer.write(data if whole else f"{json.dumps(report)}\n".encode())


if __name__ == "__main__":
    _main()
