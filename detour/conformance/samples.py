# SPDX-License-Identifier: Apache-2.0
"""Entities for a program of which nothing is known but its P4Info: the n-th valid one of each kind."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from finsy.proto import p4i, p4r
from google.protobuf.message import Message

from detour.base.dataplane import CPU_PORT
from detour.control.p4runtime.codec import to_bytes

MATCH_KINDS = ("exact", "lpm", "ternary", "range", "optional")
"""of match fields"""
NO_ID = 0x7FFFFF
"""no P4Info object has this id: that of none begins with 0 and 0x7F"""
_PART = re.compile(r"(\w+)(?:\[(\d+)\])?")


class MissingObject(Exception):
    """The program has no such object."""


def unsigned(value: int, bits: int) -> bytes:
    """Canonical, of the value's low bits."""
    return to_bytes(value & ((1 << bits) - 1))


def value_of(number: int, bits: int) -> bytes:
    """A number of so many bits; with none, a string, as P4Info says by that."""
    return unsigned(number, bits) if bits else b"name-%d" % number


def duplicate(entity: p4r.Entity) -> p4r.Entity:
    copy = p4r.Entity()
    copy.CopyFrom(entity)
    return copy


def inner(entity: p4r.Entity) -> Any:
    """The message of the entity's kind."""
    message = getattr(entity, entity.WhichOneof("entity") or "")
    if isinstance(message, p4r.PacketReplicationEngineEntry):
        return getattr(message, message.WhichOneof("type") or "")
    return message


def at(message: Any, path: str) -> Any:
    """Return the value at a path like `members[0].weight`."""
    for name, index in _PART.findall(path):
        message = getattr(message, name)
        if index and int(index) >= len(message):
            raise MissingObject(f"no {path} in this program's entities")
        message = message[int(index)] if index else message
    return message


def put(message: Any, path: str, value: Any) -> None:
    """Set what is at a path; None clears it."""
    way, _, name = path.rpartition(".")
    holder = at(message, way)
    if value is None:
        holder.ClearField(name)
    elif isinstance(value, list):
        holder.ClearField(name)
        getattr(holder, name).extend(value)
    elif isinstance(value, Message):
        getattr(holder, name).CopyFrom(value)
        getattr(holder, name).SetInParent()
    else:
        setattr(holder, name, value)


def match_kind(field: p4i.MatchField) -> str:
    return p4i.MatchField.MatchType.Name(field.match_type).lower()


def _kinds(table: p4i.Table) -> set[str]:
    return {match_kind(f) for f in table.match_fields}


def _plain(fields: Iterable[p4i.MatchField | p4i.Action.Param]) -> bool:
    """Return whether values are what P4Info's widths say, not translated."""
    return all(f.bitwidth and not f.HasField("type_name") for f in fields)


def _refers(part: p4i.MatchField | p4i.Action.Param) -> bool:
    """Return whether its value must be in another table (SAI P4)."""
    return any(text.startswith("@refers_to") for text in part.annotations)


def _ordinary(table: p4i.Table) -> bool:
    own = table.is_const_table or table.has_initial_entries or table.implementation_id
    return not own and _plain(table.match_fields)


def _has_kind(kind: str, _: Samples, table: p4i.Table) -> bool:
    return _ordinary(table) and kind in _kinds(table) and (kind != "exact" or _kinds(table) == {kind})


def _small(_: Samples, table: p4i.Table) -> bool:
    writable = not table.is_const_table and not table.implementation_id
    return 0 < table.size <= 64 and writable and bool(table.match_fields)


def _has_scope(scope: int, _: Samples, table: p4i.Table) -> bool:
    writable = not table.is_const_table and not table.implementation_id
    return writable and any(ref.scope == scope for ref in table.action_refs)


_TABLES: dict[str, tuple[str, Callable[[Samples, p4i.Table], bool]]] = {
    **{kind: (f"table with {kind.upper()} fields", partial(_has_kind, kind)) for kind in MATCH_KINDS},
    "bare": ("table with exact fields and no direct resources",
             lambda _, t: _has_kind("exact", _, t) and not t.direct_resource_ids),
    "small": ("small table", _small),
    "const": ("table with const entries", lambda _, t: t.is_const_table and t.has_initial_entries),
    "preset": ("table with entries", lambda _, t: t.has_initial_entries and not t.is_const_table),
    "const_default": ("const default_action", lambda _, t: bool(t.const_default_action_id)),
    "keyless": ("table without a key", lambda _, t: not t.match_fields),
    "ageing": ("table with time-outs", lambda _, t: t.idle_timeout_behavior != p4i.Table.NO_TIMEOUT),
    "counted": ("table with a direct counter", lambda s, t: _ordinary(t) and s.has_direct("counters", t)),
    "metered": ("table with a direct meter", lambda s, t: _ordinary(t) and s.has_direct("meters", t)),
    "indirect": ("table with an action profile", lambda s, t: s.selects(t) is False),
    "selecting": ("table with an action selector", lambda s, t: s.selects(t) is True),
    "default_only": ("action that is for entries or default entries only",
                     partial(_has_scope, p4i.ActionRef.DEFAULT_ONLY)),
    "table_only": ("action that is for entries or default entries only", partial(_has_scope, p4i.ActionRef.TABLE_ONLY)),
}  # fmt: skip
"""what a table must be like that a check wants, in words and as a predicate"""


class Samples:
    """By P4Info. `table` arguments are names of `_TABLES`. Methods raise `MissingObject`."""

    def __init__(self, info: p4i.P4Info, own_program: bool = True, down_port: int | None = None) -> None:
        self.info, self.own_program, self.down_port = info, own_program, down_port
        self.has_cpu_port = False
        """whether what the suite's program sends to `CPU_PORT` comes back (`CheckSession.find_cpu_port`)"""
        self._actions = {a.preamble.id: a for a in info.actions}
        self._profiles = {p.preamble.id: p for p in info.action_profiles}

    # -- objects

    def table(self, name: str) -> p4i.Table:
        """The first that has the property, or, in the suite's own program, that has the name."""
        if name not in _TABLES:
            return self.own("tables", name)
        what, fits = _TABLES[name]
        return first(self.info.tables, what, lambda t: fits(self, t))

    def table_id(self, name: str) -> int:
        return self.table(name).preamble.id

    def field_of(self, kind: str) -> p4i.MatchField:
        """The first of this match kind that is not a whole number of bytes if there is one, so that it can overflow."""
        fields = [f for f in self.table(kind).match_fields if match_kind(f) == kind]
        return sorted(fields, key=lambda f: f.bitwidth % 8 == 0)[0]

    def has_direct(self, kind: str, table: p4i.Table) -> bool:
        return any(each.direct_table_id == table.preamble.id for each in getattr(self.info, f"direct_{kind}"))

    def selects(self, table: p4i.Table) -> bool | None:
        profile = self._profiles.get(table.implementation_id)
        return None if profile is None else profile.with_selector

    def profile(self, table: str) -> p4i.ActionProfile:
        return self._profiles[self.table(table).implementation_id]

    def object(self, kind: str, fits: Callable[[Any], bool] = lambda _: True) -> Any:
        """The first of a list of P4Info: `counters`, `registers`, ..."""
        return first(getattr(self.info, kind), kind, fits)

    def own(self, kind: str, name: str) -> Any:
        """An object of the suite's own program."""
        if not self.own_program:
            raise MissingObject("packets are sent with the suite's own program only")
        return self.object(kind, lambda each: each.preamble.alias == name)

    @property
    def port(self) -> bytes:
        """A port that the device has."""
        if self.down_port is None and not self.has_cpu_port:
            raise MissingObject(f"no port of the device is known: there is no CPU port {CPU_PORT}, and no --down-port")
        return to_bytes(CPU_PORT if self.down_port is None else self.down_port)

    @property
    def absent_port(self) -> bytes:
        """A port that no device has that has fewer than 500."""
        return to_bytes(next(port for port in (509, 508) if port != self.down_port))

    @property
    def unsigned_register(self) -> Any:
        return self.object("registers", lambda r: r.type_spec.bitstring.bit.bitwidth > 1)

    @property
    def signed_register(self) -> Any:
        return self.object("registers", lambda r: r.type_spec.bitstring.int.bitwidth == 12)

    # -- parts

    def sdn_type(self, part: Any) -> str | None:
        """Return the translation of a match field or parameter: `sdn_bitwidth`, `sdn_string`, not at all."""
        kind = self.info.type_info.new_types.get(part.type_name.name)
        return None if kind is None else kind.translated_type.WhichOneof("sdn_type")

    def usable(self, table: p4i.Table, without: Any = p4i.ActionRef.DEFAULT_ONLY) -> list[p4i.ActionRef]:
        """Actions that its entries may have (or default entries), those with parameters first."""
        refs = [r for r in table.action_refs if r.scope != without and _plain(self._actions[r.id].params)]
        if self.has_direct("meters", table):
            return refs  # the first one, it is hoped, executes the meter
        return sorted(refs, key=lambda r: not self._actions[r.id].params)

    def scoped(self, scope: str) -> p4r.Action:
        """The action with a scope of the table that `_TABLES` has for it."""
        value = p4i.ActionRef.Scope.Value(scope.upper())
        return self.call(next(ref.id for ref in self.table(scope).action_refs if ref.scope == value))

    def foreign_action(self, table: str) -> p4r.Action:
        """One that a table does not have."""
        own = {r.id for r in self.table(table).action_refs}
        what = "action of other tables only"
        return self.call(first(self.info.actions, what, lambda a: a.preamble.id not in own).preamble.id)

    def param_bits(self, table: str) -> int:
        """Return the width of the first parameter of the first usable action."""
        params = self._actions[self.usable(self.table(table))[0].id].params
        if not params:
            raise MissingObject(f"{self.table(table).preamble.name} has no action with parameters")
        return params[0].bitwidth

    def action(self, table: str, n: int = 0, of: int = 0) -> p4r.Action:
        """The `of`-th usable action, with arguments that depend on n."""
        refs = self.usable(self.table(table))
        if of >= len(refs):
            raise MissingObject(f"{self.table(table).preamble.name} has no {of + 1} actions for entries")
        return self.call(refs[of].id, n)

    def other_action(self, table: str) -> p4r.Action:
        """Not that of the 0th entry."""
        new = self.action(table, 70)
        return new if new != self.action(table) else self.action(table, 0, 1)

    def call(self, action: int | str, n: int = 0) -> p4r.Action:
        """An action by its id, or by its name in the suite's own program."""
        action_id = self.own("actions", action).preamble.id if isinstance(action, str) else action
        call = p4r.Action(action_id=action_id)
        for p in self._actions[action_id].params:
            call.params.add(param_id=p.id, value=value_of(1 + n, p.bitwidth))
        return call

    def ranked(self, table: p4i.Table) -> bool:
        """Return whether its entries have priorities."""
        return bool(_kinds(table) & {"ternary", "range", "optional"})

    # -- entities

    def key(self, table: str, n: int = 0) -> p4r.Entity:
        """The n-th entry of a table without its action: a value for each field."""
        chosen = self.table(table)
        fields = chosen.match_fields
        if fields and all(1 + n >> f.bitwidth for f in fields if f.bitwidth):
            raise MissingObject(f"{chosen.preamble.name} has no field for {n} different values")
        entry = p4r.TableEntry(table_id=chosen.preamble.id, match=[field_match(f, 1 + n) for f in fields])
        entry.priority = 10 + n if self.ranked(chosen) else 0
        return p4r.Entity(table_entry=entry)

    def entry(self, table: str, n: int = 0) -> p4r.Entity:
        """The n-th entry of a table without action profile."""
        entity = self.key(table, n)
        entity.table_entry.action.action.CopyFrom(self.action(table, n))
        return entity

    def translated(
        self, kind: str, n: int = 0, use: str = "match", highest: bool = False, beyond: bool = False
    ) -> p4r.Entity:
        """The n-th entry of a table whose only match field is a translated number or string, with such an action
        parameter if `use` is param. `highest`: the key has all of its bits set; `beyond`: one more."""
        sdn = {"number": "sdn_bitwidth", "string": "sdn_string"}[kind]

        def calls(table: p4i.Table) -> list[p4i.Action]:
            ours = [self._actions[r.id] for r in table.action_refs if r.scope != p4i.ActionRef.DEFAULT_ONLY]
            ours = [a for a in ours if not any(_refers(p) for p in a.params)]
            translated = [a for a in ours if any(self.sdn_type(p) == sdn for p in a.params)]
            return translated if use == "param" else [a for a in ours if _plain(a.params)]

        def fits(table: p4i.Table) -> bool:
            own = table.is_const_table or table.has_initial_entries or table.implementation_id
            fields = [(match_kind(f), self.sdn_type(f)) for f in table.match_fields if not _refers(f)]
            return not own and fields == [("exact", sdn)] and bool(calls(table))

        table = first(self.info.tables, f"table of translated {kind}s", fits)
        entry = p4r.TableEntry(table_id=table.preamble.id, match=[field_match(table.match_fields[0], 1 + n)])
        if highest or beyond:
            entry.match[0].exact.value = to_bytes((1 << table.match_fields[0].bitwidth + beyond) - 1)
        entry.action.action.CopyFrom(self.call(calls(table)[0].preamble.id, n))
        return p4r.Entity(table_entry=entry)

    def match_of(self, entity: p4r.Entity, kind: str) -> p4r.FieldMatch:
        """In an entry of the table that has such fields."""
        field_id = self.field_of(kind).id
        return next(m for m in entity.table_entry.match if m.field_id == field_id)

    def matching(self, kind: str, **values: Any) -> p4r.Entity:
        """An entry of the table with such a field, with other values in its match; functions get the field's width."""
        entity, bits = self.entry(kind), self.field_of(kind).bitwidth
        for name, value in values.items():
            value: Any = value(bits) if callable(value) else value
            number = isinstance(value, int) and name != "prefix_len"
            setattr(getattr(self.match_of(entity, kind), kind), name, to_bytes(value) if number else value)
        return entity

    def entries(self, table: str, count: int) -> list[p4r.Entity]:
        """So many entries, for which the table has room."""
        if 0 < self.table(table).size < count:
            raise MissingObject(f"{self.table(table).preamble.name} has no room for {count} entries")
        return [self.entry(table, n) for n in range(count)]

    def all_of(self, table: str, default: bool = False) -> p4r.Entity:
        """The request for all entries of a table, or for its default entry."""
        return p4r.Entity(table_entry=p4r.TableEntry(table_id=self.table_id(table), is_default_action=default))

    def default(self, table: str, n: int = 0) -> p4r.Entity:
        """A default entry of another action than the program's, if there is one, or with other arguments."""
        refs = self.usable(self.table(table), p4i.ActionRef.TABLE_ONLY)
        if not refs:
            raise MissingObject(f"{self.table(table).preamble.name} has no action for its default entry")
        entity = self.all_of(table, default=True)
        entity.table_entry.action.action.CopyFrom(self.call(refs[0].id, n))
        return entity

    def pointer(self, table: str, n: int = 0, member: int = 0, group: int = 0) -> p4r.Entity:
        """An entry that points to a member or a group."""
        entity = self.key(table, n)
        if group:
            entity.table_entry.action.action_profile_group_id = group
        else:
            entity.table_entry.action.action_profile_member_id = member
        return entity

    def one_shot(self, n: int = 0, weights: tuple[int, ...] = (1, 2)) -> p4r.Entity:
        entity = self.key("selecting", n)
        chosen = entity.table_entry.action.action_profile_action_set
        for i, weight in enumerate(weights):
            chosen.action_profile_actions.add(action=self.action("selecting", n + i), weight=weight)
        return entity

    def member(self, n: int = 0, table: str = "selecting") -> p4r.Entity:
        profile_id = self.table(table).implementation_id
        action = self.action(table, n)
        member = p4r.ActionProfileMember(action_profile_id=profile_id, member_id=1 + n, action=action)
        return p4r.Entity(action_profile_member=member)

    def group(self, n: int = 0, *weights: int) -> p4r.Entity:
        """A group of members 1, 2, ... with these weights."""
        profile = self.profile("selecting")
        entry = p4r.ActionProfileGroup(action_profile_id=profile.preamble.id, group_id=1 + n)
        entry.max_size = profile.max_group_size
        for member, weight in enumerate(weights, 1):
            entry.members.add(member_id=member, weight=weight)
        return p4r.Entity(action_profile_group=entry)

    def multicast(self, n: int = 0, ports: tuple[int, ...] = (1, 2)) -> p4r.Entity:
        entry = p4r.MulticastGroupEntry(multicast_group_id=1 + n, replicas=_replicas(n, ports))
        return p4r.Entity(packet_replication_engine_entry=p4r.PacketReplicationEngineEntry(multicast_group_entry=entry))

    def clone(self, n: int = 0, ports: tuple[int, ...] = (1,)) -> p4r.Entity:
        entry = p4r.CloneSessionEntry(session_id=1 + n, replicas=_replicas(n, ports))
        return p4r.Entity(packet_replication_engine_entry=p4r.PacketReplicationEngineEntry(clone_session_entry=entry))

    def digest(self, n: int = 0) -> p4r.Entity:
        config = p4r.DigestEntry.Config(max_list_size=2 + n, max_timeout_ns=10**8, ack_timeout_ns=10**9)
        return p4r.Entity(digest_entry=p4r.DigestEntry(digest_id=self.object("digests").preamble.id, config=config))

    def counter(self, index: int | None = 0, packets: int | None = None) -> p4r.Entity:
        entry = p4r.CounterEntry(counter_id=self.object("counters").preamble.id, index=_index(index))
        return p4r.Entity(counter_entry=_counted(entry, packets))

    def meter(self, index: int | None = 0, cir: int | None = None) -> p4r.Entity:
        entry = p4r.MeterEntry(meter_id=self.object("meters").preamble.id, index=_index(index))
        return p4r.Entity(meter_entry=_limited(entry, cir))

    def register(self, index: int | None = 0, value: int | None = None) -> p4r.Entity:
        entry = p4r.RegisterEntry(register_id=self.unsigned_register.preamble.id, index=_index(index))
        if value is not None:
            entry.data.bitstring = to_bytes(value)
        return p4r.Entity(register_entry=entry)

    def value_set(self, *values: int) -> p4r.Entity:
        chosen = self.object("value_sets")
        entry = p4r.ValueSetEntry(value_set_id=chosen.preamble.id)
        for value in values:
            entry.members.add().match.extend(field_match(m, value) for m in chosen.match)
        return p4r.Entity(value_set_entry=entry)

    def direct_counter(self, n: int | None = 0, packets: int | None = None) -> p4r.Entity:
        entry = p4r.DirectCounterEntry(table_entry=self.key("counted", n or 0).table_entry)
        return p4r.Entity(direct_counter_entry=_counted(entry, packets))

    def direct_meter(self, n: int | None = 0, cir: int | None = None) -> p4r.Entity:
        entry = p4r.DirectMeterEntry(table_entry=self.key("metered", n or 0).table_entry)
        return p4r.Entity(direct_meter_entry=_limited(entry, cir))


def first(objects: Iterable[Any], what: str, fits: Callable[[Any], bool]) -> Any:
    """The first that fits."""
    for each in objects:
        if fits(each):
            return each
    raise MissingObject(f"the program has no {what}")


def field_match(f: p4i.MatchField, value: int) -> p4r.FieldMatch:
    """A match of one value, or of the range from it to the next one."""
    m = p4r.FieldMatch(field_id=f.id)
    low, kind = value_of(value, f.bitwidth), match_kind(f)
    if kind not in MATCH_KINDS:
        raise MissingObject("match kind of this architecture only")
    put(m, f"{kind}.{'low' if kind == 'range' else 'value'}", low)
    if kind == "lpm":
        m.lpm.prefix_len = f.bitwidth
    elif kind == "ternary":
        m.ternary.mask = to_bytes((1 << f.bitwidth) - 1)
    elif kind == "range":
        m.range.high = unsigned(value + 1, f.bitwidth)
    return m


def rates(cir: int) -> p4r.MeterConfig:
    """Return the configuration of a two rate three colour marker."""
    return p4r.MeterConfig(cir=cir, cburst=cir + 1, pir=2 * cir, pburst=2 * cir + 1)


def _index(index: int | None) -> p4r.Index | None:
    return None if index is None else p4r.Index(index=index)


def _counted(entry: Any, packets: int | None) -> Any:
    if packets is not None:
        entry.data.packet_count, entry.data.byte_count = packets, 100 * packets
    return entry


def _limited(entry: Any, cir: int | None) -> Any:
    if cir is not None:
        entry.config.CopyFrom(rates(cir))
    return entry


def _replicas(n: int, ports: tuple[int, ...]) -> list[p4r.Replica]:
    """Return the replicas of a multicast group or clone session."""
    return [p4r.Replica(port=to_bytes(port), instance=1 + i + n) for i, port in enumerate(ports)]
