# SPDX-License-Identifier: Apache-2.0
"""Private interfaces of Numba and llvmlite: what their manuals do not describe and a release may change.

No other module uses any; `tests/unit/base/native/test_numba_private.py` tries each. A function is compiled as usual,
but linked once: Numba finishes every function, that is, it links the finished modules of all that the function calls
into it, optimises the result and generates machine code, at each level of the call tree. With `install` a function
keeps only its own IR, and an object links the IR of everything that it reaches, once. (Numba's pull request 9566
proposed the same.) It is for processes in which nothing that Numba compiles is run; without it objects do the same, and
take longer to make.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import llvmlite.binding as llvm
import numba
import numpy as np
from llvmlite import ir
from numba.core import codegen, compiler_lock, errors, types
from numba.core.registry import cpu_target
from numba.core.runtime import nrtdynmod
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array  # pyright: ignore[reportUnknownVariableType]

from detour.base.errors import DetourError

NumbaError: Any = errors.NumbaError
OPTIONS: dict[str, Any] = {
    "nogil": True,
    "boundscheck": False,
    "error_model": "numpy",  # nothing raises on a division by zero
    "no_cpython_wrapper": True,  # wrappers are a third of the time to compile
    "no_cfunc_wrapper": True,
}
_NO_ARRAYS = {"_nrt": False}
"""where no arrays are made: without Numba's reference counts, which cost more than all else that a packet does"""
_I64 = ir.IntType(64)


def _context() -> Any:
    """Return the context of Numba's target, which is this processor."""
    return cpu_target.target_context


# -- functions ------------------------------------------------------------------------------------------------


def dispatcher(function: Callable[..., Any], *, arrays: bool, forceinline: bool) -> Any:
    """Numba's function for one of Python, which may make arrays."""
    options: Any = OPTIONS | {"forceinline": forceinline} | ({} if arrays else _NO_ARRAYS)
    return numba.njit(function, **options)


def compiled(dispatcher: Any, signature: tuple[Any, ...]) -> Any:
    """Return what Numba keeps of a function compiled for arguments of these types. Raises `NumbaError`."""
    dispatcher.compile(signature)
    return dispatcher.overloads[signature]


def result_type(result: Any) -> Any:
    """The type of what a compiled function returns."""
    return result.fndesc.restype


def type_of(intrinsic: Any) -> Any:
    """The type of an object of Numba's."""
    typing: Any = cpu_target.typing_context
    typing.refresh()
    return typing.resolve_value_type(intrinsic)


def tuple_type(kinds: Sequence[Any], made: type) -> Any:
    """The type of named tuples `made` of these types."""
    return types.BaseTuple.from_types(kinds, made)


@contextmanager
def alone() -> Iterator[None]:
    """Keep other threads of this process from compiling meanwhile."""
    with compiler_lock.global_compiler_lock:
        yield


def report_fields(no_field: Callable[[str, Any], str]) -> None:
    """Let Numba say `no_field(name, name)` of a field that a record has not; it raises a KeyError without the
    place."""

    def field_type(record: Any, name: str) -> Any:
        if name not in record.fields:
            raise errors.TypingError(no_field(name, record.fields))
        return record.fields[name].type

    record: Any = types.Record
    record.typeof = field_type


# -- operations that Numba cannot express ------------------------------------------------------------------------


def intrinsic_of_numbers(arguments: int, generate: Callable[[Any, Any, list[Any]], Any], result: str) -> Any:
    """Numba's intrinsic of int64s whose code `generate(ir, builder, args)` writes."""
    signature = getattr(types, result)(*[types.int64] * arguments)

    def codegen(context: Any, builder: Any, _: Any, args: Any) -> Any:
        value = generate(ir, builder, args)
        return context.get_dummy_value() if result == "void" else value

    # Numba wants the number of parameters written out.
    names = ", ".join(f"a{number}" for number in range(arguments))
    define = eval(f"lambda code: lambda typing_context{', ' * bool(names)}{names}: code", {})
    return intrinsic(define((signature, codegen)))


def external(name: str, result: str, *arguments: str) -> Any:
    """A function of the C library."""
    return types.ExternalFunction(name, getattr(types, result)(*[getattr(types, each) for each in arguments]))


def record_at(dtype: np.dtype[Any]) -> Any:
    """`at(base, index)`: row `index` of the table of such records that begins at address `base`."""
    record = numba.from_dtype(dtype)

    @intrinsic
    def at(typing_context: Any, base: Any, index: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            address = builder.add(args[0], builder.mul(args[1], _I64(dtype.itemsize)))
            return builder.inttoptr(address, context.get_value_type(record))

        return record(types.int64, types.int64), codegen

    return at


def record_address() -> Any:
    """`address(record)`: where a record is."""

    @intrinsic
    def address(typing_context: Any, record: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.ptrtoint(args[0], _I64)

        return types.int64(record), codegen

    return address


# -- values in IR -------------------------------------------------------------------------------------------------


def call(module: ir.Module, builder: ir.IRBuilder, result: Any, arguments: Sequence[Any], returned: Any) -> Any:
    """Call a compiled function by Numba's convention: whether it failed, and what it returned as that type (0 where it
    returned None)."""
    native, convention = result.fndesc, _context().call_conv
    callee = ir.Function(module, convention.get_function_type(native.restype, native.argtypes), native.llvm_func_name)
    status, value = convention.call_function(builder, callee, native.restype, native.argtypes, arguments)
    if native.restype == types.none:
        return status.is_error, _I64(0)
    return status.is_error, _context().cast(builder, value, native.restype, returned)


def value_type(kind: Any) -> ir.Type:
    """The type in IR of values of one of Numba's types."""
    return _context().get_value_type(kind)


def tuple_of(builder: ir.IRBuilder, kind: Any, values: Sequence[Any]) -> Any:
    """A named tuple of that type."""
    return _context().make_tuple(builder, kind, values)


def array_of(builder: ir.IRBuilder, kind: Any, data: Any, shape: Sequence[Any], strides: Sequence[Any]) -> Any:
    """An array whose data is at an address and belongs to another."""
    array: Any = _context().make_array(kind)(_context(), builder)
    pointer = builder.inttoptr(data, array.data.type)
    populate_array(array, data=pointer, shape=shape, strides=strides, itemsize=strides[-1], meminfo=None)
    return array._getvalue()


def counting() -> str:
    """IR that counts references to arrays."""
    return str(nrtdynmod.create_nrt_module(_context())[0])


# -- linking ------------------------------------------------------------------------------------------------------


class Linked:
    """The object of some compiled functions, with all that they call."""

    def __init__(self, name: str) -> None:
        self._library: Any = _context().codegen().create_library(name)

    def add(self, result: Any) -> None:
        """Link a compiled function."""
        self._library.add_linking_library(result.library)

    def add_text(self, text: str) -> None:
        """Link a module of IR."""
        self._library.add_llvm_module(llvm.parse_assembly(text))

    def _reached(self) -> list[Any]:
        """Every library that this one may call, directly or not, once."""
        seen: dict[Any, None] = {}
        pending = list(self._library._linking_libraries)
        while pending:
            one = pending.pop()
            if one is not self._library and one not in seen:
                seen[one] = None
                pending += one._linking_libraries
        return list(seen)

    @property
    def lasting(self) -> bool:
        """Return whether it will do in other processes: nothing in it is an address in this one."""
        return not any(one._dynamic_globals for one in self._reached())

    def emit(self, machine: Any = None) -> bytes:
        """The object file, for LLVM's `machine` if it is another one than this; functions are not to be used in this
        process any more. Raises `DetourError`: it needs something that only Numba has."""
        library = self._library
        for one in self._reached():
            library._final_module.link_in(one._get_module_for_linking(), preserve=True)
        if machine is not None:
            library._codegen._tm = machine
            library._final_module.triple, library._final_module.data_layout = machine.triple, str(machine.target_data)
        library._optimize_final_module()
        library._final_module.verify()
        declared = [one.name for one in library._final_module.functions if one.is_declaration]
        missing = [name for name in declared if name.startswith(("NRT_", "numba_"))]
        if missing:
            raise DetourError(
                f"{library.name} needs {', '.join(missing)}, which only Numba has: arrays assigned to slices and the"
                " axes of sums bring errors in words (see detour/control/native.py)"
            )
        return library._codegen._tm.emit_object(library._final_module)


class _OneLink(codegen.JITCodeLibrary):  # pyright: ignore[reportPrivateImportUsage]
    """A library that is never finished."""

    _source: Any = None
    """its own IR, for what links it"""

    def add_linking_library(self, library: Any) -> None:
        self._linking_libraries.append(library)

    def get_pointer_to_function(self, name: str) -> int:
        return super().get_pointer_to_function(name) if self._finalized else 0

    def _get_module_for_linking(self) -> Any:
        """Return its IR. Functions may be defined more than once, and are dropped where nothing calls them."""
        if self._source is None:
            self._source = self._final_module.clone()
            for function in self._source.functions:
                if not function.is_declaration and function.linkage == llvm.Linkage.external:
                    function.linkage = "linkonce_odr"
        return self._source


class _CodeGenerator(codegen.JITCPUCodegen):  # pyright: ignore[reportPrivateImportUsage]
    _library_class = _OneLink

    def set_env(self, env_name: str, env: Any) -> None:
        """Would tell code which Python objects it uses."""


def install() -> None:
    """Let Numba's CPU target, which no function has used yet, link this way."""
    codegen.JITCPUCodegen = _CodeGenerator  # pyright: ignore[reportPrivateImportUsage]
