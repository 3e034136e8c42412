# SPDX-License-Identifier: Apache-2.0
"""What BMv2 executes: values, calls of primitives, blocks of them, tables and the objects of a program.

Actions, controls and parsers are graphs of blocks. A block has calls, and an end that says what comes next. `bmv2`
writes an action as one list with jumps, a control as tables and conditions, a parser as states.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from detour.p4.source import NOWHERE, Span

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
    """What follows a block. The base: nothing; the parser accepts, the control or action is over."""

    span: Span = NOWHERE

    def targets(self) -> list[Block]:
        return []

    def redirect(self, to: dict[Block, Block]) -> None:
        """Replaces targets."""


@dataclass(slots=True)
class Goto(End):
    target: Block = field(kw_only=True)

    def targets(self) -> list[Block]:
        return [self.target]

    def redirect(self, to: dict[Block, Block]) -> None:
        self.target = to.get(self.target, self.target)


@dataclass(slots=True)
class Branch(End):
    condition: Value = field(kw_only=True)
    yes: Block = field(kw_only=True)
    no: Block = field(kw_only=True)

    def targets(self) -> list[Block]:
        return [self.yes, self.no]

    def redirect(self, to: dict[Block, Block]) -> None:
        self.yes, self.no = to.get(self.yes, self.yes), to.get(self.no, self.no)


@dataclass(slots=True)
class Case:
    """A transition: `kind` is hexstr, parse_vset or default."""

    kind: str
    value: Any
    mask: int | None
    width: int
    target: Block


@dataclass(slots=True)
class Choose(End):
    """The transitions of a parser's state. `bits` are the widths of the keys, each filled up to bytes."""

    keys: tuple[Value, ...] = field(kw_only=True)
    cases: list[Case] = field(kw_only=True)

    def targets(self) -> list[Block]:
        return [case.target for case in self.cases]

    def redirect(self, to: dict[Block, Block]) -> None:
        for case in self.cases:
            case.target = to.get(case.target, case.target)


@dataclass(slots=True)
class ApplyTable(End):
    """Applies a table. `by_action` has the target of each action; `hit` and `miss` are used instead if both are set."""

    table: Table = field(kw_only=True)
    by_action: list[Block] = field(kw_only=True)
    hit: Block | None = None
    miss: Block | None = None

    def targets(self) -> list[Block]:
        return [self.hit, self.miss] if self.hit and self.miss else self.by_action

    def redirect(self, to: dict[Block, Block]) -> None:
        self.by_action = [to.get(target, target) for target in self.by_action]
        if self.hit and self.miss:
            self.hit, self.miss = to.get(self.hit, self.hit), to.get(self.miss, self.miss)


@dataclass(slots=True)
class Invoke(End):
    """Calls an action that has a name of its own."""

    action: Action = field(kw_only=True)
    target: Block = field(kw_only=True)

    def targets(self) -> list[Block]:
        return [self.target]

    def redirect(self, to: dict[Block, Block]) -> None:
        self.target = to.get(self.target, self.target)


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


# ---------------------------------------------------------------- actions and tables


@dataclass(eq=False, slots=True)
class Action:
    name: str
    span: Span
    parameters: tuple[tuple[str, int], ...]
    """Names and widths of what an entry gives."""
    body: Block
    number: int = -1


@dataclass(slots=True)
class Key:
    kind: str
    name: str
    target: Field
    mask: int | None
    width: int


@dataclass(slots=True)
class Use:
    """An action with its data."""

    action: Action
    data: tuple[int, ...]


@dataclass(slots=True)
class Entry:
    """An entry in the program; `match` has an object for each key as in the JSON."""

    match: list[dict[str, Any]]
    use: Use
    priority: int
    span: Span


@dataclass(eq=False, slots=True)
class Table:
    name: str
    span: Span
    keys: list[Key]
    actions: list[Action]
    default: Use | None
    default_is_constant: bool
    entries: list[Entry] | None
    size: int
    kind: str = "simple"
    profile: str | None = None
    with_counters: bool = False
    direct_meter: str | None = None
    timeouts: bool = False


# ---------------------------------------------------------------- a program


@dataclass(slots=True)
class HeaderType:
    name: str
    fields: list[tuple[str, int | str, bool]]
    """Name, width (`*`: variable) and whether it is signed."""
    max_bytes: int | None = None


@dataclass(slots=True)
class Header:
    name: str
    type: str
    metadata: bool
    number: int = -1


@dataclass(slots=True)
class Pipeline:
    name: str
    span: Span
    entry: Block
    tables: list[Table]
    """All of them, also those that the code does not reach."""
    profiles: list[dict[str, Any]] = field(default_factory=list)


@dataclass(slots=True)
class ParserGraph:
    name: str
    entry: Block


@dataclass(slots=True)
class Program:
    """All that goes into the JSON. `objects` are those that need no more than their attributes, by the name of their
    list: counter_arrays, learn_lists, checksums... Values in them may be `Value`s.
    """

    header_types: dict[str, HeaderType] = field(default_factory=dict)
    headers: list[Header] = field(default_factory=list)
    stacks: list[dict[str, Any]] = field(default_factory=list)
    union_types: dict[str, dict[str, Any]] = field(default_factory=dict)
    unions: list[dict[str, Any]] = field(default_factory=list)
    union_stacks: list[dict[str, Any]] = field(default_factory=list)
    parsers: list[ParserGraph] = field(default_factory=list)
    deparsers: list[dict[str, Any]] = field(default_factory=list)
    pipelines: list[Pipeline] = field(default_factory=list)
    actions: list[Action] = field(default_factory=list)
    objects: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    aliases: list[tuple[str, tuple[str, str]]] = field(default_factory=list)
    errors: tuple[str, ...] = ()
    enums: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)

    def add(self, kind: str, name: str, span: Span = NOWHERE, **attributes: Any) -> dict[str, Any]:
        """Adds an object to one of the lists; its id is its place there."""
        items = self.objects.setdefault(kind, [])
        item = {"name": name, "id": len(items), "source_info": span, **attributes}
        items.append(item)
        return item
