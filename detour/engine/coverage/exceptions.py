# SPDX-License-Identifier: Apache-2.0
"""Exceptions from coverage, with the reason: a TOML file that `detour coverage --exceptions` takes.

programs = ["fabric"]                 # coverage of each of these must be there

[[exception]]
program = "fabric"                    # or a list of names
statement = "include/flows.p4:42"     # or branch = "FILE:LINE", or table = "NAME"; names where p4c says no line
outcome = "true"                      # of a branch or a table
reason = "..."
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from detour.base.errors import DetourError
from detour.base.files import read_text
from detour.engine.compiler.covering import BRANCH, STATEMENT, TABLE_OUTCOME
from detour.engine.coverage.document import CoverageDocument, Point, ProgramCoverage

_KEYS = {"statement": STATEMENT, "branch": BRANCH, "table": TABLE_OUTCOME}
_ENTRY = {"program", "outcome", "reason", *_KEYS}


@dataclass(frozen=True)
class CoverageException:
    """An exception: a point that need not be reached in some programs, and why. `place`: FILE:LINE, or a name; `where`
    it was written."""

    programs: tuple[str, ...]
    kind: str
    place: str
    outcome: str | None
    reason: str
    where: str

    def means(self, point: Point) -> bool:
        if point.kind != self.kind or self.outcome not in (None, point.outcome):
            return False
        return self.place == point.name or (bool(point.file) and self.place == f"{point.file}:{point.line}")


@dataclass(frozen=True)
class CoverageRules:
    """A file of exceptions. `programs`: those whose coverage must be there."""

    file: Path
    programs: tuple[str, ...] = ()
    exceptions: tuple[CoverageException, ...] = ()

    def apply(self, document: CoverageDocument) -> None:
        """Take what is excepted out of a document. Raises DetourError if a program is missing, or an exception is
        about nothing that there is, or is reached after all."""
        missing = [name for name in self.programs if name not in document.programs]
        if missing:
            raise DetourError(f"{self.file}: there is no coverage of {', '.join(missing)}")
        for exception in self.exceptions:
            for name in exception.programs:
                if name in document.programs:
                    _take_out(document.programs[name], exception)


def _take_out(program: ProgramCoverage, exception: CoverageException) -> None:
    excepted = {key: point for key, point in program.points.items() if exception.means(point)}
    what = exception.place + (f", {exception.outcome}" if exception.outcome else "")
    if not excepted:
        raise DetourError(f"{exception.where}: {program.name} has no such {exception.kind}: {what}")
    reached = [point for point in excepted.values() if point.hits]
    if reached:
        raise DetourError(f"{exception.where}: {program.name}: {what} is covered after all: {reached[0].title}")
    for key in excepted:
        del program.points[key]


def read_exceptions(file: Path) -> CoverageRules:
    """Read such a file. Raises DetourError if it cannot be read, or something in it is wrong."""
    try:
        rules = tomllib.loads(read_text(file))
    except tomllib.TOMLDecodeError as error:
        raise DetourError(f"{file}: {error}") from None
    unknown = set(rules) - {"programs", "exception"}
    if unknown:
        raise DetourError(f"{file}: {sorted(unknown)[0]!r} is unknown; allowed: programs and [[exception]]")
    entries = rules.get("exception", [])
    if not isinstance(entries, list) or not all(isinstance(each, dict) for each in entries):
        raise DetourError(f"{file}: exceptions are written as [[exception]]")
    exceptions = tuple(_exception(each, f"{file}: exception {n}") for n, each in enumerate(entries, 1))
    return CoverageRules(file, _texts(rules.get("programs", []), f"{file}: programs"), exceptions)


def _exception(entry: dict[str, Any], where: str) -> CoverageException:
    unknown = set(entry) - _ENTRY
    if unknown:
        raise DetourError(f"{where}: {sorted(unknown)[0]!r} is unknown; allowed: {', '.join(sorted(_ENTRY))}")
    kinds = [key for key in _KEYS if key in entry]
    if len(kinds) != 1:
        raise DetourError(f"{where}: give one of statement, branch and table")
    kind = kinds[0]
    for key in (kind, "reason"):
        if not isinstance(entry.get(key), str) or not entry[key].strip():
            raise DetourError(f"{where}: {key} is missing or not text")
    outcome = entry.get("outcome")
    if (outcome is not None and not isinstance(outcome, str)) or (outcome is None and kind == "table"):
        raise DetourError(f"{where}: outcome is missing or not text")
    programs = entry.get("program")
    names = _texts([programs] if isinstance(programs, str) else programs, f"{where}: program")
    return CoverageException(names, _KEYS[kind], entry[kind], outcome, entry["reason"], where)


def _texts(names: Any, where: str) -> tuple[str, ...]:
    if not isinstance(names, Sequence) or isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise DetourError(f"{where}: expected a name or a list of names")
    return tuple(names)
