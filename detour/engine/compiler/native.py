# SPDX-License-Identifier: Apache-2.0
"""IR text to callable machine code, with a cache of object files on disk."""

from __future__ import annotations

import errno
import hashlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import llvmlite
import llvmlite.binding as llvm

from detour.base.errors import DetourError, InternalError
from detour.base.jit import cache_dir
from detour.engine.compiler import optimise
from detour.engine.compiler.optimise import start_llvm, target_machine, to_object

_DIGEST = 32


@cache
def _source_digest() -> bytes:
    """Of everything that decides what code comes out, but for the program itself."""
    start_llvm()
    digest = hashlib.sha256(f"llvmlite {llvmlite.__version__} {llvm.llvm_version_info}".encode())
    digest.update(f"{llvm.get_host_cpu_name()} {llvm.get_host_cpu_features().flatten()}".encode())
    here = Path(__file__).resolve().parent
    for path in sorted([*here.glob("*.py"), here.parent / "phv.py", here.parent / "tables" / "log.py"]):
        digest.update(path.read_bytes())
    return digest.digest()


def cache_path(key: bytes) -> Path:
    """Where the object file of a program with that JSON text is kept."""
    name = hashlib.sha256(_source_digest() + key).hexdigest()[:32]
    return cache_dir() / "programs" / name


class TooSlow(DetourError):
    """A program takes longer to compile than it may."""


@dataclass(frozen=True)
class Limits:
    """What a compilation apart may take: processor time, so that a busy machine does not count, and memory.

    `patience_s` is a bound on the time of the wall clock, for a machine that does not get on at all."""

    cpu_s: int = 30
    memory_bytes: int = 4 << 30
    patience_s: float = 600.0


def compile_ir(text: str) -> bytes:
    """Optimises a module of ours and returns its object file."""
    try:
        return to_object(text)
    except RuntimeError as e:
        raise InternalError.of("compiling a P4 program (invalid IR)", e) from e


def compile_apart(text: str, limits: Limits | None = None) -> bytes:
    """The same in a child process that ends when it takes too much.

    Raises:
        TooSlow: it took more than the limit of time.
        MemoryError: it took more than the limit of memory, or the machine has no more.
    """
    limits = limits or Limits()
    command = [sys.executable, "-P", optimise.__file__, str(limits.cpu_s), str(limits.memory_bytes)]
    try:
        # A session of its own: Ctrl-C is for detour, which decides.
        done = subprocess.run(
            command, input=text.encode(), capture_output=True, timeout=limits.patience_s, start_new_session=True
        )
    except subprocess.TimeoutExpired as e:
        raise TooSlow(f"P4 program: it was not compiled within {limits.patience_s:g} s, which is the limit") from e
    except OSError as e:
        if e.errno == errno.ENOMEM:
            raise MemoryError("a process that compiles a P4 program") from e
        raise DetourError(f"P4 program: the compiler's process cannot be started: {e.strerror}") from e
    return _result(done, limits)


def _result(done: subprocess.CompletedProcess[bytes], limits: Limits) -> bytes:
    said = " ".join(done.stderr.decode(errors="replace").split())[-300:]
    if done.returncode == 0:
        return done.stdout
    if done.returncode == -signal.SIGXCPU:
        raise TooSlow(
            f"P4 program: compiling it takes more than {limits.cpu_s} s of processor time, which is the limit"
        )
    # LLVM has no way to say that memory is short: it ends the process, or the kernel does.
    short = any(words in said for words in ("memory", "Memory", "bad_alloc", "failed to map"))
    if done.returncode in (optimise.NO_MEMORY, -signal.SIGKILL) or short:
        raise MemoryError(f"compiling a P4 program takes more than {limits.memory_bytes >> 20} MiB, or than there is")
    raise InternalError(
        f"internal error of detour while compiling a P4 program: LLVM ended with {done.returncode}: {said}"
    )


class Code:
    """A loaded object file: addresses of its functions. It must live as long as anything calls them."""

    def __init__(self, data: bytes) -> None:
        machine = target_machine()
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
        self._engine.add_object_file(llvm.ObjectFileRef.from_data(data))
        self._engine.finalize_object()

    def address(self, name: str) -> int:
        """Where a function begins."""
        address = self._engine.get_function_address(name)
        if not address:
            raise DetourError(f"the object file has no function {name}")
        return address


def cached(path: Path, make: Callable[[], bytes]) -> bytes:
    """The content of a cache file, which is made if it is missing or damaged."""
    try:
        stored = path.read_bytes()
    except OSError:
        stored = b""
    if stored and hashlib.sha256(stored[_DIGEST:]).digest() == stored[:_DIGEST]:
        return stored[_DIGEST:]
    data = make()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Another process may write the same file; a rename is atomic.
        handle, spare = tempfile.mkstemp(dir=path.parent)
        with os.fdopen(handle, "wb") as f:
            f.write(hashlib.sha256(data).digest() + data)
        Path(spare).replace(path)
    except OSError:
        pass  # a cache that cannot be written costs time, nothing else
    return data
