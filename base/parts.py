# SPDX-License-Identifier: Apache-2.0
"""Parts: native functions that are compiled, linked, optimised and stored together as one object file.

    LOOP = Part("loop", "detour.engine.loop.entry")

    @LOOP.entry
    def run_slice(globals_: int, until: int, budget: int) -> int: ...

An object is found by the digest of the sources that went into it (`sources`), the versions of the compilers and the
processor. Where it is there, it is loaded with llvmlite alone; Numba is imported to build it (`building`).

Entries take and return numbers (`int` and `float` are 64 bits, `bool` and None are 0 or 1); tables go by address.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import sys
from collections.abc import Callable
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from detour.base import sources
from detour.base.cache import Cache, cache_dir
from detour.base.jit import COMPILED, Native

if TYPE_CHECKING:
    from detour.base.objects import NativeCode

F = TypeVar("F", bound=Callable[..., Any])


def _top() -> Path:
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    return Path(chosen) if chosen else cache_dir()


NATIVE_CACHE = Cache("numba", top=_top)
"""where native code is kept"""

PARTS: dict[str, Part] = {}
_C_TYPES: dict[str, Any] = {"float": ctypes.c_double}


class Part:
    """Entries of some modules, which must be importable by name."""

    def __init__(self, name: str, *modules: str) -> None:
        self.name, self.modules = name, modules
        self.entries: dict[str, Entry] = {}
        PARTS[name] = self

    def entry(self, function: F) -> F:
        """Marks a function as an entry."""
        if not COMPILED:
            return function
        made = Entry(self, function)
        self.entries[function.__name__] = made
        return made  # pyright: ignore[reportReturnType]

    @cached_property
    def file(self) -> str:
        """Name of the object file in the cache."""
        from detour.base import objects

        versions = (*sys.version_info[:2], *(version(name) for name in ("numba", "llvmlite", "numpy")))
        key = repr((sources.digest(*self.modules), versions, objects.processor()))
        return f"{self.name}-{hashlib.sha256(key.encode()).hexdigest()[:40]}.o"

    @cached_property
    def code(self) -> NativeCode:
        """The object, loaded; built before if it is not in the cache."""
        from detour.base import objects

        data = NATIVE_CACHE.get(self.file)
        if data is None:
            from detour.base import building

            data = building.build(self)
            NATIVE_CACHE.put(self.file, data)
        return objects.NativeCode(data)


class Entry(Native):
    """A native function that Python and others call by its address."""

    def __init__(self, part: Part, function: Callable[..., Any]) -> None:
        super().__init__(
            function,
            {"nogil": True, "boundscheck": False, "error_model": "numpy", "_nrt": False}
            | {"cache": False, "no_cpython_wrapper": True, "no_cfunc_wrapper": True},
        )
        self.part = part

    @property
    def kinds(self) -> list[str]:
        """Names of the types of the arguments, then of the result."""
        code, annotations = self.py_func.__code__, self.py_func.__annotations__
        names = [*code.co_varnames[: code.co_argcount], "return"]
        return [annotations[name] for name in names]

    @cached_property
    def address(self) -> int:
        """Where it is."""
        return self.part.code.address(f"detour_{self.__name__}")

    @cached_property
    def _function(self) -> Callable[..., Any]:
        *arguments, result = (_C_TYPES.get(kind, ctypes.c_int64) for kind in self.kinds)
        return ctypes.CFUNCTYPE(result, *arguments)(self.address)

    def __call__(self, *arguments: Any) -> Any:
        return self._function(*[each if type(each) is float else int(each) for each in arguments])
