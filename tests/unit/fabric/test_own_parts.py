# SPDX-License-Identifier: Apache-2.0
"""Schemes and planners of a file: found, used, and told apart from the next version of the same file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from detour.base.errors import DetourError
from detour.base.plugins import load
from detour.base.times import US
from detour.control.planner import plan, planner
from detour.control.policy import Policy
from detour.fabric.backends.virtual.fabric import ENDLESS, VirtualFabric
from detour.fabric.backends.virtual.scheme import BENCHMARK, SHORTEST_LERP, SPRAY_LERP, TELEMETRY_GBN, Scheme, scheme
from detour.topo import Failure, parse_topology
from detour.topo.failures import NONE
from tests.native import control_state

LEAVES = parse_topology("leaf-spine:leaves=2,spines=2,hosts=1")

OWN = """
from dataclasses import replace
from detour.control.planner import plan
from detour.fabric.backends.virtual.scheme import SHORTEST_LERP

calls = []

def counted(topology, policy, failures):
    calls.append(len(failures))
    return plan(topology, policy, failures)

def broken(topology, policy, failures):
    return topology.no_such_thing

mine = replace(SHORTEST_LERP, name="whatever", planner=__file__ + ":counted")
number = 7

def made():
    return mine

def nothing(topology, policy, failures):
    return 7
"""


def test_a_scheme_of_ones_own_is_called_as_it_was_found(own: str) -> None:
    mine = scheme(f"{own}:mine")
    assert mine.name.startswith(f"{own}:mine#")
    assert (mine.transport, mine.paths) == ("lerp", "shortest")
    assert scheme(mine.name) == mine
    assert scheme(f"{own}:made").transport == "lerp"
    Path(own).write_text(OWN + "\n# another version\n")
    with pytest.raises(DetourError, match="has changed since"):
        scheme(mine.name)


def test_names_of_schemes_that_there_are(own: str) -> None:
    assert scheme("spraylerp") is SPRAY_LERP
    with pytest.raises(DetourError, match=r"there is no scheme 'SprayLRP'; did you mean SprayLERP"):
        scheme("SprayLRP")
    with pytest.raises(DetourError, match=r"own\.py:16: it is a int, and not a Scheme"):
        scheme(f"{own}:number")


def test_a_planner_of_ones_own_makes_the_entries(own: str) -> None:
    with VirtualFabric(LEAVES, scheme(f"{own}:mine"), queue_pairs=2) as fabric:
        assert fabric.replan(frozenset({Failure("link", 0)})) > 0
        assert fabric.installed().keys() == plan(LEAVES).keys()
    assert load(f"{own}:calls") == [0, 0, 1]


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"transport": "lrep"}, "there is no transport 'lrep'; did you mean lerp"),
        ({"routing": "shortest"}, "there is no routing 'shortest'"),
        ({"hosts": (("empty_gian", 0.5),)}, "there is no parameter of hosts 'empty_gian'; did you mean .*empty_gain"),
        ({"hosts": (("empty_gain", 2),)}, "host parameter empty_gain is 2; it must be from 0 to 1"),
        ({"ecn": 80_000}, "ecn is 80000, and no marking"),
    ],
)
def test_a_wrong_scheme_is_told_with_its_line(tmp_path: Path, wrong: dict[str, Any], reason: str) -> None:
    (tmp_path / "own.py").write_text(f"{OWN}bad = replace(mine, **{wrong!r})\n")
    with pytest.raises(DetourError, match=rf"own\.py:{OWN.count(chr(10)) + 1}: .*{reason}"):
        scheme(f"{tmp_path}/own.py:mine")


def test_planners_that_are_wrong(own: str) -> None:
    with pytest.raises(DetourError, match=r"own\.py:13: AttributeError"):
        planner(f"{own}:broken")(LEAVES, Policy(), NONE)
    with pytest.raises(DetourError, match=r"own\.py:21: it returns 7; expected lists of entities for devices"):
        planner(f"{own}:nothing")(LEAVES, Policy(), NONE)
    with pytest.raises(DetourError, match=r"is a int, and not a function of topology, policy and failures"):
        planner(f"{own}:number")
    with pytest.raises(DetourError, match=r"no planner 'shortest'; did you mean shortest-paths"):
        planner("shortest")


ROUTING = """
from dataclasses import replace
from detour.control.routes.adaptive import ADAPTIVE, plan_adaptive

asked = []

def entries(topology, policy, failures, switch):
    asked.append((switch.index, policy.routing.values["threshold"]))
    return plan_adaptive(topology, policy, failures, switch)

MINE = replace(ADAPTIVE, entries=entries)
"""


def test_a_routing_of_ones_own_is_asked_for_every_switch(tmp_path: Path) -> None:
    (tmp_path / "way.py").write_text(ROUTING)
    topology, name = parse_topology("dragonfly:p=1,a=2,h=1"), f"{tmp_path}/way.py:MINE"
    mine = replace(BENCHMARK, routing=f"{name}:threshold=20")
    usual = replace(BENCHMARK, routing="adaptive:threshold=20")
    assert mine.policy.program == "adaptive"
    assert plan(topology, mine.policy) == plan(topology, usual.policy)
    assert load(f"{tmp_path}/way.py:asked") == [(switch.index, 20) for switch in topology.switches]
    with pytest.raises(DetourError, match="there is no parameter weight; allowed: threshold"):
        replace(BENCHMARK, routing=f"{name}:weight=1")
    with pytest.raises(DetourError, match="needs a reordering receiver"):
        replace(mine, reorder=False)


# -- congestion control on a fabric --------------------------------------------------------------------------


EXAMPLES = Path(__file__).resolve().parents[3] / "docs" / "examples"
TREE = parse_topology("leaf-spine:leaves=3,spines=2,hosts=4")
PAIRS = [(host, 0) for host in range(4, 12)]


def incast(scheme: Scheme) -> tuple[float, float]:
    """Share of a link's payload that eight senders to one get in the second millisecond, and the mean delay of their
    packets, us."""
    with VirtualFabric(TREE, scheme, queue_pairs=len(PAIRS)) as fabric:
        fabric.connect(PAIRS)
        fabric.send(ENDLESS)
        fabric.run(1000 * US)
        before = [fabric.column(name).sum() for name in ("st_rx_bytes", "st_delay_sum", "st_delay_samples")]
        fabric.run(2000 * US)
        after = [fabric.column(name).sum() for name in ("st_rx_bytes", "st_delay_sum", "st_delay_samples")]
    received, delay, samples = np.subtract(after, before)
    return received * 8 / 1e-3 / 100e9, delay / samples / 1000


@pytest.mark.parametrize("name", ["swift.py:SWIFT:base_target_us=10", "hpcc_delay.py:HPCC_DELAY"])
def test_an_incast_fills_the_link_with_a_shorter_queue_than_dctcp(name: str) -> None:
    share, delay = incast(SHORTEST_LERP.with_control(f"{EXAMPLES}/{name}"))
    usual, longer = incast(SHORTEST_LERP)
    assert share > 0.8 * usual
    assert delay < 0.8 * longer


def test_it_works_with_go_back_n() -> None:
    scheme = replace(TELEMETRY_GBN, paths="shortest").with_control(f"{EXAMPLES}/swift.py:SWIFT")
    share, delay = incast(scheme)
    assert share > 0.7
    assert delay < 20


def test_what_is_no_congestion_control_is_told_before_anything_is_built() -> None:
    with pytest.raises(DetourError, match="there is no congestion control 'bbr'"):
        SHORTEST_LERP.with_control("bbr")


WITNESS = """
from dataclasses import dataclass
from detour.hosts.cc.plugin import CongestionAlgorithm, hook

@dataclass(frozen=True)
class Nothing:
    unused: int = 0

@hook
def on_sent(p, s, q, packet, now):
    s.sent += 1

@hook
def on_acked(p, s, q, packet, now):
    s.acked += 1
    if packet.rtt >= 0:
        s.least_hops = packet.hops if s.known == 0 else min(s.least_hops, packet.hops)
        s.most_hops = max(s.most_hops, packet.hops)
        s.least_rtt = packet.rtt if s.known == 0 else min(s.least_rtt, packet.rtt)
        s.most_delay = max(s.most_delay, packet.delay)
        s.marked += packet.marked
        s.known += 1

NAMES = "sent acked known least_hops most_hops least_rtt most_delay marked".split()
WITNESS = CongestionAlgorithm(Nothing(), dict.fromkeys(NAMES, int), (on_sent, on_acked))
"""


def test_packets_tell_hops_round_trips_delays_and_marks(tmp_path: Path) -> None:
    """Leaf, spine, leaf: three switches and four cables of 1 us each way. Eight windows of 128 packets make a queue."""
    (tmp_path / "witness.py").write_text(WITNESS)
    with VirtualFabric(TREE, SHORTEST_LERP.with_control(f"{tmp_path}/witness.py:WITNESS"), queue_pairs=8) as fabric:
        fabric.connect(PAIRS)
        fabric.send(400_000)
        fabric.run(2000 * US)
        assert fabric.unfinished() == 0
        marked = fabric.column("st_ecn_marked").sum()
        packets = fabric.column("st_packets").sum()
        rows = control_state(fabric.hs)[fabric.flows.sender].copy()
    assert rows["sent"].sum() == packets
    assert (rows["acked"] == 400).all()
    assert (rows["known"] > 0).all()
    assert set(rows["least_hops"]) == set(rows["most_hops"]) == {3}
    assert (rows["least_rtt"] >= 8 * US).all()
    assert (rows["most_delay"] > 8 * US).all()
    assert 0 < rows["marked"].sum() <= marked
