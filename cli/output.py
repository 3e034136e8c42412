# SPDX-License-Identifier: Apache-2.0
"""How commands speak: results on standard output (one JSON document if asked for), progress on standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from detour.base.progress import Progress, silent

if TYPE_CHECKING:  # rich takes a fifth of a second, and most of what is typed wrong needs none of it
    from rich.console import Console
    from rich.table import Table


_console: ContextVar[Console | None] = ContextVar("console", default=None)


def emit(result: Any, as_json: bool, render: Callable[[Console], None]) -> None:
    """Prints a result: as one JSON document, or as `render` does it."""
    if as_json:
        print(json.dumps(result))
    elif (console := _console.get()) is not None:
        render(console)
    else:
        from rich.console import Console

        # Without a terminal there is no width to fit into: lines are as long as they need to be.
        render(Console() if sys.stdout.isatty() else Console(width=200))
    sys.stdout.flush()


@contextmanager
def printed_to(console: Console) -> Iterator[None]:
    """Results for people go to a console meanwhile."""
    before = _console.set(console)
    try:
        yield
    finally:
        _console.reset(before)


@contextmanager
def progress(as_json: bool, *, log: bool = False) -> Iterator[Progress]:
    """A function that tells what happens: a line that changes on a terminal, nothing with `--json`.

    `log`: what takes long says so without a terminal as well, a line each.
    """
    if not as_json and sys.stderr.isatty():
        from rich.console import Console

        with Console(stderr=True).status("") as status:
            yield status.update
    elif not as_json and log:
        yield _once(lambda text: print(f"detour: {text}", file=sys.stderr, flush=True))
    else:
        yield silent


def _once(tell: Progress) -> Progress:
    """Drops texts that only count on ("...: 40%", "17 of 30 bytes")."""
    last = ""

    def tell_if_new(text: str) -> None:
        nonlocal last
        begin = text.rstrip("%0123456789").rstrip(": ")
        if begin != last and not text[:1].isdigit():
            last = begin
            tell(text)

    return tell_if_new


@contextmanager
def bar(text: str, as_json: bool) -> Iterator[Callable[..., None]]:
    """A progress bar on standard error, if that is a terminal: a function of (done, total, what is done)."""
    if as_json or not sys.stderr.isatty():
        yield lambda done, total, text=text: None
        return
    from rich import progress as rich
    from rich.console import Console

    columns = rich.TextColumn("{task.description}"), rich.BarColumn(), rich.MofNCompleteColumn()
    with rich.Progress(*columns, rich.TimeElapsedColumn(), console=Console(stderr=True)) as shown:
        task = shown.add_task(text, total=None)
        yield lambda done, total, text=text: shown.update(task, completed=done, total=total, description=text)


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]], title: str | None = None) -> Table:
    """A table; columns whose name begins with `>` are set flush right."""
    from rich.table import Table

    result = Table(title=title, title_justify="left")
    for column in columns:
        result.add_column(column.removeprefix(">"), justify="right" if column.startswith(">") else "left")
    for row in rows:
        result.add_row(*("–" if cell is None else str(cell) for cell in row))
    return result


def bytes_text(count: float) -> str:
    """`14.2 MB`."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"
