# SPDX-License-Identifier: Apache-2.0
"""What is shown of links and flows: a row each with its history, in an order that stays while values waver.

Rows are ordered by bands of a smoothed value, and inside a band by name. A row leaves its band only when its value is
clearly beyond it, so rows whose values are about the same never change places.
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

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
        """Takes a value of a key into account. `band`: where it lies among the key's bands."""
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
    """What rows can be ordered by. `value` of an update; `whole`: values are added up, else smoothed."""

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
        """Takes a new value of every row; who is not among them is gone."""
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
        """Those to be seen, in order."""
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
