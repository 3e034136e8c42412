# SPDX-License-Identifier: Apache-2.0
"""Counters, meters and registers, as far as tests of the specification (test_conformance.py) do not say."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from finsy.proto import p4d

from tests.unit.p4runtime.harness import Client, Names, counter, meter, register

INVALID, UNIMPLEMENTED = 3, 12


def test_a_counter_shows_what_the_program_asked_for(client: Client, names: Names) -> None:
    id_ = names.ids["packet_counter"]
    client.modify(counter(id_, 0, 5, 500))
    assert client.read(counter(id_, 0)) == [counter(id_, 0, 5, 0)]


def test_wrong_values(client: Client, names: Names) -> None:
    rate = names.ids["rate"]
    by_colour = meter(rate, 0, 1, 1, 1, 1)
    by_colour.meter_entry.counter_data.SetInParent()
    wrong = [counter(names.ids["port_counter"], 0, -1), meter(rate, 0, 3, 1, 2, 1), meter(rate, 0, -1, 1, 2, 1)]
    wrong += [register(names.ids["octets"], 0), by_colour]
    assert client.refusals(*(("MODIFY", e) for e in wrong)) == [INVALID] * 4 + [UNIMPLEMENTED]


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
