# SPDX-License-Identifier: Apache-2.0
"""Table entries (section 9.1): malformed ones, default, constant and initial ones, filters, direct resources."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from finsy.proto import p4i, p4r

from detour.control.conformance.checks.entities import duplicate
from detour.control.conformance.link import Canonical
from detour.control.conformance.model import SHOULD, add, check
from detour.control.conformance.samples import (
    EXACT,
    LPM,
    NO_ID,
    OPTIONAL,
    RANGE,
    TERNARY,
    MissingObject,
    Samples,
    rates,
)
from detour.control.conformance.session import CheckSession, NotPrepared, delete, insert, modify
from detour.control.p4runtime.codec import to_bytes

_INVALID = Canonical.INVALID_ARGUMENT
_Change = Callable[[Samples, p4r.TableEntry], None]
_Make = Callable[[Samples], p4r.Entity]


def _refused(make: _Make, change: _Change, codes: int | Sequence[int], session: CheckSession) -> None:
    """The entry as it is would be taken; changed it is refused."""
    entity = make(session.samples)
    change(session.samples, entity.table_entry)
    session.refuse(codes, insert(entity))


def _match(entry: p4r.TableEntry, samples: Samples, kind: int) -> p4r.FieldMatch:
    field_id = samples.field_of(kind).id
    return next(m for m in entry.match if m.field_id == field_id)


def _of(kind: int) -> _Make:
    return lambda s: s.entry(s.table_of(kind))


def _drop(kind: int) -> _Change:
    return lambda s, e: e.match.remove(_match(e, s, kind))


def _add_duplicate(samples: Samples, entry: p4r.TableEntry) -> None:
    entry.match.append(entry.match[0])


def _in_field(kind: int, change: Callable[[p4r.FieldMatch, int], None]) -> _Change:
    """`change` gets the match and the width."""
    return lambda s, e: change(_match(e, s, kind), s.field_of(kind).bitwidth)


def _lpm(value: Callable[[int], int], length: Callable[[int], int]) -> _Change:
    def change(m: p4r.FieldMatch, bits: int) -> None:
        m.lpm.value, m.lpm.prefix_len = to_bytes(value(bits)), length(bits)

    return _in_field(LPM, change)


def _ternary(value: int, mask: int) -> _Change:
    def change(m: p4r.FieldMatch, _: int) -> None:
        m.ternary.value, m.ternary.mask = to_bytes(value), to_bytes(mask)

    return _in_field(TERNARY, change)


def _range(low: Callable[[int], int], high: Callable[[int], int]) -> _Change:
    def change(m: p4r.FieldMatch, bits: int) -> None:
        m.range.low, m.range.high = to_bytes(low(bits)), to_bytes(high(bits))

    return _in_field(RANGE, change)


def _unset(m: p4r.FieldMatch, _: int) -> None:
    m.ClearField(m.WhichOneof("field_match_type") or "exact")


def _assign(**values: int | bool | bytes) -> _Change:
    def change(_: Samples, entry: p4r.TableEntry) -> None:
        for name, value in values.items():
            setattr(entry, name, value)

    return change


def _clear(name: str) -> _Change:
    return lambda _, e: e.ClearField(name)  # pyright: ignore[reportArgumentType]


def _foreign_action(samples: Samples, entry: p4r.TableEntry) -> None:
    own = {r.id for t in samples.info.tables if t.preamble.id == entry.table_id for r in t.action_refs}
    other = next((a for a in samples.info.actions if a.preamble.id not in own), None)
    if other is None:
        raise MissingObject("the program has no action of other tables only")
    entry.action.action.CopyFrom(samples.call(other.preamble.id))


def _params(change: Callable[[p4r.Action], object]) -> _Change:
    def changed(_: Samples, entry: p4r.TableEntry) -> None:
        if not entry.action.action.params:
            raise MissingObject("the exact table has no action with parameters")
        change(entry.action.action)

    return changed


def _scoped(scope: int, samples: Samples) -> tuple[p4i.Table, int]:
    """A table with an action of this scope."""
    for table in samples.info.tables:
        for ref in table.action_refs:
            if ref.scope == scope and not table.is_const_table and not table.implementation_id:
                return table, ref.id
    raise MissingObject("the program has no action that is for entries or default entries only")


def _one_shot_action(samples: Samples, entry: p4r.TableEntry) -> None:
    entry.action.action_profile_action_set.action_profile_actions.add(weight=1).action.action_id = samples.usable(
        samples.exact
    )[0].id


_EXACT, _LPM, _TERNARY, _RANGE = _of(EXACT), _of(LPM), _of(TERNARY), _of(RANGE)
_BARE: _Make = lambda s: s.entry(s.bare)  # noqa: E731
_MALFORMED: tuple[tuple[str, str, str, _Make, _Change, int | Sequence[int]], ...] = (
    # id, section, requirement, entry, what is changed in it, code
    ("exact_omitted", "9.1.1", "an exact field may not be omitted", _EXACT, _drop(EXACT), _INVALID),
    ("duplicate_field", "9.1.1", "a match field may not occur twice", _EXACT, _add_duplicate, _INVALID),
    ("unknown_field", "9.1.1", "a field_id that the table does not have is INVALID_ARGUMENT", _EXACT,
     _in_field(EXACT, lambda m, _: setattr(m, "field_id", 77)), _INVALID),
    ("field_id_0", "9.1.1", "field_id 0 is INVALID_ARGUMENT", _EXACT,
     _in_field(EXACT, lambda m, _: setattr(m, "field_id", 0)), _INVALID),
    *((f"{n}_unset", "9.1.1", f"{n}: a match without a match type is INVALID_ARGUMENT", _of(k), _in_field(k, _unset),
       _INVALID) for n, k in (("exact", EXACT), ("lpm", LPM), ("ternary", TERNARY), ("range", RANGE),
                              ("optional", OPTIONAL))),
    *((f"{n}_as_{w}", "9.1.1", f"{n}: a match of type {w} is INVALID_ARGUMENT", _of(k),
       _in_field(k, lambda m, _, w=w: setattr(getattr(m, w), "low" if w == "range" else "value", b"\1")), _INVALID)
      for n, k in (("exact", EXACT), ("lpm", LPM), ("ternary", TERNARY), ("range", RANGE), ("optional", OPTIONAL))
      for w in ("exact", "lpm", "ternary", "range", "optional") if w != n),
    ("lpm_0", "9.1.1", "an lpm match of prefix length 0 must be omitted", _LPM, _lpm(lambda b: 0, lambda b: 0),
     _INVALID),
    ("lpm_too_long", "9.1.1", "a prefix longer than the field is INVALID_ARGUMENT", _LPM,
     _lpm(lambda b: 1, lambda b: b + 1), _INVALID),
    ("lpm_negative", "9.1.1", "a negative prefix length is INVALID_ARGUMENT", _LPM, _lpm(lambda b: 0, lambda b: -1),
     _INVALID),
    ("lpm_low_bits", "9.1.1", "bits behind the prefix must be 0", _LPM, _lpm(lambda b: 1, lambda b: b - 1), _INVALID),
    ("lpm_high_low_bits", "9.1.1", "all bits behind a short prefix must be 0", _LPM,
     _lpm(lambda b: (1 << (b - 1)) | 1, lambda b: 1), _INVALID),
    ("ternary_mask_0", "9.1.1", "a ternary match with mask 0 must be omitted", _TERNARY, _ternary(0, 0), _INVALID),
    ("ternary_masked", "9.1.1", "bits of the value that the mask leaves out must be 0", _TERNARY, _ternary(3, 1),
     _INVALID),
    ("ternary_longer", "9.1.1", "the value of a ternary match may not be wider than its mask", _TERNARY,
     _ternary(0x101, 1), _INVALID),
    ("range_swapped", "9.1.1", "the low bound may not exceed the high one", _RANGE, _range(lambda b: 2, lambda b: 1),
     _INVALID),
    ("range_all", "9.1.1", "a range of all values must be omitted", _RANGE,
     _range(lambda b: 0, lambda b: (1 << b) - 1), _INVALID),
    ("priority_0", "9.1", "an entry with ternary, range or optional fields needs a priority", _TERNARY,
     _assign(priority=0), _INVALID),
    ("priority_negative", "9.1", "a negative priority is INVALID_ARGUMENT", _TERNARY, _assign(priority=-1), _INVALID),
    ("priority_of_exact", "9.1", "an entry with exact fields only has no priority", _EXACT, _assign(priority=1),
     _INVALID),
    ("priority_of_lpm", "9.1", "an entry with lpm and exact fields only has no priority", _LPM, _assign(priority=1),
     _INVALID),
    ("is_const", "9.1", "INSERT with is_const is INVALID_ARGUMENT", _EXACT, _assign(is_const=True), _INVALID),
    ("no_action", "9.1.2", "INSERT without an action is INVALID_ARGUMENT", _EXACT, _clear("action"), _INVALID),
    ("empty_action", "9.1.2", "an action in which nothing is set is INVALID_ARGUMENT", _EXACT,
     lambda _, e: e.action.Clear() or e.action.SetInParent(), _INVALID),
    ("action_id_0", "8.1.1", "action_id 0 is refused", _EXACT,
     lambda _, e: setattr(e.action.action, "action_id", 0), (_INVALID, Canonical.NOT_FOUND)),
    ("unknown_action", "9.1.2", "an action that P4Info does not have is refused", _EXACT,
     lambda _, e: setattr(e.action.action, "action_id", NO_ID), (_INVALID, Canonical.NOT_FOUND)),
    ("foreign_action", "9.1.2", "an action of other tables only is INVALID_ARGUMENT", _EXACT, _foreign_action,
     _INVALID),
    ("param_missing", "9.1.2", "a missing parameter is INVALID_ARGUMENT", _EXACT,
     _params(lambda a: a.params.pop()), _INVALID),
    ("param_extra", "9.1.2", "a parameter that the action does not have is INVALID_ARGUMENT", _EXACT,
     _params(lambda a: a.params.add(param_id=77, value=b"\1")), _INVALID),
    ("param_unknown", "9.1.2", "an unknown param_id instead of the right one is INVALID_ARGUMENT", _EXACT,
     _params(lambda a: setattr(a.params[0], "param_id", 77)), _INVALID),
    ("param_twice", "9.1.2", "a parameter that is given twice is INVALID_ARGUMENT", _EXACT,
     _params(lambda a: a.params.append(a.params[0])), _INVALID),
    ("member_in_direct", "9.1.2", "a member in a table without action profile is INVALID_ARGUMENT", _EXACT,
     lambda _, e: setattr(e.action, "action_profile_member_id", 1), _INVALID),
    ("group_in_direct", "9.1.2", "a group in a table without action profile is INVALID_ARGUMENT", _EXACT,
     lambda _, e: setattr(e.action, "action_profile_group_id", 1), _INVALID),
    ("one_shot_in_direct", "9.1.2", "an action set in a table without selector is INVALID_ARGUMENT", _EXACT,
     _one_shot_action, _INVALID),
    ("timeout", "9.1.8", "idle_timeout_ns in a table without time-outs is INVALID_ARGUMENT", _EXACT,
     _assign(idle_timeout_ns=10**9), _INVALID),
    ("last_hit", "9.1.8", "time_since_last_hit in a table without time-outs is INVALID_ARGUMENT", _EXACT,
     lambda _, e: e.time_since_last_hit.SetInParent(), _INVALID),
    ("last_hit_in_write", "9.1.8", "time_since_last_hit in a write is refused", lambda s: s.entry(s.ageing),
     lambda _, e: e.time_since_last_hit.SetInParent(), _INVALID),
    ("counter_of_none", "9.1.7", "counter_data in a table without direct counter is INVALID_ARGUMENT", _BARE,
     lambda _, e: setattr(e.counter_data, "packet_count", 1), _INVALID),
    ("meter_of_none", "9.1.7", "meter_config in a table without direct meter is INVALID_ARGUMENT", _BARE,
     lambda _, e: e.meter_config.CopyFrom(rates(5)), _INVALID),
)  # fmt: skip
for _id, _section, _text, _make, _change, _codes in _MALFORMED:
    add(f"table_entry.{_id}", _section, _text, partial(_refused, _make, _change, _codes))


def _accepted(make: _Make, change: _Change, session: CheckSession) -> None:
    entity = make(session.samples)
    change(session.samples, entity.table_entry)
    session.accept(insert(entity))
    request = p4r.Entity(table_entry=p4r.TableEntry(table_id=entity.table_entry.table_id))
    session.holds(request, entity)


for _id, _section, _text, _make, _change in (
    ("lpm_omitted", "9.1.1", "an lpm field may be omitted", _LPM, _drop(LPM)),
    ("ternary_omitted", "9.1.1", "a ternary field may be omitted", _TERNARY, _drop(TERNARY)),
    ("range_omitted", "9.1.1", "a range field may be omitted", _RANGE, _drop(RANGE)),
    ("optional_omitted", "9.1.1", "an optional field may be omitted", _of(OPTIONAL), _drop(OPTIONAL)),
    ("lpm_1", "9.1.1", "a prefix of one bit is accepted", _LPM, _lpm(lambda b: 1 << (b - 1), lambda b: 1)),
    ("ternary_holes", "9.1.1", "a mask with holes is accepted", _TERNARY, _ternary(0x105, 0x10F)),
    ("range_one", "9.1.1", "a range of one value is accepted", _RANGE, _range(lambda b: 3, lambda b: 3)),
    ("metadata", "9.1", "metadata is returned as it was written", _EXACT, _assign(metadata=b"\0 opaque \xff")),
    ("controller_metadata", "9.1", "controller_metadata is returned as it was written", _EXACT,
     _assign(controller_metadata=(1 << 64) - 1)),
    ("highest_priority", "9.1", "the highest priority is accepted", _TERNARY, _assign(priority=(1 << 31) - 2)),
    ("idle_timeout", "9.1.8", "idle_timeout_ns is returned exactly", lambda s: s.entry(s.ageing),
     _assign(idle_timeout_ns=3600 * 10**9 + 1)),
    ("small_timeout", "9.1.8", "a time-out that is too small for the target is taken and read back exactly",
     lambda s: s.entry(s.ageing), _assign(idle_timeout_ns=1)),
):  # fmt: skip
    add(f"table_entry.{_id}", _section, _text, partial(_accepted, _make, _change))


@check("table_entry.same_priority", "9.1", "entries of one table may have the same priority")
def _same_priority(session: CheckSession) -> None:
    samples = session.samples
    table = samples.table_of(TERNARY)
    entities = [samples.entry(table, n) for n in range(2)]
    for entity in entities:
        entity.table_entry.priority = 10
    session.accept(*map(insert, entities))
    session.holds(p4r.Entity(table_entry=p4r.TableEntry(table_id=table.preamble.id)), *entities)


@check("table_entry.priority_is_key", "9.1", "the same match with another priority is another entry")
def _priority_is_key(session: CheckSession) -> None:
    samples = session.samples
    table = samples.table_of(TERNARY)
    entities = [samples.entry(table), samples.entry(table)]
    entities[1].table_entry.priority += 1
    session.accept(*map(insert, entities))
    session.holds(p4r.Entity(table_entry=p4r.TableEntry(table_id=table.preamble.id)), *entities)


@check("table_entry.modify_without_priority", "9.1", "MODIFY finds an entry by match and priority")
def _modify_other_priority(session: CheckSession) -> None:
    samples = session.samples
    entity = samples.entry(samples.table_of(TERNARY))
    session.prepare(entity)
    entity.table_entry.priority += 1
    session.refuse(Canonical.NOT_FOUND, modify(entity))


@check("table_entry.match_order", "8.2", "the order of match fields does not matter")
def _match_order(session: CheckSession) -> None:
    samples = session.samples
    entity = samples.entry(samples.exact)
    swapped = duplicate(entity)
    swapped.table_entry.ClearField("match")
    swapped.table_entry.match.extend(reversed(entity.table_entry.match))
    session.prepare(entity)
    session.refuse(Canonical.ALREADY_EXISTS, insert(swapped))


@check("table_entry.modify_without_action", "9.1.2", "MODIFY without an action keeps the action")
def _modify_keeps(session: CheckSession) -> None:
    samples = session.samples
    entity = samples.entry(samples.exact)
    session.prepare(entity)
    session.accept(modify(samples.entry(samples.exact, action=False)))
    session.holds(samples.entry(samples.exact, action=False), entity)


@check("table_entry.modify_metadata", "12", "MODIFY assigns metadata too: unset, it is empty")
def _modify_metadata(session: CheckSession) -> None:
    samples = session.samples
    entity = samples.entry(samples.exact)
    entity.table_entry.metadata = b"old"
    session.prepare(entity)
    entity.table_entry.metadata = b""
    session.accept(modify(entity))
    session.holds(samples.entry(samples.exact, action=False), entity)


@check("table_entry.full", "9.1", "an entry for which a table has no room is RESOURCE_EXHAUSTED")
def _full(session: CheckSession) -> None:
    """Up to four times the size that P4Info gives, since a target may hold more."""
    samples = session.samples
    tables = [t for t in samples.info.tables if 0 < t.size <= 64 and not t.is_const_table and not t.implementation_id]
    if not tables or not tables[0].match_fields:
        raise MissingObject("the program has no small table")
    table = tables[0]
    entities = [insert(samples.entry(table, n)) for n in range(100, 101 + 4 * table.size)]
    answer = session.write(*entities)
    session.expect(set(answer.codes) == {Canonical.OK, Canonical.RESOURCE_EXHAUSTED},
                   f"OK and RESOURCE_EXHAUSTED for {len(entities)} entries of {table.size}")  # fmt: skip


@check("table_entry.size", "9.1", "a table takes as many entries as P4Info's size says", SHOULD)
def _size(session: CheckSession) -> None:
    samples = session.samples
    table = samples.exact
    count = min(table.size, 1000)
    session.accept(*(insert(samples.entry(table, n)) for n in range(count)))
    request = p4r.Entity(table_entry=p4r.TableEntry(table_id=table.preamble.id))
    session.same(len(session.read(request)), count, "entries")


def _const_flag(update: Callable[[p4r.Entity], p4r.Update], session: CheckSession) -> None:
    samples = session.samples
    entity = samples.entry(samples.exact)
    session.prepare(entity)
    entity.table_entry.is_const = True
    session.refuse(_INVALID, update(entity))


add("table_entry.is_const_modify", "9.1", "MODIFY with is_const is INVALID_ARGUMENT", partial(_const_flag, modify))
add("table_entry.is_const_delete", "9.1", "DELETE with is_const is INVALID_ARGUMENT", partial(_const_flag, delete))


# -- scopes


@check("table_entry.default_only", "9.1.2", "an action for default entries only in an entry is PERMISSION_DENIED")
def _default_only(session: CheckSession) -> None:
    table, action = _scoped(p4i.ActionRef.DEFAULT_ONLY, session.samples)
    entity = session.samples.entry(table)
    entity.table_entry.action.action.CopyFrom(session.samples.call(action))
    session.refuse(Canonical.PERMISSION_DENIED, insert(entity))


@check("table_entry.table_only", "9.1.2", "an action for entries only in a default entry is PERMISSION_DENIED")
def _table_only(session: CheckSession) -> None:
    table, action = _scoped(p4i.ActionRef.TABLE_ONLY, session.samples)
    entity = session.samples.default(table)
    entity.table_entry.action.action.CopyFrom(session.samples.call(action))
    session.refuse(Canonical.PERMISSION_DENIED, modify(entity))


# -- default entries


def _request_default(table: p4i.Table) -> p4r.Entity:
    return p4r.Entity(table_entry=p4r.TableEntry(table_id=table.preamble.id, is_default_action=True))


def _default_refused(
    update: Callable[[p4r.Entity], p4r.Update], change: _Change, table: Callable[[Samples], p4i.Table],
    codes: int | Sequence[int], session: CheckSession,
) -> None:  # fmt: skip
    entity = session.samples.default(table(session.samples))
    change(session.samples, entity.table_entry)
    session.refuse(codes, update(entity))


def _add_match(samples: Samples, entry: p4r.TableEntry) -> None:
    entry.match.extend(samples.match(samples.exact))


for _id, _text, _update, _change in (
    ("insert", "INSERT of a default entry is INVALID_ARGUMENT", insert, _assign()),
    ("delete", "DELETE of a default entry is INVALID_ARGUMENT", delete, _assign()),
    ("match", "a default entry with match fields is INVALID_ARGUMENT", modify, _add_match),
    ("priority", "a default entry with a priority is INVALID_ARGUMENT", modify, _assign(priority=1)),
    ("is_const", "a default entry with is_const is INVALID_ARGUMENT", modify, _assign(is_const=True)),
    ("foreign_action", "an action of other tables only in a default entry is INVALID_ARGUMENT", modify,
     _foreign_action),
    ("timeout", "a default entry with idle_timeout_ns is INVALID_ARGUMENT", modify, _assign(idle_timeout_ns=10**9)),
    ("last_hit", "a default entry with time_since_last_hit is INVALID_ARGUMENT", modify,
     lambda _, e: e.time_since_last_hit.SetInParent()),
):  # fmt: skip
    _section = "9.1.8" if _id in ("timeout", "last_hit") else "9.1" if _id == "is_const" else "9.1.3"
    add(f"default_entry.{_id}", _section, _text, partial(_default_refused, _update, _change, lambda s: s.exact,
                                                         _INVALID))  # fmt: skip


@check("default_entry.always", "9.1.3", "every table without an action profile has a default entry")
def _default_always(session: CheckSession) -> None:
    for table in session.samples.info.tables:
        if not table.implementation_id:
            read = session.read(_request_default(table))
            session.expect(len(read) == 1 and read[0].table_entry.is_default_action, f"one of {table.preamble.name}")


@check("default_entry.initial", "9.1.3", "the default entry is the one of the program at first")
def _default_initial(session: CheckSession) -> None:
    table = session.samples.exact
    read = session.read(_request_default(table))
    session.same([e.table_entry.action.action.action_id for e in read], [table.initial_default_action.action_id],
                 "action_id")  # fmt: skip


@check("default_entry.modify", "9.1.3", "MODIFY replaces the default entry, which is read back")
def _default_modify(session: CheckSession) -> None:
    entity = session.samples.default(session.samples.exact)
    session.accept(modify(entity))
    session.holds(_request_default(session.samples.exact), entity)


@check("default_entry.keyless", "9.1.3", "the default entry of a table without a key can be modified")
def _default_keyless(session: CheckSession) -> None:
    entity = session.samples.default(session.samples.keyless)
    session.accept(modify(entity))
    session.holds(_request_default(session.samples.keyless), entity)


@check("default_entry.metadata", "9.1.3", "metadata of a default entry is returned as it was written")
def _default_metadata(session: CheckSession) -> None:
    entity = session.samples.default(session.samples.exact)
    entity.table_entry.metadata = b"mine"
    session.accept(modify(entity))
    session.holds(_request_default(session.samples.exact), entity)


def _reset(metadata: bytes, session: CheckSession) -> None:
    table = session.samples.exact
    before = session.read(_request_default(table))
    entity = session.samples.default(table)
    entity.table_entry.metadata = metadata
    session.do(modify(entity))
    session.accept(modify(_request_default(table)))
    session.holds(_request_default(table), *before)
    session.expect(len(before) == 1, "one default entry")


add("default_entry.reset", "9.1.3", "MODIFY without an action resets the default entry", partial(_reset, b""))
add("default_entry.reset_metadata", "9.1.3", "a reset of the default entry resets its metadata", partial(_reset, b"m"))


@check("default_entry.not_listed", "9.1.6", "without is_default_action a read does not give the default entry")
def _default_not_listed(session: CheckSession) -> None:
    samples = session.samples
    session.prepare(samples.entry(samples.exact))
    request = p4r.Entity(table_entry=p4r.TableEntry(table_id=samples.exact.preamble.id))
    session.holds(request, samples.entry(samples.exact))


@check("default_entry.const", "9.1.3", "MODIFY of a constant default entry is PERMISSION_DENIED")
def _default_const(session: CheckSession) -> None:
    tables = [t for t in session.samples.info.tables if t.const_default_action_id]
    if not tables:
        raise MissingObject("the program has no const default_action")
    session.refuse(Canonical.PERMISSION_DENIED, modify(session.samples.default(tables[0])))


@check("default_entry.indirect", "9.1.3", "the default entry of a table with an action profile is a constant NoAction")
def _default_indirect(session: CheckSession) -> None:
    entity = session.samples.default(session.samples.indirect)
    session.refuse((Canonical.PERMISSION_DENIED, _INVALID), modify(entity))


@check("keyless.insert", "9.1", "INSERT into a table without a key is INVALID_ARGUMENT")
def _keyless(session: CheckSession) -> None:
    session.refuse(_INVALID, insert(session.samples.entry(session.samples.keyless)))


# -- constant and initial entries


def _rows(session: CheckSession, table: p4i.Table) -> list[p4r.Entity]:
    """The entries that the program brings."""
    rows = session.read(p4r.Entity(table_entry=p4r.TableEntry(table_id=table.preamble.id)))
    if not rows:
        raise NotPrepared(f"{table.preamble.name} has no entries")
    return rows


def _plain(entity: p4r.Entity) -> p4r.Entity:
    """Without what says that it is constant."""
    copy = duplicate(entity)
    copy.table_entry.is_const = False
    return copy


_DENIED = Canonical.PERMISSION_DENIED


@check("const.read", "9.1.4", "entries of a constant table are read, with match and action")
def _const_read(session: CheckSession) -> None:
    table = session.samples.const
    rows = session.read(p4r.Entity(table_entry=p4r.TableEntry(table_id=table.preamble.id)))
    session.expect(bool(rows) and all(r.table_entry.action.action.action_id for r in rows), "entries with actions")


@check("const.priorities", "9.1.4", "entries of a constant table have priorities by their order, if it needs any")
def _const_priorities(session: CheckSession) -> None:
    table = session.samples.const
    rows = session.read(p4r.Entity(table_entry=p4r.TableEntry(table_id=table.preamble.id)))
    priorities = {r.table_entry.priority for r in rows}
    distinct = len(priorities) == len(rows) and 0 not in priorities
    session.expect(distinct if session.samples.ranked(table) else priorities == {0}, "priorities that differ")


@check("const.is_const", "9.1", "is_const is true of the entries of a constant table")
def _const_is_const(session: CheckSession) -> None:
    rows = session.read(p4r.Entity(table_entry=p4r.TableEntry(table_id=session.samples.const.preamble.id)))
    session.expect(bool(rows) and all(r.table_entry.is_const for r in rows), "is_const: true")


@check("const.insert", "9.1.4", "INSERT into a constant table is PERMISSION_DENIED")
def _const_insert(session: CheckSession) -> None:
    session.refuse(_DENIED, insert(session.samples.entry(session.samples.const, 5)))


@check("const.modify", "9.1.4", "MODIFY of a constant entry's action is PERMISSION_DENIED")
def _const_modify(session: CheckSession) -> None:
    row = _plain(_rows(session, session.samples.const)[0])
    session.refuse(_DENIED, modify(row))


@check("const.delete", "9.1.4", "DELETE of a constant entry is PERMISSION_DENIED")
def _const_delete(session: CheckSession) -> None:
    session.refuse(_DENIED, delete(_plain(_rows(session, session.samples.const)[0])))


@check("const.counter", "9.1.4", "MODIFY of a constant entry's direct counter is allowed")
def _const_counter(session: CheckSession) -> None:
    table = session.samples.const
    if not any(c.direct_table_id == table.preamble.id for c in session.samples.info.direct_counters):
        raise MissingObject("the constant table has no direct counter")
    row = _plain(_rows(session, table)[0])
    row.table_entry.ClearField("action")
    row.table_entry.counter_data.packet_count = 7
    session.accept(modify(row))


@check("preset.read", "9.1.5", "entries of a preinitialized table are read")
def _preset_read(session: CheckSession) -> None:
    table = session.samples.preset
    rows = session.read(p4r.Entity(table_entry=p4r.TableEntry(table_id=table.preamble.id)))
    session.expect(bool(rows) and all(r.table_entry.action.action.action_id for r in rows), "entries with actions")


@check("preset.is_const", "9.1", "is_const is false of initial entries that can be modified")
def _preset_is_const(session: CheckSession) -> None:
    rows = session.read(p4r.Entity(table_entry=p4r.TableEntry(table_id=session.samples.preset.preamble.id)))
    session.expect(any(not r.table_entry.is_const for r in rows), "is_const: false")


def _preset_row(session: CheckSession) -> p4r.Entity:
    """The last entry of the preinitialized table; `const` is not told of single ones by P4Info, so it is hoped not."""
    return _plain(_rows(session, session.samples.preset)[-1])


@check("preset.modify", "9.1.5", "an initial entry that is not const can be modified")
def _preset_modify(session: CheckSession) -> None:
    row = _preset_row(session)
    row.table_entry.metadata = b"mine"
    session.accept(modify(row))


@check("preset.delete", "9.1.5", "an initial entry that is not const can be deleted")
def _preset_delete(session: CheckSession) -> None:
    row = _preset_row(session)
    session.accept(delete(row))
    rows = session.read(p4r.Entity(table_entry=p4r.TableEntry(table_id=row.table_entry.table_id)))
    session.expect(all(r.table_entry.match != row.table_entry.match for r in rows), "the others")


@check("preset.insert", "9.1.5", "entries can be inserted into a preinitialized table")
def _preset_insert(session: CheckSession) -> None:
    entity = session.samples.entry(session.samples.preset, 20)
    session.accept(insert(entity))
    session.holds(session.samples.entry(session.samples.preset, 20, action=False), entity)


# -- filters


def _filtered(table: Callable[[Samples], p4i.Table], request: _Change, keep: Sequence[int], session: CheckSession
              ) -> None:  # fmt: skip
    """Of three entries those with the numbers `keep` are read."""
    samples = session.samples
    chosen = table(samples)
    entities = [samples.entry(chosen, n) for n in range(3)]
    for n, entity in enumerate(entities):
        entity.table_entry.metadata, entity.table_entry.controller_metadata = b"%d" % n, 1 + n
    entities[2].table_entry.action.action.CopyFrom(samples.action(chosen, 0, 1))
    session.prepare(*entities)
    request_all = p4r.Entity(table_entry=p4r.TableEntry(table_id=chosen.preamble.id))
    request(samples, request_all.table_entry)
    session.holds(request_all, *(entities[n] for n in keep))


def _by_action(samples: Samples, entry: p4r.TableEntry) -> None:
    entry.action.action.action_id = samples.action(samples.exact, 0, 1).action_id


def _by_match(n: int) -> _Change:
    return lambda s, e: e.match.extend(s.match(s.exact, n))


for _id, _text, _table, _change, _keep in (
    ("none", "without filters all entries of the table", lambda s: s.exact, _assign(), (0, 1, 2)),
    ("match", "a match gives the entry with that match", lambda s: s.exact, _by_match(1), (1,)),
    ("no_match", "a match that no entry has gives nothing", lambda s: s.exact, _by_match(9), ()),
    ("action", "an action_id gives the entries with that action", lambda s: s.exact, _by_action, (2,)),
    (
        "priority",
        "a priority gives the entries with that priority",
        lambda s: s.table_of(TERNARY),
        _assign(priority=11),
        (1,),
    ),
    ("metadata", "metadata gives the entries with that metadata", lambda s: s.exact, _assign(metadata=b"1"), (1,)),
    (
        "controller_metadata",
        "controller_metadata gives the entries with it",
        lambda s: s.exact,
        _assign(controller_metadata=3),
        (2,),
    ),
    (
        "two",
        "two filters give the entries that pass both",
        lambda s: s.exact,
        _assign(metadata=b"1", controller_metadata=3),
        (),
    ),
):
    add(f"filter.{_id}", "9.1.6", _text, partial(_filtered, _table, _change, _keep))


@check("filter.unknown_field", "9.1.6", "a match that is not valid for the table is refused in a read")
def _filter_invalid(session: CheckSession) -> None:
    request = p4r.Entity(table_entry=session.samples.entry(session.samples.exact, action=False).table_entry)
    request.table_entry.match[0].field_id = 77
    session.refuse_read(_INVALID, request)


@check("filter.const_in_all", "9.1.6", "a read of all tables gives constant entries too")
def _filter_const(session: CheckSession) -> None:
    rows = _rows(session, session.samples.const)
    read = session.read(p4r.Entity(table_entry=p4r.TableEntry()))
    session.expect(all(row in read for row in rows), f"among them {rows[0]}")


@check("filter.no_table", "9.1.6", "a read of a table that P4Info does not have is refused")
def _filter_table(session: CheckSession) -> None:
    session.refuse_read((_INVALID, Canonical.NOT_FOUND), p4r.Entity(table_entry=p4r.TableEntry(table_id=NO_ID)))


# -- direct resources and time-outs in entries


def _resource_request(entity: p4r.Entity, counter: bool = False, meter: bool = False) -> p4r.Entity:
    request = p4r.Entity(table_entry=p4r.TableEntry(table_id=entity.table_entry.table_id))
    if counter:
        request.table_entry.counter_data.SetInParent()
    if meter:
        request.table_entry.meter_config.SetInParent()
    return request


def _with_counter(samples: Samples, packets: int | None) -> p4r.Entity:
    entity = samples.entry(samples.counted)
    if packets is not None:
        entity.table_entry.counter_data.packet_count = packets
        entity.table_entry.counter_data.byte_count = packets * 64
    return entity


def _with_meter(samples: Samples, cir: int | None) -> p4r.Entity:
    entity = samples.entry(samples.metered)
    if cir is not None:
        entity.table_entry.meter_config.CopyFrom(rates(cir))
    return entity


@check("direct.counter_insert", "9.1.7", "INSERT with counter_data sets the direct counter")
def _counter_insert(session: CheckSession) -> None:
    entity = _with_counter(session.samples, 5)
    session.accept(insert(entity))
    session.holds(_resource_request(entity, counter=True), entity)


@check("direct.counter_insert_unset", "9.1.7", "INSERT without counter_data starts the direct counter at 0")
def _counter_insert_unset(session: CheckSession) -> None:
    entity = _with_counter(session.samples, None)
    session.accept(insert(entity))
    session.holds(_resource_request(entity, counter=True), _with_counter(session.samples, 0))


@check("direct.counter_modify", "9.1.7", "MODIFY with counter_data writes the direct counter")
def _counter_modify(session: CheckSession) -> None:
    session.prepare(_with_counter(session.samples, 5))
    entity = _with_counter(session.samples, 6)
    session.accept(modify(entity))
    session.holds(_resource_request(entity, counter=True), entity)


@check("direct.counter_modify_unset", "9.1.7", "MODIFY without counter_data leaves the direct counter")
def _counter_modify_unset(session: CheckSession) -> None:
    session.prepare(_with_counter(session.samples, 5))
    session.accept(modify(_with_counter(session.samples, None)))
    entity = _with_counter(session.samples, 5)
    session.holds(_resource_request(entity, counter=True), entity)


@check("direct.counter_not_asked", "9.1.7", "a read without counter_data does not give it")
def _counter_not_asked(session: CheckSession) -> None:
    session.prepare(_with_counter(session.samples, 5))
    entity = _with_counter(session.samples, None)
    session.holds(_resource_request(entity), entity)


@check("direct.meter_insert", "9.1.7", "INSERT with meter_config configures the direct meter")
def _meter_insert(session: CheckSession) -> None:
    entity = _with_meter(session.samples, 5)
    session.accept(insert(entity))
    session.holds(_resource_request(entity, meter=True), entity)


@check(
    "direct.meter_insert_unset", "9.1.7", "a direct meter in its default configuration has no meter_config in a read"
)
def _meter_insert_unset(session: CheckSession) -> None:
    entity = _with_meter(session.samples, None)
    session.accept(insert(entity))
    session.holds(_resource_request(entity, meter=True), entity)


@check("direct.meter_modify", "9.1.7", "MODIFY with meter_config configures the direct meter")
def _meter_modify(session: CheckSession) -> None:
    session.prepare(_with_meter(session.samples, 5))
    entity = _with_meter(session.samples, 6)
    session.accept(modify(entity))
    session.holds(_resource_request(entity, meter=True), entity)


@check("direct.meter_not_asked", "9.1.7", "a read without meter_config does not give it")
def _meter_not_asked(session: CheckSession) -> None:
    session.prepare(_with_meter(session.samples, 5))
    entity = _with_meter(session.samples, None)
    session.holds(_resource_request(entity), entity)


def _idle(session: CheckSession, asked: bool, timeout_ns: int) -> p4r.TableEntry:
    entity = session.samples.entry(session.samples.ageing)
    entity.table_entry.idle_timeout_ns = timeout_ns
    session.prepare(entity)
    request = p4r.Entity(table_entry=p4r.TableEntry(table_id=entity.table_entry.table_id))
    if asked:
        request.table_entry.time_since_last_hit.SetInParent()
    read = session.read(request)
    session.expect(len(read) == 1, "one entry")
    return read[0].table_entry


@check("idle.asked", "9.1.8", "time_since_last_hit is in a read that asks for it")
def _idle_asked(session: CheckSession) -> None:
    session.expect(_idle(session, True, 10**12).HasField("time_since_last_hit"), "time_since_last_hit")


@check("idle.asked_without_ttl", "9.1.8", "time_since_last_hit is in a read that asks for it though there is no TTL")
def _idle_without(session: CheckSession) -> None:
    session.expect(_idle(session, True, 0).HasField("time_since_last_hit"), "time_since_last_hit")


@check("idle.not_asked", "9.1.8", "time_since_last_hit is not in a read that does not ask for it")
def _idle_not_asked(session: CheckSession) -> None:
    session.expect(not _idle(session, False, 10**12).HasField("time_since_last_hit"), "no time_since_last_hit")


@check("idle.modify", "9.1.8", "MODIFY changes the TTL, which is read back exactly")
def _idle_modify(session: CheckSession) -> None:
    entity = session.samples.entry(session.samples.ageing)
    entity.table_entry.idle_timeout_ns = 10**12
    session.prepare(entity)
    entity.table_entry.idle_timeout_ns = 10**13 + 7
    session.accept(modify(entity))
    session.holds(p4r.Entity(table_entry=p4r.TableEntry(table_id=entity.table_entry.table_id)), entity)
