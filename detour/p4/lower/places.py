# SPDX-License-Identifier: Apache-2.0
"""Places of values: every variable is laid out over headers, stacks and fields of BMv2."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

from detour.p4 import ir
from detour.p4.ir import Json
from detour.p4.messages import CompileError, Message
from detour.p4.source import NOWHERE, Span
from detour.p4.types import (
    BOOL,
    ERROR,
    Bits,
    Enum,
    Header,
    Stack,
    Struct,
    Tuple,
    Type,
    Union,
    Varbits,
    members,
    underlying,
)

SCALARS = "scalars"
_STRUCTURED = (Header, Stack, Struct, Tuple, Union)
Path = tuple[object, ...]
"""The variable, names of members and numbers of elements; None is an element that is chosen at run time."""


@dataclass(slots=True, eq=False)
class Place:
    """Something that can be read and perhaps written. Two places overlap only if one's `path` begins with the other's.
    `parts` are fields, members of a union, or elements of a tuple or stack by number.
    """

    type: Type
    path: Path
    parts: Mapping[str, Place]


@dataclass(slots=True, eq=False)
class ScalarPlace(Place):
    ref: ir.Value
    """Of a bool, the field that has it as a bit."""


@dataclass(slots=True, eq=False)
class HeaderPlace(Place):
    ref: ir.Value
    """`Named("header", ...)`, or the operator that chooses one."""


class RecordPlace(Place):
    """A struct or tuple."""

    __slots__ = ()


@dataclass(slots=True, eq=False)
class UnionPlace(Place):
    """A union, of one that is chosen at run time too: its members are operators then."""

    parts: Mapping[str, HeaderPlace]
    ref: ir.Value


@dataclass(slots=True, eq=False)
class StackPlace(Place):
    parts: Mapping[str, HeaderPlace | UnionPlace]
    ref: ir.Named


@dataclass(slots=True, eq=False)
class Aggregate:
    """A value with parts that has no place: `{a, b}`. `valid` is set for headers."""

    type: Type
    parts: Mapping[str, Operand]
    valid: bool = True


Operand = ir.Value | Place | Aggregate
"""What an expression is worth. Scalars are `ir.Value`s, bools among them conditions."""


def part(operand: Operand, name: str) -> Operand:
    """A part of a value, by its name or number."""
    assert isinstance(operand, Place | Aggregate)
    return operand.parts[name]


def paths_overlap(a: Path, b: Path) -> bool:
    return all(x == y or x is None or y is None for x, y in zip(a, b, strict=False))


def scalar_width(kind: Type, span: Span = NOWHERE) -> tuple[int, bool]:
    """Width and signedness of the field that a scalar has; errors and enums take 32 bits as in p4c. CompileError, at
    `span`: BMv2 has no field of that type."""
    kind = underlying(kind)
    if type(kind) is Bits:
        return kind.width, kind.signed
    if kind == BOOL:
        return 1, False
    if kind == ERROR or type(kind) is Enum:
        return 32, False
    hint = "BMv2 has arrays of headers and of header unions only" if type(kind) is Stack else ""
    raise CompileError(Message(f"a value of type {kind} cannot be stored at run time", span, hint))


def is_scalar(kind: Type) -> bool:
    return not isinstance(kind, _STRUCTURED)


def header_place(kind: Type, path: Path, ref: ir.Value) -> HeaderPlace:
    """A header with its fields. Those of a struct in it have the names of both."""
    numbers = count()

    def inside(kind: Type, path: Path, prefix: str) -> dict[str, Place]:
        parts: dict[str, Place] = {}
        for name, inner in members(kind):
            here = (*path, name)
            if isinstance(inner, Struct):
                parts[name] = RecordPlace(inner, here, inside(inner, here, f"{prefix}{name}."))
            else:
                parts[name] = ScalarPlace(inner, here, {}, _field(ref, prefix + name, next(numbers)))
        return parts

    return HeaderPlace(kind, path, inside(kind, path, ""), ref)


def _field(ref: ir.Value, name: str, number: int) -> ir.Value:
    if type(ref) is ir.Named:
        return ir.Field(ref.name, name)
    return (
        ir.LastField(ref.stack, name, ref.member) if type(ref) is ir.LastField else ir.Op("access_field", ref, number)
    )


def union_element(like: UnionPlace, path: Path, ref: ir.Value) -> UnionPlace:
    """A union of a stack that is chosen at run time."""
    parts = {
        name: header_place(each.type, path, ir.Op("access_union_header", ref, number))
        for number, (name, each) in enumerate(like.parts.items())
    }
    return UnionPlace(like.type, path, parts, ref)


def header_ref(place: HeaderPlace) -> ir.Value:
    """A header as an argument of a primitive."""
    if type(place.ref) is not ir.LastField:
        return place.ref
    stack = ir.Named("header_stack", place.ref.stack)
    return ir.Op("dereference_header_stack", stack, ir.Op("last_stack_index", None, stack))


def leaves(place: Place) -> Iterator[ScalarPlace | HeaderPlace]:
    """The headers and scalars that a place is made of."""
    if isinstance(place, ScalarPlace | HeaderPlace):
        yield place
    else:
        for each in place.parts.values():
            yield from leaves(each)


def flattened(operand: Operand, kind: Type) -> list[tuple[Operand, Type]]:
    """Return what a value of nested structs and tuples consists of: scalars, headers, stacks and unions."""
    if isinstance(kind, Struct | Tuple):
        return [each for name, inner in members(kind) for each in flattened(part(operand, name), inner)]
    return [(operand, kind)]


class Storage:
    """Lays out variables and declares the headers and fields that they need."""

    def __init__(self, program: ir.Program) -> None:
        self.program = program
        self._used: dict[str, int] = {}
        self._types: dict[str, Json] = {}
        self._numbers: dict[str, int] = {}
        """Ids of the headers."""
        self._scalars: list[tuple[str, int, bool]] = []
        self._add_header(SCALARS, "scalars_0", self._scalars, metadata=True)
        self._variables = count(1)

    def unique(self, name: str) -> str:
        """A name that is not used yet: with a number appended if it is."""
        number = self._used.get(name)
        if number is None:
            self._used[name] = 0
            return name
        while True:
            candidate = f"{name}_{number}"
            number += 1
            self._used[name] = number
            if candidate not in self._used:
                self._used[candidate] = 0
                return candidate

    def variable(self, kind: Type, name: str, span: Span = NOWHERE) -> Place:
        """A new variable."""
        return self.place(kind, (next(self._variables),), name, name, span, self.unique)

    def scalar(self, kind: Type, name: str, span: Span = NOWHERE) -> ScalarPlace:
        """A new variable without parts."""
        place = self.variable(kind, name, span)
        assert isinstance(place, ScalarPlace)
        return place

    def place(self, kind: Type, path: Path, scalar: str, header: str, span: Span, name: Callable[[str], str]) -> Place:
        """Lay out a type. `scalar` and `header` are the names for fields of metadata and for headers; `name` makes the
        name of a leaf from them.
        """
        if type(kind) is Header:
            return self._header(kind, path, name(header), span)
        if type(kind) is Union:
            return self._union(kind, path, name(header), span)
        if type(kind) is Stack and isinstance(kind.element, Header | Union):
            return self._stack(kind, path, name(header), span)
        if isinstance(kind, Struct | Tuple):
            parts = {
                each: self.place(inner, (*path, each), _dot(scalar, each), _dot(header, each), span, name)
                for each, inner in members(kind)
            }
            return RecordPlace(kind, path, parts)
        return self._scalar(kind, path, name(scalar), span)

    def _scalar(self, kind: Type, path: Path, name: str, span: Span) -> Place:
        if type(kind) is Varbits:
            # The only field of a header of its own: BMv2 has no other fields of variable length.
            self._add_header(name, f"$varbit{kind.width}", [("field", "*", False)], (kind.width + 7) // 8)
            return ScalarPlace(kind, path, {}, ir.Field(name, "field"))
        self._scalars.append((name, *scalar_width(kind, span)))
        return ScalarPlace(kind, path, {}, ir.Field(SCALARS, name))

    def metadata(self, kind: Struct, name: str, type_name: str) -> RecordPlace:
        """A struct of the architecture, as metadata of its own: `standard_metadata`."""
        fields = [(each, *scalar_width(inner)) for each, inner in members(kind)]
        if spare := -sum(width for _, width, _ in fields) % 8:
            fields.append(("_padding", spare, False))
        self._add_header(name, type_name, fields, metadata=True)
        self._used[name] = 0
        parts = {each: ScalarPlace(inner, (name, each), {}, ir.Field(name, each)) for each, inner in members(kind)}
        return RecordPlace(kind, (name,), parts)

    def _add_header(
        self,
        name: str,
        type_name: str,
        fields: Sequence[tuple[str, int | str, bool]],
        max_bytes: int | None = None,
        *,
        metadata: bool = False,
    ) -> None:
        """Declare a header and its type: fields with their widths (`*`: variable) and whether they are signed."""
        if type_name not in self._types:
            most: Json = {} if max_bytes is None else {"max_length": max_bytes}
            self._types[type_name] = self.program.add("header_types", type_name, fields=fields, **most)
        header = self.program.add("headers", name, header_type=type_name, metadata=metadata, pi_omit=True)
        self._numbers[name] = header["id"]

    def _header(self, kind: Header, path: Path, name: str, span: Span) -> HeaderPlace:
        place = header_place(kind, path, ir.Named("header", name))
        where = kind.declaration.span if kind.declaration else span
        fields: list[tuple[str, int | str, bool]] = []
        bits, most = 0, None
        for leaf in (leaf for each in place.parts.values() for leaf in leaves(each)):
            assert isinstance(leaf.ref, ir.Field)
            if type(leaf.type) is Varbits:
                most = leaf.type.width
                fields.append((leaf.ref.name, "*", False))
            else:
                width, signed = scalar_width(leaf.type, where)
                fields.append((leaf.ref.name, width, signed))
                bits += width
        if bits % 8:
            text = f"header {kind} has {bits} bits; BMv2 has headers of whole bytes only"
            raise CompileError(Message(text, where, f"add a field of {-bits % 8} bits"))
        self._add_header(name, str(kind), fields, None if most is None else (bits + most + 7) // 8)
        return place

    def _union(self, kind: Union, path: Path, name: str, span: Span) -> UnionPlace:
        parts: dict[str, HeaderPlace] = {}
        for each in kind.fields:
            assert isinstance(each.type, Header)
            # All members overlap: that one is valid makes the others invalid.
            parts[each.name] = self._header(each.type, path, self.unique(f"{name}.{each.name}"), span)
        if not any(each["name"] == str(kind) for each in self.program.objects["header_union_types"]):
            headers = [(each.name, str(each.type)) for each in kind.fields]
            self.program.add("header_union_types", str(kind), headers=headers)
        self.program.add("header_unions", name, union_type=str(kind), header_ids=self._ids(parts.values()))
        return UnionPlace(kind, path, parts, ir.Named("header_union", name))

    def _stack(self, kind: Stack, path: Path, name: str, span: Span) -> StackPlace:
        element, unions = kind.element, self.program.objects["header_unions"]
        parts: dict[str, HeaderPlace | UnionPlace] = {}
        for index in range(kind.size):
            here, unique = (*path, str(index)), self.unique(f"{name}[{index}]")
            if isinstance(element, Union):
                parts[str(index)] = self._union(element, here, unique, span)
            else:
                assert isinstance(element, Header)
                parts[str(index)] = self._header(element, here, unique, span)
        if isinstance(element, Union):
            ids = [each["id"] for each in unions[len(unions) - kind.size :]]
            self.program.add("header_union_stacks", name, union_type=str(element), size=kind.size, header_union_ids=ids)
            return StackPlace(kind, path, parts, ir.Named("header_union_stack", name))
        ids = self._ids(parts.values())
        self.program.add("header_stacks", name, header_type=str(element), size=kind.size, header_ids=ids)
        return StackPlace(kind, path, parts, ir.Named("header_stack", name))

    def _ids(self, headers: Iterable[Place]) -> list[int]:
        return [self._numbers[each.ref.name] for each in headers]  # type: ignore[attr-defined]

    def finish(self) -> None:
        """Fill `scalars` up to bytes."""
        if spare := -sum(width for _, width, _ in self._scalars) % 8:
            self._scalars.append((self.unique("_padding"), spare, False))


def _dot(name: str, part: str) -> str:
    return f"{name}.{part}" if name else part
