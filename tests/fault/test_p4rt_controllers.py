# SPDX-License-Identifier: Apache-2.0
"""Controllers that contend, die in the middle of a batch, send far too much, or do not listen."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator

import grpc
import pytest
from finsy.proto import p4r, p4r_grpc

from detour.engine.p4runtime import P4RuntimeServer
from tests.unit.p4runtime.harness import Client, FakeNetwork, Names, Stream, codes
from tests.unit.p4runtime.test_p4rt_limits import routes
from tests.waiting import PATIENCE_S, until


class Gate:
    """Holds up the network's thread in the middle of a batch."""

    def __init__(self, network: FakeNetwork, at_call: int) -> None:
        self.reached, self.open = threading.Event(), threading.Event()
        self._left = at_call
        self._network = network
        network.before_call = self._before

    def _before(self) -> None:
        self._left -= 1
        if self._left == 0:
            self._network.before_call = None
            self.reached.set()
            assert self.open.wait(PATIENCE_S)


def test_a_primary_dies_in_the_middle_of_a_batch(
    connect: Callable[..., Client], network: FakeNetwork, names: Names
) -> None:
    """Its batch is finished as a whole, and only then has the next primary its turn."""
    dying, heir = connect(election=1), connect(election=2)
    last_stream = dying.ready()
    entries = routes(names, 2000)
    gate = Gate(network, at_call=3)
    call = dying.stub.Write.future(dying.write_request(*(("INSERT", e) for e in entries)))
    assert gate.reached.wait(PATIENCE_S)
    state = network.pipelines[1][1].tables["MyIngress.lpm_route"]
    assert 0 < len(state) < len(entries)

    stream = heir.stream()
    stream.arbitrate(1, 2)
    assert last_stream.next().arbitration.status.code == 6  # from now on it may not write
    call.cancel()
    last_stream.kill()
    dying.close()
    assert stream.silent()  # the heir waits for the batch
    gate.open.set()
    assert stream.next().arbitration.status.code == 0
    assert heir.read(names.entry("lpm_route")) == entries


def test_reads_go_on_beside_a_large_batch(connect: Callable[..., Client], network: FakeNetwork, names: Names) -> None:
    """They show the state before it, whatever a part of it has changed, and all of it when it is done."""
    client = connect()
    client.ready()
    before, after = routes(names, 1000, port=1), routes(names, 2000, port=2)
    other = names.entry("exact_two", 1, 1, action=("drop",))
    client.insert(*before, other)
    gate = Gate(network, at_call=4)
    updates = [("MODIFY" if i < len(before) else "INSERT", entity) for i, entity in enumerate(after)]
    call = client.stub.Write.future(client.write_request(*updates))
    assert gate.reached.wait(PATIENCE_S)
    assert len(network.pipelines[1][1].tables["MyIngress.lpm_route"]) == len(before)
    assert client.read(after[0]) == before[:1]  # it has been modified
    assert client.read(names.entry("lpm_route")) == before
    assert client.read(names.entry("exact_two")) == [other]
    assert not call.done()
    gate.open.set()
    call.result(PATIENCE_S)
    assert client.read(names.entry("lpm_route")) == after


def test_writes_that_wait_behind_a_change_of_primary_are_refused(
    server: P4RuntimeServer, connect: Callable[..., Client], network: FakeNetwork, names: Names
) -> None:
    old, new = connect(election=1), connect(election=2)
    old.ready()
    gate = Gate(network, at_call=1)
    first = old.stub.Write.future(old.write_request(*(("INSERT", e) for e in routes(names, 10))))
    assert gate.reached.wait(PATIENCE_S)
    second = old.stub.Write.future(old.write_request(("INSERT", names.entry("exact_two", 1, 1, action=("drop",)))))
    device = server._service.devices[1]
    until(lambda: len(device._tasks) == 2, "the second one is not at the device")
    stream = new.stream()
    stream.arbitrate(1, 2)
    until(lambda: device.arbiter.roles[""].pending)
    assert not second.done()
    gate.open.set()
    assert stream.next().arbitration.status.code == 0
    first.result(PATIENCE_S)
    with pytest.raises(grpc.RpcError) as caught:
        second.result(PATIENCE_S)
    assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED
    assert new.read(names.entry("exact_two")) == []


class Contender(threading.Thread):
    """Becomes primary again and again, and overwrites all entries in one batch when it is."""

    def __init__(self, client: Client, number: int, names: Names, ids: Iterator[int], lock: threading.Lock) -> None:
        super().__init__()
        self._client, self._number, self._names = client, number, names
        self._ids, self._lock = ids, lock
        self._rng = random.Random(number)
        self.accepted = 0
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            for _ in range(12):
                self._round()
        except BaseException as e:
            self.error = e

    def _round(self) -> None:
        stream = self._client.stream()
        with self._lock:
            election = next(self._ids)
        stream.arbitrate(1, election)
        stream.next()
        self._client.election = election
        for _ in range(3):
            port = self._rng.randrange(1, 500)
            try:
                self._client.modify(*routes(self._names, 50, port))
                self.accepted += 1
            except grpc.RpcError as e:
                if e.code() is not grpc.StatusCode.PERMISSION_DENIED:
                    raise
                break
        (stream.kill if self._rng.random() < 0.5 else stream.close)()


def test_contending_controllers(connect: Callable[..., Client], names: Names) -> None:
    """Batches never mix: at any time all entries are of one batch, and the highest id wins in the end."""
    first = connect(election=1)
    first.ready()
    first.insert(*routes(names, 50))
    ids, lock = iter(range(2, 10_000)), threading.Lock()
    contenders = [Contender(connect(), n, names, ids, lock) for n in range(4)]
    for c in contenders:
        c.start()
    while any(c.is_alive() for c in contenders):
        entries = first.read(names.entry("lpm_route"))
        assert len({e.table_entry.action.action.params[0].value for e in entries}) == 1
    for c in contenders:
        c.join()
        assert c.error is None
    assert sum(c.accepted for c in contenders) > 0
    last = connect(election=10_000)
    last.primary()
    last.modify(*routes(names, 50, 7))


@pytest.mark.parametrize("count", [10_000, pytest.param(100_000, marks=pytest.mark.long)])
def test_a_large_batch(connect: Callable[..., Client], network: FakeNetwork, names: Names, count: int) -> None:
    """It is written in slices, so that packets are never held up for long; everything is there afterwards."""
    client = connect()
    client.ready()
    entries = routes(names, count)
    calls = network.calls
    client.insert(*entries)
    assert network.calls - calls > count // 1000
    assert client.read(names.entry("lpm_route")) == entries
    # All of them once more: errors, with exactly one success among them.
    request = client.write_request(*(("INSERT", e) for e in entries[:-1]), ("DELETE", entries[-1]))
    with pytest.raises(grpc.RpcError) as caught:
        client.stub.Write(request)
    assert codes(caught.value) == [6] * (count - 1) + [0]
    client.delete(*entries[:-1])
    assert client.read(names.entry("lpm_route")) == []


def test_errors_that_a_client_cannot_take(
    server: P4RuntimeServer, connect: Callable[..., Client], names: Names
) -> None:
    """With gRPC's default limit of metadata a client gets RESOURCE_EXHAUSTED, and the server lives."""
    client = connect()
    client.ready()
    plain = grpc.insecure_channel(server.target)
    with pytest.raises(grpc.RpcError) as caught:
        p4r_grpc.P4RuntimeStub(plain).Write(client.write_request(*(("DELETE", e) for e in routes(names, 2000))))
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    plain.close()
    client.insert(*routes(names, 1))


def test_a_reader_that_takes_its_time_holds_up_nobody(connect: Callable[..., Client], names: Names) -> None:
    client, slow = connect(election=1), connect(election=2)
    client.ready()
    blob = bytes(1 << 16)
    entries = [names.entry("exact_two", i, 1, action=("drop",), metadata=blob) for i in range(200)]
    client.insert(*entries)
    call = slow.stub.Read(p4r.ReadRequest(device_id=1, entities=[names.entry("exact_two")]))
    first = next(iter(call))
    client.insert(*routes(names, 10))
    rest = [e for response in call for e in response.entities]
    assert [*first.entities, *rest] == entries
    abandoned = slow.stub.Read(p4r.ReadRequest(device_id=1, entities=[names.entry("exact_two")]))
    abandoned.cancel()
    client.delete(*entries)


def test_streams_that_vanish_are_forgotten(server: P4RuntimeServer, connect: Callable[..., Client]) -> None:
    rng = random.Random(5)
    client = connect()
    for round_ in range(10):
        streams: list[Stream] = []
        for n in range(20):
            streams.append(client.stream())
            streams[-1].arbitrate(1, round_ * 100 + n, rng.choice(["", "a", "b"]))
        for stream in rng.sample(streams, 20):
            if rng.random() < 0.3:
                stream.arbitrate(1, rng.randrange(1000), "a")
            stream.kill()
    arbiter = server._service.devices[1].arbiter
    until(lambda: not any(role.sessions for role in arbiter.roles.values()))
    until(lambda: not server._service._sessions)
    assert not any(role.primary or role.pending for role in arbiter.roles.values())
    client.election = 5000
    client.primary()
