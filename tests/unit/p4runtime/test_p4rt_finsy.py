# SPDX-License-Identifier: Apache-2.0
"""finsy, the client library that our own control plane is made of, against the server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import finsy as fy
import pytest

from detour.engine.p4runtime import P4RuntimeServer
from tests.unit.p4runtime.harness import PROGRAMS, FakeNetwork
from tests.waiting import PATIENCE_S


def options(device_id: int = 1, **more: Any) -> fy.SwitchOptions:
    return fy.SwitchOptions(
        p4info=PROGRAMS / "everything.p4info.txtpb", p4blob=PROGRAMS / "everything.json", device_id=device_id, **more
    )


def run(main: Callable[[], Any]) -> None:
    asyncio.run(asyncio.wait_for(main(), PATIENCE_S))


def route(prefix: str, port: int) -> fy.P4TableEntry:
    return fy.P4TableEntry(
        "lpm_route", match=fy.Match({"hdr.ipv6.dst_addr": prefix}), action=fy.Action("route", port=port, mac=5)
    )


def encoded(sw: fy.Switch, *entries: fy.P4TableEntry) -> list[Any]:
    return [e.encode(sw.p4info) for e in entries]


def read(sw: fy.Switch, entity: Any) -> AsyncIterator[Any]:
    """finsy declares `Switch.read` as a coroutine, which it is not."""
    return sw.read(entity)  # pyright: ignore[reportReturnType]


async def entries(sw: fy.Switch, table: str) -> list[Any]:
    return [e.encode(sw.p4info) async for e in read(sw, fy.P4TableEntry(table))]


def test_session(server: P4RuntimeServer, network: FakeNetwork) -> None:
    async def main() -> None:
        async with fy.Switch("s1", server.target, options()) as sw:
            assert sw.is_primary
            rule = fy.P4TableEntry(
                "acl",
                match=fy.Match(
                    {
                        "hdr.ipv6.src_addr": "fd00::1/&ffff::ffff",
                        "hdr.ipv6.next_header": 17,
                        "std.ingress_port": "2...9",
                        "hdr.ethernet.ether_type": 0x86DD,
                    }
                ),
                action=fy.Action("drop"),
                priority=10,
            )
            await sw.write([+route("fd00::/16", 3), +route("fd01::/16", 4), +rule])
            assert await entries(sw, "lpm_route") == encoded(sw, route("fd00::/16", 3), route("fd01::/16", 4))
            await sw.write([~route("fd00::/16", 9), -route("fd01::/16", 0)])
            assert await entries(sw, "lpm_route") == encoded(sw, route("fd00::/16", 9))
            assert await entries(sw, "acl") == encoded(sw, rule)
            await sw.write([+fy.P4MulticastGroupEntry(1, replicas=[1, 2]), +fy.P4CloneSessionEntry(5, replicas=[510])])
            assert network.groups[1] == {1: [(1, 0), (2, 0)]}
            default = fy.P4TableEntry("lpm_route", is_default_action=True, action=fy.Action("to_cpu", reason=1))
            await sw.write([~default, +fy.P4DigestEntry("learn_t", max_list_size=1)])
            await sw.write([-fy.P4MulticastGroupEntry(1)])
            assert network.groups[1] == {}
            await sw.delete_all()
            assert await entries(sw, "lpm_route") == []

    run(main)


def test_packets_and_digests(server: P4RuntimeServer, network: FakeNetwork) -> None:
    async def main() -> None:
        async with fy.Switch("s1", server.target, options()) as sw:
            await sw.write([+fy.P4DigestEntry("learn_t", max_list_size=1)])
            packets, digests = sw.read_packets(), sw.read_digests("learn_t")
            await sw.write([fy.P4PacketOut(b"payload", egress_port=5, _pad=0)])
            assert await asyncio.to_thread(network.packets_out.get, timeout=PATIENCE_S) == (1, b"\x02\x80payload")
            network.packet_in[1]((3 << 39 | 9).to_bytes(6, "big") + bytes(60), 0)
            packet = await anext(packets)
            assert (packet["ingress_port"], packet["reason"], packet.payload) == (3, 9, bytes(60))
            network.digest[1](1, bytes(5) + b"\7\0\3", 0)
            (data,) = await anext(digests)
            assert data == {"address": 7, "port": 3}

    run(main)


def test_errors_have_the_entity(server: P4RuntimeServer) -> None:
    async def main() -> None:
        async with fy.Switch("s1", server.target, options()) as sw:
            await sw.write([+route("fd00::/16", 3)])
            with pytest.raises(fy.P4ClientError) as caught:
                await sw.write([+route("fd01::/16", 3), +route("fd00::/16", 3)])
            (detail,) = caught.value.details.values()
            assert detail.canonical_code == fy.GRPCStatusCode.ALREADY_EXISTS

    run(main)


def test_two_controllers(server: P4RuntimeServer) -> None:
    async def main() -> None:
        low = fy.Switch("low", server.target, options(initial_election_id=5))
        async with low:
            assert low.is_primary
            high = fy.Switch("high", server.target, options(initial_election_id=9))
            async with high:
                assert high.is_primary
                async with asyncio.timeout(PATIENCE_S):
                    while low.is_primary:
                        await asyncio.sleep(0.01)
                with pytest.raises(fy.P4ClientError) as caught:
                    await low.write([+route("fd00::/16", 3)])
                assert caught.value.code == fy.GRPCStatusCode.PERMISSION_DENIED

    run(main)


def test_errors_that_finsy_knows_by_their_text(server: P4RuntimeServer) -> None:
    async def main() -> None:
        bare = fy.SwitchOptions(device_id=2, initial_election_id=5)
        async with fy.Switch("s2", server.target, bare) as sw:
            with pytest.raises(fy.P4ClientError) as caught:
                [e async for e in read(sw, fy.P4MulticastGroupEntry(0))]
            assert caught.value.is_pipeline_missing
            # finsy tries lower election ids until one is free; then it is a backup.
            async with fy.Switch("other", server.target, bare) as other:
                assert not other.is_primary

    run(main)
