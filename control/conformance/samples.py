# SPDX-License-Identifier: Apache-2.0
"""Entities for a program of which nothing is known but its P4Info: the n-th valid one of each kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any

from finsy.proto import p4i, p4r

from detour.control.p4runtime.codec import to_bytes

EXACT, LPM, TERNARY, RANGE, OPTIONAL = (
    p4i.MatchField.EXACT,
    p4i.MatchField.LPM,
    p4i.MatchField.TERNARY,
    p4i.MatchField.RANGE,
    p4i.MatchField.OPTIONAL,
)
RANKED = (TERNARY, RANGE, OPTIONAL)
NO_ID = 0x7FFFFF
"""no P4Info object has this id: that of none begins with 0 and 0x7F"""


class MissingObject(Exception):
    """The program has no such object."""


def unsigned(value: int, bits: int) -> bytes:
    """Canonical, of the value's low bits."""
    return to_bytes(value & ((1 << bits) - 1))


class Samples:
    """By P4Info. Methods raise `MissingObject`."""

    def __init__(self, info: p4i.P4Info) -> None:
        self.info = info
        self._actions = {a.preamble.id: a for a in info.actions}
        self._profiles = {p.preamble.id: p for p in info.action_profiles}

    # -- objects

    def _table(self, what: str, fits: Callable[[p4i.Table], bool]) -> p4i.Table:
        return first(self.info.tables, what, fits)

    def _ordinary(self, table: p4i.Table) -> bool:
        plain = not (table.is_const_table or table.has_initial_entries or table.implementation_id)
        return plain and all(f.bitwidth and not f.HasField("type_name") for f in table.match_fields)

    def table_of(self, kind: Any) -> p4i.Table:
        """With a field of this match kind."""

        def fits(t: p4i.Table) -> bool:
            kinds = [f.match_type for f in t.match_fields]
            return self._ordinary(t) and kind in kinds and (kind != EXACT or set(kinds) == {EXACT})

        return self._table(f"table with {p4i.MatchField.MatchType.Name(kind)} fields", fits)

    def field_of(self, kind: Any) -> p4i.MatchField:
        """The first of this match kind that is not a whole number of bytes if there is one, so that it can overflow."""
        fields = [f for f in self.table_of(kind).match_fields if f.match_type == kind]
        return sorted(fields, key=lambda f: f.bitwidth % 8 == 0)[0]

    @property
    def exact(self) -> p4i.Table:
        return self.table_of(EXACT)

    @property
    def bare(self) -> p4i.Table:
        """With exact fields and no direct resources."""
        return self._table(
            "table with exact fields and no direct resources",
            lambda t: (
                self._ordinary(t) and not t.direct_resource_ids and {f.match_type for f in t.match_fields} == {EXACT}
            ),
        )

    @property
    def const(self) -> p4i.Table:
        return self._table("table with const entries", lambda t: t.is_const_table and t.has_initial_entries)

    @property
    def preset(self) -> p4i.Table:
        return self._table("table with entries", lambda t: t.has_initial_entries and not t.is_const_table)

    @property
    def keyless(self) -> p4i.Table:
        return self._table("table without a key", lambda t: not t.match_fields)

    @property
    def ageing(self) -> p4i.Table:
        return self._table("table with time-outs", lambda t: t.idle_timeout_behavior != p4i.Table.NO_TIMEOUT)

    @property
    def counted(self) -> p4i.Table:
        ids = {c.direct_table_id for c in self.info.direct_counters}
        return self._table("table with a direct counter", lambda t: self._ordinary(t) and t.preamble.id in ids)

    @property
    def metered(self) -> p4i.Table:
        ids = {m.direct_table_id for m in self.info.direct_meters}
        return self._table("table with a direct meter", lambda t: self._ordinary(t) and t.preamble.id in ids)

    @property
    def indirect(self) -> p4i.Table:
        return self._table("table with an action profile", lambda t: self._selects(t) is False)

    @property
    def selecting(self) -> p4i.Table:
        return self._table("table with an action selector", lambda t: self._selects(t) is True)

    def _selects(self, table: p4i.Table) -> bool | None:
        profile = self._profiles.get(table.implementation_id)
        return None if profile is None else profile.with_selector

    def object(self, kind: str, fits: Callable[[Any], bool] = lambda _: True) -> Any:
        """The first of a list of P4Info: `counters`, `registers`, ..."""
        return first(getattr(self.info, kind), kind, fits)

    @cached_property
    def unsigned_register(self) -> Any:
        return self.object("registers", lambda r: r.type_spec.bitstring.bit.bitwidth > 1)

    @cached_property
    def signed_register(self) -> Any:
        return self.object("registers", lambda r: r.type_spec.bitstring.int.bitwidth == 12)

    # -- parts

    def usable(self, table: p4i.Table) -> list[p4i.ActionRef]:
        """Actions that its entries may have, those with parameters first."""
        refs = [r for r in table.action_refs if r.scope != p4i.ActionRef.DEFAULT_ONLY and self._plain(r)]
        if any(m.direct_table_id == table.preamble.id for m in self.info.direct_meters):
            return refs  # the first one, it is hoped, executes the meter
        return sorted(refs, key=lambda r: not self._actions[r.id].params)

    def _plain(self, ref: p4i.ActionRef) -> bool:
        """Whether values of the action's parameters are what P4Info's widths say, not translated."""
        return all(p.bitwidth and not p.HasField("type_name") for p in self._actions[ref.id].params)

    def params(self, action_id: int) -> list[p4i.Action.Param]:
        return list(self._actions[action_id].params)

    def action(self, table: p4i.Table, n: int = 0, of: int = 0) -> p4r.Action:
        """The `of`-th usable action, with arguments that depend on n."""
        refs = self.usable(table)
        if of >= len(refs):
            raise MissingObject(f"{table.preamble.name} has no {of + 1} actions for entries")
        return self.call(refs[of].id, n)

    def call(self, action_id: int, n: int = 0) -> p4r.Action:
        action = p4r.Action(action_id=action_id)
        for p in self.params(action_id):
            action.params.add(param_id=p.id, value=unsigned(1 + n, p.bitwidth))
        return action

    def match(self, table: p4i.Table, n: int = 0) -> list[p4r.FieldMatch]:
        """A value for each field."""
        if all(1 + n >> f.bitwidth for f in table.match_fields if f.bitwidth) and table.match_fields:
            raise MissingObject(f"{table.preamble.name} has no field for {n} different values")
        return [field_match(f, 1 + n) for f in table.match_fields]

    def ranked(self, table: p4i.Table) -> bool:
        """Whether its entries have priorities."""
        return any(f.match_type in RANKED for f in table.match_fields)

    def entry(self, table: p4i.Table, n: int = 0, action: bool = True) -> p4r.Entity:
        """The n-th entry of a table without action profile. Without action it is but the key."""
        entity = p4r.Entity()
        entry = entity.table_entry
        entry.table_id = table.preamble.id
        entry.match.extend(self.match(table, n))
        entry.priority = 10 + n if self.ranked(table) else 0
        if action:
            entry.action.action.CopyFrom(self.action(table, n))
        return entity

    def entries(self, table: p4i.Table, count: int) -> list[p4r.Entity]:
        """So many entries, for which the table has room."""
        if 0 < table.size < count:
            raise MissingObject(f"{table.preamble.name} has no room for {count} entries")
        return [self.entry(table, n) for n in range(count)]

    def default(self, table: p4i.Table, n: int = 0) -> p4r.Entity:
        """A default entry of another action than the program's, if there is one, or with other arguments."""
        refs = [r for r in table.action_refs if r.scope != p4i.ActionRef.TABLE_ONLY and self._plain(r)]
        if not refs:
            raise MissingObject(f"{table.preamble.name} has no action for its default entry")
        refs.sort(key=lambda r: not self._actions[r.id].params)
        entry = p4r.TableEntry(table_id=table.preamble.id, is_default_action=True)
        entry.action.action.CopyFrom(self.call(refs[0].id, n))
        return p4r.Entity(table_entry=entry)

    def one_shot(self, n: int = 0, weights: tuple[int, ...] = (1, 2)) -> p4r.Entity:
        table = self.selecting
        entity = self.entry(table, n, action=False)
        chosen = entity.table_entry.action.action_profile_action_set
        for i, weight in enumerate(weights):
            chosen.action_profile_actions.add(action=self.action(table, n + i), weight=weight)
        return entity

    def member(self, n: int = 0, selector: bool = True) -> p4r.Entity:
        table = self.selecting if selector else self.indirect
        return p4r.Entity(
            action_profile_member=p4r.ActionProfileMember(
                action_profile_id=table.implementation_id, member_id=1 + n, action=self.action(table, n)
            )
        )

    def group(self, n: int = 0, *members: int) -> p4r.Entity:
        """A group of `members`, each with weight 1."""
        entry = p4r.ActionProfileGroup(action_profile_id=self.selecting.implementation_id, group_id=1 + n)
        profile = self._profiles[entry.action_profile_id]
        entry.max_size = profile.max_group_size
        for member in members:
            entry.members.add(member_id=member, weight=1)
        return p4r.Entity(action_profile_group=entry)

    def multicast(self, n: int = 0, ports: tuple[int, ...] = (1, 2)) -> p4r.Entity:
        entity = p4r.Entity()
        entry = entity.packet_replication_engine_entry.multicast_group_entry
        entry.multicast_group_id = 1 + n
        _replicate(entry, n, ports)
        return entity

    def clone(self, n: int = 0, ports: tuple[int, ...] = (1,)) -> p4r.Entity:
        entity = p4r.Entity()
        entry = entity.packet_replication_engine_entry.clone_session_entry
        entry.session_id = 1 + n
        _replicate(entry, n, ports)
        return entity

    def digest(self, n: int = 0) -> p4r.Entity:
        entry = p4r.DigestEntry(digest_id=self.object("digests").preamble.id)
        entry.config.max_list_size, entry.config.max_timeout_ns, entry.config.ack_timeout_ns = 2 + n, 10**8, 10**9
        return p4r.Entity(digest_entry=entry)

    def counter(self, index: int | None = 0, packets: int | None = None) -> p4r.Entity:
        entry = p4r.CounterEntry(counter_id=self.object("counters").preamble.id)
        set_index(entry, index)
        if packets is not None:
            entry.data.packet_count, entry.data.byte_count = packets, 100 * packets
        return p4r.Entity(counter_entry=entry)

    def meter(self, index: int | None = 0, cir: int | None = None) -> p4r.Entity:
        entry = p4r.MeterEntry(meter_id=self.object("meters").preamble.id)
        set_index(entry, index)
        if cir is not None:
            entry.config.CopyFrom(rates(cir))
        return p4r.Entity(meter_entry=entry)

    def register(self, index: int | None = 0, value: int | None = None) -> p4r.Entity:
        entry = p4r.RegisterEntry(register_id=self.unsigned_register.preamble.id)
        set_index(entry, index)
        if value is not None:
            entry.data.bitstring = to_bytes(value)
        return p4r.Entity(register_entry=entry)

    def value_set(self, *values: int) -> p4r.Entity:
        chosen = self.object("value_sets")
        entry = p4r.ValueSetEntry(value_set_id=chosen.preamble.id)
        for value in values:
            entry.members.add().match.extend(field_match(m, value) for m in chosen.match)
        return p4r.Entity(value_set_entry=entry)

    def direct_counter(self, n: int = 0, packets: int | None = None) -> p4r.Entity:
        entry = p4r.DirectCounterEntry(table_entry=self.entry(self.counted, n, action=False).table_entry)
        if packets is not None:
            entry.data.packet_count, entry.data.byte_count = packets, 100 * packets
        return p4r.Entity(direct_counter_entry=entry)

    def direct_meter(self, n: int = 0, cir: int | None = None) -> p4r.Entity:
        entry = p4r.DirectMeterEntry(table_entry=self.entry(self.metered, n, action=False).table_entry)
        if cir is not None:
            entry.config.CopyFrom(rates(cir))
        return p4r.Entity(direct_meter_entry=entry)


def first(objects: Iterable[Any], what: str, fits: Callable[[Any], bool]) -> Any:
    """The first that fits."""
    for each in objects:
        if fits(each):
            return each
    raise MissingObject(f"the program has no {what}")


def field_match(f: p4i.MatchField, value: int) -> p4r.FieldMatch:
    """A match of one value, or of the range from it to the next one."""
    m = p4r.FieldMatch(field_id=f.id)
    low, full = unsigned(value, f.bitwidth), (1 << f.bitwidth) - 1
    if f.match_type == EXACT:
        m.exact.value = low
    elif f.match_type == OPTIONAL:
        m.optional.value = low
    elif f.match_type == LPM:
        m.lpm.value, m.lpm.prefix_len = low, f.bitwidth
    elif f.match_type == TERNARY:
        m.ternary.value, m.ternary.mask = low, to_bytes(full)
    elif f.match_type == RANGE:
        m.range.low, m.range.high = low, unsigned(value + 1, f.bitwidth)
    else:
        raise MissingObject("match kind of this architecture only")
    return m


def set_index(entry: Any, index: int | None) -> None:
    if index is not None:
        entry.index.index = index
        entry.index.SetInParent()


def rates(cir: int) -> p4r.MeterConfig:
    """Of a two rate three colour marker."""
    return p4r.MeterConfig(cir=cir, cburst=cir + 1, pir=2 * cir, pburst=2 * cir + 1)


def _replicate(entry: Any, n: int, ports: tuple[int, ...]) -> None:
    """Replicas of a multicast group or clone session."""
    for i, port in enumerate(ports):
        entry.replicas.add(port=to_bytes(port), instance=1 + i + n)
