# SPDX-License-Identifier: Apache-2.0
"""translated.p4 on the real engine: SDN values, restrictions, references and roles."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import grpc
import pytest
from finsy.proto import p4r, rpc_status, stratum
from hypothesis import given, settings
from hypothesis import strategies as st

from detour.engine.p4runtime.translation import Translation, TranslationPlan
from detour.engine.tables import NoSuchEntry
from tests.unit.p4runtime.harness import Client, Names, config, refusals
from tests.unit.p4runtime.test_p4rt_engine import Switch, running

INVALID, NOT_FOUND, DENIED, EXHAUSTED, PRECONDITION, RANGE, UNIMPLEMENTED = 3, 5, 7, 8, 9, 11, 12


@pytest.fixture
def switch() -> Iterator[Switch]:
    with running("translated") as switch:
        yield switch


@pytest.fixture(scope="module")
def names() -> Names:
    return Names(config("translated").p4info)


def neighbor(names: Names, port: str, number: int) -> p4r.Entity:
    return names.entry("neighbor_table", port, number, action=("no_action",))


def nexthop(names: Names, name: str, port: str, number: int) -> p4r.Entity:
    return names.entry("nexthop_table", name, action=("forward", port, number))


def vrf(names: Names, name: str) -> p4r.Entity:
    return names.entry("vrf_table", name, action=("no_action",))


def route(names: Names, vrf: str, dst: int, bits: int, hop: str) -> p4r.Entity:
    return names.entry("route_table", vrf, (dst, bits), action=("set_nexthop", hop))


def chain(names: Names) -> list[p4r.Entity]:
    """A route in VRF "red" and all that it needs; packets to 0x01.. leave by port 2."""
    return [
        vrf(names, "red"),
        neighbor(names, "2", 5),
        nexthop(names, "hop-a", "2", 5),
        route(names, "red", 0x0100, 8, "hop-a"),
    ]


def error(client: Client, update: tuple[str, p4r.Entity]) -> tuple[int, str]:
    """Code and text of a refusal."""
    with pytest.raises(grpc.RpcError) as caught:
        client.write(update)
    (status,) = (each.value for each in caught.value.trailing_metadata() if each.key == "grpc-status-details-bin")
    refusal = p4r.Error()
    assert rpc_status.Status.FromString(status).details[0].Unpack(refusal)
    return refusal.canonical_code, refusal.message


def key(entity: p4r.Entity) -> p4r.Entity:
    """What asks for just that entry."""
    other = p4r.Entity()
    other.CopyFrom(entity)
    other.table_entry.ClearField("action")
    return other


def replicated(names: Names, *replicas: tuple[str, int], group: int = 7) -> p4r.Entity:
    entity = p4r.Entity()
    out = entity.packet_replication_engine_entry.multicast_group_entry
    out.multicast_group_id = group
    for port, instance in replicas:
        out.replicas.add(port=port.encode(), instance=instance)
    return entity


def cloned(*ports: str) -> p4r.Entity:
    entity = p4r.Entity()
    out = entity.packet_replication_engine_entry.clone_session_entry
    out.session_id = 1
    for port in ports:
        out.replicas.add(port=port.encode(), instance=1)
    return entity


def spread(names: Names, tag: int, *ports: str) -> p4r.Entity:
    entity = names.entry("spread_table", tag)
    for port in ports:
        entity.table_entry.action.action_profile_action_set.action_profile_actions.add(
            action=names.action("send", port), weight=1, watch_port=port.encode()
        )
    return entity


# -- values ---------------------------------------------------------------------------------------------------


def test_entries_forward_and_are_read_as_they_were_written(switch: Switch, names: Names) -> None:
    entities = chain(names)
    switch.client.insert(*entities)
    for entity in entities:
        table = p4r.Entity(table_entry=p4r.TableEntry(table_id=entity.table_entry.table_id))
        assert switch.client.read(table) == [entity]
        assert switch.client.read(entity) == [entity]
    # "red" is the first name of four bits: it has the lowest number but that of "".
    frame = b"\x01\x05\x01\x07payload"
    switch.send(frame)
    assert switch.receive(2) == frame
    switch.client.delete(*reversed(entities))
    assert switch.client.read(p4r.Entity(table_entry=p4r.TableEntry())) == []


def test_names_that_nothing_has(switch: Switch, names: Names) -> None:
    unknown = vrf(names, "blue")
    assert switch.client.refusals(("DELETE", unknown), ("MODIFY", unknown)) == [NOT_FOUND] * 2
    assert switch.client.read(unknown) == []
    key = p4r.TableEntry(table_id=unknown.table_entry.table_id, match=unknown.table_entry.match)
    with pytest.raises(grpc.RpcError):
        switch.client.read(p4r.Entity(direct_counter_entry=p4r.DirectCounterEntry(table_entry=key)))
    long, broken = vrf(names, "x" * 256), vrf(names, "x")
    broken.table_entry.match[0].exact.value = b"\xff\xfe"
    assert switch.client.refusals(("INSERT", long), ("INSERT", broken)) == [INVALID] * 2


def test_explicit_values_only(switch: Switch, names: Names) -> None:
    switch.client.insert(*chain(names))
    tagged = names.entry("neighbor_table", "2", 5, action=("set_tag", 0xFFFFFFFD))
    switch.client.modify(tagged)
    assert switch.client.read(tagged) == [tagged]
    switch.send(b"\x01\x05\x01\x07")
    assert switch.receive(2) == b"\x01\x08\x01\x07"
    other = names.entry("neighbor_table", "2", 5, action=("set_tag", 9))
    code, text = error(switch.client, ("MODIFY", other))
    assert code == INVALID
    assert text == "type tag_t: 0x09 is not one of its explicit values"
    wide = names.entry("neighbor_table", "2", 5, action=("set_tag", 1 << 32))
    assert switch.client.refusals(("MODIFY", wide)) == [RANGE]


def test_packets_to_and_from_the_controller(switch: Switch, names: Names) -> None:
    switch.client.insert(cloned("cpu"), names.entry("acl_table", action=("trap",), priority=1))
    assert switch.client.read(cloned()) == [cloned("cpu")]
    switch.send(b"\x01\x05\x01\x07", port=3)
    packet = switch.stream.next().packet
    assert packet.payload == b"\x01\x05\x01\x07"
    assert [m.value for m in packet.metadata] == [b"3", b"\0"]
    out = p4r.PacketOut(payload=b"hello")
    for id_, value in ((1, packet.metadata[0].value), (2, b"\0")):
        out.metadata.add(metadata_id=id_, value=value)
    switch.stream.send(packet=out)
    assert switch.receive(3) == b"hello"
    out.metadata[0].value = b"\xff"
    switch.stream.send(packet=out)
    assert switch.stream.next().error.canonical_code == INVALID


def test_replicas_and_watch_ports(switch: Switch, names: Names) -> None:
    ports = [names.entry("replica_table", port, i, action=("no_action",)) for i, port in enumerate(("2", "3"))]
    group, one_shot = replicated(names, ("2", 0), ("3", 1)), spread(names, 1000, "2", "3")
    switch.client.insert(*ports, group, one_shot)
    assert switch.client.read(replicated(names, group=0)) == [group]
    assert switch.client.read(names.entry("spread_table")) == [one_shot]
    switch.network.set_link((1, 2), False)
    frame = b"\x00\x07\x01\x07"  # 7 is tag 1000
    switch.send(frame)
    assert switch.receive(3) == frame


@pytest.mark.parametrize(
    "mappings",
    [
        '{ { "a" , 1 } , { "b" , 1 } }',
        '{ { "a" , 1 } , { "a" , 2 } }',
        '{ { "a" , CPU } }',
        '{ { "a" , 07 } }',
        '{ "a" , 1 }',
    ],
)
def test_programs_with_wrong_mappings_are_refused(switch: Switch, mappings: str) -> None:
    changed = config("translated")
    changed.p4info.type_info.new_types["port_id_t"].annotations[:] = [f"@p4runtime_translation_mappings({mappings})"]
    with pytest.raises(grpc.RpcError, match="INVALID_ARGUMENT") as caught:
        switch.client.set_pipeline(changed)
    assert "type port_id_t: the mappings" in str(caught.value.details())


def test_masks_of_strings_are_not_implemented(switch: Switch, names: Names) -> None:
    changed = config("translated")
    (table,) = (t for t in changed.p4info.tables if t.preamble.alias == "acl_table")
    table.match_fields[3].type_name.name = "port_id_t"
    switch.client.set_pipeline(changed)
    entity = names.entry("acl_table", None, 1, None, (5, 0xFF), action=("drop",), priority=1)
    assert switch.client.refusals(("INSERT", entity)) == [UNIMPLEMENTED]


@given(st.lists(st.text(max_size=20), min_size=1, max_size=100, unique=True), st.integers(1, 9))
@settings(deadline=None, max_examples=200)
def test_any_values_come_back(values: list[str], bits: int) -> None:
    """Different values have different numbers of `bits` bits, as many as there are; all come back as they were."""
    plan = TranslationPlan(config("translated").p4info)
    kind = plan.types["nexthop_id_t"]
    kind.bits = bits
    translation = Translation(plan)
    values = values[: 1 << bits]
    names = Names(config("translated").p4info)
    entities = [names.entry("nexthop_table", value) for value in values]
    for entity in entities:
        with pytest.raises(NoSuchEntry):
            translation.inward(entity)
    numbers = [translation.inward(entity, p4r.Update.INSERT) for entity in entities]
    assert len({e.table_entry.match[0].exact.value for e in numbers}) == len(values)
    assert all(int.from_bytes(e.table_entry.match[0].exact.value, "big") >> bits == 0 for e in numbers)
    assert [translation.outward(e) for e in numbers] == entities


def test_a_number_is_free_again_when_nothing_has_it(switch: Switch, names: Names) -> None:
    """Four bits are sixteen VRFs at a time, and any number of them one after the other."""
    for at in range(100):
        switch.client.insert(vrf(names, f"vrf-{at}"))
        if at >= 10:
            switch.client.delete(vrf(names, f"vrf-{at - 10}"))
    assert len(switch.client.read(names.entry("vrf_table"))) == 10
    more = [("INSERT", vrf(names, f"more-{at}")) for at in range(6)]
    assert switch.client.refusals(*more) == [0] * 5 + [EXHAUSTED]


def test_reconciling_keeps_values_and_what_they_stand_for(switch: Switch, names: Names) -> None:
    entities = [*chain(names), spread(names, 1000, "2", "3"), cloned("3", "cpu")]
    switch.client.insert(vrf(names, "first"), *entities)
    changed = config("translated", cookie=2)
    changed.p4info.tables[0].size += 1
    switch.client.set_pipeline(changed, "RECONCILE_AND_COMMIT")
    assert switch.client.read(cloned(), *map(key, entities[:-1])) == [entities[-1], *entities[:-1]]
    frame = b"\x02\x05\x01\x07"  # "red" came second, and still is number two
    switch.send(frame)
    assert switch.receive(2) == frame
    # References are known again.
    assert switch.client.refusals(("DELETE", entities[0])) == [PRECONDITION]


def test_reconciling_to_a_program_with_other_demands(switch: Switch, names: Names) -> None:
    switch.client.insert(*chain(names))
    changed = config("translated")
    (table,) = (t for t in changed.p4info.tables if t.preamble.alias == "neighbor_table")
    table.preamble.annotations.append('@entry_restriction("number != 5")')
    with pytest.raises(grpc.RpcError, match="number != 5"):
        switch.client.set_pipeline(changed, "RECONCILE_AND_COMMIT")
    switch.client.modify(chain(names)[1])  # the old program goes on


def test_atomic_batches_are_taken_back(switch: Switch, names: Names) -> None:
    switch.client.insert(*chain(names))
    request = switch.client.write_request(
        ("INSERT", vrf(names, "blue")),
        ("MODIFY", names.entry("neighbor_table", "2", 5, action=("set_tag", 1000))),
        ("DELETE", route(names, "red", 0x0100, 8, "hop-a")),
        ("INSERT", vrf(names, "red")),
    )
    request.atomicity = p4r.WriteRequest.ROLLBACK_ON_ERROR
    assert refusals(lambda: switch.client.stub.Write(request))[3] == 6
    assert [switch.client.read(e) for e in chain(names)] == [[e] for e in chain(names)]
    assert switch.client.refusals(("DELETE", chain(names)[2])) == [PRECONDITION]  # the route is there again


# -- restrictions ---------------------------------------------------------------------------------------------


def test_restrictions_name_the_clause(switch: Switch, names: Names) -> None:
    assert error(switch.client, ("INSERT", vrf(names, ""))) == (
        INVALID, "TheIngress.vrf_table: @entry_restriction is not met: vrf_id != 0 (vrf_id = 0x0)"
    )  # fmt: skip
    none = names.entry("route_table", "", (0, 8), action=("set_group", 0))
    assert "TheIngress.set_group: @action_restriction is not met: group != 0 (group = 0x0)" in error(
        switch.client, ("INSERT", none)
    )


@pytest.mark.parametrize(
    ("key", "priority", "clause"),
    [
        ((None, 1, None, (5, 0xFFFF), None), 1, None),
        ((None, 2, None, (5, 0xFFFF), None), 1, "dst::mask != 0 -> vrf_id == 1 || tag == 1000"),
        ((None, 2, 1000, (5, 0xFFFF), None), 1, None),
        ((None, None, None, None, None), 999, None),
        ((None, None, None, None, None), 1000, "::priority < 0d1000"),
        ((None, None, None, None, 7), 1, "!(number == 7)"),
        ((None, None, None, None, 8), 1, None),
        (("2", 1, None, (1, 0xFFFF), None), 1, "in_port::mask == -1 -> (dst::value != 0xffff && dst != 0b1)"),
        (("2", 1, None, (1, 0x7FFF), None), 1, None),
        (("2", 1, None, (0xFFFF, 0xFFFF), None), 1, "in_port::mask == -1 -> (dst::value != 0xffff && dst != 0b1)"),
    ],
)
def test_clauses(switch: Switch, names: Names, key: tuple[object, ...], priority: int, clause: str | None) -> None:
    entity = names.entry("acl_table", *key, action=("drop",), priority=priority)
    if clause is None:
        switch.client.insert(entity)
        assert switch.client.read(entity) == [entity]
    else:
        code, text = error(switch.client, ("INSERT", entity))
        assert code == INVALID
        assert f"@entry_restriction is not met: {clause} (" in text


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("dst ==", "syntax error at '=='"),
        ("dst == 1 == 1", "syntax error at '== 1'"),
        ("unheard == 1", "there is no 'unheard'"),
        ("vrf_id::prefix_length == 1", "there is no ::prefix_length"),
        ("dst < 3", "the two have no order"),
        ("dst == true", "the two cannot be compared"),
        ("dst::value", "true or false is wanted"),
        ("dst == vrf_id", "the two are of different types"),
        ("dst == ipv4('300.0.0.1')", "'300.0.0.1' does not appear to be"),
        ("::unheard == 1", "there is no '::unheard'"),
        ("-dst::value == 1", "only a number of any size can be negative"),
        ("(" * 5000 + "true" + ")" * 5000, "@entry_restriction"),
    ],
)
def test_programs_with_wrong_restrictions_are_refused(switch: Switch, text: str, wrong: str) -> None:
    changed = config("translated")
    (table,) = (t for t in changed.p4info.tables if t.preamble.alias == "acl_table")
    table.preamble.annotations.append(f'@entry_restriction("{text}")')
    with pytest.raises(grpc.RpcError) as caught:
        switch.client.set_pipeline(changed)
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert "TheIngress.acl_table" in str(caught.value.details())
    assert wrong in str(caught.value.details())


@pytest.mark.parametrize(
    ("text", "met"),
    [
        ("true && !false; // and a comment", True),
        ("dst == 0x0102 && dst::mask == 0o177777;", True),
        ("dst::value >= ipv4('0.0.1.2') && dst::value <= mac('00:00:00:00:01:02')", True),
        ("dst::value == ipv6('::1')", False),
        ("--::priority == 1 -> false", False),
        ("(dst::value > 3) == (::priority < 5)", True),
        ("false || false || in_port == 50", True),  # "2" is one byte, 50
        ("in_port::mask == 0", False),
    ],
)
def test_expressions(switch: Switch, names: Names, text: str, met: bool) -> None:
    changed = config("translated")
    (table,) = (t for t in changed.p4info.tables if t.preamble.alias == "acl_table")
    table.preamble.annotations[:] = [f'@entry_restriction("{text}")']
    switch.client.set_pipeline(changed)
    entity = names.entry("acl_table", "2", None, None, (0x0102, 0xFFFF), action=("drop",), priority=1)
    if met:
        switch.client.insert(entity)
    else:
        assert switch.client.refusals(("INSERT", entity)) == [INVALID]


# -- references -----------------------------------------------------------------------------------------------


def test_references_must_lead_somewhere(switch: Switch, names: Names) -> None:
    red, two, hop, routed = chain(names)
    assert error(switch.client, ("INSERT", route(names, "", 0, 8, "hop-a"))) == (
        INVALID,
        "TheIngress.route_table: @refers_to: there is no entry of TheIngress.nexthop_table with nexthop_id 'hop-a'",
    )
    code, text = error(switch.client, ("INSERT", hop))
    assert (code, "no entry of TheIngress.neighbor_table with port '2' and number 0x5" in text) == (INVALID, True)
    # Both values must be of one entry.
    switch.client.insert(neighbor(names, "2", 6), neighbor(names, "3", 5))
    assert switch.client.refusals(("INSERT", hop)) == [INVALID]
    switch.client.insert(two, hop, red, routed)
    # The default VRF is the program's own.
    switch.client.insert(route(names, "", 0x0200, 8, "hop-a"))


def test_what_is_referred_to_stays(switch: Switch, names: Names) -> None:
    red, two, hop, routed = chain(names)
    switch.client.insert(red, two, hop, routed)
    code, text = error(switch.client, ("DELETE", hop))
    assert code == PRECONDITION
    assert text == "entry of TheIngress.nexthop_table with nexthop_id 'hop-a' is referred to by 1 other entries"
    assert switch.client.refusals(("DELETE", red), ("DELETE", two)) == [PRECONDITION] * 2
    # A route that leads elsewhere refers to the other.
    other = nexthop(names, "hop-b", "2", 5)
    switch.client.insert(other)
    switch.client.modify(route(names, "red", 0x0100, 8, "hop-b"))
    switch.client.delete(hop)
    assert switch.client.refusals(("DELETE", other)) == [PRECONDITION]
    # Nor does one that drops refer to anything but its VRF.
    switch.client.modify(names.entry("route_table", "red", (0x0100, 8), action=("drop",)))
    switch.client.delete(other, two)
    assert switch.client.refusals(("DELETE", red)) == [PRECONDITION]
    assert switch.client.refusals(("DELETE", hop)) == [NOT_FOUND]


def test_multicast_groups_refer_and_are_referred_to(switch: Switch, names: Names) -> None:
    group, routed = replicated(names, ("2", 4)), names.entry("route_table", "", (0, 8), action=("set_group", 7))
    port = names.entry("replica_table", "2", 4, action=("no_action",))
    assert switch.client.refusals(("INSERT", group), ("INSERT", routed)) == [INVALID] * 2
    switch.client.insert(port, group, routed)
    assert switch.client.refusals(("DELETE", port), ("DELETE", group)) == [PRECONDITION] * 2
    assert switch.client.refusals(("MODIFY", replicated(names, ("2", 5)))) == [INVALID]
    switch.client.modify(replicated(names))
    switch.client.delete(port, routed, group)


# -- roles ----------------------------------------------------------------------------------------------------


def test_a_role_has_the_tables_that_say_so(connect: Callable[..., Client], names: Names) -> None:
    everybody = connect()
    everybody.ready("translated")
    routing = connect(election=2)
    routing.role = "routing"
    routing.primary()
    red, denied = vrf(names, "red"), names.entry("acl_table", action=("drop",), priority=1)
    assert routing.refusals(("INSERT", red), ("INSERT", denied)) == [0, DENIED]
    everybody.insert(denied)
    assert everybody.read(names.entry("acl_table")) == [denied]
    assert routing.read(p4r.Entity(table_entry=p4r.TableEntry()), role="routing") == [red]
    # A role that the program does not know has nothing, a role with a config what that says.
    other = connect(election=3)
    other.role = "other"
    stream = other.primary()
    assert other.refusals(("DELETE", red)) == [DENIED]
    config = stratum.P4RoleConfig(shared_p4_ids=[names.ids["vrf_table"]])
    stream.arbitrate(1, 3, "other", config)
    assert stream.next().arbitration.status.code == 0
    other.delete(red)
