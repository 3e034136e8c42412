# SPDX-License-Identifier: Apache-2.0
"""Rows of results that say themselves what tables show of them, and how several runs make one row.

    @row
    class SharedLink:
        transport: str = shown("transport")
        jain: float = shown("Jain", ".4f", over=mean(4), means="1 if all get the same")
        seed: int

        @cell("queue")
        def _queue(self) -> str: ...

Every field is a key of the JSON; one that is `shown` is a column as well, and a `cell` is a column that JSON does not
have. Columns come in the order in which they are written. `combined` makes a row of runs by `over`, `table` shows rows.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import MISSING, dataclass, field, fields
from itertools import count
from operator import attrgetter, methodcaller
from typing import Any, NamedTuple, TypeVar, dataclass_transform

from detour.base.tables import CellValue, Column, Table, yes_no

T = TypeVar("T")
K = TypeVar("K")
Form = str | Callable[[Any], CellValue]
"""of a cell: a format like `.1f`, or a function; a value that is None has none"""
Over = Callable[[list[Any]], Any]
"""makes one value of those of several runs"""
_places = count()


class Shown(NamedTuple):
    """Display of a field. `place`: where it was written, among all."""

    place: int
    head: str
    form: Form
    left: bool | None
    wide: bool
    means: str

    def column(self, of: Callable[[Any], Any], kind: str = "") -> Column[Any]:
        """The column of a value of that annotation: words are flush left, truth is `yes` or `no`."""
        words = kind.partition(" |")[0] in ("str", "bool")
        form = self.form or (yes_no if kind.startswith("bool") else "")

        def text(row: Any) -> CellValue:
            value = of(row)
            if value is None or not form:
                return value
            return format(value, form) if isinstance(form, str) else form(value)

        return Column(self.head, text, not (words if self.left is None else self.left), self.wide, self.means)


def shown(
    head: str,
    form: Form = "",
    *,
    over: Over | None = None,
    left: bool | None = None,
    wide: bool = False,
    means: str = "",
    default: Any = MISSING,
) -> Any:
    """A field that tables show. `left`: flush, else by what it is; for the others see `Column` and the module."""
    how = Shown(next(_places), head, form, left, wide, means)
    return field(default=default, metadata={"shown": how, "over": over})


def kept(over: Over) -> Any:
    """A field that no table shows, of several runs."""
    return field(metadata={"over": over})


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(shown, kept, field))
def row(kind: type[T]) -> type[T]:
    """A record of such fields, made by names."""
    return dataclass(frozen=True, kw_only=True)(kind)


def cell(head: str, *, left: bool = False, wide: bool = False, means: str = "") -> Callable[[Callable], Callable]:
    """A method whose value is shown."""

    def mark(method: Any) -> Any:
        method.shown = Shown(next(_places), head, "", left, wide, means)
        return method

    return mark


def columns(kind: type) -> tuple[Column[Any], ...]:
    """Return the columns of a kind of row."""
    placed = {}
    for member in fields(kind):
        if how := member.metadata.get("shown"):
            placed[how.place] = how.column(attrgetter(member.name), str(member.type))
    for name in dir(kind):
        how = getattr(getattr(kind, name), "shown", None)
        if isinstance(how, Shown):
            placed[how.place] = how.column(methodcaller(name))
    return tuple(placed[place] for place in sorted(placed))


def table(kind: type[T], rows: Sequence[T], title: str = "", notes: Sequence[str] = ()) -> Table[T]:
    """Rows of a kind with its columns."""
    return Table(columns(kind), rows, title, notes)


def grouped(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """Items by their key, in the order in which they come."""
    groups: dict[K, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def mean(digits: int) -> Over:
    """The mean of the values that there are; None without any."""

    def over(values: Iterable[Any]) -> float | None:
        some = [value for value in values if value is not None]
        return round(statistics.fmean(some), digits) if some else None

    return over


def largest(values: Iterable[Any]) -> Any:
    """The largest of the values that there are; None without any."""
    return max((value for value in values if value is not None), default=None)


def taken(kind: type[T], *records: Any, **given: Any) -> T:
    """The record of a kind with what is given, and the other fields of the first record that has them."""
    values = dict(given)
    for member in fields(kind):  # type: ignore[arg-type]
        source = next((record for record in records if hasattr(record, member.name)), None)
        if member.name not in given and source is not None:
            values[member.name] = getattr(source, member.name)
    return kind(**values)


def combined(kind: type[T], runs: Sequence[Any], **given: Any) -> T:
    """The row of a kind that runs make: what is given, what `over` makes of their values, else the first one's."""
    overs = {member.name: member.metadata.get("over") for member in fields(kind)}  # type: ignore[arg-type]
    values = {n: over([getattr(run, n) for run in runs]) for n, over in overs.items() if over and n not in given}
    return taken(kind, runs[0], **values, **given)
