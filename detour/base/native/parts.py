# SPDX-License-Identifier: Apache-2.0
"""Parts: native functions that are compiled, linked, optimised and stored together as one object file.

    LOOP = Part("loop", __name__)

    @LOOP.entry
    def run_slice(globals_: int, until: int, budget: int) -> int: ...

An object is found by the digest of the sources that went into it (`sources`), the platform and the processor; it
depends on no version of Python, NumPy or Numba. Where it is there, it is loaded with neither Numba nor LLVM (`elf`),
which build it (`building`) in a process of its own.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from detour.base import sources
from detour.base.cache import Cache, cache_dir, without
from detour.base.cores import cores
from detour.base.errors import DetourError
from detour.base.extras import require
from detour.base.jit import COMPILED, JIT_OFF, NATIVES
from detour.base.native import objects
from detour.base.native.entries import NativeEntry
from detour.base.native.objects import NativeCode
from detour.base.places import PACKAGE
from detour.base.progress import COMPILING, Progress, silent


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
    """Let no other process of this user into the same block meanwhile, if there is a cache at all."""
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
BUILD_COMMAND = (sys.executable, "-m", str(__package__))
"""command that builds the part NAME of MODULE..., and says as JSON what that took"""
FORMAT = 1
"""of objects: another number forgets all, for a change that no source of detour shows, such as a compiler's error"""


PARENT = "DETOUR_BUILD_PARENT"
"""in the command's environment: the process with which it is to end"""
NO_NUMBA = 4
"""exit code of the command: something has to be compiled, and Numba is not installed"""


def require_numba(what: str) -> None:
    """Raise `DetourError` if Numba is not installed: which extra has it."""
    require("numba", "Numba", "plugins", f"compiling {what}")


def run_builder(*arguments: str) -> bytes:
    """Run the build command and return its output; it finds modules as this process does. Raises `DetourError` with the
    last line of its errors if it fails, and with nothing else if Numba is missing."""
    # Who debugs runs everything as Python, and must not leave objects without functions to those who do not.
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path), JIT_OFF: "0"}
    environment[PARENT] = str(os.getpid())
    child = subprocess.run([*BUILD_COMMAND, *arguments], env=environment, capture_output=True, check=False)
    if child.returncode == NO_NUMBA:
        require_numba("native code")
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
        self._code: NativeCode | None = None
        self._loading = threading.Lock()
        PARTS[name] = self

    def entry(self, function: Callable[..., Any]) -> Any:
        """Mark a function as an entry."""
        if not COMPILED:
            return function
        made = NativeEntry(lambda symbol: self.code.address(symbol), function)
        if made.name in self.entries:
            raise ValueError(f"two entries of {self.name} are called {made.name}")
        self.entries[made.name] = made
        return made

    @cached_property
    def files(self) -> list[str]:
        """Names under which the object may be: what is built here has the first one."""
        made = (FORMAT, objects.MACHINE, sources.digest(*self.modules), self.made_of)
        keys = [repr((*made, cpu)) for cpu in objects.processors()]
        return [f"{self.name}-{hashlib.sha256(key.encode()).hexdigest()[:40]}.o" for key in keys]

    @property
    def code(self) -> NativeCode:
        """The object, loaded; built before if it is not in the cache. Raises `DetourError`: it cannot be built."""
        # Two threads must not load one each: the first one's functions would be gone while it executes them.
        with self._loading:
            if self._code is None:
                self._code = self._loaded()
        return self._code

    def _loaded(self) -> NativeCode:
        data = stored(self.files)
        if data is None:
            require_numba(f"native code ({self.name})")
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
        """Load the object and its companions and look up their entries, which is otherwise done at their first use;
        build before what is not in the cache."""
        if not COMPILED:
            return
        parts = [one for one in (self, *self.companions) if one._code is None]
        ensure(parts, COMPILING.say)
        for entry in (entry for one in parts if one.code for entry in one.entries.values()):
            _ = entry.function

    @property
    def functions(self) -> int:
        """Number of native functions its sources have."""
        files = set(sources.files(*self.modules))
        return sum(one.file in files for one in NATIVES)

    @property
    def cached(self) -> bool:
        """Return whether it need not be built."""
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
        require_numba(f"native code of {self.modules[0]}")
        from detour.base.native import building  # and Numba

        return building.build(self.name, self.entries.values())


def build_side_by_side(parts: Iterable[Iterable[str]]) -> Iterator[dict[str, Any]]:
    """Build parts, each (NAME, MODULE...), where they are not in the cache; what is said of each, as they end. Raises
    `DetourError`: one cannot be built."""
    from concurrent.futures import ThreadPoolExecutor, as_completed

    with ThreadPoolExecutor(cores()) as pool:
        for building in as_completed([pool.submit(run_builder, *part) for part in parts]):
            yield json.loads(building.result())


def ensure(parts: Iterable[Part], progress: Progress = silent) -> None:
    """Build those that are not in the cache: this process needs no Numba. Raises `DetourError`: one cannot be
    built."""
    if not COMPILED:
        return
    wanted = dict.fromkeys(one for part in parts for one in (part, *part.companions))
    missing = [one for one in wanted if not one.cached]
    if not missing:
        return
    seconds = sum(_CPU_SECONDS.get(part.name, 2) for part in missing)
    names = ", ".join(part.name for part in missing)
    require_numba(f"native code ({names})")
    progress(f"building native code, once on this machine: {names}, some {seconds} s on one core")
    COMPILING.hush()
    for number, _ in enumerate(build_side_by_side((part.name, *part.modules) for part in missing), 1):
        if number < len(missing):
            progress(f"native code: {number} of {len(missing)} parts built")
