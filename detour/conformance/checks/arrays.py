# SPDX-License-Identifier: Apache-2.0
"""Counters, meters, registers, value sets: what is always there and can only be modified."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from finsy.proto import p4d, p4r

from detour.conformance.samples import NO_ID, Samples, inner, rates
from detour.conformance.steps import *


@dataclass(frozen=True)
class ArrayCase:
    """`make(index, value)`: an element with a value, or the request for it (None). `table`: of direct resources."""

    name: str
    section: str
    id_field: str
    make: Callable[[int | None, int | None], Recipe]
    size: Callable[[Samples], int] | None = None
    table: str = ""


_CASES = (
    ArrayCase("counter", "9.3.2", "counter_id", lambda i, v: sample.counter(i, v), lambda s: s.object("counters").size),
    ArrayCase("meter", "9.4.2", "meter_id", lambda i, v: sample.meter(i, v), lambda s: s.object("meters").size),
    ArrayCase("register", "9.7", "register_id", lambda i, v: sample.register(i, v), lambda s: s.unsigned_register.size),
    ArrayCase("direct_counter", "9.3.1", "table_entry.table_id", lambda i, v: sample.direct_counter(i, v),
              table="counted"),
    ArrayCase("direct_meter", "9.4.1", "table_entry.table_id", lambda i, v: sample.direct_meter(i, v), table="metered"),
    ArrayCase("value_set", "9.6", "value_set_id", lambda _, v: sample.value_set(*([] if v is None else [v]))),
)  # fmt: skip


@step
def _every(session: CheckSession, case: ArrayCase) -> None:
    """All arrays of the kind."""
    entities = session.read(case.make(0, None).every.make(session.samples))
    arrays = getattr(session.samples.info, f"{case.name}s")
    expected = sorted((a.preamble.id, i) for a in arrays for i in range(a.size))
    read = sorted((getattr(inner(e), case.id_field), inner(e).index.index) for e in entities)
    session.expect(read == expected, f"{len(expected)} elements of {len(arrays)} arrays")


def _indices(entities: list[p4r.Entity]) -> list[int]:
    return sorted(inner(entity).index.index for entity in entities)


_NOT_THERE = "that P4Info does not have"


def _table_of(case: ArrayCase) -> Iterator[tuple[Any, ...]]:
    """The rows of a kind."""
    one, key, section, id_ = case.make(0, 5), case.make(0, None), case.section, case.id_field
    for name in ("INSERT", "DELETE"):
        yield (name.lower(), section, f"{name} is INVALID_ARGUMENT, it can only be modified",
               refuse(INVALID_ARGUMENT, one.update(name)))  # fmt: skip
    yield ("unspecified", "12", "an update without a type is INVALID_ARGUMENT",
           refuse(INVALID_ARGUMENT, one.update("UNSPECIFIED")))  # fmt: skip
    yield "modify_read", "8.2", "what MODIFY has written is read back", stores(case.make(1, 5).modify)
    yield ("modify_again", "8.2", "MODIFY replaces the old value", do(case.make(1, 5).modify),
           stores(case.make(1, 3).modify))  # fmt: skip
    for name, value, where, text in (("id_0", 0, "8.1.1", "0"), ("unknown_id", NO_ID, section, _NOT_THERE)):
        yield name, where, f"{id_} {text} in a Write is refused", refuse(WRONG_ID, one.but(id_, value).modify)
    yield ("read_unknown_id", "13.3", f"a read of an id {_NOT_THERE} is refused",
           refuse_read(WRONG_ID, key.but(id_, NO_ID)))  # fmt: skip
    if case.name != "value_set":
        yield ("only_one", section, "MODIFY of one element leaves the others as they are",
               keeps(key, stores(case.make(1, 5).modify)))  # fmt: skip


def _table_of_indices(case: ArrayCase, size: Callable[[Samples], int]) -> Iterator[tuple[Any, ...]]:
    whole = case.make(None, None)

    def beyond(value: int | None) -> Recipe:
        return Recipe(lambda s: case.make(size(s), value).make(s))

    for where, code, wrong in (("negative", INVALID_ARGUMENT, lambda v: case.make(-1, v)),
                               ("too large", OUT_OF_RANGE, beyond)):  # fmt: skip
        name, text = where.replace(" ", "_"), f"a {where} index in a %s is {code.name}"
        yield f"{name}_index_write", case.section, text % "write", refuse(code, wrong(5).modify)
        yield f"{name}_index_read", case.section, text % "read", refuse_read(code, wrong(None))
    yield ("read_array", "13.2", "a read without index gives all elements of the array",
           reads(whole, "indices", lambda s: list(range(size(s))), _indices))  # fmt: skip
    yield ("read_every", "13.2", "a read with id 0 gives all elements of all arrays",
           _every(case))  # fmt: skip
    yield ("write_array", case.section, "MODIFY without index writes all elements",
           accept(case.make(None, 5).modify), holds(whole, many(lambda i: case.make(i, 5), size)))  # fmt: skip


@step
def _only_values(session: CheckSession, case: ArrayCase, request: p4r.Entity) -> None:
    """Check that a read of the case's table gives the values of both entries and nothing else."""
    values = [case.make(n, 5 + n).make(session.samples) for n in range(2)]
    table_id = session.samples.table_id(case.table)
    read = [e for e in session.read(request) if inner(e).table_entry.table_id == table_id]
    session.expect(sorted(map(str, read)) == sorted(map(str, values)), f"{values}")


def _table_of_direct(case: ArrayCase) -> Iterator[tuple[Any, ...]]:
    one, key, section, entry = case.make(0, 5), case.make(0, None), case.section, sample.entry(case.table)
    filled = prepare(*_entries(case)), do(*(case.make(n, 5 + n).modify for n in range(2)))
    yield "missing_entry_write", section, "without a table entry a write is NOT_FOUND", refuse(NOT_FOUND, one.modify)
    yield "missing_entry_read", section, "without a table entry a read is NOT_FOUND", refuse_read(NOT_FOUND, key)
    yield ("other_table", section, "of a table that has none it is refused", prepare(sample.entry("bare")),
           refuse(WRONG_ID, one.but("table_entry", lambda s: s.key("bare").table_entry).modify))  # fmt: skip
    yield ("read_table", "13.2", "a read without match gives those of all entries of the table", *filled,
           _only_values(case, key.but("table_entry", lambda s: s.all_of(case.table).table_entry)))  # fmt: skip
    yield ("read_tables", "13.2", "a read with table_id 0 gives those of all tables", *filled,
           _only_values(case, key.but("table_entry", p4r.TableEntry())))  # fmt: skip
    yield ("deleted", section, "once the entry is deleted it cannot be accessed", prepare(entry),
           do(one.modify, entry.delete), refuse(NOT_FOUND, one.modify))  # fmt: skip


def _entries(case: ArrayCase) -> list[Recipe]:
    return [sample.entry(case.table, n) for n in range(2)] if case.table else []


def _checks(case: ArrayCase) -> list[ConformanceCheck]:
    title = f"{case.name.replace('_', ' ')}: "
    checks = rows(case.name, *_table_of(case), title=title, before=prepare(*_entries(case)))
    if case.size is not None:
        checks += rows(case.name, *_table_of_indices(case, case.size), title=title)
    if case.table:
        checks += rows(case.name, *_table_of_direct(case), title=title)
    return checks


@step
def _counter_data(session: CheckSession, request: p4r.Entity) -> None:
    """The session says not offered for the answer that the specification allows."""
    inner(request).counter_data.SetInParent()
    read = session.read(request)
    given = bool(read) and all(inner(e).HasField("counter_data") for e in read)
    session.expect(given, "counter_data, or UNIMPLEMENTED")


def _values(count: Callable[[int], int]) -> Recipe:
    """A value set with so many members as a function of its size says."""
    return Recipe(lambda s: s.value_set(*range(1, 1 + count(s.object("value_sets").size))))


_DATA = (
    ("varbit", "varbit.bitstring", b"\5"),
    ("struct", "struct.members", [p4d.P4Data(bitstring=b"\5")]),
    ("tuple", "tuple.members", [p4d.P4Data(bitstring=b"\5")]),
    ("header", "header.is_valid", True),
    ("enum", "enum", "MEMBER"),
    ("error", "error", "NoError"),
)
"""values of other kinds than bit<W>: name, path, value"""
_COUNTED, _METERED = sample.entry("counted"), sample.entry("metered")
checks = [
    *(check for case in _CASES for check in _checks(case)),
    *rows("counter",
        ("default", "9.3.2", "counters are 0 at first", reads(sample.counter(0), "packets and bytes", [(0, 0)],
             lambda read: [(inner(e).data.packet_count, inner(e).data.byte_count) for e in read])),
        ("unset_data", "9.3.2", "MODIFY of a counter without data leaves its value",
         do(sample.counter(1, 5).modify), stores(sample.counter(1).modify, sample.counter(1, 5))),
    ),
    *rows("meter",
        ("default", "9.4.2", "a meter in its default configuration has none in a read",
         holds(sample.meter(0), sample.meter(0))),
        ("unset_config", "9.4.2", "MODIFY of a meter without config resets it",
         do(sample.meter(1, 5).modify), stores(sample.meter(1).modify)),
        ("reset_array", "9.4.2", "MODIFY of a meter without index and config resets all of the array",
         do(sample.meter(1, 5).modify), accept(sample.meter(None).modify), holds(sample.meter(1), sample.meter(1))),
        ("eburst", "9.4", "eburst in the config of a two rate three colour marker is INVALID_ARGUMENT",
         refuse(INVALID_ARGUMENT, sample.meter(1, 5).but("config.eburst", 5).modify)),
        ("counters", "9.4.3", "per-colour counters are read when asked for, or UNIMPLEMENTED",
         _counter_data(sample.meter(0))),
    ),
    *rows("direct_counter",
        ("unset_data", "9.3.1", "MODIFY of a direct counter without data leaves its value", prepare(_COUNTED),
         do(sample.direct_counter(0, 5).modify), stores(sample.direct_counter(0).modify, sample.direct_counter(0, 5))),
    ),
    *rows("direct_meter",
        ("unset_config", "9.4.1", "MODIFY of a direct meter without config resets it",
         prepare(_METERED), do(sample.direct_meter(0, 5).modify), stores(sample.direct_meter(0).modify)),
        ("counters", "9.4.3", "per-colour counters of a direct meter are read when asked for, or UNIMPLEMENTED",
         prepare(_METERED), _counter_data(sample.direct_meter(0))),
    ),
    *rows("register",
        *((f"as_{name}", "9.7", f"{name} as data of a bit<W> register is INVALID_ARGUMENT",
           refuse(INVALID_ARGUMENT, sample.register(0).but(f"data.{path}", value).modify))
          for name, path, value in _DATA),
        ("wrong_type", "9.7", "data of another type than P4Info's type_spec is INVALID_ARGUMENT",
         refuse(INVALID_ARGUMENT, sample.register(0).but("data.bool", True).modify)),
        ("default", "9.7", "an element that nobody has written is 0", holds(sample.register(3), sample.register(3, 0))),
    ),
    *rows("value_set",
        ("default", "9.6", "a value set is empty at first", holds(sample.value_set(), sample.value_set())),
        ("empty", "9.6", "MODIFY without members empties a value set",
         do(sample.value_set(5, 6).modify), stores(sample.value_set().modify)),
        ("full", "9.6", "more members than P4Info's size are RESOURCE_EXHAUSTED",
         refuse(FULL, _values(lambda size: size + 1).modify)),
        ("size", "9.6", "as many members as P4Info's size are accepted", stores(_values(lambda size: size).modify)),
        ("duplicate", "9.6", "a member that occurs twice is ALREADY_EXISTS",
         refuse(EXISTS, sample.value_set(5, 5).modify)),
        ("unknown_field", "9.6", "a member with a field that P4Info does not have is INVALID_ARGUMENT",
         refuse(INVALID_ARGUMENT, sample.value_set(5).but("members[0].match[0].field_id", 77).modify)),
        ("exact_omitted", "9.6", "a member without its exact field is INVALID_ARGUMENT",
         refuse(INVALID_ARGUMENT, sample.value_set(5).but("members[0].match", None).modify)),
        ("wrong_kind", "9.6", "a member with another match kind than P4Info's is INVALID_ARGUMENT",
         refuse(INVALID_ARGUMENT, sample.value_set(5).but("members[0].match[0].lpm.value", b"\5").modify)),
    ),
    *rows("table_entry",
        ("meter_reset", "9.1.7", "MODIFY of an entry without meter_config resets its direct meter",
         prepare(_METERED.but("meter_config", rates(5))), accept(_METERED.modify),
         holds(sample.direct_meter(0), sample.direct_meter(0))),
    ),
]  # fmt: skip
