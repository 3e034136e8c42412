# SPDX-License-Identifier: Apache-2.0
"""Table entries (section 9.1): malformed ones, default, constant and initial ones, filters, direct resources."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from finsy.proto import p4r

from detour.conformance.samples import MATCH_KINDS, NO_ID, MissingObject, Samples, duplicate, rates
from detour.conformance.steps import *

_EXACT, _LPM, _TERNARY = sample.entry("exact"), sample.entry("lpm"), sample.entry("ternary")
_BARE, _AGEING, _KEY, _TABLE = sample.entry("bare"), sample.entry("ageing"), sample.key("exact"), sample.all_of("exact")
_matching = sample.matching


def _in_match(kind: str, change: Callable[[p4r.FieldMatch], object]) -> Recipe:
    """An entry whose match of this kind is changed."""

    def make(samples: Samples) -> p4r.Entity:
        entity = samples.entry(kind)
        change(samples.match_of(entity, kind))
        return entity

    return Recipe(make)


def _without(kind: str) -> Recipe:
    def make(samples: Samples) -> p4r.Entity:
        entity = samples.entry(kind)
        entity.table_entry.match.remove(samples.match_of(entity, kind))
        return entity

    return Recipe(make)


def _unset(match: p4r.FieldMatch) -> None:
    match.ClearField(match.WhichOneof("field_match_type") or "exact")


def _as(kind: str) -> Callable[[p4r.FieldMatch], None]:
    return lambda match: setattr(getattr(match, kind), "low" if kind == "range" else "value", b"\1")


def _with_params(change: Callable[[Any], object]) -> Recipe:
    """`change` gets the arguments, of which there must be some."""

    def altered(message: Any) -> None:
        if not message.action.action.params:
            raise MissingObject("the exact table has no action with parameters")
        change(message.action.action.params)

    return _EXACT.altered(altered)


def _foreign(samples: Samples) -> p4r.Action:
    return samples.foreign_action("exact")


def _one_shot(samples: Samples) -> p4r.ActionProfileActionSet:
    action = p4r.Action(action_id=samples.action("exact").action_id)
    return p4r.ActionProfileActionSet(action_profile_actions=[p4r.ActionProfileAction(action=action, weight=1)])


_LAST_HIT = p4r.TableEntry.IdleTimeout()
_MALFORMED: tuple[tuple[str, str, str, Recipe], ...] = (
    # id, section, requirement, entry
    ("exact_omitted", "9.1.1", "an exact field may not be omitted", _without("exact")),
    ("duplicate_field", "9.1.1", "a match field may not occur twice",
     _EXACT.altered(lambda m: m.match.append(m.match[0]))),
    ("unknown_field", "9.1.1", "a field_id that the table does not have is INVALID_ARGUMENT",
     _in_match("exact", lambda m: setattr(m, "field_id", 77))),
    ("field_id_0", "9.1.1", "field_id 0 is INVALID_ARGUMENT", _in_match("exact", lambda m: setattr(m, "field_id", 0))),
    *((f"{kind}_unset", "9.1.1", f"{kind}: a match without a match type is INVALID_ARGUMENT", _in_match(kind, _unset))
      for kind in MATCH_KINDS),
    *((f"{kind}_as_{other}", "9.1.1", f"{kind}: a match of type {other} is INVALID_ARGUMENT",
       _in_match(kind, _as(other))) for kind in MATCH_KINDS for other in MATCH_KINDS if other != kind),
    ("lpm_0", "9.1.1", "an lpm match of prefix length 0 must be omitted", _matching("lpm", value=0, prefix_len=0)),
    ("lpm_too_long", "9.1.1", "a prefix longer than the field is INVALID_ARGUMENT",
     _matching("lpm", value=1, prefix_len=lambda bits: bits + 1)),
    ("lpm_negative", "9.1.1", "a negative prefix length is INVALID_ARGUMENT", _matching("lpm", value=0, prefix_len=-1)),
    ("lpm_low_bits", "9.1.1", "bits behind the prefix must be 0",
     _matching("lpm", value=1, prefix_len=lambda bits: bits - 1)),
    ("lpm_high_low_bits", "9.1.1", "all bits behind a short prefix must be 0",
     _matching("lpm", value=lambda bits: (1 << (bits - 1)) | 1, prefix_len=1)),
    ("ternary_mask_0", "9.1.1", "a ternary match with mask 0 must be omitted", _matching("ternary", value=0, mask=0)),
    ("ternary_masked", "9.1.1", "bits of the value that the mask leaves out must be 0",
     _matching("ternary", value=3, mask=1)),
    ("ternary_longer", "9.1.1", "the value of a ternary match may not be wider than its mask",
     _matching("ternary", value=0x101, mask=1)),
    ("range_swapped", "9.1.1", "the low bound may not exceed the high one", _matching("range", low=2, high=1)),
    ("range_all", "9.1.1", "a range of all values must be omitted",
     _matching("range", low=0, high=lambda bits: (1 << bits) - 1)),
    ("priority_0", "9.1", "an entry with ternary, range or optional fields needs a priority",
     _TERNARY.but("priority", 0)),
    ("priority_negative", "9.1", "a negative priority is INVALID_ARGUMENT", _TERNARY.but("priority", -1)),
    ("priority_of_exact", "9.1", "an entry with exact fields only has no priority", _EXACT.but("priority", 1)),
    ("priority_of_lpm", "9.1", "an entry with lpm and exact fields only has no priority", _LPM.but("priority", 1)),
    ("is_const", "9.1", "INSERT with is_const is INVALID_ARGUMENT", _EXACT.but("is_const", True)),
    ("no_action", "9.1.2", "INSERT without an action is INVALID_ARGUMENT", _KEY),
    ("empty_action", "9.1.2", "an action in which nothing is set is INVALID_ARGUMENT",
     _KEY.but("action", p4r.TableAction())),
    ("foreign_action", "9.1.2", "an action of other tables only is INVALID_ARGUMENT",
     _EXACT.but("action.action", _foreign)),
    ("param_missing", "9.1.2", "a missing parameter is INVALID_ARGUMENT", _with_params(lambda p: p.pop())),
    ("param_extra", "9.1.2", "a parameter that the action does not have is INVALID_ARGUMENT",
     _with_params(lambda p: p.add(param_id=77, value=b"\1"))),
    ("param_unknown", "9.1.2", "an unknown param_id instead of the right one is INVALID_ARGUMENT",
     _with_params(lambda p: setattr(p[0], "param_id", 77))),
    ("param_twice", "9.1.2", "a parameter that is given twice is INVALID_ARGUMENT",
     _with_params(lambda p: p.append(p[0]))),
    ("member_in_direct", "9.1.2", "a member in a table without action profile is INVALID_ARGUMENT",
     sample.pointer("exact", member=1)),
    ("group_in_direct", "9.1.2", "a group in a table without action profile is INVALID_ARGUMENT",
     sample.pointer("exact", group=1)),
    ("one_shot_in_direct", "9.1.2", "an action set in a table without selector is INVALID_ARGUMENT",
     _KEY.but("action.action_profile_action_set", _one_shot)),
    ("timeout", "9.1.8", "idle_timeout_ns in a table without time-outs is INVALID_ARGUMENT",
     _EXACT.but("idle_timeout_ns", 10**9)),
    ("last_hit", "9.1.8", "time_since_last_hit in a table without time-outs is INVALID_ARGUMENT",
     _EXACT.but("time_since_last_hit", _LAST_HIT)),
    ("last_hit_in_write", "9.1.8", "time_since_last_hit in a write is refused",
     _AGEING.but("time_since_last_hit", _LAST_HIT)),
    ("counter_of_none", "9.1.7", "counter_data in a table without direct counter is INVALID_ARGUMENT",
     _BARE.but("counter_data.packet_count", 1)),
    ("meter_of_none", "9.1.7", "meter_config in a table without direct meter is INVALID_ARGUMENT",
     _BARE.but("meter_config", rates(5))),
)  # fmt: skip
_ACCEPTED: tuple[tuple[str, str, str, Recipe], ...] = (
    ("lpm_omitted", "9.1.1", "an lpm field may be omitted", _without("lpm")),
    ("ternary_omitted", "9.1.1", "a ternary field may be omitted", _without("ternary")),
    ("range_omitted", "9.1.1", "a range field may be omitted", _without("range")),
    ("optional_omitted", "9.1.1", "an optional field may be omitted", _without("optional")),
    ("lpm_1", "9.1.1", "a prefix of one bit is accepted",
     _matching("lpm", value=lambda bits: 1 << (bits - 1), prefix_len=1)),
    ("ternary_holes", "9.1.1", "a mask with holes is accepted", _matching("ternary", value=0x105, mask=0x10F)),
    ("range_one", "9.1.1", "a range of one value is accepted", _matching("range", low=3, high=3)),
    ("metadata", "9.1", "metadata is returned as it was written", _EXACT.but("metadata", b"\0 opaque \xff")),
    ("controller_metadata", "9.1", "controller_metadata is returned as it was written",
     _EXACT.but("controller_metadata", (1 << 64) - 1)),
    ("highest_priority", "9.1", "the highest priority is accepted", _TERNARY.but("priority", (1 << 31) - 2)),
    ("idle_timeout", "9.1.8", "idle_timeout_ns is returned exactly", _AGEING.but("idle_timeout_ns", 3600 * 10**9 + 1)),
    ("small_timeout", "9.1.8", "a time-out that is too small for the target is taken and read back exactly",
     _AGEING.but("idle_timeout_ns", 1)),
)  # fmt: skip


def _two_of(*priorities: int) -> CheckStep:
    """Entries of these priorities must both be there; equal ones have different matches."""
    same = len(set(priorities)) == 1
    both = [sample.entry("ternary", n if same else 0).but("priority", p) for n, p in enumerate(priorities)]
    return lambda session: [step(session) for step in (accept(*(e.insert for e in both)), holds(both[0].own, *both))]


def _beyond(session: CheckSession) -> None:
    """Up to four times the size that P4Info gives, since a target may hold more."""
    size = session.samples.table("small").size
    made = many(lambda n: sample.entry("small", n).insert, 1 + 4 * size, start=100).make(session.samples)
    codes = set(session.write(*made).codes)
    session.expect(codes == {0, FULL}, f"OK and RESOURCE_EXHAUSTED for {len(made)} entries of {size}")


def _room(samples: Samples) -> int:
    return min(samples.table("exact").size, 1000)


_REVERSED = _EXACT.altered(lambda m: m.match.reverse())
_ENTRIES = [
    *rows("table_entry",
        *((name, section, text, refuse(INVALID_ARGUMENT, entity.insert)) for name, section, text, entity in _MALFORMED),
        ("action_id_0", "8.1.1", "action_id 0 is refused",
         refuse(WRONG_ID, _EXACT.but("action.action.action_id", 0).insert)),
        ("unknown_action", "9.1.2", "an action that P4Info does not have is refused",
         refuse(WRONG_ID, _EXACT.but("action.action.action_id", NO_ID).insert)),
        *((name, section, text, stores(entity.insert, request=entity.own))
          for name, section, text, entity in _ACCEPTED),
        ("same_priority", "9.1", "entries of one table may have the same priority", _two_of(10, 10)),
        ("priority_is_key", "9.1", "the same match with another priority is another entry", _two_of(10, 11)),
        ("modify_without_priority", "9.1", "MODIFY finds an entry by match and priority",
         prepare(_TERNARY), refuse(NOT_FOUND, _TERNARY.but("priority", 11).modify)),
        ("match_order", "8.2", "the order of match fields does not matter",
         prepare(_EXACT), refuse(EXISTS, _REVERSED.insert)),
        ("modify_without_action", "9.1.2", "MODIFY without an action keeps the action",
         prepare(_EXACT), accept(_KEY.modify), holds(_KEY, _EXACT)),
        ("modify_metadata", "12", "MODIFY assigns metadata too: unset, it is empty",
         prepare(_EXACT.but("metadata", b"old")), stores(_EXACT.modify)),
        ("full", "9.1", "an entry for which a table has no room is RESOURCE_EXHAUSTED", _beyond),
        ("size", "9.1", "a table takes as many entries as P4Info's size says",
         accept(many(lambda n: sample.entry("exact", n), _room).insert), reads(_TABLE, "entries", _room)),
        ("is_const_modify", "9.1", "MODIFY with is_const is INVALID_ARGUMENT",
         prepare(_EXACT), refuse(INVALID_ARGUMENT, _EXACT.but("is_const", True).modify)),
        ("is_const_delete", "9.1", "DELETE with is_const is INVALID_ARGUMENT",
         prepare(_EXACT), refuse(INVALID_ARGUMENT, _EXACT.but("is_const", True).delete)),
        ("default_only", "9.1.2", "an action for default entries only in an entry is PERMISSION_DENIED",
         refuse(DENIED, sample.entry("default_only").but("action.action", lambda s: s.scoped("default_only")).insert)),
        ("table_only", "9.1.2", "an action for entries only in a default entry is PERMISSION_DENIED",
         refuse(DENIED, sample.default("table_only").but("action.action", lambda s: s.scoped("table_only")).modify)),
    ),
]  # fmt: skip

# -- default entries

_DEFAULT, _REQUEST = sample.default("exact"), sample.all_of("exact", default=True)


def _always(session: CheckSession) -> None:
    for table in session.samples.info.tables:
        if not table.implementation_id:
            request = p4r.TableEntry(table_id=table.preamble.id, is_default_action=True)
            read = session.read(p4r.Entity(table_entry=request))
            session.expect(len(read) == 1 and read[0].table_entry.is_default_action, f"one of {table.preamble.name}")


_BAD_DEFAULTS: tuple[tuple[str, str, str, str, Recipe], ...] = (
    ("insert", "9.1.3", "INSERT of a default entry", "INSERT", _DEFAULT),
    ("delete", "9.1.3", "DELETE of a default entry", "DELETE", _DEFAULT),
    ("match", "9.1.3", "a default entry with match fields",
     "MODIFY", _DEFAULT.but("match", lambda s: list(s.key("exact").table_entry.match))),
    ("priority", "9.1.3", "a default entry with a priority", "MODIFY", _DEFAULT.but("priority", 1)),
    ("is_const", "9.1", "a default entry with is_const", "MODIFY", _DEFAULT.but("is_const", True)),
    ("foreign_action", "9.1.3", "an action of other tables only in a default entry",
     "MODIFY", _DEFAULT.but("action.action", _foreign)),
    ("timeout", "9.1.8", "a default entry with idle_timeout_ns", "MODIFY", _DEFAULT.but("idle_timeout_ns", 10**9)),
    ("last_hit", "9.1.8", "a default entry with time_since_last_hit",
     "MODIFY", _DEFAULT.but("time_since_last_hit", _LAST_HIT)),
)  # fmt: skip


def _reset(metadata: bytes) -> CheckStep:
    return keeps(_REQUEST, do(_DEFAULT.but("metadata", metadata).modify), accept(_REQUEST.modify))


_DEFAULTS = [
    *rows("default_entry",
        *((name, section, f"{text} is INVALID_ARGUMENT", refuse(INVALID_ARGUMENT, entity.update(update)))
          for name, section, text, update, entity in _BAD_DEFAULTS),
        ("always", "9.1.3", "every table without an action profile has a default entry", _always),
        ("initial", "9.1.3", "the default entry is the one of the program at first",
         reads(_REQUEST, "action_id", lambda s: [s.table("exact").initial_default_action.action_id],
             lambda read: [e.table_entry.action.action.action_id for e in read])),
        ("modify", "9.1.3", "MODIFY replaces the default entry, which is read back", stores(_DEFAULT.modify)),
        ("keyless", "9.1.3", "the default entry of a table without a key can be modified",
         stores(sample.default("keyless").modify)),
        ("metadata", "9.1.3", "metadata of a default entry is returned as it was written",
         stores(_DEFAULT.but("metadata", b"mine").modify)),
        ("reset", "9.1.3", "MODIFY without an action resets the default entry",
         reads(_REQUEST, "default entries", 1), _reset(b"")),
        ("reset_metadata", "9.1.3", "a reset of the default entry resets its metadata", _reset(b"m")),
        ("not_listed", "9.1.6", "without is_default_action a read does not give the default entry",
         prepare(_EXACT), holds(_TABLE, _EXACT)),
        ("const", "9.1.3", "MODIFY of a constant default entry is PERMISSION_DENIED",
         refuse(DENIED, sample.default("const_default").modify)),
        ("indirect", "9.1.3", "the default entry of a table with an action profile is a constant NoAction",
         refuse((DENIED, INVALID_ARGUMENT), sample.default("indirect").modify)),
    ),
    *rows("keyless",
        ("insert", "9.1", "INSERT into a table without a key is INVALID_ARGUMENT",
         refuse(INVALID_ARGUMENT, sample.entry("keyless").insert)),
    ),
]  # fmt: skip

# -- constant and initial entries


def _brought(session: CheckSession, table: str) -> list[p4r.Entity]:
    """The entries that the program brings."""
    rows = session.read(session.samples.all_of(table))
    if not rows:
        raise NotPrepared(f"{session.samples.table(table).preamble.name} has no entries")
    return rows


@step
def _with_row(
    session: CheckSession, table: str, which: int, step: Callable[[Recipe], CheckStep], **fields: Any
) -> None:
    """A step with such an entry without what says that it is constant. P4Info does not tell which entries of a
    preinitialized table are `const`; it is hoped that the last one is not."""
    row = Recipe(lambda _: _brought(session, table)[which]).but("is_const", False)
    for name, value in fields.items():
        row = row.but(name, value)
    entity = row.make(session.samples)
    step(Recipe(lambda _: duplicate(entity)))(session)


def _const_counter(session: CheckSession) -> None:
    if not session.samples.has_direct("counters", session.samples.table("const")):
        raise MissingObject("the constant table has no direct counter")
    counted = p4r.CounterData(packet_count=7)
    _with_row("const", 0, lambda row: accept(row.modify), action=None, counter_data=counted)(session)


def _gone(row: Recipe) -> CheckStep:
    def step(session: CheckSession) -> None:
        accept(row.delete)(session)
        match = row.make(session.samples).table_entry.match
        session.expect(
            all(r.table_entry.match != match for r in session.read(row.own.make(session.samples))), "the others"
        )

    return step


def _have_actions(read: list[p4r.Entity]) -> bool:
    return bool(read) and all(r.table_entry.action.action.action_id for r in read)


def _priorities(session: CheckSession) -> None:
    rows = session.read(session.samples.all_of("const"))
    priorities = {r.table_entry.priority for r in rows}
    distinct = len(priorities) == len(rows) and 0 not in priorities
    ranked = session.samples.ranked(session.samples.table("const"))
    session.expect(distinct if ranked else priorities == {0}, "priorities that differ")


def _all_const(session: CheckSession) -> None:
    rows = _brought(session, "const")
    read = session.read(p4r.Entity(table_entry=p4r.TableEntry()))
    session.expect(all(row in read for row in rows), f"among them {rows[0]}")


_CONST, _PRESET = sample.all_of("const"), sample.all_of("preset")
_INITIAL = [
    *rows("const",
        ("read", "9.1.4", "entries of a constant table are read, with match and action",
         reads(_CONST, "entries with actions", True, _have_actions)),
        ("priorities", "9.1.4", "entries of a constant table have priorities by their order, if it needs any",
         _priorities),
        ("is_const", "9.1", "is_const is true of the entries of a constant table",
         reads(_CONST, "is_const: true", True, lambda read: read and all(r.table_entry.is_const for r in read))),
        ("insert", "9.1.4", "INSERT into a constant table is PERMISSION_DENIED",
         refuse(DENIED, sample.entry("const", 5).insert)),
        ("modify", "9.1.4", "MODIFY of a constant entry's action is PERMISSION_DENIED",
         _with_row("const", 0, lambda row: refuse(DENIED, row.modify))),
        ("delete", "9.1.4", "DELETE of a constant entry is PERMISSION_DENIED",
         _with_row("const", 0, lambda row: refuse(DENIED, row.delete))),
        ("counter", "9.1.4", "MODIFY of a constant entry's direct counter is allowed", _const_counter),
    ),
    *rows("preset",
        ("read", "9.1.5", "entries of a preinitialized table are read",
         reads(_PRESET, "entries with actions", True, _have_actions)),
        ("is_const", "9.1", "is_const is false of initial entries that can be modified",
         reads(_PRESET, "is_const: false", True, lambda read: any(not r.table_entry.is_const for r in read))),
        ("modify", "9.1.5", "an initial entry that is not const can be modified",
         _with_row("preset", -1, lambda row: accept(row.modify), metadata=b"mine")),
        ("delete", "9.1.5", "an initial entry that is not const can be deleted", _with_row("preset", -1, _gone)),
        ("insert", "9.1.5", "entries can be inserted into a preinitialized table",
         stores(sample.entry("preset", 20).insert)),
    ),
]  # fmt: skip

# -- filters


@step
def _filtered(session: CheckSession, table: str, keep: tuple[int, ...], filters: dict[str, Any]) -> None:
    """Check that a filtered read returns, of three entries, those with the numbers `keep`."""
    three = [sample.entry(table, n).but("metadata", b"%d" % n).but("controller_metadata", 1 + n) for n in range(3)]
    three[2] = three[2].but("action.action", lambda s: s.action(table, 0, 1))
    prepare(*three)(session)
    request = sample.all_of(table)
    for path, value in filters.items():
        request = request.but(path, value)
    holds(request, *(three[n] for n in keep))(session)


def _match(n: int) -> Callable[[Samples], list[p4r.FieldMatch]]:
    return lambda samples: list(samples.key("exact", n).table_entry.match)


_FILTERS: tuple[tuple[str, str, str, dict[str, Any], tuple[int, ...]], ...] = (
    ("none", "without filters all entries of the table", "exact", {}, (0, 1, 2)),
    ("match", "a match gives the entry with that match", "exact", {"match": _match(1)}, (1,)),
    ("no_match", "a match that no entry has gives nothing", "exact", {"match": _match(9)}, ()),
    ("action", "an action_id gives the entries with that action", "exact",
     {"action.action.action_id": lambda s: s.action("exact", 0, 1).action_id}, (2,)),
    ("priority", "a priority gives the entries with that priority", "ternary", {"priority": 11}, (1,)),
    ("metadata", "metadata gives the entries with that metadata", "exact", {"metadata": b"1"}, (1,)),
    ("controller_metadata", "controller_metadata gives the entries with it", "exact", {"controller_metadata": 3}, (2,)),
    ("two", "two filters give the entries that pass both", "exact", {"metadata": b"1", "controller_metadata": 3}, ()),
)  # fmt: skip
_READS = [
    *rows("filter",
        *((name, "9.1.6", text, _filtered(table, keep, filters)) for name, text, table, filters, keep in _FILTERS),
        ("unknown_field", "9.1.6", "a match that is not valid for the table is refused in a read",
         refuse_read(INVALID_ARGUMENT, _KEY.but("match[0].field_id", 77))),
        ("const_in_all", "9.1.6", "a read of all tables gives constant entries too", _all_const),
        ("no_table", "9.1.6", "a read of a table that P4Info does not have is refused",
         refuse_read(WRONG_ID, p4r.Entity(table_entry=p4r.TableEntry(table_id=NO_ID)))),
    ),
]  # fmt: skip

# -- direct resources and time-outs in entries


def _counted(packets: int | None) -> Recipe:
    entity = sample.entry("counted")
    data = None if packets is None else p4r.CounterData(packet_count=packets, byte_count=packets * 64)
    return entity.but("counter_data", data)


def _metered(cir: int | None) -> Recipe:
    return sample.entry("metered").but("meter_config", None if cir is None else rates(cir))


_COUNTER = sample.all_of("counted").but("counter_data", p4r.CounterData())
_METER = sample.all_of("metered").but("meter_config", p4r.MeterConfig())
_ASKS = sample.all_of("ageing").but("time_since_last_hit", _LAST_HIT)


def _timed(ttl_ns: int) -> CheckStep:
    return prepare(_AGEING.but("idle_timeout_ns", ttl_ns))


def _has_hit(read: list[p4r.Entity]) -> bool:
    return len(read) == 1 and read[0].table_entry.HasField("time_since_last_hit")


_RESOURCES = [
    *rows("direct",
        ("counter_insert", "9.1.7", "INSERT with counter_data sets the direct counter",
         stores(_counted(5).insert, request=_COUNTER)),
        ("counter_insert_unset", "9.1.7", "INSERT without counter_data starts the direct counter at 0",
         stores(_counted(None).insert, _counted(0), request=_COUNTER)),
        ("counter_modify", "9.1.7", "MODIFY with counter_data writes the direct counter",
         prepare(_counted(5)), stores(_counted(6).modify, request=_COUNTER)),
        ("counter_modify_unset", "9.1.7", "MODIFY without counter_data leaves the direct counter",
         prepare(_counted(5)), stores(_counted(None).modify, _counted(5), request=_COUNTER)),
        ("counter_not_asked", "9.1.7", "a read without counter_data does not give it",
         prepare(_counted(5)), holds(sample.all_of("counted"), _counted(None))),
        ("meter_insert", "9.1.7", "INSERT with meter_config configures the direct meter",
         stores(_metered(5).insert, request=_METER)),
        ("meter_insert_unset", "9.1.7", "a direct meter in its default configuration has no meter_config in a read",
         stores(_metered(None).insert, request=_METER)),
        ("meter_modify", "9.1.7", "MODIFY with meter_config configures the direct meter",
         prepare(_metered(5)), stores(_metered(6).modify, request=_METER)),
        ("meter_not_asked", "9.1.7", "a read without meter_config does not give it",
         prepare(_metered(5)), holds(sample.all_of("metered"), _metered(None))),
    ),
    *rows("idle",
        ("asked", "9.1.8", "time_since_last_hit is in a read that asks for it",
         _timed(10**12), reads(_ASKS, "time_since_last_hit", True, _has_hit)),
        ("asked_without_ttl", "9.1.8", "time_since_last_hit is in a read that asks for it though there is no TTL",
         _timed(0), reads(_ASKS, "time_since_last_hit", True, _has_hit)),
        ("not_asked", "9.1.8", "time_since_last_hit is not in a read that does not ask for it",
         _timed(10**12), reads(sample.all_of("ageing"), "one entry, no time_since_last_hit", True,
             lambda read: len(read) == 1 and not _has_hit(read))),
        ("modify", "9.1.8", "MODIFY changes the TTL, which is read back exactly",
         _timed(10**12), stores(_AGEING.but("idle_timeout_ns", 10**13 + 7).modify, request=sample.all_of("ageing"))),
    ),
]  # fmt: skip
checks = [*_ENTRIES, *_DEFAULTS, *_INITIAL, *_READS, *_RESOURCES]
