# SPDX-License-Identifier: Apache-2.0
"""Native functions: Python functions that Numba compiles. Numba itself is loaded when something has to be compiled.

`entry` marks what is called from Python or by address and belongs to a part (`detour.base.parts`), which is compiled,
linked and stored as one object; `inner` and `allocating` what only native functions call.

`NUMBA_DISABLE_JIT=1` runs everything as plain Python, for debugging.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import cached_property, partial, update_wrapper, wraps
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar, cast, overload

import numpy as np

_F = TypeVar("_F", bound=Callable[..., Any])

JIT_OFF = "NUMBA_DISABLE_JIT"
_SHOWN = 12
COMPILED = os.environ.get(JIT_OFF, "0") in ("", "0")


class Fields:
    """A record of an array with its fields as attributes, as native code has it, for native functions that run as
    Python.

    NumPy's own, `np.record`, finds its methods before fields that are called like them (`size`, `flags`, `round`).
    """

    __slots__ = ("_record",)

    def __init__(self, record: np.void) -> None:
        object.__setattr__(self, "_record", record)

    def __getattr__(self, name: str) -> Any:
        if name not in (fields := self._record.dtype.fields or {}):
            raise AttributeError(no_field(name, fields))
        return as_record(self._record[name])

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in (fields := self._record.dtype.fields or {}):
            raise AttributeError(no_field(name, fields))
        self._record[name] = value


def no_field(name: str, names: Iterable[str]) -> str:
    """What is said of a field that a record has not; names like it come first."""
    from difflib import get_close_matches

    names = list(names)
    shown = list(dict.fromkeys([*get_close_matches(name, names), *names]))
    return f"there is no field {name}; there are {', '.join(shown[:_SHOWN])}{', ...' if shown[_SHOWN:] else ''}"


def as_record(value: Any) -> Any:
    """A record of an array as `Fields`; anything else as it is."""
    return Fields(value) if isinstance(value, np.void) else value


def _with_records(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def called(*arguments: Any) -> Any:
        return function(*map(as_record, arguments))

    return called


NATIVES: list[Native] = []


def _numba() -> Any:
    """Import the module that makes Numba functions, at first need: it takes half a second."""
    return import_module("detour.base.linking")


class Native:
    """A native function. Numba takes it for its own kind of function, which it makes of it at the first need."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        update_wrapper(self, function)
        self.py_func, self.options, self.name = function, options, function.__name__
        self.file = Path(function.__code__.co_filename)
        NATIVES.append(self)

    @cached_property
    def dispatcher(self) -> Any:
        """Numba's."""
        return _numba().dispatcher(self)

    @property
    def _numba_type_(self) -> Any:
        return self.dispatcher._numba_type_

    def __call__(self, *arguments: Any) -> Any:
        raise TypeError(f"{self.name} is for native code only")


class Intrinsic:
    """An operation of native code that Numba cannot express: `make()` returns Numba's own object for it."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make

    @cached_property
    def _made(self) -> Any:
        return self._make()

    @cached_property
    def _numba_type_(self) -> Any:
        return _numba().type_of(self._made)


def intrinsic(python: _F) -> Callable[[Callable[[], Any]], _F]:
    """Decorates what makes an intrinsic; `python` is used instead where nothing is compiled, and says its type."""
    return lambda make: cast("_F", Intrinsic(make)) if COMPILED else python


OPTIONS: dict[str, Any] = {
    "nogil": True,
    "boundscheck": False,
    "error_model": "numpy",  # nothing raises on a division by zero
    "no_cpython_wrapper": True,  # wrappers are a third of the time to compile
    "no_cfunc_wrapper": True,
}
NO_ARRAYS = {"_nrt": False}
"""where no arrays are made: without Numba's reference counts, which cost more than all else that a packet does"""


@overload
def inner(function: _F, **options: Any) -> _F: ...
@overload
def inner(function: None = None, **options: Any) -> Callable[[_F], _F]: ...
def inner(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """For what only native functions call and makes no arrays. Constants as arguments are written `int64(...)` where
    Numba would otherwise compile the callee once per constant."""
    if function is None:
        return partial(inner, **options)
    return Native(function, OPTIONS | NO_ARRAYS | options) if COMPILED else _with_records(function)


def allocating(function: _F) -> _F:
    """For what only native functions call and may make arrays and lists."""
    return cast("_F", Native(function, OPTIONS)) if COMPILED else function


int64: Callable[[Any], int] = cast("Any", np.int64)
"""`np.int64`, a whole number to type checkers"""
float64: Callable[[Any], float] = cast("Any", np.float64)
"""`np.float64`, likewise a number"""
