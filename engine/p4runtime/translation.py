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
from copy import copy
from typing import Any, NamedTuple

from finsy.proto import p4i, p4r, p4t

from detour.engine.p4runtime import annotations
from detour.engine.p4runtime.bytestrings import decode, encode
from detour.engine.p4runtime.errors import Code, Refused, invalid
from detour.engine.tables import NoSuchEntry

_MOST = 1 << 18  # values of a type
_LONGEST = 255  # bytes of a string
_PAIR = re.compile(r'\{\s*(?:"((?:[^"\\]|\\.)*)"|(\w+))\s*,\s*(\w+)\s*\}')
_Kind = p4r.Update.Type.ValueType | None  # of an update; None: a request to read


class TranslatedType:
    """A type with translation, as P4Info has it. Types with one URI are one."""

    def __init__(self, name: str, spec: p4t.P4NewTypeSpec) -> None:
        self.name, self.bits = name, 0
        """`bits`: in the data plane, which is known from where the type is used"""
        self.sdn_bits = spec.translated_type.sdn_bitwidth  # 0: strings
        self.allocates = "false" not in annotations.arguments(spec.annotations, "p4runtime_translation_auto_allocate")
        self.explicit: dict[bytes, int] = {}
        for text in annotations.arguments(spec.annotations, "p4runtime_translation_mappings"):
            self._read(text)

    def _read(self, text: str) -> None:
        pairs = _PAIR.findall(text)
        if len(pairs) != text.count("{") - 1:
            raise invalid(f"P4Info: type {self.name}: the mappings {text} are not like {{ {{ \"name\" , 1 }} }}")
        for string, number, target in pairs:
            value = encode(int(number, 0)) if number else re.sub(r"\\(.)", r"\1", string).encode()
            self.explicit[value] = int(target, 0)
        if len({*self.explicit.values()}) < len(pairs):
            raise invalid(f"P4Info: type {self.name}: two mappings have one value or one number")

    def use(self, bits: int) -> int:
        """It is used for a field of so many bits; returns that."""
        self.bits = min(self.bits or bits, bits)
        return bits

    def canonical(self, value: bytes) -> bytes:
        """The one form of an SDN value."""
        if self.sdn_bits:
            return encode(decode(value, self.sdn_bits, f"type {self.name}"))
        try:
            value.decode()
        except UnicodeDecodeError:
            raise invalid(f"type {self.name}: {value[:20]!r} is not UTF-8") from None
        if len(value) > _LONGEST:
            raise invalid(f"type {self.name}: a string of {len(value)} bytes, it may have {_LONGEST}")
        return value

    def spelled(self, value: bytes) -> int | None:
        """The number that a value spells, if it is one of the data plane."""
        if self.sdn_bits:
            number = int.from_bytes(value, "big")
        elif re.fullmatch(rb"0|[1-9][0-9]{0,30}", value):
            number = int(value)
        else:
            return None
        return None if number >> self.bits else number

    def spell(self, number: int) -> bytes:
        """The value that spells a number."""
        return encode(number) if self.sdn_bits else b"%d" % number

    def show(self, value: bytes) -> str:
        """For errors."""
        return f"0x{value.hex()}" if self.sdn_bits else f"'{value.decode()}'"


class _Exhausted(Refused):
    """There is no number left."""


class _Values:
    """The values that one type has in one store."""

    def __init__(self, kind: TranslatedType) -> None:
        self.kind = kind
        self._numbers = dict(kind.explicit)
        self._values = {number: value for value, number in kind.explicit.items()}
        self._free = 1
        self._used: set[int] | None = None
        self.pending: set[int] = set()
        """numbers of what is being written, which nothing may have yet"""
        self._lock = threading.Lock()

    def number(self, value: bytes, allocate: bool) -> int:
        """The number of a value; NOT_FOUND if it has none and is to get none."""
        value = self.kind.canonical(value)
        number = self._numbers.get(value)
        if number is None:
            if not allocate:
                raise NoSuchEntry(f"type {self.kind.name}: nothing has {self.kind.show(value)}")
            if not self.kind.allocates:
                raise invalid(f"type {self.kind.name}: {self.kind.show(value)} is not one of its explicit values")
            with self._lock:
                number = self.kind.spelled(value)
                if number is None or number in self._values:
                    number = self._lowest()
                self._note(value, number)
        if allocate:
            self.pending.add(number)
        return number

    def _lowest(self) -> int:
        """The lowest number that is free, 0 last: that is what fields are that nobody has set."""
        limit = 1 << self.kind.bits
        while self._free < limit and self._free in self._values:
            self._free += 1
        if (number := self._free % limit) in self._values or len(self._values) >= _MOST:
            raise _Exhausted(Code.RESOURCE_EXHAUSTED, f"type {self.kind.name}: all values are in use")
        return number

    def _note(self, value: bytes, number: int) -> None:
        self._numbers[value], self._values[number] = number, value

    def value(self, number: int) -> bytes:
        """The value of a number. One that no controller has named (a port by which a packet came, a constant of the
        program) spells its number from then on."""
        if self._used is not None:
            self._used.add(number)
        value = self._values.get(number)
        if value is None:
            value = self.kind.spell(number)
            with self._lock:
                if value in self._numbers:
                    value = b"#" * (not self.kind.sdn_bits) + value
                if self.kind.allocates and value not in self._numbers and len(self._values) < _MOST:
                    self._note(value, number)
        return value

    def mark(self) -> None:
        """From now on it is noted which numbers are in use."""
        self._used = self.pending | set(self.kind.explicit.values())

    def sweep(self) -> int:
        """Forgets the others; returns how many. A snapshot keeps them."""
        used, before = self._used or set(), len(self._values)
        self._values = {number: value for number, value in self._values.items() if number in used}
        self._numbers = {value: number for number, value in self._values.items()}
        self._free, self._used = 1, None
        return before - len(self._values)

    def inherit(self, other: _Values) -> None:
        """Takes over what another store has allocated, as far as it is free here."""
        for value, number in other._numbers.items():
            if value not in self._numbers and number not in self._values and not number >> self.kind.bits:
                self._note(value, number)


class _Place(NamedTuple):
    """Where a value of a translated type stands in a message. `key`: it says which entity is meant."""

    message: Any
    field: str
    kind: TranslatedType
    key: bool


_Fields = dict[int, dict[int, TranslatedType]]  # id of the table, action or value set; of the field


class TranslationPlan:
    """What is of which type in a program."""

    def __init__(self, info: p4i.P4Info) -> None:
        by_uri: dict[str, TranslatedType] = {}
        self.types: dict[str, TranslatedType] = {}
        for name, spec in sorted(info.type_info.new_types.items()):
            if spec.WhichOneof("representation") == "translated_type":
                self.types[name] = by_uri.setdefault(spec.translated_type.uri or name, TranslatedType(name, spec))
        self.matches = self._fields(info.tables, "match_fields")
        self.params = self._fields(info.actions, "params")
        self.value_sets = self._fields(info.value_sets, "match")
        headers = {h.preamble.name: h.metadata for h in info.controller_packet_metadata}
        self.metadata = {
            name: {m.id: kind for m in fields if (kind := self.of(m))} for name, fields in headers.items()
        }
        ports = (kind for fields in headers.values() for m in fields if "port" in m.name and (kind := self.of(m)))
        named = (kind for name, kind in self.types.items() if name.lower().replace("_", "") in ("portidt", "portid"))
        self.port = next(ports, None) or next(named, None)
        """of replicas and watch ports, whose type P4Info does not say: that of a port in a packet-in or packet-out
        (as in 4ward), else `port_id_t` or `PortId_t`"""

    def of(self, described: Any) -> TranslatedType | None:
        """The translated type of a match field, parameter or metadata field."""
        return self.types.get(described.type_name.name)

    def _fields(self, objects: Iterable[Any], attribute: str) -> _Fields:
        by_id = {
            each.preamble.id: {field.id: kind for field in getattr(each, attribute) if (kind := self.of(field))}
            for each in objects
        }
        return {id_: fields for id_, fields in by_id.items() if fields}

    def places(self, entity: p4r.Entity) -> Iterator[_Place]:
        """The values in an entity, or in a request for entities, that are translated."""
        name = entity.WhichOneof("entity")
        match name:
            case "table_entry":
                yield from self.of_entry(entity.table_entry)
            case "direct_counter_entry" | "direct_meter_entry":
                yield from self.of_entry(getattr(entity, name).table_entry)
            case "action_profile_member":
                yield from self._of_action(entity.action_profile_member.action)
            case "action_profile_group":
                yield from self._of_watch_ports(entity.action_profile_group.members)
            case "packet_replication_engine_entry" if self.port is not None:
                entry = entity.packet_replication_engine_entry
                kind = entry.WhichOneof("type")
                for replica in getattr(entry, kind).replicas if kind else ():
                    if replica.WhichOneof("port_kind") == "port":
                        yield _Place(replica, "port", self.port, False)
            case "value_set_entry":
                fields = self.value_sets.get(entity.value_set_entry.value_set_id, {})
                for member in entity.value_set_entry.members:
                    yield from _of_match(member.match, fields, False)

    def of_entry(self, entry: p4r.TableEntry) -> Iterator[_Place]:
        """Those in a table entry."""
        yield from _of_match(entry.match, self.matches.get(entry.table_id, {}), True)
        kind = entry.action.WhichOneof("type")
        if kind == "action":
            yield from self._of_action(entry.action.action)
        elif kind == "action_profile_action_set":
            actions = entry.action.action_profile_action_set.action_profile_actions
            yield from self._of_watch_ports(actions)
            for each in actions:
                yield from self._of_action(each.action)

    def _of_action(self, action: p4r.Action) -> Iterator[_Place]:
        fields = self.params.get(action.action_id, {})
        for param in action.params if fields else ():
            if param.param_id in fields:
                yield _Place(param, "value", fields[param.param_id], False)

    def _of_watch_ports(self, members: Iterable[Any]) -> Iterator[_Place]:
        for member in members if self.port is not None else ():
            if member.watch_port:  # none is nothing to watch
                yield _Place(member, "watch_port", self.port, False)


def _of_match(matches: Iterable[p4r.FieldMatch], fields: dict[int, TranslatedType], key: bool) -> Iterator[_Place]:
    """Masks, prefixes and ranges of translated numbers are those of the data plane; strings have none."""
    for m in matches if fields else ():
        if (kind := fields.get(m.field_id)) is None:
            continue
        form = m.WhichOneof("field_match_type")
        if form in ("exact", "optional"):
            yield _Place(getattr(m, form), "value", kind, key)
        elif not kind.sdn_bits:
            raise Refused(Code.UNIMPLEMENTED, f"type {kind.name}: strings match exactly or are optional, not {form}")


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

    def inward(self, entity: p4r.Entity, kind: _Kind = None) -> p4r.Entity:
        """An entity of an update of that kind, or a request to read, with numbers. New values get numbers where
        something is written. NOT_FOUND: nothing has one of the values that say which entity is meant."""
        if not self._values or not any(True for _ in self._plan.places(entity)):
            return entity
        other = p4r.Entity()
        other.CopyFrom(entity)
        writes = kind in (p4r.Update.INSERT, p4r.Update.MODIFY)
        for place in self._plan.places(other):
            if writes or place.key:
                allocate = writes and (kind == p4r.Update.INSERT or not place.key)
                self._rewrite(place, lambda values, value, allocate=allocate: self._number(values, value, allocate))
        return other

    def _number(self, values: _Values, value: bytes, allocate: bool) -> bytes:
        try:
            return encode(values.number(value, allocate))
        except _Exhausted:
            self._forget_unused()
            return encode(values.number(value, allocate))

    def _forget_unused(self) -> None:
        everything, self._everything = self._everything, None
        if everything is not None:
            for values in self._values.values():
                values.mark()
            for _ in everything():
                pass
            if sum(values.sweep() for values in self._values.values()):
                self._everything = everything  # it may be worth while again

    def outward(self, entity: p4r.Entity) -> p4r.Entity:
        """An entity (this object) with SDN values."""
        if self._values:
            for place in self._plan.places(entity):
                self._rewrite(place, _shown)
        return entity

    def notice(self, entry: p4r.TableEntry) -> None:
        """The same for an entry in a notification."""
        for place in self._plan.of_entry(entry):
            self._rewrite(place, _shown)

    def _rewrite(self, place: _Place, convert: Callable[[_Values, bytes], bytes]) -> None:
        setattr(place.message, place.field, convert(self._values[place.kind], getattr(place.message, place.field)))

    def packet_out(self, metadata: Iterable[p4r.PacketMetadata]) -> Iterator[p4r.PacketMetadata]:
        """Metadata with numbers."""
        types = self._plan.metadata.get("packet_out", {})
        for m in metadata:
            if kind := types.get(m.metadata_id):
                m = p4r.PacketMetadata(
                    metadata_id=m.metadata_id, value=encode(self._values[kind].number(m.value, True))
                )
            yield m

    def packet_in(self, packet: p4r.PacketIn) -> None:
        """Gives a packet-in SDN values."""
        types = self._plan.metadata.get("packet_in", {})
        for m in packet.metadata if types else ():
            if kind := types.get(m.metadata_id):
                m.value = _shown(self._values[kind], m.value)

    def show(self, kind: TranslatedType | None, number: int) -> str:
        """A value for errors."""
        return f"0x{number:x}" if kind is None else kind.show(self._values[kind].value(number))

    def inherit(self, other: Translation) -> None:
        """What the values of another store stand for, they stand for here, as far as the programs agree."""
        before = {kind.name: values for kind, values in other._values.items()}
        for kind, values in self._values.items():
            old = before.get(kind.name)
            if old is not None and old.kind.sdn_bits == kind.sdn_bits:
                values.inherit(old)

    def snapshot(self) -> Translation:
        """As it is now; what is allocated later may be in it."""
        other = copy(self)
        other._values = {kind: copy(values) for kind, values in self._values.items()}
        return other


def _shown(values: _Values, number: bytes) -> bytes:
    return values.value(int.from_bytes(number, "big"))
