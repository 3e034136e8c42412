# SPDX-License-Identifier: Apache-2.0
"""The picture of `detour watch` as lines of a given width: whatever the terminal's size is, nothing is wrapped.

Columns that do not fit are left out, the least needed first; the history gets what is left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from detour.cli.live.rows import LiveRow, LiveRows, flow_rows, link_rows
from detour.cli.output import bytes_text
from detour.fabric.operations.results import LinkUse
from detour.fabric.records import FlowRow

T = TypeVar("T")
Line = list[tuple[str, str]]
"""(style, text) one after the other; together as wide as the screen"""

_SPARKS = " ▁▂▃▄▅▆▇█"
_LEAST_HISTORY, _MOST_HISTORY = 6, 60
_FIXED_LINES = 4  # title, heads, message, keys
_KEYS = ("f fail", "h heal", "H all", "s sort", "a idle", "v flows", "p pause", "q quit")


@dataclass(frozen=True)
class LiveColumn(Generic[T]):
    """`need`: columns with the highest are left out first; 0: never."""

    head: str
    width: int
    text: Callable[[T], str]
    need: int = 0
    right: bool = True
    style: Callable[[T], str] = lambda row: ""


def _warn(wrong: bool) -> str:
    return "class:down" if wrong else ""


def _load_style(use: float) -> str:
    return "class:full" if use >= 0.9 else "class:busy" if use >= 0.5 else "class:calm"


LINK_COLUMNS: tuple[LiveColumn[LinkUse], ...] = (
    LiveColumn("link", 11, lambda row: row.link, right=False),
    LiveColumn("from", 7, lambda row: row.from_, need=1, right=False),
    LiveColumn("Mb/s", 8, lambda row: f"{row.mbps:.2f}" if row.up else "down", style=lambda row: _warn(not row.up)),
    LiveColumn("use", 4, lambda row: f"{min(row.use, 1.0):.0%}", style=lambda row: _load_style(row.use)),
    LiveColumn("queue", 5, lambda row: _count(row.queue_packets), need=2),
    LiveColumn("drops", 5, lambda row: _count(row.drops), need=3, style=lambda row: _warn(bool(row.drops))),
    LiveColumn("marks", 6, lambda row: _count(row.marks), need=4),
)  # fmt: skip
FLOW_COLUMNS: tuple[LiveColumn[FlowRow], ...] = (
    LiveColumn("flow", 14, lambda row: row.name, right=False),
    LiveColumn("Mb/s", 8, lambda row: f"{row.rate_bps / 1e6:.2f}"),
    LiveColumn("drop", 4, lambda row: f"{row.drop:.0%}", need=3),
    LiveColumn("ECN", 4, lambda row: f"{row.ecn_share:.0%}", need=2),
    LiveColumn("delay, ms", 9, lambda row: f"{row.delay_ps / 1e9:.2f}", need=1),
    LiveColumn("bytes", 8, lambda row: bytes_text(row.bytes), need=4),
    LiveColumn("path", 24, lambda row: row.path, need=5, right=False),
)


def _count(value: int | None) -> str:
    """A number in at most five characters."""
    if value is None:
        return "-"
    for unit in ("", "k", "M"):
        if value < 100_000 or (unit and value < 1000):
            return f"{value}{unit}"
        value //= 1000
    return f"{value}G"


def spark(values: Sequence[float], width: int, top: float = 0.0) -> str:
    """The last values as a chart of so many characters; `top` 0: the largest of them."""
    if not values:
        return " " * width
    top = top or max(values) or 1.0
    last = list(values)[-width:] if width else []
    marks = "".join(_SPARKS[_level(value / top)] for value in last)
    return marks.rjust(width)


def _level(share: float) -> int:
    """Of a share of the top; what is not nothing can be seen."""
    return 0 if share <= 0 else max(1, min(8, round(8 * share)))


@dataclass
class LiveView(Generic[T]):
    """Rows with their columns, which of them is chosen and which is the first on the screen."""

    rows: LiveRows[T]
    columns: tuple[LiveColumn[T], ...]
    top: float  # of the history's chart; 0: each row's own
    chosen: str | None = None
    first: int = 0
    height: int = 1  # rows on the screen, as of its last picture

    def move(self, by: int) -> None:
        """Chooses another row."""
        names = [row.name for row in self.rows.shown()]
        if names:
            at = names.index(self.chosen) if self.chosen in names else min(self.first, len(names) - 1)
            self.chosen = names[max(0, min(len(names) - 1, at + by))]

    def visible(self, height: int) -> list[LiveRow[T]]:
        """The rows on a screen with room for so many, with the chosen one among them."""
        shown = self.rows.shown()
        self.height = max(1, height)
        names = [row.name for row in shown]
        if self.chosen not in names:
            self.chosen = names[min(self.first, len(names) - 1)] if names else None
        if self.chosen is not None:
            at = names.index(self.chosen)
            self.first = max(at - self.height + 1, min(self.first, at))
        self.first = max(0, min(self.first, len(names) - self.height))
        return shown[self.first : self.first + height]


@dataclass
class WatchScreen:
    """What is shown now."""

    title: str = ""
    links: LiveView[LinkUse] = field(default_factory=lambda: LiveView(link_rows(), LINK_COLUMNS, 1.0))
    flows: LiveView[FlowRow] = field(default_factory=lambda: LiveView(flow_rows(), FLOW_COLUMNS, 0.0))
    in_flows: bool = False
    paused: bool = False
    message: str = ""

    @property
    def view(self) -> LiveView[Any]:
        """The one that is shown."""
        return self.flows if self.in_flows else self.links

    def lines(self, width: int, height: int) -> list[Line]:
        """The whole picture: `height` lines of `width` characters each."""
        view = self.view
        rows = view.visible(max(0, height - _FIXED_LINES))
        columns, history = fitting(view.columns, width)
        body = [_row(row, columns, history, view, width) for row in rows]
        empty = "nothing sends now" if self.in_flows else "no link carries anything; a shows idle ones"
        if not body:
            body = [[("", cut(f" {empty}", width))]]
        room = max(0, height - _FIXED_LINES)
        body = (body + [[("", " " * width)]] * room)[:room]
        picture = [[("class:title", cut(self._title(), width))], _heads(columns, history, view, width), *body]
        picture.append([("class:message", cut(f" {self.message}", width))])
        wide = " " + "  ".join(_KEYS)
        picture.append([("class:keys", cut(wide if len(wide) <= width else " " + " ".join(_KEYS), width))])
        return picture[:height]

    def _title(self) -> str:
        view = self.view
        shown = len(view.rows.shown())
        what = "flows" if self.in_flows else "directions"
        first, last = (view.first + 1, min(shown, view.first + view.height)) if shown else (0, 0)
        pause = "  PAUSED" if self.paused else ""
        return f" {what} {first} to {last} of {shown}, by {view.rows.sort}{pause}  {self.title}"


def fitting(columns: Sequence[LiveColumn[T]], width: int) -> tuple[list[LiveColumn[T]], int]:
    """Columns that fit with a history, and how wide that is (0: there is no room for one)."""
    kept = list(columns)
    while (room := width - 1 - sum(column.width + 1 for column in kept)) < _LEAST_HISTORY:
        spare = max(kept, key=lambda column: column.need)
        if spare.need == 0:
            return kept, max(0, room)
        kept.remove(spare)
    return kept, min(room, _MOST_HISTORY)


def cut(text: str, width: int) -> str:
    """A text in exactly so many characters."""
    return text[:width].ljust(width)


def _cell(column: LiveColumn[Any], text: str) -> str:
    if len(text) > column.width:
        text = text[: column.width - 1] + "…"
    return text.rjust(column.width) if column.right else text.ljust(column.width)


def _heads(columns: Sequence[LiveColumn[Any]], history: int, view: LiveView[Any], width: int) -> Line:
    cells = [f"{_cell(column, column.head)} " for column in columns]
    head = "history".rjust(history) if history >= len("history") else " " * history
    return [("class:heads", cut(" " + "".join(cells) + head, width))]


def _row(row: LiveRow[T], columns: Sequence[LiveColumn[T]], history: int, view: LiveView[T], width: int) -> Line:
    chosen = row.name == view.chosen
    base = "class:chosen" if chosen else ""
    line: Line = [(base, ">" if chosen else " ")]
    for column in columns:
        style = f"{base} {column.style(row.now)}".strip()
        line += [(style, _cell(column, column.text(row.now))), (base, " ")]
    line.append((f"{base} class:history".strip(), spark(row.history, history, view.top)))
    used = sum(len(text) for _, text in line)
    line.append((base, " " * (width - used)))
    return _cut_line(line, width)


def _cut_line(line: Line, width: int) -> Line:
    """A line that is no longer than that, even on a terminal that is too narrow for anything."""
    kept, left = [], width
    for style, text in line:
        if left <= 0:
            break
        kept.append((style, text[:left]))
        left -= len(text)
    return kept
