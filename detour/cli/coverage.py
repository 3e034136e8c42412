# SPDX-License-Identifier: Apache-2.0
"""`coverage`: what packets have reached of P4 programs (docs/coverage.md)."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from detour.base.errors import DetourError
from detour.base.files import write_file
from detour.base.tables import Table, left, right
from detour.cli.output import Page, present, shown_progress
from detour.cli.parser import command, number, output_file, output_folder

if TYPE_CHECKING:
    from detour.engine.coverage.document import CoverageDocument, Point, ProgramCoverage
    from detour.engine.coverage.sources import SourceFile, SourceLine
    from detour.testgen.suggest import Suggestion

_HELD = ("statements", "actions")  # what --fail-under is about


def register(commands: Any) -> None:
    coverage = command(commands, "coverage", "show which parts of P4 programs packets have reached", _coverage)
    text = "files written by --coverage of trace, switch, up or the tests"
    coverage.add_argument("files", nargs="+", type=Path, metavar="FILE", help=text)
    coverage.option("--html", "write pages with the source into DIR", "DIR", output_folder)
    coverage.option("--lcov", "write an LCOV tracefile", "FILE", output_file)
    text = "exit code 1 if a program is below P %% of its statements or table outcomes"
    coverage.option("--fail-under", text, "P", _percent)
    coverage.option("--exceptions", "exceptions with reasons (TOML)", "FILE", Path)
    text = "generate entries and a packet for each uncovered place of the program or its BMv2 JSON"
    coverage.option("--suggest", text, "P4|JSON", Path)
    coverage.option("--source", "a folder with P4 sources", "DIR", Path, action="append", default=[])
    coverage.add_argument("-v", "--verbose", action="store_true", help="show all lines, not only uncovered ones")


def _percent(text: str) -> float:
    value = number(text)
    if not 0 <= value <= 100:
        raise argparse.ArgumentTypeError(f"{text!r} is not a percentage, 0 to 100")
    return value


def _coverage(options: argparse.Namespace) -> int:
    from detour.engine.coverage.document import CoverageDocument
    from detour.engine.coverage.exceptions import read_exceptions
    from detour.engine.coverage.reports import lcov, write_html
    from detour.engine.coverage.sources import over_source

    document = CoverageDocument.read(options.files)
    if not document.programs:
        raise DetourError(f"{options.files[0]}: it contains no coverage of any program")
    if options.exceptions is not None:
        read_exceptions(options.exceptions).apply(document)
    over = {name: over_source(program, options.source) for name, program in sorted(document.programs.items())}
    if options.html is not None:
        write_html(options.html, document, over)
    if options.lcov is not None:
        write_file(options.lcov, lcov((name, files) for name, (files, _) in over.items()))
    totals = {name: document.programs[name].totals() for name in over}
    under = _under(totals, options.fail_under)
    suggested = [] if options.suggest is None else _suggestions(document, options)

    def render(page: Page) -> None:
        page.table(_summary(document))
        if options.html is not None:
            page.print(f"line by line: {options.html / 'index.html'}")
        for name, (files, elsewhere) in over.items() if options.html is None or options.verbose else ():
            _show(page, name, files, elsewhere, options.verbose)
        _show_suggestions(page, suggested)
        for line in under:
            page.print(line, style="red")

    as_json: dict[str, Any] = dict(totals)
    if options.suggest is not None:
        as_json["suggestions"] = [
            {"point": p.title, "file": p.file, "line": p.line, "needs": each.needs, "reason": each.reason}
            for each in suggested
            for p in (each.point,)
        ]
    present(as_json, options, render)
    return 1 if under else 0


def _suggestions(document: CoverageDocument, options: argparse.Namespace) -> list[Suggestion]:
    from detour.base.extras import require

    require("z3", "z3-solver", "test", "coverage --suggest")
    from detour.testgen.suggest import suggestions

    program = options.suggest
    with shown_progress(options.json) as progress:
        if program.suffix == ".p4":
            from detour.p4.build import build

            program = build(program).json
        return suggestions(document, program, progress)


def _show_suggestions(page: Page, suggested: list[Suggestion]) -> None:
    """Every test once, below all places for which it is suggested."""
    places: dict[str, list[str]] = {}
    for each in suggested:
        places.setdefault("\n    ".join(each.needs or [each.reason]), []).append(each.point.title)
    for text, titles in places.items():
        for title in titles:
            page.print(title, style="bold")
        page.print(f"    {text}", whole=True)


def _under(totals: dict[str, dict[str, dict[str, int]]], least: float | None) -> list[str]:
    """List the counts below the least percentage, a line each."""
    shortfalls = []
    for name, counts in totals.items():
        for what in _HELD:
            covered, reachable = counts[what]["covered"], counts[what]["reachable"]
            if least is not None and 100 * covered < least * reachable:
                shortfalls.append(f"{name}: {covered} of {reachable} {what} are covered, less than {least:g} %")
    return shortfalls


def _summary(document: CoverageDocument) -> Table[Any]:
    from detour.engine.coverage.document import percent

    def cell(program: ProgramCoverage, what: str) -> str:
        counts = program.totals()[what]
        return f"{counts['covered']}/{counts['reachable']} {percent(counts):.1f} %"

    columns = (
        left("program", lambda program: program.name),
        right("statements", lambda program: cell(program, "statements")),
        right("branches", lambda program: cell(program, "branches")),
        right("table outcomes", lambda program: cell(program, "actions")),
    )
    return Table(columns, [program for _, program in sorted(document.programs.items())])


def _show(page: Page, name: str, files: list[SourceFile], elsewhere: list[Point], verbose: bool) -> None:
    """Lines in which something is missing, or all."""
    for file in files:
        lines = [line for line in file.lines if verbose or not line.is_whole]
        if lines:
            reachable = [line for line in file.lines if line.hits is not None]
            missing = sum(not line.is_whole for line in reachable)
            note = "" if file.path else "; its text was not found: --source DIR"
            page.print(f"{name}: {file.name}: {missing} of {len(reachable)} lines miss something{note}", style="bold")
        for line in lines:
            page.print(_line(line), style=_style(line))
    missed = [point for point in elsewhere if verbose or not point.hits]
    shown = [point for point in missed if verbose or not point.is_made]
    if missed:
        made = f" (and {len(missed) - len(shown)} that the compiler made: -v)" if len(shown) < len(missed) else ""
        page.print(f"{name}: without a line of their own: {len(shown)}{made}", style="bold")
    for point in shown:
        page.print(f"{point.hits:>9}        {point.title}", style="dim" if point.hits else "red")


def _line(line: SourceLine) -> str:
    shown = "" if line.hits is None else str(line.hits)
    missed = [point.outcome for point in line.outcomes if not point.hits]
    if line.text.lstrip().startswith("const ") and not line.hits:
        missed.append("assigned")  # p4c says the place of a constant for what assigns it
    never = f"   // never: {', '.join(missed)}" if missed else ""
    return f"{shown:>9} {line.number:>5}: {line.text}{never}"


def _style(line: SourceLine) -> str | None:
    if line.hits is None:
        return "dim"
    return None if line.is_whole else "yellow" if line.hits else "red"
