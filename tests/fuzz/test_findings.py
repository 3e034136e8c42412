# SPDX-License-Identifier: Apache-2.0
"""What fuzzing found, as small as it gets. For mutants of programs see engine_compiler/test_refusals.py."""

from __future__ import annotations

import logging

import grpc
import pytest

from detour.engine.compiler.program import Program
from detour.engine.p4runtime import P4RuntimeServer
from detour.engine.tables import TableError
from tests.fuzz.table_program import Key, Layout, document
from tests.packet_runner import PacketRunner
from tests.unit.p4runtime.harness import FakeNetwork


def _runner(*keys: Key) -> PacketRunner:
    return PacketRunner(Program.from_json(document(Layout(keys, "", 64, False, 8, 1))))


@pytest.mark.parametrize(("kind", "element"), [("lpm", (3, 8)), ("ternary", (3, 255)), ("range", (3, 3))])
def test_packets_after_a_table_was_cleared(kind: str, element: tuple[int, int]) -> None:
    """Lookups went on to search as many groups as there had been, at address 0."""
    runner = _runner(Key("k", 8, kind))
    table = runner.state.tables["t"]
    table.insert((element,), "mark", (5,), 1)
    table.clear()
    runner.run(bytes(16), watch=("m.result",))
    table.insert((element,), "mark", (6,), 1)
    assert runner.run(b"\3" + bytes(15), watch=("m.result",)).fields == {"m.result": 7}


@pytest.mark.parametrize("element", [(), (1,), (1, 2, 3), "xyz", 5, None])
@pytest.mark.parametrize("kind", ["lpm", "range"])
def test_elements_that_are_no_pairs(kind: str, element: object) -> None:
    """Some of these were a ValueError."""
    with pytest.raises(TableError):
        _runner(Key("k", 8, kind)).state.tables["t"].insert((element,), "nothing", (), 1)


def test_bytes_in_a_stream_that_are_no_message(caplog: pytest.LogCaptureFixture) -> None:
    """Were INTERNAL, with a traceback in the log, as if it were the server's fault."""
    caplog.set_level(logging.ERROR)
    with P4RuntimeServer(FakeNetwork()) as server, grpc.insecure_channel(server.target) as channel:
        call = channel.stream_stream("/p4.v1.P4Runtime/StreamChannel")(iter([b"\xff\xff"]), timeout=60)
        with pytest.raises(grpc.RpcError) as caught:
            list(call)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert not caplog.records
