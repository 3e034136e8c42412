# SPDX-License-Identifier: Apache-2.0
"""Reading records: from the words of the ring to what each function did for each packet.

Packets go few ways through a program, and what they leave on the same way has the same records at the same places. So
a way is looked at record by record when the first packet has gone it, and known again by its heads from then on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np

from detour.base.arrays import Int64Array
from detour.engine.compiler.tracing import TraceForm

MOST_WAYS = 2048
"""Ways that are remembered; when there are more, all are forgotten."""
_TRIED = 4
"""Ways that a function took last are tried before its records are looked at one by one."""
_FORM = 0xFFFFFFFF


def picker(places: Sequence[int]) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """A function that gives the values at these places as a tuple, all at once."""
    if not places:
        return lambda values: ()
    pick = itemgetter(*places)
    return pick if len(places) > 1 else lambda values: (pick(values),)


class FormReader:
    """Takes the records of a form apart. `plain`: its values are their words, as nearly all are (one word, no sign)."""

    __slots__ = ("count", "form", "has_data", "kind", "names", "places", "plain")

    def __init__(self, form: TraceForm) -> None:
        self.form, self.kind, self.has_data = form, form.kind, form.data
        self.names = tuple(each.name for each in form.values)
        self.places = {name: place for place, name in enumerate(self.names)}
        self.plain = all(each.words == 1 and not each.signed for each in form.values)
        self.count = sum(each.words for each in form.values)

    def decoded(self, words: Sequence[int]) -> Sequence[int]:
        """The values in their words."""
        values, at = [], 0
        for each in self.form.values:
            value = words[at]
            for i in range(1, each.words):
                value |= words[at + i] << 64 * i
            value &= (1 << each.bits) - 1
            values.append(value - (1 << each.bits) if each.signed and value >> (each.bits - 1) else value)
            at += each.words
        return values

    def data(self, words: Sequence[int], raw: bytes, start: int) -> bytes:
        """The data of the record whose values begin at word `start`; `raw`: the words as bytes."""
        if not self.has_data:
            return b""
        at = start + self.count
        return raw[8 * (at + 1) : 8 * (at + 1) + words[at]]


class Boundary:
    """The record with which a function begins, or ends: values by name, and data."""

    __slots__ = ("_reader", "_values", "data")

    def __init__(self, reader: FormReader, words: Sequence[int], raw: bytes, at: int) -> None:
        """The record whose head is at word `at`."""
        values = words[at + 1 : at + 1 + reader.count]
        self._reader, self._values = reader, values if reader.plain else reader.decoded(values)
        self.data = reader.data(words, raw, at + 1)

    def __getitem__(self, name: str) -> int:
        return self._values[self._reader.places[name]]

    def get(self, name: str) -> int:
        """0 if there is no such value."""
        place = self._reader.places.get(name)
        return 0 if place is None else self._values[place]


class Way:
    """The records between the begin and the end of a function: their forms, and where the values of each begin."""

    __slots__ = ("_heads", "_heads_of", "readers", "starts", "width")

    def __init__(self, heads: Sequence[int], readers: Sequence[FormReader]) -> None:
        """`heads`: form and length in words of each record, as they are in the ring; `readers`: of their forms."""
        self.readers = tuple(readers)
        places = np.cumsum([0, *[head >> 32 for head in heads]]).tolist()
        self.starts = tuple(place + 1 for place in places[:-1])
        self.width = int(places[-1])
        self._heads, self._heads_of = tuple(heads), picker(places[:-1])

    def fits(self, words: Sequence[int]) -> bool:
        """Return whether these words, of the right number, are such records."""
        return self._heads_of(words) == self._heads


@dataclass(slots=True)
class Execution:
    """A function of the program, run for a packet. `switch`: the number in its control block; `words` and `raw`: what
    is between begin and end, as numbers and as bytes."""

    function: str
    begin: Boundary
    end: Boundary
    way: Way
    words: tuple[int, ...]
    raw: bytes

    @property
    def trace(self) -> int:
        return self.begin["trace"]

    @property
    def switch(self) -> int:
        return self.begin["switch"]

    def after(self, name: str) -> int:
        """A value that the function left."""
        return self.end.get(name)

    def values_of(self, place: int) -> tuple[int, ...]:
        start = self.way.starts[place]
        return self.words[start : start + self.way.readers[place].count]

    def data_of(self, place: int) -> bytes:
        return self.way.readers[place].data(self.words, self.raw, self.way.starts[place])


class RecordReader:
    """Reads the records of all programs of a recorder. `forms`: of the programs, one behind the other."""

    def __init__(self, forms: Sequence[TraceForm]) -> None:
        self._readers = [FormReader(form) for form in forms]
        self._ways: dict[tuple[int, ...], Way] = {}
        self._last: dict[int, deque[Way]] = {}

    def executions(self, records: Int64Array) -> Iterator[Execution]:
        """Whole functions, in the order in which they ran, from what `Ring.take` gave."""
        words, raw = tuple(records.view(np.uint64).tolist()), records.tobytes()
        at, last = 0, len(words)
        while at < last:
            head = words[at]
            begin, inside = self._readers[head & _FORM], at + (head >> 32)
            at_end = inside
            if begin.kind == "begin":
                way = self._way(head & _FORM, words, inside)
                if isinstance(way, Way):
                    at_end = inside + way.width
                    end = self._readers[words[at_end] & _FORM]
                    first, last_one = Boundary(begin, words, raw, at), Boundary(end, words, raw, at_end)
                    own, own_raw = words[inside:at_end], raw[8 * inside : 8 * at_end]
                    yield Execution(begin.form.facts["function"], first, last_one, way, own, own_raw)
                    at_end += words[at_end] >> 32
                else:
                    at_end = way
            at = at_end

    def _way(self, form: int, words: tuple[int, ...], at: int) -> Way | int:
        """The way of a function that begins with that form, whose first record is at `at`; or, if its end is missing,
        where to go on."""
        tried = self._last.get(form)
        if tried is None:
            tried = self._last[form] = deque(maxlen=_TRIED)
        for place, way in enumerate(tried):
            end = at + way.width
            if end < len(words) and way.fits(words[at:end]) and self._readers[words[end] & _FORM].kind == "end":
                if place:
                    del tried[place]
                    tried.appendleft(way)
                return way
        walked = self._walked(words, at)
        if isinstance(walked, Way):
            tried.appendleft(walked)
        return walked

    def _walked(self, words: tuple[int, ...], at: int) -> Way | int:
        """The same, looked at record by record."""
        heads: list[int] = []
        readers: list[FormReader] = []
        while at < len(words):
            head = words[at]
            reader = self._readers[head & _FORM]
            if reader.kind == "end":
                return self._way_of(tuple(heads), readers)
            if reader.kind == "begin":
                break
            heads.append(head)
            readers.append(reader)
            at += head >> 32
        return at

    def _way_of(self, heads: tuple[int, ...], readers: list[FormReader]) -> Way:
        way = self._ways.get(heads)
        if way is None:
            if len(self._ways) >= MOST_WAYS:
                self._ways.clear()
            way = self._ways[heads] = Way(heads, readers)
        return way
