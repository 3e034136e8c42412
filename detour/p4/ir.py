# SPDX-License-Identifier: Apache-2.0
"""BMv2 programs as Python objects: values, calls of primitives, blocks of them, tables and the objects of a
program.

Actions, controls and parsers are graphs of blocks. A block has calls, and an end that says what comes next. `bmv2`
writes an action as one list with jumps, a control as tables and conditions, a parser as states.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from detour.p4.source import NOWHERE, Span

Json = Any
"""An object of the JSON, or another value in it."""

DEFAULT_SIZE = 1024
"""Entries of a table that does not say how many it can hold."""


def hexadecimal(number: int, width: int) -> str:
    """A number with the digits of whole bytes."""
    digits = 2 * ((width + 7) // 8)
    return f"-0x{-number:0{digits}x}" if number < 0 else f"0x{number:0{digits}x}"


# ---------------------------------------------------------------- values


@dataclass(frozen=True, slots=True)
class Value:
    """Base of values. BMv2 computes with integers without bounds; conditions are a kind of their own."""


@dataclass(frozen=True, slots=True)
class Const(Value):
    """A number, written with the digits of `width` bits; 0: with as many as it needs."""

    number: int
    width: int = 0


@dataclass(frozen=True, slots=True)
class Truth(Value):
    """A condition that is known."""

    value: bool


@dataclass(frozen=True, slots=True)
class Field(Value):
    """A field of a header or of metadata; `$valid$` is whether the header is valid."""

    header: str
    name: str


@dataclass(frozen=True, slots=True)
class LastField(Value):
    """A field of the element of a stack that was extracted last; with `member`, of a stack of unions."""

    stack: str
    name: str
    member: str = ""


@dataclass(frozen=True, slots=True)
class Data(Value):
    """A parameter of an action, by number."""

    number: int


@dataclass(frozen=True, slots=True)
class Lookahead(Value):
    """Bits of the packet that are not extracted yet."""

    offset: int
    width: int


@dataclass(frozen=True, slots=True)
class Text(Value):
    text: str


@dataclass(frozen=True, slots=True)
class Named(Value):
    """A header, stack, array, calculation... by its name. `kind` is as in the JSON."""

    kind: str
    name: Any


@dataclass(frozen=True, slots=True)
class Vector(Value):
    """Several values: `parameters_vector` or `field_list`."""

    kind: str
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Op(Value):
    """An operator of BMv2's expressions; of a unary one, `left` is None."""

    operator: str
    left: Value | None
    right: Value | int
    condition: Value | None = None


def parts(value: Value) -> Iterator[Value]:
    """The value and all values that it is made of."""
    yield value
    if isinstance(value, Op):
        for part in (value.left, value.right, value.condition):
            if isinstance(part, Value):
                yield from parts(part)
    elif isinstance(value, Vector):
        for part in value.values:
            yield from parts(part)


# ---------------------------------------------------------------- blocks


@dataclass(slots=True)
class Call:
    """A call of a primitive, or an operation of a parser."""

    op: str
    arguments: tuple[Value, ...]
    span: Span = NOWHERE


@dataclass(slots=True)
class End:
    """Successors of a block. Without targets, nothing: the parser accepts, the control or action is over."""

    span: Span = NOWHERE
    targets: list[Block] = field(default_factory=list)


@dataclass(slots=True)
class Goto(End):
    """A jump to the only target."""


@dataclass(slots=True)
class Branch(End):
    """A jump to the first target if the condition holds, else to the second."""

    condition: Value = field(kw_only=True)


@dataclass(slots=True)
class Choose(End):
    """The transitions of a parser's state, each with its target; `cases` are as in the JSON, without `next_state`."""

    keys: tuple[Value, ...] = field(kw_only=True)
    cases: list[Json] = field(kw_only=True)


@dataclass(slots=True)
class ApplyTable(End):
    """Applies a table. Targets are those of its actions, or those of a hit and of a miss."""

    table: Table = field(kw_only=True)
    on_hit: bool = False


@dataclass(slots=True)
class Invoke(End):
    """Calls an action that has a name of its own, then goes to the only target."""

    action: Action = field(kw_only=True)


@dataclass(eq=False, slots=True)
class Block:
    """Calls that are executed in order. `name` is that of the parser's state."""

    name: str = ""
    calls: list[Call] = field(default_factory=list)
    end: End = field(default_factory=End)
    reached: bool = False
    known: dict[Field, Const] | None = None
    """Fields that have the same known value on all paths that were built; None: no path leads here yet."""
    is_open: bool = False
    """More paths may come, so nothing is known."""


# ---------------------------------------------------------------- a program


@dataclass(eq=False, slots=True)
class Action:
    name: str
    span: Span
    parameters: tuple[tuple[str, int], ...]
    """Names and widths of what an entry gives."""
    body: Block
    number: int


def use(action: Action, data: Sequence[int]) -> Json:
    """An action with its data."""
    return {"action_id": action.number, "action_data": [f"0x{number:x}" for number in data]}


@dataclass(slots=True)
class Key:
    kind: str
    name: str
    target: Field
    mask: int | None
    width: int


@dataclass(eq=False, slots=True)
class Table:
    name: str
    span: Span
    actions: list[Action]
    keys: list[Key] = field(default_factory=list)
    size: int = DEFAULT_SIZE
    attributes: dict[str, Json] = field(default_factory=dict)
    """Other attributes in the JSON, and those that differ from what they are mostly."""

    def set_default(self, action: Action, data: Sequence[int], *, constant: bool) -> None:
        used = use(action, data)
        self.attributes["default_entry"] = {
            "action_id": used["action_id"],
            "action_const": constant,
            "action_data": used["action_data"],
            "action_entry_const": constant,
        }


@dataclass(slots=True)
class Pipeline:
    name: str
    span: Span
    entry: Block
    tables: list[Table]
    """All of them, also those that the code does not reach."""
    profiles: list[Json]


@dataclass(slots=True)
class Program:
    """All that goes into the JSON. `objects` are those that need no more than their attributes, by the name of their
    list: headers, counter_arrays, checksums... There may be a `Value` or `Span` for an attribute.
    """

    parsers: list[tuple[str, Block]] = field(default_factory=list)
    """Names, and where they begin."""
    pipelines: list[Pipeline] = field(default_factory=list)
    actions: list[Action] = field(default_factory=list)
    objects: dict[str, list[Json]] = field(default_factory=lambda: defaultdict(list))
    aliases: list[tuple[str, tuple[str, str]]] = field(default_factory=list)
    errors: tuple[str, ...] = ()
    enums: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)

    declared: set[str] = field(default_factory=set)
    """Objects that are declared when they are used first."""

    def declare(self, name: str) -> bool:
        """Return whether an object is used for the first time."""
        is_new = name not in self.declared
        self.declared.add(name)
        return is_new

    def add(self, kind: str, name: str, span: Span = NOWHERE, **attributes: Any) -> Json:
        """Add an object to one of the lists; its id is its place there."""
        items = self.objects[kind]
        item = {"name": name, "id": len(items), "source_info": span, **attributes}
        items.append(item)
        return item

    def action(self, name: str, span: Span, parameters: tuple[tuple[str, int], ...], body: Block) -> Action:
        """A new action."""
        action = Action(name, span, parameters, body, len(self.actions))
        self.actions.append(action)
        return action
