# SPDX-License-Identifier: Apache-2.0
"""Tables as a terminal of 80 characters shows them."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from rich.console import Console

from detour.base.tables import Table
from detour.cli.output import Page


def printed(tables: Sequence[Table[Any]], *, wide: bool = False) -> str:
    """What is shown; of narrow tables no line is longer than the terminal, and no cell is lost."""
    text = io.StringIO()
    Page(Console(file=text, width=80), wide).tables(tables)
    lines = [line.rstrip() for line in text.getvalue().splitlines()]
    assert wide or max(map(len, lines), default=0) <= 80, max(lines, key=len)
    shown = " ".join(" ".join(lines).split())
    for table in tables:
        for cell in (cell for row in table.cells(wide) for cell in row):
            assert all(word in shown for word in cell.split())
    return "\n".join(lines)
