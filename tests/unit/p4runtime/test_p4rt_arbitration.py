# SPDX-License-Identifier: Apache-2.0
"""Primary and backups, by the rules of the spec (docs/facts.md, "Primary and backups")."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest
from finsy.proto import p4r, stratum

from detour.engine.p4runtime import Code, P4RuntimeServer, Refused
from detour.engine.p4runtime.arbitration import Arbiter
from detour.engine.p4runtime.session import StreamSession
from tests.unit.p4runtime.harness import Client, FakeNetwork, Names, Stream, codes, config, refused, uint128

OK, EXISTS, NONE = 0, 6, 5  # status to the primary, to backups, when there is no primary


def advice(stream: Stream) -> tuple[int, int | None]:
    """(status, election id) of the next arbitration message."""
    message = stream.next()
    assert message.WhichOneof("update") == "arbitration"
    a = message.arbitration
    return a.status.code, (a.election_id.high << 64 | a.election_id.low) if a.HasField("election_id") else None


def may_write(client: Client, election: int) -> bool:
    client.election = election
    with pytest.raises(grpc.RpcError) as caught:
        client.write()  # there is no pipeline, but the check for the primary comes first
    assert caught.value.code() in (grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.PERMISSION_DENIED)
    return caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION


@pytest.fixture
def client(connect: Callable[..., Client]) -> Client:
    return connect()


def open_stream(client: Client, election: int | None, device_id: int = 1, role: str = "") -> Stream:
    stream = client.stream()
    stream.arbitrate(device_id, election, role)
    return stream


def opened(expected: tuple[int, int | None], client: Client, election: int | None, **where: Any) -> Stream:
    """A stream whose first arbitration message is the expected one."""
    stream = open_stream(client, election, **where)
    assert advice(stream) == expected
    return stream


def test_the_first_becomes_primary(client: Client) -> None:
    stream = client.stream()
    stream.arbitrate(1, 5)
    message = stream.next().arbitration
    assert (message.device_id, message.status.code, message.election_id.low) == (1, OK, 5)
    assert not message.HasField("role")
    assert may_write(client, 5)
    assert not may_write(client, 4)
    assert not may_write(client, 6)


def test_a_higher_id_takes_over(client: Client) -> None:
    first, second = open_stream(client, 1), client.stream()
    assert advice(first) == (OK, 1)
    second.arbitrate(1, (3 << 64) | 2)
    assert advice(first) == (EXISTS, (3 << 64) | 2)
    assert advice(second) == (OK, (3 << 64) | 2)
    assert not may_write(client, 1)
    assert may_write(client, (3 << 64) | 2)


def test_a_lower_id_is_a_backup_and_others_hear_nothing(client: Client) -> None:
    first = opened((OK, 9), client, 9)
    opened((EXISTS, 9), client, 3)
    assert first.silent()
    assert not may_write(client, 3)


def test_without_election_id_nobody_becomes_primary(client: Client) -> None:
    stream = opened((NONE, None), client, None)
    request = p4r.WriteRequest(device_id=1)
    assert refused(lambda: client.stub.Write(request)) is grpc.StatusCode.PERMISSION_DENIED
    opened((OK, 0), client, 0)  # (0, 0) is an id
    assert advice(stream) == (EXISTS, 0)


def test_nobody_is_promoted_when_the_primary_goes(client: Client) -> None:
    backups = [open_stream(client, 1)]
    assert advice(backups[0]) == (OK, 1)
    backups.append(open_stream(client, None))
    assert advice(backups[1]) == (EXISTS, 1)
    primary = opened((OK, 7), client, 7)
    for backup in backups:
        assert advice(backup) == (EXISTS, 7)
    primary.kill()
    for backup in backups:
        assert advice(backup) == (NONE, 7)
    assert not may_write(client, 1)
    assert not may_write(client, 7)
    # An id below the highest ever seen does not do.
    backups[0].arbitrate(1, 6)
    assert advice(backups[0]) == (NONE, 7)
    backups[0].arbitrate(1, 7)
    assert advice(backups[0]) == (OK, 7)
    assert advice(backups[1]) == (EXISTS, 7)


def test_the_primary_goes_politely(client: Client) -> None:
    backup = opened((OK, 1), client, 1)
    primary = opened((OK, 7), client, 7)
    assert advice(backup) == (EXISTS, 7)
    primary.close()
    assert advice(backup) == (NONE, 7)


def test_a_primary_may_downgrade_itself(client: Client) -> None:
    first = opened((OK, 5), client, 5)
    second = opened((EXISTS, 5), client, 2)
    first.arbitrate(1, 1)
    assert advice(first) == (NONE, 5)
    assert advice(second) == (NONE, 5)
    first.arbitrate(1, None)
    assert advice(first) == (NONE, 5)
    assert second.silent()


def test_a_primary_may_confirm_and_raise_its_id(client: Client) -> None:
    first = opened((OK, 5), client, 5)
    second = opened((EXISTS, 5), client, 2)
    for election in (5, 8):
        first.arbitrate(1, election)
        assert advice(first) == (OK, election)
        assert advice(second) == (EXISTS, election)
    assert not may_write(client, 5)
    assert may_write(client, 8)


def test_errors_end_the_stream(client: Client) -> None:
    assert open_stream(client, 1, device_id=99).error() is grpc.StatusCode.NOT_FOUND
    first = opened((OK, 1), client, 1)
    assert open_stream(client, 1).error() is grpc.StatusCode.INVALID_ARGUMENT
    other = opened((OK, 2), client, 2, device_id=2)
    other.arbitrate(1, 3)
    assert other.error() is grpc.StatusCode.FAILED_PRECONDITION
    named = opened((OK, 2), client, 2, role="x")
    named.arbitrate(1, 3, "y")
    assert named.error() is grpc.StatusCode.FAILED_PRECONDITION
    # A live stream that asks for an id in use is ended too; it was the primary of device 2.
    assert first.silent()


def test_an_id_in_use_ends_a_live_stream(client: Client) -> None:
    first = opened((OK, 5), client, 5)
    second = opened((EXISTS, 5), client, 2)
    second.arbitrate(1, 5)
    assert second.error() is grpc.StatusCode.INVALID_ARGUMENT
    assert first.silent()


def test_devices_and_roles_are_apart(client: Client) -> None:
    streams = [open_stream(client, 1), open_stream(client, 1, device_id=2), open_stream(client, 1, role="r")]
    for stream in streams:
        assert advice(stream) == (OK, 1)
    client.role = "r"
    assert may_write(client, 1)
    client.role = "s"
    assert refused(client.write) is grpc.StatusCode.NOT_FOUND


def test_role_is_echoed(client: Client) -> None:
    stream = open_stream(client, 1, role="r")
    assert stream.next().arbitration.role.name == "r"
    old = client.stream()
    old.send(
        arbitration=p4r.MasterArbitrationUpdate(device_id=1, role=p4r.Role(id=4), election_id=uint128(1))
    )  # versions before 1.4 number roles
    message = old.next().arbitration
    assert (message.role.id, message.status.code) == (4, OK)


# -- role configs (Stratum's scheme)


def test_role_config_limits_writes_and_reads(client: Client, names: Names) -> None:
    default = client.ready()
    stream = client.stream()
    role_config = stratum.P4RoleConfig(exclusive_p4_ids=[names.ids["lpm_route"]], shared_p4_ids=[names.ids["fixed"]])
    stream.arbitrate(1, 1, "routing", role_config)
    message = stream.next().arbitration
    got = stratum.P4RoleConfig()
    assert message.role.config.Unpack(got)
    assert got == role_config

    client.role = "routing"
    client.insert(names.entry("lpm_route", None, action=("to_cpu", 1)))
    with pytest.raises(grpc.RpcError) as caught:
        client.insert(names.entry("preset", 1, action=("NoAction",)), names.entry("lpm_route", (1, 128)))
    assert codes(caught.value) == [7, 3]
    assert refused(lambda: client.set_pipeline(config())) is grpc.StatusCode.PERMISSION_DENIED
    everything = p4r.Entity(table_entry=p4r.TableEntry())
    assert len(client.read(everything, role="routing")) == 1 + 3
    assert len(client.read(everything)) == 1 + 3 + 2
    assert default.silent()


def test_wrong_role_configs(client: Client, names: Names) -> None:
    taken = stratum.P4RoleConfig(exclusive_p4_ids=[5])
    first = client.stream()
    first.arbitrate(1, 1, "a", taken)
    assert advice(first) == (OK, 1)
    for wrong in (taken, stratum.P4RoleConfig(shared_p4_ids=[5]), p4r.Uint128()):
        stream = client.stream()
        stream.arbitrate(1, 1, "b", wrong)
        assert stream.error() is grpc.StatusCode.INVALID_ARGUMENT
    broken = p4r.MasterArbitrationUpdate(device_id=1, election_id=uint128(1), role=p4r.Role(name="c"))
    broken.role.config.Pack(taken)
    broken.role.config.value = b"\xff\xff"
    stream = client.stream()
    stream.send(arbitration=broken)
    assert stream.error() is grpc.StatusCode.INVALID_ARGUMENT


# -- BMv2's way


@pytest.fixture
def bmv2_like(network: FakeNetwork) -> Iterator[Client]:
    with P4RuntimeServer(network, promote_backup=True) as server:
        server.add_device(1)
        client = Client(server.target)
        yield client
        client.close()


def test_promotion_of_backups(bmv2_like: Client) -> None:
    client = bmv2_like
    streams = [open_stream(client, 9)]
    assert advice(streams[0]) == (OK, 9)
    for election in (3, 5, None):
        streams.append(open_stream(client, election))
        assert advice(streams[-1]) == (EXISTS, 9)
    streams[0].kill()
    assert [advice(s) for s in streams[1:]] == [(EXISTS, 5), (OK, 5), (EXISTS, 5)]
    assert may_write(client, 5)
    opened((OK, 6), client, 6)  # above those connected, below the highest ever seen


def test_a_role_takes_so_many_streams() -> None:
    async def fill() -> None:
        async def drain() -> None:
            pass

        arbiter = Arbiter(1, drain)
        for n in range(256):
            await arbiter.update(
                StreamSession(), p4r.MasterArbitrationUpdate(device_id=1, election_id=uint128(n)), True
            )
        with pytest.raises(Refused) as caught:
            await arbiter.update(StreamSession(), p4r.MasterArbitrationUpdate(device_id=1), True)
        assert caught.value.code is Code.RESOURCE_EXHAUSTED

    asyncio.run(fill())
