# SPDX-License-Identifier: Apache-2.0
"""Parts: native functions that are compiled, linked, optimised and stored together as one object file.

    LOOP = Part("loop", __name__)

    @LOOP.entry
    def run_slice(globals_: int, until: int, budget: int) -> int: ...

An object is found by the digest of the sources that went into it (`sources`), the versions of the compilers and the
processor. Where it is there, it is loaded with neither Numba nor LLVM (`elf`), which build it (`building`) in a process
of its own.

Entries return a number (`int` and `float` are 64 bits, `bool` and None are 0 or 1). They take numbers, and from Python
arrays (`arrays.Int32s2`, C-contiguous) and named tuples of these.
"""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_args, get_type_hints

import numpy as np

from detour.base import sources
from detour.base.cache import Cache, cache_dir, without
from detour.base.cores import cores
from detour.base.errors import DetourError
from detour.base.jit import COMPILED, JIT_OFF, NATIVES, NO_ARRAYS, OPTIONS, Native
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
        data = NATIVE_CACHE.get(name)
        if data is None and (SHIPPED / name).is_file():
            data = (SHIPPED / name).read_bytes()
        if data is not None:
            return data
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
_CPU_SECONDS = {
    "expander": 17, "rdma": 15, "ip": 14, "loop": 10, "fors": 10, "placement": 9, "paths": 6, "cc": 3, "rivals": 3,
}  # fmt: skip
"""what building takes on one core of an EPYC"""
BUILD_COMMAND = (sys.executable, "-m", "detour.base.building")
"""command that builds the part NAME of MODULE..., and says as JSON what that took"""


def run_builder(*arguments: str) -> bytes:
    """Run the build command and return its output; it finds modules as this process does. Raises `DetourError` with the
    last line of its errors if it fails."""
    # Who debugs runs everything as Python, and must not leave objects without functions to those who do not.
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path), JIT_OFF: "0"}
    child = subprocess.run([*BUILD_COMMAND, *arguments], env=environment, capture_output=True, check=False)
    if child.returncode:
        lines = child.stderr.decode(errors="replace").strip().splitlines() or ["it says nothing"]
        raise DetourError(f"native code cannot be built ({' '.join(arguments)}): {lines[-1]}")
    return child.stdout


class Part:
    """Entries of some modules, which must be importable by name."""

    def __init__(self, name: str, *modules: str) -> None:
        self.name, self.modules = name, modules
        self.entries: dict[str, NativeEntry] = {}
        self.was_built = False
        self.companions: tuple[Part, ...] = ()  # what it calls by address in most runs
        self.made_of = ""
        PARTS[name] = self

    def entry(self, function: Callable[..., Any]) -> Any:
        """Marks a function as an entry."""
        if not COMPILED:
            return function
        made = NativeEntry(self, function)
        if made.name in self.entries:
            raise ValueError(f"two entries of {self.name} are called {made.name}")
        self.entries[made.name] = made
        return made

    @cached_property
    def files(self) -> list[str]:
        """Names under which the object may be: what is built here has the first one."""
        from detour.base import objects

        versions = (*sys.version_info[:2], *(version(name) for name in ("numba", "llvmlite", "numpy")))
        keys = [repr((sources.digest(*self.modules), self.made_of, versions, cpu)) for cpu in objects.processors()]
        return [f"{self.name}-{hashlib.sha256(key.encode()).hexdigest()[:40]}.o" for key in keys]

    @cached_property
    def code(self) -> NativeCode:
        """The object, loaded; built before if it is not in the cache. Raises `DetourError`: it cannot be built."""
        from detour.base import objects

        data = stored(self.files)
        if data is None:
            COMPILING.say(f"compiling native code ({self.name}), once on this machine (`detour warm` does it for all)")
            data = self.build(self._make)
        return objects.NativeCode(data)

    def _make(self) -> tuple[bytes, bool]:
        """The object, and whether it will do in other processes."""
        return run_builder("--object", self.name, *self.modules), True

    def build(self, make: Callable[[], tuple[bytes, bool]]) -> bytes:
        """Built by one process at a time, since harnesses start many at once; the others take what that one made."""
        with _alone(f"{self.name}.lock"):
            data = stored(self.files)
            if data is None:
                data, lasting = make()
                self.was_built = True
                if lasting and self.files:
                    NATIVE_CACHE.put(self.files[0], data)
                    NATIVE_CACHE.prune()
        return data

    def load(self) -> None:
        """Loads the object and its companions and looks up their entries, which is otherwise done at their first use;
        builds before what is not in the cache."""
        if not COMPILED:
            return
        parts = [one for one in (self, *self.companions) if "code" not in vars(one)]
        ensure(parts, COMPILING.say)
        for entry in (entry for one in parts if one.code for entry in one.entries.values()):
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


class LocalPart(Part):
    """A part that can only be built in this process: its entries are not found by importing a module."""

    def __init__(self, name: str, module: str, made_of: str | None) -> None:
        """`made_of`: what decides what comes of it, beside the sources, in words; None: nobody can tell, so it is not
        kept."""
        super().__init__(name, module)
        del PARTS[name]
        self.made_of = made_of or ""
        if made_of is None or not sources.files(module):  # as in a notebook
            self.files = []

    def _make(self) -> tuple[bytes, bool]:
        return importlib.import_module("detour.base.building").build(self)  # and Numba


# -- entries ------------------------------------------------------------------------------------------------


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
    number: type[np.generic] = get_args(get_args(array)[1])[0]
    return np.empty((0,) * int(dimensions), number)


def _flat(kind: ArgumentKind) -> Iterator[ArgumentKind]:
    """List the values that are passed for an argument."""
    if isinstance(kind, TupleKind):
        for each in kind.kinds:
            yield from _flat(each)
    else:
        yield kind


class NativeEntry(Native):
    """A native function that Python and others call by its address."""

    def __init__(self, part: Part, function: Callable[..., Any]) -> None:
        plain = ("int", "float", "bool", "None", None, *_NUMBERS)
        self.has_arrays = any(kind not in plain for kind in function.__annotations__.values())
        super().__init__(function, OPTIONS if self.has_arrays else OPTIONS | NO_ARRAYS)
        self.part = part

    @cached_property
    def kinds(self) -> tuple[ArgumentKind, ...]:
        """Kinds of the arguments, then of the result."""
        code, annotations = self.py_func.__code__, get_type_hints(self.py_func, include_extras=True)
        return tuple(_kind(annotations[name]) for name in (*code.co_varnames[: code.co_argcount], "return"))

    @cached_property
    def passed(self) -> tuple[ArgumentKind, ...]:
        """Kinds of the values passed: numbers and addresses."""
        return (*(each for kind in self.kinds[:-1] for each in _flat(kind)), *([int] if self.has_arrays else []))

    @cached_property
    def address(self) -> int:
        """Where it is."""
        return self.part.code.address(f"detour_{self.name}")

    @cached_property
    def function(self) -> Callable[..., Any]:
        """The entry as a function that Python can call."""
        result, *arguments = (
            ctypes.c_double if kind is float else ctypes.c_int64 for kind in (self.kinds[-1], *self.passed)
        )
        return ctypes.CFUNCTYPE(result, *arguments)(self.address)

    def __call__(self, *arguments: Any) -> Any:
        if not self.has_arrays:
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
        """Appends what is passed for an argument. Raises `TypeError`: an array of another type."""
        if isinstance(kind, np.ndarray):
            if value.dtype != kind.dtype or value.ndim != kind.ndim or not value.flags.c_contiguous:
                order = "C-contiguous" if value.flags.c_contiguous else "strided"
                raise TypeError(
                    f"{self.name} takes an array of {kind.dtype}, {kind.ndim} dimensions, C-contiguous,"
                    f" not {value.dtype}, {value.ndim}, {order}"
                )
            passed.append(id(value))
        elif isinstance(kind, TupleKind):
            for each, one in zip(kind.kinds, value, strict=True):
                self._pass(each, one, passed)
        else:
            passed.append(float(value) if kind is float else int(value))


def build_side_by_side(parts: Iterable[Iterable[str]]) -> Iterator[dict[str, Any]]:
    """Builds parts, each (NAME, MODULE...), where they are not in the cache; what is said of each, as they end. Raises
    `DetourError`: one cannot be built."""
    from concurrent.futures import ThreadPoolExecutor, as_completed

    with ThreadPoolExecutor(cores()) as pool:
        for building in as_completed([pool.submit(run_builder, *part) for part in parts]):
            yield json.loads(building.result())


def ensure(parts: Iterable[Part], progress: Progress = silent) -> None:
    """Builds those that are not in the cache: this process needs no Numba. Raises `DetourError`: one cannot be
    built."""
    if not COMPILED:
        return
    wanted = dict.fromkeys(one for part in parts for one in (part, *part.companions))
    missing = [one for one in wanted if not one.cached]
    if not missing:
        return
    seconds = sum(_CPU_SECONDS.get(part.name, 2) for part in missing)
    names = ", ".join(part.name for part in missing)
    progress(f"building native code, once on this machine: {names}, some {seconds} s on one core")
    COMPILING.hush()
    for number, _ in enumerate(build_side_by_side((part.name, *part.modules) for part in missing), 1):
        if number < len(missing):
            progress(f"native code: {number} of {len(missing)} parts built")
