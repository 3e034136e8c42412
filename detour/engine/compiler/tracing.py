# SPDX-License-Identifier: Apache-2.0
"""Additions of a traced compilation: at every step a record of the event goes into a ring in memory.

A record is a word `first form of the program + form | words << 32` and its values behind it, each in as many 64-bit
words as it needs; a form with `data` has a word with the number of bytes and the bytes at its end. What a record says
that is known when compiling (names, the place in the P4 source) is in its `TraceForm`, which is kept beside the code.
Where the ring is, and what else the dispatchers (`traced.py`) share with Python, says `engine.trace.ring`.

Code generators call `traced_steps` if the compilation has a `RecordWriter`; a plain compilation has none, and its code
is what it would be without this module.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from detour.engine.compiler.ir import Function, Module, Value, const
from detour.engine.compiler.model import Json
from detour.engine.compiler.slots import TRACE_CONTROL

AnyNumber = Value | tuple[Value, bool]
"""a value without sign, or one and whether it is in two's complement"""

# Words of a switch's control block, to which slot TRACE of its state block points.
RING_ADDRESS, MATCH, PLAIN_PARSE, PLAIN_INGRESS, PLAIN_EGRESS, PLAIN_DEPARSE, SWITCH_NUMBER, FIRST_FORM = range(8)
CHOICES, CHOICES_MADE, CHOICE_LIST, MARKS, POOL_BYTES, POOL_STRIDE, INNER_PORTS = range(8, 15)
CONTROL_WORDS = 16
# Words at the beginning of the ring.
USED, CAPACITY, LOST_RECORDS, NEXT_ID, LAST_ID, MISSED, FILTER = range(7)
KEY_WORDS = 16
"""of the packet that the filter looks at, behind those"""
RING_HEAD = 8 + KEY_WORDS
OVERFLOW_WORDS = 1 << 15
"""Room behind the capacity, for the one record that does not fit and is thrown away; packets have up to 64 KiB."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """A value of a record: its name, its width in bits, and whether it is in two's complement."""

    name: str
    bits: int
    signed: bool = False

    @property
    def words(self) -> int:
        """64-bit words that it takes."""
        return (self.bits + 63) // 64


@dataclass(frozen=True, slots=True)
class TraceForm:
    """The form of the records of one number. `facts`: known when compiling; `data`: bytes follow the values."""

    kind: str
    values: tuple[Recorded, ...] = ()
    data: bool = False
    facts: dict[str, Any] = field(default_factory=dict)
    source: dict[str, Any] | None = None


def source_of(json: Json) -> dict[str, Any] | None:
    """Return where something stands in the P4 source, as BMv2 JSON says it: file, line, column, text."""
    info = json.get("source_info") if isinstance(json, dict) else None
    if not isinstance(info, dict) or not info.get("filename"):
        return None
    return {
        "file": str(info["filename"]),
        "line": info.get("line", 0),
        "column": info.get("column", 0),
        "text": str(info.get("source_fragment", "")),
    }


class RecordWriter:
    """Writes records in a compilation and collects their forms."""

    def __init__(self, module: Module) -> None:
        self.forms: list[TraceForm] = []
        self.hashed: tuple[str, Value] | None = None
        """what the latest hash was computed of, if it is still in memory: for the choice that this hash makes"""
        self._module = module

    def record(
        self,
        f: Function,
        kind: str,
        values: Sequence[tuple[str, AnyNumber]] = (),
        data: tuple[str, Value] | None = None,
        at: Json = None,
        **facts: Any,
    ) -> None:
        """Write a record here: `values` by name, and `data`, an address with a number of bytes (i64)."""
        numbers = [(name, *((v, False) if isinstance(v, Value) else v)) for name, v in values]
        recorded = tuple(Recorded(name, v.bits, signed) for name, v, signed in numbers)
        self.forms.append(TraceForm(kind, recorded, data is not None, facts, source_of(at)))
        fixed = 1 + sum(r.words for r in recorded)
        words = const(64, fixed)
        if data is not None:
            words = f.op("add", const(64, fixed + 1), f.lshr(f.op("add", data[1], const(64, 7)), 3))
        to = f.value(f"call ptr @{self._room()}(ptr %sw, {words.typed})")
        first = f.load(64, f.at(f.load_pointer(f.at("%sw", 8 * TRACE_CONTROL)), 8 * FIRST_FORM), 8)
        form = f.op("add", first, const(64, len(self.forms) - 1))
        f.store(f.op("or", form, f.shl(words, 32)), to, 8)
        offset = 8
        for (_, v, signed), r in zip(numbers, recorded, strict=True):
            f.store(f.resize(v, 64 * r.words, signed), f.at(to, offset), 8)
            offset += 8 * r.words
        if data is not None:
            f.store(data[1], f.at(to, offset), 8)
            f.copy(f.at(to, offset + 8), data[0], data[1])

    def _room(self) -> str:
        """The function (sw, words) -> where a record goes; what does not fit goes to a place that nobody reads."""
        name = "trace_room"
        if name in self._module.runtime:
            return name
        self._module.runtime.add(name)
        f = self._module.function(f"internal ptr @{name}(ptr %sw, i64 %words) alwaysinline nounwind")
        ring = f.load_pointer(f.load_pointer(f.at("%sw", 8 * TRACE_CONTROL)))
        used = f.load(64, f.at(ring, 8 * USED), 8)
        after = f.op("add", used, Value(64, "%words"))
        fits = f.compare("ule", after, f.load(64, f.at(ring, 8 * CAPACITY), 8))
        lost = f.load(64, f.at(ring, 8 * LOST_RECORDS), 8)
        f.store(f.op("add", lost, f.resize(f.negate(fits), 64)), f.at(ring, 8 * LOST_RECORDS), 8)
        f.store(f.select(fits, after, used), f.at(ring, 8 * USED), 8)
        place = f.select(fits, used, f.load(64, f.at(ring, 8 * CAPACITY), 8))
        f.ret(f"ptr {f.at(ring, f.shl(f.op('add', place, const(64, RING_HEAD)), 3))}")
        return name

    def choice(self, f: Function, what: str, natural: Value, size: Value, at: Json = None, **facts: Any) -> Value:
        """A number below `size` (i64) that could be another one: the next of the choices that Python has set, or the
        natural one. Both are recorded."""
        control = f.load_pointer(f.at("%sw", 8 * TRACE_CONTROL))
        number = f.load(64, f.at(control, 8 * CHOICES_MADE), 8)
        chosen = f.variable(64, natural)
        given, on = f.block("given"), f.block("chosen")
        f.branch(f.compare("ult", number, f.load(64, f.at(control, 8 * CHOICES), 8)), given, on)
        f.enter(given)
        f.store(f.load(64, f.at(f.load_pointer(f.at(control, 8 * CHOICE_LIST)), f.shl(number, 3)), 8), chosen, 8)
        f.enter(on)
        f.store(f.op("add", number, const(64, 1)), f.at(control, 8 * CHOICES_MADE), 8)
        value = f.load(64, chosen, 8)
        hashed = None if what == "random" else self.hashed
        self.record(f, "choice", [("value", value), ("size", size)], hashed, at=at, what=what, **facts)
        return value


def pointer(f: Function, address: str) -> Value:
    return Value(64, f.value(f"ptrtoint ptr {address} to i64"))
