# SPDX-License-Identifier: Apache-2.0
"""strings.p4: types that the controller sees as strings, which P4Info gives no width, in controller headers too."""

from __future__ import annotations

from collections.abc import Iterator

import grpc
import pytest
from finsy.proto import p4r

from detour.engine.compiler.load import load
from detour.engine.compiler.model import read_json
from detour.engine.p4runtime.packets import header_codecs
from tests.unit.p4runtime.harness import Names, config
from tests.unit.p4runtime.test_p4rt_engine import Switch, running

UNIMPLEMENTED = 12


@pytest.fixture
def switch() -> Iterator[Switch]:
    with running("strings") as switch:
        yield switch


@pytest.fixture(scope="module")
def names() -> Names:
    return Names(config("strings").p4info)


def test_a_packet_in_shows_the_numbers(switch: Switch) -> None:
    """9, 9 and 6 bits in front of the frame, whatever P4Info says of their widths: none, 32 and 6."""
    switch.send(b"\x05payload", port=2)
    packet = switch.stream.next()
    assert packet.packet.payload == b"\x05payload"
    assert [(m.metadata_id, m.value) for m in packet.packet.metadata] == [(1, b"\x02"), (2, b"\x02"), (3, b"\x00")]


def test_a_packet_out_with_a_string_is_not_implemented(switch: Switch) -> None:
    out = p4r.PacketOut(payload=b"\x05payload")
    for id_, value in ((1, b"Ethernet1"), (2, b"\x00"), (3, b"\x00")):
        out.metadata.add(metadata_id=id_, value=value)
    switch.stream.send(packet=out)
    error = switch.stream.next().error
    assert error.canonical_code == UNIMPLEMENTED
    assert "'egress_port' is translated to strings" in error.message


def test_entries_with_strings_are_not_implemented(switch: Switch, names: Names) -> None:
    assert switch.client.refusals(("INSERT", names.entry("by_name", 1, action=("punt",)))) == [UNIMPLEMENTED]
    assert switch.client.refusals(("INSERT", names.entry("by_kind", 5, action=("send", 1)))) == [UNIMPLEMENTED]


def test_entries_without_strings_work(switch: Switch, names: Names) -> None:
    entry = names.entry("by_kind", 5, action=("punt",))
    switch.client.insert(entry)
    assert switch.client.read(names.entry("by_kind")) == [entry]
    switch.send(b"\x05x", port=1)
    assert switch.stream.next().packet.payload == b"\x05x"


def test_a_header_that_the_program_does_not_have(switch: Switch) -> None:
    """Nobody knows its size: packets cannot be taken apart, and that is all."""
    wanted = config("strings")
    wanted.p4info.controller_packet_metadata[0].metadata[0].name = "unheard"
    switch.client.set_pipeline(wanted)
    packet_in, _ = header_codecs(wanted.p4info, load(read_json(wanted.p4_device_config.decode())))
    assert not packet_in.unpack(bytes(100), p4r.PacketIn())


def test_a_width_is_missing_only_of_strings(switch: Switch) -> None:
    wanted = config("strings")
    wanted.p4info.controller_packet_metadata[0].metadata[2].bitwidth = 0
    with pytest.raises(grpc.RpcError, match="without bitwidth"):
        switch.client.set_pipeline(wanted)
