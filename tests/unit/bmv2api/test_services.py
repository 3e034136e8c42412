# SPDX-License-Identifier: Apache-2.0
"""The calls over Thrift: tables, profiles, arrays, ports, programs, queues, and what is answered to nonsense."""

from __future__ import annotations

import hashlib
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from detour.base.addresses import TcpAddress, UnixAddress
from detour.base.errors import DetourError
from detour.engine.bmv2api.client import Connection, connect
from detour.engine.bmv2api.device import BmDevice
from detour.engine.bmv2api.runtime import BmRuntime
from detour.engine.bmv2api.server import ThriftServer
from detour.engine.bmv2api.types import (
    ActionEntry,
    ActionType,
    BmEntry,
    CounterValue,
    EntryOptions,
    ExactParam,
    InvalidCounterOperation,
    InvalidDevMgrOperation,
    InvalidIdLookup,
    InvalidLearnOperation,
    InvalidMcOperation,
    InvalidRegisterOperation,
    InvalidSwapOperation,
    InvalidTableOperation,
    MatchParam,
    MatchType,
    ResourceType,
    TernaryParam,
)
from detour.engine.bmv2api.wire import ServiceError
from detour.engine.network import Network

from .conftest import EVERYTHING, SWITCH, doing

EXACT_TWO = "MyIngress.exact_two"


def key(*values: bytes) -> list[MatchParam]:
    return [MatchParam(MatchType.EXACT, exact=ExactParam(value)) for value in values]


def add(connection: Connection, address: bytes, vlan: bytes, port: bytes) -> int:
    return connection.standard.bm_mt_add_entry(
        EXACT_TWO, key(address, vlan), "MyIngress.forward", [port], EntryOptions(0)
    )


def test_an_entry_comes_back_as_it_was_given(connection: Connection) -> None:
    assert add(connection, b"\0\0\0\0\0\1", b"\0\5", b"\0\3") == 0
    entry = BmEntry(
        key(b"\0\0\0\0\0\1", b"\0\5"),
        EntryOptions(-1),
        0,
        ActionEntry(ActionType.ACTION_DATA, "MyIngress.forward", [b"\3"]),
    )
    assert connection.standard.bm_mt_get_entries(EXACT_TWO) == [entry]
    assert connection.standard.bm_mt_get_entry(EXACT_TWO, 0) == entry
    assert (
        connection.standard.bm_mt_get_entry_from_key(EXACT_TWO, key(bytes(5) + b"\1", b"\0\5"), EntryOptions()) == entry
    )


def test_bits_beyond_a_field_are_cut_as_in_bmv2(connection: Connection) -> None:
    add(connection, b"\0\0\0\0\0\1", b"\xff\xff", b"\xff\xff")
    (entry,) = connection.standard.bm_mt_get_entries(EXACT_TWO)
    assert entry.match_key[1] == MatchParam(MatchType.EXACT, exact=ExactParam(b"\x0f\xff"))
    assert entry.action_entry.action_data == [b"\x01\xff"]


@pytest.mark.parametrize(
    ("table", "params", "action", "data", "code"),
    [
        ("nothing", key(b"\0" * 6, b"\0\1"), "MyIngress.forward", [b"\1"], "INVALID_TABLE_NAME"),
        ("MyIngress.balanced", [], "MyIngress.forward", [b"\1"], "WRONG_TABLE_TYPE"),
        (EXACT_TWO, key(b"\0" * 6, b"\0\1"), "forward", [b"\1"], "INVALID_ACTION_NAME"),
        (EXACT_TWO, key(b"\0" * 6, b"\0\1"), "MyIngress.forward", [], "BAD_ACTION_DATA"),
        (EXACT_TWO, key(b"\0" * 6), "MyIngress.forward", [b"\1"], "BAD_MATCH_KEY"),
        (EXACT_TWO, key(b"\0" * 5, b"\0\1"), "MyIngress.forward", [b"\1"], "BAD_MATCH_KEY"),
        (EXACT_TWO, [MatchParam(MatchType.TERNARY, ternary=TernaryParam(b"\0" * 6, b"\0" * 6))] * 2,
         "MyIngress.forward", [b"\1"], "BAD_MATCH_KEY"),
        ("MyIngress.fixed", [], "MyIngress.set_vlan", [b"\1"], "IMMUTABLE_TABLE_ENTRIES"),
        ("MyIngress.keyless", [], "MyIngress.forward", [b"\1"], "NO_TABLE_KEY"),
    ],
)  # fmt: skip
def test_bad_entries_have_bmv2s_codes(
    connection: Connection, table: str, params: list[MatchParam], action: str, data: list[bytes], code: str
) -> None:
    with pytest.raises(InvalidTableOperation) as refused:
        connection.standard.bm_mt_add_entry(table, params, action, data, EntryOptions(0))
    assert refused.value.name == code


def test_a_full_table(connection: Connection, device: BmDevice) -> None:
    device.state.tables[EXACT_TWO].size = 1
    add(connection, b"\0\0\0\0\0\1", b"\0\1", b"\1")
    with pytest.raises(InvalidTableOperation, match="TABLE_FULL"):
        add(connection, b"\0\0\0\0\0\2", b"\0\1", b"\1")
    with pytest.raises(InvalidTableOperation, match="DUPLICATE_ENTRY"):
        add(connection, b"\0\0\0\0\0\1", b"\0\1", b"\1")


def test_of_tables_that_do_not_exist_nothing_is_read(connection: Connection) -> None:
    assert connection.standard.bm_mt_get_entries("nothing") == []
    assert connection.standard.bm_mt_get_entry("nothing", 0) == BmEntry()
    assert connection.standard.bm_mt_get_default_entry("nothing") == ActionEntry(ActionType.NONE)
    assert connection.standard.bm_mt_act_prof_get_members("nothing") == []


def test_counters_and_registers_are_signed_on_the_wire(connection: Connection, device: BmDevice) -> None:
    device.state.counters["MyIngress.port_counter"].write(3, 1 << 63, 5)
    assert connection.standard.bm_counter_read("MyIngress.port_counter", 3) == CounterValue(5, -(1 << 63))
    connection.standard.bm_register_write("MyIngress.words", 2, -1)
    assert device.state.registers["MyIngress.words"].read(2) == (1 << 48) - 1
    connection.standard.bm_register_write_range("MyIngress.words", 4, 6, 9)
    assert connection.standard.bm_register_read_all("MyIngress.words")[3:7] == [0, 9, 9, 0]
    for index in (-1, 32):
        with pytest.raises(InvalidRegisterOperation, match="INVALID_INDEX"):
            connection.standard.bm_register_read("MyIngress.words", index)
    with pytest.raises(InvalidCounterOperation, match="INVALID_COUNTER_NAME"):
        connection.standard.bm_counter_read("nothing", 0)


def test_queues_get_what_they_are_set_to(connection: Connection, network: Network) -> None:
    assert connection.target.set_all_egress_queue_depths(7) == 0
    assert connection.target.set_egress_queue_rate(2, 1000) == 0
    assert connection.target.set_egress_priority_queue_rate(2, 1, 250) == 0
    settings = {port: [network.queue_settings((SWITCH, port), p) for p in (0, 1)] for port in (1, 2)}
    assert [s.packets for s in settings[1]] == [7, 7]
    assert [s.rate_pps for s in settings[1]] == [0, 0]
    assert [s.rate_pps for s in settings[2]] == [1000, 250]
    with pytest.raises(DetourError, match="priorities 0 to 1, not 2"):
        connection.target.set_egress_priority_queue_rate(2, 2, 250)
    with pytest.raises(DetourError, match="a rate cannot be negative"):
        connection.target.set_egress_queue_rate(2, -1)


def test_ports_that_come_later_get_their_queues(network: Network) -> None:
    from detour.engine.bmv2api.calls.part import EgressQueues, QueueSetting

    queues = EgressQueues(BmDevice(network, SWITCH))
    queues.set(QueueSetting(None, None, depth=5))
    queues.set(QueueSetting(9, None, rate=100))
    queues.set(QueueSetting(9, 1, rate=50))
    queues.set(QueueSetting(8, None, rate=200))
    network.attach_sink((SWITCH, 9), lambda frame, time_ps: None)
    queues.added(9)
    settings = [network.queue_settings((SWITCH, 9), priority) for priority in (0, 1)]
    assert [(s.packets, s.rate_pps) for s in settings] == [(5, 100), (5, 50)]
    queues.set(QueueSetting(None, None, rate=10))  # what was set for single queues is over
    network.attach_sink((SWITCH, 8), lambda frame, time_ps: None)
    queues.added(8)
    assert network.queue_settings((SWITCH, 8)).rate_pps == 10


def test_another_program_takes_over_when_it_is_told_to(connection: Connection, network: Network) -> None:
    other = (EVERYTHING.parent / "meters.json").read_text()
    before = network.state(SWITCH)
    with pytest.raises(InvalidSwapOperation, match="NO_ONGOING_SWAP"):
        connection.standard.bm_swap_configs()
    connection.standard.bm_load_new_config(other)
    assert connection.standard.bm_get_config() == other
    assert connection.standard.bm_get_config_md5() == hashlib.md5(other.encode()).digest()
    assert network.state(SWITCH) is before
    with pytest.raises(InvalidSwapOperation, match="ONGOING_SWAP"):
        connection.standard.bm_load_new_config(other)
    with pytest.raises(InvalidTableOperation, match="INVALID_TABLE_NAME"):
        add(connection, b"\0\0\0\0\0\1", b"\0\1", b"\1")  # calls act on the new program already
    connection.standard.bm_swap_configs()
    assert network.state(SWITCH) is not before
    assert network.state(SWITCH).program.model.tables.keys() != before.program.model.tables.keys()
    with pytest.raises(DetourError, match="not JSON"):
        connection.standard.bm_load_new_config("{")


def test_who_the_switch_is(connection: Connection) -> None:
    info = connection.standard.bm_mgmt_get_info()
    assert (info.device_id, info.thrift_port, info.notifications_socket) == (SWITCH, 9090, "")
    assert connection.standard.bm_get_config() == EVERYTHING.read_text()
    assert connection.standard.bm_get_id_from_name(ResourceType.MATCH_TABLE, EXACT_TWO) >= 0
    for kind, name, code in ((0, "nothing", "INVALID_RESOURCE_NAME"), (99, "x", "INVALID_RESOURCE_TYPE")):
        with pytest.raises(InvalidIdLookup, match=code):
            connection.standard.bm_get_id_from_name(kind, name)


def test_time_is_that_of_the_switch(connection: Connection, device: BmDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    device.epoch_us = 1_000_000
    monkeypatch.setattr(Network, "now_ps", property(lambda self: 2_500_000_000_000))
    assert connection.target.get_time_elapsed_us() == 2_500_000
    assert connection.target.get_time_since_epoch_us() == 3_500_000


def test_what_has_no_counterpart_is_refused_in_thrifts_way(connection: Connection) -> None:
    with pytest.raises(DetourError, match="serialize_state is not supported"):
        connection.standard.bm_serialize_state()
    with pytest.raises(InvalidLearnOperation, match="ERROR"):
        connection.standard.bm_learning_ack_buffer(1, 1)
    with pytest.raises(InvalidLearnOperation, match="INVALID_LIST_ID"):
        connection.standard.bm_learning_set_timeout(77, 1)
    for function in (
        lambda: connection.standard.bm_dev_mgr_remove_port(1),  # a sink
        lambda: connection.standard.bm_dev_mgr_add_port("eth99", 7, ""),  # virtual time has no interfaces
    ):
        with pytest.raises(InvalidDevMgrOperation):
            function()
    with pytest.raises(InvalidMcOperation, match="ERROR"):
        connection.multicast.bm_mc_node_create(1, "012", "")


# -- the server


def _call(name: bytes, arguments: bytes = b"\0") -> bytes:
    return struct.pack("!Ii", 0x80010001, len(name)) + name + struct.pack("!i", 1) + arguments


@pytest.fixture
def port(api: BmRuntime) -> Iterator[int]:
    with ThriftServer(TcpAddress("127.0.0.1", 0)) as server:
        server.serve({"": api})
        yield server.port


@pytest.mark.parametrize("name", [b"standard:nothing", b"simple_pre:bm_mc_mgrp_create", b"bm_mgmt_get_info"])
def test_unknown_functions_are_answered_and_the_connection_lives(port: int, name: bytes) -> None:
    with socket.create_connection(("127.0.0.1", port), 10) as sock:
        for _ in range(2):
            sock.sendall(_call(name, struct.pack("!bhi", 8, 1, 0) + b"\0"))
            kind, length = struct.unpack("!Ii", sock.recv(8, socket.MSG_WAITALL))
            assert kind == 0x80010003
            rest = sock.recv(length + 4 + 7, socket.MSG_WAITALL)
            (text,) = struct.unpack("!i", rest[-4:])
            assert b"there is no function" in sock.recv(text, socket.MSG_WAITALL)
            assert sock.recv(8, socket.MSG_WAITALL)[-5:] == struct.pack("!i", 1) + b"\0"  # UNKNOWN_METHOD


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\xff" * 64,
        bytes(64),
        _call(b"standard:bm_mt_get_entries", b"\x0b\0\2\x7f\xff\xff\xff"),
        _call(b"standard:bm_mt_add_entry", b"\x0f\0\3\x0c\x7f\xff\xff\xff"),
        _call(b"standard:bm_mt_add_entry", b"\x0f\0\3\x0f\0\0\0\1" * 400),
        _call(b"standard:bm_mt_get_entries", b"\x0b\0\2\0\0\0\2\xff\xfe\0"),
    ],
)
def test_garbage_ends_its_connection_and_no_other(port: int, connection: Connection, garbage: bytes) -> None:
    with socket.create_connection(("127.0.0.1", port), 10) as sock:
        sock.sendall(garbage)
        sock.shutdown(socket.SHUT_WR)
        while sock.recv(4096):
            pass
    with connect(TcpAddress("127.0.0.1", port)) as other:
        assert other.standard.bm_mgmt_get_info().device_id == SWITCH


def test_arguments_of_another_type_are_left_out(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), 10) as sock:
        sock.sendall(_call(b"standard:bm_mt_get_num_entries", struct.pack("!bhi", 8, 2, 5) + b"\0"))  # a number as name
        kind, _ = struct.unpack("!Ii", sock.recv(8, socket.MSG_WAITALL))
        assert kind == 0x80010002  # a reply: INVALID_TABLE_NAME


def test_only_loopback_is_served(api: BmRuntime) -> None:
    with pytest.raises(DetourError, match=r"0\.0\.0\.0:9090 is not a loopback address"):
        ThriftServer(TcpAddress("0.0.0.0", 9090))


def test_several_switches_at_one_socket(tmp_path: Path, api: BmRuntime, network: Network) -> None:
    address = UnixAddress(tmp_path / "bmv2.sock")
    with ThriftServer(address) as server:
        server.serve({"s1": api, "s2": BmRuntime(BmDevice(network, SWITCH, device_id=77))})
        for name, number in (("s1", SWITCH), ("s2", 77)):
            with connect(address, name) as connection:
                assert connection.standard.bm_mgmt_get_info().device_id == number
        with connect(address, "s3") as nobody, pytest.raises(DetourError, match="there is no function s3/standard"):
            nobody.standard.bm_mgmt_get_info()
    assert not address.path.exists()


def test_connections_end_with_the_server(api: BmRuntime) -> None:
    server = ThriftServer(TcpAddress("localhost", 0))
    server.serve({"": api})
    connection = connect(TcpAddress("localhost", server.port))
    assert doing(connection)("table_num_entries exact_two") == ["0"]
    server.stop()
    server.stop()
    with pytest.raises(DetourError, match="the connection is lost"):
        connection.standard.bm_mgmt_get_info()
    with pytest.raises(DetourError, match="no answer: Connection refused"):
        connect(TcpAddress("127.0.0.1", server.port))
    connection.close()


def test_an_error_of_a_service_says_its_code() -> None:
    assert str(InvalidTableOperation(17)) == "InvalidTableOperation: DUPLICATE_ENTRY"
    assert InvalidTableOperation(1234).name == "1234"
    assert isinstance(InvalidTableOperation(17), ServiceError)
