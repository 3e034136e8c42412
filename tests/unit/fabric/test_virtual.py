# SPDX-License-Identifier: Apache-2.0
"""A fabric in virtual time: connections deliver, schemes do what they are called, closed forms hold."""

from __future__ import annotations

import weakref
from dataclasses import replace

import numpy as np
import pytest

from detour.base.dataplane import PACKET_BYTES, PAYLOAD
from detour.base.errors import DetourError
from detour.base.times import US
from detour.control import schema
from detour.control.policy import NoMarking
from detour.control.routes.adaptive import group_links
from detour.experiments.running import jain
from detour.fabric.backends.base import address_hosts
from detour.fabric.backends.settings import BackendSettings
from detour.fabric.backends.virtual.fabric import ENDLESS, VirtualFabric
from detour.fabric.backends.virtual.scheme import (
    BENCHMARK,
    LERP_WITHOUT_PFC,
    ROCE_WITH_PFC,
    SCHEMES,
    SHORTEST_PATH,
    SPRAY_LERP,
    TELEMETRY_LERP,
    LinkSettings,
    RunSettings,
    Scheme,
    SwitchMemory,
    scheme,
)
from detour.topo import parse_topology
from detour.topo.address import GATEWAY_MAC, host_mac

D1 = parse_topology("d1")
LEAVES = parse_topology("leaf-spine:leaves=2,spines=2,hosts=4")
RATE = 100_000_000_000
MOST_HOSTS = 1 << 23
PACKET_PS = PACKET_BYTES * 8 * 10**12 // RATE


def delivered(fabric: VirtualFabric) -> np.ndarray:
    return fabric.column("st_rx_bytes")


@pytest.mark.parametrize("chosen", SCHEMES.values(), ids=SCHEMES)
def test_every_scheme_delivers(chosen: Scheme) -> None:
    with VirtualFabric(D1, chosen, queue_pairs=4) as fabric:
        fabric.connect([(0, 8), (1, 8), (2, 71), (40, 3)])
        fabric.send(200_000)
        fabric.run(400 * US)
        assert fabric.unfinished() == 0
        assert delivered(fabric).tolist() == [200_000] * 4
        assert len(fabric.completion_times_ps()) == 4
        assert fabric.network.loop_stats()["pool_drops"] == 0


def test_a_topology_gives_hosts_the_same_macs_on_every_backend() -> None:
    """Both times: the hosts' own and the gateway's, which is nobody's else."""
    settings = BackendSettings(RATE, US, 64, 20, arena_bytes=1 << 16, queue_pairs=4)
    real = address_hosts(settings.host_arrays(LEAVES), LEAVES)
    with VirtualFabric(LEAVES, SCHEMES["TelemetryLERP"], queue_pairs=1) as fabric:
        for column in ("mac", "gateway", "addr_hi", "addr_lo", "usid_hi", "usid_lo"):
            assert fabric.hs.host[column].tolist() == real.host[column].tolist()
    assert set(real.host["gateway"].tolist()) == {GATEWAY_MAC}
    assert GATEWAY_MAC not in real.host["mac"].tolist()
    assert host_mac(MOST_HOSTS - 1) < GATEWAY_MAC, "of hosts without a topology MACs count up to 2**23"


def test_zero_load_latency_is_the_sum_of_its_parts() -> None:
    """Host 0 to host 1 at the same switch, and across two leaves: links, delays, and nothing else."""
    links = LinkSettings(host_delay_ps=500_000, local_delay_ps=2 * US)
    for target, hops in ((1, ("host", "host")), (4, ("host", "local", "local", "host"))):
        with VirtualFabric(LEAVES, LERP_WITHOUT_PFC, RunSettings(links), queue_pairs=1) as fabric:
            fabric.connect([(0, target)])
            fabric.send(PAYLOAD)
            one_way = sum(links.delay_ps(kind) + PACKET_PS for kind in hops)
            fabric.run(one_way - 1)
            assert delivered(fabric).sum() == 0
            fabric.run(one_way)
            assert delivered(fabric).sum() == PAYLOAD


def incast(chosen: Scheme, sources: int, memory: SwitchMemory, until: int, **changes: int) -> VirtualFabric:
    """Hosts of one switch send to one more host of it."""
    topology = parse_topology(f"leaf-spine:leaves=1,spines=1,hosts={sources + 1}")
    chosen = replace(chosen, hosts=tuple(changes.items()))
    fabric = VirtualFabric(topology, chosen, RunSettings(memory=memory), queue_pairs=sources)
    fabric.connect([(host, sources) for host in range(sources)])
    fabric.send(ENDLESS)
    fabric.run(until)
    return fabric


@pytest.mark.parametrize("local_us", [1, 5])
def test_the_bandwidth_delay_product_is_that_of_the_longest_shortest_path(local_us: int) -> None:
    links = LinkSettings(local_delay_ps=local_us * US)
    with VirtualFabric(D1, SPRAY_LERP, RunSettings(links=links), queue_pairs=64) as fabric:
        fabric.connect([(0, b) for b in range(8, 72)])
        for flow in range(fabric.count):
            fabric.send(PAYLOAD, np.array([flow]))
            fabric.run(fabric.now_ps + 100 * US)
        longest = int(fabric.column("srtt").max()) / PACKET_PS
        assert fabric.config.bdp_packets == pytest.approx(longest, abs=3)


@pytest.mark.parametrize("sources", [2, 6])
def test_dctcp_flows_share_a_link(sources: int) -> None:
    with incast(LERP_WITHOUT_PFC, sources, SwitchMemory(), 1_000 * US) as fabric:
        before = delivered(fabric)
        fabric.run(9_000 * US)
        rates = (delivered(fabric) - before) * 8 / 8e6
        assert rates.sum() == pytest.approx(100 * PAYLOAD / PACKET_BYTES, rel=0.01)
        assert jain(rates) > 0.95
        # the queue oscillates about K (80 kB), so it stays far from what the memory would hold
        row = fabric.network.port_stats()
        assert row["queue_bytes"].max() < 160_000


def losses(fabric: VirtualFabric) -> int:
    stats = [fabric.network.buffer_stats(switch.device_id) for switch in fabric.topology.switches]
    return sum(s["buffer_drops"] + s["headroom_drops"] for s in stats)


BLIND = replace(ROCE_WITH_PFC, ecn=NoMarking())
"""no congestion control to speak of: PFC alone must hold the senders"""


def test_pfc_loses_nothing_with_the_headroom_of_the_formula() -> None:
    with incast(BLIND, 8, SwitchMemory(), 500 * US) as fabric:
        stats = fabric.network.buffer_stats(1)
        assert stats["pauses_sent"] > 8
        assert stats["headroom_drops"] == 0
        assert fabric.column("st_retransmitted").sum() == 0
        assert delivered(fabric).sum() * 8 / 500e3 > 85
        assert fabric.deadlock() == []


def test_pfc_loses_with_too_little_headroom() -> None:
    # 2 us of a link are 25 kB that are on their way when the pause is sent; 2 kB cannot take them
    memory = SwitchMemory(port_bytes=30_000, headroom_bytes=2_000)
    with incast(BLIND, 8, memory, 500 * US) as fabric:
        assert fabric.network.buffer_stats(1)["headroom_drops"] > 0
        assert fabric.column("st_retransmitted").sum() > 0


def test_without_pfc_the_same_incast_loses() -> None:
    with incast(replace(BLIND, pfc=False), 8, SwitchMemory(), 500 * US) as fabric:
        assert losses(fabric) > 0
        assert fabric.network.buffer_stats(1)["pauses_sent"] == 0


def test_telemetry_leaves_the_full_direct_link() -> None:
    pairs = [(source, 8 + target) for source in range(8) for target in (0, 3, 6)]
    shares = {}
    for chosen in (TELEMETRY_LERP, SHORTEST_PATH):
        with VirtualFabric(D1, chosen, queue_pairs=len(pairs)) as fabric:
            fabric.connect(pairs)
            fabric.send(ENDLESS)
            fabric.run(400 * US)
            before = delivered(fabric).sum()
            fabric.run(800 * US)
            shares[chosen.name] = (delivered(fabric).sum() - before) * 8 / 400e3
            shortest, detours = fabric.packets_by_path()
            assert (detours > shortest) == (chosen is TELEMETRY_LERP)
    assert shares["ShortestPath"] <= 100 * PAYLOAD / PACKET_BYTES * 1.001
    assert shares["TelemetryLERP"] > 2 * shares["ShortestPath"]


def test_switches_see_the_loads_of_their_group() -> None:
    """Ideal PiggyBack: all switches of a group read the same numbers, those of the queues at its global links."""
    pairs = [(source, 8 + target) for source in range(8) for target in range(8)]
    with VirtualFabric(D1, BENCHMARK, queue_pairs=64) as fabric:
        fabric.connect(pairs)
        fabric.send(ENDLESS)
        fabric.run(50 * US)
        stats = fabric.network.port_stats()
        queues = dict(zip(zip(stats["device_id"], stats["port"], strict=True), stats["queue_packets"], strict=True))
        first = fabric.states[D1.switches[D1.members[0][0]].device_id]
        loads = first.registers[schema.GROUP_LOAD]
        seen = {peer: loads.read(peer) for peer in group_links(D1, 0)}
        assert seen == {peer: int(queues[port]) for peer, port in group_links(D1, 0).items()}
        assert sum(seen.values()) > 0
        decided = first.counters[schema.DECISIONS]
        assert decided.read(0)[0] > 0
        assert decided.read(1)[0] > 0


def run_once(seed: int) -> list[int]:
    with VirtualFabric(D1, TELEMETRY_LERP, RunSettings(seed=seed), queue_pairs=16) as fabric:
        fabric.connect([(a, 8 + (a * 3 + k) % 8) for a in range(8) for k in (0, 1)])
        fabric.send(ENDLESS)
        fabric.run(300 * US)
        return [
            *delivered(fabric).tolist(),
            *fabric.column("st_reroutes").tolist(),
            fabric.network.loop_stats()["events"],
        ]


def test_same_seed_same_run() -> None:
    assert run_once(5) == run_once(5)
    assert run_once(5) != run_once(6)


def test_refusals() -> None:
    with pytest.raises(DetourError, match="allowed: all, TelemetryLERP"):
        scheme("fastest")
    with pytest.raises(DetourError, match="threshold=-1 is not 0 to"):
        BENCHMARK.with_threshold(-1)
    with pytest.raises(DetourError, match="needs a reordering receiver"):
        replace(BENCHMARK, reorder=False)
    with pytest.raises(DetourError, match="7 virtual channels"):
        replace(SHORTEST_PATH, channels=7)
    with pytest.raises(DetourError, match="no third group"):
        VirtualFabric(parse_topology("dragonfly:p=2,a=1,h=1"), BENCHMARK)
    with pytest.raises(DetourError, match="virtual channels rise at a Dragonfly's global links"):
        VirtualFabric(LEAVES, SHORTEST_PATH)
    with pytest.raises(DetourError, match="PFC needs headroom"):
        VirtualFabric(D1, SHORTEST_PATH, RunSettings(memory=SwitchMemory(headroom_bytes=0)))
    with VirtualFabric(LEAVES, LERP_WITHOUT_PFC) as fabric, pytest.raises(DetourError, match="no connections yet"):
        fabric.send(1)


def test_a_closed_fabric_is_gone_when_the_next_one_is_there() -> None:
    """Though it is in circles of objects, which are old."""
    with VirtualFabric(D1, TELEMETRY_LERP, queue_pairs=4) as first:
        tables = weakref.ref(first.hs)
    del first
    with VirtualFabric(D1, TELEMETRY_LERP, queue_pairs=4):
        assert tables() is None
