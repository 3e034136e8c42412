# SPDX-License-Identifier: Apache-2.0
"""The harness for single packets."""

from __future__ import annotations

from tests.packet_runner import PacketResult, PacketRunner

from .bitstring import join
from .conftest import program
from .test_copies import OP, SIZE, TAIL


def test_one_packet() -> None:
    runner = PacketRunner(program("copies"))
    packet = join(OP, {"op": 8}) + TAIL
    watched = ("op.op", "op.$valid$", "add.filler", "standard_metadata.egress_port")
    result = runner.run(packet, port=5, time=9, watch=watched)
    assert (result.egress_spec, result.error, result.parser_error) == (1, 0, 0)
    assert result.data is not None
    assert len(result.data) == len(packet) + 8
    assert result.data[SIZE:] == bytes(range(1, 9)) + TAIL
    assert result.fields == {
        "op.op": 8,
        "op.$valid$": 1,
        "add.filler": 0x0102030405060708,
        "standard_metadata.egress_port": 1,
    }


def test_what_the_program_asks_for() -> None:
    runner = PacketRunner(program("copies"))

    def run(op: int) -> PacketResult:
        return runner.run(join(OP, {"op": op}) + TAIL, port=5)

    assert run(1).clone == (5, next(f["id"] for f in runner.program.json["field_lists"] if f["name"] == "field_list1"))
    assert run(2).resubmit is not None
    assert run(11).recirculate is not None
    assert run(3).mcast_grp == 7
    digest = run(4).digest
    assert digest is not None
    assert digest[1] == b"\x04\xbe\xef\x00\x05"
    assert run(6).data is None
    assert run(5).data == join(OP, {"op": 5, "kept": 1})[:6]
    assert runner.run(b"").parser_error == runner.program.model.errors["PacketTooShort"]
