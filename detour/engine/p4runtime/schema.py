# SPDX-License-Identifier: Apache-2.0
"""P4Info checked against the BMv2 JSON that comes with it, as objects by P4Runtime id.

p4c gives an object the same fully qualified name in both (`MyIngress.ipv6_lpm`); tables that p4c makes itself
(`tbl_act`) are in the JSON only. Everything that P4Info names must be in the JSON, with the same widths.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from finsy.proto import p4i

from detour.engine.compiler import model
from detour.engine.p4runtime import annotations, packets
from detour.engine.p4runtime.actions import ActionCodec, TableAction, TableActions
from detour.engine.p4runtime.errors import invalid
from detour.engine.p4runtime.match import CODECS, FieldCodec, MatchCodec
from detour.engine.p4runtime.p4data import MAX_P4INFO_BITS, DataType, Unsupported, data_type
from detour.engine.p4runtime.references import ReferencePlan
from detour.engine.p4runtime.restrictions import Restrictions
from detour.engine.p4runtime.translation import TranslationPlan

_Match = p4i.MatchField.MatchType
# What p4c makes of P4Info's match kinds in the JSON.
_JSON_KINDS = {
    _Match.EXACT: ("exact",),
    _Match.LPM: ("lpm",),
    _Match.TERNARY: ("ternary",),
    _Match.RANGE: ("range",),
    _Match.OPTIONAL: ("ternary", "optional"),
}


@dataclass(frozen=True, slots=True)
class Profile:
    """An action profile or action selector."""

    id: int
    name: str
    actions: TableActions
    selector: bool
    max_group_size: int
    weights_disallowed: bool
    sum_of_members: bool
    max_member_weight: int


@dataclass(frozen=True, slots=True)
class TableSchema:
    """A match-action table."""

    id: int
    name: str
    key: MatchCodec
    actions: TableActions
    size: int
    profile: Profile | None
    is_const: bool
    preset: bool  # it has initial entries that clients may change
    const_default: bool
    ageing: bool
    counter: Counter | None
    meter: MeterInfo | None

    @property
    def where(self) -> str:
        """Its name in errors."""
        return f"table {self.name}"


@dataclass(frozen=True, slots=True)
class SizedObject:
    """The base of the objects below."""

    id: int
    name: str
    size: int


@dataclass(frozen=True, slots=True)
class Counter(SizedObject):
    """A counter array or a direct counter; which of the two numbers it has."""

    packets: bool
    octets: bool


@dataclass(frozen=True, slots=True)
class MeterInfo(SizedObject):
    """A meter array or a direct meter."""

    type: int


@dataclass(frozen=True, slots=True)
class Register(SizedObject):
    """A register array; `type` is None if P4Data cannot show it."""

    type: DataType | None


@dataclass(frozen=True, slots=True)
class ValueSetInfo(SizedObject):
    """A parser value set; `key` is None if it does not match exactly, which BMv2 cannot do, or has
    several translated fields."""

    key: MatchCodec | None


@dataclass(frozen=True, slots=True)
class Digest:
    """A digest: `list_id` is its learn list in the JSON."""

    id: int
    name: str
    list_id: int
    type: DataType | None


@dataclass(slots=True)
class Schema:
    """All of it. `roles`: which objects the program gives to whom."""

    translation: TranslationPlan
    restrictions: Restrictions
    references: ReferencePlan
    roles: dict[str, set[int]]
    tables: dict[int, TableSchema] = field(default_factory=dict)
    profiles: dict[int, Profile] = field(default_factory=dict)
    counters: dict[int, Counter] = field(default_factory=dict)
    meters: dict[int, MeterInfo] = field(default_factory=dict)
    registers: dict[int, Register] = field(default_factory=dict)
    digests: dict[int, Digest] = field(default_factory=dict)
    value_sets: dict[int, ValueSetInfo] = field(default_factory=dict)
    packet_in: packets.HeaderCodec = field(default_factory=lambda: packets.HeaderCodec("packet_in", []))
    packet_out: packets.HeaderCodec = field(default_factory=lambda: packets.HeaderCodec("packet_out", []))

    def ids_of(self, role: str) -> set[int] | None:
        """The objects that the program gives to a role; None: all, as to the default one."""
        return self.roles.get(role, set()) if role and self.roles else None


T = TypeVar("T")


def find(objects: dict[int, T], id_: int, kind: str) -> T:
    """The object with that id. An unknown id is INVALID_ARGUMENT, like any malformed entity."""
    value = objects.get(id_)
    if value is None:
        raise invalid(f"the program has no {kind} with id {id_:#x}")
    return value


def build(info: p4i.P4Info, program: model.Model) -> Schema:
    """The schema of a forwarding-pipeline config; INVALID_ARGUMENT when the two do not fit."""
    return _Builder(info, program).build()


class _Absent(Exception):
    """The JSON does not have an object that P4Info names."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"{kind} '{name}'")


class _Builder:
    def __init__(self, info: p4i.P4Info, program: model.Model) -> None:
        self.info, self.program = info, program
        translation = TranslationPlan(info)
        self.schema = Schema(translation, Restrictions(info), ReferencePlan(info, translation), _roles(info))
        self.absent: list[str] = []
        self.direct_counters = {c.preamble.id: c for c in info.direct_counters}
        self.direct_meters = {m.preamble.id: m for m in info.direct_meters}

    def build(self) -> Schema:
        self._check_ids()
        s, info = self.schema, self.info
        if info.externs:
            raise invalid(f"P4Info: extern type '{info.externs[0].extern_type_name}' is not part of v1model")
        self.actions = {a.preamble.id: a for a in info.actions}
        self._collect(info.action_profiles, s.profiles, self._profile)
        self._collect(info.tables, s.tables, self._table)
        self._collect(info.counters, s.counters, self._counter)
        self._collect(info.meters, s.meters, self._meter)
        self._collect(info.registers, s.registers, self._register)
        self._collect(info.digests, s.digests, self._digest)
        self._collect(info.value_sets, s.value_sets, self._value_set)
        self._check_absent()
        s.packet_in, s.packet_out = packets.header_codecs(info, self.program, s.translation)
        return s

    def _collect(self, infos: Iterable[Any], into: dict[int, T], make: Callable[[Any], T]) -> None:
        for each in infos:
            try:
                into[each.preamble.id] = make(each)
            except _Absent as e:
                self.absent.append(str(e))

    def _check_absent(self) -> None:
        """p4c leaves out of the JSON what no packet can reach, so P4Info may name more than there is. But if the JSON
        has objects as well that P4Info lacks, the two are not of one program."""
        if not self.absent:
            return
        named = {p.name for p in _preambles(self.info)}
        m = self.program
        there = [t for t in m.tables if "." in t]  # tables that p4c makes itself have no dot
        there += [*m.profiles, *m.counters, *m.meters, *m.registers, *m.value_sets]
        there += [learn["name"] for learn in m.json.get("learn_lists") or []]
        unnamed = [name for name in there if name not in named]
        if unnamed:
            raise invalid(
                f"P4Info and the BMv2 JSON belong to different programs: P4Info has {self.absent[0]}, the JSON "
                f"'{unnamed[0]}'"
            )

    def _check_ids(self) -> None:
        """Ids share one space, and 0 is not an id (spec, "Preamble")."""
        seen: dict[int, str] = {}
        for preamble in _preambles(self.info):
            if not preamble.id:
                raise invalid(f"P4Info: '{preamble.name}' has no id")
            if preamble.id in seen:
                raise invalid(f"P4Info: '{preamble.name}' and '{seen[preamble.id]}' have the same id, {preamble.id:#x}")
            seen[preamble.id] = preamble.name

    def _array(self, arrays: dict[str, model.Array], kind: str, name: str, size: int) -> model.Array:
        array = arrays.get(name)
        if array is None or array.direct:
            raise _Absent(kind, name)
        if array.size != size:
            raise invalid(f"P4Info: {kind} '{name}' has size {size}, in the BMv2 JSON {array.size}")
        return array

    # -- actions

    def _action(self, id_: int, at: model.ActionIr) -> ActionCodec:
        info = self.actions[id_]
        params: dict[str, Any] = {p.name: p for p in info.params}
        if len(params) != len(at.params) or len(info.params) != len(at.params):
            have = f"{len(info.params)} parameters, in the BMv2 JSON {len(at.params)}"
            raise invalid(f"P4Info: action '{at.name}' has {have}")
        chosen = []
        for i, p in enumerate(at.params):
            param = params.get(p.name, info.params[i])
            chosen.append((param.id, param.name, self._width(param, p.bits, f"action '{at.name}': '{p.name}'")))
        if len({c[0] for c in chosen}) < len(chosen):
            raise invalid(f"P4Info: action '{at.name}' has two parameters with the same id")
        return ActionCodec(id_, at.name, chosen)

    def _action_set(self, table: p4i.Table, available: Iterable[model.ActionIr]) -> TableActions:
        where = f"table {table.preamble.name}"
        by_name = {a.name: a for a in available}
        refs = []
        for ref in table.action_refs:
            if ref.id not in self.actions:
                raise invalid(f"P4Info: {where}: there is no action with id {ref.id:#x}")
            name = self.actions[ref.id].preamble.name
            if name not in by_name:
                raise invalid(f"P4Info: {where}: the BMv2 JSON has no action '{name}' in this table")
            action = by_name[name]
            refs.append(TableAction(self._action(ref.id, action), action.id, ref.scope))
        return TableActions(where, refs)

    def _profile(self, info: p4i.ActionProfile) -> Profile:
        name = info.preamble.name
        profile = self.program.profiles.get(name)
        if profile is None:
            raise _Absent("action profile", name)
        if info.with_selector != (profile.selector is not None):
            raise invalid(
                f"P4Info: action profile '{name}' {'has' if info.with_selector else 'lacks'} a selector, "
                "the BMv2 JSON says otherwise"
            )
        table = next((t for t in self.info.tables if t.implementation_id == info.preamble.id), p4i.Table())
        actions = self._action_set(table, profile.actions.values())
        actions.where = f"action profile {name}"
        return Profile(
            info.preamble.id,
            name,
            actions,
            info.with_selector,
            info.max_group_size,
            info.weights_disallowed,
            info.WhichOneof("selector_size_semantics") == "sum_of_members",
            info.sum_of_members.max_member_weight,
        )

    # -- tables

    def _table(self, info: p4i.Table) -> TableSchema:
        name = info.preamble.name
        table = self.program.tables.get(name)
        if table is None:
            raise _Absent("table", name)
        profile = None
        if info.implementation_id:
            profile = self.schema.profiles.get(info.implementation_id)
        if (profile.name if profile else None) != (table.profile.name if table.profile else None):
            raise invalid(f"P4Info: table '{name}' has another implementation than in the BMv2 JSON")
        counter, meter = self._direct_resources(info, table)
        ageing = info.idle_timeout_behavior == p4i.Table.IdleTimeoutBehavior.NOTIFY_CONTROL
        if ageing and not table.support_timeout:
            raise invalid(f"P4Info: table '{name}' has idle timeouts, in the BMv2 JSON it has none")
        key = self._key(info, table)
        if key.prioritised != (table.match_type in ("ternary", "range")):
            raise invalid(f"P4Info: table '{name}': the match kinds differ from the BMv2 JSON's")
        return TableSchema(
            id=info.preamble.id,
            name=name,
            key=key,
            actions=self._action_set(info, table.actions),
            size=info.size,
            profile=profile,
            is_const=info.is_const_table,
            # p4c's JSON does not tell `entries` from `const entries`; P4Info does.
            preset=info.has_initial_entries and not info.is_const_table,
            const_default=bool(info.const_default_action_id) or table.default_const,
            ageing=ageing,
            counter=counter,
            meter=meter,
        )

    def _direct_resources(self, info: p4i.Table, table: model.TableIr) -> tuple[Counter | None, MeterInfo | None]:
        counter = meter = None
        for id_ in info.direct_resource_ids:
            if id_ in self.direct_counters:
                counter = _counter(self.direct_counters[id_], 0)
            elif id_ in self.direct_meters:
                meter = _meter(self.direct_meters[id_], 0)
            else:
                raise invalid(f"P4Info: table '{info.preamble.name}': there is no direct resource {id_:#x}")
        if counter and not table.with_counters:
            raise invalid(f"P4Info: the BMv2 JSON has no direct counter '{counter.name}'")
        if meter and table.direct_meter is None:
            raise invalid(f"P4Info: the BMv2 JSON has no direct meter '{meter.name}'")
        return counter, meter

    def _key(self, info: p4i.Table, table: model.TableIr) -> MatchCodec:
        where = f"table {info.preamble.name}"
        if len(info.match_fields) != len(table.key):
            have = f"{len(info.match_fields)} match fields, in the BMv2 JSON {len(table.key)}"
            raise invalid(f"P4Info: {where} has {have}")
        # By name, or by place when names were changed by annotations that only P4Info shows.
        places = {f.name: i for i, f in enumerate(table.key)}
        by_name = len(places) == len(table.key) and all(f.name in places for f in info.match_fields)
        fields = []
        for i, f in enumerate(info.match_fields):
            at = places[f.name] if by_name else i
            fields.append(self._field(f, at, table.key[at], where))
        if len({f.id for f in fields}) < len(fields) or len({f.position for f in fields}) < len(fields):
            raise invalid(f"P4Info: {where} has two match fields with the same id")
        return MatchCodec(where, fields)

    def _field(self, info: p4i.MatchField, position: int, key_field: model.KeyField, where: str) -> FieldCodec:
        what = f"{where}: match field '{info.name}'"
        if info.WhichOneof("match") != "match_type" or info.match_type not in CODECS:
            raise invalid(f"P4Info: {what} has no match kind of v1model")
        if key_field.match_type not in _JSON_KINDS[info.match_type]:
            raise invalid(f"P4Info: {what} is {_Match.Name(info.match_type)}, in the BMv2 JSON {key_field.match_type}")
        if info.match_type in (_Match.EXACT, _Match.OPTIONAL):
            bits = self._width(info, key_field.bits, what)
        else:  # masks, prefixes and ranges are not translated
            bits = _width(info.bitwidth, key_field.bits, what)
        return CODECS[info.match_type](info.id, info.name, bits, position, where)

    def _width(self, info: Any, program: int, what: str) -> int:
        """Return the width of a data-plane number whose type is translated."""
        kind = self.schema.translation.of(info)
        return _width(info.bitwidth, program, what) if kind is None else kind.use(_width(0, program, what))

    # -- arrays, digests, value sets

    def _type(self, spec: Any) -> DataType | None:
        try:
            return data_type(spec, self.info.type_info)
        except Unsupported:
            return None

    def _counter(self, info: p4i.Counter) -> Counter:
        self._array(self.program.counters, "counter", info.preamble.name, info.size)
        return _counter(info, info.size)

    def _meter(self, info: p4i.Meter) -> MeterInfo:
        self._array(self.program.meters, "meter", info.preamble.name, info.size)
        return _meter(info, info.size)

    def _register(self, info: p4i.Register) -> Register:
        array = self._array(self.program.registers, "register", info.preamble.name, info.size)
        type_ = self._type(info.type_spec)
        if type_ is not None:
            bits = sum(leaf.bits for leaf in type_.leaves())
            if bits != array.bits:
                raise invalid(f"P4Info: register '{info.preamble.name}' has {bits} bits, in the BMv2 JSON {array.bits}")
        return Register(info.preamble.id, info.preamble.name, info.size, type_)

    def _digest(self, info: p4i.Digest) -> Digest:
        name = info.preamble.name
        lists = self.program.json.get("learn_lists") or []
        learn_list = next((learn for learn in lists if learn["name"] == name), None)
        if learn_list is None and name.startswith("digest_"):
            # p4c calls digests of tuples `digest_0`, ... in P4Info and `tuple_0`, ... in the JSON, in the same order.
            nameless = [d.preamble.name for d in self.info.digests if d.preamble.name.startswith("digest_")]
            tuples = [learn for learn in lists if learn["name"].startswith("tuple_")]
            learn_list = dict(zip(nameless, tuples, strict=False)).get(name)
        if learn_list is None:
            raise _Absent("digest", name)
        return Digest(info.preamble.id, name, learn_list["id"], self._type(info.type_spec))

    def _value_set(self, info: p4i.ValueSet) -> ValueSetInfo:
        name = info.preamble.name
        value_set = self.program.value_sets.get(name)
        if value_set is None:
            raise _Absent("value set", name)
        where = f"value set {name}"
        translated = [f.id for f in info.match if self.schema.translation.of(f) is not None]
        # The JSON tells nothing about other kinds, and the width of all fields only.
        if any(f.match_type != _Match.EXACT for f in info.match) or len(translated) > 1:
            return ValueSetInfo(info.preamble.id, name, info.size, None)
        left = value_set["compressed_bitwidth"] - sum(f.bitwidth for f in info.match if f.id not in translated)
        fields = []
        for i, f in enumerate(info.match):
            bits = self._width(f, left if f.id in translated else f.bitwidth, where)
            fields.append(CODECS[_Match.EXACT](f.id, f.name, bits, i, where))
        bits = sum(f.bits for f in fields)
        if bits != value_set["compressed_bitwidth"]:
            raise invalid(f"P4Info: {where} has {bits} bits, in the BMv2 JSON {value_set['compressed_bitwidth']}")
        return ValueSetInfo(info.preamble.id, name, info.size, MatchCodec(where, fields))


def _preambles(info: p4i.P4Info) -> Iterator[p4i.Preamble]:
    arrays = (info.counters, info.direct_counters, info.meters, info.direct_meters, info.registers, info.value_sets)
    others = (info.controller_packet_metadata, info.digests)
    for kind in (info.tables, info.actions, info.action_profiles, *arrays, *others):
        yield from (each.preamble for each in kind)


def _roles(info: p4i.P4Info) -> dict[str, set[int]]:
    """Return the owners by `@p4runtime_role`, as in sonic-pins and 4ward; an action profile belongs to its tables'
    owners."""
    owners: dict[int, set[str]] = {}
    for p in _preambles(info):
        texts = annotations.arguments(p.annotations, "p4runtime_role")
        owners[p.id] = {name for text in texts for name in annotations.names(text)}
    for profile in info.action_profiles:
        owners[profile.preamble.id].update(*(owners.get(id_, ()) for id_ in profile.table_ids))
    return {role: {id_ for id_, mine in owners.items() if role in mine} for role in set().union(*owners.values())}


def _width(info: int, program: int, what: str) -> int:
    """Values must fit both. P4Info has no width for strings, errors and enums without representation."""
    info = info or program
    if not 0 < info <= MAX_P4INFO_BITS or not 0 < program <= MAX_P4INFO_BITS:
        raise invalid(f"P4Info: {what}: a width of {info} bits (BMv2 JSON: {program}) is not in 1..{MAX_P4INFO_BITS}")
    return min(info, program)


def _counter(info: p4i.Counter | p4i.DirectCounter, size: int) -> Counter:
    unit = info.spec.unit
    units = p4i.CounterSpec.Unit
    return Counter(info.preamble.id, info.preamble.name, size, unit != units.BYTES, unit != units.PACKETS)


def _meter(info: p4i.Meter | p4i.DirectMeter, size: int) -> MeterInfo:
    return MeterInfo(info.preamble.id, info.preamble.name, size, info.spec.type)
