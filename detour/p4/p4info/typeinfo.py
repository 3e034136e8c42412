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
        result = p4t.P4DataTypeSpec()
        write = _WRITE.get(type(kind))
        if write:
            write(self, kind, result)
        return result


def _bits(_: TypeInfo, kind: types.Bits, into: p4t.P4DataTypeSpec) -> None:
    (into.bitstring.int if kind.signed else into.bitstring.bit).bitwidth = kind.width


def _varbits(_: TypeInfo, kind: types.Varbits, into: p4t.P4DataTypeSpec) -> None:
    into.bitstring.varbit.max_bitwidth = kind.width


def _simple(info: TypeInfo, kind: types.Simple, into: p4t.P4DataTypeSpec) -> None:
    if kind == types.BOOL:
        into.bool.SetInParent()
    elif kind == types.ERROR:
        into.error.SetInParent()
        if not info.message.error.members:
            info.message.error.members.extend(info.errors)


def _tuple(info: TypeInfo, kind: types.Tuple, into: p4t.P4DataTypeSpec) -> None:
    into.tuple.SetInParent()
    into.tuple.members.extend(info.spec(element) for element in kind.elements)


def _struct(info: TypeInfo, kind: types.Struct, into: p4t.P4DataTypeSpec) -> None:
    into.struct.name = name = str(kind)
    if name not in info.message.structs:
        struct = info.message.structs[name]
        for part in kind.fields:
            struct.members.add(name=part.name, type_spec=info.spec(part.type))


def _header(info: TypeInfo, kind: types.Header, into: p4t.P4DataTypeSpec) -> None:
    into.header.name = name = str(kind)
    if name not in info.message.headers:
        header = info.message.headers[name]
        for part in kind.fields:
            base = types.underlying(part.type)
            spec = info.spec(types.Bits(1) if base == types.BOOL else base)
            header.members.add(name=part.name, type_spec=spec.bitstring)


def _union(info: TypeInfo, kind: types.Union, into: p4t.P4DataTypeSpec) -> None:
    into.header_union.name = name = str(kind)
    if name not in info.message.header_unions:
        union = info.message.header_unions[name]
        for part in kind.fields:
            union.members.add(name=part.name, header=info.spec(part.type).header)


def _stack(info: TypeInfo, kind: types.Stack, into: p4t.P4DataTypeSpec) -> None:
    element = info.spec(kind.element)
    if isinstance(kind.element, types.Union):
        into.header_union_stack.header_union.CopyFrom(element.header_union)
        into.header_union_stack.size = kind.size
    else:
        into.header_stack.header.CopyFrom(element.header)
        into.header_stack.size = kind.size


def _enum(info: TypeInfo, kind: types.Enum, into: p4t.P4DataTypeSpec) -> None:
    if kind.base is None:
        into.enum.name = kind.name
        if kind.name not in info.message.enums:
            enum = info.message.enums[kind.name]
            for name, _ in kind.members:
                enum.members.add(name=name)
        return
    into.serializable_enum.name = kind.name
    if kind.name not in info.message.serializable_enums:
        bits = types.width(kind)
        serializable = info.message.serializable_enums[kind.name]
        serializable.underlying_type.bitwidth = bits
        for name, value in kind.members:
            serializable.members.add(name=name, value=as_bytes(value or 0, bits))


def _new(info: TypeInfo, kind: types.NewType, into: p4t.P4DataTypeSpec) -> None:
    into.new_type.name = kind.name
    if kind.name in info.message.new_types:
        return
    new = info.message.new_types[kind.name]
    if translated := translation(kind):
        uri, bits = translated
        new.translated_type.uri = uri
        if bits is None:
            new.translated_type.sdn_string.SetInParent()
        else:
            new.translated_type.sdn_bitwidth = bits
    else:
        base = kind.base
        while isinstance(base, types.NewType):
            base = base.base
        new.original_type.CopyFrom(info.spec(base))
    annotate(new, kind.declaration.annotations, OF_TYPES)


_WRITE: dict[type, Callable[..., None]] = {
    types.Bits: _bits, types.Varbits: _varbits, types.Simple: _simple, types.Tuple: _tuple, types.Struct: _struct,
    types.Header: _header, types.Union: _union, types.Stack: _stack, types.Enum: _enum, types.NewType: _new,
}  # fmt: skip
