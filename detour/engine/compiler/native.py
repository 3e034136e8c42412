# SPDX-License-Identifier: Apache-2.0
"""IR text to callable machine code, with a cache of object files on disk."""

from __future__ import annotations

import errno
import hashlib
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path

from detour.base.cache import Cache
from detour.base.errors import DetourError, InternalError
from detour.base.native import COMPILER, NO_MEMORY, processors, to_object
from detour.base.native import NativeCode as NativeCode
from detour.base.places import PACKAGE

_programs = Cache("programs")


@cache
def _source_digest() -> bytes:
    """Return a digest of everything that decides the generated code, but for the program itself."""
    digest = hashlib.sha256(f"llvmlite {version('llvmlite')}".encode())
    digest.update(" ".join(processors()[0]).encode())
    engine = PACKAGE / "engine"
    for path in sorted([*(engine / "compiler").glob("*.py"), Path(COMPILER), engine / "phv.py"]):
        digest.update(path.read_bytes())
    return digest.digest()


def cache_name(key: bytes) -> str:
    """Under which name the object file of a program with that JSON text is kept."""
    return hashlib.sha256(_source_digest() + key).hexdigest()[:32]


class TooSlow(DetourError):
    """A program takes longer to compile than it may."""


@dataclass(frozen=True)
class CompileLimits:
    """Limits of a compilation in a process of its own: processor time, so that a busy machine does not count, and
    memory. `patience_s` is a bound on wall-clock time, for a machine that makes no progress at all."""

    cpu_s: int = 30
    memory_bytes: int = 4 << 30
    patience_s: float = 600.0


def compile_ir(text: str) -> bytes:
    """Optimise a module of ours and return its object file."""
    try:
        return to_object(text)
    except RuntimeError as e:
        raise InternalError.of("compiling a P4 program (invalid IR)", e) from e


def compile_apart(text: str, limits: CompileLimits | None = None) -> bytes:
    """The same in a child process that ends when it takes too much. Raises TooSlow beyond the limit of time, and
    MemoryError beyond the limit of memory or if the machine has no more."""
    limits = limits or CompileLimits()
    command = [sys.executable, "-P", COMPILER, str(limits.cpu_s), str(limits.memory_bytes)]
    try:
        # A session of its own: Ctrl-C is for detour, which decides.
        done = subprocess.run(
            command, input=text.encode(), capture_output=True, timeout=limits.patience_s, start_new_session=True
        )
    except subprocess.TimeoutExpired as e:
        raise TooSlow(f"P4 program: compilation exceeded the limit of {limits.patience_s:g} s") from e
    except OSError as e:
        if e.errno == errno.ENOMEM:
            raise MemoryError("the compiler process of a P4 program") from e
        raise DetourError(f"P4 program: the compiler's process cannot be started: {e.strerror}") from e
    return _result(done, limits)


def _result(done: subprocess.CompletedProcess[bytes], limits: CompileLimits) -> bytes:
    message = " ".join(done.stderr.decode(errors="replace").split())[-300:]
    if done.returncode == 0:
        return done.stdout
    if done.returncode == -signal.SIGXCPU:
        raise TooSlow(f"P4 program: compilation exceeded the limit of {limits.cpu_s} s of CPU time")
    # LLVM has no way to say that memory is short: it ends the process, or the kernel does.
    short = any(words in message for words in ("memory", "Memory", "bad_alloc", "failed to map"))
    if done.returncode in (NO_MEMORY, -signal.SIGKILL) or short:
        raise MemoryError(
            f"compiling a P4 program takes more than {limits.memory_bytes >> 20} MiB, or than is available"
        )
    raise InternalError(
        f"internal error of detour while compiling a P4 program: LLVM ended with {done.returncode}: {message}"
    )


def cached(name: str, make: Callable[[], bytes]) -> bytes:
    """Return the content stored under that name; make it if it is missing or damaged."""
    stored = _programs.get(name)
    if stored is not None:
        return stored
    data = make()
    _programs.put(name, data)
    return data
