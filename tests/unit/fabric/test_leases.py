# SPDX-License-Identifier: Apache-2.0
"""Connections that have queue pairs only while they carry something: nothing of it shows in what arrives, and when."""

from __future__ import annotations

import numpy as np
import pytest

from detour.base.errors import DetourError
from detour.base.times import MS
from detour.experiments.sim.run import run_workload
from detour.experiments.sim.settings import SimOptions, settings_of
from detour.experiments.sim.workloads import open_workload
from detour.fabric.backends.virtual.fabric import VirtualFabric
from detour.fabric.backends.virtual.scheme import RunSettings, scheme
from detour.fabric.traffic import tasks
from detour.fabric.traffic.tasks import TaskResult, connections_of, run_tasks
from detour.fabric.workloads.jobs import job_by_name
from detour.fabric.workloads.tasks import TaskGraph
from detour.hosts.state import NIL
from detour.topo import parse_topology

LEAVES = parse_topology("leaf-spine:leaves=4,spines=2,hosts=3")
TIMES = ("ready_ps", "start_ps", "sent_ps", "finish_ps", "acked_ps")
COUNTERS = ("packets", "retransmitted", "rx_packets", "rx_bytes", "rx_duplicates", "rx_ecn_marked", "rx_held_peak")
ROWS = 40
"""connections that are given room: of 132 no more than 26 carry something at once"""


class Ran:
    """A graph that ran, with what is left of it in the hosts' tables."""

    def __init__(self, graph: TaskGraph, name: str, loss: float, pairs: int, threads: int = 1) -> None:
        chosen = RunSettings(loss=loss, window=128)
        with VirtualFabric(LEAVES, scheme(name), chosen, queue_pairs=pairs, threads=threads) as fabric:
            self.result: TaskResult = run_tasks(fabric, graph, 400 * MS, lanes=1)
            self.counters = {name: fabric.column(f"st_{name}").tolist() for name in COUNTERS}
            fabric.run(fabric.now_ps + 1 * MS)  # the last answers
            self.rows = int(fabric.hs.lease[0]["taken"])
            self.late = int(fabric.hs.host["rx_old_connection"].sum())
            self.unknown = int(fabric.hs.host["rx_unknown_qp"].sum())
            self.open = int((fabric.hs.lane["qp"] != NIL).sum() + (fabric.hs.lane["receiver"] != NIL).sum())

    def times(self) -> list[list[int]]:
        return [getattr(self.result, name).tolist() for name in TIMES]


@pytest.mark.parametrize("name", ["LERP-shortest", "SprayLERP", "TelemetryLERP", "TelemetryGBN"])
@pytest.mark.parametrize("loss", [0.0, 0.02])
def test_a_connection_with_one_message_needs_its_queue_pair_only_then(name: str, loss: float) -> None:
    graph = job_by_name("all-to-all:bytes=96000,at_once=2", LEAVES)
    kept = Ran(graph, name, loss, connections_of(graph, 1))
    leased = Ran(graph, name, loss, ROWS)
    assert leased.result.completed
    assert leased.times() == kept.times()
    assert leased.counters == kept.counters
    assert kept.rows == 0
    assert leased.rows <= 2 * ROWS < 2 * connections_of(graph, 1)
    assert leased.open == leased.unknown == 0
    two = Ran(graph, name, loss, ROWS, threads=2)
    assert two.times() == leased.times()
    assert two.counters == leased.counters


def test_late_frames_never_reach_the_next_user_of_a_queue_pair() -> None:
    graph = job_by_name("all-to-all:bytes=96000,at_once=2,iterations=12", LEAVES)
    ran = Ran(graph, "SprayLERP", 0.05, ROWS)
    assert ran.result.completed
    assert ran.late > 20, "answers to packets that came twice, after the sender had what it wanted"
    assert ran.unknown == ran.open == 0
    assert ran.counters["rx_bytes"] == [12 * 8000] * 132, "every byte once"
    assert ran.counters["rx_packets"] == [12 * 8] * 132
    assert sum(ran.counters["rx_duplicates"]) > 20


def test_more_at_once_than_there_is_room_for_is_an_error() -> None:
    graph = job_by_name("all-to-all:bytes=960000", LEAVES)
    with pytest.raises(DetourError, match="more than 40 connections carry something at once"):
        Ran(graph, "LERP-shortest", 0.0, ROWS)


def test_many_connections_of_one_message_are_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = settings_of(LEAVES, SimOptions(fail=["s0-s4@5us"]))
    workload = open_workload("all-to-all:bytes=96000,at_once=2", LEAVES, settings.links.rate_bps, 1)
    kept = run_workload(LEAVES, workload, settings)
    monkeypatch.setattr(tasks, "_MOST_KEPT", ROWS)
    leased = run_workload(LEAVES, workload, settings)
    assert leased.ended_by == "delivered"
    assert leased.tasks.finish_ps.tolist() == kept.tasks.finish_ps.tolist()
    assert leased.wire_bytes == kept.wire_bytes
    assert leased.counts.delay_ps.tolist() == kept.counts.delay_ps.tolist()


@pytest.mark.long
def test_an_all_to_all_of_512_ranks_takes_little_memory() -> None:
    topology = parse_topology("leaf-spine:leaves=32,spines=16,hosts=16")
    graph = job_by_name("all-to-all:bytes=1e6,at_once=8", topology)
    with VirtualFabric(topology, scheme("LERP-shortest"), RunSettings(window=128), queue_pairs=20_000) as fabric:
        result = run_tasks(fabric, graph, 10 * MS, lanes=1)
        delivered, rows = fabric.column("st_rx_bytes"), int(fabric.hs.lease[0]["taken"])
    assert result.completed
    sent = graph.is_message
    assert delivered[result.lane[sent]].tolist() == graph.tasks["bytes"][sent].tolist()
    assert np.all(result.acked_ps[sent] > 0)
    assert rows < 10_000, "of 523,264 that they would have"
