# SPDX-License-Identifier: Apache-2.0
"""The BMv2 JSON as typed objects, with names resolved.

Only what has a shape is modelled here (headers, tables, actions, ...). Expressions, primitives and parser
operations stay JSON: the modules that compile them read them directly.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from detour.base.errors import DetourError
from detour.base.files import read_bytes

Json = Any
T = TypeVar("T")
MAX_PRIORITY = 0x7FFFFFFF  # P4Runtime priority = MAX_PRIORITY - BMv2 priority (as PI converts it)
MAX_FIELD_BITS = 2048
"""Widest field, parameter or register: p4c's own limit for BMv2."""
MAX_PHV_BYTES = 1 << 16
"""Largest PHV; the loop has one for every packet in flight."""
MAX_HEADER_BYTES = 1 << 16
"""Most bytes that a deparser or a digest may write: the loop's scratch memory has no more (`loop/layout.py`)."""
_MAX_SIZE = (1 << 31) - 1
_LONGEST_TEXT = 300


def refuse(what: str, at: Json = None) -> DetourError:
    """The error for a construct that the engine does not have, with the P4 source line where it is known."""
    info = at.get("source_info") if isinstance(at, dict) else None
    where = ""
    if isinstance(info, dict) and "filename" in info and "line" in info:
        where = f" ({one_line(info['filename'])}:{one_line(info['line'])})"
    return DetourError(f"P4 program: {one_line(what)}{where}")


def objects(part: Json) -> Iterator[dict[str, Any]]:
    """All JSON objects in a part of a program, outer ones first."""
    if isinstance(part, dict):
        yield part
        part = list(part.values())
    if isinstance(part, list):
        for inner in part:
            yield from objects(inner)


def one_line(text: Any) -> str:
    """A text as errors quote it. It may come from the document: whatever it contains, the result is short and can be
    printed."""
    clean = " ".join(str(text).split()).encode("utf-8", "backslashreplace").decode()
    clean = "".join(c if c.isprintable() else "?" for c in clean)
    return clean if len(clean) <= _LONGEST_TEXT else clean[: _LONGEST_TEXT - 3] + "..."


def find(objects: Mapping[Any, T], key: Any, kind: str, at: Json = None) -> T:
    """Return the object with a name or an id; refuse the program if there is none."""
    value = objects.get(key)
    if value is None:
        raise refuse(f"there is no {kind} {key!r}" if isinstance(key, str) else f"there is no {kind} with id {key}", at)
    return value


def named(objects: Mapping[str, T], e: Json, kind: str, at: Json) -> T:
    """The object that a parameter names."""
    if not isinstance(e["value"], str):
        raise refuse(f"'{e['type']}' as a {kind}", at)
    return find(objects, e["value"], kind, at)


def check_width(bits: Json, what: str, at: Json) -> int:
    if type(bits) is not int or not 1 <= bits <= MAX_FIELD_BITS:
        raise refuse(f"{what} has {bits!r} bits; expected 1 to {MAX_FIELD_BITS}", at)
    return int(bits)


def check_bytes(bits: int, what: str, at: Json) -> int:
    if bits < 8 or bits % 8 or bits > 8 * MAX_HEADER_BYTES:
        raise refuse(f"{what} has up to {bits} bits, which is no possible number of bytes", at)
    return bits


def check_size(size: Json, what: str, at: Json) -> int:
    if not 0 <= size <= _MAX_SIZE:
        raise refuse(f"{what} has {size} elements", at)
    return int(size)


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """A member of a header type. `bits` is the maximum width of a variable-length field."""

    name: str
    bits: int
    signed: bool = False
    saturating: bool = False
    variable: bool = False


@dataclass(frozen=True, slots=True)
class HeaderType:
    """Fields in order; `bits` is the size without the variable-length field, `max_bytes` with it."""

    name: str
    fields: tuple[FieldSpec, ...]

    @property
    def bits(self) -> int:
        """Width of the fixed fields."""
        return sum(f.bits for f in self.fields if not f.variable)

    @property
    def max_bytes(self) -> int:
        """Largest size on the wire."""
        return (sum(f.bits for f in self.fields) + 7) // 8

    @property
    def variable(self) -> FieldSpec | None:
        """The variable-length field, if there is one."""
        return next((f for f in self.fields if f.variable), None)


@dataclass(slots=True)
class Header:
    """A header or metadata instance."""

    name: str
    type: HeaderType
    metadata: bool
    union: Union | None = None


@dataclass(slots=True)
class Union:
    """A header union; at most one of `headers` is valid. `members` are the names of its parts."""

    name: str
    members: tuple[str, ...]
    headers: tuple[Header, ...]


@dataclass(slots=True)
class Stack:
    """A stack of headers or of header unions. An element is the headers at one index: a single one, or the members of a
    union, whose names are in `members`."""

    name: str
    elements: tuple[tuple[Header, ...], ...]
    members: tuple[str, ...] = ()

    @property
    def headers(self) -> tuple[Header, ...]:
        """The headers of all elements, in order."""
        return tuple(h for element in self.elements for h in element)


@dataclass(frozen=True, slots=True)
class KeyField:
    """One component of a table key. `match_type` is exact, lpm, ternary or range (optional is ternary)."""

    name: str
    match_type: str
    header: str
    field: str  # "$valid$" for the validity of a header
    bits: int
    mask: int | None = None


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter of an action: `words` 64-bit words from word `offset` of the entry's action data."""

    name: str
    bits: int
    offset: int
    words: int
    signed: bool  # some constant in the program is negative, so one more bit is kept


@dataclass(slots=True)
class ActionIr:
    """An action. `index` is its position in the JSON, which is what entries store."""

    name: str
    id: int
    index: int
    params: tuple[Param, ...]
    words: int
    json: Json


@dataclass(slots=True)
class ActionCall:
    """An action with its arguments: default actions and const entries."""

    action: ActionIr
    args: tuple[int, ...]


@dataclass(slots=True)
class ConstEntry:
    """An entry given in the program; `key` as in `detour.engine.tables`, `priority` as in P4Runtime."""

    key: tuple[Any, ...]
    call: ActionCall
    priority: int


@dataclass(slots=True)
class Selector:
    """Choice of a group member: hash algorithm and its input."""

    algorithm: str
    inputs: Json


@dataclass(slots=True)
class ActionProfileIr:
    """An action profile; with `selector` it has groups."""

    name: str
    index: int
    max_size: int
    selector: Selector | None
    actions: dict[int, ActionIr] = field(default_factory=dict)


@dataclass(slots=True, eq=False, weakref_slot=True)
class TableIr:
    """A match-action table. `profile` is set for indirect tables."""

    name: str
    index: int
    match_type: str
    key: tuple[KeyField, ...]
    actions: tuple[ActionIr, ...]
    max_size: int
    with_counters: bool
    support_timeout: bool
    profile: ActionProfileIr | None
    direct_meter: str | None
    default: ActionCall | None
    default_const: bool  # neither action nor data may change
    default_action_const: bool
    entries: tuple[ConstEntry, ...] | None
    json: Json

    @property
    def is_statement(self) -> bool:
        """Return whether p4c made the table of statements between tables: an action and nothing else."""
        return bool(not self.key and not self.profile and self.default and self.default_const and not self.default.args)

    @property
    def all_actions(self) -> tuple[ActionIr, ...]:
        """The table's actions, and those of other tables that share its action profile: members may name any of
        them."""
        return (*self.actions, *(self.profile.actions.values() if self.profile else ()))

    def next_node(self, action: ActionIr | None, hit: bool) -> str | None:
        """The node at which the pipeline goes on after an action of the table, or after none; None: its end."""
        to, otherwise = self.json["next_tables"], self.json.get("base_default_next")
        if "__HIT__" in to or "__MISS__" in to:
            return to.get("__HIT__" if hit else "__MISS__")
        return to.get(action.name, otherwise) if action else otherwise

    @property
    def param_words(self) -> int:
        """Words of action data that an entry of this table needs at most."""
        return max((a.words for a in self.actions), default=0)


@dataclass(slots=True)
class PipelineIr:
    """Ingress or egress: nodes by name, `init` is where it begins."""

    name: str
    init: str | None
    tables: dict[str, TableIr]
    conditionals: dict[str, Json]
    calls: dict[str, Json]


@dataclass(slots=True)
class Array:
    """A counter, meter or register array. `bits` for registers, `unit` (packets, bytes) for meters."""

    name: str
    size: int
    direct: bool = False
    bits: int = 0
    unit: str = ""
    rates: int = 2
    table: str | None = None
    target: tuple[str, str] | None = None


@dataclass(slots=True)
class Model:
    """A whole program, in v1model's form. `architecture`: what it was written for."""

    json: Json
    architecture: str
    headers: dict[str, Header]
    stacks: dict[str, Stack]
    unions: dict[str, Union]
    union_stacks: dict[str, Stack]
    errors: dict[str, int]
    actions: list[ActionIr]
    pipelines: dict[str, PipelineIr]
    tables: dict[str, TableIr]
    profiles: dict[str, ActionProfileIr]
    counters: dict[str, Array]
    meters: dict[str, Array]
    registers: dict[str, Array]
    calculations: dict[str, Json]
    value_sets: dict[str, Json]

    def header(self, name: str, at: Json = None) -> Header:
        return find(self.headers, name, "header", at)


def read_json(source: Json) -> Json:
    """The JSON of a dict, a path or a string."""
    if isinstance(source, dict):
        return source
    text = source if isinstance(source, str) and source.lstrip().startswith("{") else None
    try:
        return json.loads(text if text is not None else read_bytes(Path(source)))
    except (ValueError, RecursionError) as e:
        raise DetourError(f"{source if text is None else 'BMv2 JSON'}: not JSON: {one_line(e)}") from e


def parse_hex(text: str) -> int:
    """`-0x1f` and the like, as p4c writes integers."""
    return int(text, 16)
