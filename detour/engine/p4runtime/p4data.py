# SPDX-License-Identifier: Apache-2.0
"""P4Data for registers and digests (spec, "Representation of Arbitrary P4 Types").

BMv2 flattens structs and tuples to bit strings, so a type is a tree whose leaves are integers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from finsy.proto import p4d, p4t

from detour.engine.p4runtime import bytestrings
from detour.engine.p4runtime.errors import invalid

MAX_P4INFO_BITS = 1 << 14

_DEPTH = 16  # type_info comes from the client and may refer to itself


T = TypeVar("T")


class Unsupported(Exception):
    """A type that cannot be in a BMv2 register or digest."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """An integer of `bits` bits, shown as `form`: bit, int, bool, enum_value (serializable), enum."""

    form: str
    bits: int
    names: tuple[str, ...] = ()

    def leaves(self) -> Iterator[Leaf]:
        """The leaves in order."""
        yield self

    def encode(self, values: Iterator[int], into: p4d.P4Data) -> None:
        """Take one unsigned integer of `bits` bits."""
        value = next(values)
        match self.form:
            case "bit":
                into.bitstring = bytestrings.encode(value)
            case "int":
                signed = value - (1 << self.bits) if value >> (self.bits - 1) else value
                into.bitstring = bytestrings.encode_signed(signed)
            case "bool":
                into.bool = bool(value)
            case "enum":
                into.enum = self.names[value] if value < len(self.names) else str(value)
            case _:
                into.enum_value = bytestrings.encode(value)

    def decode(self, data: p4d.P4Data, what: str) -> int:
        """The unsigned integer of `bits` bits."""
        field = {"bit": "bitstring", "int": "bitstring"}.get(self.form, self.form)
        if data.WhichOneof("data") != field:
            got = data.WhichOneof("data") or "nothing"
            raise invalid(f"{what}: the data must be {field}, not {got}")
        match self.form:
            case "bit":
                return bytestrings.decode(data.bitstring, self.bits, what)
            case "int":
                return bytestrings.decode_signed(data.bitstring, self.bits, what) & ((1 << self.bits) - 1)
            case "bool":
                return int(data.bool)
            case "enum":
                if data.enum not in self.names:
                    raise invalid(f"{what}: '{data.enum}' is not one of {', '.join(self.names)}")
                return self.names.index(data.enum)
        return bytestrings.decode(data.enum_value, self.bits, what)


@dataclass(frozen=True, slots=True)
class Members:
    """A struct or tuple."""

    form: str
    members: tuple[Leaf | Members, ...]

    def leaves(self) -> Iterator[Leaf]:
        """The leaves in order."""
        for member in self.members:
            yield from member.leaves()

    def encode(self, values: Iterator[int], into: p4d.P4Data) -> None:
        """Take one integer a leaf."""
        target = into.struct if self.form == "struct" else into.tuple
        target.SetInParent()
        for member in self.members:
            member.encode(values, target.members.add())

    def decode(self, data: p4d.P4Data, what: str) -> int:
        """BMv2 has no registers of structs."""
        raise invalid(f"{what}: data of a {self.form} cannot be written")


DataType = Leaf | Members


def data_type(spec: p4t.P4DataTypeSpec, info: p4t.P4TypeInfo, depth: int = 0) -> DataType:
    """The type that a spec in P4Info describes; raises Unsupported."""
    if depth > _DEPTH:
        raise Unsupported("types nested too deep")
    kind = spec.WhichOneof("type_spec")
    match kind:
        case "bitstring":
            form = spec.bitstring.WhichOneof("type_spec")
            if form in ("bit", "int"):
                return _wide(Leaf(form, getattr(spec.bitstring, form).bitwidth))
            raise Unsupported("varbit")
        case "bool":
            return Leaf("bool", 1)
        case "struct":
            named = _named(info.structs, spec.struct.name)
            return Members("struct", tuple(data_type(m.type_spec, info, depth + 1) for m in named.members))
        case "tuple":
            return Members("tuple", tuple(data_type(m, info, depth + 1) for m in spec.tuple.members))
        case "serializable_enum":
            named = _named(info.serializable_enums, spec.serializable_enum.name)
            return _wide(Leaf("enum_value", named.underlying_type.bitwidth))
        case "enum":
            names = tuple(m.name for m in _named(info.enums, spec.enum.name).members)
            return Leaf("enum", 32, names)
        case "new_type":
            new = _named(info.new_types, spec.new_type.name)
            if new.WhichOneof("representation") == "original_type":
                return data_type(new.original_type, info, depth + 1)
            if new.translated_type.WhichOneof("sdn_type") == "sdn_bitwidth":
                return Leaf("bit", new.translated_type.sdn_bitwidth)
    raise Unsupported(f"the type {kind or 'that is not given'}")


def _wide(leaf: Leaf) -> Leaf:
    if not 0 < leaf.bits <= MAX_P4INFO_BITS:
        raise Unsupported(f"{leaf.form}<{leaf.bits}>")
    return leaf


def _named(types: Mapping[str, T], name: str) -> T:
    if name not in types:
        raise Unsupported(f"'{name}' (type_info does not have it)")
    return types[name]
