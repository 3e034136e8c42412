# SPDX-License-Identifier: Apache-2.0
"""Native functions: marks on Python functions that are compiled (`native`).

`Part.entry` marks what is called from Python or by address and belongs to a part, which is compiled, linked and stored
as one object; `inner` and `allocating` what only native functions call.

`NUMBA_DISABLE_JIT=1` runs everything as plain Python, for debugging.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import cached_property, partial, update_wrapper, wraps
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
    """The message about a field that a record lacks, with similar names first."""
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


class Native:
    """A native function. Numba is told of it, and its function made, where it is compiled (`native.building`)."""

    def __init__(self, function: Callable[..., Any], *, arrays: bool, forceinline: bool = False) -> None:
        """`arrays`: it may make arrays. `forceinline`: every call of it is replaced by its code."""
        update_wrapper(self, function)
        self.py_func, self.arrays, self.forceinline = function, arrays, forceinline
        self.name = function.__name__
        self.file = Path(function.__code__.co_filename)
        NATIVES.append(self)

    def __call__(self, *arguments: Any) -> Any:
        raise TypeError(f"{self.name} is for native code only")


class Intrinsic:
    """An operation of native code that Numba cannot express: `made` is Numba's own object for it."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make

    @cached_property
    def made(self) -> Any:
        return self._make()


def intrinsic(python: _F) -> Callable[[Callable[[], Any]], _F]:
    """Decorate what makes an intrinsic; `python` is used instead where nothing is compiled, and say its type."""
    return lambda make: cast("_F", Intrinsic(make)) if COMPILED else python


@overload
def inner(function: _F, *, forceinline: bool = False) -> _F: ...
@overload
def inner(function: None = None, *, forceinline: bool = False) -> Callable[[_F], _F]: ...
def inner(function: Callable[..., Any] | None = None, *, forceinline: bool = False) -> Any:
    """For what only native functions call and makes no arrays. Constants as arguments are written `int64(...)` where
    Numba would otherwise compile the callee once per constant."""
    if function is None:
        return partial(inner, forceinline=forceinline)
    return Native(function, arrays=False, forceinline=forceinline) if COMPILED else _with_records(function)


def allocating(function: _F) -> _F:
    """For what only native functions call and may make arrays and lists."""
    return cast("_F", Native(function, arrays=True)) if COMPILED else function


int64: Callable[[Any], int] = cast("Any", np.int64)
"""`np.int64`, a whole number to type checkers"""
float64: Callable[[Any], float] = cast("Any", np.float64)
"""`np.float64`, likewise a number"""
