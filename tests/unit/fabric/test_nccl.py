# SPDX-License-Identifier: Apache-2.0
"""NCCL's operations: who sends how much to whom, in which order, over which channels, and what is chosen."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from detour.base.errors import DetourError
from detour.base.times import MS, US
from detour.control.placement.jobs import read_jobs
from detour.control.placement.nccl import rules
from detour.control.placement.nccl.machines import Cluster, HostCosts, Machine, read_machine
from detour.control.placement.nccl.rules import LL, LL128, SIMPLE, Choice
from detour.fabric.backends.virtual.fabric import VirtualFabric
from detour.fabric.backends.virtual.scheme import SPRAY_LERP
from detour.fabric.traffic.tasks import connections_of, run_tasks
from detour.fabric.workloads import nccl_operations as operations
from detour.fabric.workloads.collectives import Ranks
from detour.fabric.workloads.jobs import job_by_name, read_job_run
from detour.fabric.workloads.tasks import TaskGraph, TaskList
from detour.topo import parse_topology

FULL = Machine(8, 8)
MB = 1 << 20


def graph_of(op: str, size: int, cluster: Cluster, choice: Choice | None = None, first: int | None = None) -> TaskGraph:
    tasks = TaskList(cluster.hosts)
    operations.run(tasks, Ranks.fresh(range(cluster.hosts), op), op, size, cluster, choice, first)
    return tasks.graph()


def sent_bytes(graph: TaskGraph) -> np.ndarray:
    """(hosts,) that each sends."""
    sent = graph.is_message
    return np.bincount(graph.tasks["source"][sent], graph.tasks["bytes"][sent], minlength=graph.hosts)


@pytest.mark.parametrize(("gpus", "channels"), [(1, 4), (2, 8), (4, 16), (8, 16)])
def test_there_are_as_many_channels_as_nccl_makes_for_400_gb_nics(gpus, channels):
    assert rules.channels_of(Cluster(10 * gpus, Machine(gpus, gpus))) == channels
    assert rules.channels_of(Cluster(10 * gpus, Machine(gpus, gpus), 100_000_000_000)) == 2 * gpus


@pytest.mark.parametrize(("cluster", "channels"), [
    (Cluster(2), (4, 4)), (Cluster(10), (4, 2)), (Cluster(80, FULL), (16, 1)), (Cluster(16, FULL), (16, 4)),
])  # fmt: skip
def test_pairs_have_channels_for_14_gb_a_second_each_but_all_fit_into_one_round(cluster, channels):
    assert rules.peer_channels(cluster) == channels


def test_peers_come_at_quadratic_distances():
    order = [0, 1, 3, 6, 10, 15, 5, 12, 4, 13, 7, 2, 14, 11, 9, 8]
    assert rules.peer_order(0, Cluster(16)) == order
    assert rules.peer_order(3, Cluster(16)) == [(3 + each) % 16 for each in order]
    assert rules.peer_order(9, Cluster(16, FULL))[:10] == [9, 10, 11, 12, 13, 14, 15, 8, 1, 2]


@given(st.integers(2, 9), st.sampled_from([1, 2, 3, 4, 8]))
def test_every_rank_sends_to_every_rank_once_and_gets_from_one_in_each_round(machines, gpus):
    cluster = Cluster(machines * gpus, Machine(gpus, gpus))
    rounds = [rules.peer_order(rank, cluster) for rank in range(cluster.ranks)]
    assert all(sorted(order) == list(range(cluster.ranks)) for order in rounds)
    assert all(len(set(column)) == cluster.ranks for column in zip(*rounds, strict=True))


@pytest.mark.parametrize(("op", "size", "cluster", "chosen"), [
    ("all_reduce", 8, Cluster(10), ("tree", LL, 1)), ("all_reduce", MB, Cluster(10), ("tree", LL128, 4)),
    ("all_reduce", 32 * MB, Cluster(10), ("ring", SIMPLE, 4)), ("all_gather", MB, Cluster(10), ("ring", LL, 4)),
    ("all_reduce", 64 * MB, Cluster(32, FULL), ("nvls-tree", SIMPLE, 16)),
    ("all_reduce", 64 * MB, Cluster(32, Machine(8, 8, switched=False)), ("ring", LL128, 16)),
    ("all_reduce", 8192 * MB, Cluster(32, FULL), ("ring", SIMPLE, 16)),
    ("alltoall", MB, Cluster(10), ("p2p", SIMPLE, 2)),
])  # fmt: skip
def test_the_choice_depends_on_size_and_machines(op, size, cluster, chosen):
    assert rules.choose(op, size, cluster) == chosen


def test_the_tuner_expects_what_its_formulas_say():
    """18 steps of 14 us, 1.4 times that for Simple, and 48 GB/s of which a ring of ten has 10/18."""
    expected = 1.4 * (8.4 + 18 * 14) + 32 * MB / (48 * 10 / 18) / 1e3
    assert rules.estimate_us("all_reduce", 32 * MB, Cluster(10), "ring", SIMPLE) == pytest.approx(expected)
    expected = 6.8 + 2 * 3 * 5 + 8 / (min(48 * 0.92, 36) / 3.8 / 2) / 1e3
    assert rules.estimate_us("all_reduce", 8, Cluster(10), "tree", LL) == pytest.approx(expected)


@pytest.mark.parametrize(("protocol", "share"), [(SIMPLE, 1), (LL, 2), (LL128, 128 / 120)])
def test_a_ring_sends_what_the_protocol_makes_of_the_payload(protocol, share):
    size, cluster = 12_000_000, Cluster(5)
    sent = sent_bytes(graph_of("all_reduce", size, cluster, Choice("ring", protocol, 4)))
    assert sent == pytest.approx(np.full(5, 2 * 4 / 5 * size * share), rel=1e-3)


@pytest.mark.parametrize(
    ("op", "factor"), [("all_reduce", 2 * 31 / 32), ("all_gather", 31 / 32), ("reduce_scatter", 31 / 32)]
)
def test_rings_of_machines_use_all_nics_alike_and_stay_on_their_rails(op, factor):
    graph = graph_of(op, 64 * MB, Cluster(32, FULL), Choice("ring", SIMPLE, 16))
    sent = graph.tasks[graph.is_message]
    assert sent_bytes(graph) == pytest.approx(np.full(32, factor * 64 * MB / 8), rel=1e-3)
    assert (sent["source"] % 8 == sent["destination"] % 8).all()


def test_trees_send_all_up_and_down_on_both_trees():
    graph = graph_of("all_reduce", 8 * MB, Cluster(5), Choice("tree", SIMPLE, 4))
    assert sent_bytes(graph).sum() == 2 * 4 * 8 * MB
    assert set(graph.tasks["connection"][graph.is_message].tolist()) == {0, 1, 2, 3}
    assert (sent_bytes(graph) > 0).all()  # a leaf of one tree is an inner rank of the other one


def test_a_reduction_ends_and_a_broadcast_begins_at_the_first_machine():
    ends = {}
    for op in ("reduce", "broadcast"):
        tasks = graph_of(op, 4 * MB, Cluster(4)).tasks
        ends[op] = {(int(row["source"]), int(row["destination"])) for row in tasks if row["destination"] >= 0}
    assert ends == {"broadcast": {(0, 1), (1, 2), (2, 3)}, "reduce": {(1, 2), (2, 3), (3, 0)}}


def test_pairs_leave_by_the_rail_of_the_receiver():
    cluster, share = Cluster(16, FULL), MB // 16
    graph = graph_of("alltoall", MB, cluster)
    sent = graph.tasks[graph.is_message]
    assert (sent["source"] % 8 == sent["destination"] % 8).all()
    # Eight GPUs send to each receiver of the other machine.
    assert Counter(sent["source"].tolist()) == Counter(sent["destination"].tolist())
    assert sent_bytes(graph).tolist() == [8 * share] * 16


@pytest.mark.parametrize(("op", "sent"), [
    ("gather", [0, 1, 1, 1]), ("scatter", [3, 0, 0, 0]), ("alltoall", [3, 3, 3, 3]), ("sendrecv", [4, 4, 4, 4]),
])  # fmt: skip
def test_operations_between_pairs_send_a_share_to_each(op, sent):
    assert sent_bytes(graph_of(op, 4 * MB, Cluster(4))).tolist() == [MB * each for each in sent]


@pytest.mark.parametrize("op", rules.OPERATIONS)
def test_the_first_units_are_the_beginning_of_all(op):
    cluster, size = Cluster(4), 64 * MB
    choice = rules.choose(op, size, cluster)
    count = len(operations.units(op, size, cluster, choice))
    whole, part = graph_of(op, size, cluster, choice), graph_of(op, size, cluster, choice, count // 2)
    assert graph_of(op, size, cluster, choice, count).tasks.tolist() == whole.tasks.tolist()
    assert sent_bytes(part).sum() == pytest.approx(sent_bytes(whole).sum() / 2, rel=0.03)


def test_a_message_fills_at_most_eight_slots_and_a_channel_copies_one_thing_at_a_time():
    cluster = Cluster(2, costs=HostCosts(step_ps=5 * US))
    graph = graph_of("sendrecv", 16 * MB, cluster)
    with VirtualFabric(parse_topology("leaf-spine:leaves=1,spines=1,hosts=2"), SPRAY_LERP,
                       queue_pairs=connections_of(graph)) as fabric:  # fmt: skip
        result = run_tasks(fabric, graph, 100 * MS)
    assert result.completed
    for connection in range(4):
        of = graph.is_message & (graph.tasks["source"] == 0) & (graph.tasks["connection"] == connection)
        slots = np.flatnonzero(of)
        assert len(slots) == 16 * MB // 4 // rules.P2P_CHUNK
        assert (result.ready_ps[slots[8:]] >= result.acked_ps[slots[:-8]] + 5 * US).all()
        assert (np.diff(result.sent_ps[slots]) >= graph.tasks["compute_ps"][slots[1:]]).all()


def test_an_operation_by_name_runs_after_computations():
    topology = parse_topology("leaf-spine:leaves=2,spines=1,hosts=2")
    graph = job_by_name("nccl:op=all_gather,bytes=1e6,compute=3us,iterations=2,algorithm=ring,protocol=ll", topology)
    assert graph.steps == ("nccl #1", "nccl #2")
    assert sent_bytes(graph) == pytest.approx(np.full(4, 2 * 0.75 * 2e6), rel=1e-3)
    machines = job_by_name("nccl:bytes=1e6,gpus=4,nics=2", topology)
    assert (machines.tasks["source"] % 2 == machines.tasks["destination"] % 2)[machines.is_message].all()


def test_machines_and_clusters_that_cannot_be_are_told():
    assert read_machine("gpus=8,nics=4,nvlink=1T,nvls=no") == Machine(8, 4, 10**12, switched=False)
    assert read_machine("gpus=4") == Machine(4, 4)
    for wrong, text in [
        (lambda: read_machine("gpus=8,nics=3"), "GPUs must be a multiple of NICs"),
        (lambda: read_machine("gpus=8,tpus=3"), "there is no 'tpus'"),
        (lambda: read_machine("gpus=0"), "whole number from 1"),
        (lambda: read_machine("nvls=maybe"), "expected yes or no"),
        (lambda: Cluster(12, FULL), "expected two or more whole machines of 8"),
        (lambda: Cluster(8, FULL), "expected two or more whole machines of 8"),
        (lambda: rules.choose("alltoall", 8, Cluster(4), "tree"), "does not carry out alltoall"),
        (lambda: graph_of("all_reduce", 1 << 40, Cluster(64)), "a workload can have at most"),
    ]:
        with pytest.raises(DetourError, match=text):
            wrong()


def job_file(folder: Path, text: str) -> Path:
    file = folder / "jobs.yaml"
    file.write_text(f"- {{collective: nccl, hosts: all, {text}}}")
    return file


@pytest.mark.parametrize(("op", "more"), [
    *((op, "") for op in rules.OPERATIONS), ("all_reduce", "algorithm: tree, protocol: ll128"),
    ("all_reduce", "algorithm: ring, protocol: ll"), ("all_reduce", "algorithm: nvls-tree"),
])  # fmt: skip
def test_a_job_file_says_what_machines_are_and_flows_are_what_is_sent(tmp_path, op, more):
    topology = parse_topology("leaf-spine:leaves=4,spines=2,hosts=4")
    text = f"op: {op}, bytes: 40000000, machine: {{gpus: 8, nics: 4, nvlink: 1T}}, {more}"
    run = read_job_run(job_file(tmp_path, text), topology)
    sent = run.graph.tasks[run.graph.is_message]
    carried: Counter[tuple[int, int]] = Counter()
    for row in sent:
        carried[int(row["source"]), int(row["destination"])] += int(row["bytes"])
    flows = read_jobs(job_file(tmp_path, text), topology)
    assert flows.bytes is not None
    ends = zip(flows.source.tolist(), flows.target.tolist(), strict=True)
    # Each slice of LL and LL128 is whole lines.
    assert dict(zip(ends, flows.bytes.tolist(), strict=True)) == pytest.approx(dict(carried), rel=2e-3)
    assert {(step.name, step.ranks, step.bytes) for step in run.operations} == {(op, 32, 40_000_000)}


@pytest.mark.parametrize(("text", "message"), [
    ("machine: 8", "expected a mapping like"), ("machine: {gpus: 5}", "4 hosts are no whole machines of 5 NICs"),
    ("machine: {cpus: 5}", "there is no 'cpus'"), ("op: [a]", "there is no operation"),
    ("group: 4", "unknown key `group`"), ("machine: {gpus: 4}", "two or more whole machines"),
])  # fmt: skip
def test_job_files_that_are_wrong_are_told(tmp_path, text, message):
    with pytest.raises(DetourError, match=message):
        read_jobs(job_file(tmp_path, f"bytes: 1000, {text}"), parse_topology("leaf-spine:leaves=1,spines=1,hosts=4"))
