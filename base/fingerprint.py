# SPDX-License-Identifier: Apache-2.0
"""Everything that a native function was compiled from, as one digest.

Numba inlines what a function calls and freezes the globals that it reads. So a function's fingerprint covers its
byte code and constants, the values of all globals, module attributes and closure variables that it names and, of
functions among them, their fingerprints in turn. What comes from NumPy, Numba, llvmlite and the standard library counts
by its name; their versions are part of the cache's key.

A name counts as soon as it occurs in the byte code, be it of an attribute only: this errs towards compiling anew.
"""

from __future__ import annotations

import builtins
import dis
import enum
import functools
import hashlib
import importlib
import sys
import types as python
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import imputils
from numba.core.dispatcher import Dispatcher
from numba.core.errors import TypingError
from numba.core.extending import _Intrinsic  # pyright: ignore[reportPrivateUsage]
from numba.core.registry import cpu_target

from detour.base.errors import DetourError

_BY_NAME = frozenset(sys.stdlib_module_names) - {"__main__"} | {"numpy", "numba", "llvmlite"}
_MISSING = object()
_NEVER = 1 << 30
_NUMPY_FUNCTION = type(np.max)
_SCALARS = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis))


class Unknown(Exception):
    """A value of which nobody can say whether it is the same in another process."""


def _sha(*parts: bytes) -> bytes:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.digest()


def _text(*parts: object) -> bytes:
    return _sha(*(str(part).encode(errors="surrogatepass") for part in parts))


def is_foreign(namespace: dict[str, Any]) -> bool:
    """Whether the functions of a module count by their names."""
    return str(namespace.get("__name__", "")).partition(".")[0] in _BY_NAME


def _all_names(code: python.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, python.CodeType):
            yield from _all_names(constant)


@functools.cache
def _code(code: python.CodeType) -> tuple[bytes, tuple[str, ...]]:
    """Digest of what code does, and the names that it uses."""
    constants = [_code(c)[0] if isinstance(c, python.CodeType) else _constant(c) for c in code.co_consts]
    variables = (code.co_varnames, code.co_cellvars, code.co_freevars)
    counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
    digest = _sha(code.co_code, _text(code.co_name, code.co_names, variables, counts), *constants)
    return digest, tuple(sorted(set(_all_names(code))))


def _constant(value: Any) -> bytes:
    if isinstance(value, frozenset):  # its order differs from process to process
        return _sha(b"frozenset", *sorted(_constant(one) for one in value))
    if isinstance(value, tuple):
        return _sha(b"tuple", *(_constant(one) for one in value))
    return _text(type(value).__name__, repr(value))


def _loads(code: python.CodeType, name: str) -> bool:
    """Whether code really reads that global, or that attribute of one (and not one of a record, say)."""
    chained = False
    for instruction in dis.get_instructions(code):
        chained = instruction.opname == "LOAD_GLOBAL" or (
            chained and instruction.opname in ("LOAD_ATTR", "LOAD_METHOD")
        )
        if chained and instruction.argval == name:
            return True
    return False


@functools.cache
def _dtype(identity: int, dtype: np.dtype) -> bytes:
    """Of a type; by its identity, because looking for an equal one takes as long."""
    return _text("dtype", repr(dtype), dtype.itemsize, dtype.isalignedstruct)


def _plain(value: Any) -> bytes | None:
    """What can be told without looking at anything else."""
    if isinstance(value, _SCALARS):
        return _text(type(value).__name__, repr(value))
    if isinstance(value, enum.Enum):
        return _text("enum", type(value).__qualname__, value.name, repr(value.value))
    if isinstance(value, np.dtype):
        return _dtype(id(value), value)
    if isinstance(value, np.generic):
        return _text("scalar", repr(value.dtype)) + value.tobytes()
    if isinstance(value, type):
        members = {name: repr(m.value) for name, m in value.__members__.items()} if issubclass(value, enum.Enum) else ""
        return _text("class", value.__module__, value.__qualname__, getattr(value, "_fields", ""), members)
    if isinstance(value, ir.Type):
        return _text("llvm", value)
    if isinstance(value, python.BuiltinFunctionType | python.MethodDescriptorType | np.ufunc | _NUMPY_FUNCTION):
        return _text("builtin", getattr(value, "__module__", ""), getattr(value, "__qualname__", value.__name__))
    return None


class Fingerprints:
    """Fingerprints of functions, kept for as long as nothing that they were made from was replaced.

    `seen_native(dispatcher)` and `seen_namespace(dict)` are called for every native function met and for every module's
    dictionary from which something was read.
    """

    def __init__(
        self,
        seen_native: Callable[[Any], None] = lambda dispatcher: None,
        seen_namespace: Callable[[dict[str, Any]], None] = lambda namespace: None,
    ) -> None:
        self._seen_native = seen_native
        self._seen_namespace = seen_namespace
        self._known: dict[int, tuple[Any, bytes]] = {}
        self._read: dict[tuple[int, str], Any] = {}
        # Lists, because other threads may go through them while they grow.
        self._own: list[tuple[dict[str, Any], str, Any]] = []
        self._others: list[tuple[dict[str, Any], str, Any]] = []
        self._rest: list[tuple[Callable[[], Any], Any]] = []
        self._stack: list[int] = []
        self._lowest = _NEVER
        self._lowered: dict[int, list[Any]] = {}
        self._registered = 0

    # -- what changed -----------------------------------------------------------------------------------

    def reads(self, namespace: dict[str, Any], name: str) -> bool:
        """Whether something else than what is there now was read under that name."""
        key = (id(namespace), name)
        return key in self._read and namespace.get(name, _MISSING) is not self._read[key]

    def current(self) -> bool:
        """Whether everything that was read still is what it was."""
        return (
            self.current_outside()
            and all(namespace.get(name, _MISSING) is value for namespace, name, value in self._own)
            and all(_same(read(), value) for read, value in self._rest)
        )

    def current_outside(self) -> bool:
        """The same for what was read from modules that are not detour's (a script's may change at any time)."""
        return all(namespace.get(name, _MISSING) is value for namespace, name, value in self._others)

    def forget(self) -> None:
        """Starts anew."""
        self._known.clear()
        self._read.clear()
        self._own, self._others, self._rest = [], [], []

    # -- fingerprints -----------------------------------------------------------------------------------

    def of(self, dispatcher: Any) -> str:
        """The fingerprint of a native function.

        Raises:
            Unknown: it refers to something that cannot be compared across processes.
            DetourError: it calls a plain Python function, which native code cannot.
        """
        self._stack.clear()
        self._lowest = _NEVER
        return self._value(dispatcher, ()).hex()

    def type_text(self, kind: Any) -> str:
        """A Numba type, as exactly as it decides what code comes out."""
        self._stack.clear()
        return self._value(kind, ()).hex()

    def _value(self, value: Any, names: tuple[str, ...]) -> bytes:
        """Digest of any value; `names`: which attributes are used if it is a module."""
        found = _plain(value)
        if found is not None:
            return found
        if isinstance(value, Dispatcher):
            self._seen_native(value)
            return _sha(
                b"native", _text(sorted(value.targetoptions.items())), self._function(value.py_func, native=True)
            )
        if isinstance(value, python.FunctionType):
            if is_foreign(value.__globals__):
                return _text("function", value.__module__, value.__qualname__)
            return _sha(b"function", self._function(value), *(self._value(one, ()) for one in self._lowering(value)))
        if isinstance(value, _Intrinsic):
            return _sha(b"intrinsic", self._function(value._defn))  # pyright: ignore[reportPrivateUsage]
        if isinstance(value, python.ModuleType):
            return self._module(value, names, set())
        return self._compound(value)

    def _compound(self, value: Any) -> bytes:
        if isinstance(value, types.Type):
            return self._type(value)
        if isinstance(value, functools.partial):
            return _sha(b"partial", *self._each((value.func, value.args, value.keywords)))
        if isinstance(value, tuple):
            return _sha(self._value(type(value), ()), *self._each(value))
        if isinstance(value, np.ndarray | list | dict | set | frozenset):
            self._rest.append((functools.partial(_content, value), _content(value)))
            return self._mutable(value)
        raise Unknown(f"{type(value).__qualname__} {value!r}")

    def _type(self, kind: Any) -> bytes:
        """A Numba type. The text of a named tuple's has the name of the class only."""
        if isinstance(kind, types.Dispatcher):
            return self._value(kind.dispatcher, ())
        if isinstance(kind, types.BaseTuple):
            made = getattr(kind, "instance_class", None)
            members: Any = getattr(kind, "types", ())
            return _sha(_text(type(kind).__name__), self._value(made, ()), *self._each(members))
        return _text(type(kind).__qualname__, kind)

    def _each(self, values: Any) -> list[bytes]:
        return [self._value(one, ()) for one in values]

    def _mutable(self, value: Any) -> bytes:
        if isinstance(value, np.ndarray):
            if value.dtype.hasobject:
                raise Unknown("array of Python objects")
            return _sha(_text("array", repr(value.dtype), value.shape), value.tobytes())
        if isinstance(value, dict):
            return _sha(b"dict", *(self._value(pair, ()) for pair in value.items()))
        if isinstance(value, list):
            return _sha(b"list", *self._each(value))
        return _sha(b"set", *sorted(self._each(value)))

    def _module(self, module: python.ModuleType, names: tuple[str, ...], within: set[int]) -> bytes:
        """The attributes of a module that code names, and those of modules below it."""
        namespace = vars(module)
        within.add(id(namespace))
        parts = []
        for name in names:
            value = namespace.get(name, _MISSING)
            if value is _MISSING or (isinstance(value, python.ModuleType) and id(vars(value)) in within):
                continue
            self._note(namespace, name, value)
            inner = isinstance(value, python.ModuleType)
            parts += [name.encode(), self._module(value, names, within) if inner else self._value(value, names)]
        return _sha(b"module", module.__name__.encode(), *parts)

    def _note(self, namespace: dict[str, Any], name: str, value: Any) -> None:
        key = (id(namespace), name)
        if key in self._read:
            return
        self._read[key] = value
        self._seen_namespace(namespace)
        own = str(namespace.get("__name__", "")).startswith("detour.") or is_foreign(namespace)
        (self._own if own else self._others).append((namespace, name, value))

    def _lowering(self, function: Any) -> list[Any]:
        """What writes the code for calls of a plain function (`numba.extending.lower_builtin`)."""
        registered = imputils.builtin_registry.functions
        for implementation, of, _ in registered[self._registered :]:
            if isinstance(of, python.FunctionType) and not is_foreign(of.__globals__):
                self._lowered.setdefault(id(of), []).append(implementation)
        self._registered = len(registered)
        return self._lowered.get(id(function), [])

    # -- functions --------------------------------------------------------------------------------------

    def _function(self, function: Any, native: bool = False) -> bytes:
        """Digest of a function and of all that it names. A function that calls itself, by whatever detour, meets itself
        on the stack and counts by its place there. The digest of a function on such a ring depends on where the ring
        was entered, so it is not kept."""
        known = self._known.get(id(function))
        if known is not None:
            return known[1]
        if id(function) in self._stack:
            place = self._stack.index(id(function))
            self._lowest = min(self._lowest, place)
            return _text("above", len(self._stack) - place)
        before, self._lowest = self._lowest, _NEVER
        self._stack.append(id(function))
        try:
            digest = self._contents(function, native)
        finally:
            self._stack.pop()
        if self._lowest == _NEVER:
            self._known[id(function)] = (function, digest)
        if self._lowest >= len(self._stack):
            self._lowest = _NEVER
        self._lowest = min(before, self._lowest)
        return digest

    def _contents(self, function: Any, native: bool) -> bytes:
        code = function.__code__
        digest, names = _code(code)
        self._rest.append((lambda: function.__code__, code))
        parts = [digest, function.__qualname__.encode(), self._value(function.__defaults__, ())]
        for name, value in self._globals(function, names):
            if native:
                self._callable(function, name, value, names)
            parts += [name.encode(), self._value(value, names)]
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            value = _cell(cell)
            self._rest.append((functools.partial(_cell, cell), value))
            parts += [name.encode(), b"empty" if value is _MISSING else self._value(value, names)]
        return _sha(*parts)

    def _globals(self, function: Any, names: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
        namespace = function.__globals__
        for name in names:
            value = namespace.get(name, _MISSING)
            if value is _MISSING:
                value = builtins.__dict__.get(name, _MISSING)
                if value is _MISSING:
                    continue  # an attribute's name
                self._note(builtins.__dict__, name, value)
                self._note(namespace, name, _MISSING)
            else:
                self._note(namespace, name, value)
            yield name, value

    def _callable(self, function: Any, name: str, value: Any, names: tuple[str, ...]) -> None:
        """Refuses what Numba would explain in fifty lines: a plain function where native code calls it."""
        if isinstance(value, python.ModuleType) and not is_foreign(vars(value)):
            for attribute in names:
                inner = vars(value).get(attribute)
                if isinstance(inner, python.FunctionType):
                    self._callable(function, attribute, inner, names)
            return
        if not isinstance(value, python.FunctionType) or is_foreign(value.__globals__) or self._lowering(value):
            return
        if _loads(function.__code__, name) and not _is_typed(value):
            where = f"{function.__module__}.{function.__qualname__}"
            raise DetourError(
                f"native code cannot call the plain function {value.__module__}.{value.__qualname__}, to which "
                f"'{name}' in {where} refers: decorate it with detour.base.jit.njit"
            )


def _is_typed(function: Any) -> bool:
    """Whether Numba knows what a call of a plain function means."""
    typing_context: Any = cpu_target.typing_context
    try:
        typing_context.resolve_value_type(function)
    except (TypingError, ValueError):
        return False
    return True


def _cell(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _MISSING


def _content(value: Any) -> Any:
    """What tells whether a container holds what it held."""
    if isinstance(value, np.ndarray):
        return value.tobytes()
    if isinstance(value, dict):
        return tuple(value.items())
    return tuple(value)


def _same(now: Any, before: Any) -> bool:
    if isinstance(now, tuple) and isinstance(before, tuple):
        return len(now) == len(before) and all(_same(a, b) for a, b in zip(now, before, strict=True))
    return now is before or (isinstance(now, bytes) and now == before)


def of_modules(names: list[str]) -> bytes:
    """Digest of what the functions, classes and plain values of modules are at this moment."""
    return _sha(*(_members(name, vars(importlib.import_module(name)), 0) for name in names))


def _members(owner: str, members: Any, depth: int) -> bytes:
    parts = [owner.encode()]
    for name, value in sorted(members.items()):
        if not name.startswith("__") or name in ("__init__", "__call__", "__enter__", "__exit__"):
            parts += [name.encode(), _member(value, depth)]
    return _sha(*parts)


def _member(value: Any, depth: int) -> bytes:
    value = getattr(value, "__func__", value)  # static and class methods
    value = getattr(value, "fget", value)  # properties
    value = getattr(value, "__wrapped__", value)  # what functools decorates
    if isinstance(value, python.FunctionType):
        return _code(value.__code__)[0]
    if isinstance(value, type) and depth < 2 and not is_foreign({"__name__": value.__module__}):
        return _members(value.__qualname__, vars(value), depth + 1)
    if isinstance(value, (*_SCALARS, tuple, frozenset)):
        return _constant(value) if _is_constant(value) else _text(type(value).__qualname__)
    return _text(type(value).__module__, type(value).__qualname__)


def _is_constant(value: Any) -> bool:
    return isinstance(value, _SCALARS) or (isinstance(value, tuple | frozenset) and all(map(_is_constant, value)))
