# SPDX-License-Identifier: Apache-2.0
"""`@p4runtime_translation`: values as controllers know them (SDN values), and the numbers of the data plane.

`Translation.inward` rewrites what a controller sends before anything else looks at it, `outward` what it gets after
everything else; all between knows numbers only. A value has the number that the program says
(`@p4runtime_translation_mappings`), else the one that it spells ("7", 0x07), if that is free, else the lowest free one,
and keeps it while an entity has it. With `@p4runtime_translation_auto_allocate(false)` those of the program are all.

Sources: spec, "User-defined types" and "Translation of Port Numbers", which leave the mapping to the server; 4ward,
docs/TYPE_TRANSLATION.md (its three modes); sonic-pins, sai_p4/fixed/metadata.p4 (the mappings' annotation).
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from copy import copy
from typing import Any, NamedTuple, TypeVar

from finsy.proto import p4i, p4r, p4t

from detour.engine.p4runtime import annotations
from detour.engine.p4runtime.bytestrings import decode, encode
from detour.engine.p4runtime.errors import Code, Refused, invalid
from detour.engine.tables import NoSuchEntry

M = TypeVar("M", p4r.Entity, p4r.TableEntry, p4r.PacketIn, p4r.PacketOut)
_MOST = 1 << 18  # values of a type
_LONGEST = 255  # bytes of a string
_NUMBER = r"(0[xX][0-9a-fA-F]+|0|[1-9][0-9]*)"
_PAIR = re.compile(rf'\{{\s*(?:"((?:[^"\\]|\\.)*)"|{_NUMBER})\s*,\s*{_NUMBER}\s*\}}')
_INSERT, _MODIFY = p4r.Update.INSERT, p4r.Update.MODIFY


class TranslatedType:
    """A type with translation, as P4Info has it. Types with one URI are one."""

    def __init__(self, name: str, spec: p4t.P4NewTypeSpec) -> None:
        self.name, self.bits = name, 0
        """`bits`: in the data plane, which is known from where the type is used"""
        self.sdn_bits = spec.translated_type.sdn_bitwidth  # 0: strings
        self.allocates = "false" not in annotations.arguments(spec.annotations, "p4runtime_translation_auto_allocate")
        self.explicit: dict[bytes, int] = {}
        for text in annotations.arguments(spec.annotations, "p4runtime_translation_mappings"):
            pairs = _PAIR.findall(text)
            for string, number, target in pairs:
                value = encode(int(number, 0)) if number else re.sub(r"\\(.)", r"\1", string).encode()
                self.explicit[value] = int(target, 0)
            if not len(pairs) == text.count("{") - 1 == len({*self.explicit.values()}) == len(self.explicit):
                raise invalid(f'P4Info: type {name}: the mappings {text} are not {{ {{ "a" , 1 }} , ... }}, each once')

    def use(self, bits: int) -> int:
        """Note a use for a field of so many bits; return that number."""
        self.bits = min(self.bits or bits, bits)
        return bits

    def canonical(self, value: bytes) -> bytes:
        """The one form of an SDN value."""
        if self.sdn_bits:
            return encode(decode(value, self.sdn_bits, f"type {self.name}"))
        with suppress(UnicodeDecodeError):
            if len(value.decode()) <= len(value) <= _LONGEST:
                return value
        raise invalid(f"type {self.name}: {value[:20]!r}... is not UTF-8 of at most {_LONGEST} bytes")

    def spelled(self, value: bytes) -> int | None:
        """The number that a value spells, if it is one of the data plane."""
        if not self.sdn_bits and not re.fullmatch(rb"0|[1-9][0-9]{0,30}", value):
            return None
        number = int.from_bytes(value, "big") if self.sdn_bits else int(value)
        return None if number >> self.bits else number

    def show(self, value: bytes) -> str:
        """For errors."""
        return f"0x{value.hex()}" if self.sdn_bits else f"'{value.decode()}'"


class _Exhausted(Refused):
    """There is no number left."""


class _Values:
    """The values that one type has in one store. Packet-ins may bring new ones at any time."""

    def __init__(self, kind: TranslatedType) -> None:
        self.kind = kind
        self._numbers = dict(kind.explicit)
        self._values = {number: value for value, number in kind.explicit.items()}
        self._free = 1
        self.used: set[int] | None = None
        self.pending: set[int] = set()
        """numbers of what is being written, which nothing may have yet; `used`: those that something has"""
        self._lock = threading.Lock()

    def number(self, value: bytes, allocate: bool) -> int:
        """The number of a value; NOT_FOUND if it has none and is to get none."""
        value, kind = self.kind.canonical(value), self.kind
        number = self._numbers.get(value)
        if number is None:
            if not allocate:
                raise NoSuchEntry(f"type {kind.name}: {kind.show(value)} is not in use")
            if not kind.allocates:
                raise invalid(f"type {kind.name}: {kind.show(value)} is not one of its explicit values")
            with self._lock:
                number = kind.spelled(value)
                self._note(value, self._lowest() if number is None or number in self._values else number)
            number = self._numbers[value]
        if allocate:
            self.pending.add(number)
        return number

    def _lowest(self) -> int:
        """The lowest number that is free, 0 last: that is what fields are that nobody has set."""
        limit = 1 << self.kind.bits
        while self._free < limit and self._free in self._values:
            self._free += 1
        if self._free % limit in self._values or len(self._values) >= _MOST:
            raise _Exhausted(Code.RESOURCE_EXHAUSTED, f"type {self.kind.name}: all values are in use")
        return self._free % limit

    def _note(self, value: bytes, number: int) -> None:
        self._numbers[value], self._values[number] = number, value

    def value(self, number: int) -> bytes:
        """The value of a number. One that no controller has named (a port by which a packet came, a constant of the
        program) spells its number from then on."""
        if self.used is not None:
            self.used.add(number)
        value = self._values.get(number)
        if value is None:
            value = encode(number) if self.kind.sdn_bits else b"%d" % number
            with self._lock:
                if value in self._numbers and not self.kind.sdn_bits:
                    value = b"#" + value
                if self.kind.allocates and value not in self._numbers and len(self._values) < _MOST:
                    self._note(value, number)
        return value

    def sweep(self) -> int:
        """Forget what is not in use; return how many. A snapshot keeps them."""
        used = self.pending.union(self.kind.explicit.values(), self.used or ())
        before, self._free, self.used = len(self._values), 1, None
        self._values = {number: value for number, value in self._values.items() if number in used}
        self._numbers = {value: number for number, value in self._values.items()}
        return before - len(self._values)

    def inherit(self, other: _Values) -> None:
        """Take over what another store has allocated, as far as it is free here."""
        for number, value in other._values.items():
            if not (value in self._numbers or number in self._values or number >> self.kind.bits):
                self._note(value, number)


class _Place(NamedTuple):
    """Place of a value of a translated type in a message. `key`: it says which entity is meant."""

    message: Any
    field: str
    kind: TranslatedType
    key: bool = False


class TranslationPlan:
    """The translated types in a program."""

    def __init__(self, info: p4i.P4Info) -> None:
        by_uri: dict[str, TranslatedType] = {}
        self.types: dict[str, TranslatedType] = {}
        for name, spec in sorted(info.type_info.new_types.items()):
            if spec.WhichOneof("representation") == "translated_type":
                self.types[name] = by_uri.setdefault(spec.translated_type.uri or name, TranslatedType(name, spec))
        self._matches = self._fields((t.preamble.id, t.match_fields) for t in info.tables)
        self._matches |= self._fields((v.preamble.id, v.match) for v in info.value_sets)
        self._params = self._fields((a.preamble.id, a.params) for a in info.actions)
        self._metadata = self._fields((h.preamble.name, h.metadata) for h in info.controller_packet_metadata)
        every = (m for header in info.controller_packet_metadata for m in header.metadata if "port" in m.name)
        named = (kind for name, kind in self.types.items() if name.lower().replace("_", "") in ("portidt", "portid"))
        self._port = next((kind for m in every if (kind := self.of(m))), None) or next(named, None)
        """of replicas and watch ports, whose type P4Info does not say: that of a port in a packet-in or packet-out
        (as in 4ward), else `port_id_t` or `PortId_t`"""

    def of(self, described: Any) -> TranslatedType | None:
        """The translated type of a match field, parameter or metadata field."""
        return self.types.get(described.type_name.name)

    def _fields(self, objects: Iterable[tuple[Any, Iterable[Any]]]) -> dict[Any, dict[int, TranslatedType]]:
        by_id = {id_: {field.id: kind for field in fields if (kind := self.of(field))} for id_, fields in objects}
        return {id_: fields for id_, fields in by_id.items() if fields}

    def places(self, message: Any) -> Iterator[_Place]:
        """The values in a message that are translated."""
        if isinstance(message, p4r.PacketIn | p4r.PacketOut):
            types = self._metadata.get("packet_in" if isinstance(message, p4r.PacketIn) else "packet_out", {})
            yield from (_Place(m, "value", types[m.metadata_id]) for m in message.metadata if m.metadata_id in types)
        elif isinstance(message, p4r.TableEntry):
            yield from self._of_match(message.table_id, message.match, True)
            one_shot = message.action.action_profile_action_set.action_profile_actions
            yield from self._of_ports(one_shot, "watch_port")
            for action in (message.action.action, *(each.action for each in one_shot)):
                yield from self._of_action(action)
        else:
            yield from self._of_entity(message)

    def _of_entity(self, entity: p4r.Entity) -> Iterator[_Place]:
        name = entity.WhichOneof("entity")
        match name:
            case "table_entry":
                yield from self.places(entity.table_entry)
            case "direct_counter_entry" | "direct_meter_entry":
                yield from self.places(getattr(entity, name).table_entry)
            case "action_profile_member":
                yield from self._of_action(entity.action_profile_member.action)
            case "action_profile_group":
                yield from self._of_ports(entity.action_profile_group.members, "watch_port")
            case "packet_replication_engine_entry":
                entry = entity.packet_replication_engine_entry
                yield from self._of_ports(entry.multicast_group_entry.replicas, "port")
                yield from self._of_ports(entry.clone_session_entry.replicas, "port")
            case "value_set_entry":
                for member in entity.value_set_entry.members:
                    yield from self._of_match(entity.value_set_entry.value_set_id, member.match, False)

    def _of_action(self, action: p4r.Action) -> Iterator[_Place]:
        if types := self._params.get(action.action_id):
            yield from (_Place(p, "value", types[p.param_id]) for p in action.params if p.param_id in types)

    def _of_ports(self, owners: Iterable[Any], field: str) -> Iterator[_Place]:
        """A port that is not given, or by its number, is none."""
        if self._port is not None:
            yield from (_Place(each, field, self._port) for each in owners if getattr(each, field))

    def _of_match(self, id_: int, matches: Iterable[p4r.FieldMatch], key: bool) -> Iterator[_Place]:
        """Masks, prefixes and ranges of translated numbers are those of the data plane; strings have none."""
        types = self._matches.get(id_, {})
        for m in matches if types else ():
            form = m.WhichOneof("field_match_type") or ""
            if (kind := types.get(m.field_id)) and form in ("exact", "optional"):
                yield _Place(getattr(m, form), "value", kind, key)
            elif kind and not kind.sdn_bits:
                raise Refused(
                    Code.UNIMPLEMENTED, f"type {kind.name}: strings match exactly or are optional, not {form}"
                )


class Translation:
    """The values of all translated types of a store."""

    def __init__(self, plan: TranslationPlan) -> None:
        self._plan = plan
        self._values = {kind: _Values(kind) for kind in plan.types.values()}
        self._everything: Callable[[], Iterable[Any]] | None = None

    def begin(self, everything: Callable[[], Iterable[Any]]) -> None:
        """Some updates are about to be written. `everything` reads all entities, to see which values they have."""
        self._everything = everything
        for values in self._values.values():
            values.pending.clear()

    def inward(self, message: M, kind: int = 0) -> M:
        """A packet-out, an entity of an update of that kind, or a request to read, with numbers. New values get numbers
        where something is written. NOT_FOUND: nothing has one of the values that say which entity is meant."""
        if not self._values or not any(True for _ in self._plan.places(message)):
            return message
        other = type(message)()
        other.CopyFrom(message)  # type: ignore[arg-type]
        writes = kind in (_INSERT, _MODIFY)
        for place in self._plan.places(other):
            if writes or place.key:
                allocate = writes and (kind == _INSERT or not place.key)
                value, entity = getattr(place.message, place.field), isinstance(message, p4r.Entity)
                setattr(place.message, place.field, encode(self._number(place.kind, value, allocate, entity)))
        return other

    def _number(self, kind: TranslatedType, value: bytes, allocate: bool, clean: bool) -> int:
        """`clean`: this thread may read the entities, and forget what they no longer have."""
        values = self._values[kind]
        try:
            return values.number(value, allocate)
        except _Exhausted:
            if (everything := self._everything) is None or not clean:
                raise
        self._everything = None
        for each in self._values.values():
            each.used = set()
        for _ in everything():
            pass  # reading marks what is in use
        if sum(each.sweep() for each in self._values.values()):
            self._everything = everything  # it may be worth while again
        return values.number(value, allocate)

    def outward(self, message: M) -> M:
        """A message (this object) with SDN values."""
        if self._values:
            for place in self._plan.places(message):
                number = int.from_bytes(getattr(place.message, place.field), "big")
                setattr(place.message, place.field, self._values[place.kind].value(number))
        return message

    def show(self, kind: TranslatedType | None, number: int) -> str:
        """A value for errors."""
        return f"0x{number:x}" if kind is None else kind.show(self._values[kind].value(number))

    def inherit(self, other: Translation) -> None:
        """Take over the translations of another store, as far as the programs agree."""
        for kind, values in self._values.items():
            for old, before in other._values.items():
                if (kind.name, kind.sdn_bits) == (old.name, old.sdn_bits):
                    values.inherit(before)

    def snapshot(self) -> Translation:
        """As it is now; what is allocated later may be in it."""
        other = copy(self)
        other._values = {kind: copy(values) for kind, values in self._values.items()}
        return other
