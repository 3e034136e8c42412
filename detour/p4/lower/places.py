# SPDX-License-Identifier: Apache-2.0
"""Where values live: every variable is laid out over headers, stacks and fields of BMv2."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from detour.p4 import ir
from detour.p4.messages import CompileError, Message
from detour.p4.source import NOWHERE, Span
from detour.p4.types import BOOL, ERROR, Bits, Enum, Header, Stack, Struct, Tuple, Type, Union, Varbits, underlying

SCALARS = "scalars"
_STRUCTURED = (Header, Stack, Struct, Tuple, Union)


@dataclass(slots=True, eq=False)
class Place:
    """Something that can be read and perhaps written. Two places overlap only if one's `path` begins with the other's;
    None in a path is an element that is chosen at run time.
    """

    type: Type
    path: tuple[object, ...]


@dataclass(slots=True, eq=False)
class ScalarPlace(Place):
    value: ir.Value
    """Of a bool, the field that has it as a bit."""


@dataclass(slots=True, eq=False)
class HeaderPlace(Place):
    ref: ir.Value
    """`Named("header", ...)`, or the operator that chooses one."""


@dataclass(slots=True, eq=False)
class RecordPlace(Place):
    """A struct or tuple."""

    fields: dict[str, Place]


@dataclass(slots=True, eq=False)
class UnionPlace(Place):
    ref: ir.Value
    members: dict[str, HeaderPlace]
    """Of a union that is chosen at run time too: the operator that takes its member."""


@dataclass(slots=True, eq=False)
class StackPlace(Place):
    name: str
    elements: list[HeaderPlace] | list[UnionPlace]

    @property
    def ref(self) -> ir.Named:
        unions = isinstance(self.elements[0], UnionPlace)
        return ir.Named("header_union_stack" if unions else "header_stack", self.name)


@dataclass(slots=True, eq=False)
class Aggregate:
    """A value with parts that has no place: `{a, b}`. `valid` is set for headers."""

    type: Type
    parts: dict[str, Operand] = field(default_factory=dict)
    valid: bool = True


Operand = ir.Value | Place | Aggregate
"""What an expression is worth. Scalars are `ir.Value`s, bools among them conditions."""


def overlap(a: Place, b: Place) -> bool:
    return paths_overlap(a.path, b.path)


def paths_overlap(a: tuple[object, ...], b: tuple[object, ...]) -> bool:
    return all(x == y or x is None or y is None for x, y in zip(a, b, strict=False))


def scalar_width(kind: Type) -> tuple[int, bool]:
    """Width and signedness of the field that a scalar has; errors and enums take 32 bits as in p4c."""
    kind = underlying(kind)
    if type(kind) is Bits:
        return kind.width, kind.signed
    if kind == BOOL:
        return 1, False
    if kind == ERROR or type(kind) is Enum:
        return 32, False
    raise CompileError(Message(f"a value of type {kind} cannot be stored at run time", NOWHERE))


def is_scalar(kind: Type) -> bool:
    return not isinstance(kind, _STRUCTURED)


def header_field(place: HeaderPlace, name: str) -> Place:
    """A field of a header, or of an element chosen at run time."""
    assert isinstance(place.type, Header)
    kind = place.type.field_type(name)
    assert kind is not None, f"{place.type} has no field {name}"
    return _inside(place, name, kind, (*place.path, name))


def _inside(place: HeaderPlace, name: str, kind: Type, path: tuple[object, ...]) -> Place:
    """A field; that of a struct in a header has the names of both."""
    if isinstance(kind, Struct):
        fields = {
            part.name: _inside(place, f"{name}.{part.name}", part.type, (*path, part.name)) for part in kind.fields
        }
        return RecordPlace(kind, path, fields)
    ref = place.ref
    if type(ref) is ir.Named:
        return ScalarPlace(kind, path, ir.Field(ref.name, name))
    if type(ref) is ir.LastField:
        return ScalarPlace(kind, path, ir.LastField(ref.stack, name, ref.member))
    assert isinstance(place.type, Header)
    number = [each for each, _ in flat_fields(place.type)].index(name)
    return ScalarPlace(kind, path, ir.Op("access_field", ref, number))


def flat_fields(kind: Header | Struct, prefix: str = "") -> list[tuple[str, Type]]:
    """Fields of a header in order, those of structs in it among them."""
    fields: list[tuple[str, Type]] = []
    for part in kind.fields:
        name = f"{prefix}{part.name}"
        fields += flat_fields(part.type, f"{name}.") if isinstance(part.type, Struct) else [(name, part.type)]
    return fields


def validity(place: HeaderPlace) -> ir.Value:
    """Whether a header is valid, as a condition."""
    ref = place.ref
    if type(ref) is ir.Named:
        return ir.Op("d2b", None, ir.Field(ref.name, "$valid$"))
    return ir.Op("valid", None, last_element(ref) if type(ref) is ir.LastField else ref)


def last_element(ref: ir.LastField) -> ir.Op:
    stack = ir.Named("header_stack", ref.stack)
    return ir.Op("dereference_header_stack", stack, ir.Op("last_stack_index", None, stack))


def leaves(place: Place) -> Iterator[ScalarPlace | HeaderPlace]:
    """The headers and scalars that a place is made of."""
    if isinstance(place, ScalarPlace | HeaderPlace):
        yield place
    else:
        inner = place.fields.values() if isinstance(place, RecordPlace) else ()
        inner = place.members.values() if isinstance(place, UnionPlace) else inner
        inner = place.elements if isinstance(place, StackPlace) else inner
        for part in inner:
            yield from leaves(part)


class Storage:
    """Lays out variables and declares the headers and fields that they need."""

    def __init__(self, program: ir.Program) -> None:
        self.program = program
        self._used: dict[str, int] = {}
        self._scalars = ir.HeaderType("scalars_0", [])
        program.header_types["scalars_0"] = self._scalars
        program.headers.append(ir.Header(SCALARS, "scalars_0", metadata=True))
        self._headers: dict[str, ir.Header] = {SCALARS: program.headers[0]}
        self._variables = 0

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
        self._variables += 1
        return self.place(kind, (self._variables,), name, name, span, self.unique)

    def place(
        self,
        kind: Type,
        path: tuple[object, ...],
        scalar: str,
        header: str,
        span: Span,
        name: Callable[[str], str],
    ) -> Place:
        """Lays out a type. `scalar` and `header` are the names for fields of metadata and for headers; `name` makes the
        name of a leaf from them.
        """
        if type(kind) is Header:
            return self.header(kind, path, name(header), span)
        if type(kind) is Union:
            return self._union(kind, path, name(header), span)
        if type(kind) is Stack:
            return self._stack(kind, path, name(header), span)
        if isinstance(kind, Struct | Tuple):
            return RecordPlace(
                kind,
                path,
                {
                    part: self.place(inner, (*path, part), _dot(scalar, part), _dot(header, part), span, name)
                    for part, inner in members(kind)
                },
            )
        return self._scalar(kind, path, name(scalar), span)

    def _scalar(self, kind: Type, path: tuple[object, ...], name: str, span: Span) -> Place:
        if type(kind) is Varbits:
            return self._varbits(kind, path, name)
        width, signed = scalar_width(kind)
        self._scalars.fields.append((name, width, signed))
        field = ir.Field(SCALARS, name)
        return ScalarPlace(kind, path, field)

    def _varbits(self, kind: Varbits, path: tuple[object, ...], name: str) -> Place:
        """A variable-length variable is the only field of a header of its own: BMv2 has no others."""
        type_name = f"$varbit{kind.width}"
        self.program.header_types.setdefault(
            type_name, ir.HeaderType(type_name, [("field", "*", False)], (kind.width + 7) // 8)
        )
        self._add_header(name, type_name)
        return ScalarPlace(kind, path, ir.Field(name, "field"))

    def header(self, kind: Header, path: tuple[object, ...], name: str, span: Span) -> HeaderPlace:
        self._add_header(name, self.header_type(kind, span))
        return HeaderPlace(kind, path, ir.Named("header", name))

    def metadata(self, kind: Struct, name: str, type_name: str) -> RecordPlace:
        """A struct of the architecture, as metadata of its own: `standard_metadata`."""
        fields: list[tuple[str, int | str, bool]] = []
        places: dict[str, Place] = {}
        for part in kind.fields:
            width, signed = scalar_width(part.type)
            fields.append((part.name, width, signed))
            value = ir.Field(name, part.name)
            places[part.name] = ScalarPlace(part.type, (name, part.name), value)
        if spare := -sum(int(width) for _, width, _ in fields) % 8:
            fields.append(("_padding", spare, False))
        self.program.header_types[type_name] = ir.HeaderType(type_name, fields)
        self._add_header(name, type_name, metadata=True)
        self._used[name] = 0
        return RecordPlace(kind, (name,), places)

    def _add_header(self, name: str, type_name: str, *, metadata: bool = False) -> None:
        header = ir.Header(name, type_name, metadata)
        self._headers[name] = header
        self.program.headers.append(header)

    def header_type(self, kind: Header, span: Span) -> str:
        """The name of a header type; a header without fields gets none."""
        name = str(kind)
        if name not in self.program.header_types:
            fields: list[tuple[str, int | str, bool]] = []
            most = None
            for part, inner in flat_fields(kind):
                if type(inner) is Varbits:
                    most = inner.width
                    fields.append((part, "*", False))
                else:
                    fields.append((part, *scalar_width(inner)))
            bits = sum(width for _, width, _ in fields if isinstance(width, int))
            if bits % 8:
                where = kind.declaration.span if kind.declaration else span
                raise CompileError(
                    Message(
                        f"header {kind} has {bits} bits; BMv2 has headers of whole bytes only",
                        where,
                        f"add a field of {-bits % 8} bits",
                    )
                )
            size = None if most is None else (bits + most + 7) // 8
            self.program.header_types[name] = ir.HeaderType(name, fields, size)
        return name

    def _union(self, kind: Union, path: tuple[object, ...], name: str, span: Span) -> UnionPlace:
        members: dict[str, HeaderPlace] = {}
        for part in kind.fields:
            assert isinstance(part.type, Header)
            # All members overlap: that one is valid makes the others invalid.
            members[part.name] = self.header(part.type, path, self.unique(f"{name}.{part.name}"), span)
        self.union_type(kind, span)
        numbers = [self.number(member) for member in members.values()]
        self.program.unions.append({"name": name, "union_type": str(kind), "header_ids": numbers})
        return UnionPlace(kind, path, ir.Named("header_union", name), members)

    def union_type(self, kind: Union, span: Span) -> None:
        types = [[p.name, self.header_type(p.type, span)] for p in kind.fields if isinstance(p.type, Header)]
        self.program.union_types.setdefault(str(kind), {"name": str(kind), "headers": types})

    def number(self, place: HeaderPlace) -> int:
        """The id of a header, which is its place in the list."""
        assert isinstance(place.ref, ir.Named)
        header = self._headers[place.ref.name]
        if header.number < 0:
            header.number = len(self.program.headers) - 1
            if self.program.headers[-1] is not header:
                header.number = self.program.headers.index(header)
        return header.number

    def _stack(self, kind: Stack, path: tuple[object, ...], name: str, span: Span) -> StackPlace:
        places: list[Place] = []
        for index in range(kind.size):
            element = self.unique(f"{name}[{index}]")
            if isinstance(kind.element, Union):
                places.append(self._union(kind.element, (*path, index), element, span))
            else:
                assert isinstance(kind.element, Header)
                places.append(self.header(kind.element, (*path, index), element, span))
        if isinstance(kind.element, Union):
            numbers = list(range(len(self.program.unions) - kind.size, len(self.program.unions)))
            item = {"name": name, "union_type": str(kind.element), "size": kind.size, "header_union_ids": numbers}
            self.program.union_stacks.append(item)
        else:
            numbers = [self.number(place) for place in places if isinstance(place, HeaderPlace)]
            item = {"name": name, "header_type": str(kind.element), "size": kind.size, "header_ids": numbers}
            self.program.stacks.append(item)
        return StackPlace(kind, path, name, places)  # type: ignore[arg-type]

    def finish(self) -> None:
        """Fills `scalars` up to bytes."""
        bits = sum(int(width) for _, width, _ in self._scalars.fields)
        if bits % 8:
            self._scalars.fields.append((self.unique("_padding"), -bits % 8, False))


def members(kind: Struct | Tuple) -> list[tuple[str, Type]]:
    """Names and types of the parts of a struct or tuple; a tuple's are numbers."""
    if isinstance(kind, Tuple):
        return [(str(number), part) for number, part in enumerate(kind.elements)]
    return [(part.name, part.type) for part in kind.fields]


def _dot(name: str, part: str) -> str:
    return f"{name}.{part}" if name else part


def union_element(like: UnionPlace, path: tuple[object, ...], ref: ir.Value) -> UnionPlace:
    """A union of a stack that is chosen at run time."""
    members = {
        name: HeaderPlace(place.type, path, ir.Op("access_union_header", ref, number))
        for number, (name, place) in enumerate(like.members.items())
    }
    return UnionPlace(like.type, path, ref, members)
