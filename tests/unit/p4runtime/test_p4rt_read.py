# SPDX-License-Identifier: Apache-2.0
"""Reading: wildcards, filters, errors, and large answers in pieces."""

from __future__ import annotations

from collections.abc import Callable

import grpc
import pytest
from finsy.proto import p4r

from tests.unit.p4runtime.harness import Client, Names, codes, refusals, refused


def test_before_a_pipeline(connect: Callable[..., Client]) -> None:
    client = connect()
    entity = p4r.Entity(table_entry=p4r.TableEntry())
    assert refused(lambda: client.read(entity)) is grpc.StatusCode.FAILED_PRECONDITION
    client.device_id = 77
    assert refused(lambda: client.read(entity)) is grpc.StatusCode.NOT_FOUND


def test_no_stream_is_needed(client: Client, connect: Callable[..., Client], names: Names) -> None:
    assert len(connect().read(names.entry("fixed"))) == 3


def test_an_empty_entity_is_refused_and_the_rest_is_read(client: Client, names: Names) -> None:
    request = p4r.ReadRequest(device_id=1, entities=[names.entry("fixed"), p4r.Entity(), names.entry("preset")])
    got: list[p4r.Entity] = []
    call = client.stub.Read(request)
    with pytest.raises(grpc.RpcError) as caught:
        got.extend(e for response in call for e in response.entities)
    assert caught.value.code() is grpc.StatusCode.UNKNOWN
    assert codes(caught.value) == [0, 3, 0]
    assert len(got) == 5


@pytest.fixture
def rules(client: Client, names: Names) -> list[p4r.Entity]:
    entries = [
        names.entry("acl", (1, 0xFF), None, None, 0x0800, action=("drop",), priority=1, metadata=b"a"),
        names.entry("acl", (1, 0xFF), None, None, 0x0800, action=("metered",), priority=2, metadata=b"b"),
        names.entry("acl", None, 6, (1, 2), 0x0800, action=("drop",), priority=2, controller_metadata=9),
    ]
    client.insert(*entries)
    return entries


def test_filters(client: Client, names: Names, rules: list[p4r.Entity]) -> None:
    read = client.read
    assert read(names.entry("acl")) == rules
    assert read(names.entry("acl", priority=2)) == rules[1:]
    assert read(names.entry("acl", (1, 0xFF), None, None, 0x0800, priority=2)) == rules[1:2]
    assert read(names.entry("acl", (1, 0xFF), None, None, 0x0800)) == rules[:2]
    assert read(names.entry("acl", None, 6, (1, 2), 0x0800)) == rules[2:]
    assert read(names.entry("acl", None, 6, (1, 2), 0x0801)) == []
    assert read(names.entry("acl", metadata=b"b")) == rules[1:2]
    assert read(names.entry("acl", controller_metadata=9)) == rules[2:]
    assert read(names.entry("acl", action=("drop",))) == [rules[0], rules[2]]
    assert read(names.entry("acl", action=("drop",), priority=2)) == rules[2:]


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


def test_all_tables(client: Client, names: Names, rules: list[p4r.Entity]) -> None:
    got = client.read(p4r.Entity(table_entry=p4r.TableEntry()))
    assert [e for e in got if e.table_entry.table_id == names.ids["acl"]] == rules
    assert len(got) == len(rules) + 3 + 2
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
