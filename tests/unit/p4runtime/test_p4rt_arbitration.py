# SPDX-License-Identifier: Apache-2.0
"""Primary and backups, as far as tests of the specification (test_conformance.py) do not say: configs of roles, BMv2's
promotion, limits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest
from finsy.proto import U128, p4r, stratum

from detour.engine.p4runtime import Code, P4RuntimeServer, Refused
from detour.engine.p4runtime.arbitration import Arbiter
from detour.engine.p4runtime.session import StreamSession
from tests.unit.p4runtime.harness import Client, FakeNetwork, Names, Stream, codes, config, refused

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


def test_without_election_id_nobody_becomes_primary(client: Client) -> None:
    stream = opened((NONE, None), client, None)
    request = p4r.WriteRequest(device_id=1)
    assert refused(lambda: client.stub.Write(request)) is grpc.StatusCode.PERMISSION_DENIED
    opened((OK, 0), client, 0)  # (0, 0) is an id
    assert advice(stream) == (EXISTS, 0)


def test_versions_before_1_4_number_roles(client: Client) -> None:
    old = client.stream()
    old.send(arbitration=p4r.MasterArbitrationUpdate(device_id=1, role=p4r.Role(id=4), election_id=U128.encode(1)))
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
    broken = p4r.MasterArbitrationUpdate(device_id=1, election_id=U128.encode(1), role=p4r.Role(name="c"))
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
                StreamSession(), p4r.MasterArbitrationUpdate(device_id=1, election_id=U128.encode(n)), True
            )
        with pytest.raises(Refused) as caught:
            await arbiter.update(StreamSession(), p4r.MasterArbitrationUpdate(device_id=1), True)
        assert caught.value.code is Code.RESOURCE_EXHAUSTED

    asyncio.run(fill())
