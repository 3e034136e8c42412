# SPDX-License-Identifier: Apache-2.0
"""Writing table entries: what is accepted, what is refused, and with which code."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from finsy.proto import p4r

from tests.unit.p4runtime.harness import Client, Names, config, refusals

OK, INVALID, NOT_FOUND, EXISTS, DENIED, EXHAUSTED, PRECONDITION, RANGE, UNIMPLEMENTED = 0, 3, 5, 6, 7, 8, 9, 11, 12


def edit(entity: p4r.Entity, change) -> p4r.Entity:
    """A copy of a table entry with a change."""
    copy = p4r.Entity()
    copy.CopyFrom(entity)
    change(copy.table_entry)
    return copy


@pytest.fixture
def route(names: Names) -> p4r.Entity:
    return names.entry("lpm_route", (0xFD00 << 112, 16), action=("route", 3, 0x020000000001))


@pytest.fixture
def rule(names: Names) -> p4r.Entity:
    return names.entry("acl", (0xFD, 0xFF), 17, (1, 8), 0x86DD, action=("drop",), priority=5)


def test_every_match_kind_is_read_back_as_written(client: Client, names: Names) -> None:
    entries = [
        names.entry("exact_two", 0x020000000001, 0, action=("forward", 0)),
        names.entry("exact_two", 0, 4095, action=("to_cpu", 0xFFFFFFFF)),
        names.entry("lpm_route", (0xFD00 << 112, 9), action=("route", 511, 0)),
        names.entry("lpm_route", ((1 << 128) - 1, 128), action=("forward", 1)),
        names.entry("lpm_route", None, action=("to_cpu", 1)),
        names.entry("acl", (1 << 127, 1 << 127), 0, (0, 0), 0, action=("drop",), priority=1),
        names.entry("acl", None, None, None, 0x0800, action=("NoAction",), priority=2147483647),
        names.entry("acl", None, 255, (5, 511), 0xFFFF, action=("metered",), priority=7, metadata=b"cookie"),
        names.entry("acl", None, 255, (5, 511), 0xFFFF, action=("drop",), priority=8, controller_metadata=99),
    ]
    client.insert(*entries)
    for table in ("exact_two", "lpm_route", "acl"):
        table_id = names.ids[table]
        assert client.read(names.entry(table)) == [e for e in entries if e.table_entry.table_id == table_id]


def test_padded_strings_are_accepted_and_canonical_ones_come_back(client: Client, names: Names) -> None:
    entity = names.entry("exact_two", 0x63, 5, action=("forward", 7))
    padded = edit(entity, lambda e: None)
    padded.table_entry.match[0].exact.value = bytes(20) + b"\x63"
    padded.table_entry.action.action.params[0].value = b"\x00\x07"
    client.insert(padded)
    assert client.read(names.entry("exact_two")) == [entity]


@pytest.mark.parametrize(
    ("value", "code"), [(b"", RANGE), (b"\x10\x00", RANGE), (b"\x01" + bytes(5), RANGE), (b"\x00\x0f\xff", OK)]
)
def test_byte_strings_must_fit(client: Client, names: Names, value: bytes, code: int) -> None:
    for place in ("match", "action"):
        entity = names.entry("exact_two", 1, 1, action=("forward", 7))
        if place == "match":
            entity.table_entry.match[1].exact.value = value
            expected = code
        else:
            entity.table_entry.action.action.params[0].value = value
            expected = RANGE
        if expected == OK:
            client.insert(entity)
        else:
            assert client.refusals(("INSERT", entity)) == [expected]


def _set_lpm(value: int, length: int):
    def change(entry: p4r.TableEntry) -> None:
        entry.match[0].lpm.value, entry.match[0].lpm.prefix_len = value.to_bytes(16, "big"), length

    return change


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(_set_lpm(0, 0), id="prefix of length 0 must be left out"),
        pytest.param(_set_lpm(0xFD00 << 112, -1), id="negative prefix"),
        pytest.param(_set_lpm(0xFD00 << 112, 129), id="prefix longer than the field"),
        pytest.param(_set_lpm(0xFD01 << 112, 8), id="bits behind the prefix"),
        pytest.param(lambda e: e.match[0].exact.SetInParent(), id="another match kind"),
        pytest.param(lambda e: e.match[0].ClearField("lpm"), id="no match kind"),
        pytest.param(lambda e: e.match.add(field_id=1).lpm.CopyFrom(e.match[0].lpm), id="field twice"),
        pytest.param(lambda e: setattr(e.match[0], "field_id", 9), id="unknown field"),
        pytest.param(lambda e: setattr(e, "table_id", 0), id="no table"),
        pytest.param(lambda e: setattr(e, "table_id", 0x02FFFFFF), id="unknown table"),
        pytest.param(lambda e: setattr(e, "priority", 1), id="priority in an LPM table"),
        pytest.param(lambda e: e.ClearField("action"), id="no action"),
        pytest.param(lambda e: e.action.ClearField("action"), id="empty action"),
        pytest.param(lambda e: setattr(e.action, "action_profile_member_id", 1), id="member in a direct table"),
        pytest.param(lambda e: setattr(e.action.action, "action_id", 1), id="unknown action"),
        pytest.param(lambda e: e.action.action.params.pop(), id="parameter missing"),
        pytest.param(lambda e: e.action.action.params.add(param_id=9, value=b"\1"), id="unknown parameter"),
        pytest.param(lambda e: e.action.action.params.add(param_id=1, value=b"\1"), id="parameter twice"),
        pytest.param(lambda e: setattr(e, "is_const", True), id="is_const"),
        pytest.param(lambda e: setattr(e, "idle_timeout_ns", 1), id="idle time-out without support"),
        pytest.param(lambda e: e.time_since_last_hit.SetInParent(), id="time_since_last_hit"),
        pytest.param(lambda e: e.meter_config.SetInParent(), id="meter without meter"),
        pytest.param(lambda e: e.meter_counter_data.SetInParent(), id="meter counters without meter"),
        pytest.param(lambda e: setattr(e.counter_data, "packet_count", -1), id="negative counter"),
    ],
)
def test_malformed_entries_are_invalid(client: Client, names: Names, route: p4r.Entity, change) -> None:
    assert client.refusals(("INSERT", edit(route, change))) == [INVALID]
    assert client.read(names.entry("lpm_route")) == []


def _set_ternary(value: int, mask: int):
    def change(entry: p4r.TableEntry) -> None:
        entry.match[0].ternary.value = value.to_bytes(16, "big")
        entry.match[0].ternary.mask = mask.to_bytes(16, "big")

    return change


def _set_range(low: int, high: int):
    def change(entry: p4r.TableEntry) -> None:
        entry.match[2].range.low, entry.match[2].range.high = low.to_bytes(2, "big"), high.to_bytes(2, "big")

    return change


@pytest.mark.parametrize(
    ("change", "code"),
    [
        pytest.param(_set_ternary(0, 0), INVALID, id="mask of zeros must be left out"),
        pytest.param(_set_ternary(2, 1), INVALID, id="value outside the mask"),
        pytest.param(_set_range(9, 8), INVALID, id="empty range"),
        pytest.param(_set_range(0, 511), INVALID, id="full range must be left out"),
        pytest.param(_set_range(0, 512), RANGE, id="range exceeds the field"),
        pytest.param(lambda e: setattr(e.match[1].optional, "value", b""), RANGE, id="empty optional"),
        pytest.param(lambda e: e.match.pop(), INVALID, id="exact field left out"),
        pytest.param(lambda e: setattr(e, "priority", 0), INVALID, id="no priority"),
        pytest.param(lambda e: setattr(e, "priority", -1), INVALID, id="negative priority"),
        pytest.param(lambda e: e.counter_data.SetInParent(), INVALID, id="counter without counter"),
        pytest.param(lambda e: e.meter_counter_data.SetInParent(), UNIMPLEMENTED, id="counters by colour"),
        pytest.param(lambda e: setattr(e.meter_config, "cir", -1), INVALID, id="negative rate"),
        pytest.param(lambda e: setattr(e.meter_config, "cir", 1), INVALID, id="cir above pir"),
        pytest.param(lambda e: setattr(e.meter_config, "eburst", 1), INVALID, id="eburst in a two-rate meter"),
    ],
)
def test_malformed_ternary_entries(client: Client, names: Names, rule: p4r.Entity, change, code: int) -> None:
    assert client.refusals(("INSERT", edit(rule, change))) == [code]
    assert client.read(names.entry("acl")) == []


def test_insert_modify_delete(client: Client, names: Names, route: p4r.Entity) -> None:
    other = edit(route, lambda e: e.action.action.CopyFrom(names.action("to_cpu", 4)))
    assert client.refusals(("MODIFY", route)) == [NOT_FOUND]
    assert client.refusals(("DELETE", route)) == [NOT_FOUND]
    client.insert(route)
    assert client.refusals(("INSERT", other)) == [EXISTS]
    assert client.read(names.entry("lpm_route")) == [route]
    client.modify(other)
    assert client.read(names.entry("lpm_route")) == [other]
    # Only the key counts in a DELETE.
    client.delete(edit(route, lambda e: setattr(e.action.action, "action_id", 77)))
    assert client.read(names.entry("lpm_route")) == []


def test_modify_assigns_all_but_counter_and_unset_action(client: Client, names: Names, route: p4r.Entity) -> None:
    client.insert(edit(route, lambda e: setattr(e, "metadata", b"first")))
    client.modify(edit(route, lambda e: (e.ClearField("action"), setattr(e.counter_data, "packet_count", 7))))
    (got,) = client.read(names.entry("lpm_route", counter_data=p4r.CounterData()))
    assert got.table_entry.action == route.table_entry.action
    assert got.table_entry.metadata == b""
    client.modify(route)
    (got,) = client.read(names.entry("lpm_route", counter_data=p4r.CounterData()))
    assert got.table_entry.counter_data.packet_count == 7


def test_priority_is_part_of_the_key(client: Client, names: Names, rule: p4r.Entity) -> None:
    second = edit(rule, lambda e: setattr(e, "priority", 6))
    client.insert(rule, second)
    assert client.refusals(("DELETE", edit(rule, lambda e: setattr(e, "priority", 7)))) == [NOT_FOUND]
    client.delete(rule)
    assert client.read(names.entry("acl")) == [second]


def test_a_table_takes_as_many_entries_as_its_size(client: Client, names: Names) -> None:
    entries = [names.entry("preset", i, action=("set_vlan", i)) for i in range(100, 114)]
    client.insert(*entries)  # two were there from the start
    assert client.refusals(("INSERT", names.entry("preset", 1, action=("NoAction",)))) == [EXHAUSTED]


def test_every_element_of_a_batch_is_tried_and_reported(client: Client, names: Names, route: p4r.Entity) -> None:
    fine = names.entry("exact_two", 1, 1, action=("drop",))
    batch = [("INSERT", fine), ("DELETE", route), ("INSERT", p4r.Entity()), ("INSERT", route), ("INSERT", fine)]
    assert client.refusals(*batch) == [OK, NOT_FOUND, INVALID, OK, EXISTS]
    assert client.read(names.entry("exact_two"), names.entry("lpm_route")) == [fine, route]


def test_update_type_must_be_given(client: Client, route: p4r.Entity) -> None:
    assert client.refusals(("UNSPECIFIED", route)) == [INVALID]
    request = client.write_request(("INSERT", route))
    request.updates[0].type = 77  # type: ignore[assignment]
    assert refusals(lambda: client.stub.Write(request)) == [INVALID]


def test_externs_are_not_there(client: Client) -> None:
    assert client.refusals(("INSERT", p4r.Entity(extern_entry=p4r.ExternEntry(extern_type_id=0x81)))) == [UNIMPLEMENTED]


def test_empty_batch(client: Client) -> None:
    client.write()


# -- scopes, default entries, const tables, initial entries


def test_action_scopes(client: Client, names: Names, route: p4r.Entity) -> None:
    default_only = edit(route, lambda e: e.action.action.CopyFrom(names.action("drop")))
    assert client.refusals(("INSERT", default_only)) == [DENIED]
    table_only = names.entry("lpm_route", action=("forward", 1), is_default_action=True)
    assert client.refusals(("MODIFY", table_only)) == [DENIED]


def test_default_entry(client: Client, names: Names) -> None:
    query = names.entry("lpm_route", is_default_action=True)
    initial = names.entry("lpm_route", action=("drop",), is_default_action=True)
    changed = names.entry("lpm_route", action=("to_cpu", 3), is_default_action=True, metadata=b"m")
    assert client.read(query) == [initial]
    client.modify(changed)
    assert client.read(query) == [changed]
    client.modify(query)  # without action: back to what the program says
    assert client.read(query) == [initial]


@pytest.mark.parametrize(
    ("kind", "change", "code"),
    [
        ("INSERT", lambda e: None, INVALID),
        ("DELETE", lambda e: None, INVALID),
        ("MODIFY", lambda e: setattr(e, "priority", 1), INVALID),
        ("MODIFY", lambda e: e.match.add(field_id=1), INVALID),
        ("MODIFY", lambda e: setattr(e, "idle_timeout_ns", 1), INVALID),
        ("MODIFY", lambda e: setattr(e.action, "action_profile_group_id", 1), INVALID),
        ("MODIFY", lambda e: e.counter_data.SetInParent(), UNIMPLEMENTED),
    ],
)
def test_wrong_default_entries(client: Client, names: Names, kind: str, change, code: int) -> None:
    entity = names.entry("lpm_route", action=("to_cpu", 3), is_default_action=True)
    assert client.refusals((kind, edit(entity, change))) == [code]


@pytest.mark.parametrize("table", ["fixed", "balanced", "indirect"])
def test_const_default_entries(client: Client, names: Names, table: str) -> None:
    entity = names.entry(table, action=("NoAction",), is_default_action=True)
    assert client.refusals(("MODIFY", entity)) == [DENIED]
    (got,) = client.read(names.entry(table, is_default_action=True))
    assert got.table_entry.is_const


def test_a_default_that_p4c_leaves_out_is_not_reported(connect: Callable[..., Client], names: Names) -> None:
    """`default_action = drop()` beside an action profile is in P4Info, not in the JSON: a miss runs NoAction."""
    pushed = config()
    table = next(t for t in pushed.p4info.tables if t.preamble.alias == "balanced")
    table.initial_default_action.action_id = names.ids["drop"]
    client = connect()
    client.primary()
    client.set_pipeline(pushed)
    query = names.entry("balanced", is_default_action=True)
    expected = names.entry("balanced", action=("NoAction",), is_default_action=True, is_const=True)
    assert client.read(query) == [expected]
    wrong = names.entry("balanced", action=("drop",), is_default_action=True)
    assert client.refusals(("MODIFY", wrong)) == [DENIED]


def test_keyless_table_has_only_a_default_entry(client: Client, names: Names) -> None:
    assert client.refusals(("INSERT", names.entry("keyless", action=("drop",)))) == [INVALID]
    entity = names.entry("keyless", action=("forward", 9), is_default_action=True)
    client.modify(entity)
    assert client.read(names.entry("keyless", is_default_action=True)) == [entity]


def test_const_entries_are_read_and_never_written(client: Client, names: Names) -> None:
    got = client.read(names.entry("fixed"))
    assert [e.table_entry.action.action.action_id for e in got] == [
        names.ids["set_vlan"],
        names.ids["set_vlan"],
        names.ids["NoAction"],
    ]
    assert all(e.table_entry.is_const and e.table_entry.priority for e in got)
    assert got == sorted(got, key=lambda e: -e.table_entry.priority)
    for kind in ("INSERT", "MODIFY", "DELETE"):
        entity = edit(got[0], lambda e: setattr(e, "is_const", False))
        assert client.refusals((kind, entity)) == [DENIED]
    # Without action a MODIFY may set direct resources; there are none here, so nothing happens.
    client.modify(edit(got[0], lambda e: (setattr(e, "is_const", False), e.ClearField("action"))))


def test_initial_entries_that_are_not_const_can_be_changed(client: Client, names: Names) -> None:
    seven = names.entry("preset", 7, action=("set_vlan", 70))
    eight = names.entry("preset", 8, action=("set_vlan", 80))
    assert client.read(names.entry("preset")) == [seven, eight]
    other = names.entry("preset", 8, action=("NoAction",))
    client.write(("DELETE", seven), ("MODIFY", other))
    assert client.read(names.entry("preset")) == [other]


# -- direct resources


def test_direct_counter(client: Client, names: Names, route: p4r.Entity) -> None:
    client.insert(edit(route, lambda e: e.counter_data.CopyFrom(p4r.CounterData(packet_count=3, byte_count=300))))
    with_data = names.entry("lpm_route", counter_data=p4r.CounterData())
    (got,) = client.read(with_data)
    assert (got.table_entry.counter_data.packet_count, got.table_entry.counter_data.byte_count) == (3, 300)
    assert not client.read(names.entry("lpm_route"))[0].table_entry.HasField("counter_data")

    direct = p4r.Entity(direct_counter_entry=p4r.DirectCounterEntry(table_entry=route.table_entry))
    (entry,) = client.read(direct)
    assert entry.direct_counter_entry.data.byte_count == 300
    direct.direct_counter_entry.data.packet_count = 5
    client.modify(direct)
    assert client.read(with_data)[0].table_entry.counter_data == p4r.CounterData(packet_count=5)
    assert client.refusals(("INSERT", direct)) == [INVALID]
    direct.direct_counter_entry.ClearField("data")
    client.modify(direct)
    assert client.read(with_data)[0].table_entry.counter_data.packet_count == 5
    client.delete(route)
    assert client.refusals(("MODIFY", direct)) == [NOT_FOUND]
    assert refusals(lambda: client.read(direct)) == [NOT_FOUND]


def test_a_direct_meter_for_an_action_that_does_not_execute_it(client: Client, names: Names, rule: p4r.Entity) -> None:
    nothing = edit(rule, lambda e: e.action.action.CopyFrom(names.action("NoAction")))
    metered = edit(nothing, lambda e: e.meter_config.CopyFrom(p4r.MeterConfig(cir=1, cburst=1, pir=1, pburst=1)))
    assert client.refusals(("INSERT", metered)) == [INVALID]
    client.insert(nothing)
    assert client.refusals(("MODIFY", metered)) == [INVALID]


def test_direct_meter(client: Client, names: Names, rule: p4r.Entity) -> None:
    rates = p4r.MeterConfig(cir=1000, cburst=10, pir=2000, pburst=20)
    query = names.entry("acl", meter_config=p4r.MeterConfig())
    client.insert(rule)
    assert not client.read(query)[0].table_entry.HasField("meter_config")
    client.modify(edit(rule, lambda e: e.meter_config.CopyFrom(rates)))
    assert client.read(query)[0].table_entry.meter_config == rates
    direct = p4r.Entity(direct_meter_entry=p4r.DirectMeterEntry(table_entry=rule.table_entry, config=rates))
    client.modify(rule)  # a MODIFY without config resets the meter
    assert not client.read(query)[0].table_entry.HasField("meter_config")
    client.modify(direct)
    everything = p4r.Entity(direct_meter_entry=p4r.DirectMeterEntry(table_entry=p4r.TableEntry()))
    (got,) = client.read(everything)
    assert got.direct_meter_entry.config == rates
    assert got.direct_meter_entry.table_entry.priority == 5
    assert client.refusals(("DELETE", direct)) == [INVALID]
    direct.direct_meter_entry.ClearField("config")
    client.modify(direct)
    assert not client.read(everything)[0].direct_meter_entry.HasField("config")
