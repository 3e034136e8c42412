# SPDX-License-Identifier: Apache-2.0
"""Coverage to look at: as pages, one with all programs and one a program with its source, line by line, which load
nothing from elsewhere; and as `geninfo` of LCOV writes it, for genhtml, editors, code review sites."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from pathlib import Path

from detour.base.files import naming, write_file
from detour.base.html import html_page
from detour.engine.compiler.covering import BRANCH, STATEMENT
from detour.engine.coverage.document import CoverageDocument, Point, ProgramCoverage, percent
from detour.engine.coverage.sources import SourceFile, SourceLine

_STYLE = """
:root { color-scheme: light dark; --no: #fbd5d5; --part: #fdf0c4; --yes: #d8f3dc; --grey: #777; }
@media (prefers-color-scheme: dark) { :root { --no: #5c2626; --part: #574a1a; --yes: #1f4528; --grey: #999; } }
body { font: 15px/1.4 system-ui, sans-serif; margin: 1.5rem; }
table.totals td, table.totals th { padding: .2rem .8rem; text-align: right; }
table.totals td:first-child, table.totals th:first-child { text-align: left; }
pre { font: 13px/1.45 ui-monospace, monospace; }
.l { display: block; white-space: pre; }
.n, .h { display: inline-block; text-align: right; color: var(--grey); user-select: none; }
.n { width: 4em; } .h { width: 7em; margin-right: 1em; }
.no { background: var(--no); } .part { background: var(--part); } .yes { background: var(--yes); }
.o { color: var(--grey); font-style: italic; margin-left: 2em; }
"""


_HEAD = "<tr><th>program</th><th>statements</th><th>branches</th><th>table outcomes</th></tr>"


def write_html(
    folder: Path, document: CoverageDocument, files_of: dict[str, tuple[list[SourceFile], list[Point]]]
) -> Path:
    """Write the pages into a folder, which is made if it is not there; return the first page. `files_of`: what
    `sources.over_source` says of each program. Raises DetourError if they cannot be written."""
    names = {name: f"program-{number}.html" for number, name in enumerate(sorted(document.programs), 1)}
    with naming(folder):
        folder.mkdir(exist_ok=True)
    write_file(folder / "index.html", _index(document, names))
    for name, page in names.items():
        write_file(folder / page, _program(document.programs[name], *files_of[name]))
    return folder / "index.html"


def _index(document: CoverageDocument, names: dict[str, str]) -> str:
    rows = [
        f'<tr><td><a href="{page}">{escape(name)}</a></td>{_totals(document.programs[name])}</tr>'
        for name, page in names.items()
    ]
    return html_page("Coverage of P4", f'<table class="totals">{_HEAD}{"".join(rows)}</table>', _STYLE)


def _totals(program: ProgramCoverage) -> str:
    cells = []
    for totals in program.totals().values():
        covered, reachable = totals["covered"], totals["reachable"]
        kind = "yes" if covered == reachable else "part" if covered else "no"
        cells.append(f'<td class="{kind}">{covered} of {reachable} ({percent(totals):.1f} %)</td>')
    return "".join(cells)


def _program(program: ProgramCoverage, files: list[SourceFile], elsewhere: list[Point]) -> str:
    totals = f'<table class="totals">{_HEAD}<tr><td>{escape(program.name)}</td>{_totals(program)}</tr></table>'
    parts = [f'<p><a href="index.html">all programs</a></p>{totals}']
    for file in files:
        lines = "".join(_line(line) for line in file.lines)
        note = "" if file.path else " (its text was not found, or has changed since)"
        parts.append(f"<h2>{escape(file.name)}{note}</h2>\n<pre>{lines}</pre>")
    if elsewhere:
        made = [point for point in elsewhere if point.is_made]
        named = [point for point in elsewhere if not point.is_made]
        for title, some in (("Without a line of their own", named), ("Made by the compiler", made)):
            rows = "".join(f"<li>{point.hits} {escape(point.title)}</li>" for point in some)
            parts.append(f"<details><summary>{title}: {len(some)}</summary><ul>{rows}</ul></details>" if some else "")
    return html_page(f"Coverage of {program.name}", "\n".join(parts), _STYLE)


def _line(line: SourceLine) -> str:
    hits = line.hits
    kind = "" if hits is None else "yes" if line.is_whole else "part" if any(p.hits for p in line.points) else "no"
    shown = "" if hits is None else str(hits)
    outcomes = "; ".join(f"{p.outcome}: {p.hits}" for p in line.outcomes)
    missed = [p for p in line.points if p.kind == STATEMENT and not p.hits]
    title = "; ".join(f"never: {p.name}" for p in missed)
    extra = f'<span class="o">{escape(outcomes)}</span>' if outcomes else ""
    return (
        f'<span class="l {kind}" title="{escape(title, quote=True)}"><span class="n">{line.number}</span>'
        f'<span class="h">{shown}</span>{escape(line.text)}{extra}</span>'
    )


# -- LCOV


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
    records = []
    for block, points in enumerate(blocks.values()):
        reached = any(point.hits for point in points)
        for number, point in enumerate(points):
            records.append(f"BRDA:{line.number},{block},{number},{point.hits if reached else '-'}")
    return records
