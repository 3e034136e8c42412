# SPDX-License-Identifier: Apache-2.0
"""A Dragonfly under open-loop load: Bernoulli sources, what they count, and what programs see of buffers and pauses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from detour.base.errors import DetourError
from detour.control import qcn
from detour.control.qcn import CONDITIONAL_OPENFLOW, QCN_COMPLETE, QCN_FAST, QCN_SOURCE
from detour.experiments.qcn import experiment as qcn_switch
from detour.experiments.qcn.experiment import QcnResult
from detour.experiments.qcn.tables import annotate, collect
from detour.fabric.traffic.open_loop import OPEN_LOOP_BYTES, OpenLoop, reference
from detour.hosts.openloop import configure
from detour.topo import parse_topology

pytestmark = pytest.mark.slow

SMALL, TINY = parse_topology("dragonfly:p=2,a=4,h=2"), parse_topology("dragonfly:p=1,a=2,h=1")
US = 1_000_000


def switches_of(fabric: OpenLoop) -> list[int]:
    return [switch.device_id for switch in fabric.topology.switches]


def test_sources_offer_what_was_asked_for() -> None:
    """Binomial: 72 hosts, 800 us, 4.9 slots a us, p = 0.3: the standard error is 0.3 %."""
    with OpenLoop(SMALL, reference("MIN"), load=0.3) as fabric:
        result = fabric.measure(50 * US, 800 * US)
        assert result.injected.mean() == pytest.approx(0.3, rel=0.015)
        assert result.accepted == pytest.approx(0.3, rel=0.015)
        assert result.minimal == 1.0
        assert (result.lost, result.messages) == (0, 0)
        assert result.latency_ns == pytest.approx(result.network_ns, rel=1e-3), "one packet a slot never waits"
        assert 3.0 < result.switches < 3.5


def test_an_idle_network_has_the_latency_of_its_cables() -> None:
    """Two hosts of a switch: two links of 250 ns, twice the time of a packet."""
    with OpenLoop(SMALL, reference("MIN"), load=0.0) as fabric:
        configure(fabric.hs, 0, load=0.01, targets=(1, 1), frame_bytes=OPEN_LOOP_BYTES, rate_bps=40_000_000_000)
        fabric.network.kick_host(0)
        result = fabric.measure(10 * US, 500 * US)
        assert result.latency_ns == pytest.approx(2 * (250 + OPEN_LOOP_BYTES * 8 / 40), rel=1e-4)
        assert result.switches == 1.0


def test_patterns_go_where_they_should() -> None:
    per_group = len(SMALL.hosts) // SMALL.groups
    with OpenLoop(SMALL, reference("MIN"), load=0.0) as fabric:
        for pattern, offsets in (("ADV", {1}), ("adv3", {3}), ("ADV+h", {2}), ("ADVc", {1, 2})):
            fabric.change(0.0, pattern)
            for host in (0, len(SMALL.hosts) - 1):
                row = fabric.hs.source[host]
                group = SMALL.hosts[host].group
                places = (int(row["first"]) + np.arange(int(row["targets"]))) % len(SMALL.hosts)
                assert {(int(p) // per_group - group) % SMALL.groups for p in places} == offsets
    for unknown in ("TORNADO", "ADV+0", "ADV9"):
        with pytest.raises(DetourError, match="no traffic pattern"):
            OpenLoop(SMALL, reference("MIN"), load=0.1, pattern=unknown)


def test_half_of_mix_is_uniform() -> None:
    """UN puts 1/9 into the next group, so MIX 5/9 in all: 2.2 packets of 4 a host and us."""
    with OpenLoop(SMALL, reference("VAL-group"), load=0.3, pattern="MIX") as fabric:
        result = fabric.measure(50 * US, 400 * US)
        assert result.accepted == pytest.approx(0.3, rel=0.03)
    with OpenLoop(SMALL, reference("MIN"), load=1.0, pattern="MIX") as fabric:
        # The direct link carries 1 of 8 hosts' 5/9.
        assert fabric.measure(500 * US, 200 * US).accepted == pytest.approx(9 / 5 / 8, rel=0.1)


@pytest.mark.parametrize("name", ["QCN-Switch-fast", "PB-oldest", "VAL-oldest"])
def test_what_has_waited_longest_goes_first(name: str) -> None:
    """Beyond saturation all switches inject alike, though some links carry more of others' packets."""
    with qcn_switch.open_loop(SMALL, name, load=0.7, pattern="ADV+h") as fabric:
        injected = fabric.measure(400 * US, 800 * US).injected
        assert injected.min() > 0.96 * injected.mean()


def test_links_that_are_served_by_turns_favour_some() -> None:
    by_turns = replace(QCN_FAST, oldest_first=False)
    with OpenLoop(SMALL, by_turns, load=0.7, pattern="ADV+h") as fabric:
        injected = fabric.measure(400 * US, 800 * US).injected
        assert injected.min() < 0.9 * injected.mean()


def test_traffic_changes_and_queues_stay() -> None:
    with OpenLoop(SMALL, reference("MIN"), load=0.5, pattern="ADV") as fabric:
        before = fabric.measure(200 * US, 50 * US)
        fabric.change(0.2, "UN")
        rows = fabric.series(20 * US, 30)
        room = 40e9 / 8 * 20e-6 * len(SMALL.hosts)
        assert before.accepted < 0.16
        assert rows[3].bytes / room > 0.3, "what waited comes first"
        assert rows[-1].bytes / room == pytest.approx(0.2, rel=0.15)
        assert sum(row.around for row in rows) == 0
        fabric.change(0.0, "UN")
        assert fabric.series(50 * US, 2)[1].packets == 0
        fabric.change(0.2, "UN")
        assert fabric.series(50 * US, 2)[1].bytes * 20 / 50 / room == pytest.approx(0.2, rel=0.15)


def test_the_same_seed_gives_the_same_result() -> None:
    def once(seed: int) -> tuple[object, ...]:
        with OpenLoop(TINY, QCN_COMPLETE, load=0.5, pattern="ADV", seed=seed) as fabric:
            result = fabric.measure(50 * US, 50 * US)
            return result.accepted, result.latency_ns, result.minimal, result.messages, tuple(result.injected)

    assert once(1) == once(1)
    assert once(1) != once(2)


def test_programs_see_what_waits_of_every_input() -> None:
    """The register is the sum over the accounts of the port, at any time; and pauses are seen while they last."""
    with OpenLoop(SMALL, CONDITIONAL_OPENFLOW, load=1.0, pattern="ADV") as fabric:
        full = paused = 0
        for _ in range(5):
            fabric.run(fabric.now_ps + 40 * US)
            memory = fabric.network._memory
            ports, queues = memory.table("ports"), memory.table("queues")
            for row in ports[: memory.count("ports")]:
                device = int(memory.row("switches", int(row["switch"]))["device_id"])
                if not row["mirror_input"]:
                    continue
                first = int(row["queues"])
                accounts = queues[first : first + int(row["priorities"])]
                registers = fabric.states[device].registers
                waiting = int(accounts["in_bytes"].sum() + accounts["in_headroom"].sum())
                assert registers[qcn.BUFFERED].read(int(row["number"])) == waiting
                assert registers[qcn.PAUSED].read(int(row["number"])) == int(row["paused"])
                full += waiting > 4000
                paused += row["paused"] != 0
        assert full > 0
        assert paused > 0


def test_notifications_turn_adversarial_traffic_away() -> None:
    """Source processing, section III-B: all switches of a group learn of the direct link, the one that has it included.

    Eight hosts at load 0.4 offer 3.2 times what the direct link carries."""
    with OpenLoop(SMALL, QCN_SOURCE, load=0.4, pattern="ADV") as fabric:
        result = fabric.measure(1200 * US, 200 * US)
        assert result.messages > 0
        assert result.accepted > 0.38
        assert result.minimal < 0.36
        group = result.injected[:4]
        assert group.min() > 0.9 * group.mean()
    with OpenLoop(SMALL, reference("MIN"), load=0.4, pattern="ADV") as fabric:
        assert fabric.measure(200 * US, 200 * US).accepted < 0.14


def test_landmarks() -> None:
    points = qcn_switch.select(extent="quick")
    assert len(points) == 9 * 4
    left_out = annotate(collect([]), points, []).loads_left_out
    assert [len(left_out[pattern]) for pattern in ("UN", "ADV", "ADVc")] == [18, 17, 19]
    assert not annotate(collect([]), qcn_switch.select(extent="full"), []).loads_left_out
    terms = {"switches": 2.0, "minimal": 0.5, "messages": 100, "notified": 0.0, "lost": 0, "steady": True}
    results = [
        QcnResult(routing=r, pattern=p, load=load, accepted=a, latency_ns=us, network_ns=us, injected=injected, **terms)
        for r, p, load, a, us, injected in (
            ("VAL", "ADV", 0.1, 0.1, 4000.0, [0.1, 0.1]),
            ("PB", "ADV", 0.1, 0.1, 5000.0, [0.1, 0.1]),
            ("PB", "ADV", 0.4, 0.38, 9000.0, [0.2, 0.4]),
            ("PB", "UN", 0.9, 0.9, 3000.0, [0.9, 0.9]),
            ("PB", "UN", 1.0, 0.81, 9000.0, [0.8, 0.8]),
        )
    ]
    findings = collect(results)
    assert len(findings.curves) == 5
    assert [row.injected for row in findings.fairness] == [0.2, 0.4]
    marks = next(mark for mark in findings.landmarks if mark.routing == "PB")
    assert marks.saturation == {"UN": 0.9, "ADV": 0.38, "ADVc": None, "MIX": None, "ADV+h": None}
    assert marks.saturated == {"UN": True, "ADV": True, "ADVc": False, "MIX": False, "ADV+h": False}
    assert marks.un_drop == pytest.approx(0.1)
    assert marks.adv_latency == pytest.approx(1.25)
    assert marks.fairness == pytest.approx(0.2 / 0.3)


@pytest.mark.parametrize(
    "chosen", [{"routing": ("UGAL",)}, {"pattern": ("TORNADO",)}, {"loads": (1.5,)}, {"loads": (0.0,)}]
)
def test_selections_that_do_not_exist(chosen: dict[str, Any]) -> None:
    with pytest.raises(DetourError):
        qcn_switch.select(**chosen)
