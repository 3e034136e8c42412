# SPDX-License-Identifier: Apache-2.0
"""Whatever a client sends gets a status, and the server goes on. Bounded runs; the seed is in every failure."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import grpc
import pytest
from finsy.proto import p4i, p4r, stratum

from detour.base.errors import DetourError
from detour.engine.p4runtime import Code, Compiler, EntityStore, Refused, TargetSwitch, schema
from detour.engine.p4runtime.read import Reader
from detour.engine.p4runtime.write import write
from tests.unit.p4runtime.harness import Client, FakeNetwork, Names, config, uint128
from tests.unit.p4runtime.mutants import Mutator
from tests.unit.p4runtime.test_p4rt_pipeline import ALL, _cells, _everything
from tests.waiting import PATIENCE_S

SHARE = float(os.environ.get("DETOUR_FUZZ_SHARE", "1"))
"""of what is tried each time; more for a longer run"""
SEED = int(os.environ.get("DETOUR_FUZZ_SEED", "1"))


def rounds(count: int) -> range:
    """As many, whatever the time they take."""
    return range(max(1, round(count * SHARE)))


@pytest.fixture
def mutator(names: Names) -> Mutator:
    return Mutator(SEED, list(names.ids.values()))


def seeds(names: Names) -> list[p4r.Update]:
    """Valid updates of every kind."""
    updates = [p4r.Update(type=p4r.Update.INSERT, entity=e) for e in _everything(names)]
    updates += [p4r.Update(type=p4r.Update.MODIFY, entity=e) for e in _cells(names)]
    group, session = p4r.Entity(), p4r.Entity()
    group.action_profile_group.action_profile_id = names.ids["ecmp"]
    group.action_profile_group.group_id = 1
    group.action_profile_group.members.add(member_id=1, weight=2, watch_port=b"\3")
    session.packet_replication_engine_entry.clone_session_entry.session_id = 5
    session.packet_replication_engine_entry.clone_session_entry.replicas.add(port=b"\1", instance=1)
    route = names.entry("lpm_route", (1 << 127, 1), action=("route", 1, 2))
    direct = p4r.Entity(direct_counter_entry=p4r.DirectCounterEntry(table_entry=route.table_entry))
    meter = p4r.Entity(direct_meter_entry=p4r.DirectMeterEntry(table_entry=names.entry("acl").table_entry))
    updates += [p4r.Update(type=p4r.Update.INSERT, entity=e) for e in (group, session, route, direct, meter)]
    default = names.entry("lpm_route", action=("to_cpu", 8), is_default_action=True)
    return [*updates, p4r.Update(type=p4r.Update.MODIFY, entity=default)]


def test_updates_and_reads_in_process(names: Names, mutator: Mutator) -> None:
    """Nothing raises, and no error is one of ours (INTERNAL)."""
    compiled = Compiler().compile(config())
    store = EntityStore(compiled.info, compiled.program, TargetSwitch(FakeNetwork(), 1))
    store.live = True
    valid, corpus = seeds(names), seeds(names)
    for done in rounds(450):
        batch = [mutator.mutate(mutator.rng.choice(corpus)) for _ in range(50)]
        for update, error in zip(batch, write(store, batch), strict=True):
            assert error is None or error.code is not Code.INTERNAL, (SEED, done, error, update)
            if error is None and len(corpus) < 500:
                corpus.append(update)
        reader = Reader(
            store, [mutator.mutate(mutator.rng.choice([*ALL, *(u.entity for u in corpus)])) for _ in range(5)]
        )
        for _ in reader.chunks():
            pass
        assert all(e is None or e.code is not Code.INTERNAL for e in reader.errors), (SEED, done, reader.errors)
        if done % 20 == 19:
            corpus = corpus[-200:] + valid
    reader = Reader(store, ALL)
    assert sum(len(r.entities) for r in reader.chunks()) > 100
    assert not any(reader.errors)


def test_p4info(mutator: Mutator) -> None:
    """A P4Info is refused, or the schema that it gives works."""
    wanted = config()
    program = Compiler().compile(wanted).program
    refused = accepted = 0
    for _ in rounds(300):
        info: p4i.P4Info = mutator.mutate(wanted.p4info)
        try:
            built = schema.build(info, program.model)
        except (Refused, DetourError):
            refused += 1
        else:
            accepted += 1
            store = EntityStore(built, program, TargetSwitch(FakeNetwork(), 1))
            for _ in Reader(store, ALL).chunks():
                pass
    assert refused
    assert accepted


def _status(call: Callable[[], Any]) -> grpc.StatusCode | None:
    try:
        call()
    except grpc.RpcError as e:
        return e.code()
    return None


def test_over_grpc(client: Client, names: Names, mutator: Mutator) -> None:
    """Requests as messages and as plain bytes; the server answers each in time."""
    stub, valid = client.stub, seeds(names)
    set_pipeline = p4r.SetForwardingPipelineConfigRequest(
        device_id=1, election_id=uint128(1), action=p4r.SetForwardingPipelineConfigRequest.VERIFY
    )
    set_pipeline.config.p4info.CopyFrom(config().p4info)
    get = p4r.GetForwardingPipelineConfigRequest(device_id=1)
    requests: list[tuple[Any, Any]] = [
        (stub.Write, client.write_request(*(("INSERT", u.entity) for u in valid))),
        (stub.Read, p4r.ReadRequest(device_id=1, entities=ALL)),
        (stub.GetForwardingPipelineConfig, get),
        (stub.SetForwardingPipelineConfig, set_pipeline),
        (stub.Capabilities, p4r.CapabilitiesRequest(device_id=1)),
    ]
    raw = client.channel.unary_unary("/p4.v1.P4Runtime/Write")
    for _ in rounds(1000):
        method, request = mutator.rng.choice(requests)
        mutant = mutator.mutate(request)
        if method is stub.Read:
            status = _status(lambda: list(stub.Read(mutant, timeout=PATIENCE_S)))  # noqa: B023
        else:
            status = _status(lambda: method(mutant, timeout=PATIENCE_S))  # noqa: B023
        assert status not in (grpc.StatusCode.INTERNAL, grpc.StatusCode.DEADLINE_EXCEEDED), (SEED, status, mutant)
    for _ in range(20):
        garbage = mutator.rng.randbytes(mutator.rng.randrange(200))
        assert _status(lambda: raw(garbage, timeout=PATIENCE_S)) is not grpc.StatusCode.DEADLINE_EXCEEDED  # noqa: B023
    client.set_pipeline(config())
    client.insert(names.entry("lpm_route", None, action=("to_cpu", 1)))


def test_streams(client: Client, names: Names, mutator: Mutator, network: FakeNetwork) -> None:
    """Streams end with a status or stay; the server goes on."""
    role = p4r.Role(name="r")
    role.config.Pack(stratum.P4RoleConfig(exclusive_p4_ids=[names.ids["acl"]], receives_packet_ins=True))
    arbitration = p4r.MasterArbitrationUpdate(device_id=1, election_id=uint128(5), role=role)
    packet = p4r.PacketOut(payload=b"x" * 60)
    packet.metadata.add(metadata_id=1, value=b"\1")
    packet.metadata.add(metadata_id=2, value=b"\0")
    ack = p4r.DigestListAck(digest_id=names.ids["learn_t"], list_id=1)
    messages = [
        p4r.StreamMessageRequest(arbitration=arbitration),
        p4r.StreamMessageRequest(arbitration=p4r.MasterArbitrationUpdate(device_id=1)),
        p4r.StreamMessageRequest(packet=packet),
        p4r.StreamMessageRequest(digest_ack=ack),
    ]
    for _ in rounds(1000):
        sent = [mutator.mutate(mutator.rng.choice(messages)) for _ in range(mutator.rng.randrange(10))]
        stub_stream = client.stub.StreamChannel(iter(sent), timeout=PATIENCE_S)
        network.packet_in[1](mutator.rng.randbytes(mutator.rng.randrange(80)), 0)
        network.digest[1](mutator.rng.randrange(3), mutator.rng.randbytes(8), 0)
        if mutator.rng.random() < 0.2:
            stub_stream.cancel()
            continue
        status = _status(lambda: list(stub_stream))  # noqa: B023
        assert status not in (grpc.StatusCode.INTERNAL, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNKNOWN), (
            SEED
        )
    client.election = (1 << 128) - 1
    client.primary()
    client.set_pipeline(config())
