# SPDX-License-Identifier: Apache-2.0
"""Counters, meters, registers, value sets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from finsy.proto import p4d

from tests.unit.p4runtime.harness import Client, Names, counter, meter, refusals, register, value_set

INVALID, EXISTS, EXHAUSTED, RANGE, UNIMPLEMENTED = 3, 6, 8, 11, 12


def test_counters(client: Client, names: Names) -> None:
    id_ = names.ids["port_counter"]
    client.modify(counter(id_, 3, 7, 700))
    assert client.read(counter(id_, 3)) == [counter(id_, 3, 7, 700)]
    assert len(client.read(counter(id_))) == 64
    assert len(client.read(counter(0))) == 64 + 16
    client.modify(counter(id_, 3))  # no data, no change
    assert client.read(counter(id_, 3)) == [counter(id_, 3, 7, 700)]
    client.modify(counter(id_, None, 1, 2))
    assert client.read(counter(id_)) == [counter(id_, i, 1, 2) for i in range(64)]


def test_a_counter_shows_what_the_program_asked_for(client: Client, names: Names) -> None:
    id_ = names.ids["packet_counter"]
    client.modify(counter(id_, 0, 5, 500))
    assert client.read(counter(id_, 0)) == [counter(id_, 0, 5, 0)]


def test_wrong_counters(client: Client, names: Names) -> None:
    id_ = names.ids["port_counter"]
    wrong = [counter(id_, -1, 1), counter(id_, 64, 1), counter(5, 0, 1), counter(0, 0, 1), counter(id_, 0, -1)]
    assert client.refusals(*(("MODIFY", e) for e in wrong)) == [INVALID, RANGE, INVALID, INVALID, INVALID]
    assert client.refusals(("INSERT", counter(id_, 0, 1)), ("DELETE", counter(id_, 0, 1))) == [INVALID, INVALID]
    assert refusals(lambda: client.read(counter(id_, 64), counter(id_, -1), counter(5))) == [RANGE, INVALID, INVALID]


def test_meters(client: Client, names: Names) -> None:
    id_ = names.ids["rate"]
    assert client.read(meter(id_)) == [meter(id_, i) for i in range(8)]
    client.modify(meter(id_, 2, 12_500_000_000, 9000, 25_000_000_001, 18000))
    assert client.read(meter(0))[2] == meter(id_, 2, 12_500_000_000, 9000, 25_000_000_001, 18000)
    client.modify(meter(id_, None, 1, 2, 3, 4))
    assert client.read(meter(id_)) == [meter(id_, i, 1, 2, 3, 4) for i in range(8)]
    client.modify(meter(id_, 5))
    assert client.read(meter(id_, 5)) == [meter(id_, 5)]


def test_wrong_meters(client: Client, names: Names) -> None:
    id_ = names.ids["rate"]
    by_colour = meter(id_, 0, 1, 1, 1, 1)
    by_colour.meter_entry.counter_data.SetInParent()
    wrong = [meter(id_, 0, 3, 1, 2, 1), meter(id_, 0, -1, 1, 2, 1), meter(id_, 8), by_colour, meter(9)]
    assert client.refusals(*(("MODIFY", e) for e in wrong)) == [INVALID, INVALID, RANGE, UNIMPLEMENTED, INVALID]
    assert client.refusals(("INSERT", meter(id_, 0))) == [INVALID]


def test_registers(client: Client, names: Names) -> None:
    id_ = names.ids["words"]
    client.modify(register(id_, 31, 0x123456789ABC))
    assert client.read(register(id_, 31)) == [register(id_, 31, 0x123456789ABC)]
    assert client.read(register(id_, 0)) == [register(id_, 0, 0)]
    client.modify(register(id_, None, 5))
    assert client.read(register(id_)) == [register(id_, i, 5) for i in range(32)]
    assert len(client.read(register(0))) == 32 + 4


def test_wrong_registers(client: Client, names: Names) -> None:
    id_ = names.ids["octets"]
    as_bool = register(id_, 0)
    as_bool.register_entry.data.bool = True
    wrong = [register(id_, 0, 256), register(id_, 4, 1), register(id_, -1, 1), register(id_, 0), as_bool]
    assert client.refusals(*(("MODIFY", e) for e in wrong)) == [RANGE, RANGE, INVALID, INVALID, INVALID]
    assert client.refusals(("DELETE", register(id_, 0, 1))) == [INVALID]


def test_value_sets(client: Client, names: Names) -> None:
    id_ = names.ids["ipv6_types"]
    assert client.read(value_set(0)) == [value_set(id_)]
    client.modify(value_set(id_, 0x86DD, 0, 0xFFFF))
    assert client.read(value_set(id_)) == [value_set(id_, 0x86DD, 0, 0xFFFF)]
    client.modify(value_set(id_))
    assert client.read(value_set(id_)) == [value_set(id_)]
    wrong = [value_set(id_, 1, 2, 3, 4, 5), value_set(id_, 1, 1), value_set(id_, 0x10000), value_set(7)]
    assert client.refusals(*(("MODIFY", e) for e in wrong)) == [EXHAUSTED, EXISTS, RANGE, INVALID]
    assert client.refusals(("INSERT", value_set(id_, 1))) == [INVALID]


# -- types of registers and digests (not all of which p4c lets into v1model)


def leaves(*values: int) -> Iterator[int]:
    return iter(values)


def test_p4data_forms() -> None:
    from detour.engine.p4runtime.p4data import Leaf, Members

    cases = [
        (Leaf("bit", 12), 0x63, b"\x63"),
        (Leaf("int", 8), 0x9D, b"\x9d"),  # -99
        (Leaf("int", 12), 0xD1D, b"\xfd\x1d"),  # -739
        (Leaf("int", 16), 0, b"\x00"),
        (Leaf("int", 16), 0x80, b"\x00\x80"),
    ]
    for leaf, value, expected in cases:
        data = p4d.P4Data()
        leaf.encode(leaves(value), data)
        assert data.bitstring == expected
        assert leaf.decode(data, "x") == value
    data = p4d.P4Data()
    Members(
        "struct", (Leaf("bool", 1), Members("tuple", (Leaf("enum_value", 4), Leaf("enum", 32, ("a", "b")))))
    ).encode(leaves(1, 5, 1), data)
    assert data.struct.members[0].bool
    assert data.struct.members[1].tuple.members[0].enum_value == b"\x05"
    assert data.struct.members[1].tuple.members[1].enum == "b"


@pytest.mark.parametrize(
    ("bits", "data"),
    [(8, b"\x00\x9d"), (12, b"\x8d\x1d"), (16, b"")],  # the spec's examples of invalid strings
)
def test_signed_strings_out_of_range(bits: int, data: bytes) -> None:
    from detour.engine.p4runtime import Refused
    from detour.engine.p4runtime.bytestrings import decode_signed

    with pytest.raises(Refused):
        decode_signed(data, bits, "x")
