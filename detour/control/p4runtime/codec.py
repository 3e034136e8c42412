# SPDX-License-Identifier: Apache-2.0
"""Between what switches store (`entries.py`) and P4Runtime's messages, by the names and widths of a P4Info."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from finsy.proto import p4i, p4r

from detour.base.errors import DetourError
from detour.control.entries import (
    Action,
    ActionProfileGroup,
    ActionProfileMember,
    ActionSet,
    CloneSession,
    DefaultAction,
    GroupEntry,
    Lpm,
    MatchValue,
    MeterConfig,
    MulticastGroup,
    Range,
    Replica,
    Stored,
    TableEntry,
    Ternary,
    WeightedAction,
)

_FIELD = p4i.MatchField


@dataclass(frozen=True)
class MatchField:
    """A match field of a table."""

    id: int
    name: str
    bits: int
    kind: Any


@dataclass(frozen=True)
class TableInfo:
    """The codec's view of a table."""

    id: int
    name: str
    by_name: dict[str, MatchField]
    by_id: dict[int, MatchField]
    profile: str
    """its action profile, "" if it has none"""


def to_bytes(value: int) -> bytes:
    """Canonical byte string (P4Runtime 8.3): shortest, at least one byte."""
    return value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")


def from_bytes(text: bytes) -> int:
    return int.from_bytes(text, "big")


class Codec:
    """Encodes and decodes the entities of one P4Info.

    `port_bytes`: replicas name their ports by byte strings (P4Runtime 1.5) and not by the number that earlier
    servers, BMv2's among them, understand."""

    def __init__(self, p4info: p4i.P4Info, port_bytes: bool = False) -> None:
        self.p4info = p4info
        self._port_bytes = port_bytes
        self._profiles = {profile.preamble.name: profile for profile in p4info.action_profiles}
        self._profile_names = {profile.preamble.id: name for name, profile in self._profiles.items()}
        tables = (_table(table, self._profile_names.get(table.implementation_id, "")) for table in p4info.tables)
        self.tables = {table.name: table for table in tables}
        self.profiles = {table.name: table.profile for table in self.tables.values() if table.profile}
        self._tables_by_id = {table.id: table for table in self.tables.values()}
        self._actions = {a.preamble.name: a for a in p4info.actions}
        self._actions_by_id = {a.preamble.id: a for a in p4info.actions}
        self._params = {a.preamble.name: {p.name: (p.id, p.bitwidth) for p in a.params} for a in p4info.actions}
        self._meters = {m.preamble.name: m.preamble.id for m in p4info.meters}
        self._meters_by_id = {number: name for name, number in self._meters.items()}
        self.counters = {c.preamble.name: c.preamble.id for c in p4info.counters}
        self.counter_names = {number: name for name, number in self.counters.items()}

    # -- to the wire ------------------------------------------------------------------------------------

    def encode(self, entity: Stored) -> p4r.Entity:
        """The message for an entity. Raises `DetourError`: a name that the P4Info does not know, or a value too wide
        for its field."""
        match entity:
            case TableEntry() | GroupEntry():
                return p4r.Entity(table_entry=self._encode_table_entry(entity))
            case ActionProfileMember() | ActionProfileGroup():
                return self._encode_in_profile(entity)
            case DefaultAction():
                entry = p4r.TableEntry(table_id=self._table_named(entity.table).id, is_default_action=True)
                entry.action.action.CopyFrom(self._encode_action(entity.action))
                return p4r.Entity(table_entry=entry)
            case MulticastGroup() | CloneSession():
                return self._encode_replication(entity)
            case MeterConfig():
                message = self._encode_meter_cell(entity)
                for name in ("cir", "cburst", "pir", "pburst"):
                    setattr(message.meter_entry.config, name, getattr(entity, name))
                return message

    def insert(self, entity: Stored) -> p4r.Update:
        """Return the update that creates the entity; meters exist always and are modified instead."""
        kind = p4r.Update.MODIFY if isinstance(entity, MeterConfig | DefaultAction) else p4r.Update.INSERT
        return p4r.Update(type=kind, entity=self.encode(entity))

    def modify(self, entity: Stored) -> p4r.Update:
        """Return the update that brings an existing entity to this value."""
        return p4r.Update(type=p4r.Update.MODIFY, entity=self.encode(entity))

    def delete(self, entity: Stored) -> p4r.Update:
        """Return the update that removes the entity; a meter goes back to its default, letting everything pass."""
        if isinstance(entity, MeterConfig):
            return p4r.Update(type=p4r.Update.MODIFY, entity=self._encode_meter_cell(entity))
        return p4r.Update(type=p4r.Update.DELETE, entity=self.encode(entity))

    def _table_named(self, name: str) -> TableInfo:
        table = self.tables.get(name)
        if table is None:
            raise DetourError(f"the pipeline has no table {name!r}; it has {', '.join(self.tables)}")
        return table

    def _encode_table_entry(self, entity: TableEntry | GroupEntry) -> p4r.TableEntry:
        table = self._table_named(entity.table)
        entry = p4r.TableEntry(table_id=table.id, priority=entity.priority)
        for name, value in entity.match:
            field = table.by_name.get(name)
            if field is None:
                raise DetourError(f"table {table.name} has no field {name!r}; it has {', '.join(table.by_name)}")
            entry.match.append(_encode_match(table, field, value))
        if isinstance(entity, GroupEntry):
            entry.action.action_profile_group_id = entity.group
        elif isinstance(entity.action, ActionSet):
            if not table.profile:
                raise DetourError(f"table {table.name} has no action selector, so an action set does not fit")
            choices = entry.action.action_profile_action_set.action_profile_actions
            for choice in entity.action.choices:
                message = choices.add(weight=choice.weight)
                message.action.CopyFrom(self._encode_action(choice.action))
        else:
            entry.action.action.CopyFrom(self._encode_action(entity.action))
        return entry

    def _encode_in_profile(self, entity: ActionProfileMember | ActionProfileGroup) -> p4r.Entity:
        profile = self._profiles[entity.profile]
        number = profile.preamble.id
        if isinstance(entity, ActionProfileMember):
            action = self._encode_action(entity.action)
            member = p4r.ActionProfileMember(action_profile_id=number, member_id=entity.member, action=action)
            return p4r.Entity(action_profile_member=member)
        members = [p4r.ActionProfileGroup.Member(member_id=member, weight=weight) for member, weight in entity.members]
        size = profile.max_group_size
        group = p4r.ActionProfileGroup(action_profile_id=number, group_id=entity.group, members=members, max_size=size)
        return p4r.Entity(action_profile_group=group)

    def _encode_action(self, action: Action) -> p4r.Action:
        declared = self._actions.get(action.name)
        if declared is None:
            raise DetourError(f"the pipeline has no action {action.name!r}")
        params = self._params[action.name]
        if {name for name, _ in action.params} != set(params):
            raise DetourError(f"action {action.name} takes {', '.join(params) or 'nothing'}; {action} does not fit")
        message = p4r.Action(action_id=declared.preamble.id)
        for name, value in action.params:
            number, bits = params[name]
            _check_width(f"{action.name}.{name}", value, bits)
            message.params.add(param_id=number, value=to_bytes(value))
        return message

    def _encode_replication(self, entity: MulticastGroup | CloneSession) -> p4r.Entity:
        message = p4r.Entity()
        engine = message.packet_replication_engine_entry
        if isinstance(entity, MulticastGroup):
            engine.multicast_group_entry.multicast_group_id = entity.group
            replicas = engine.multicast_group_entry.replicas
        else:
            session = engine.clone_session_entry
            session.session_id = entity.session
            session.class_of_service = entity.class_of_service
            session.packet_length_bytes = entity.packet_length
            replicas = session.replicas
        for replica in entity.replicas:
            if self._port_bytes:
                replicas.add(port=to_bytes(replica.port), instance=replica.instance)
            else:
                replicas.add(egress_port=replica.port, instance=replica.instance)
        return message

    def _encode_meter_cell(self, entity: MeterConfig) -> p4r.Entity:
        number = self._meters.get(entity.meter)
        if number is None:
            raise DetourError(f"the pipeline has no meter {entity.meter!r}; it has {', '.join(self._meters)}")
        message = p4r.Entity()
        message.meter_entry.meter_id = number
        message.meter_entry.index.index = entity.index
        return message

    # -- from the wire ----------------------------------------------------------------------------------

    def decode(self, message: p4r.Entity) -> Stored | None:
        """The entity in a message; None for what our model does not hold (unset meters and default actions)."""
        match message.WhichOneof("entity"):
            case "table_entry":
                return self._decode_table_entry(message.table_entry)
            case "action_profile_member":
                member = message.action_profile_member
                profile = self._profile_names[member.action_profile_id]
                return ActionProfileMember(profile, member.member_id, self._decode_action(member.action))
            case "action_profile_group":
                group = message.action_profile_group
                members = tuple(sorted((member.member_id, member.weight) for member in group.members))
                return ActionProfileGroup(self._profile_names[group.action_profile_id], group.group_id, members)
            case "packet_replication_engine_entry":
                return _decode_replication(message.packet_replication_engine_entry)
            case "meter_entry" if message.meter_entry.HasField("config"):
                cell, config = message.meter_entry, message.meter_entry.config
                return MeterConfig(
                    self._meters_by_id[cell.meter_id], cell.index.index,
                    config.cir, config.cburst, config.pir, config.pburst,
                )  # fmt: skip
        return None

    def _decode_table_entry(self, entry: p4r.TableEntry) -> TableEntry | GroupEntry | DefaultAction | None:
        table = self._tables_by_id[entry.table_id]
        action = self._decode_table_action(entry.action)
        if entry.is_default_action:
            return DefaultAction(table.name, action) if isinstance(action, Action) else None
        fields = ((table.by_id[m.field_id], m) for m in entry.match)
        values = ((field.name, _decode_match(field, m)) for field, m in fields)
        match = tuple((name, value) for name, value in values if value is not None)
        if entry.action.HasField("action_profile_group_id"):
            return GroupEntry(table.name, match, table.profile, entry.action.action_profile_group_id, entry.priority)
        return TableEntry(table.name, match, action, entry.priority) if action is not None else None

    def _decode_table_action(self, action: p4r.TableAction) -> Action | ActionSet | None:
        match action.WhichOneof("type"):
            case "action":
                return self._decode_action(action.action)
            case "action_profile_action_set":
                choices = action.action_profile_action_set.action_profile_actions
                return ActionSet(tuple(WeightedAction(self._decode_action(c.action), c.weight) for c in choices))
        return None

    def _decode_action(self, message: p4r.Action) -> Action:
        declared = self._actions_by_id[message.action_id]
        names = {number: name for name, (number, _) in self._params[declared.preamble.name].items()}
        return Action(declared.preamble.name, tuple((names[p.param_id], from_bytes(p.value)) for p in message.params))

    # -- what to ask for --------------------------------------------------------------------------------

    def read_everything(self) -> list[p4r.Entity]:
        """Wildcards that together cover all state that our model holds but for members and groups."""
        requests = [p4r.Entity(table_entry=p4r.TableEntry())]
        # A selector's table has no settable default action; BMv2 answers with an empty entry.
        direct = [table for table in self.tables.values() if not table.profile]
        requests += [p4r.Entity(table_entry=p4r.TableEntry(table_id=t.id, is_default_action=True)) for t in direct]
        requests += [p4r.Entity(meter_entry=p4r.MeterEntry(meter_id=number)) for number in self._meters.values()]
        groups, sessions = p4r.Entity(), p4r.Entity()
        groups.packet_replication_engine_entry.multicast_group_entry.SetInParent()
        sessions.packet_replication_engine_entry.clone_session_entry.SetInParent()
        return [*requests, groups, sessions]

    def read_profiles(self, apart: Collection[str]) -> list[p4r.Entity]:
        """All members and groups, but of the profiles `apart`: BMv2 refuses to tell of any beside one-shots."""
        numbers = [profile.preamble.id for name, profile in self._profiles.items() if name not in apart]
        members = [p4r.ActionProfileMember(action_profile_id=number) for number in numbers]
        groups = [p4r.ActionProfileGroup(action_profile_id=number) for number in numbers]
        return [
            *(p4r.Entity(action_profile_member=each) for each in members),
            *(p4r.Entity(action_profile_group=each) for each in groups),
        ]

    def read_counters(self, cells: Iterable[tuple[str, int]]) -> list[p4r.Entity]:
        """Cells of indirect counters, as (counter, index)."""
        return [
            p4r.Entity(counter_entry=p4r.CounterEntry(counter_id=self.counters[name], index=p4r.Index(index=at)))
            for name, at in cells
        ]


def _table(table: p4i.Table, profile: str) -> TableInfo:
    fields = [MatchField(f.id, f.name, f.bitwidth, f.match_type) for f in table.match_fields]
    return TableInfo(
        table.preamble.id, table.preamble.name, {field.name: field for field in fields},
        {field.id: field for field in fields}, profile,
    )  # fmt: skip


def _check_width(what: str, value: int, bits: int) -> None:
    if value < 0 or value.bit_length() > bits:
        raise DetourError(f"{what} is {value:#x}; it has {bits} bits")


def _encode_match(table: TableInfo, field: MatchField, value: MatchValue) -> p4r.FieldMatch:
    message = p4r.FieldMatch(field_id=field.id)
    what = f"{table.name}.{field.name}"
    match value, field.kind:
        case int(), _FIELD.EXACT:
            _check_width(what, value, field.bits)
            message.exact.value = to_bytes(value)
        case int(), _FIELD.OPTIONAL:
            _check_width(what, value, field.bits)
            message.optional.value = to_bytes(value)
        case Lpm(), _FIELD.LPM:
            _check_width(what, value.value, field.bits)
            message.lpm.value, message.lpm.prefix_len = to_bytes(value.value), value.prefix_len
        case Ternary(), _FIELD.TERNARY:
            _check_width(what, value.mask, field.bits)
            message.ternary.value, message.ternary.mask = to_bytes(value.value), to_bytes(value.mask)
        case Range(), _FIELD.RANGE:
            _check_width(what, value.high, field.bits)
            message.range.low, message.range.high = to_bytes(value.low), to_bytes(value.high)
        case _:
            kind = _FIELD.MatchType.Name(field.kind).lower()
            raise DetourError(f"{what} is matched by {kind}; {value} does not fit")
    return message


def _decode_match(field: MatchField, message: p4r.FieldMatch) -> MatchValue | None:
    """The value of a field, None if it matches anything."""
    match message.WhichOneof("field_match_type"):
        case "exact":
            return from_bytes(message.exact.value)
        case "optional":
            return from_bytes(message.optional.value)
        case "lpm":
            lpm = Lpm(from_bytes(message.lpm.value), message.lpm.prefix_len, field.bits)
            return lpm if lpm.prefix_len else None
        case "ternary":
            ternary = Ternary(from_bytes(message.ternary.value), from_bytes(message.ternary.mask))
            return ternary if ternary.mask else None
        case "range":
            span = Range(from_bytes(message.range.low), from_bytes(message.range.high))
            return span if (span.low, span.high) != (0, (1 << field.bits) - 1) else None
    raise DetourError(f"field {field.name}: a kind of match that is not known")


def _decode_replication(message: Any) -> MulticastGroup | CloneSession | None:
    match message.WhichOneof("type"):
        case "multicast_group_entry":
            group = message.multicast_group_entry
            return MulticastGroup(group.multicast_group_id, tuple(map(_decode_replica, group.replicas)))
        case "clone_session_entry":
            s = message.clone_session_entry
            replicas = tuple(map(_decode_replica, s.replicas))
            return CloneSession(s.session_id, replicas, s.class_of_service, s.packet_length_bytes)
    return None


def _decode_replica(replica: Any) -> Replica:
    port = from_bytes(replica.port) if replica.HasField("port") else replica.egress_port
    return Replica(port, replica.instance)
