# SPDX-License-Identifier: Apache-2.0
"""Packet I/O, digests, idle time-outs, stream errors."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable

import pytest
from finsy.proto import U128, p4r, stratum

from detour.engine.compiler.slots import TOUCHED
from detour.engine.p4runtime import P4RuntimeServer
from detour.engine.p4runtime.device import P4Device
from tests.unit.p4runtime.harness import WAIT_S, Client, FakeNetwork, Names, Stream, config, digest
from tests.waiting import until

FRAME = bytes(range(60))


@pytest.fixture
def stream(connect: Callable[..., Client]) -> Stream:
    """The stream of a primary that has set the pipeline."""
    client = connect()
    stream = client.ready()
    return stream


def packet_out(port: int, pad: int = 0, payload: bytes = FRAME) -> p4r.PacketOut:
    packet = p4r.PacketOut(payload=payload)
    packet.metadata.add(metadata_id=1, value=port.to_bytes(2, "big"))
    packet.metadata.add(metadata_id=2, value=bytes([pad]))
    return packet


def failed(stream: Stream) -> tuple[int, str]:
    """(code, kind of message) of the next stream error."""
    error = stream.next().error
    return error.canonical_code, error.WhichOneof("details") or ""


# -- packets


def test_packet_out_has_its_header_in_front(stream: Stream, network: FakeNetwork) -> None:
    stream.send(packet=packet_out(0x1FE, 0x55))
    assert network.packets_out.get(timeout=WAIT_S) == (1, (0x1FE << 7 | 0x55).to_bytes(2, "big") + FRAME)
    swapped = packet_out(1)
    swapped.metadata.insert(0, swapped.metadata.pop(1))
    stream.send(packet=swapped)
    assert network.packets_out.get(timeout=WAIT_S)[1] == b"\x00\x80" + FRAME


def test_an_error_has_the_metadata_and_never_the_payload(stream: Stream, network: FakeNetwork) -> None:
    packet = packet_out(1)
    packet.metadata.pop()
    stream.send(packet=packet)
    assert stream.next().error.packet_out.packet_out == p4r.PacketOut(metadata=packet.metadata)
    assert network.packets_out.empty()


def test_packet_in(stream: Stream, network: FakeNetwork) -> None:
    header = (7 << 39 | 1 << 38 | 0b101010 << 32 | 0xDEADBEEF).to_bytes(6, "big")
    network.packet_in[1](header + FRAME, 0)
    packet = stream.next().packet
    assert packet.payload == FRAME
    assert [(m.metadata_id, m.value) for m in packet.metadata] == [
        (1, b"\x07"), (2, b"\x01"), (3, b"\x2a"), (4, b"\xde\xad\xbe\xef"),
    ]  # fmt: skip
    network.packet_in[1](b"short", 0)
    network.packet_in[1](header, 0)
    assert stream.next().packet.payload == b""


def test_packets_before_a_pipeline(connect: Callable[..., Client], network: FakeNetwork) -> None:
    primary = connect().primary()
    primary.send(packet=packet_out(1))
    assert failed(primary) == (9, "packet_out")
    network.packet_in[1](FRAME, 0)
    assert primary.silent()


def test_an_empty_message(stream: Stream) -> None:
    stream.send()
    assert failed(stream) == (3, "other")


def test_roles_filter_packet_ins(connect: Callable[..., Client], network: FakeNetwork) -> None:
    client = connect()
    everything = client.ready()
    only_seven = stratum.P4RoleConfig(receives_packet_ins=True)
    only_seven.packet_in_filter.metadata_id = 1
    only_seven.packet_in_filter.value = b"\x07"
    seven, none = client.stream(), client.stream()
    seven.arbitrate(1, 1, "seven", only_seven)
    none.arbitrate(1, 1, "none", stratum.P4RoleConfig())
    for each in (seven, none):
        assert each.next().arbitration.status.code == 0
    for port in (6, 7):
        network.packet_in[1]((port << 39).to_bytes(6, "big") + FRAME, 0)
    assert [everything.next().packet.metadata[0].value for _ in range(2)] == [b"\x06", b"\x07"]
    assert seven.next().packet.metadata[0].value == b"\x07"
    assert seven.silent()
    assert none.silent()


def test_a_client_that_does_not_read_loses_packets_and_nothing_else(
    stream: Stream, connect: Callable[..., Client], network: FakeNetwork, names: Names
) -> None:
    for _ in range(300):
        for _ in range(100):
            network.packet_in[1](bytes(6) + bytes(1400), 0)
    client = connect()
    client.insert(names.entry("lpm_route", None, action=("to_cpu", 1)))
    seen = 0
    while (packet := stream.next().packet).payload != b"last":
        seen += bool(packet.payload)
        # Whatever is sent while none is read may be lost; at last one has room and comes behind all others.
        network.packet_in[1](bytes(6) + b"last", 0)
    assert 1000 < seen <= 30_000


# -- digests


LONG_MS = 10**6
"""for what must not run out, however slow the machine is"""


@pytest.fixture
def learner(connect: Callable[..., Client], names: Names):
    """(stream, function that configures learn_t)."""
    client = connect()
    stream = client.ready()

    def configure(kind: str, size: int = 0, timeout_ms: int = 0, ack_ms: int = 0) -> None:
        client.write((kind, digest(names.ids["learn_t"], size, timeout_ms * 10**6, ack_ms * 10**6)))

    return stream, configure


def learn(network: FakeNetwork, *addresses: int, port: int = 5) -> None:
    for address in addresses:
        network.digest[1](1, address.to_bytes(6, "big") + port.to_bytes(2, "big"), 0)


def received(stream: Stream) -> tuple[int, list[tuple[bytes, ...]]]:
    digest = stream.next().digest
    return digest.list_id, [tuple(m.bitstring for m in d.struct.members) for d in digest.data]


def test_digests_one_by_one(learner, network: FakeNetwork, names: Names) -> None:
    stream, configure = learner
    configure("INSERT", size=1)
    learn(network, 1, 1)  # without ack time-out nothing is remembered
    assert [received(stream)[1] for _ in range(2)] == [[(b"\1", b"\5")]] * 2
    stream.send(digest_ack=p4r.DigestListAck(digest_id=names.ids["learn_t"], list_id=1))  # as of one that has expired
    configure("MODIFY", size=3, timeout_ms=LONG_MS)
    learn(network, 7, 8, 9)
    assert len(received(stream)[1]) == 3


def test_times_of_digests_are_not_negative(client: Client, names: Names) -> None:
    assert client.refusals(("INSERT", digest(names.ids["learn_t"], 7, ack_ns=-1))) == [3]


def test_half_closing_ends_a_stream_of_which_much_is_unread(
    server: P4RuntimeServer, connect: Callable[..., Client], network: FakeNetwork
) -> None:
    client = connect()
    requests: queue.Queue[p4r.StreamMessageRequest | None] = queue.Queue()
    call = client.stub.StreamChannel(iter(requests.get, None))
    requests.put(
        p4r.StreamMessageRequest(arbitration=p4r.MasterArbitrationUpdate(device_id=1, election_id=U128.encode(1)))
    )
    next(call)
    client.set_pipeline(config())
    # More than flow control and the stream's budget take, so that a write waits for ever.
    for _ in range(5000):
        network.packet_in[1](bytes(10_000), 0)
    requests.put(None)
    until(lambda: not server._service._sessions)
    del call


# -- idle time-outs


def ageing(names: Names, key: int, timeout_ns: int) -> p4r.Entity:
    return names.entry("ageing", key, action=("NoAction",), idle_timeout_ns=timeout_ns, metadata=b"who")


@pytest.fixture
def scanned(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Waits until a device has looked for idle entries twice more: once at least from beginning to end."""
    scans, scan = [], P4Device.scan_idle

    async def counted(device: P4Device) -> None:
        await scan(device)
        scans.append(device)

    def wait() -> None:
        enough = len(scans) + 2
        until(lambda: len(scans) >= enough)

    monkeypatch.setattr(P4Device, "scan_idle", counted)
    return wait


def test_idle_notifications(
    connect: Callable[..., Client], names: Names, network: FakeNetwork, scanned: Callable[[], None]
) -> None:
    client = connect()
    stream = client.ready()
    network.now_ps = 10**12
    client.insert(ageing(names, 1, 2 * 10**9), ageing(names, 2, 5 * 10**9), ageing(names, 3, 0))
    scanned()
    assert stream.silent()
    begun = time.time_ns()
    network.now_ps = 4 * 10**12
    message = stream.next().idle_timeout_notification
    (entry,) = message.table_entry
    expected = ageing(names, 1, 2 * 10**9).table_entry
    expected.ClearField("action")
    assert entry == expected
    assert begun <= message.timestamp <= time.time_ns()
    scanned()
    assert stream.silent()  # the time until the next one begins anew
    (got,) = client.read(names.entry("ageing", 1, time_since_last_hit=p4r.TableEntry.IdleTimeout()))
    assert got.table_entry.time_since_last_hit.elapsed_ns == 3 * 10**9  # but no packet has hit it
    network.now_ps = 65 * 10**11
    assert len(stream.next().idle_timeout_notification.table_entry) == 2
    client.delete(ageing(names, 1, 0))
    client.modify(ageing(names, 2, 0), ageing(names, 3, 10**18))  # scans go on for this one
    network.now_ps = 10**14
    scanned()
    assert stream.silent()


def test_time_since_last_hit(client: Client, names: Names, network: FakeNetwork) -> None:
    network.now_ps = 10**12
    client.insert(ageing(names, 1, 0))
    network.now_ps = 3 * 10**12
    query = names.entry("ageing", time_since_last_hit=p4r.TableEntry.IdleTimeout())
    (got,) = client.read(query)
    assert got.table_entry.time_since_last_hit.elapsed_ns == 2 * 10**9
    assert not client.read(names.entry("ageing"))[0].table_entry.HasField("time_since_last_hit")
    rows = network.pipelines[1][1].tables["MyIngress.ageing"]._rows
    rows.flat[rows.stride + TOUCHED] = 2_500_000  # a packet hits the entry at 2.5 s, in ticks of 1 us
    (got,) = client.read(query)
    assert got.table_entry.time_since_last_hit.elapsed_ns == 5 * 10**8
    client.modify(ageing(names, 1, 10**12))  # which is not a hit
    (got,) = client.read(query)
    assert got.table_entry.time_since_last_hit.elapsed_ns == 5 * 10**8
