# SPDX-License-Identifier: Apache-2.0
"""Output of commands: results on standard output (one JSON document on request), progress on standard error."""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from detour.base import tables
from detour.base.override import Override
from detour.base.plugins import unpinned
from detour.base.progress import Progress, silent

if TYPE_CHECKING:  # rich takes a fifth of a second, and most of what is typed wrong needs none of it
    from rich.console import Console
    from rich.table import Table

    from detour.experiments.sim.run import SimProgress
    from detour.fabric.workloads.tasks import TaskGraph


PRINTED_TO: Override[Console | None] = Override(None)
"""where results for people go, instead of standard output"""
_NO_TERMINAL = 1_000
"""characters: without a terminal there is no width to fit into, lines are as long as they need to be"""
_FITTING = 120  # characters of tables that leave out what does not fit, where there is no terminal
_SENTENCE = 24  # a cell from so many characters on may be broken between its words


class Page:
    """The readable form of a result: lines and tables, and topologies by their names alone. `wide`: tables show all of
    their columns; `fitting`: otherwise they leave out the last ones for which there is no room."""

    def __init__(self, console: Console, wide: bool = False, fitting: bool = False) -> None:
        self.console, self.wide, self.fitting = console, wide, fitting and not wide

    def print(self, text: str, style: str | None = None, whole: bool = False) -> None:
        """A line, or several; nothing in it is markup. `whole`: it is not broken, so that it can be copied."""
        self.console.print(unpinned(text), style=style, markup=False, emoji=False, highlight=False, soft_wrap=whole)

    def table(self, shown: tables.Table[Any]) -> None:
        """A table and its legend."""
        room = self.console.width
        if self.fitting:
            room = room if self.console.is_terminal else min(room, _FITTING)
            shown = _fitted(shown, room)
        self.console.print(for_terminal(shown, self.wide, room), crop=False, highlight=False)
        for line in shown.legend(self.wide):
            self.print(line)

    def tables(self, several: Iterable[tables.Table[Any]]) -> None:
        """One after the other, but for those without rows."""
        for each in several:
            if each.rows:
                self.table(each)


def for_terminal(shown: tables.Table[Any], wide: bool, room: int) -> Table:
    """A table as rich prints it, in so many columns. Heads and sentences are broken between words where there is little
    room, other cells never: a table of many cells may need more."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    columns = shown.shown(wide)
    rows = [[unpinned(cell) for cell in row] for row in shown.cells(wide)]
    parts = [[column.name, *(row[index] for row in rows)] for index, column in enumerate(columns)]
    widths = _shared([max(map(len, part)) for part in parts], list(map(_least, parts)), _cells_room(room, len(columns)))
    title = Text(unpinned(shown.title)) if shown.title else None
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False)
    for column, width in zip(columns, widths, strict=True):
        table.add_column(
            Text(column.name), justify="right" if column.right else "left", min_width=width, max_width=width
        )
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table


def _fitted(shown: tables.Table[Any], room: int) -> tables.Table[Any]:
    """The table without the last columns for which there is no room, and a line that names them."""
    columns, rows = shown.shown(False), shown.cells(False)
    least = [_least([column.name, *(unpinned(row[i]) for row in rows)]) for i, column in enumerate(columns)]
    count = len(columns)
    while count > 1 and sum(least[:count]) > _cells_room(room, count):
        count -= 1
    if count == len(columns):
        return shown
    note = f"--wide also shows: {', '.join(column.name for column in shown.columns if column not in columns[:count])}"
    return replace(shown, columns=columns[:count], notes=(*shown.notes, note))


def _cells_room(room: int, columns: int) -> int:
    """Return the width left for cells; three characters are between two columns."""
    return room - 3 * columns + 1


def _least(part: list[str]) -> int:
    """Characters that a column with this head and these cells cannot do without."""
    head, *cells = part
    return max([max(map(len, head.split()), default=1), *map(_unbroken, cells)])


def _shared(widths: list[int], least: list[int], room: int) -> list[int]:
    """Widths that fit together if they can; who can spare most gives."""
    shares = list(widths)
    while sum(shares) > room:
        spare = [width - needed for width, needed in zip(shares, least, strict=True)]
        if not any(spare):
            break
        shares[spare.index(max(spare))] -= 1
    return shares


def _unbroken(cell: str) -> int:
    """Characters of a cell that stay on one line."""
    return len(cell) if len(cell) < _SENTENCE else max(map(len, cell.split()), default=0)


def present(result: Any, options: argparse.Namespace, render: Callable[[Page], None]) -> None:
    """Print a result (records, or what JSON knows): as one JSON document if `--json` was given, or as `render` does
    it, with all columns if `--wide` was."""
    if options.json:
        from detour.base.records import as_json

        print(json.dumps(as_json(result)))
    else:
        render(Page(_console(), getattr(options, "wide", False), getattr(options, "fitting", False)))
    sys.stdout.flush()


def _console() -> Console:
    if PRINTED_TO.value is not None:
        return PRINTED_TO.value
    from rich.console import Console

    console = Console() if sys.stdout.isatty() else Console(width=_NO_TERMINAL)
    console.on_broken_pipe = _reader_gone
    return console


def _reader_gone() -> None:
    """Rich would end the process as if something was wrong."""
    raise BrokenPipeError


@contextmanager
def shown_progress(as_json: bool, *, log: bool = False) -> Iterator[Progress]:
    """A function that tells what happens: a line that changes on a terminal, `lines` elsewhere, nothing with `--json`.
    `log`: without a terminal every new thing is told at once, not only what takes long."""
    if as_json:
        yield silent
    elif sys.stderr.isatty():
        from rich.console import Console

        with Console(stderr=True).status("") as status:
            yield status.update
    else:
        with lines() as tell:
            yield _once(tell, lambda text: print(f"detour: {text}", file=sys.stderr, flush=True)) if log else tell


def _once(always: Progress, new: Progress) -> Progress:
    """Tell `always` everything, and `new` what does not only count on ("...: 40%", "17 of 30 bytes")."""
    last = ""

    def report(text: str) -> None:
        nonlocal last
        always(text)
        begin = text.rstrip("%0123456789").rstrip(": ")
        if begin != last and not text[:1].isdigit():
            last = begin
            new(text)

    return report


_WAIT_S, _AGAIN_S = 2.0, 10.0


@contextmanager
def lines(text: str = "") -> Iterator[Progress]:
    """Progress where lines stay: after two seconds, and then every ten, one says what was told last (`text`: before
    anything is), and for how long the work has been going on."""
    ended, begun = threading.Event(), time.monotonic()

    def tell(what: str) -> None:
        nonlocal text
        text = what

    def remind() -> None:
        wait = _WAIT_S
        while not ended.wait(wait):
            if text:
                print(f"detour: {text} ({time.monotonic() - begun:.0f} s)", file=sys.stderr, flush=True)
                wait = _AGAIN_S

    reminder = threading.Thread(target=remind, name="progress", daemon=True)
    reminder.start()
    try:
        yield tell
    finally:
        ended.set()
        reminder.join()


@contextmanager
def bar(text: str, as_json: bool) -> Iterator[Callable[..., None]]:
    """A progress bar on standard error (`lines` if that is not a terminal): a function of (done, total, what is "
    "done)."""
    if as_json or not sys.stderr.isatty():
        with nullcontext(silent) if as_json else lines(text) as tell:
            yield lambda done, total, text=text: tell(f"{text}: {done} of {total}")
        return
    from rich import progress as rich
    from rich.console import Console

    class Rate(rich.ProgressColumn):
        """A rate per second, or the time per item."""

        def render(self, task: rich.Task) -> str:
            speed = task.finished_speed or task.speed
            if not speed:
                return ""
            return f"{speed:.1f}/s" if speed >= 1 else f"{1 / speed:.1f} s each"

    columns = (rich.TextColumn("{task.description}"), rich.BarColumn(), rich.MofNCompleteColumn(), Rate())
    times = rich.TimeElapsedColumn(), rich.TextColumn("left"), rich.TimeRemainingColumn()
    with rich.Progress(*columns, *times, console=Console(stderr=True)) as shown:
        task = shown.add_task(text, total=None)
        yield lambda done, total, text=text: shown.update(task, completed=done, total=total, description=text)


_QUICK_S = 3.0  # work that is over by then shows no bar


@contextmanager
def timed_bar(text: str, as_json: bool) -> Iterator[Callable[[float, float, str], None]]:
    """A progress bar with rate and time to go on standard error if work takes more than three seconds, or `lines` if
    that is not a terminal: a function of (done, total, rate in words)."""
    if as_json or not sys.stderr.isatty():
        with nullcontext(silent) if as_json else lines(text) as tell:
            yield lambda done, total, rate: tell(f"{text}: {done / (total or 1):.0%} {rate}")
        return
    from rich import progress as rich
    from rich.console import Console

    columns = (
        rich.TextColumn("{task.description}"), rich.BarColumn(bar_width=24), rich.TaskProgressColumn(),
        rich.TextColumn("{task.fields[rate]}"), rich.TimeRemainingColumn(),
    )  # fmt: skip
    shown = rich.Progress(*columns, console=Console(stderr=True), transient=True)
    task = shown.add_task(text, total=None, rate="")
    begun = time.monotonic()

    def update(done: float, total: float, rate: str) -> None:
        if not shown.live.is_started and time.monotonic() - begun > _QUICK_S:
            shown.start()
        shown.update(task, completed=done, total=total, rate=rate)

    try:
        yield update
    finally:
        shown.stop()


def rest_text(begun: float, share: float) -> str:
    """`, some 40 s left`, of work that began at that `time.monotonic()` and has done this share; empty: who knows."""
    passed = time.monotonic() - begun
    return f", some {passed * (1 - share) / share:.0f} s left" if share > 0 and passed > _QUICK_S else ""


def run_meter(
    update: Callable[[float, float, str], None], graph: TaskGraph, what: str = "", duration_ps: int | None = None
) -> SimProgress:
    """Progress of a run in virtual time: by bytes, or by time where that is further."""
    begun, total = time.monotonic(), max(graph.message_bytes, 1)
    tasks = f"{len(graph)} tasks of {what}" if what else f"{len(graph)} tasks"

    def report(arrived: float, seconds: float, share: float) -> None:
        passed = max(time.monotonic() - begun, 1e-9)
        fraction = arrived / total
        if duration_ps is not None:
            fraction = max(fraction, seconds * 1e12 / duration_ps)
        over = f"{round(share * len(graph))} of {tasks}, {arrived / passed / 1e6:.0f} MB/s, {seconds * 1e6:.0f} us"
        update(fraction, 1.0, f"{over}{rest_text(begun, min(fraction, 1.0))}")

    return report


def bytes_text(count: float) -> str:
    """`14.2 MB`."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"
