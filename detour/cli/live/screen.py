# SPDX-License-Identifier: Apache-2.0
"""The picture of `detour watch` as lines of a given width: whatever the terminal's size is, nothing is wrapped.

Columns that do not fit are left out, the least needed first; the history gets what is left. Rows are ordered by bands
of a smoothed value, and inside a band by name. A row leaves its band only when its value is clearly beyond it, so rows
whose values are about the same never change places."""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from detour.cli.output import bytes_text
from detour.fabric.operations.results import LinkUse
from detour.fabric.records import FlowRow

T = TypeVar("T")

_KEPT = 240  # values of a history, at one an update
_SMOOTH = 0.3
_MARGIN = 0.25  # of a band, by which a value must be beyond it
_IDLE_SHOWN = 20  # updates for which a link that does nothing is still shown


def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """Key by which s2 comes before s10."""
    return tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.findall(r"\d+|\D+", name))


@dataclass
class LiveRow(Generic[T]):
    """`name`: what it is ordered by inside a band; `history`: of the use or rate, oldest first."""

    name: str
    now: T
    history: deque[float] = field(default_factory=lambda: deque(maxlen=_KEPT))
    smooth: dict[str, float] = field(default_factory=dict)
    bands: dict[str, int] = field(default_factory=dict)
    idle: int = 0

    def note(self, key: str, value: float, band: float) -> None:
        """Take a value of a key into account. `band`: where it lies among the key's bands."""
        self.smooth[key] = value
        old = self.bands.get(key)
        if old is None or not old - _MARGIN <= band < old + 1 + _MARGIN:
            self.bands[key] = math.floor(band)


def _tenths(value: float) -> float:
    return 10 * value


def _octaves(value: float) -> float:
    return math.log2(1 + value)


@dataclass(frozen=True)
class SortKey(Generic[T]):
    """A key that rows can be ordered by. `value` of an update; `whole`: values are added up, else smoothed."""

    name: str
    value: Callable[[T], float]
    band: Callable[[float], float]
    whole: bool = False


LINK_KEYS: tuple[SortKey[LinkUse], ...] = (
    SortKey("use", lambda row: row.use, _tenths),
    SortKey("queue", lambda row: row.queue_packets or 0, _octaves),
    SortKey("drops", lambda row: row.drops or 0, _octaves, whole=True),
    SortKey("marks", lambda row: row.marks, _octaves, whole=True),
)
FLOW_KEYS: tuple[SortKey[FlowRow], ...] = (
    SortKey("rate", lambda row: row.rate_bps, _octaves),
    SortKey("ECN", lambda row: row.ecn_share, _tenths),
    SortKey("delay", lambda row: row.delay_ps / 1e9, _octaves),
)
BY_NAME = "name"


class LiveRows(Generic[T]):
    """All rows of a kind."""

    def __init__(
        self, keys: tuple[SortKey[T], ...], name: Callable[[T], str], charted: Callable[[T], float],
        idle: Callable[[T], bool], urgent: Callable[[T], bool] = lambda now: False,
    ) -> None:  # fmt: skip
        """`charted`: what the history is of; `idle`: a row that shows nothing; `urgent`: one that comes first."""
        self.keys, self._name, self._charted, self._idle, self._urgent = keys, name, charted, idle, urgent
        self.sort = keys[0].name
        self.everything = False
        self._rows: dict[str, LiveRow[T]] = {}

    def update(self, values: Iterable[T]) -> None:
        """Take a new value of every row; who is not among them is gone."""
        rows: dict[str, LiveRow[T]] = {}
        for now in values:
            name = self._name(now)
            row = rows[name] = self._rows.get(name) or LiveRow(name, now, idle=_IDLE_SHOWN)
            row.now = now
            row.history.append(self._charted(now))
            row.idle = row.idle + 1 if self._idle(now) else 0
            for key in self.keys:
                value, old = key.value(now), row.smooth.get(key.name)
                if old is not None:
                    value = old + value if key.whole else old + _SMOOTH * (value - old)
                row.note(key.name, value, key.band(value))
        self._rows = rows

    def next_sort(self) -> None:
        """Orders by the next key, and after the last one by name."""
        names = [*(key.name for key in self.keys), BY_NAME]
        self.sort = names[(names.index(self.sort) + 1) % len(names)]

    def shown(self) -> list[LiveRow[T]]:
        """Return the visible rows, in order."""
        rows = [row for row in self._rows.values() if self.everything or row.idle < _IDLE_SHOWN]
        return sorted(
            rows, key=lambda row: (not self._urgent(row.now), -row.bands.get(self.sort, 0), natural(row.name))
        )

    def __len__(self) -> int:
        return len(self._rows)


def link_rows() -> LiveRows[LinkUse]:
    """Links by direction."""
    return LiveRows(
        LINK_KEYS,
        lambda row: f"{row.link} {row.from_}",
        lambda row: row.use,
        lambda row: row.up and row.mbps == 0 and not row.drops and not row.queue_packets,
        lambda row: not row.up,
    )


def flow_rows() -> LiveRows[FlowRow]:
    """Flows that send."""
    return LiveRows(FLOW_KEYS, lambda row: row.name, lambda row: row.rate_bps, lambda row: False)


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
    """Return the level of a share of the top, 1 at least for anything above 0."""
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
        """Choose another row."""
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
    """The current content of the screen."""

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
