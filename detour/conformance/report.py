# SPDX-License-Identifier: Apache-2.0
"""A report as JUnit XML, for CI, and as a page that loads nothing from elsewhere; stored runs as tables: what each
server makes of the specification, by chapter, by section or check by check."""

from __future__ import annotations

import json
import lzma
from collections import Counter
from dataclasses import dataclass, replace
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from detour.base.errors import DetourError
from detour.base.html import html_page
from detour.base.tables import Table, left, right
from detour.conformance.model import CheckResult, ConformanceReport, ConformanceVerdict

_STYLE = """
:root { color-scheme: light dark; } body { font: 15px/1.4 system-ui, sans-serif; margin: 1.5rem; }
pre { white-space: pre-wrap; font-size: 12px; } summary { cursor: pointer; } .fail { color: #c22; font-weight: bold; }
.differs { color: #b60; } .not_offered, .unspecified { color: #777; } .pass { color: #282; }
"""


def junit(report: ConformanceReport) -> str:
    """One test case a check; what neither passes nor fails is a skipped test."""
    counts = report.summary
    suite = ElementTree.Element(
        "testsuite", name="p4runtime", tests=str(len(report.results)), failures=str(counts[ConformanceVerdict.FAIL]),
        skipped=str(len(report.results) - counts[ConformanceVerdict.PASS] - counts[ConformanceVerdict.FAIL]),
    )  # fmt: skip
    for result in report.results:
        case = ElementTree.SubElement(suite, "testcase", classname=f"section {result.section}", name=result.id)
        if result.verdict is ConformanceVerdict.FAIL:
            failure = ElementTree.SubElement(case, "failure", message=result.requirement)
            failure.text = _printable(details(result))
        elif result.verdict is not ConformanceVerdict.PASS:
            ElementTree.SubElement(case, "skipped", message=f"{result.verdict}: {result.requirement}")
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def _printable(text: str) -> str:
    """XML has no control characters."""
    return "".join(c if c.isprintable() or c == "\n" else "?" for c in text)


def details(result: CheckResult) -> str:
    """Show the specification's sentence, and what was sent, received and expected."""
    parts = {"sent": result.sent, "got": result.got, "expected": result.expected}
    return "\n".join([result.requirement, f"{result.level}, {result.quote}", *(f"{k}:\n{v}" for k, v in parts.items())])


def page(report: ConformanceReport, title: str) -> str:
    """By section; each check can be opened."""
    counts = ", ".join(f"{count} {verdict}" for verdict, count in report.summary.items())
    parts = [
        f"<p>{escape(counts)}</p>",
        *(f"<p>{escape(note)}</p>" for note in report.notes),
    ]
    for section, results in groupby(report.results, key=lambda result: result.section):
        parts.append(f"<h2>Section {section}</h2>")
        parts += map(_row, results)
    return html_page(title, "\n".join(parts) + "\n", _STYLE)


def _row(result: CheckResult) -> str:
    return (
        f'<details><summary><span class="{result.verdict}">{result.verdict}</span> {escape(result.id)}: '
        f"{escape(result.requirement)} ({result.level})</summary><pre>{escape(details(result))}</pre></details>"
    )


# -- stored runs

Run = dict[str, dict[str, str]]
"""checks by their ids, as `detour conformance --json` writes them"""


@dataclass(frozen=True)
class ComplianceRow:
    """A section of the specification: the subjects of its checks, most frequent first, their number, and how many have
    which verdict in each run."""

    section: str
    about: list[str]
    checks: int
    verdicts: dict[str, dict[str, int]]


def read_runs(paths: list[Path]) -> dict[str, Run]:
    """Runs by the names of their files (`BMv2.json.xz`: BMv2). Raises `DetourError`: a file is not a run, or they have
    different checks."""
    runs = {path.name.partition(".json")[0]: _read(path) for path in paths}
    if len({frozenset(run) for run in runs.values()}) > 1:
        raise DetourError(f"{', '.join(map(str, paths))} have different checks; run each again")
    return runs


def _read(path: Path) -> Run:
    try:
        text = path.read_bytes() if path.suffix != ".xz" else lzma.decompress(path.read_bytes())
        return {check["id"]: check for check in json.loads(text)["checks"]}
    except OSError as error:
        raise DetourError(f"{path}: {error.strerror or error}") from None
    except (ValueError, KeyError, TypeError, lzma.LZMAError):
        raise DetourError(f"{path} was not written by `detour conformance --json`") from None


def by_section(runs: dict[str, Run]) -> list[ComplianceRow]:
    rows = []
    for section, checks in groupby(next(iter(runs.values())).values(), _section):
        ids = [check["id"] for check in checks]
        about = [name for name, _ in Counter(id_.split(".")[0] for id_ in ids).most_common()]
        verdicts = {name: dict(Counter(run[id_]["verdict"] for id_ in ids)) for name, run in runs.items()}
        rows.append(ComplianceRow(section, about, len(ids), verdicts))
    return rows


def _section(check: dict[str, str]) -> str:
    """Return the section of the specification, without deeper subsections."""
    return ".".join(check["section"].split(".")[:2])


def section_table(runs: dict[str, Run]) -> Table[ComplianceRow]:
    """For people: a verdict of all checks alone is its word."""
    columns = [left(name, lambda row, name=name: _cell(row.verdicts[name])) for name in runs]
    about = left("about", lambda row: ", ".join([*row.about[:3], *(["..."] if row.about[3:] else [])]))
    section, checks = left("section", lambda row: row.section), right("checks", lambda row: row.checks)
    return Table((section, about, checks, *columns), by_section(runs))


_CHAPTERS = {
    "5": "arbitration, replication", "8": "message formats", "9": "entities", "10": "errors", "12": "Write",
    "13": "Read", "14": "SetForwardingPipelineConfig", "15": "GetForwardingPipelineConfig", "16": "StreamChannel",
    "17": "Capabilities", "18": "portability",
}  # fmt: skip
"""of version 1.5, those that have checks"""


def chapter_table(runs: dict[str, Run]) -> Table[ComplianceRow]:
    """`section_table` in short: the sections of a chapter in one row."""
    rows = []
    for number, sections in groupby(by_section(runs), lambda row: row.section.partition(".")[0]):
        some = list(sections)
        verdicts = {name: dict(sum((Counter(row.verdicts[name]) for row in some), Counter())) for name in runs}
        rows.append(ComplianceRow(number, [_CHAPTERS.get(number, "")], sum(row.checks for row in some), verdicts))
    return replace(section_table(runs), rows=rows)


def _cell(verdicts: dict[str, int]) -> str:
    parts = [f"{verdicts[v]} {v}".replace("_", " ") for v in ConformanceVerdict if v in verdicts]
    return parts[0].partition(" ")[2] if len(parts) == 1 else ", ".join(parts)


def check_table(runs: dict[str, Run], reports: dict[str, str]) -> Table[dict[str, str]]:
    """Every check. `reports`: public ones that name a failure, by id."""
    names = ("section", "id", "requirement", "level", "quote")
    columns: list[Any] = [left(name, lambda check, name=name: check.get(name, "")) for name in names]
    columns += [left(name, lambda check, run=run: run[check["id"]]["verdict"]) for name, run in runs.items()]
    columns.append(left("report", lambda check: reports.get(check["id"])))
    return Table(columns, list(next(iter(runs.values())).values()))


def read_reports(path: Path) -> dict[str, str]:
    """Public reports that name what a server fails, by the check's id: lines of the id and the reports."""
    lines = [line.split(maxsplit=1) for line in path.read_text().splitlines() if line and not line.startswith("#")]
    return {words[0]: words[1] if len(words) > 1 else "" for words in lines}
