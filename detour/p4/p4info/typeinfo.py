# SPDX-License-Identifier: Apache-2.0
"""Types in P4Info (P4Runtime specification, section 7.1), and bytes of values (section 8.4)."""

from __future__ import annotations

import re
from collections.abc import Callable

from finsy.proto import p4t

from detour.p4 import core, types
from detour.p4.p4info.annotations import OF_TYPES, annotate

_TRANSLATION = re.compile(r'"((?:\\.|[^"\\])*)"\s*,\s*(?:(string)|(?:bit\s*<\s*)?(\w+))')


def translation(kind: types.Type) -> tuple[str, int | None] | None:
    """URI and bits (None: a string) of a `type` with `@p4runtime_translation` of its own."""
    if not isinstance(kind, types.NewType):
        return None
    note = core.annotation(kind.declaration.annotations, "p4runtime_translation")
    match = _TRANSLATION.search(note.text) if note else None
    if match is None:
        return None
    uri, is_string, bits = match.groups()
    return uri, None if is_string else int(bits, 0)


def bitwidth(kind: types.Type) -> int:
    """Bits of a value as controllers see it; 0 for strings, and for enums without values."""
    translated = translation(kind)
    if translated:
        return translated[1] or 0
    kind = types.underlying(kind)
    return types.width(kind) if isinstance(kind, (types.Bits, types.Varbits)) or kind == types.BOOL else 0


def as_bytes(value: int, bits: int) -> bytes:
    """A number in as many bytes as the type has, at least one."""
    size = max(1, (bits + 7) // 8)
    return (value & ((1 << max(bits, 1)) - 1)).to_bytes(size, "big")


class TypeInfo:
    """Fills `P4Info.type_info` with the named types that the objects use."""

    def __init__(self, message: p4t.P4TypeInfo, errors: tuple[str, ...]) -> None:
        self.message = message
        self.errors = errors
        self.used = False

    def name(self, kind: types.Type) -> str:
        """The name that `type_name` of a field or parameter gives: of a `type`, or of an enum without values."""
        self.spec(kind)
        is_named = isinstance(kind, types.NewType) or (isinstance(kind, types.Enum) and kind.base is None)
        return str(kind) if is_named else ""

    def spec(self, kind: types.Type) -> p4t.P4DataTypeSpec:
        """The message for a type. Named types in it are listed, and those in them."""
        self.used = True
        into = p4t.P4DataTypeSpec()
        match kind:
            case types.Bits():
                (into.bitstring.int if kind.signed else into.bitstring.bit).bitwidth = kind.width
            case types.Varbits():
                into.bitstring.varbit.max_bitwidth = kind.width
            case types.BOOL:
                into.bool.SetInParent()
            case types.ERROR:
                into.error.SetInParent()
                if not self.message.error.members:
                    self.message.error.members.extend(self.errors)
            case types.Tuple():
                into.tuple.SetInParent()
                into.tuple.members.extend(map(self.spec, kind.elements))
            case types.Stack(element=types.Union()):
                into.header_union_stack.header_union.CopyFrom(self.spec(kind.element).header_union)
                into.header_union_stack.size = kind.size
            case types.Stack():
                into.header_stack.header.CopyFrom(self.spec(kind.element).header)
                into.header_stack.size = kind.size
            case types.Record() | types.Enum() | types.NewType():
                self._named(kind, into)
        return into

    def _named(self, kind: types.Record | types.Enum | types.NewType, into: p4t.P4DataTypeSpec) -> None:
        """Fill in the name of a type, and list the type where it is not listed yet."""
        has_values = isinstance(kind, types.Enum) and kind.base is not None
        field = "serializable_enum" if has_values else _FIELDS[type(kind)]
        name = str(kind)
        getattr(into, field).name = name
        listed = getattr(self.message, f"{field}s")
        if name not in listed:
            _WRITE[field](self, kind, listed[name])


def _struct(info: TypeInfo, kind: types.Struct, into: p4t.P4StructTypeSpec) -> None:
    for part in kind.fields:
        into.members.add(name=part.name, type_spec=info.spec(part.type))


def _header(info: TypeInfo, kind: types.Header, into: p4t.P4HeaderTypeSpec) -> None:
    for part in kind.fields:
        base = types.underlying(part.type)
        spec = info.spec(types.Bits(1) if base == types.BOOL else base)
        into.members.add(name=part.name, type_spec=spec.bitstring)


def _union(info: TypeInfo, kind: types.Union, into: p4t.P4HeaderUnionTypeSpec) -> None:
    for part in kind.fields:
        into.members.add(name=part.name, header=info.spec(part.type).header)


def _enum(_: TypeInfo, kind: types.Enum, into: p4t.P4EnumTypeSpec) -> None:
    for name, _value in kind.members:
        into.members.add(name=name)


def _serializable_enum(_: TypeInfo, kind: types.Enum, into: p4t.P4SerializableEnumTypeSpec) -> None:
    into.underlying_type.bitwidth = types.width(kind)
    for name, value in kind.members:
        into.members.add(name=name, value=as_bytes(value or 0, types.width(kind)))


def _new(info: TypeInfo, kind: types.NewType, into: p4t.P4NewTypeSpec) -> None:
    if translated := translation(kind):
        into.translated_type.uri, bits = translated
        if bits is None:
            into.translated_type.sdn_string.SetInParent()
        else:
            into.translated_type.sdn_bitwidth = bits
    else:
        base = kind.base
        while isinstance(base, types.NewType):
            base = base.base
        into.original_type.CopyFrom(info.spec(base))
    annotate(into, kind.declaration.annotations, OF_TYPES)


_FIELDS: dict[type, str] = {
    types.Struct: "struct", types.Header: "header", types.Union: "header_union", types.Enum: "enum",
    types.NewType: "new_type",
}  # fmt: skip
_WRITE: dict[str, Callable[..., None]] = {
    "struct": _struct, "header": _header, "header_union": _union, "enum": _enum, "new_type": _new,
    "serializable_enum": _serializable_enum,
}  # fmt: skip
