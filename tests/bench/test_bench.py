# SPDX-License-Identifier: Apache-2.0
"""`detour bench`: packets, the search for the best rate, reports, and small runs of every benchmark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from scapy.layers.inet import UDP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrHopByHop
from scapy.layers.l2 import Ether

from detour.base.places import BUILD
from detour.base.records import as_json
from detour.engine.clock import Virtual
from detour.engine.compiler.program import Program
from detour.engine.network import Network
from detour.engine.state import SwitchState
from detour.experiments.bench import acl, dragonfly, fabric, inprocess, namespace, switch, tables
from detour.experiments.bench.dragonfly import BenchFabric
from detour.experiments.bench.fabric import LoadPoint
from detour.experiments.bench.report import Goal, ratio
from detour.experiments.bench.switch import Rate, Size
from detour.topo import parse_topology
from tests.packet_runner import PacketRunner

D1 = parse_topology("dragonfly:p=2,a=4,h=2")


def bench(*arguments: str, path: str | None = None) -> dict:
    """Runs `detour bench ... --json` without BMv2 on PATH; standard output is one JSON object."""
    environment = os.environ | {"PATH": path or "/usr/bin:/bin:/usr/sbin:/sbin"}
    command = [sys.executable, "-m", "detour.cli", "bench", *arguments, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


# -- packets -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [64, 70, 512, 1500])
def test_packets_have_their_size_and_are_what_hosts_send(size: int) -> None:
    result = dragonfly.through_switch(D1, size)
    assert {len(frame) for frame in result} == {size}
    assert len(set(result)) > 32
    for number, frame in enumerate(result):
        packet = Ether(frame)
        ipv6 = packet[IPv6]
        assert ipv6.plen == size - 54
        assert ipv6.tc == 2  # ECT(0)
        by_usids = ipv6.dst.startswith("fcbb:bb00:1:")
        assert by_usids == (number % 2 == 0)
        if size >= 70:
            assert IPv6ExtHdrHopByHop in packet
            assert packet[UDP].dport == 4791
            assert packet[UDP].len == size - 62
        elif by_usids:
            assert IPv6ExtHdrHopByHop in packet
        else:
            assert packet[UDP].len == size - 54


def test_partners_are_everybody_and_far_apart() -> None:
    pairs = dragonfly.partners(D1)
    assert sorted(host.index for pair in pairs for host in pair) == list(range(72))
    assert all(one.group != other.group for one, other in pairs)
    long = dragonfly.between(pairs, 512, 144)
    assert {Ether(frame)[IPv6].hlim for _, frame in long} == {255}
    assert {host.index for host, _ in long} == set(range(72))


# -- the search --------------------------------------------------------------------------------------------


def test_the_load_rises_until_more_brings_no_more() -> None:
    def switch_of_100k(rate: float) -> Rate:
        delivered = rate if rate <= 100_000 else 100_000 * 100_000 / rate
        return Rate(rate, delivered, 1 - delivered / rate)

    rates = switch.best_rate(switch_of_100k, 20_000)
    assert 80_000 < switch.best(rates) <= 100_000
    assert len(rates) < 18


def test_the_highest_load_without_loss_is_narrowed_down() -> None:
    def switch_of_100k(rate: float) -> Rate:
        delivered = min(rate, 100_000)
        return Rate(rate, delivered, 1 - delivered / rate)

    rates = [switch_of_100k(rate) for rate in (64_000, 80_000, 120_000)]
    switch.narrow(switch_of_100k, rates)
    assert 97_000 < switch.lossless(rates) <= 100_000
    assert switch.lossless([Rate(1000, 900, 0.1)]) == 0


def test_loads_that_were_lost_once_are_offered_again() -> None:
    """Two of three loads are disturbed, those that rise too."""
    offers = iter(range(1000))

    def disturbed(rate: float) -> Rate:
        delivered = min(rate, 100_000 if next(offers) % 3 == 2 else 0.9 * rate)
        return Rate(rate, delivered, 1 - delivered / rate)

    rates = [Rate(rate, 0.9 * rate, 0.1) for rate in (64_000, 80_000, 120_000)]
    rates.append(Rate(50_000, 50_000, 0.0))
    switch.narrow(disturbed, rates)
    assert 95_000 < switch.lossless(rates) <= 100_000


def test_a_generator_at_its_limit_ends_the_search() -> None:
    rates = switch.best_rate(lambda rate: Rate(min(rate, 50_000), min(rate, 50_000), 0.0), 20_000)
    assert switch.best(rates) == 50_000


def test_one_disturbed_load_does_not_end_it() -> None:
    seen: list[float] = []

    def disturbed(rate: float) -> Rate:
        seen.append(rate)
        if len(seen) == 3:
            return Rate(rate / 4, rate / 4, 0.0)
        return Rate(rate, min(rate, 100_000), max(0.0, 1 - 100_000 / rate))

    assert switch.best(switch.best_rate(disturbed, 20_000)) == 100_000


# -- reports -----------------------------------------------------------------------------------------------


def test_goals() -> None:
    assert Goal("", 3.0, 3.0).met
    assert not Goal("", 2.0, 3.0).met
    assert Goal("", 2.0, 3.0, most=True).met
    assert Goal("", None, 3.0).met is None
    assert ratio(None, 3.0) is None
    assert ratio(3.0, None) is None
    assert ratio(6.0, 3.0) == 2


def test_report_of_bench_switch() -> None:
    sizes = [
        Size(64, 4e6, 3e5, 5e4, 2e5, 4e5, 30.0, 90.0, 20.0),
        Size(1500, 3e6, 2e5, 5e4, 2e5, 5e5, 40.0, 60.0, 20.0),
    ]
    assert switch.report(sizes, []).numbers == {
        "sizes": [as_json(each) for each in sizes],
        "ratio_in_process": 60.0, "ratio_veth": 4.0, "ratio_lossless": 4.0, "ratio_forwarder": 0.4,
        "ratio_latency": 1.5,
    }  # fmt: skip
    alone = switch.report([Size(64, 4e6, None, None)], ["no BMv2"])
    assert alone.numbers["ratio_in_process"] is None
    assert alone.numbers["ratio_veth"] is None
    assert [goal.met for goal in alone.goals] == [None] * 4
    assert len(alone.table().rows) == 1
    assert [goal.measured for goal in alone.goals] == ["not measured"] * 4


def test_report_of_bench_fabric_counts_only_loads_that_are_kept_up_with() -> None:
    own = [LoadPoint(500, 5e5, 0.0), LoadPoint(1000, 1e6, 5.0), LoadPoint(2000, 1.5e6, 5000.0)]
    assert fabric.report(own, [LoadPoint(36, 2e4)], []).numbers == {
        "engine_hops_per_s": 1e6, "bmv2_hops_per_s": 2e4, "ratio": 50.0,
    }  # fmt: skip
    assert fabric.report(own, [], []).numbers["ratio"] is None


# -- small runs --------------------------------------------------------------------------------------------


def test_packets_in_process_are_forwarded() -> None:
    assert switch.in_process(BenchFabric(), 512, 0.05) > 10_000


@pytest.mark.parametrize(("ports", "hit"), [("range", True), ("range", False), ("prefix", True), ("prefix", False)])
def test_packets_hit_access_lists_or_miss_them(ports: str, hit: bool) -> None:
    program = Program.from_json((BUILD / "bench_tables.json").read_text())
    listed, (kind, port) = acl.rules(300), tables.ACL_TABLES[ports]
    switch = PacketRunner(program)
    for key, priority in tables.acl_entries(listed, ports):
        switch.state.tables[tables.table_name(kind)].insert(key, "BenchIngress.forward", (5,), priority)
    for header in acl.headers(listed, 100, hit):
        assert switch.run(tables.acl_frame(header, ports), port).egress_spec == (5 if hit else 8)


@pytest.mark.parametrize(("kind", "port"), tables.PORTS.items())
def test_every_entry_of_every_kind_of_table_is_hit(kind: str, port: int) -> None:
    program = Program.from_json((BUILD / "bench_tables.json").read_text())
    expected = tables.random_entries(kind, 300)
    assert len(expected) == 300
    state = SwitchState(program, 1, Virtual.tick_ps)
    for key, priority in expected.values():
        state.tables[tables.table_name(kind)].insert(key, "BenchIngress.forward", (5,), priority)
    hits: list[bytes] = []
    with Network(Virtual(), packets=1024) as network:
        network.add_switch(1)
        network.add_switch(inprocess.NOWHERE)
        network.connect((1, port), (inprocess.NOWHERE, port))
        network.attach_sink((1, 5), lambda frame, _: hits.append(frame))
        network.set_pipeline(1, program, state)
        sent = [tables.frame(kind, key) for key in expected]
        for number, frame in enumerate(sent):
            network.inject((1, port), frame, number * 1000)
        network.run(1_000_000_000)
    assert sorted(hits) == sorted(sent)


def test_tables() -> None:
    result = bench("tables", "--entries", "10", "1k", "--seconds", "0.05")
    assert [(point["kind"], point["entries"]) for point in result["points"]] == [
        (kind, size) for kind in ("exact", "lpm", "ternary") for size in (10, 1000)
    ]
    assert [(point["entries"], point["ports"], point["packets"]) for point in result["acl"]] == [
        (size, ports, packets) for size in (10, 1000) for ports in ("range", "prefix") for packets in ("hit", "miss")
    ]
    assert all(point["pps"] > 0 for point in (*result["points"], *result["acl"]))


def test_access_lists() -> None:
    listed = acl.rules(500, seed=3)
    assert len(set(listed)) == 500
    assert listed == acl.rules(500, seed=3) != acl.rules(500, seed=4)
    assert [rule.scope for rule in listed] == sorted(rule.scope for rule in listed)
    for ports in ((0, 65535), (1024, 65535), (7, 7), (5000, 5010)):
        covered = [value | rest for value, mask in acl.blocks(ports) for rest in range((1 << 16) - mask)]
        assert covered == list(range(ports[0], ports[1] + 1))
    assert len(list(acl.blocks((1024, 65535)))) == 6
    assert 450 <= len(tables.acl_entries(tables.acl_rules(500, "prefix"), "prefix")) <= 500


def test_p4runtime() -> None:
    result = bench("p4runtime", "--entries", "1000", "--batch", "100")
    assert result["written_per_s"] == min(table["insert_per_s"] for table in result["tables"])
    assert all(table["entries"] == 1000 for table in result["tables"])


@pytest.mark.long
def test_fabric_without_bmv2() -> None:
    result = bench("fabric", "--seconds", "0.5")
    assert result["engine_hops_per_s"] > 0
    assert result["bmv2_hops_per_s"] is None
    assert result["ratio"] is None


@pytest.mark.long
@pytest.mark.skipif(bool(namespace.unavailable()), reason=namespace.unavailable())
def test_switch_without_bmv2() -> None:
    result = bench("switch", "--sizes", "64", "--seconds", "0.1")
    (size,) = result["sizes"]
    assert size["bytes"] == 64
    assert size["engine_pps"] > 0
    assert size["engine_veth_pps"] > 0
    assert size["engine_latency_us"] > 0
    assert size["forwarder_latency_us"] > 0
    assert size["bmv2_pps"] is None
    assert result["ratio_veth"] is None
    assert not list(Path("/sys/class/net").glob("t7"))
