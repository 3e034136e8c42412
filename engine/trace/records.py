# SPDX-License-Identifier: Apache-2.0
"""Reading records: from the words of the ring to what each function did for each packet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from detour.base.arrays import Int64Array
from detour.engine.compiler.tracing import TraceForm

TraceRecord = tuple["FormReader", tuple[int, ...], bytes]
"""its form, the words of its values, and its data"""


@dataclass(slots=True)
class Boundary:
    """The record with which a function begins, or ends: values by name, and data."""

    values: dict[str, int]
    data: bytes


@dataclass(slots=True)
class Execution:
    """A function of the program, run for a packet. `switch`: the number in its control block."""

    trace: int
    switch: int
    function: str
    begin: Boundary
    records: list[TraceRecord] = field(default_factory=list)
    end: Boundary | None = None

    def after(self, name: str) -> int:
        """A value that the function left."""
        return 0 if self.end is None else self.end.values.get(name, 0)


class FormReader:
    """Takes the records of a form apart. `plain`: its values are their words, as nearly all are (one word, no sign)."""

    __slots__ = ("bounds", "count", "form", "has_data", "kind", "names", "plain")

    def __init__(self, form: TraceForm) -> None:
        self.form, self.kind, self.has_data = form, form.kind, form.data
        self.bounds = form.kind in ("begin", "end")
        self.names = tuple(each.name for each in form.values)
        self.plain = all(each.words == 1 and not each.signed for each in form.values)
        self.count = sum(each.words for each in form.values)

    def decoded(self, words: tuple[int, ...]) -> Sequence[int]:
        """The values in their words."""
        found, at = [], 0
        for each in self.form.values:
            value = words[at]
            for i in range(1, each.words):
                value |= words[at + i] << 64 * i
            value &= (1 << each.bits) - 1
            found.append(value - (1 << each.bits) if each.signed and value >> (each.bits - 1) else value)
            at += each.words
        return found

    def boundary(self, words: tuple[int, ...], data: bytes) -> Boundary:
        """A record as that."""
        numbers = words if self.plain else self.decoded(words)
        return Boundary(dict(zip(self.names, numbers, strict=True)), data)


class RecordReader:
    """Reads the records of all programs of a recorder. `forms`: of the programs, one behind the other."""

    def __init__(self, forms: Sequence[TraceForm]) -> None:
        self._readers = [FormReader(form) for form in forms]

    def executions(self, found: Int64Array) -> Iterator[Execution]:
        """Whole functions, in the order in which they ran, from what `Ring.take` gave."""
        words = tuple(found.view(np.uint64).tolist())
        at, last, readers = 0, len(words), self._readers
        current: Execution | None = None
        while at < last:
            head = words[at]
            reader = readers[head & 0xFFFFFFFF]
            end = at + 1 + reader.count
            record = words[at + 1 : end]
            data = b""
            if reader.has_data:
                data = found[end + 1 : end + 1 + (words[end] + 7) // 8].tobytes()[: words[end]]
            at += head >> 32
            if not reader.bounds:
                if current is not None:
                    current.records.append((reader, record, data))
            elif reader.kind == "begin":
                begin = reader.boundary(record, data)
                values = begin.values
                current = Execution(values["trace"], values["switch"], reader.form.about["function"], begin)
            elif current is not None:
                current.end = reader.boundary(record, data)
                yield current
                current = None
