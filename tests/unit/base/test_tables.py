# SPDX-License-Identifier: Apache-2.0
"""One table for terminal and Markdown."""

from __future__ import annotations

import argparse
import io
from typing import Any

from rich.console import Console

from detour.base.tables import Table, fixed, left, markdown, percent, right, yes_no
from detour.cli.output import PRINTED_TO, Page, present

ROWS = [("nonshortest-path", 1.25, 0.5), ("LERP", None, None)]
TABLE: Table[Any] = Table(
    (
        left("scheme of the senders", lambda row: row[0]),
        right("rate", lambda row: fixed(row[1], 1), means="Gb/s on the wire"),
        right("detours", lambda row: percent(row[2]), wide=True, means="packets not on a shortest path"),
    ),
    ROWS,
    "rates",
    ("one draw",),
)


def _printed(width: int, wide: bool = False, table: Table[Any] = TABLE) -> list[str]:
    text = io.StringIO()
    options = argparse.Namespace(json=False, wide=wide)
    with PRINTED_TO.set_to(Console(file=text, width=width)):
        present({}, options, lambda page: page.table(table))
    return [line.rstrip() for line in text.getvalue().splitlines()]


def test_wide_columns_and_their_legend_are_shown_on_request() -> None:
    assert not any("detours" in line for line in _printed(80))
    wide = _printed(80, wide=True)
    assert any("50%" in line for line in wide)
    assert wide[-3:] == ["rate: Gb/s on the wire", "detours: packets not on a shortest path", "one draw"]


def test_no_cell_is_cut_however_narrow_the_terminal() -> None:
    lines = _printed(10)
    assert any("nonshortest-path" in line for line in lines)
    assert not any("…" in line for line in lines)


def test_a_head_is_broken_between_its_words() -> None:
    lines = _printed(26)
    assert max(map(len, lines)) <= 26
    assert any("scheme" in line and "senders" not in line for line in lines)


def test_a_sentence_is_broken_between_its_words() -> None:
    table = Table((left("says", lambda row: row),), ["one two three four five six seven"])
    lines = _printed(20, table=table)
    assert " ".join(" ".join(lines).split()).endswith("one two three four five six seven")
    assert max(map(len, lines)) <= 20


def test_a_cell_is_no_markup() -> None:
    table = Table((left("match", lambda row: row),), ["[red]x[/red] [0:3]"])
    assert any("[red]x[/red] [0:3]" in line for line in _printed(80, table=table))


def test_markdown_has_all_columns() -> None:
    assert markdown(TABLE).splitlines() == [
        "| scheme of the senders | rate | detours |",
        "|---|---:|---:|",
        "| nonshortest-path | 1.2 | 50% |",
        "| LERP | – | – |",
    ]


def test_cells_of_nothing_stay_nothing() -> None:
    assert (fixed(None, 2), percent(None), yes_no(None)) == (None, None, None)
    assert (fixed(1.0, 2), percent(0.125, 1), yes_no(True), yes_no(False)) == ("1.00", "12.5%", "yes", "no")


def test_who_can_spare_most_gives_way() -> None:
    path = "usid:fcbb:bb00:100:101:106:107:108:841f"
    rows = [("s263", "the entry that decided, and a few words more to break", path)]
    table: Table[Any] = Table(
        (left("switch", lambda row: row[0]), left("why", lambda row: row[1]), left("path", lambda row: row[2])), rows
    )
    lines = _printed(80, table=table)
    assert max(map(len, lines)) <= 80
    assert any(path in line for line in lines)
    assert set(rows[0][1].split()) <= set(" ".join(lines).split())


def test_colons_and_brackets_are_only_text() -> None:
    def render(page: Page) -> None:
        page.table(Table((left(":a:", str),), [":100: and more"], "[b]:100:"))
        page.print("[red] :100:")

    text = io.StringIO()
    render(Page(Console(file=text, width=80)))
    assert all(part in text.getvalue() for part in (":a:", ":100: and", "[b]:100:", "[red] :100:"))
