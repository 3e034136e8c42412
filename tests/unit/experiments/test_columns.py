# SPDX-License-Identifier: Apache-2.0
"""Rows that say how they are shown, and rows that several runs make."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from detour.base.records import as_json
from detour.base.tables import markdown
from detour.experiments.columns import cell, columns, combined, kept, largest, mean, row, shown, table, taken
from detour.experiments.prose import prose


@dataclass(frozen=True)
class Lap:
    driver: str
    seconds: float
    pits: int
    clean: bool
    kmh: float | None = None


@row
class Place:
    """`laps`: how many."""

    driver: str = shown("driver")

    @cell("faults")
    def _faults(self) -> str:
        return f"{self.pits} in {self.laps}"

    seconds: float = shown("s", ".1f", over=mean(2), means="of a lap")
    clean: bool = shown("clean", over=all, wide=True)
    kmh: float | None = shown("km/h", lambda speed: f"{speed:g}!", over=largest)
    pits: int = kept(sum)
    laps: int


def test_runs_make_a_row_as_its_fields_say() -> None:
    result = combined(Place, [Lap("a", 61.0, 1, True), Lap("b", 60.0, 2, False, 210.0)], laps=2)
    assert result == Place(driver="a", seconds=60.5, clean=False, kmh=210.0, pits=3, laps=2)
    assert as_json(result).keys() == {"driver", "seconds", "clean", "kmh", "pits", "laps"}


def test_columns_come_as_they_are_written_with_words_flush_left() -> None:
    heads = [(column.name, column.right, column.wide) for column in columns(Place)]
    assert heads == [
        ("driver", False, False), ("faults", True, False), ("s", True, False), ("clean", False, True),
        ("km/h", True, False),
    ]  # fmt: skip
    shown_table = table(Place, [taken(Place, Lap("a", 61.25, 1, True), laps=1)], "laps")
    assert markdown(shown_table).splitlines()[2] == "| a | 1 in 1 | 61.2 | yes | – |"
    assert shown_table.legend(False) == ["s: of a lap"]


def test_a_record_takes_what_the_first_of_others_has() -> None:
    first, second = Lap("a", 1.0, 2, True), Place(driver="b", seconds=3.0, clean=False, kmh=None, pits=9, laps=4)
    assert taken(Place, first, second, pits=0) == Place(driver="a", seconds=1.0, clean=True, kmh=None, pits=0, laps=4)


def test_means_and_largest_leave_out_what_is_not_there() -> None:
    assert (mean(1)([None, 1.0, 2.0]), mean(1)([None])) == (1.5, None)
    assert (largest([None, 3, 1]), largest([])) == (3, None)


def test_texts_of_a_page_stand_beside_its_module(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("<!-- head -->\n# Title\n\nwords\n\n<!-- end -->\nlast\n")
    assert prose(str(tmp_path / "page.py")) == {"head": "# Title\n\nwords\n", "end": "last"}
    with pytest.raises(FileNotFoundError):
        prose(str(tmp_path / "none.py"))
