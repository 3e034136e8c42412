# SPDX-License-Identifier: Apache-2.0
"""What clients and packets can make the server hold is bounded in bytes, and Reads hold up nobody."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest
from finsy.proto import U128, p4r, p4r_grpc, stratum

from detour.engine.p4runtime import P4RuntimeServer
from detour.engine.p4runtime.errors import Code, Outcomes, Refused, invalid, refusal
from detour.engine.p4runtime.limits import Budget, Lane, Limits
from detour.engine.p4runtime.requests import Parts, split
from tests.ptf.p4rt import clone_session, meter_config
from tests.unit.p4runtime.harness import (
    WAIT_S,
    Client,
    FakeNetwork,
    Names,
    config,
    digest,
    group,
    member,
    multicast,
    refusals,
    refused,
    value_set,
)
from tests.unit.p4runtime.test_p4rt_pipeline import ALL
from tests.waiting import until

ROUTES = 3000


class Rig:
    """A server with small budgets, a primary that has set the pipeline, and what the server holds."""

    def __init__(self, network: FakeNetwork, server: P4RuntimeServer) -> None:
        self.network, self.server = network, server
        self.client = Client(server.target)
        self.stream = self.client.primary()
        self.client.set_pipeline(config())

    @property
    def budgets(self) -> Any:
        return self.server._service.budgets

    @property
    def arbiter(self) -> Any:
        return self.server._service.devices[1].arbiter

    @property
    def primary(self) -> Any:
        return self.arbiter.roles[""].primary


@pytest.fixture
def make(network: FakeNetwork) -> Iterator[Callable[..., Rig]]:
    made: list[Rig] = []

    def start(**limits: Any) -> Rig:
        server = P4RuntimeServer(network, limits=Limits(**limits))
        server.add_device(1)
        server.start()
        made.append(Rig(network, server))
        return made[-1]

    yield start
    for rig in made:
        rig.client.close()
        rig.server.stop()


def routes(names: Names, count: int, port: int = 1) -> list[p4r.Entity]:
    return [names.entry("lpm_route", ((0xFD << 120) | i << 64, 64), action=("route", port, i)) for i in range(count)]


def never_read(client: Client) -> tuple[Any, Callable[[p4r.StreamMessageRequest], None]]:
    """(call, function that sends) of a stream whose answers nobody reads."""
    requests: queue.Queue[p4r.StreamMessageRequest | None] = queue.Queue()
    call = client.stub.StreamChannel(iter(requests.get, None))
    return call, requests.put


def hold(rig: Rig) -> tuple[threading.Event, threading.Event]:
    """The next call of the network stops: (it has begun, it may go on)."""
    begun, release = threading.Event(), threading.Event()

    def wait() -> None:
        rig.network.before_call = None
        begun.set()
        assert release.wait(WAIT_S)

    rig.network.before_call = wait
    return begun, release


# -- Reads


def test_a_long_read_holds_up_no_write(make: Callable[..., Rig], names: Names) -> None:
    """It is under way, unread, and others write; what it shows is the state in which it began."""
    rig = make()
    before = routes(names, ROUTES)
    rig.client.insert(*before)
    entities = [names.entry("lpm_route")] * 20
    call = rig.client.stub.Read(p4r.ReadRequest(device_id=1, entities=entities))
    first = next(iter(call))
    rig.client.delete(*before[: ROUTES // 2])
    rig.client.modify(*routes(names, ROUTES, 2)[ROUTES // 2 :])
    rig.client.insert(names.entry("lpm_route", (0xFC << 120, 8), action=("route", 1, 1)))
    rest = [entity for response in call for entity in response.entities]
    assert [*first.entities, *rest] == before * 20
    ports = [e.table_entry.action.action.params[0].value for e in rig.client.read(names.entry("lpm_route"))]
    assert (ports.count(b"\1"), ports.count(b"\2")) == (1, ROUTES // 2)
    until(lambda: not rig.budgets.reads.held)


def test_a_read_ends_with_its_call(make: Callable[..., Rig], names: Names, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two hundred times all tables, cancelled after the first piece: nothing of it is made any more."""
    from detour.engine.p4runtime import read

    rig = make()
    rig.client.insert(*routes(names, ROUTES))
    made = 0
    original = read._serialised

    def counted(entities: list[p4r.Entity]) -> bytes:
        nonlocal made
        made += len(entities)
        return original(entities)

    monkeypatch.setattr(read, "_serialised", counted)
    call = rig.client.stub.Read(p4r.ReadRequest(device_id=1, entities=[names.entry("lpm_route")] * 200))
    next(iter(call))
    call.cancel()
    until(lambda: not rig.budgets.reads.held)
    so_far = made
    rig.client.insert(names.entry("lpm_route", (0xFC << 120, 8), action=("route", 1, 1)))
    assert made == so_far
    assert made < 200 * ROUTES // 2


def test_a_cancelled_read_that_finds_nothing_ends_too(make: Callable[..., Rig], names: Names) -> None:
    rig = make()
    rig.client.insert(*routes(names, ROUTES))
    vain = names.entry("lpm_route", metadata=b"nobody")
    call = rig.client.stub.Read(p4r.ReadRequest(device_id=1, entities=[vain] * 20_000))
    until(lambda: rig.budgets.reads.held)
    call.cancel()
    until(lambda: not rig.budgets.reads.held)


def test_a_read_that_waits_for_its_device_is_never_begun_once_cancelled(
    make: Callable[..., Rig], names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    from detour.engine.p4runtime import service

    rig = make()
    reads = []
    original = service.Reader
    monkeypatch.setattr(service, "Reader", lambda *a: reads.append(a) or original(*a))

    begun, release = hold(rig)
    write = rig.client.stub.Write.future(rig.client.write_request(*(("INSERT", e) for e in routes(names, 5))))
    assert begun.wait(WAIT_S)
    without = rig.budgets.requests.held
    call = rig.client.stub.Read(p4r.ReadRequest(device_id=1, entities=[names.entry("lpm_route")]))
    until(lambda: rig.budgets.requests.held > without)
    call.cancel()
    until(lambda: rig.budgets.requests.held == without)
    release.set()
    write.result(WAIT_S)
    assert len(rig.client.read(names.entry("lpm_route"))) == 5
    assert len(reads) == 1


def test_snapshots_have_a_budget(make: Callable[..., Rig], names: Names) -> None:
    """Reads that are not read keep their snapshots; who finds no room in time is refused, and Writes go on."""
    rig = make(reads=4 << 20, patience_s=0.2)
    rig.client.insert(*routes(names, ROUTES))
    request = p4r.ReadRequest(device_id=1, entities=[names.entry("lpm_route")] * 100)
    stalled = rig.client.stub.Read(request)
    next(iter(stalled))
    assert refused(lambda: list(rig.client.stub.Read(request))) is grpc.StatusCode.RESOURCE_EXHAUSTED
    rig.client.modify(*routes(names, ROUTES, 3))
    stalled.cancel()
    until(lambda: not rig.budgets.reads.held)
    assert len(rig.client.read(names.entry("lpm_route"))) == ROUTES


def test_every_kind_is_read_from_a_snapshot_as_from_the_state(make: Callable[..., Rig], names: Names) -> None:
    """The same request with so many wildcards that it is long gives what its parts give."""
    rig = make()
    client = rig.client
    balanced = names.entry("balanced", (0xFD << 120, 8))
    balanced.table_entry.action.action_profile_group_id = 5
    metered = names.entry(
        "acl", None, None, None, 0x86DD, action=("metered",), priority=7, meter_config=meter_config(1, 2, 3, 4)
    )
    ecmp = names.ids["ecmp"]
    client.insert(
        *(member(ecmp, 1, names.action("forward", 2)), group(ecmp, 5, (1, 1)), clone_session(3, (1, 1)), multicast(4)),
        *(digest(names.ids["learn_t"]), balanced, metered, *routes(names, 20)),
    )
    client.insert(names.entry("ageing", 9, action=("learn",), idle_timeout_ns=10**12, metadata=b"note"))
    client.modify(value_set(names.ids["ipv6_types"], 0x1234))
    kinds = [
        *ALL,
        p4r.Entity(direct_counter_entry=p4r.DirectCounterEntry()),
        p4r.Entity(direct_meter_entry=p4r.DirectMeterEntry()),
        names.entry("acl", None, None, None, 0x86DD),
    ]
    parts = [entity for kind in kinds for entity in client.read(kind)]
    assert client.read(*kinds) == parts
    assert client.read(*(kinds * 30)) == parts * 30


def test_a_snapshot_is_of_one_moment_for_members_and_groups_too(make: Callable[..., Rig], names: Names) -> None:
    rig = make()
    members = [member(names.ids["next_hops"], number, names.action("forward", number)) for number in range(1, 9)]
    rig.client.insert(*members)
    wildcard = p4r.Entity(action_profile_member=p4r.ActionProfileMember())
    call = rig.client.stub.Read(p4r.ReadRequest(device_id=1, entities=[wildcard] * 20_000))
    first = next(iter(call))
    rig.client.delete(*members)
    assert [*first.entities, *(e for r in call for e in r.entities)] == members * 20_000


# -- requests


def test_requests_have_a_budget(make: Callable[..., Rig], names: Names) -> None:
    rig = make(requests=1 << 20)
    blob = names.entry("exact_two", 1, 1, action=("drop",), metadata=bytes(1 << 19))
    begun, release = hold(rig)
    first = rig.client.stub.Write.future(rig.client.write_request(("INSERT", blob)))
    assert begun.wait(WAIT_S)
    assert refused(lambda: rig.client.modify(blob, blob)) is grpc.StatusCode.RESOURCE_EXHAUSTED
    release.set()
    first.result(WAIT_S)
    until(lambda: not rig.budgets.requests.held)
    rig.client.modify(blob)


def test_a_batch_has_so_many_elements(make: Callable[..., Rig], names: Names) -> None:
    """Empty ones take next to nothing on the wire."""
    rig = make(batch=20_000)
    updates = [p4r.Update()] * 20_001
    request = p4r.WriteRequest(device_id=1, election_id=U128.encode(1), updates=updates)
    assert refused(lambda: rig.client.stub.Write(request)) is grpc.StatusCode.RESOURCE_EXHAUSTED
    read = p4r.ReadRequest(device_id=1, entities=[p4r.Entity()] * 20_001)
    assert refused(lambda: list(rig.client.stub.Read(read))) is grpc.StatusCode.RESOURCE_EXHAUSTED
    del request.updates[20_000:]
    assert refusals(lambda: rig.client.stub.Write(request)) == [3] * 20_000


def test_requests_that_are_too_long_or_none(make: Callable[..., Rig], names: Names) -> None:
    rig = make(message=1 << 20)
    blob = names.entry("exact_two", 1, 1, action=("drop",), metadata=bytes(1 << 20))
    assert refused(lambda: rig.client.insert(blob)) is grpc.StatusCode.RESOURCE_EXHAUSTED
    for method in ("Write", "Capabilities", "SetForwardingPipelineConfig"):
        call = rig.client.channel.unary_unary(f"/p4.v1.P4Runtime/{method}")
        for nonsense in (b"\xff" * 50, b"\x80" * 50_000, b"\x0a\xff\xff\xff\xff\x0f" + bytes(20_000)):
            assert refused(lambda call=call, nonsense=nonsense: call(nonsense)) is grpc.StatusCode.INVALID_ARGUMENT
    rig.client.insert(*routes(names, 3))


def test_a_call_that_sends_no_request_does_not_stand_in_the_way(make: Callable[..., Rig], names: Names) -> None:
    rig = make(receiving=1, receive_s=1.5)
    call = rig.client.channel.stream_unary("/p4.v1.P4Runtime/Write")
    gate = threading.Event()

    def nothing() -> Iterator[bytes]:
        gate.wait(WAIT_S)
        yield from ()

    stuck = call.future(nothing())
    ended = stuck.exception(WAIT_S)
    assert isinstance(ended, grpc.RpcError)
    assert ended.code() is grpc.StatusCode.ABORTED
    gate.set()
    rig.client.insert(*routes(names, 3))


def test_split_takes_a_message_apart() -> None:
    atomic = p4r.WriteRequest.DATAPLANE_ATOMIC
    whole = p4r.WriteRequest(device_id=7, role="r", updates=[p4r.Update(type=p4r.Update.INSERT)] * 5)
    data = whole.SerializeToString() + p4r.WriteRequest(atomicity=atomic).SerializeToString()
    head, places = split(data, 4, 10)
    assert p4r.WriteRequest.FromString(head) == p4r.WriteRequest(device_id=7, role="r", atomicity=atomic)
    assert len(places) == 5 + 1
    assert list(Parts(p4r.WriteRequest, "updates", data, places)) == list(whole.updates)
    with pytest.raises(Refused):
        split(whole.SerializeToString(), 4, 4)
    for cut in range(1, len(whole.SerializeToString())):
        part = whole.SerializeToString()[:cut]
        try:
            p4r.WriteRequest.FromString(part)
        except Exception:
            with pytest.raises(Refused):
                split(part, 4, 10)


def test_errors_of_a_batch_keep_no_frames() -> None:
    try:
        try:
            raise KeyError(bytes(1 << 20))
        except KeyError as cause:
            raise invalid("no") from cause
    except Refused as error:
        kept = refusal(error)
    assert (kept.__traceback__, kept.__cause__, kept.__context__) == (None, None, None)


def test_a_status_with_many_texts_is_bounded_and_says_every_code() -> None:
    from finsy.proto import rpc_status

    errors = Outcomes(60_000)
    for i in range(1, 60_000, 2):
        errors[i] = Refused(Code.NOT_FOUND, "x" * 400)
    data = errors.status("write failed")
    assert len(data) < 7 << 20
    details = rpc_status.Status.FromString(data).details
    codes = [p4r.Error.FromString(d.value).canonical_code for d in details]
    assert codes == [Code.NOT_FOUND if e else Code.OK for e in errors]
    assert codes.count(Code.NOT_FOUND) == 30_000
    assert p4r.Error.FromString(details[1].value).message == "x" * 400


# -- what waits for streams


def big_packet(size: int) -> p4r.StreamMessageRequest:
    return p4r.StreamMessageRequest(packet=p4r.PacketOut(payload=bytes(size)))


def test_refusals_have_no_payload(make: Callable[..., Rig]) -> None:
    rig = make()
    for size in (1000, 4 << 20):
        rig.stream._requests.put(big_packet(size))
        error = rig.stream.next().error
        assert error.canonical_code == 3
        assert error.HasField("packet_out")
        assert error.ByteSize() < 500
    message = p4r.StreamMessageRequest()
    message.other.Pack(p4r.PacketOut(payload=bytes(1000)))
    rig.stream._requests.put(message)
    assert rig.stream.next().error.ByteSize() < 500


def test_an_unread_stream_keeps_so_many_bytes(make: Callable[..., Rig]) -> None:
    rig = make(stream=64 << 10)
    call, send = never_read(rig.client)
    update = p4r.MasterArbitrationUpdate(device_id=1, election_id=U128.encode(2))
    send(p4r.StreamMessageRequest(arbitration=update))
    until(lambda: rig.primary is not None and rig.primary.election == 2)
    session = rig.primary
    for _ in range(2000):
        rig.network.packet_in[1](bytes(6) + bytes(1400), 0)
    until(lambda: session.dropped > 1500)
    assert session._bytes <= 64 << 10
    call.cancel()
    until(lambda: not rig.budgets.streams.held)


def test_streams_share_a_budget(make: Callable[..., Rig]) -> None:
    """All of it may be used up; then a stream still has a little of its own."""
    rig = make(streams=100 << 10)
    calls = []
    for number in range(6):
        call, send = never_read(rig.client)
        calls.append(call)
        role = p4r.Role(name=f"r{number}")
        update = p4r.MasterArbitrationUpdate(device_id=1, election_id=U128.encode(1), role=role)
        send(p4r.StreamMessageRequest(arbitration=update))
        until(lambda n=number: f"r{n}" in rig.arbiter.roles and rig.arbiter.roles[f"r{n}"].primary)
    sessions = [rig.arbiter.roles[f"r{n}"].primary for n in range(6)]
    for _ in range(500):
        rig.network.packet_in[1](bytes(6) + bytes(1400), 0)
    until(lambda: all(session.dropped > 100 for session in sessions))
    assert rig.budgets.streams.peak <= 100 << 10
    assert all(session._bytes > 8 << 10 for session in sessions)
    for call in calls:
        call.cancel()
    rig.stream.kill()
    until(lambda: not rig.budgets.streams.held)


def test_who_does_not_read_arbitration_loses_the_stream(make: Callable[..., Rig]) -> None:
    """Those messages cannot be left out, and others can cause any number of them."""
    rig = make(stream=256 << 10)
    role = stratum.P4RoleConfig(shared_p4_ids=[1 << 30] * 10_000)
    primary = rig.client.stream()
    primary.arbitrate(1, 1, "r", role)
    primary.next()
    call, send = never_read(rig.client)
    send(p4r.StreamMessageRequest(arbitration=p4r.MasterArbitrationUpdate(device_id=1, role=p4r.Role(name="r"))))
    until(lambda: len(rig.arbiter.roles["r"].sessions) == 2)
    backup = rig.arbiter.roles["r"].sessions[1]
    for election in range(2, 5000):
        primary.arbitrate(1, election, "r", role)
        primary.next()
        if backup.reason is not None:
            break
    assert backup.reason is not None
    assert backup.reason.code is Code.RESOURCE_EXHAUSTED
    assert refused(lambda: list(call)) is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_the_inbox_has_a_budget(make: Callable[..., Rig]) -> None:
    rig = make(inbox=10_000)
    device = rig.server._service.devices[1]
    gate = threading.Event()
    rig.server._loop.call_soon_threadsafe(gate.wait, WAIT_S)  # type: ignore[union-attr]
    try:
        for _ in range(100):
            rig.network.packet_in[1](bytes(6) + bytes(994), 0)
        assert (device.dropped, len(device._inbox)) == (92, 8)
    finally:
        gate.set()
    assert [len(rig.stream.next().packet.payload) for _ in range(8)] == [994] * 8
    assert rig.budgets.inbox.held == 0


def test_digests_that_nobody_acknowledges_have_a_budget(make: Callable[..., Rig], names: Names) -> None:
    rig = make(digests=20_000)
    entity = digest(names.ids["learn_t"], 1, ack_ns=10**15)
    rig.client.insert(entity)

    def learn(address: int) -> None:
        rig.network.digest[1](1, address.to_bytes(6, "big") + b"\0\5", 0)

    for address in range(1, 201):
        learn(address)
    for address in range(1, 201):
        assert rig.stream.next().digest.data[0].struct.members[0].bitstring == bytes([address])
    assert rig.budgets.digests.peak <= 20_000
    learn(200)  # still remembered
    learn(1)  # forgotten, so that there was room for others
    assert rig.stream.next().digest.data[0].struct.members[0].bitstring == b"\1"
    rig.client.delete(entity)
    learn(7)
    until(lambda: not rig.budgets.digests.held)


def test_digests_in_a_list_that_is_not_full_have_a_budget(make: Callable[..., Rig], names: Names) -> None:
    rig = make(digests=20_000)
    rig.client.insert(digest(names.ids["learn_t"], timeout_ns=10**15))
    for address in range(200):
        rig.network.digest[1](1, address.to_bytes(6, "big") + b"\0\5", 0)
    until(lambda: not rig.server._service.devices[1]._inbox)
    assert 19_000 < rig.budgets.digests.peak <= 20_000
    rig.client.set_pipeline(config())  # and with it the list is gone
    rig.network.digest[1](1, bytes(8), 0)
    until(lambda: not rig.budgets.digests.held)


def test_idle_notifications_come_in_pieces(make: Callable[..., Rig], names: Names) -> None:
    rig = make()
    rig.network.now_ps = 10**12
    blob = bytes(4096)
    entries = [names.entry("ageing", i, action=("NoAction",), idle_timeout_ns=1, metadata=blob) for i in range(200)]
    rig.client.insert(*entries)
    rig.network.now_ps = 2 * 10**12
    keys: list[bytes] = []
    while len(keys) < 200:
        message = rig.stream.next()
        assert message.ByteSize() < 300_000
        keys += [e.match[0].exact.value for e in message.idle_timeout_notification.table_entry]
    assert len(set(keys)) == 200


# -- roles


def test_roles_that_nobody_has_are_forgotten(make: Callable[..., Rig]) -> None:
    rig = make(vacated_roles=3)
    for number in range(10):
        stream = rig.client.stream()
        stream.arbitrate(1, 5, f"r{number}", stratum.P4RoleConfig())
        assert stream.next().arbitration.status.code == 0
        stream.kill()
        until(lambda number=number: f"r{number}" not in rig.arbiter.roles)
    assert set(rig.arbiter.roles) == {""}
    # Of the latest three the highest election id is still known ...
    for name, election, status in (("r9", 4, 5), ("r9", 5, 0), ("r0", 1, 0)):
        stream = rig.client.stream()
        stream.arbitrate(1, election, name)
        assert stream.next().arbitration.status.code == status
        stream.kill()
        until(lambda name=name: name not in rig.arbiter.roles)
    assert len(rig.arbiter._vacated) == 3
    # ... and what goes with a role went with it.
    rig.client.role = "r8"
    assert refused(rig.client.write) is grpc.StatusCode.NOT_FOUND
    # The first streams took nothing that is not given back but what the primary of the default role has.
    held = rig.primary.role_bytes
    until(lambda: rig.budgets.roles.held == held)


def test_the_default_role_is_never_forgotten(make: Callable[..., Rig]) -> None:
    rig = make(vacated_roles=0)
    rig.stream.kill()
    until(lambda: not rig.arbiter.roles[""].sessions)
    stream = rig.client.stream()
    stream.arbitrate(1, 0)
    assert stream.next().arbitration.status.code == 5
    assert rig.arbiter.roles[""].highest == 1


def test_names_and_configs_of_roles_have_limits(make: Callable[..., Rig]) -> None:
    rig = make(role_config=1000)
    for name, config_, code in (
        ("ä" * 128, None, grpc.StatusCode.INVALID_ARGUMENT),
        ("r", stratum.P4RoleConfig(shared_p4_ids=[1 << 30] * 300), grpc.StatusCode.INVALID_ARGUMENT),
        ("x" * (1 << 20), None, grpc.StatusCode.INVALID_ARGUMENT),
    ):
        stream = rig.client.stream()
        stream.arbitrate(1, 1, name, config_)
        assert stream.error() is code
    stream = rig.client.stream()
    stream.arbitrate(1, 1, "x" * 255)
    assert stream.next().arbitration.status.code == 0
    until(lambda: len(rig.arbiter.roles) == 2)


def test_roles_have_a_budget(make: Callable[..., Rig]) -> None:
    rig = make(roles=20_000)
    streams = []
    for number in range(20):
        streams.append(rig.client.stream())
        streams[-1].arbitrate(1, 1, f"r{number}")
    results = []
    for stream in streams:
        got = stream._responses.get(timeout=WAIT_S)
        results.append(got.code() if isinstance(got, grpc.RpcError) else None)
    assert results.count(grpc.StatusCode.RESOURCE_EXHAUSTED) == 20 - results.count(None)
    assert 5 <= results.count(None) < 10
    for stream in streams:
        stream.kill()
    until(lambda: len(rig.arbiter.roles) == 1)
    again = rig.client.stream()
    again.arbitrate(1, 1, "r19")
    assert again.next().arbitration.status.code == 0


def test_so_many_calls_at_once(make: Callable[..., Rig]) -> None:
    rig = make(rpcs=4)
    streams = [rig.client.stream() for _ in range(3)]
    for stream in streams:
        stream.arbitrate(1, None)
        stream.next()
    assert refused(lambda: rig.client.stub.Capabilities(p4r.CapabilitiesRequest())) is (
        grpc.StatusCode.RESOURCE_EXHAUSTED
    )
    streams[0].kill()
    plain = p4r_grpc.P4RuntimeStub(rig.client.channel)

    def served() -> bool:
        try:
            return bool(plain.Capabilities(p4r.CapabilitiesRequest()).p4runtime_api_version)
        except grpc.RpcError:
            return False

    until(served)


# -- the counting itself


def test_a_budget() -> None:
    budget = Budget(10)
    assert budget.take(10)
    assert not budget.take(1)
    budget.give(4)
    assert not budget.take(5)
    assert budget.take(4)
    assert (budget.held, budget.peak) == (10, 10)


async def settled() -> None:
    """Lets everything happen that waits for nothing but its turn."""
    for _ in range(50):
        await asyncio.sleep(0)


def test_a_lane_is_first_come_first_served() -> None:
    async def run() -> list[str]:
        lane, order = Lane(10, WAIT_S, "test"), []

        async def visit(name: str, size: int, leave: asyncio.Event) -> None:
            await lane.enter(size)
            order.append(name)
            await leave.wait()
            lane.leave(size)

        first, others = asyncio.Event(), asyncio.Event()
        tasks = [asyncio.create_task(visit("a", 8, first))]
        for name, size in (("large", 50), ("small", 1), ("smaller", 1)):
            await asyncio.sleep(0)
            tasks.append(asyncio.create_task(visit(name, size, others)))
        await settled()
        assert order == ["a"]
        first.set()
        async with asyncio.timeout(WAIT_S):
            while len(order) < 2:
                await asyncio.sleep(0)
        await settled()
        assert order == ["a", "large"]  # alone, since it is larger than the lane
        others.set()
        await asyncio.gather(*tasks)
        assert lane.held == 0
        return order

    assert asyncio.run(run()) == ["a", "large", "small", "smaller"]


def test_who_leaves_the_queue_of_a_lane_lets_the_others_go_on() -> None:
    async def run() -> None:
        lane = Lane(10, WAIT_S, "test")
        await lane.enter(8)
        large = asyncio.create_task(lane.enter(9))
        small = asyncio.create_task(lane.enter(2))
        await settled()
        assert not small.done()
        large.cancel()
        await asyncio.wait_for(small, WAIT_S)
        impatient = Lane(10, 0.01, "test")
        await impatient.enter(10)
        with pytest.raises(Refused) as caught:
            await impatient.enter(1)
        assert caught.value.code is Code.RESOURCE_EXHAUSTED
        assert (lane.held, impatient.held) == (10, 10)

    asyncio.run(run())
