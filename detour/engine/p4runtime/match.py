# SPDX-License-Identifier: Apache-2.0
"""Match keys between `FieldMatch` messages and the tuples of `detour.engine.tables` (spec, "Match Format").

Elements: exact `int`; lpm `(value, prefix_len)`; ternary `(value, mask)`; range `(low, high)`; optional
`int | None`. A field that is "don't care" is absent from messages and its `wild` element in tuples.
These run once a field of every entry written, so they are flat and do their checks inline.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from finsy.proto import p4i, p4r

from detour.engine.p4runtime.bytestrings import decode, encode, out_of_range
from detour.engine.p4runtime.errors import Refused, invalid

_Kind = p4i.MatchField.MatchType


def numbers(m: p4r.FieldMatch) -> tuple[int, ...]:
    """Return the numbers of a well-formed field match: value; value, mask; value, prefix length; low, high. "" is 0."""
    given = getattr(m, m.WhichOneof("field_match_type") or "exact").ListFields()
    return tuple(value if isinstance(value, int) else int.from_bytes(value, "big") for _, value in given) or (0,)


class FieldCodec:
    """One match field. `position` is its place in the key of the BMv2 JSON."""

    kind = ""
    wild: Any = None
    prioritised = False

    def __init__(self, id_: int, name: str, bits: int, position: int, where: str) -> None:
        self.id, self.name, self.bits, self.position = id_, name, bits, position
        self.what = f"{where}: match field '{name or id_}'"

    def decode(self, m: p4r.FieldMatch) -> Any:
        """The key's element."""
        raise NotImplementedError

    def encode(self, m: p4r.FieldMatch, element: Any) -> None:
        """Write an element that is not wild."""
        raise NotImplementedError

    def is_wild(self, element: Any) -> bool:
        """Return whether the element matches everything."""
        return element == self.wild

    def normal(self, element: Any) -> Any:
        """An element as the engine reads it back, in the form that `decode` gives it."""
        return element

    def wrong_kind(self, m: p4r.FieldMatch) -> Refused:
        """The refusal of a message of another kind."""
        got = m.WhichOneof("field_match_type") or "nothing"
        return invalid(f"{self.what} is {self.kind}, the request has {got}")


class _Missing:
    """Stands in a key for an exact field that the message did not give."""


MISSING = _Missing()


class ExactCodec(FieldCodec):
    """There is no don't-care value for exact fields."""

    kind = "exact"
    wild = MISSING

    def decode(self, m: p4r.FieldMatch) -> int:
        if not m.HasField("exact"):
            raise self.wrong_kind(m)
        data = m.exact.value
        value = int.from_bytes(data, "big")
        if value >> self.bits or not data:
            raise out_of_range(data, self.bits, self.what)
        return value

    def encode(self, m: p4r.FieldMatch, element: int) -> None:
        m.exact.value = encode(element)


class LpmCodec(FieldCodec):
    """Don't-care bits of the value must be 0, and a prefix of length 0 must be omitted."""

    kind = "lpm"
    wild = (0, 0)

    def decode(self, m: p4r.FieldMatch) -> tuple[int, int]:
        if not m.HasField("lpm"):
            raise self.wrong_kind(m)
        lpm = m.lpm
        data, length, bits = lpm.value, lpm.prefix_len, self.bits
        value = int.from_bytes(data, "big")
        if value >> bits or not data:
            raise out_of_range(data, bits, self.what)
        if not 0 < length <= bits:
            hint = ": leave the field out to match anything" if length == 0 else ""
            raise invalid(f"{self.what}: prefix length {length} is not in 1..{bits}{hint}")
        if value & ((1 << (bits - length)) - 1):
            raise invalid(f"{self.what}: 0x{value:x}/{length} has bits set behind the prefix")
        return value, length

    def encode(self, m: p4r.FieldMatch, element: tuple[int, int]) -> None:
        m.lpm.value, m.lpm.prefix_len = encode(element[0]), element[1]

    def is_wild(self, element: tuple[int, int]) -> bool:
        return element[1] == 0


class TernaryCodec(FieldCodec):
    """Masked bits of the value must be 0, and a mask of zeros must be omitted."""

    kind = "ternary"
    wild = (0, 0)
    prioritised = True

    def decode(self, m: p4r.FieldMatch) -> tuple[int, int]:
        if not m.HasField("ternary"):
            raise self.wrong_kind(m)
        ternary, bits = m.ternary, self.bits
        data = ternary.value
        value = int.from_bytes(data, "big")
        if value >> bits or not data:
            raise out_of_range(data, bits, self.what)
        data = ternary.mask
        mask = int.from_bytes(data, "big")
        if mask >> bits or not data:
            raise out_of_range(data, bits, self.what)
        if not mask:
            raise invalid(f"{self.what}: the mask is 0: leave the field out to match anything")
        if value & ~mask:
            raise invalid(f"{self.what}: 0x{value:x} has bits set outside its mask 0x{mask:x}")
        return value, mask

    def encode(self, m: p4r.FieldMatch, element: tuple[int, int]) -> None:
        m.ternary.value, m.ternary.mask = encode(element[0]), encode(element[1])

    def is_wild(self, element: tuple[int, int]) -> bool:
        return element[1] == 0


class RangeCodec(FieldCodec):
    """The range of all values must be omitted."""

    kind = "range"
    prioritised = True

    def __init__(self, id_: int, name: str, bits: int, position: int, where: str) -> None:
        super().__init__(id_, name, bits, position, where)
        self.wild = (0, (1 << bits) - 1)

    def decode(self, m: p4r.FieldMatch) -> tuple[int, int]:
        if not m.HasField("range"):
            raise self.wrong_kind(m)
        low = decode(m.range.low, self.bits, self.what)
        high = decode(m.range.high, self.bits, self.what)
        if low > high:
            raise invalid(f"{self.what}: the range 0x{low:x}..0x{high:x} is empty")
        if (low, high) == self.wild:
            raise invalid(f"{self.what}: the range has all values: leave the field out to match anything")
        return low, high

    def encode(self, m: p4r.FieldMatch, element: tuple[int, int]) -> None:
        m.range.low, m.range.high = encode(element[0]), encode(element[1])


class OptionalCodec(FieldCodec):
    """BMv2 implements it as ternary: the engine reads back `(value, mask)`."""

    kind = "optional"
    wild = None
    prioritised = True

    def decode(self, m: p4r.FieldMatch) -> int:
        if not m.HasField("optional"):
            raise self.wrong_kind(m)
        return decode(m.optional.value, self.bits, self.what)

    def encode(self, m: p4r.FieldMatch, element: Any) -> None:
        m.optional.value = encode(self.normal(element))

    def is_wild(self, element: Any) -> bool:
        return self.normal(element) is None

    def normal(self, element: Any) -> Any:
        if isinstance(element, tuple):
            return element[0] if element[1] else None
        return element


CODECS: dict[int, type[FieldCodec]] = {
    _Kind.EXACT: ExactCodec,
    _Kind.LPM: LpmCodec,
    _Kind.TERNARY: TernaryCodec,
    _Kind.RANGE: RangeCodec,
    _Kind.OPTIONAL: OptionalCodec,
}


class MatchCodec:
    """The whole key of a table or of a value set."""

    def __init__(self, where: str, fields: list[FieldCodec]) -> None:
        self.where = where
        self.fields = sorted(fields, key=lambda f: f.position)
        self._by_id = {f.id: f for f in fields}
        self._wild = [f.wild for f in self.fields]
        self._exact = tuple(f for f in self.fields if f.wild is MISSING)
        self.prioritised = any(f.prioritised for f in fields)

    def decode(self, matches: Iterable[p4r.FieldMatch]) -> tuple[Any, ...]:
        """The key as the engine's tables take it; INVALID_ARGUMENT or OUT_OF_RANGE when it is malformed."""
        key = self._wild.copy()
        by_id = self._by_id
        for m in matches:
            field = by_id.get(m.field_id)
            if field is None:
                raise invalid(f"{self.where}: there is no match field {m.field_id}")
            at = field.position
            if key[at] is not field.wild:
                raise invalid(f"{field.what} is given twice")
            key[at] = field.decode(m)
        for field in self._exact:
            if key[field.position] is MISSING:
                raise invalid(f"{field.what} is exact and must be given")
        return tuple(key)

    def normal(self, key: tuple[Any, ...]) -> tuple[Any, ...]:
        """A key as read back from the engine, in the form that `decode` gives it."""
        return tuple(f.normal(element) for f, element in zip(self.fields, key, strict=True))

    def encode(self, key: tuple[Any, ...], into: Any) -> None:
        """Add the fields that are not "don't care" to a repeated field `match`."""
        for field, element in zip(self.fields, key, strict=True):
            if not field.is_wild(element):
                m = into.add()
                m.field_id = field.id
                field.encode(m, element)
