# SPDX-License-Identifier: Apache-2.0
"""Entries: native functions that Python and others call by their address.

Entries return a number (`int` and `float` are 64 bits, `bool` and None are 0 or 1). They take numbers, and from Python
arrays (`arrays.Int32s2`, C-contiguous) and named tuples of these.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, NamedTuple, get_args, get_type_hints

import numpy as np

from detour.base.jit import Native

_HEAD_BYTES = object.__basicsize__
"""in front of what an object in C has of its own, which depends on how Python was built"""


class TupleKind(NamedTuple):
    """A named tuple `made` of these."""

    made: Any
    kinds: tuple[ArgumentKind, ...]


ArgumentKind = type | np.ndarray | TupleKind
"""of an argument or a result: int, float, bool, type(None), or an empty array like it"""
_NUMBERS = (int, float, bool, type(None))


def _kind(annotation: Any) -> ArgumentKind:
    if annotation in _NUMBERS:
        return annotation
    if hasattr(annotation, "_fields"):
        return TupleKind(annotation, tuple(map(_kind, get_type_hints(annotation, include_extras=True).values())))
    array, dimensions = get_args(annotation)
    return np.empty((0,) * int(dimensions), _number(array))


def _number(array: Any) -> type[np.generic]:
    """The type of the elements of an `NDArray`: an alias with that as its argument from NumPy 2.5 on, before that
    `ndarray[shape, dtype[element]]`."""
    last = get_args(array)[-1]
    return next(iter(get_args(last)), last)


def _flat(kind: ArgumentKind) -> Iterator[ArgumentKind]:
    """List the values that are passed for an argument."""
    if isinstance(kind, TupleKind):
        for each in kind.kinds:
            yield from _flat(each)
    else:
        yield kind


class NativeEntry(Native):
    """A native function that Python and others call by its address."""

    def __init__(self, find: Callable[[str], int], function: Callable[..., Any]) -> None:
        """`find`: where a function of the object begins that it is in."""
        plain = ("int", "float", "bool", "None", None, *_NUMBERS)
        super().__init__(function, arrays=any(kind not in plain for kind in function.__annotations__.values()))
        self._find = find

    @property
    def symbol(self) -> str:
        """Its name in the object."""
        return f"detour_{self.name}"

    @cached_property
    def kinds(self) -> tuple[ArgumentKind, ...]:
        """Kinds of the arguments, then of the result."""
        code, annotations = self.py_func.__code__, get_type_hints(self.py_func, include_extras=True)
        return tuple(_kind(annotations[name]) for name in (*code.co_varnames[: code.co_argcount], "return"))

    @cached_property
    def passed(self) -> tuple[ArgumentKind, ...]:
        """Kinds of the values passed: numbers and addresses."""
        return (*(each for kind in self.kinds[:-1] for each in _flat(kind)), *([int] if self.arrays else []))

    @cached_property
    def address(self) -> int:
        """Return where it is."""
        return self._find(self.symbol)

    @cached_property
    def function(self) -> Callable[..., Any]:
        """The entry as a function that Python can call."""
        result, *arguments = (
            ctypes.c_double if kind is float else ctypes.c_int64 for kind in (self.kinds[-1], *self.passed)
        )
        return ctypes.CFUNCTYPE(result, *arguments)(self.address)

    def __call__(self, *arguments: Any) -> Any:
        if not self.arrays:
            try:
                return self.function(*arguments)
            except ctypes.ArgumentError:  # NumPy's numbers
                return self.function(*[each if type(each) is float else int(each) for each in arguments])
        passed: list[Any] = []
        for kind, each in zip(self.kinds[:-1], arguments, strict=True):
            self._pass(kind, each, passed)
        failed = ctypes.c_int64()
        result = self.function(*passed, ctypes.addressof(failed))
        if failed.value:
            raise MemoryError(f"{self.name}: there is no memory for its arrays")
        return result

    def _pass(self, kind: ArgumentKind, value: Any, passed: list[Any]) -> None:
        """Append what is passed for an argument. Raises `TypeError`: an array of another type."""
        if isinstance(kind, np.ndarray):
            if value.dtype != kind.dtype or value.ndim != kind.ndim or not value.flags.c_contiguous:
                order = "C-contiguous" if value.flags.c_contiguous else "strided"
                raise TypeError(
                    f"{self.name} takes an array of {kind.dtype}, {kind.ndim} dimensions, C-contiguous,"
                    f" not {value.dtype}, {value.ndim}, {order}"
                )
            passed.append(id(value) + _HEAD_BYTES)
        elif isinstance(kind, TupleKind):
            for each, one in zip(kind.kinds, value, strict=True):
                self._pass(each, one, passed)
        else:
            passed.append(float(value) if kind is float else int(value))
