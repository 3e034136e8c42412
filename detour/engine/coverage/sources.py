# SPDX-License-Identifier: Apache-2.0
"""Coverage laid over the P4 source: for every line what stands there, and how often packets came by.

p4c names places in the source for statements of controls, conditions and tables, not for what parsers and deparsers do:
those are found by the name of the parser state and of the header.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from detour.base.places import P4SRC
from detour.engine.compiler.covering import HIT, MISS, STATEMENT, TABLE_OUTCOME
from detour.engine.coverage.document import Point, ProgramCoverage

_INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
_STATE = re.compile(r"^state (\S+)")
_EMIT = re.compile(r"^deparser emit (\S+)")
_MOST_FILES = 256
_MOST_BYTES = 4 << 20


@dataclass
class SourceLine:
    """A line of P4, or what p4c says of it where the file is not there; and what packets can reach in it."""

    number: int
    text: str
    points: list[Point] = field(default_factory=list)

    @property
    def hits(self) -> int | None:
        """Number of packets; of several statements the one that was reached least. None: nothing to
        reach."""
        units: dict[tuple[object, ...], int] = {}
        for p in self.points:
            if p.kind == STATEMENT or p.kind != TABLE_OUTCOME or p.outcome in (HIT, MISS):
                unit = (p.kind, p.name if p.kind == TABLE_OUTCOME or "->" in p.outcome else p.column)
                unit = (*unit, p.name) if p.kind == STATEMENT and not p.column else unit
                units[unit] = units.get(unit, 0) + p.hits
        return min(units.values(), default=None)

    @property
    def outcomes(self) -> list[Point]:
        """Outcomes of the conditions, transitions and tables in this line."""
        return [p for p in self.points if p.kind != STATEMENT]

    @property
    def is_whole(self) -> bool:
        return all(p.hits for p in self.points)


@dataclass
class SourceFile:
    """A file of a program. `path`: where it is, None if it was not found."""

    name: str
    path: Path | None
    lines: list[SourceLine]


def over_source(program: ProgramCoverage, folders: Sequence[Path] = ()) -> tuple[list[SourceFile], list[Point]]:
    """The files of a program, and points that have no place in them. `folders`: where P4 sources may be, before the
    current folder and the programs that come with detour."""
    named: dict[str, list[Point]] = {}
    for point in program.points.values():
        if point.file:
            named.setdefault(point.file, []).append(point)
    bases = [*folders, Path(), P4SRC]
    texts = _with_includes({name: _find(name, named.get(name, []), bases) for name in [f"{program.name}.p4", *named]})
    points = [_placed(point, texts) for point in program.points.values()]
    files = []
    for name, text in texts.items():
        here = [point for point in points if point.file == name]
        if here:
            files.append(_file(name, text, here))
    return files, [point for point in points if not point.file]


_Text = tuple[Path, list[str]] | None


def _find(name: str, points: Sequence[Point], bases: Iterable[Path]) -> _Text:
    """The first file of that name whose text is what p4c read; of one that has changed since nothing would be true."""
    for base in bases:
        lines = _read(base / name)
        if lines is not None and _fits(lines, points):
            return base / name, lines
    return None


def _read(path: Path) -> list[str] | None:
    try:
        if not path.is_file() or path.stat().st_size > _MOST_BYTES:
            return None
        return path.read_text(errors="replace").splitlines()
    except OSError:
        return None


def _fits(lines: list[str], points: Sequence[Point]) -> bool:
    """Return whether most places say what p4c says of them (where macros are, it says other things)."""
    right = 0
    for point in points:
        begin = point.text.removesuffix("...").strip().split("\n")[0]
        right += point.line <= len(lines) and _spaced(begin) in _spaced(lines[point.line - 1])
    return 2 * right >= len(points)


def _spaced(text: str) -> str:
    """Text with single spaces, as p4c quotes it."""
    return " ".join(text.split())


def _with_includes(texts: dict[str, _Text]) -> dict[str, _Text]:
    """And the files that those include, by the names that p4c would give them."""
    whole = dict(texts)
    waiting = list(texts)
    while waiting and len(whole) < _MOST_FILES:
        name = waiting.pop()
        here = whole[name]
        if here is None:
            continue
        for included in _INCLUDE.findall("\n".join(here[1])):
            beside = (Path(name).parent / included).as_posix()
            lines = _read(here[0].parent / included)
            if beside not in whole and lines is not None:
                whole[beside] = here[0].parent / included, lines
                waiting.append(beside)
    return whole


def _placed(point: Point, texts: dict[str, _Text]) -> Point:
    """With a place, if it has none and there is just one that it can be."""
    if point.file:
        return point
    state, emitted = _STATE.match(point.name), _EMIT.match(point.name)
    if state:
        pattern = re.compile(rf"\bstate\s+{re.escape(state[1])}\b")
    elif emitted:
        pattern = re.compile(rf"\.emit\s*\(\s*(\w+\.)*{re.escape(emitted[1])}\s*\)")
    else:
        return point
    places = [
        (name, number)
        for name, text in texts.items()
        if text is not None
        for number, line in enumerate(text[1], 1)
        if pattern.search(line)
    ]
    return replace(point, file=places[0][0], line=places[0][1]) if len(places) == 1 else point


def _file(name: str, text: _Text, points: list[Point]) -> SourceFile:
    numbered = (
        sorted({p.line: p.text.split("\n")[0] for p in points}.items()) if text is None else enumerate(text[1], 1)
    )
    lines = {number: SourceLine(number, line) for number, line in numbered}
    for point in points:
        lines.setdefault(point.line, SourceLine(point.line, point.text)).points.append(point)
    return SourceFile(name, text[0] if text else None, list(lines.values()))
