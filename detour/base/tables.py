# SPDX-License-Identifier: Apache-2.0
"""Tables for people, declared once: rows are typed records, a column says which cell of a row it shows. The terminal
(`detour/cli/output.py`) shows as many columns as fit, Markdown all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import fill
from typing import Any, Generic, TypeVar

from detour.base.errors import DetourError
from detour.base.files import write_file

Row = TypeVar("Row")
CellValue = str | int | float | None
NOTHING = "–"
"""a cell without a value"""


@dataclass(frozen=True)
class Column(Generic[Row]):
    """`name`: its head; `of`: the cell of a row (None: there is no value); `right`: set flush right; `wide`: only where
    there is room for all columns; `means`: the legend, for a head that does not speak for itself."""

    name: str
    of: Callable[[Row], CellValue]
    right: bool = False
    wide: bool = False
    means: str = ""


@dataclass(frozen=True)
class Table(Generic[Row]):
    """Columns over rows. `notes`: lines below it."""

    columns: Sequence[Column[Row]]
    rows: Sequence[Row]
    title: str = ""
    notes: Sequence[str] = field(default=())

    def shown(self, wide: bool) -> list[Column[Row]]:
        """The columns that are shown."""
        return [column for column in self.columns if wide or not column.wide]

    def cells(self, wide: bool) -> list[list[str]]:
        """The text of every row's cells."""
        return [[_text(column.of(row)) for column in self.shown(wide)] for row in self.rows]

    def legend(self, wide: bool) -> list[str]:
        """Explain the columns that need it, and add the notes."""
        return [f"{column.name}: {column.means}" for column in self.shown(wide) if column.means] + list(self.notes)


def _text(cell: CellValue) -> str:
    return NOTHING if cell is None else str(cell)


def left(name: str, of: Callable[[Any], CellValue], *, wide: bool = False, means: str = "") -> Column[Any]:
    """A column of words."""
    return Column(name, of, False, wide, means)


def right(name: str, of: Callable[[Any], CellValue], *, wide: bool = False, means: str = "") -> Column[Any]:
    """A column of numbers."""
    return Column(name, of, True, wide, means)


def fixed(value: float | None, digits: int) -> str | None:
    """A number with so many digits behind the point; None stays none."""
    return None if value is None else f"{value:.{digits}f}"


def percent(fraction: float | None, digits: int = 0) -> str | None:
    """`35%`; None stays none."""
    return None if fraction is None else f"{fraction:.{digits}%}"


def yes_no(value: bool | None) -> str | None:
    """`yes` or `no`; None stays none."""
    return None if value is None else "yes" if value else "no"


def markdown(table: Table[Any]) -> str:
    """The table with all columns; title and legend are the text's around it."""
    columns = table.shown(True)
    lines = ["| " + " | ".join(column.name for column in columns) + " |"]
    lines.append("|" + "|".join("---:" if column.right else "---" for column in columns) + "|")
    lines += ["| " + " | ".join(row) + " |" for row in table.cells(True)]
    return "\n".join(lines)


_END = "<!-- end -->"
_WIDTH = 120
"""of lines of documents"""


def write_block(page: Path, command: str, content: str) -> None:
    """Write what a command gives between two comments of a page of Markdown, at its end if it has no such block.
    Raises `DetourError`: the page cannot be read or written, or a block in it has no end."""
    begin = fill(f"<!-- {command} -->", _WIDTH, break_long_words=False, break_on_hyphens=False)
    block = f"{begin}\n{content}\n{_END}"
    try:
        text = page.read_text() if page.exists() else ""
        before, mark, behind = text.partition(begin)
        if mark:
            _, end, rest = behind.partition(_END)
            if not end:
                raise DetourError(f"{page}: the block {begin} has no {_END}")
            write_file(page, before + block + rest)
        else:
            write_file(page, text + ("\n" if text else "") + block + "\n")
    except (OSError, UnicodeDecodeError) as error:
        raise DetourError(f"{page}: {getattr(error, 'strerror', None) or 'is not text'}") from error
