# SPDX-License-Identifier: Apache-2.0
"""Parts: native functions that are compiled, linked, optimised and stored together as one object file.

    LOOP = Part("loop", __name__)

    @LOOP.entry
    def run_slice(globals_: int, until: int, budget: int) -> int: ...

An object is found by the digest of the sources that went into it (`sources`), the versions of the compilers and the
processor. Where it is there, it is loaded with neither Numba nor LLVM (`elf`), which build it (`building`).

Entries take and return numbers (`int` and `float` are 64 bits, `bool` and None are 0 or 1); tables go by address.
"""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import importlib
import os
import subprocess
import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from detour.base import sources
from detour.base.cache import Cache, cache_dir, without
from detour.base.jit import COMPILED, NATIVE_OPTIONS, NATIVES, Native
from detour.base.places import PACKAGE
from detour.base.progress import COMPILING, Progress, silent

if TYPE_CHECKING:
    from detour.base.objects import NativeCode


def _top() -> Path:
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    return Path(chosen) if chosen else cache_dir()


NATIVE_CACHE = Cache("numba", top=_top)
"""where native code is kept"""
SHIPPED = PACKAGE / "native"
"""where a wheel has some"""


def stored(names: Iterable[str]) -> bytes | None:
    """Native code under one of these names: of the cache, or what came with the wheel."""
    for name in names:
        found = NATIVE_CACHE.get(name)
        if found is None and (SHIPPED / name).is_file():
            found = (SHIPPED / name).read_bytes()
        if found is not None:
            return found
    return None


@contextmanager
def _alone(name: str) -> Generator[None]:
    """Lets no other process of this user into the same block meanwhile, if there is a cache at all."""
    try:
        lock = (NATIVE_CACHE.folder().ready() / name).open("w")
    except OSError as error:
        without(error)
        yield
        return
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


PARTS: dict[str, Part] = {}
_CPU_SECONDS = {"loop": 10, "rdma": 15, "ip": 14, "paths": 6, "cc": 3, "rivals": 3}
"""what building takes on one core of an EPYC"""
BUILD_COMMAND = (sys.executable, "-m", "detour.base.building")
"""command that builds the part NAME of MODULE..., and says as JSON what that took"""
_C_TYPES: dict[str, Any] = {"float": ctypes.c_double}


class Part:
    """Entries of some modules, which must be importable by name."""

    def __init__(self, name: str, *modules: str) -> None:
        self.name, self.modules = name, modules
        self.entries: dict[str, NativeEntry] = {}
        self.was_built = False
        self.companions: tuple[Part, ...] = ()  # what it calls by address in most runs
        PARTS[name] = self

    def entry(self, function: Callable[..., Any]) -> Any:
        """Marks a function as an entry."""
        if not COMPILED:
            return function
        made = NativeEntry(self, function)
        self.entries[made.name] = made
        return made

    @cached_property
    def files(self) -> list[str]:
        """Names under which the object may be: what is built here has the first one."""
        from detour.base import objects

        versions = (*sys.version_info[:2], *(version(name) for name in ("numba", "llvmlite", "numpy")))
        keys = [repr((sources.digest(*self.modules), versions, cpu)) for cpu in objects.processors()]
        return [f"{self.name}-{hashlib.sha256(key.encode()).hexdigest()[:40]}.o" for key in keys]

    @cached_property
    def code(self) -> NativeCode:
        """The object, loaded; built before if it is not in the cache."""
        from detour.base import objects

        return objects.NativeCode(stored(self.files) or self._built())

    def _built(self) -> bytes:
        """Built by one process at a time, since harnesses start many at once; the others take what that one made."""
        building = importlib.import_module("detour.base.building")  # and Numba
        with _alone(f"{self.name}.lock"):
            data = stored(self.files)
            if data is None:
                data = building.build(self)
                self.was_built = True
                NATIVE_CACHE.put(self.files[0], data)
                NATIVE_CACHE.prune()
        return data

    def load(self) -> None:
        """Loads the object and looks up its entries, which is otherwise done at their first use."""
        for entry in self.entries.values():
            _ = entry.function

    @property
    def functions(self) -> int:
        """How many native functions its sources have."""
        files = set(sources.files(*self.modules))
        return sum(one.file in files for one in NATIVES)

    @property
    def cached(self) -> bool:
        """Whether it need not be built."""
        return stored(self.files) is not None


class NativeEntry(Native):
    """A native function that Python and others call by its address."""

    def __init__(self, part: Part, function: Callable[..., Any]) -> None:
        super().__init__(function, NATIVE_OPTIONS)
        self.part = part

    @property
    def kinds(self) -> list[str]:
        """Names of the types of the arguments, then of the result."""
        code, annotations = self.py_func.__code__, self.py_func.__annotations__
        names = [*code.co_varnames[: code.co_argcount], "return"]
        kinds = [annotations[name] for name in names]
        return [kind if isinstance(kind, str) else getattr(kind, "__name__", "None") for kind in kinds]

    @cached_property
    def address(self) -> int:
        """Where it is."""
        return self.part.code.address(f"detour_{self.name}")

    @cached_property
    def function(self) -> Callable[..., Any]:
        """It, for Python."""
        *arguments, result = (_C_TYPES.get(kind, ctypes.c_int64) for kind in self.kinds)
        return ctypes.CFUNCTYPE(result, *arguments)(self.address)

    def __call__(self, *arguments: Any) -> Any:
        return self.function(*[each if type(each) is float else int(each) for each in arguments])


def ensure(parts: Iterable[Part], progress: Progress = silent) -> None:
    """Builds those that are not in the cache, each in a process of its own: this one needs no Numba."""
    missing = [one for part in parts for one in (part, *part.companions) if not one.cached]
    if missing:
        seconds = sum(_CPU_SECONDS.get(part.name, 2) for part in missing)
        names = ", ".join(part.name for part in missing)
        progress(f"building native code, once on this machine: {names}, some {seconds} s on one core")
        COMPILING.hush()
    children = [
        subprocess.Popen([*BUILD_COMMAND, part.name, *part.modules], stdout=subprocess.DEVNULL) for part in missing
    ]
    try:
        for number, child in enumerate(children, 1):
            child.wait()  # if it fails, that is told by the first use
            if number < len(missing):
                progress(f"native code: {number} of {len(missing)} parts built")
    finally:
        for child in children:
            child.kill()
            child.wait()
