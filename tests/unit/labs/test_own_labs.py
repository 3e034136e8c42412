# SPDX-License-Identifier: Apache-2.0
"""The labs in docs/labs, with their checked-in builds, in virtual time: each does what its README says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from detour.fabric.labs.folder import LabFolder
from detour.fabric.labs.programs import contents_of, programs_of
from detour.fabric.labs.reading import read_lab
from detour.fabric.labs.virtual import VirtualLab
from detour.fabric.labs.workloads import activities_of

MS = 10**9
OwnLab = Callable[[str], Path]


@contextmanager
def booted(folder: Path) -> Iterator[VirtualLab]:
    lab = read_lab(LabFolder.given(str(folder)))
    with VirtualLab(lab, contents_of(lab, programs_of(lab))) as virtual:
        yield virtual


def run(virtual: VirtualLab, workload: str, duration_ps: int | None = None) -> dict[str, Any]:
    jobs = virtual.do(activities_of(virtual.lab, workload))
    virtual.run_until_over(jobs, duration_ps)
    return virtual.results(jobs)


def counted(virtual: VirtualLab, switch: int, counter: str, cells: int) -> list[int]:
    array = virtual.network.state(switch).counters[counter]
    return [array.read(index)[0] for index in range(cells)]


def port(document: dict[str, Any], switch: str, number: int) -> dict[str, Any]:
    return next(p for p in document["ports"] if (p["switch"], p["port"]) == (switch, number))


def test_ecn_marks_begin_at_the_threshold(own: OwnLab) -> None:
    with booted(own("ecn")) as virtual:
        calm = run(virtual, "udp:src=h1,dst=h3,rate=8M,ecn=1,time=50ms")
        assert (calm["udp"][0]["lost"], calm["udp"][0]["marked"]) == (0, 0)
        assert port(calm, "s1", 3)["queue_peak_packets"] < 10
        busy = run(virtual, "udp:src=h1,dst=h3,rate=20M,ecn=1,time=100ms")
        passed, marked = (counted(virtual, 0, f"LabEgress.{name}", 64) for name in ("passed", "marked"))
        assert all(seen == 0 for seen in marked[:10])
        assert marked[10:] == passed[10:]
        assert sum(passed[:10]) > 10
        assert sum(marked) > 50
        assert busy["udp"][0]["marked"] == sum(marked)
        assert busy["udp"][0]["lost"] == port(busy, "s1", 3)["queue_drops"] > 0
        assert busy["udp"][0]["mbps"] == pytest.approx(10 * 1000 / 1042, rel=0.02)


def test_dctcp_reads_the_marks(own: OwnLab) -> None:
    with booted(own("ecn")) as virtual:
        document = run(virtual, "tcp:src=h1,dst=h3,bytes=300k,cc=dctcp")
        assert (document["completed"], document["drops"], document["tcp"][0]["retransmitted"]) == (1, 0, 0)
        assert document["tcp"][0]["marked"] > 10
        assert 10 <= port(document, "s1", 3)["queue_peak_packets"] < 40


def test_ecn_leaves_packets_of_others_unmarked(own: OwnLab) -> None:
    with booted(own("ecn")) as virtual:
        document = run(virtual, "udp:src=h2,dst=h3,rate=20M,ecn=0,time=50ms")
        assert document["udp"][0]["marked"] == 0
        assert document["drops"] > 0


def test_the_balancer_spreads_flows_and_keeps_each_together(own: OwnLab) -> None:
    with booted(own("load-balancer")) as virtual:
        document = run(virtual, "udp:src=h1,dst=10.0.100.1,dport=80,rate=40M,flows=64,time=20ms")
        assert document["completed"] == document["flows"] == 64
        servers = [row["to"] for row in document["udp"]]
        assert all(len(to) == 1 for to in servers)
        flows = {name: sum(name in to for to in servers) for name in ("h2", "h3", "h4", "h5")}
        assert sum(flows.values()) == 64
        assert all(8 <= count <= 24 for count in flows.values()), flows
        by_server = [sum(to.get(name, 0) for to in servers) for name in flows]
        assert counted(virtual, 1, "LabIngress.to_server", 4) == by_server


def test_the_firewall_lets_only_answers_in(own: OwnLab) -> None:
    with booted(own("firewall")) as virtual:
        outside = run(virtual, "udp:src=h3,dst=h1,rate=1M,time=20ms,sport=7001,dport=6001")["udp"][0]
        assert outside["received"] == 0
        assert outside["sent"] > 1
        assert counted(virtual, 1, "LabIngress.outcome", 2) == [0, outside["sent"]]
        inside = run(virtual, "udp:src=h1,dst=h3,rate=1M,time=20ms,sport=6000,dport=7000")["udp"][0]
        assert inside["lost"] == 0
        # What belongs to that may come back now; to another host, or from another port, it may not.
        answers = run(virtual, "udp:src=h3,dst=h1,rate=1M,time=20ms,sport=7000,dport=6000")["udp"][0]
        passed = inside["sent"] + answers["sent"]
        assert counted(virtual, 1, "LabIngress.outcome", 2) == [passed, outside["sent"]]
        others = run(virtual, "udp:src=h3,dst=h2,rate=1M,time=20ms,sport=7002,dport=6000")["udp"][0]
        assert others["received"] == 0
        assert counted(virtual, 1, "LabIngress.outcome", 2) == [passed, outside["sent"] + others["sent"]]


def test_connections_through_the_firewall(own: OwnLab) -> None:
    with booted(own("firewall")) as virtual:
        assert run(virtual, "tcp:src=h1,dst=h3,bytes=20k")["completed"] == 1
        outside = run(virtual, "tcp:src=h3,dst=h1,bytes=20k,dport=6000", 100 * MS)
        assert (outside["completed"], outside["delivered_bytes"]) == (0, 0)


def test_pings_pass_the_firewall(own: OwnLab) -> None:
    with booted(own("firewall")) as virtual:
        document = run(virtual, "ping")
        assert document["completed"] == document["flows"] == 18


def test_the_heavy_hitter_is_found_and_nobody_else(own: OwnLab) -> None:
    with booted(own("heavy-hitter")) as virtual:
        light = "udp:src=h0,dst=h2,rate=4M,flows=50,time=500ms"
        document = run(virtual, f"{light};udp:src=h1,dst=h2,rate=32M,dport=9999,time=500ms")
        assert document["completed"] == 51
        registers = virtual.network.state(0).registers
        assert registers["LabIngress.found"].read(0) == 1
        assert registers["LabIngress.hitter_source"].read(0) == 0x0A010102
        assert registers["LabIngress.hitter_port"].read(0) == 9999
        assert registers["LabIngress.hitter_source"].read(1) == 0


def test_the_same_seed_gives_the_same_document(own: OwnLab) -> None:
    documents = []
    for _ in range(2):
        with booted(own("ecn")) as virtual:
            documents.append(run(virtual, "udp:src=h1,dst=h3,rate=9M,model=poisson,ecn=1,time=50ms;ping"))
    assert documents[0] == documents[1]
