# SPDX-License-Identifier: Apache-2.0
"""Writing table entries, as far as tests of the specification (test_conformance.py) do not say."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from finsy.proto import p4r

from tests.unit.p4runtime.harness import Client, Names, config

INVALID, DENIED, UNIMPLEMENTED = 3, 7, 12


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


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda e: e.meter_counter_data.SetInParent(), id="meter counters without meter"),
        pytest.param(lambda e: setattr(e.counter_data, "packet_count", -1), id="negative counter"),
    ],
)
def test_malformed_entries_are_invalid(client: Client, names: Names, route: p4r.Entity, change) -> None:
    assert client.refusals(("INSERT", edit(route, change))) == [INVALID]
    assert client.read(names.entry("lpm_route")) == []


@pytest.mark.parametrize(
    ("change", "code"),
    [
        pytest.param(lambda e: e.meter_counter_data.SetInParent(), UNIMPLEMENTED, id="counters by colour"),
        pytest.param(lambda e: setattr(e.meter_config, "cir", -1), INVALID, id="negative rate"),
        pytest.param(lambda e: setattr(e.meter_config, "cir", 1), INVALID, id="cir above pir"),
        pytest.param(lambda e: setattr(e.meter_config, "eburst", 1), INVALID, id="eburst in a two-rate meter"),
    ],
)
def test_malformed_ternary_entries(client: Client, names: Names, rule: p4r.Entity, change, code: int) -> None:
    assert client.refusals(("INSERT", edit(rule, change))) == [code]
    assert client.read(names.entry("acl")) == []


# -- scopes, default entries, const tables, initial entries


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda e: setattr(e.action, "action_profile_group_id", 1), INVALID),
        (lambda e: e.counter_data.SetInParent(), UNIMPLEMENTED),
    ],
)
def test_wrong_default_entries(client: Client, names: Names, change, code: int) -> None:
    entity = names.entry("lpm_route", action=("to_cpu", 3), is_default_action=True)
    assert client.refusals(("MODIFY", edit(entity, change))) == [code]


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


# -- direct resources


def test_a_direct_meter_for_an_action_that_does_not_execute_it(client: Client, names: Names, rule: p4r.Entity) -> None:
    nothing = edit(rule, lambda e: e.action.action.CopyFrom(names.action("NoAction")))
    metered = edit(nothing, lambda e: e.meter_config.CopyFrom(p4r.MeterConfig(cir=1, cburst=1, pir=1, pburst=1)))
    assert client.refusals(("INSERT", metered)) == [INVALID]
    client.insert(nothing)
    assert client.refusals(("MODIFY", metered)) == [INVALID]
