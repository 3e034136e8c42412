# SPDX-License-Identifier: Apache-2.0
"""The table of `fors rivals` in a page: a line for each number of failed links, a column for each scheme.

A page has one block for each table, between two comments; the first is the command that writes it. What is there
is written anew, what is not comes at the end.
"""

from __future__ import annotations

from pathlib import Path
from textwrap import fill

from detour.base.errors import DetourError
from detour.base.files import write_file
from detour.base.tables import Table, left, markdown, right
from detour.experiments.fors.rivals import RivalRow, Rivals

_END = "<!-- end -->"
_WIDTH = 120
"""of lines of documents"""


def write_block(page: Path, command: str, found: Rivals) -> None:
    """Writes the block of `command` (its options, without `--write`).

    Raises:
        DetourError: the page cannot be read or written, or a block in it has no end.
    """
    begin = fill(f"<!-- {command} -->", _WIDTH, break_long_words=False, break_on_hyphens=False)
    block = f"{begin}\n{_caption(found)}\n\n{markdown(_table(found))}\n{_END}"
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
        raise DetourError(f"{page}: {getattr(error, 'strerror', None) or 'is no text'}") from error


def _caption(found: Rivals) -> str:
    what = "in brackets ideal" if found.rows[0].measured is not None else "ideal"
    machines = f", machines {found.scale_up}" if found.scale_up else ""
    return f"{found.topology}, {found.servers} servers{machines}, {found.sizes}, {found.mean_bytes:,} bytes; {what}:"


def _table(found: Rivals) -> Table[int]:
    cells = {(row.failures, row.scheme): _cell(row) for row in found.rows}
    schemes = dict.fromkeys(row.scheme for row in found.rows)
    columns = [left(name, lambda count, name=name: cells[count, name]) for name in schemes]
    return Table((right("f", str), *columns), list(found.bounds_us))


def _cell(row: RivalRow) -> str:
    return f"{row.ideal:.3f}" if row.measured is None else f"{row.measured:.3f} ({row.ideal:.3f})"
