# SPDX-License-Identifier: Apache-2.0
"""Reading records: from the words of the ring to what each function did for each packet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from detour.base.arrays import Int64Array
from detour.engine.compiler.tracing import TraceForm


@dataclass(slots=True)
class TraceRecord:
    """One record: its form, the values by name, and its data."""

    form: TraceForm
    values: dict[str, int]
    data: bytes = b""


@dataclass(slots=True)
class Execution:
    """A function of the program, run for a packet. `switch`: the number in its control block."""

    trace: int
    switch: int
    function: str
    begin: TraceRecord
    records: list[TraceRecord] = field(default_factory=list)
    end: TraceRecord | None = None

    def after(self, name: str) -> int:
        """A value that the function left."""
        return 0 if self.end is None else self.end.values.get(name, 0)


class _FormReader:
    """Takes the records of a form apart. Nearly all have values of one word without sign, which need no arithmetic."""

    __slots__ = ("_count", "_names", "_plain", "form")

    def __init__(self, form: TraceForm) -> None:
        self.form = form
        self._names = tuple(each.name for each in form.values)
        self._plain = all(each.words == 1 and not each.signed for each in form.values)
        self._count = sum(each.words for each in form.values)

    def read(self, words: list[int], at: int, found: Int64Array) -> TraceRecord:
        """The record whose values begin at word `at`."""
        end = at + self._count
        values = dict(zip(self._names, words[at:end], strict=True)) if self._plain else self._decoded(words, at)
        if not self.form.data:
            return TraceRecord(self.form, values)
        count = words[end]
        return TraceRecord(self.form, values, found[end + 1 : end + 1 + (count + 7) // 8].tobytes()[:count])

    def _decoded(self, words: list[int], at: int) -> dict[str, int]:
        values = {}
        for each in self.form.values:
            value = sum(words[at + i] << (64 * i) for i in range(each.words)) & ((1 << each.bits) - 1)
            values[each.name] = value - (1 << each.bits) if each.signed and value >> (each.bits - 1) else value
            at += each.words
        return values


class RecordReader:
    """Reads the records of all programs of a recorder. `forms`: of the programs, one behind the other."""

    def __init__(self, forms: Sequence[TraceForm]) -> None:
        self._readers = [_FormReader(form) for form in forms]

    def executions(self, found: Int64Array) -> Iterator[Execution]:
        """Whole functions, in the order in which they ran, from what `Ring.take` gave."""
        words = found.view(np.uint64).tolist()
        at, last, readers = 0, len(words), self._readers
        current: Execution | None = None
        while at < last:
            head = words[at]
            reader = readers[head & 0xFFFFFFFF]
            record = reader.read(words, at + 1, found)
            at += head >> 32
            kind = reader.form.kind
            if kind == "begin":
                values = record.values
                current = Execution(values["trace"], values["switch"], reader.form.about["function"], record)
            elif current is not None and kind == "end":
                current.end = record
                yield current
                current = None
            elif current is not None:
                current.records.append(record)
