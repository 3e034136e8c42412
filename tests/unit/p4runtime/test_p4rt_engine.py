# SPDX-License-Identifier: Apache-2.0
"""The server on the real engine: what is written is what packets meet."""

from __future__ import annotations

import queue
import struct
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from finsy.proto import p4r

from detour.engine.network import Network
from detour.engine.p4runtime import P4RuntimeServer
from tests.unit.p4runtime.harness import (
    WAIT_S,
    Client,
    Names,
    Stream,
    config,
    counter,
    register,
    value_set,
)
from tests.waiting import until

SOURCE, TARGET = 0x020000000001, 0x020000000002


class Switch:
    """One switch with sinks at ports 1 to 3, a primary and its stream."""

    def __init__(self, network: Network, client: Client, stream: Stream) -> None:
        self.network, self.client, self.stream = network, client, stream
        self.frames: dict[int, queue.Queue[bytes]] = {port: queue.Queue() for port in (1, 2, 3)}
        for port, received in self.frames.items():
            network.attach_sink((1, port), lambda frame, _, received=received: received.put(frame))

    def send(self, frame: bytes, port: int = 1) -> None:
        self.network.inject((1, port), frame)

    def taken_in(self, port: int) -> int:
        """Frames that have come in by a port."""
        stats = self.network.port_stats()
        return int(stats["rx_packets"][stats["port"] == port].sum())

    def receive(self, port: int) -> bytes:
        return self.frames[port].get(timeout=WAIT_S)


@contextmanager
def running(program: str = "everything", config: p4r.ForwardingPipelineConfig | None = None) -> Iterator[Switch]:
    """With a program of ours, or with a pipeline."""
    with Network(packets=1024) as network:
        network.add_switch(1)
        network.start()
        with P4RuntimeServer(network) as server:
            server.add_device(1)
            client = Client(server.target)
            stream = client.ready(program) if config is None else client.primary()
            if config is not None:
                client.set_pipeline(config)
            yield Switch(network, client, stream)
            client.close()


@pytest.fixture
def switch() -> Iterator[Switch]:
    with running() as switch:
        yield switch


def ethernet(target: int = TARGET, source: int = SOURCE, ether_type: int = 0x0800, payload: bytes = bytes(46)) -> bytes:
    return target.to_bytes(6, "big") + source.to_bytes(6, "big") + struct.pack("!H", ether_type) + payload


def ipv6(destination: int, payload: bytes = bytes(26)) -> bytes:
    header = struct.pack("!IHBB", 6 << 28, len(payload), 59, 64) + (1).to_bytes(16, "big")
    return ethernet(ether_type=0x86DD, payload=header + destination.to_bytes(16, "big") + payload)


def test_packet_out(switch: Switch) -> None:
    packet = p4r.PacketOut(payload=ethernet())
    packet.metadata.add(metadata_id=1, value=b"\3")
    packet.metadata.add(metadata_id=2, value=b"\0")
    for _ in range(10):
        switch.stream.send(packet=packet)
    assert [switch.receive(3) for _ in range(10)] == [ethernet()] * 10
    packet.payload = bytes(1 << 20)
    switch.stream.send(packet=packet)
    assert switch.stream.next().error.canonical_code == 3


def test_registers_counters_and_value_sets(switch: Switch, names: Names) -> None:
    word, count = register(names.ids["words"], 1), counter(names.ids["port_counter"], 2)
    switch.client.insert(names.entry("lpm_route", None, action=("forward", 1)))
    switch.send(ethernet(0x0A0B0C0D0E0F, ether_type=0x1234), port=2)
    until(lambda: switch.client.read(count)[0].counter_entry.data.packet_count)
    switch.client.modify(value_set(names.ids["ipv6_types"], 0x1234))
    frame = ipv6(77)
    frame = frame[:12] + b"\x12\x34" + frame[14:]
    switch.send(frame, port=2)
    assert switch.receive(1) == frame
    (got,) = switch.client.read(count)
    assert got.counter_entry.data.packet_count == 2
    (got,) = switch.client.read(word)
    assert got.register_entry.data.bitstring == TARGET.to_bytes(6, "big").lstrip(b"\0")


def test_one_shot_and_watch_port(switch: Switch, names: Names) -> None:
    entity = names.entry("balanced", None)
    for port in (2, 3):
        entity.table_entry.action.action_profile_action_set.action_profile_actions.add(
            action=names.action("forward", port), weight=1, watch_port=bytes([port])
        )
    switch.client.insert(entity, names.entry("lpm_route", None, action=("forward", 1)))
    switch.network.set_link((1, 2), False)
    switch.send(ipv6(77))
    assert switch.receive(3) == ipv6(77)
    switch.network.set_link((1, 2), True)
    switch.network.set_link((1, 3), False)
    switch.send(ipv6(77))
    assert switch.receive(2) == ipv6(77)


def test_a_pipeline_is_changed_under_traffic(switch: Switch, names: Names) -> None:
    entry = names.entry("exact_two", TARGET, 1, action=("forward", 2))
    for _ in range(5):
        switch.client.insert(entry, names.entry("preset", 1, action=("set_vlan", 1)))
        for _ in range(50):
            switch.send(ethernet(ether_type=0x0801))
        switch.receive(2)
        switch.client.set_pipeline(config())
    switch.client.set_pipeline(config(), "VERIFY_AND_SAVE")
    switch.client.insert(entry, names.entry("preset", 1, action=("set_vlan", 1)))
    switch.client.set_pipeline(None, "COMMIT")
    while not switch.frames[2].empty():
        switch.frames[2].get()
    switch.send(ethernet(ether_type=0x0801))
    assert switch.receive(2) == ethernet(ether_type=0x0801)
