# SPDX-License-Identifier: Apache-2.0
"""oddities.p4: translated types, enums, errors, unusual names and value sets, on the real engine."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from typing import NamedTuple

import grpc
import pytest
from finsy.proto import p4r

from detour.engine.network import Network
from detour.engine.p4runtime import P4RuntimeServer
from tests.unit.p4runtime.harness import WAIT_S, Client, Names, Stream, codes, config, octets

RANGE, UNIMPLEMENTED = 11, 12
FRAME = bytes(6) + (0x020304050607).to_bytes(6, "big") + b"\x12\x34" + bytes(46)


class Switch(NamedTuple):
    network: Network
    client: Client
    stream: Stream
    out: queue.Queue[bytes]


@pytest.fixture(scope="module")
def odd() -> Names:
    return Names(config("oddities").p4info)


@pytest.fixture
def switch() -> Iterator[Switch]:
    with Network(packets=256) as network:
        network.add_switch(1)
        out: queue.Queue[bytes] = queue.Queue()
        network.attach_sink((1, 1), lambda frame, _: None)
        network.attach_sink((1, 2), lambda frame, _: out.put(frame))
        network.start()
        with P4RuntimeServer(network) as server:
            server.add_device(1)
            client = Client(server.target)
            stream = client.primary()
            client.set_pipeline(config("oddities"))
            yield Switch(network, client, stream, out)
            client.close()


def refused(client: Client, *entities: p4r.Entity, kind: str = "INSERT") -> list[int]:
    with pytest.raises(grpc.RpcError) as caught:
        client.write(*((kind, e) for e in entities))
    return codes(caught.value)


def by_type(odd: Names, flag: int) -> p4r.Entity:
    """Port 1, kind FIRST, no parser error."""
    return odd.entry("by_type", 1, 1, flag, 0, action=("to", 2))


def test_typed_keys(switch: Switch, odd: Names) -> None:
    entity = by_type(odd, 0)
    switch.client.insert(entity)
    assert switch.client.read(odd.entry("by_type")) == [entity]
    switch.network.inject((1, 1), FRAME)
    assert switch.out.get(timeout=WAIT_S) == FRAME
    # Translated numbers have 32 bits in P4Info and 9 in the switch; they must fit both.
    too_wide = [
        odd.entry("by_type", 512, 1, 0, 0, action=("to", 2)),
        odd.entry("by_type", 2, 1, 0, 0, action=("to", 512)),
        odd.entry("by_type", 2, 256, 0, 0, action=("to", 2)),
        odd.entry("by_type", 2, 1, 2, 0, action=("to", 2)),
    ]
    assert refused(switch.client, *too_wide) == [RANGE] * 4


def test_strings_are_not_translated(switch: Switch, odd: Names) -> None:
    assert refused(
        switch.client, odd.entry("by_name", 1, action=("drop",)), odd.entry("by_type", 1, 1, 0, 0, action=("rename", 1))
    ) == [UNIMPLEMENTED, UNIMPLEMENTED]


def test_unusual_names(switch: Switch, odd: Names) -> None:
    entity = odd.entry("top_level", 5, action=("NoAction",))
    one_shot = odd.entry("balanced", 5)
    one_shot.table_entry.action.action_profile_action_set.action_profile_actions.add(
        action=odd.action("to", 2), weight=1
    )
    switch.client.insert(entity, one_shot)
    assert switch.client.read(odd.entry("top_level"), odd.entry("balanced")) == [entity, one_shot]


def test_digest_of_a_tuple(switch: Switch, odd: Names) -> None:
    entity = p4r.Entity()
    entity.digest_entry.digest_id = odd.ids["digest_0"]
    entity.digest_entry.config.max_list_size = 1
    switch.client.insert(entity)
    switch.network.inject((1, 1), FRAME)
    (data,) = switch.stream.next().digest.data
    assert [m.bitstring for m in data.tuple.members] == [FRAME[6:12], b"\1"]


def test_signed_register(switch: Switch, odd: Names) -> None:
    def cell(index: int, value: bytes) -> p4r.Entity:
        entity = p4r.Entity()
        entity.register_entry.register_id = odd.ids["signed_words"]
        entity.register_entry.index.index = index
        entity.register_entry.data.bitstring = value
        return entity

    switch.client.modify(cell(0, b"\xff\xff\x80\x01"))
    switch.client.insert(by_type(odd, 0))
    switch.network.inject((1, 1), FRAME)
    switch.out.get(timeout=WAIT_S)
    wanted = p4r.Entity(register_entry=p4r.RegisterEntry(register_id=odd.ids["signed_words"]))
    assert switch.client.read(wanted)[:2] == [cell(0, b"\x80\x01"), cell(1, b"\x80\x00")]
    assert refused(switch.client, cell(0, b"\x00\x80\x00"), kind="MODIFY") == [RANGE]


def value_set(id_: int, *members: tuple[int, ...]) -> p4r.Entity:
    entity = p4r.Entity()
    entity.value_set_entry.value_set_id = id_
    for member in members:
        added = entity.value_set_entry.members.add()
        for field, value in enumerate(member, 1):
            added.match.add(field_id=field).exact.value = octets(value)
    return entity


def test_a_value_set_of_two_fields(switch: Switch, odd: Names) -> None:
    entity = value_set(odd.ids["both"], (0x1234, 0), (7, 8))
    switch.client.modify(entity)
    assert switch.client.read(value_set(odd.ids["both"])) == [entity]
    switch.client.insert(by_type(odd, 1))
    switch.network.inject((1, 1), FRAME)
    assert switch.out.get(timeout=WAIT_S) == FRAME


def test_a_value_set_that_does_not_match_exactly(switch: Switch, odd: Names) -> None:
    assert switch.client.read(value_set(odd.ids["pairs"])) == [value_set(odd.ids["pairs"])]
    assert refused(switch.client, value_set(odd.ids["pairs"], (1, 2)), kind="MODIFY") == [UNIMPLEMENTED]
