# SPDX-License-Identifier: Apache-2.0
"""Runs our compiler in this process, with what it says as a record."""

from __future__ import annotations

import signal
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from detour.base.errors import DetourError, InternalError
from detour.p4.compile import compile_file

SECONDS = 60


@dataclass(frozen=True)
class Compiled:
    """`error`: the first error; `bug`: whether it is the compiler that failed. `place`: file and line of the error."""

    json: dict[str, Any] | None = None
    p4info: Any = None
    entries: Any = None
    error: str = ""
    place: tuple[str, int] | None = None
    bug: bool = False
    warnings: frozenset[tuple[str, str, int]] = frozenset()
    """Kinds, files and lines."""
    seconds: float = 0.0

    @property
    def accepted(self) -> bool:
        return self.json is not None


class _Late(Exception):
    pass


def _late(*_: object) -> None:
    raise _Late


def compiled(source: Path, include: tuple[Path, ...] = (), defines: dict[str, str] | None = None) -> Compiled:
    """Compile a program; nothing that goes wrong is raised."""
    signal.signal(signal.SIGALRM, _late)
    signal.alarm(SECONDS)
    try:
        result = compile_file(source, None, include, defines or {}, p4info=True, entries=True)
    except _Late:
        return Compiled(error=f"not ready after {SECONDS} s", bug=True)
    except InternalError as error:
        cause = error.__cause__ or error
        return Compiled(error=f"{type(cause).__name__}: {cause} {_where(cause)}", bug=True)
    except DetourError as error:
        return Compiled(error=str(error))
    except Exception as error:
        return Compiled(error=f"{type(error).__name__}: {error} {_where(error)}", bug=True)
    finally:
        signal.alarm(0)
    if result.errors:
        first = result.errors[0]
        return Compiled(error=first.text, place=(Path(first.span.file.name).name, first.span.line))
    warnings = frozenset((one.kind, Path(one.span.file.name).name, one.span.line) for one in result.warnings)
    return Compiled(result.json, result.p4info, result.entries, warnings=warnings, seconds=result.seconds)


def _where(error: BaseException) -> str:
    """The line of ours that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
