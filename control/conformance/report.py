# SPDX-License-Identifier: Apache-2.0
"""A report as JUnit XML, for CI, and as a page that loads nothing from elsewhere."""

from __future__ import annotations

from html import escape
from itertools import groupby
from xml.etree import ElementTree

from detour.control.conformance.model import CheckResult, ConformanceReport, ConformanceVerdict

_STYLE = """
:root { color-scheme: light dark; } body { font: 15px/1.4 system-ui, sans-serif; margin: 1.5rem; }
pre { white-space: pre-wrap; font-size: 12px; } summary { cursor: pointer; } .fail { color: #c22; font-weight: bold; }
.differs { color: #b60; } .not_offered { color: #777; } .pass { color: #282; }
"""


def junit(report: ConformanceReport) -> str:
    """One test case a check; `differs` and `not_offered` are skipped tests."""
    counts = report.summary
    suite = ElementTree.Element(
        "testsuite", name="p4runtime", tests=str(len(report.results)), failures=str(counts[ConformanceVerdict.FAIL]),
        skipped=str(counts[ConformanceVerdict.DIFFERS] + counts[ConformanceVerdict.NOT_OFFERED]),
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
    """What was sent, received and expected."""
    return f"{result.requirement}\nsent:\n{result.sent}\ngot:\n{result.got}\nexpected:\n{result.expected}"


def page(report: ConformanceReport, title: str) -> str:
    """By section; each check can be opened."""
    counts = ", ".join(f"{count} {verdict}" for verdict, count in report.summary.items())
    parts = [
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title><style>{_STYLE}</style>',
        f"<h1>{escape(title)}</h1><p>{escape(counts)}</p>",
        *(f"<p>{escape(note)}</p>" for note in report.notes),
    ]
    for section, results in groupby(report.results, key=lambda result: result.section):
        parts.append(f"<h2>Section {section}</h2>")
        parts += map(_row, results)
    return "\n".join(parts) + "\n"


def _row(result: CheckResult) -> str:
    return (
        f'<details><summary><span class="{result.verdict}">{result.verdict}</span> {escape(result.id)}: '
        f"{escape(result.requirement)} ({result.level})</summary><pre>{escape(details(result))}</pre></details>"
    )
