# SPDX-License-Identifier: Apache-2.0
"""A coverage file: for each program all that packets can reach, and how often they did; and collecting that."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from detour.base.errors import DetourError
from detour.base.files import read_bytes, write_file
from detour.engine.compiler.covering import BRANCH, COLLECTOR, STATEMENT, TABLE_OUTCOME, Collector, CoverageSite
from detour.engine.compiler.model import one_line

VERSION = 1
PLURALS = {STATEMENT: "statements", BRANCH: "branches", TABLE_OUTCOME: "actions"}
"""what the document of `detour coverage --json` calls them"""


@dataclass(frozen=True, slots=True)
class Point:
    """Something that packets reach or do not, and how often they did; see `CoverageSite`."""

    kind: str
    name: str
    outcome: str
    file: str
    """of the P4 source, "" where p4c does not say it; so are the next two"""
    line: int
    column: int
    text: str
    hits: int

    @classmethod
    def of(cls, site: CoverageSite, hits: int) -> Point:
        """From what a compilation says."""
        source = site.source or {}
        place = str(source.get("file", "")), _count(source.get("line")), _count(source.get("column"))
        return cls(site.kind, site.name, site.outcome, *place, str(source.get("text", "")), hits)

    @property
    def key(self) -> tuple[Any, ...]:
        """The identity of points that are one in the P4 source: p4c copies statements that several tables run, and code
        that it inlines or unrolls."""
        if self.kind == TABLE_OUTCOME or not self.file or "->" in self.outcome:
            return self.kind, self.name, self.outcome
        return self.kind, self.file, self.line, self.column, self.outcome

    @property
    def is_made(self) -> bool:
        """Return whether the compiler made it: it has neither a place in the source nor a name there."""
        return not self.file and "." not in self.name and not self.name.startswith(("state ", "deparser "))

    @property
    def title(self) -> str:
        """The point's title in a line of text."""
        where = f"{self.file}:{self.line} " if self.file else ""
        if self.kind == TABLE_OUTCOME:
            return f"table {self.name}: {self.outcome}"
        what = f"{self.name}: {self.outcome}" if self.outcome else f"{self.name}"
        text = f" ({one_line(self.text)})" if self.text else ""
        return f"{where}{what}{text}"


def _count(value: Any) -> int:
    return value if type(value) is int and value >= 0 else 0


@dataclass
class ProgramCoverage:
    """Coverage of one program: its points by their keys."""

    name: str
    digest: str
    points: dict[tuple[Any, ...], Point] = field(default_factory=dict)

    @classmethod
    def of(cls, name: str, digest: str, points: Iterable[Point]) -> ProgramCoverage:
        """Make the coverage of a program from points, adding up those with the same key."""
        program = cls(name, digest)
        for point in points:
            program._add(point)
        return program

    def _add(self, point: Point) -> None:
        before = self.points.get(point.key)
        self.points[point.key] = point if before is None else replace(before, hits=before.hits + point.hits)

    def merge(self, other: ProgramCoverage) -> None:
        """Add what another run of the same program has reached."""
        for point in other.points.values():
            self._add(point)

    def of_kind(self, kind: str) -> list[Point]:
        """In the order of the program."""
        return [point for point in self.points.values() if point.kind == kind]

    def missed(self) -> list[Point]:
        return [point for point in self.points.values() if not point.hits]

    def totals(self) -> dict[str, dict[str, int]]:
        """`covered` and `reachable` of `statements`, `branches` and `actions`."""
        totals = {}
        for kind, plural in PLURALS.items():
            points = self.of_kind(kind)
            totals[plural] = {"covered": sum(bool(p.hits) for p in points), "reachable": len(points)}
        return totals


def percent(totals: Mapping[str, int]) -> float:
    """Return the covered percentage of what is reachable; 100, if that is nothing. `totals`: of
    `ProgramCoverage.totals`, of one kind."""
    return 100 * totals["covered"] / totals["reachable"] if totals["reachable"] else 100.0


class CoverageDocument:
    """Programs by their names."""

    def __init__(self) -> None:
        self.programs: dict[str, ProgramCoverage] = {}

    def add(self, program: ProgramCoverage, where: str) -> None:
        """Take in what was reached of a program. Raises DetourError if there is another program of that name. `where`
        says whose coverage it is."""
        same = self.programs.setdefault(program.name, program)
        if same.digest != program.digest:
            what = "is another version of that program than in what was read before"
            raise DetourError(f"{where}: {program.name} {what}")
        if same is not program:
            same.merge(program)

    def write(self, file: Path) -> None:
        """Write the file. Raises DetourError if it cannot be written."""
        programs = [
            {"name": p.name, "digest": p.digest, "points": [asdict(point) for point in p.points.values()]}
            for p in self.programs.values()
        ]
        write_file(file, json.dumps({"detour_coverage": VERSION, "programs": programs}) + "\n")

    @classmethod
    def read(cls, files: Sequence[Path]) -> CoverageDocument:
        """Merge several files. Raises DetourError if one of them cannot be read, is of another kind, or is about
        another version of a program."""
        document = cls()
        for file in files:
            for program in _programs(file):
                document.add(program, str(file))
        return document


def _programs(file: Path) -> list[ProgramCoverage]:
    try:
        document = json.loads(read_bytes(file))
    except (ValueError, RecursionError):
        raise DetourError(f"{file}: this is not a coverage file: it is not JSON") from None
    version = document.get("detour_coverage") if isinstance(document, dict) else None
    if version is None:
        raise DetourError(f"{file}: this is not a coverage file of detour")
    if version != VERSION:
        raise DetourError(f"{file}: coverage files of version {one_line(version)} cannot be read, only {VERSION}")
    try:
        return [_program(each) for each in document["programs"]]
    except (KeyError, TypeError, ValueError, AttributeError, msgspec.ValidationError):
        raise DetourError(f"{file}: this coverage file is damaged") from None


def _program(entry: dict[str, Any]) -> ProgramCoverage:
    points = msgspec.convert(entry["points"], list[Point])
    if any(p.kind not in PLURALS or min(p.line, p.column, p.hits) < 0 for p in points):
        raise ValueError
    name, digest = msgspec.convert((entry["name"], entry["digest"]), tuple[str, str])
    return ProgramCoverage.of(name, digest, points)


# -- what this process counts


def document_of(collector: Collector) -> CoverageDocument:
    """Return the counts so far."""
    document = CoverageDocument()
    for digest, program in list(collector.programs.items()):
        name = Path(str(program.source.get("program") or "program")).stem or "program"  # as p4c calls it
        points = [Point.of(site, int(n)) for site, n in zip(program.sites, program.counts, strict=False)]
        document.add(ProgramCoverage.of(name, digest, points), "this run")
    return document


@contextmanager
def collecting(file: Path | None) -> Iterator[None]:
    """Programs that are compiled inside count what packets reach, and the file is written at the end, however that
    comes. None: nothing of all that. Raises DetourError if the file cannot be written."""
    if file is None:
        yield
        return
    collector = Collector()
    try:
        with COLLECTOR.set_to(collector):
            yield
    except BaseException:
        if collector.programs:  # otherwise nothing has begun, and what stopped it is the message to show
            document_of(collector).write(file)
        raise
    document_of(collector).write(file)
