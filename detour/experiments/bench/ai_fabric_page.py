# SPDX-License-Identifier: Apache-2.0
"""The report of the AI fabric benchmark as a folder: report.md, report.html, and each plot as an SVG file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from pathlib import Path
from textwrap import fill
from typing import Any

from detour.base.files import naming, write_file
from detour.base.html import html_page
from detour.base.tables import Column, Table, left, markdown
from detour.control.policy import RedMarking, StepMarking
from detour.experiments import drawing
from detour.experiments.bench.ai_fabric_draft import DRAFT, URL, coverage
from detour.experiments.bench.ai_fabric_procedures import JCT_OVERHEAD
from detour.experiments.bench.report import machine
from detour.experiments.columns import grouped
from detour.experiments.nonshortest.settings import setting_of
from detour.experiments.sim.report import REPORT_STYLE, html_table
from detour.experiments.sim.settings import SimSettings
from detour.experiments.sim.tables import size_text
from detour.fabric.backends.virtual.scheme import Scheme
from detour.topo import Topology

_STYLES = [(colour, marker, "-") for colour, marker in zip(
    (drawing.BLUE, drawing.ORANGE, drawing.GREEN, drawing.VERMILION, drawing.PURPLE, drawing.SKY, drawing.GRAY),
    "osD^vP*", strict=True,
)]  # fmt: skip
_X_NAMES = {
    "B": "message",
    ":1": "senders",
    " QP": "queue pairs of two hosts",
    " ranks": "ranks",
    "round": "round",
}
_TITLE = "AI fabric benchmark"


@dataclass(frozen=True)
class FabricTest:
    """A value of the report. `at`, `label`: see `Measure`; `cv`: standard deviation over mean of the draws; `steady`:
    see `ai_fabric`."""

    name: str
    section: str
    scheme: str
    value: float | None
    unit: str
    ideal: float | None
    test: str
    at: float | None
    cv: float | None
    steady: bool


@dataclass(frozen=True)
class FabricBench:
    """Measurements, and the fabric that they were made on."""

    topology: Topology
    settings: SimSettings
    schemes: dict[str, Scheme]
    sizes: tuple[int, ...]
    draws: int
    tests: tuple[FabricTest, ...]


def write(folder: Path, bench: FabricBench) -> None:
    """Write all files. Raises `DetourError`: one cannot be written, or matplotlib is not installed."""
    pictures = dict(_pictures(bench))
    with naming(folder):
        folder.mkdir(exist_ok=True)
    for name, picture in pictures.items():
        write_file(folder / f"{name}.svg", picture)
    write_file(folder / "report.md", _markdown(bench, pictures))
    write_file(folder / "report.html", _html(bench, pictures))


def rows(bench: FabricBench) -> list[tuple[str, ...]]:
    """Tests by schemes, as text: section, name, unit, ideal, then a value for each scheme."""
    by_name = grouped(bench.tests, lambda test: (test.section, test.name))
    shown = []
    for (section, name), some in by_name.items():
        of = {test.scheme: test for test in some}
        ideal = next((test.ideal for test in some if test.ideal is not None), None)
        cells = ["" if ideal is None else _digits(ideal), *(_cell(of.get(one)) for one in bench.schemes)]
        shown.append((f"{section} {name}", some[0].unit, *cells))
    return shown


def _cell(test: FabricTest | None) -> str:
    if test is None or test.value is None:
        return "–"
    return f"{_digits(test.value)}{'' if test.steady else '*'}"


def _digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def heads(bench: FabricBench) -> tuple[str, ...]:
    """Return the headings of the columns of `rows`."""
    return "test", "unit", "ideal", *bench.schemes


def notes(bench: FabricBench) -> list[str]:
    """Return the notes on the rows."""
    terms = f"{bench.topology.spec}, {len(bench.topology.hosts)} hosts, {bench.draws} draws, virtual time"
    lines = [
        f"After {DRAFT}. {terms}.",
        "*: a run was not completed, or the standard deviation over draws is above 5 % of the mean. –: no value.",
    ]
    if any(test.test == JCT_OVERHEAD and (test.value or 0) < 0 for test in bench.tests):
        lines.append(
            f"{JCT_OVERHEAD}: how much longer the iteration with the failure took than the others did on average. A "
            "value below zero is the spread of iterations: the failure cost nothing that could be measured."
        )
    return lines


def _terms(bench: FabricBench) -> Table[Any]:
    """Return the table of test conditions that sections 3.2 and 13 of the draft ask for."""
    links, memory = bench.settings.links, bench.settings.memory
    terms = [
        (
            "fabric",
            f"{bench.topology.spec}: {len(bench.topology.switches)} switches, {len(bench.topology.hosts)} hosts",
        ),
        ("switches", "P4 programs of detour on its engine, in virtual time"),
        ("links", f"{links.rate_bps / 1e9:g} Gb/s for each unit of speed"),
        ("buffer", f"{memory.port_bytes:,} bytes a port, shared"),
        ("messages", ", ".join(f"{size:,}" for size in bench.sizes) + " bytes"),
        ("draws", f"{bench.draws}, the same for all schemes"),
        *((f"scheme {name}", _scheme_text(scheme)) for name, scheme in bench.schemes.items()),
        ("computed on", machine()),
    ]
    return Table((left("what", lambda row: row[0]), left("is", lambda row: row[1])), terms, "under test")


def _scheme_text(scheme: Scheme) -> str:
    pfc = "PFC" if scheme.pfc else "no PFC"
    marks = isinstance(scheme.ecn, StepMarking | RedMarking)
    control = setting_of(scheme).text(scheme.name) if marks else f"{scheme.control.upper()}, no ECN"
    return f"{scheme.name}: {scheme.transport}, paths {scheme.paths}, {control}, {pfc}"


def _results(bench: FabricBench) -> Table[tuple[str, ...]]:
    columns = [
        Column[tuple[str, ...]](name, lambda row, at=at: row[at], at > 1) for at, name in enumerate(heads(bench))
    ]
    return Table(columns, rows(bench), "results")


# -- plots --------------------------------------------------------------------------------------------------


def _pictures(bench: FabricBench) -> Iterator[tuple[str, str]]:
    """(name, SVG) of each test that was measured at several sizes or numbers, and is not always zero."""
    for test, some in grouped((one for one in bench.tests if one.at is not None), lambda one: one.test).items():
        if len({one.at for one in some}) < 2 or not any(one.value for one in some):
            continue
        plt, figure, axes = drawing.row(1, 5.6)
        _panel(axes[0], some)
        drawing.legend(figure, axes, 3)
        name = "".join(letter if letter.isalnum() else "-" for letter in test.lower()).replace("--", "-")
        yield name, drawing.svg(plt, figure, name)


def _panel(axis: Any, tests: list[FabricTest]) -> None:
    """A line for each scheme; hollow points are not steady."""
    for style, (scheme, some) in zip(_STYLES * 9, grouped(tests, lambda one: one.scheme).items(), strict=False):
        points = [one for one in some if one.value is not None]
        colour, marker, line = style
        axis.plot([one.at for one in points], [one.value for one in points], line, color=colour, label=scheme)
        for steady, face in ((True, colour), (False, "white")):
            few = [one for one in points if one.steady == steady]
            axis.plot([one.at for one in few], [one.value for one in few], marker, color=colour, markerfacecolor=face)
    ideal = {one.at: one.ideal for one in tests if one.ideal is not None}
    if ideal:
        axis.plot(list(ideal), list(ideal.values()), ":", color=drawing.BLACK, label="empty fabric")
    first = tests[0]
    places = sorted({one.at for one in tests if one.at is not None})
    if all(b >= 2 * a for a, b in pairwise(places)):
        axis.set_xscale("log")
        axis.minorticks_off()
    labels = [f"{size_text(round(at))}B" if first.name.endswith("B") else f"{at:g}" for at in places]
    axis.set_xticks(places, labels)
    x_name = next((text for part, text in _X_NAMES.items() if part in first.name.removeprefix(first.test)), "")
    unit = f", {first.unit}" if first.unit else ""
    axis.set(xlabel=x_name, ylabel=f"{first.test}{unit}", title=f"{first.section} {first.test}", ylim=(0, None))


# -- pages --------------------------------------------------------------------------------------------------


def _markdown(bench: FabricBench, pictures: dict[str, str]) -> str:
    parts = [f"# {_TITLE}\n", f"After [{DRAFT}]({URL}), which is work in progress.\n"]
    for shown in (_terms(bench), _results(bench)):
        parts += [f"## {shown.title}\n", markdown(shown) + "\n"]
    parts += [fill(note, 120) + "\n" for note in notes(bench)]
    parts += [f"![{name}]({name}.svg)\n" for name in pictures]
    parts += [f"## {coverage().title}\n", markdown(coverage()) + "\n"]
    return "\n".join(parts)


def _html(bench: FabricBench, pictures: dict[str, str]) -> str:
    panels = "".join(f'<div id="{name}">{picture}</div>' for name, picture in pictures.items())
    said = "".join(f"<p>{escape(note)}</p>" for note in notes(bench))
    head = f'<p>After <a href="{URL}">{DRAFT}</a>, which is work in progress.</p>'
    tables = html_table(_terms(bench)) + html_table(_results(bench))
    body = f'{head}{tables}{said}<div class="panels">{panels}</div>{html_table(coverage())}'
    return html_page(_TITLE, body, REPORT_STYLE)
