# SPDX-License-Identifier: Apache-2.0
"""Reading: wildcards, filters, errors, and large answers in pieces."""

from __future__ import annotations

import pytest
from finsy.proto import p4r

from tests.unit.p4runtime.harness import Client, Names, refusals


@pytest.fixture
def rules(client: Client, names: Names) -> list[p4r.Entity]:
    entries = [
        names.entry("acl", (1, 0xFF), None, None, 0x0800, action=("drop",), priority=1, metadata=b"a"),
        names.entry("acl", (1, 0xFF), None, None, 0x0800, action=("metered",), priority=2, metadata=b"b"),
        names.entry("acl", None, 6, (1, 2), 0x0800, action=("drop",), priority=2, controller_metadata=9),
    ]
    client.insert(*entries)
    return entries


def test_a_key_without_priority_means_all_priorities(client: Client, names: Names, rules: list[p4r.Entity]) -> None:
    assert client.read(names.entry("acl", (1, 0xFF), None, None, 0x0800, priority=2)) == rules[1:2]
    assert client.read(names.entry("acl", (1, 0xFF), None, None, 0x0800)) == rules[:2]
    assert client.read(names.entry("acl", None, 6, (1, 2), 0x0801)) == []


def test_wrong_filters(client: Client, names: Names) -> None:
    bad = [
        p4r.Entity(table_entry=p4r.TableEntry(table_id=5)),
        p4r.Entity(table_entry=p4r.TableEntry(priority=5)),
        names.entry("lpm_route", priority=1),
        names.entry("acl", priority=-1),
        names.entry("acl", (1, 0xFF)),
        names.entry("lpm_route", (1, 3)),
        names.entry("lpm_route", action=("metered",)),
        names.entry("balanced", action=("drop",)),
        names.entry("lpm_route", time_since_last_hit=p4r.TableEntry.IdleTimeout()),
        names.entry("acl", meter_counter_data=p4r.MeterCounterData()),
    ]
    assert [refusals(lambda entity=entity: client.read(entity)) for entity in bad] == [[3]] * 9 + [[12]]
    assert client.read(p4r.Entity(extern_entry=p4r.ExternEntry())) == []


def test_default_entries_of_all_tables(client: Client, names: Names) -> None:
    defaults = client.read(p4r.Entity(table_entry=p4r.TableEntry(is_default_action=True)))
    assert len(defaults) == len(names.info.tables)
    assert all(e.table_entry.HasField("action") for e in defaults)


def test_counter_data_of_all_tables(client: Client, names: Names, rules: list[p4r.Entity]) -> None:
    client.insert(names.entry("lpm_route", None, action=("to_cpu", 1)))
    got = client.read(p4r.Entity(table_entry=p4r.TableEntry(counter_data=p4r.CounterData())))
    with_counter = {e.table_entry.table_id for e in got if e.table_entry.HasField("counter_data")}
    assert with_counter == {names.ids["lpm_route"]}


def test_a_large_answer_comes_in_pieces(client: Client, names: Names) -> None:
    """Each below the 4 MiB that clients take by default, also when entries carry much metadata."""
    blob = bytes(1 << 18)
    entries = [names.entry("exact_two", i, 1, action=("forward", 1), metadata=blob) for i in range(40)]
    client.insert(*entries)
    request = p4r.ReadRequest(device_id=1, entities=[names.entry("exact_two")])
    pieces = list(client.stub.Read(request))
    assert [e for p in pieces for e in p.entities] == entries
    assert max(p.ByteSize() for p in pieces) < 4 << 20
