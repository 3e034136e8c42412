# SPDX-License-Identifier: Apache-2.0
"""How commands speak: results on standard output (a table, or one JSON document), what goes on on standard error."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable
from typing import Any

from rich.console import Console
from rich.table import Table

from detour.fabric.base import Tell, silent


def add_json(parser: argparse.ArgumentParser) -> None:
    """The option that every reporting command has."""
    parser.add_argument("--json", action="store_true", help="print one JSON document and nothing else")


def emit(args: argparse.Namespace, result: Any, show: Callable[[Console], None]) -> None:
    """Prints a result as the user wants it."""
    if args.json:
        print(json.dumps(result))
    else:
        show(console())


def console() -> Console:
    """Standard output; a pipe gets plain text as wide as it needs."""
    return Console() if sys.stdout.isatty() else Console(width=160, no_color=True)


def table(title: str, columns: Iterable[str], rows: Iterable[Iterable[Any]], numeric: Iterable[str] = ()) -> Table:
    """A table; columns in `numeric` are aligned to the right."""
    right = set(numeric)
    result = Table(title=title or None, title_justify="left", header_style="bold")
    for column in columns:
        result.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        result.add_row(*("-" if cell is None else str(cell) for cell in row))
    return result


def teller(args: argparse.Namespace) -> Tell:
    """Tells people what goes on: on a terminal in one line that changes, else a line for every new subject."""
    if getattr(args, "json", False):
        return silent
    return _one_line() if sys.stderr.isatty() else _lines()


def done(args: argparse.Namespace) -> None:
    """Removes the line that `teller` keeps on a terminal."""
    if not getattr(args, "json", False) and sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _one_line() -> Tell:
    return lambda text: print(f"\r\x1b[K{text} ...", end="", file=sys.stderr, flush=True)


def _lines() -> Tell:
    said: list[str] = []

    def tell(text: str) -> None:
        subject = text.split(":")[0]  # "what: 40%" is said once
        if subject not in said[-1:]:
            said.append(subject)
            print(subject, file=sys.stderr, flush=True)

    return tell
