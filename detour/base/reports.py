# SPDX-License-Identifier: Apache-2.0
"""End a process after an error: one line for the user, a traceback in a file for developers."""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
import traceback
from pathlib import Path

from detour.base.errors import DetourError, InternalError
from detour.base.secure_dir import Folder

INTERNAL = 70
"""Exit code for a mistake of detour's own (EX_SOFTWARE of sysexits.h)."""
_NAME = "errors.log"
_ADDRESS_SPACE = 1_400 << 20  # what the threads of gRPC and of a switch reserve; little of it is ever used


def report(error: BaseException, command: str = "detour") -> int:
    """Print the line for an exception that is not about the input; return the exit code."""
    if isinstance(error, MemoryError) or _lacks_memory(error):
        print(f"{command}: {out_of_memory(error)}", file=sys.stderr)
        return 2
    if not isinstance(error, InternalError):
        # A daemon thread may have caught it elsewhere; the traceback is kept with the exception.
        caught, error = error, InternalError.of("running a command", error)
        error.__cause__ = caught
    print(f"{command}: {error}{_kept(keep(error))}", file=sys.stderr)
    return INTERNAL


def _kept(path: Path | None) -> str:
    return "" if path is None else f"; the traceback is in {path}"


def keep(error: BaseException) -> Path | None:
    """Append the traceback to a file (`$XDG_STATE_HOME/detour/errors.log`, else `~/.local/state/detour`; the
    temporary folder if that cannot be written). `None` if there is no such place."""
    text = "".join(traceback.format_exception(error))
    entry = f"{time.strftime('%Y-%m-%d %H:%M:%S')} {' '.join(sys.argv)}\n{text}\n"
    base = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "detour"
    for folder in (base, Path(tempfile.gettempdir()) / f"detour-errors-{os.getuid()}"):
        try:
            with (Folder(folder).ready() / _NAME).open("a") as file:
                file.write(entry)
        except OSError:
            continue
        return folder / _NAME
    return None


def need_address_space(size: int = _ADDRESS_SPACE) -> None:
    """Raise `DetourError` if the process may not have so many bytes of address space (`ulimit -v`). gRPC and LLVM end
    the process with a signal when a thread or a page is refused, so it is asked before they start."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and limit < size:
        raise DetourError(
            f"this process may have {limit >> 20} MiB of address space (ulimit -v) and needs at least {size >> 20}"
        )


def _lacks_memory(error: BaseException) -> bool:
    """Tell whether another exception than MemoryError is about memory: libraries that cannot be loaded, threads that
    cannot be started under a limit of the address space."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    text = str(error)
    words = ("failed to map", "Cannot allocate memory", "start new thread", "load shared object", "out of memory")
    return limit != resource.RLIM_INFINITY and any(each in text for each in words)


def out_of_memory(error: BaseException) -> str:
    """Say which memory was asked for, as far as it is known, and which limit stood in the way."""
    text = " ".join(str(error).split())[:200]
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        bound = "the machine has no more"
    else:
        bound = f"this process may have {limit >> 20} MiB of address space (ulimit -v)"
    return f"out of memory{': ' + text if text else ''}: {bound}"
