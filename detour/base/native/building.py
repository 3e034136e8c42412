# SPDX-License-Identifier: Apache-2.0
"""Builds the object of a part: its entries to IR, linked once with all that they call, optimised once, emitted once."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import typeof_impl

from detour.base.jit import Intrinsic, Native, no_field
from detour.base.native import numba_private, objects, runtime
from detour.base.native.entries import ArgumentKind, NativeEntry, TupleKind
from detour.base.places import PACKAGE

_I64 = ir.IntType(64)
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_PLACE = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)|at (?P<file_>/.+?) \((?P<line_>\d+)\)')

numba_private.report_fields(no_field)


@cache
def _dispatcher(native: Native) -> Any:
    return numba_private.dispatcher(native.py_func, arrays=native.arrays, forceinline=native.forceinline)


@typeof_impl.register(Native)
def _type_of_native(native: Native, _: Any) -> Any:
    return numba.typeof(_dispatcher(native))


@typeof_impl.register(Intrinsic)
def _type_of_intrinsic(intrinsic: Intrinsic, _: Any) -> Any:
    return numba_private.type_of(intrinsic.made)


def build(name: str, entries: Iterable[NativeEntry]) -> tuple[bytes, bool]:
    """The object file, with a function `NativeEntry.symbol` for every entry, of C's calling convention; and whether it
    will do in other processes."""
    entries = list(entries)
    assert entries, f"{name} has no entries"
    with numba_private.alone():
        linked, module = numba_private.Linked(f"detour.{name}"), ir.Module(name)
        for entry in entries:
            result = _compiled(entry)
            linked.add(result)
            _export(module, entry, result)
        for text in (str(module), *(runtime.modules() if any(one.arrays for one in entries) else ())):
            linked.add_text(text)
        return linked.emit(objects.other_machine()), linked.lasting


def _type(kind: ArgumentKind) -> Any:
    """Numba's type."""
    if isinstance(kind, TupleKind):
        return numba_private.tuple_type([_type(each) for each in kind.kinds], kind.made)
    if isinstance(kind, np.ndarray):
        return types.Array(numba.from_dtype(kind.dtype), kind.ndim, "C")
    return types.float64 if kind is float else types.int64


def _compiled(entry: NativeEntry) -> Any:
    code = entry.py_func.__globals__.get("_hook", entry).py_func.__code__  # see `hosts.plugins`
    place = (code.co_filename, code.co_firstlineno)
    try:
        result = numba_private.compiled(_dispatcher(entry), tuple(map(_type, entry.kinds[:-1])))
    except numba_private.NumbaError as error:
        raise _syntax_error(error, place) from error
    returned = numba_private.result_type(result)
    if entry.kinds[-1] in (int, float, bool) and not isinstance(returned, (types.Number, types.Boolean)):
        raise SyntaxError(f"{code.co_name} returns {returned}; expected a number", (*place, None, None))
    return result


def _syntax_error(error: Exception, otherwise: tuple[str, int]) -> SyntaxError:
    """Describe, in Numba's words, a function that it cannot compile, in one line, with the innermost place that is not
    detour's own, or `otherwise`."""
    plain = _COLOUR.sub("", str(error))
    lines = [line.strip() for line in plain.splitlines()]
    text = next((line for line in lines if line and not line.startswith("Failed in ")), "it cannot be compiled")
    places = [(m["file"] or m["file_"], int(m["line"] or m["line_"])) for m in _PLACE.finditer(plain)]
    files = [(os.path.abspath(file), line) for file, line in places]
    file, line = next((one for one in files if not Path(one[0]).is_relative_to(PACKAGE)), otherwise)
    return SyntaxError(text, (file, line, None, None))


def _export(module: ir.Module, entry: NativeEntry, result: Any) -> None:
    """A function that calls the compiled one. With arrays, a last argument is an address for whether there was no
    memory."""
    numbers = [ir.DoubleType() if kind is float else _I64 for kind in entry.passed]
    returned = _type(entry.kinds[-1])
    function = ir.Function(module, ir.FunctionType(numba_private.value_type(returned), numbers), entry.symbol)
    builder, passed = ir.IRBuilder(function.append_basic_block()), iter(function.args)
    arguments = [_value(builder, kind, passed) for kind in entry.kinds[:-1]]
    failed, value = numba_private.call(module, builder, result, arguments, returned)
    if entry.arrays:
        builder.store(builder.zext(failed, _I64), builder.inttoptr(next(passed), _I64.as_pointer()))
    builder.ret(value)


def _value(builder: Any, kind: ArgumentKind, passed: Iterator[Any]) -> Any:
    """An argument as native code has it, of one that is passed or several."""
    if isinstance(kind, TupleKind):
        values = [_value(builder, each, passed) for each in kind.kinds]
        return numba_private.tuple_of(builder, _type(kind), values)
    value = next(passed)
    return _array(builder, kind, value) if isinstance(kind, np.ndarray) else value


def _array(builder: Any, kind: np.ndarray, at: Any) -> Any:
    """Numba's array for NumPy's, of which it is given where its own fields begin: data, number of dimensions, lengths
    (NumPy, "Python types and C-structures")."""

    def word(number: int) -> Any:
        return builder.load(builder.inttoptr(builder.add(at, _I64(8 * number)), _I64.as_pointer()))

    lengths = builder.inttoptr(word(2), _I64.as_pointer())
    shape = [builder.load(builder.gep(lengths, [_I64(axis)])) for axis in range(kind.ndim)]
    strides = [_I64(kind.dtype.itemsize)]
    for length in shape[:0:-1]:
        strides.insert(0, builder.mul(strides[0], length))
    return numba_private.array_of(builder, _type(kind), word(0), shape, strides)
