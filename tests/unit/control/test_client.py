# SPDX-License-Identifier: Apache-2.0
"""The client against the engine's server and against real simple_switch_grpcs."""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from detour.base.errors import DetourError
from detour.control import schema
from detour.control.entries import (
    Action,
    ActionProfileGroup,
    ActionSet,
    DefaultAction,
    Entity,
    Lpm,
    MeterConfig,
    Plan,
    Stored,
    TableEntry,
)
from detour.control.p4runtime.client import FabricClient, SwitchClient, SwitchTarget
from detour.control.p4runtime.monitor import Monitor
from detour.control.p4runtime.pipeline import PipelineConfig, read_p4info
from detour.control.p4runtime.reconcile import Written, reconcile
from detour.engine.network import Network
from detour.engine.p4runtime import P4RuntimeServer
from tests.ptf.bmv2 import Bmv2
from tests.unit.control.test_codec import ENTITIES
from tests.waiting import PATIENCE_S


@pytest.fixture(params=["engine", pytest.param("bmv2", marks=pytest.mark.bmv2)])
def targets(request: pytest.FixtureRequest) -> Iterator[list[SwitchTarget]]:
    if request.param == "bmv2":
        with Bmv2((1, 2), cpu_port=510, device_id=3) as a, Bmv2((1,), cpu_port=510, device_id=4) as b:
            yield [SwitchTarget("s2", 3, a.address), SwitchTarget("s3", 4, b.address)]
        return
    with Network() as network, P4RuntimeServer(network) as server:
        for device in (3, 4):
            network.add_switch(device)
            server.add_device(device)
        network.attach_sink((3, 2), lambda frame, time_ps: None)
        network.start()
        yield [SwitchTarget("s2", 3, server.target), SwitchTarget("s3", 4, server.target)]


def route(group: int, *ports: int) -> TableEntry:
    actions = [Action.of(schema.FORWARD, port=port) for port in ports]
    return TableEntry.of(schema.ROUTE, {schema.DST_ADDR: Lpm(0xFD00 << 112 | group << 96, 32)}, ActionSet.of(actions))


def test_everything_written_is_read_back(targets):
    async def run() -> None:
        plan: Plan = {3: list(ENTITIES), 4: [route(g, 1) for g in range(300)]}
        async with FabricClient(targets) as fabric:
            assert await reconcile(fabric, plan) == Written(inserted=len(ENTITIES) - 1 + 300, modified=1)
            assert await reconcile(fabric, plan) == Written(unchanged=len(ENTITIES) + 300)
            back = await fabric.read()
            assert set(ENTITIES) <= set(back[3])
            assert [e for e in back[3] if not isinstance(e, DefaultAction) and e not in ENTITIES] == []
        async with FabricClient(targets) as again:  # the pipeline is the same: entries survive
            assert await reconcile(again, plan) == Written(unchanged=len(ENTITIES) + 300)

    asyncio.run(run())


def test_programs_that_finsy_does_not_take(tmp_path: Path) -> None:
    """Fields that are alike behind the last dot, and errors in digests, are no reason to refuse a program."""
    fabric, target = PipelineConfig.fabric(), SwitchTarget("s0", 1, "127.0.0.1:1")
    info = read_p4info(fabric.p4info)
    table = info.tables.add(size=1)
    table.preamble.id, table.preamble.name = 0x02FFFFFF, "mine"
    for number, name in enumerate(("hdr.ipv6.$valid$", "hdr.udp.$valid$"), 1):
        table.match_fields.add(id=number, name=name, bitwidth=1, match_type=2)
    member = info.type_info.structs["seen_t"].members.add(name="why")
    member.type_spec.error.SetInParent()
    digest = info.digests.add()
    digest.preamble.id, digest.preamble.name = 0x17FFFFFF, "seen"
    digest.type_spec.struct.name = "seen_t"
    pipeline = PipelineConfig(tmp_path / "mine.p4info.txtpb", fabric.blob)
    pipeline.p4info.write_text(str(info))
    assert FabricClient([target], pipeline).switches[1].codec
    info.action_profiles.add(size=1).preamble.id = 0x11000001
    pipeline.p4info.write_text(str(info))
    with pytest.raises(DetourError, match=r"mine\.p4info\.txtpb: finsy, the client, does not take it"):
        FabricClient([target], pipeline)


def test_only_differences_are_written(targets):
    async def run() -> None:
        meter = MeterConfig(schema.PUNT_METER, 7, 10, 5, 10, 5)
        before: list[Entity] = [route(0, 1, 2), route(1, 1), route(2, 2), meter]
        after: list[Entity] = [route(0, 2, 1), route(1, 1), route(3, 2)]
        async with FabricClient(targets[:1]) as fabric:
            await reconcile(fabric, {3: before})
            assert await reconcile(fabric, {3: after}) == Written(inserted=1, modified=1, deleted=2, unchanged=1)
            assert await reconcile(fabric, {3: after}) == Written(unchanged=3)

    asyncio.run(run())


def test_entries_share_a_group_until_none_needs_it(targets):
    def groups(held: list[Stored]) -> list[tuple[tuple[int, int], ...]]:
        return [each.members for each in held if isinstance(each, ActionProfileGroup)]

    async def run() -> None:
        async with FabricClient(targets[:1]) as fabric:
            switch = fabric.switches[3]
            for ports, members in (((1, 2), ((1, 1), (2, 1))), ((2,), ((2, 1),)), ((1, 2), ((1, 1), (2, 1)))):
                plan: Plan = {3: [*(route(group, *ports) for group in range(20)), route(20, 7)]}
                await reconcile(fabric, plan)
                assert groups(await switch.read_stored()) == [members, ((3, 1),)]
                assert set(plan[3]) <= set(await switch.read())
            await reconcile(fabric, {3: [route(20, 7)]})
            assert groups(await switch.read_stored()) == [((3, 1),)]

    asyncio.run(run())


def test_action_sets_that_another_controller_wrote_are_no_hindrance(targets):
    async def run() -> None:
        async with FabricClient(targets[:1]) as fabric:
            switch = fabric.switches[3]
            await switch.write([switch.codec.insert(route(0, 1)), switch.codec.insert(route(1, 1))])
            assert await reconcile(fabric, {3: [route(1, 1), route(2, 2)]}) == Written(1, 0, 1, 1)
            assert {route(1, 1), route(2, 2)} <= set(await switch.read())

    asyncio.run(run())


def test_a_refusal_names_switch_and_entity(targets):
    async def run() -> None:
        async with FabricClient(targets) as fabric:
            switch = fabric.switches[3]
            await switch.write([switch.codec.insert(route(1, 1))])
            with pytest.raises(DetourError, match=r"s2 .*refuses INSERT TableEntry.*exists"):
                await switch.write([switch.codec.insert(route(0, 1)), switch.codec.insert(route(1, 1))])
            assert route(0, 1) in await switch.read()

    asyncio.run(run())


def test_a_second_controller_is_told_who_is_primary(targets):
    async def run() -> None:
        async with FabricClient(targets):
            with pytest.raises(DetourError, match=r"another controller is primary \(election id 10\)"):
                async with FabricClient(targets):
                    pass

    asyncio.run(run())


def test_a_controller_takes_over_from_its_predecessor(targets, monkeypatch):
    """The switch notices only after the second one has come that the first has gone."""
    connect = SwitchClient._connect

    async def run() -> None:
        async with AsyncExitStack() as before:

            async def connect_then_end_the_first(self: SwitchClient) -> None:
                await connect(self)
                await before.aclose()

            await before.enter_async_context(FabricClient(targets))
            monkeypatch.setattr(SwitchClient, "_connect", connect_then_end_the_first)
            async with FabricClient(targets[:1]) as after:
                assert after.switches[3].is_primary

    asyncio.run(run())


def test_nobody_answers():
    async def run() -> None:
        with pytest.raises(DetourError, match=r"switch s0 \(device 1\) at 127.0.0.1:1: UNAVAILABLE"):
            async with FabricClient([SwitchTarget("s0", 1, "127.0.0.1:1")]):
                pass

    asyncio.run(run())


def test_counters_and_packet_io(targets):
    async def run() -> None:
        got: asyncio.Queue[tuple[bytes, dict[str, int]]] = asyncio.Queue()

        async def handler(switch: SwitchClient, frame: bytes, header: dict[str, int]) -> None:
            await got.put((frame, header))

        async with FabricClient(targets[:1], on_packet_in=handler) as fabric:
            monitor = Monitor(fabric, {3: [1, 2]})
            before = await monitor.sample()
            rule = TableEntry.of("FabricIngress.acl.rules", {}, Action.of("FabricIngress.acl.punt"), priority=1)
            await reconcile(fabric, {3: [rule]})
            frame = bytes(12) + b"\x86\xdd" + bytes([0x60]) + bytes(5) + bytes([59, 9]) + bytes(32)
            await fabric.switches[3].packet_out(frame)
            assert await asyncio.wait_for(got.get(), PATIENCE_S) == (frame, {"ingress_port": 510, "reason": 10})
            await fabric.switches[3].packet_out(frame, egress_port=2)
            change = (await monitor.sample()).since(before)
            assert change.reason(3, 10).packets == 1
            assert change.dropped(3) == 0
            assert change.seconds > 0

    asyncio.run(run())


def test_a_refused_pipeline_is_told(targets, tmp_path):
    blob = tmp_path / "broken.json"
    blob.write_text("no JSON")

    async def run() -> None:
        with pytest.raises(DetourError, match=r"switch s2 \(device 3\) at .*: [A-Z_]+: "):
            async with FabricClient(targets, PipelineConfig(PipelineConfig.fabric().p4info, blob)):
                pass

    asyncio.run(run())


def test_a_controller_that_takes_over_gives_back(targets):
    async def run() -> None:
        plan: Plan = {3: [route(1, 1)], 4: [route(2, 1)]}
        async with FabricClient(targets) as fabric:
            await reconcile(fabric, plan)
            async with FabricClient(targets, election_id=11) as other:
                await reconcile(other, {3: [route(5, 1)]})
                with pytest.raises(DetourError, match=r"s2 .*refuses writes: another controller is primary .*id 11\)"):
                    await reconcile(fabric, plan)
                displaced = [switch.displaced for switch in fabric.switches.values()]
                assert [each.election_id for each in displaced if each is not None] == [11, 11]
                fabric.switches[3].forgive()
                assert fabric.switches[3].displaced is not None  # the other one is still there
            async with asyncio.timeout(PATIENCE_S):
                while not all(switch.switch.is_primary for switch in fabric.switches.values()):
                    await asyncio.sleep(0.01)
            assert (await reconcile(fabric, plan)).inserted == 1
            fabric.switches[3].forgive()
            assert [switch.displaced is None for switch in fabric.switches.values()] == [True, False]

    asyncio.run(run())
