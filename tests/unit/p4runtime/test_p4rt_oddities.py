# SPDX-License-Identifier: Apache-2.0
"""oddities.p4: translated types, enums, errors, unusual names and value sets, on the real engine."""

from __future__ import annotations

from collections.abc import Iterator

import grpc
import pytest
from finsy.proto import p4r

from detour.engine.compiler.load import load
from detour.engine.compiler.model import read_json
from detour.engine.p4runtime.packets import header_codecs
from detour.engine.p4runtime.translation import TranslationPlan
from tests.unit.p4runtime.harness import Names, config, digest, register, value_set
from tests.unit.p4runtime.test_p4rt_engine import Switch, running

RANGE, UNIMPLEMENTED = 11, 12
FRAME = bytes(6) + (0x020304050607).to_bytes(6, "big") + b"\x12\x34" + bytes(46)


@pytest.fixture
def switch() -> Iterator[Switch]:
    with running("oddities") as switch:
        yield switch


@pytest.fixture(scope="module")
def odd() -> Names:
    return Names(config("oddities").p4info)


def by_type(odd: Names, flag: int) -> p4r.Entity:
    """Port 1, kind FIRST, no parser error."""
    return odd.entry("by_type", 1, 1, flag, 0, action=("to", 2))


def test_typed_keys(switch: Switch, odd: Names) -> None:
    entity = by_type(odd, 0)
    switch.client.insert(entity)
    assert switch.client.read(odd.entry("by_type")) == [entity]
    switch.send(FRAME)
    assert switch.receive(2) == FRAME
    # Translated numbers have 32 bits in P4Info and 9 in the switch, where those that do not fit have others.
    large = odd.entry("by_type", 512, 1, 0, 0, action=("to", 0xFFFFFFFF))
    switch.client.insert(large)
    assert switch.client.read(large) == [large]
    too_wide = [
        odd.entry("by_type", 1 << 32, 1, 0, 0, action=("to", 2)),
        odd.entry("by_type", 2, 1, 0, 0, action=("to", 1 << 32)),
        odd.entry("by_type", 2, 256, 0, 0, action=("to", 2)),
        odd.entry("by_type", 2, 1, 2, 0, action=("to", 2)),
    ]
    assert switch.client.refusals(*(("INSERT", e) for e in too_wide)) == [RANGE] * 4


def test_strings_are_translated(switch: Switch, odd: Names) -> None:
    named = odd.entry("by_name", "a name", action=("drop",))
    renamed = odd.entry("by_type", 1, 1, 0, 0, action=("rename", "another"))
    switch.client.insert(named, renamed)
    assert switch.client.read(odd.entry("by_name"), odd.entry("by_type")) == [named, renamed]


def test_unusual_names(switch: Switch, odd: Names) -> None:
    entity = odd.entry("top_level", 5, action=("NoAction",))
    one_shot = odd.entry("balanced", 5)
    one_shot.table_entry.action.action_profile_action_set.action_profile_actions.add(
        action=odd.action("to", 2), weight=1
    )
    switch.client.insert(entity, one_shot)
    assert switch.client.read(odd.entry("top_level"), odd.entry("balanced")) == [entity, one_shot]


def test_digest_of_a_tuple(switch: Switch, odd: Names) -> None:
    switch.client.insert(digest(odd.ids["digest_0"], 1))
    switch.send(FRAME)
    (data,) = switch.stream.next().digest.data
    assert [m.bitstring for m in data.tuple.members] == [FRAME[6:12], b"\1"]


def test_signed_register(switch: Switch, odd: Names) -> None:
    words = odd.ids["signed_words"]
    switch.client.modify(register(words, 0, b"\xff\xff\x80\x01"))
    switch.client.insert(by_type(odd, 0))
    switch.send(FRAME)
    switch.receive(2)
    assert switch.client.read(register(words))[:2] == [register(words, 0, b"\x80\x01"), register(words, 1, b"\x80\x00")]
    assert switch.client.refusals(("MODIFY", register(words, 0, b"\x00\x80\x00"))) == [RANGE]


def test_a_value_set_of_two_fields(switch: Switch, odd: Names) -> None:
    entity = value_set(odd.ids["both"], (0x1234, 0), (7, 8))
    switch.client.modify(entity)
    assert switch.client.read(value_set(odd.ids["both"])) == [entity]
    switch.client.insert(by_type(odd, 1))
    switch.send(FRAME)
    assert switch.receive(2) == FRAME


def test_a_value_set_that_does_not_match_exactly(switch: Switch, odd: Names) -> None:
    assert switch.client.read(value_set(odd.ids["pairs"])) == [value_set(odd.ids["pairs"])]
    assert switch.client.refusals(("MODIFY", value_set(odd.ids["pairs"], (1, 2)))) == [UNIMPLEMENTED]


# -- strings.p4 ----------------------------------------------------------------------------------------------


@pytest.fixture
def stringing() -> Iterator[Switch]:
    with running("strings") as stringing:
        yield stringing


@pytest.fixture(scope="module")
def string_names() -> Names:
    return Names(config("strings").p4info)


def test_packets_in_and_out(stringing: Switch, string_names: Names) -> None:
    """9, 9 and 6 bits in front of the frame, whatever P4Info says of their widths: none, 32 and 6. Ports that nobody
    has named spell their numbers."""
    stringing.send(b"\x05payload", port=2)
    packet = stringing.stream.next()
    assert packet.packet.payload == b"\x05payload"
    assert [(m.metadata_id, m.value) for m in packet.packet.metadata] == [(1, b"2"), (2, b"\x02"), (3, b"\x00")]
    entries = [
        string_names.entry("by_name", "Ethernet1", action=("punt",)),
        string_names.entry("by_kind", 5, action=("send", "Ethernet1")),
    ]
    stringing.client.insert(*entries)
    assert [stringing.client.read(entry) for entry in entries] == [[entry] for entry in entries]
    stringing.send(b"\x05payload", port=2)
    assert stringing.receive(1) == b"\x05payload"
    # The packet-out parses as such, and its port is the one that has the name.
    out = p4r.PacketOut(payload=b"\x05payload")
    for id_, value in ((1, b"Ethernet1"), (2, b"\x00"), (3, b"\x00")):
        out.metadata.add(metadata_id=id_, value=value)
    stringing.stream.send(packet=out)
    assert stringing.receive(1) == b"\x05payload"


def test_entries_without_strings_work(stringing: Switch, string_names: Names) -> None:
    entry = string_names.entry("by_kind", 5, action=("punt",))
    stringing.client.insert(entry)
    assert stringing.client.read(string_names.entry("by_kind")) == [entry]
    stringing.send(b"\x05x", port=1)
    assert stringing.stream.next().packet.payload == b"\x05x"


def test_a_header_that_the_program_does_not_have(stringing: Switch) -> None:
    """Nobody knows its size: packets cannot be taken apart, and that is all."""
    changed = config("strings")
    changed.p4info.controller_packet_metadata[0].metadata[0].name = "unheard"
    stringing.client.set_pipeline(changed)
    program = load(read_json(changed.p4_device_config.decode()))
    packet_in, _ = header_codecs(changed.p4info, program, TranslationPlan(changed.p4info))
    assert not packet_in.unpack(bytes(100), p4r.PacketIn())


def test_a_width_is_missing_only_of_strings(stringing: Switch) -> None:
    changed = config("strings")
    changed.p4info.controller_packet_metadata[0].metadata[2].bitwidth = 0
    with pytest.raises(grpc.RpcError, match="without bitwidth"):
        stringing.client.set_pipeline(changed)
