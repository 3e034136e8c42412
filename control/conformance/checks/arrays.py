# SPDX-License-Identifier: Apache-2.0
"""Counters, meters, registers, value sets: what is always there and can only be modified."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from finsy.proto import p4r

from detour.control.conformance.checks.entities import duplicate, inner
from detour.control.conformance.link import Canonical
from detour.control.conformance.model import SHOULD, add, check
from detour.control.conformance.samples import NO_ID, Samples, rates
from detour.control.conformance.session import CheckSession, delete, insert, modify

_WRONG_ID = (Canonical.INVALID_ARGUMENT, Canonical.NOT_FOUND)


@dataclass(frozen=True)
class ArrayCase:
    """`make(samples, index, value)`: an element with a value, or the request for it (None)."""

    name: str
    section: str
    make: Callable[[Samples, int | None, int | None], p4r.Entity]
    id_field: str
    size: Callable[[Samples], int] | None = None
    needs: Callable[[Samples], list[p4r.Entity]] = lambda _: []


_KINDS = (
    ArrayCase(
        "counter", "9.3.2", lambda s, i, v: s.counter(i, v), "counter_id", lambda s: s.object("counters").size
    ),
    ArrayCase("meter", "9.4.2", lambda s, i, v: s.meter(i, v), "meter_id", lambda s: s.object("meters").size),
    ArrayCase(
        "register", "9.7", lambda s, i, v: s.register(i, v), "register_id", lambda s: s.unsigned_register.size
    ),
    ArrayCase(
        "direct_counter", "9.3.1", lambda s, i, v: s.direct_counter(i or 0, v), "table_entry.table_id",
        needs=lambda s: [s.entry(s.counted, n) for n in range(2)],
    ),
    ArrayCase(
        "direct_meter", "9.4.1", lambda s, i, v: s.direct_meter(i or 0, v), "table_entry.table_id",
        needs=lambda s: [s.entry(s.metered, n) for n in range(2)],
    ),
    ArrayCase("value_set", "9.6", lambda s, _, v: s.value_set(*([] if v is None else [v])), "value_set_id"),
)  # fmt: skip


def _with_id(entity: p4r.Entity, kind: ArrayCase, id_: int) -> p4r.Entity:
    copy = duplicate(entity)
    message = inner(copy)
    *path, last = kind.id_field.split(".")
    for name in path:
        message = getattr(message, name)
    setattr(message, last, id_)
    return copy


def _refused_type(kind: ArrayCase, update: Callable[[p4r.Entity], p4r.Update], session: CheckSession) -> None:
    session.prepare(*kind.needs(session.samples))
    session.refuse(Canonical.INVALID_ARGUMENT, update(kind.make(session.samples, 0, 5)))


def _modify_read(kind: ArrayCase, session: CheckSession) -> None:
    session.prepare(*kind.needs(session.samples))
    entity = kind.make(session.samples, 1, 5)
    session.accept(modify(entity))
    session.holds(kind.make(session.samples, 1, None), entity)


def _modify_again(kind: ArrayCase, session: CheckSession) -> None:
    session.prepare(*kind.needs(session.samples))
    session.do(modify(kind.make(session.samples, 1, 5)))
    session.accept(modify(kind.make(session.samples, 1, 3)))
    session.holds(kind.make(session.samples, 1, None), kind.make(session.samples, 1, 3))


def _only_one(kind: ArrayCase, session: CheckSession) -> None:
    """The neighbour keeps its default."""
    session.prepare(*kind.needs(session.samples))
    request = kind.make(session.samples, 0, None)
    before = session.read(request)
    session.accept(modify(kind.make(session.samples, 1, 5)))
    session.holds(request, *before)
    session.holds(kind.make(session.samples, 1, None), kind.make(session.samples, 1, 5))


def _wrong_id(kind: ArrayCase, id_: int, session: CheckSession) -> None:
    session.prepare(*kind.needs(session.samples))
    session.refuse(_WRONG_ID, modify(_with_id(kind.make(session.samples, 0, 5), kind, id_)))


def _wrong_read(kind: ArrayCase, session: CheckSession) -> None:
    session.refuse_read(_WRONG_ID, _with_id(kind.make(session.samples, 0, None), kind, NO_ID))


def _bad_index(kind: ArrayCase, negative: bool, write: bool, session: CheckSession) -> None:
    assert kind.size is not None
    code = Canonical.INVALID_ARGUMENT if negative else Canonical.OUT_OF_RANGE
    index = -1 if negative else kind.size(session.samples)
    if write:
        session.refuse(code, modify(kind.make(session.samples, index, 5)))
    else:
        session.refuse_read(code, kind.make(session.samples, index, None))


def _indices(entities: list[p4r.Entity]) -> list[int]:
    return sorted(inner(entity).index.index for entity in entities)


def _read_array(kind: ArrayCase, session: CheckSession) -> None:
    assert kind.size is not None
    entities = session.read(kind.make(session.samples, None, None))
    session.same(_indices(entities), list(range(kind.size(session.samples))), "indices")


def _read_every(kind: ArrayCase, session: CheckSession) -> None:
    """All arrays of the kind."""
    arrays = getattr(session.samples.info, f"{kind.name}s")
    if not arrays:
        kind.make(session.samples, 0, None)  # says what is missing
    request = p4r.Entity()
    getattr(request, f"{kind.name}_entry").SetInParent()
    entities = session.read(request)
    expected = sorted((a.preamble.id, i) for a in arrays for i in range(a.size))
    read = sorted((getattr(inner(e), kind.id_field), inner(e).index.index) for e in entities)
    session.expect(read == expected, f"{len(expected)} elements of {len(arrays)} arrays")


def _write_array(kind: ArrayCase, session: CheckSession) -> None:
    session.accept(modify(kind.make(session.samples, None, 5)))
    assert kind.size is not None
    size = kind.size(session.samples)
    session.holds(kind.make(session.samples, None, None), *(kind.make(session.samples, i, 5) for i in range(size)))


def _register(kind: ArrayCase) -> None:
    title, level = kind.name.replace("_", " "), SHOULD if kind.name == "register" else "MUST"
    for name, update in (("insert", insert), ("delete", delete)):
        text = f"{title}: {name.upper()} is INVALID_ARGUMENT, it can only be modified"
        add(f"{kind.name}.{name}", kind.section, text, partial(_refused_type, kind, update), level)
    unspecified = partial(_refused_type, kind, lambda e: p4r.Update(entity=e))
    add(f"{kind.name}.unspecified", "12", f"{title}: an update without a type is INVALID_ARGUMENT", unspecified)
    for name, text, function in (
        ("modify_read", "what MODIFY has written is read back", _modify_read),
        ("modify_again", "MODIFY replaces the old value", _modify_again),
    ):
        add(f"{kind.name}.{name}", "8.2", f"{title}: {text}", partial(function, kind))
    for name, id_ in (("id_0", 0), ("unknown_id", NO_ID)):
        text = f"{title}: {kind.id_field} {'0' if not id_ else 'that P4Info does not have'} in a Write is refused"
        add(f"{kind.name}.{name}", "8.1.1" if not id_ else kind.section, text, partial(_wrong_id, kind, id_))
    text = f"{title}: a read of an id that P4Info does not have is refused"
    add(f"{kind.name}.read_unknown_id", "13.3", text, partial(_wrong_read, kind))
    if kind.name != "value_set":
        text = f"{title}: MODIFY of one element leaves the others as they are"
        add(f"{kind.name}.only_one", kind.section, text, partial(_only_one, kind))
    if kind.size is not None:
        _register_indices(kind, title)


def _register_indices(kind: ArrayCase, title: str) -> None:
    for negative, where, code in ((True, "negative", "INVALID_ARGUMENT"), (False, "too large", "OUT_OF_RANGE")):
        for write in (True, False):
            verb = "write" if write else "read"
            add(
                f"{kind.name}.{where.replace(' ', '_')}_index_{verb}", kind.section,
                f"{title}: a {where} index in a {verb} is {code}", partial(_bad_index, kind, negative, write),
                "MUST" if write or kind.name == "register" else SHOULD,
            )  # fmt: skip
    add(f"{kind.name}.read_array", "13.2", f"{title}: a read without index gives all elements of the array",
        partial(_read_array, kind))  # fmt: skip
    add(f"{kind.name}.read_every", "13.2", f"{title}: a read with id 0 gives all elements of all arrays",
        partial(_read_every, kind))  # fmt: skip
    add(f"{kind.name}.write_array", kind.section, f"{title}: MODIFY without index writes all elements",
        partial(_write_array, kind))  # fmt: skip


for _kind in _KINDS:
    _register(_kind)


@check("counter.default", "9.3.2", "counters are 0 at first")
def _counter_default(session: CheckSession) -> None:
    entities = session.read(session.samples.counter(0))
    session.same([(e.counter_entry.data.packet_count, e.counter_entry.data.byte_count) for e in entities], [(0, 0)],
                 "packets and bytes")  # fmt: skip


@check("counter.unset_data", "9.3.2", "MODIFY of a counter without data leaves its value")
def _counter_unset(session: CheckSession) -> None:
    session.do(modify(session.samples.counter(1, 5)))
    session.accept(modify(session.samples.counter(1)))
    session.holds(session.samples.counter(1), session.samples.counter(1, 5))


@check("meter.default", "9.4.2", "a meter in its default configuration has none in a read")
def _meter_default(session: CheckSession) -> None:
    session.holds(session.samples.meter(0), session.samples.meter(0))


@check("meter.unset_config", "9.4.2", "MODIFY of a meter without config resets it")
def _meter_unset(session: CheckSession) -> None:
    session.do(modify(session.samples.meter(1, 5)))
    session.accept(modify(session.samples.meter(1)))
    session.holds(session.samples.meter(1), session.samples.meter(1))


@check("meter.reset_array", "9.4.2", "MODIFY of a meter without index and config resets all of the array")
def _meter_reset_array(session: CheckSession) -> None:
    session.do(modify(session.samples.meter(1, 5)))
    session.accept(modify(session.samples.meter(None)))
    session.holds(session.samples.meter(1), session.samples.meter(1))


@check("meter.eburst", "9.4", "eburst in the config of a two rate three colour marker is INVALID_ARGUMENT", SHOULD)
def _meter_eburst(session: CheckSession) -> None:
    entity = session.samples.meter(1, 5)
    entity.meter_entry.config.eburst = 5
    session.refuse(Canonical.INVALID_ARGUMENT, modify(entity))


@check("direct_counter.unset_data", "9.3.1", "MODIFY of a direct counter without data leaves its value")
def _direct_counter_unset(session: CheckSession) -> None:
    samples = session.samples
    session.prepare(samples.entry(samples.counted))
    session.do(modify(samples.direct_counter(0, 5)))
    session.accept(modify(samples.direct_counter(0)))
    session.holds(samples.direct_counter(0), samples.direct_counter(0, 5))


@check("direct_meter.unset_config", "9.4.1", "MODIFY of a direct meter without config resets it")
def _direct_meter_unset(session: CheckSession) -> None:
    samples = session.samples
    session.prepare(samples.entry(samples.metered))
    session.do(modify(samples.direct_meter(0, 5)))
    session.accept(modify(samples.direct_meter(0)))
    session.holds(samples.direct_meter(0), samples.direct_meter(0))


def _missing_entry(kind: str, write: bool, session: CheckSession) -> None:
    make = getattr(session.samples, kind)
    if write:
        session.refuse(Canonical.NOT_FOUND, modify(make(0, 5)))
    else:
        session.refuse_read(Canonical.NOT_FOUND, make(0))


def _other_table(kind: str, session: CheckSession) -> None:
    """A table that has neither."""
    samples = session.samples
    session.prepare(samples.entry(samples.bare))
    entity = getattr(samples, kind)(0, 5)
    inner(entity).table_entry.CopyFrom(samples.entry(samples.bare, action=False).table_entry)
    session.refuse(_WRONG_ID, modify(entity))


def _read_direct(kind: str, own: bool, session: CheckSession) -> None:
    """Of all entries of a table, or of all tables."""
    samples = session.samples
    table = samples.counted if kind == "direct_counter" else samples.metered
    session.prepare(*(samples.entry(table, n) for n in range(2)))
    make = getattr(samples, kind)
    values = [make(n, 5 + n) for n in range(2)]
    session.do(*(modify(value) for value in values))
    request = p4r.Entity()
    getattr(request, f"{kind}_entry").table_entry.table_id = table.preamble.id if own else 0
    getattr(request, f"{kind}_entry").table_entry.SetInParent()
    read = [e for e in session.read(request) if inner(e).table_entry.table_id == table.preamble.id]
    session.expect(sorted(map(str, read)) == sorted(map(str, values)), f"{values}")


def _deleted_with_entry(kind: str, session: CheckSession) -> None:
    samples = session.samples
    table = samples.counted if kind == "direct_counter" else samples.metered
    session.prepare(samples.entry(table))
    session.do(modify(getattr(samples, kind)(0, 5)), delete(samples.entry(table)))
    session.refuse(Canonical.NOT_FOUND, modify(getattr(samples, kind)(0, 5)))


for _name, _section in (("direct_counter", "9.3.1"), ("direct_meter", "9.4.1")):
    _title = _name.replace("_", " ")
    add(f"{_name}.missing_entry_write", _section, f"{_title}: without a table entry a write is NOT_FOUND",
        partial(_missing_entry, _name, True))  # fmt: skip
    add(f"{_name}.missing_entry_read", _section, f"{_title}: without a table entry a read is NOT_FOUND",
        partial(_missing_entry, _name, False))  # fmt: skip
    add(f"{_name}.other_table", _section, f"{_title}: of a table that has none it is refused",
        partial(_other_table, _name))  # fmt: skip
    add(f"{_name}.read_table", "13.2", f"{_title}: a read without match gives those of all entries of the table",
        partial(_read_direct, _name, True))  # fmt: skip
    add(f"{_name}.read_tables", "13.2", f"{_title}: a read with table_id 0 gives those of all tables",
        partial(_read_direct, _name, False))  # fmt: skip
    add(f"{_name}.deleted", _section, f"{_title}: once the entry is deleted it cannot be accessed",
        partial(_deleted_with_entry, _name))  # fmt: skip


def _meter_counters(direct: bool, session: CheckSession) -> None:
    """The session says not offered for the answer that the specification allows."""
    samples = session.samples
    if direct:
        session.prepare(samples.entry(samples.metered))
    entity = samples.direct_meter(0) if direct else samples.meter(0)
    inner(entity).counter_data.SetInParent()
    read = session.read(entity)
    session.expect(
        all(inner(e).HasField("counter_data") for e in read) and bool(read), "counter_data, or UNIMPLEMENTED"
    )


add("meter.counters", "9.4.3", "per-colour counters are read when asked for, or UNIMPLEMENTED",
    partial(_meter_counters, False), SHOULD)  # fmt: skip
add("direct_meter.counters", "9.4.3", "per-colour counters of a direct meter are read when asked for, or UNIMPLEMENTED",
    partial(_meter_counters, True), SHOULD)  # fmt: skip


@check("register.wrong_type", "9.7", "data of another type than P4Info's type_spec is INVALID_ARGUMENT")
def _register_type(session: CheckSession) -> None:
    entity = session.samples.register(0)
    entity.register_entry.data.bool = True
    session.refuse(Canonical.INVALID_ARGUMENT, modify(entity))


@check("register.default", "9.7", "an element that nobody has written is 0")
def _register_default(session: CheckSession) -> None:
    session.holds(session.samples.register(3), session.samples.register(3, 0))


@check("value_set.default", "9.6", "a value set is empty at first")
def _value_set_default(session: CheckSession) -> None:
    session.holds(session.samples.value_set(), session.samples.value_set())


@check("value_set.empty", "9.6", "MODIFY without members empties a value set")
def _value_set_empty(session: CheckSession) -> None:
    session.do(modify(session.samples.value_set(5, 6)))
    session.accept(modify(session.samples.value_set()))
    session.holds(session.samples.value_set(), session.samples.value_set())


@check("value_set.full", "9.6", "more members than P4Info's size are RESOURCE_EXHAUSTED")
def _value_set_full(session: CheckSession) -> None:
    size = session.samples.object("value_sets").size
    session.refuse(Canonical.RESOURCE_EXHAUSTED, modify(session.samples.value_set(*range(1, size + 2))))


@check("value_set.size", "9.6", "as many members as P4Info's size are accepted")
def _value_set_size(session: CheckSession) -> None:
    size = session.samples.object("value_sets").size
    entity = session.samples.value_set(*range(1, size + 1))
    session.accept(modify(entity))
    session.holds(session.samples.value_set(), entity)


@check("value_set.duplicate", "9.6", "a member that occurs twice is ALREADY_EXISTS")
def _value_set_duplicate(session: CheckSession) -> None:
    session.refuse(Canonical.ALREADY_EXISTS, modify(session.samples.value_set(5, 5)))


@check("value_set.unknown_field", "9.6", "a member with a field that P4Info does not have is INVALID_ARGUMENT")
def _value_set_field(session: CheckSession) -> None:
    entity = session.samples.value_set(5)
    entity.value_set_entry.members[0].match[0].field_id = 77
    session.refuse(Canonical.INVALID_ARGUMENT, modify(entity))


@check("value_set.exact_omitted", "9.6", "a member without its exact field is INVALID_ARGUMENT")
def _value_set_omitted(session: CheckSession) -> None:
    entity = session.samples.value_set(5)
    entity.value_set_entry.members[0].ClearField("match")
    session.refuse(Canonical.INVALID_ARGUMENT, modify(entity))


@check("value_set.wrong_kind", "9.6", "a member with another match kind than P4Info's is INVALID_ARGUMENT")
def _value_set_kind(session: CheckSession) -> None:
    entity = session.samples.value_set(5)
    entity.value_set_entry.members[0].match[0].lpm.value = b"\5"
    session.refuse(Canonical.INVALID_ARGUMENT, modify(entity))


@check("table_entry.meter_reset", "9.1.7", "MODIFY of an entry without meter_config resets its direct meter")
def _entry_resets_meter(session: CheckSession) -> None:
    samples = session.samples
    entity = samples.entry(samples.metered)
    entity.table_entry.meter_config.CopyFrom(rates(5))
    session.prepare(entity)
    session.accept(modify(samples.entry(samples.metered)))
    session.holds(samples.direct_meter(0), samples.direct_meter(0))
