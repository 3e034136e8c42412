# SPDX-License-Identifier: Apache-2.0
"""Coverage as `geninfo` of LCOV writes it, for what reads that: genhtml, editors, code review sites."""

from __future__ import annotations

from collections.abc import Iterable

from detour.engine.compiler.covering import BRANCH
from detour.engine.coverage.document import Point
from detour.engine.coverage.sources import SourceFile, SourceLine


def lcov(files_of: Iterable[tuple[str, list[SourceFile]]]) -> str:
    """The text of a tracefile, of (program, its files). Outcomes of tables are branches of the line with the table."""
    out: list[str] = []
    for program, files in files_of:
        for file in files:
            out += _record(program, file)
    return "\n".join(out) + "\n" if out else ""


def _record(program: str, file: SourceFile) -> list[str]:
    lines = [line for line in file.lines if line.hits is not None]
    branches = [text for line in lines for text in _branches(line)]
    hit = sum(not text.endswith((",0", ",-")) for text in branches)
    return [
        f"TN:{''.join(c if c.isalnum() else '_' for c in program)}",
        f"SF:{file.name if file.path is None else file.path.resolve()}",
        *branches,
        f"BRF:{len(branches)}",
        f"BRH:{hit}",
        *(f"DA:{line.number},{line.hits}" for line in lines),
        f"LF:{len(lines)}",
        f"LH:{sum(bool(line.hits) for line in lines)}",
        "end_of_record",
    ]


def _branches(line: SourceLine) -> list[str]:
    blocks: dict[tuple[str, str, int], list[Point]] = {}
    for point in line.outcomes:
        blocks.setdefault((point.kind, point.name if point.kind != BRANCH else "", point.column), []).append(point)
    found = []
    for block, points in enumerate(blocks.values()):
        reached = any(point.hits for point in points)
        for number, point in enumerate(points):
            found.append(f"BRDA:{line.number},{block},{number},{point.hits if reached else '-'}")
    return found
