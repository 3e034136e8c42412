# SPDX-License-Identifier: Apache-2.0
"""Training jobs that run: what collectives send, in which order, how long they take, and where placements lead them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from detour.base.dataplane import PACKET_BYTES
from detour.base.errors import DetourError
from detour.base.times import MS, US
from detour.control.placement.nccl.rules import double_trees
from detour.fabric.backends.virtual.fabric import VirtualFabric
from detour.fabric.backends.virtual.scheme import SHORTEST_LERP, SPRAY_LERP, LinkSettings
from detour.fabric.traffic.placed_tasks import PlacedTasks
from detour.fabric.traffic.tasks import TaskResult, TaskRun, connections_of, run_tasks
from detour.fabric.workloads.collectives import parts
from detour.fabric.workloads.ideal import ideal_ps, wire_terms
from detour.fabric.workloads.jobs import JobRun, job_by_name, read_job_run
from detour.fabric.workloads.tasks import TaskGraph, topological
from detour.topo import Topology, parse_topology

LEAVES = parse_topology("leaf-spine:leaves=4,spines=4,hosts=4")
ONE_LEAF = parse_topology("leaf-spine:leaves=1,spines=1,hosts=4")
PACKET_PS = PACKET_BYTES * 8 * 10
"""at 100 Gb/s"""


def run(graph: TaskGraph, topology: Topology = LEAVES) -> TaskResult:
    with VirtualFabric(topology, SHORTEST_LERP, queue_pairs=connections_of(graph, 1)) as fabric:
        return run_tasks(fabric, graph, 100 * MS, lanes=1)


def port_counts(fabric: VirtualFabric, name: str) -> dict[tuple[int, int], int]:
    """A counter by device and port."""
    stats = fabric.network.port_stats()
    ends = zip(stats["device_id"].tolist(), stats["port"].tolist(), strict=True)
    return dict(zip(ends, stats[name].tolist(), strict=True))


def knows(graph: TaskGraph) -> list[set[int]]:
    """Whose data each host has in the end, if messages carry all that their sender knows when it may send them."""
    held = [{host} for host in range(graph.hosts)]
    earlier: dict[int, list[int]] = {}
    for a, b in graph.dependencies.tolist():
        earlier.setdefault(b, []).append(a)
    sent: dict[int, set[int]] = {}
    for k in topological(len(graph), graph.dependencies):
        source, destination = int(graph.tasks["source"][k]), int(graph.tasks["destination"][k])
        sent[k] = {source}.union(*(sent[a] for a in earlier.get(k, ())))
        if destination >= 0:
            held[destination] |= sent[k]
    return held


def between(graph: TaskGraph) -> dict[tuple[int, int], int]:
    """Bytes from host to host."""
    totals: dict[tuple[int, int], int] = {}
    for row in graph.tasks[graph.is_message]:
        pair = int(row["source"]), int(row["destination"])
        totals[pair] = totals.get(pair, 0) + int(row["bytes"])
    return totals


# -- what is sent -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "ring:bytes=1001,ranks=5",
        "ring:bytes=1001,ranks=5,reduce=1us",
        "tree:bytes=1000,ranks=7,chunks=3",
        "hierarchical:bytes=1e4,ranks=12,group=3",
        "hierarchical:bytes=1e4,ranks=4,group=4",
        "hierarchical:bytes=1e4,ranks=4,group=1",
        "all-to-all:bytes=900,ranks=6",
        "all-gather:bytes=900,ranks=6",
        "reduce-scatter:bytes=900,ranks=6,reduce=1us",
    ],
)
def test_everybody_has_what_came_from_everybody(text: str) -> None:
    graph = job_by_name(text, LEAVES)
    ranks = int(text.split("ranks=")[1].split(",")[0])
    assert knows(graph)[:ranks] == [set(range(ranks))] * ranks


def test_a_ring_sends_what_its_paper_says() -> None:
    """2 (n - 1) / n of the bytes from each to the next one, in 2 (n - 1) messages."""
    graph = job_by_name("ring:bytes=16000,ranks=16", LEAVES)
    assert between(graph) == {(k, (k + 1) % 16): 30_000 for k in range(16)}
    assert len(graph) == 16 * 30
    assert graph.steps == ("ring",)


def test_all_to_all_and_broadcast_send_each_part_once() -> None:
    assert between(job_by_name("all-to-all:bytes=4001,ranks=4", LEAVES)) == {
        (a, b): 1001 if b == 0 else 1000 for a in range(4) for b in range(4) if a != b
    }
    graph = job_by_name("broadcast:bytes=1000,ranks=6,chunks=3", LEAVES)
    assert between(graph) == dict.fromkeys(((0, 1), (0, 2), (1, 3), (1, 4), (2, 5)), 1000)
    assert [0 in held for held in knows(graph)[:6]] == [True] * 6


def test_parts_are_all_there_is_and_none_is_empty() -> None:
    assert parts(10, 4) == [3, 3, 2, 2]
    assert parts(2, 4) == [1, 1, 1, 1]


# -- how long it takes --------------------------------------------------------------------------------------


def test_a_ring_takes_the_time_of_its_formula() -> None:
    """2 (n - 1) steps of a chunk of 100 packets through one switch. Measured: acknowledgements of a packet each go the
    other way over the same links, and take 8 to 9 % of them."""
    graph = job_by_name("ring:bytes=4e5,ranks=4", ONE_LEAF)
    ideal = ideal_ps(graph, wire_terms(ONE_LEAF, LinkSettings()))
    assert ideal.step_ps.tolist() == [6 * (101 * PACKET_PS + 2 * US)] == [ideal.total_ps]
    begin, end = run(graph, ONE_LEAF).step_spans_ps()[0].tolist()
    assert begin == 0
    assert 1 <= end / ideal.total_ps < 1.1


def test_a_ring_of_single_packets_takes_it_exactly() -> None:
    graph = job_by_name("ring:bytes=2000,ranks=2,reduce=7us", ONE_LEAF)
    result = run(graph, ONE_LEAF)
    assert result.finish_ps.max() == 2 * (2 * PACKET_PS + 2 * US) + 7 * US


def test_iterations_follow_each_other_on_every_rank() -> None:
    graph = job_by_name("ring:bytes=4e4,ranks=4,iterations=3,compute=20us,start=5us", ONE_LEAF)
    assert graph.steps == ("ring #1", "ring #2", "ring #3")
    result = run(graph, ONE_LEAF)
    spans = result.step_spans_ps()
    assert spans[0, 0] == 5 * US
    assert (np.diff(spans[:, 1]) > 20 * US).all()
    ideal = ideal_ps(graph, wire_terms(ONE_LEAF, LinkSettings()))
    assert (spans[:, 1] - spans[:, 0] >= ideal.step_ps).all()
    first = [result.start_ps[(graph.tasks["step"] == k) & ~graph.is_message] for k in range(3)]
    for k in (1, 2):
        before = graph.tasks["step"] == k - 1
        ended = [result.finish_ps[before & (graph.tasks["destination"] == rank)].max() for rank in range(4)]
        assert first[k].tolist() == ended, "a rank does not wait for the others"


def test_all_to_all_takes_what_the_hosts_have_to_send() -> None:
    ideal = ideal_ps(job_by_name("all-to-all:bytes=1.6e6", LEAVES), wire_terms(LEAVES, LinkSettings()))
    assert ideal.total_ps == 15 * 100 * PACKET_PS


# -- job files ----------------------------------------------------------------------------------------------

JOBS = """jobs:
  - {name: ring, collective: ring-all-reduce, hosts: "h0-h5", shuffle: 1, connections: 2, bytes: 10000}
  - {name: experts, collective: all-to-all, hosts: "h0-h3", bytes: 3000, iterations: 2, compute: 5us}
  - {name: sum, collective: tree, hosts: "h2-h8", connections: 3, bytes: 700}
  - {name: parts, collective: all-gather, hosts: "h8-h11", bytes: 900}
  - {name: extra, collective: point-to-point, bytes: 500,
     pairs: [[h0, h9], [h0, h9], {from: h0, to: h9, path: [s0, s6, s2]}]}
"""


def test_flows_of_a_job_file_carry_what_it_says(tmp_path: Path) -> None:
    file = tmp_path / "jobs.yaml"
    file.write_text(JOBS)
    job = read_job_run(file, LEAVES)
    graph = job.graph
    assert graph.steps == ("ring", "experts #1", "experts #2", "sum", "parts", "extra")
    carried: dict[str, dict[tuple[int, int, int], int]] = {name: {} for name in graph.steps}
    for row in graph.tasks[graph.is_message]:
        key = int(row["source"]), int(row["destination"]), int(row["connection"])
        of_step = carried[graph.steps[row["step"]]]
        of_step[key] = of_step.get(key, 0) + int(row["bytes"])
    assert len(carried["ring"]) == 12
    assert set(carried["ring"].values()) == {10_000}
    assert set(carried["experts #1"].values()) == {3000}
    assert len(carried["sum"]) == 36
    assert set(carried["sum"].values()) == {700}
    assert set(carried["parts"].values()) == {900}
    assert carried["extra"] == {(0, 9, 0): 500, (0, 9, 1): 500, (0, 9, 2): 500}
    assert job.pinned == {(0, 9, 2): (0, 6, 2)}
    assert connections_of(graph) == len({key for of_step in carried.values() for key in of_step})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("jobs: [{collective: tree, hosts: all}]", "needs `bytes`"),
        ("jobs: [{collective: tree, hosts: all, bytes: 5, compute: 3}]", "job job0: compute: '3' is not a time"),
        ("jobs: [{collective: tree, hosts: all, bytes: 5, iterations: 0}]", "job job0: iterations: '0' is not"),
    ],
)
def test_job_files_that_cannot_run_are_refused(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "jobs.yaml"
    file.write_text(text)
    with pytest.raises(DetourError, match=says):
        read_job_run(file, LEAVES)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("circle:bytes=5", "there is no collective 'circle'; allowed: ring, tree"),
        ("ring", "bytes missing"),
        ("ring:bytes=0", "bytes: '0' is not"),
        ("ring:bytes=1.5", "bytes: '1.5' is not"),
        ("ring:bytes=nan", "bytes: 'nan' is not"),
        ("ring:bytes=9,ranks=17", r"17 ranks; .* has 16 hosts"),
        ("ring:bytes=9,ranks=1", "two are needed"),
        ("ring:bytes=9,chunks=2", "there is no parameter chunks"),
        ("ring:bytes=9,compute=7", "'7' is not a time up to 10000s with its unit"),
        ("ring:bytes=9,shuffle=-1", "shuffle=-1; it must be a whole number of at least 0"),
        ("tree:bytes=9,chunks=0", "chunks=0; it must be at least 1"),
        ("hierarchical:bytes=9,ranks=10", "10 ranks cannot form whole groups of 4"),
        ("tree:bytes=999,chunks=60,iterations=9999", "tasks; a workload can have at most"),
    ],
)
def test_names_that_mean_nothing_are_refused(text: str, says: str) -> None:
    with pytest.raises(DetourError, match=says):
        job_by_name(text, LEAVES)


# -- placement ----------------------------------------------------------------------------------------------


def test_a_placement_makes_a_shuffled_ring_faster_than_hashes() -> None:
    graph = job_by_name("ring:bytes=8e5,shuffle=3", LEAVES)
    hashed = run(graph).finish_ps.max()
    with VirtualFabric(LEAVES, SHORTEST_LERP, queue_pairs=connections_of(graph, 1)) as fabric:
        started = TaskRun(fabric, graph, lanes=1)
        placement = PlacedTasks(started).placement
        fabric.run(20 * MS)
        result = started.result()
        uplinks = [(s, p) for s in range(1, 5) for p in range(5, 9)]
        load = port_counts(fabric, "tx_bytes")
    assert result.completed
    assert placement.busiest == placement.bound
    assert result.finish_ps.max() < 0.7 * hashed
    ideal = ideal_ps(graph, wire_terms(LEAVES, LinkSettings()))
    assert result.finish_ps.max() < 1.4 * ideal.total_ps
    data = 1_500_000 * PACKET_BYTES // 1000
    assert all(load[end] < 1.5 * data for end in uplinks), "one flow and the answers to one on every link"


def test_a_demanded_path_is_taken(tmp_path: Path) -> None:
    file = tmp_path / "jobs.yaml"
    pair = "{from: h0, to: h9, path: [s0, s6, s2]}"
    file.write_text(f"jobs: [{{collective: point-to-point, bytes: 90000, pairs: [{pair}]}}]")
    job = read_job_run(file, LEAVES)
    with VirtualFabric(LEAVES, SHORTEST_LERP, queue_pairs=1) as fabric:
        started = TaskRun(fabric, job.graph, lanes=1)
        PlacedTasks(started, job.pinned)
        fabric.run(MS)
        assert started.over
        sent = port_counts(fabric, "tx_packets")
    assert sent[1, 7] == 90, "s0's port to s6"
    assert [sent[1, port] for port in (5, 6, 8)] == [0, 0, 0]


def test_senders_that_choose_paths_take_no_placement() -> None:
    graph = job_by_name("ring:bytes=9,ranks=2", LEAVES)
    with VirtualFabric(LEAVES, SPRAY_LERP, queue_pairs=2) as fabric:
        started = TaskRun(fabric, graph, lanes=1)
        with pytest.raises(DetourError, match="scheme SprayLERP chooses paths itself"):
            PlacedTasks(started)


# -- rails, trees and NCCL's channels -----------------------------------------------------------------------

NCCL = """<graphs version="1">
  <graph id="0" pattern="4" crossnic="0" nchannels="2" speedintra="20" speedinter="20" typeintra="NVL" samechannels="1">
    <channel><net dev="0"/><gpu dev="0"/><gpu dev="3"/><gpu dev="2"/><gpu dev="1"/><net dev="0"/></channel>
    <channel><net dev="2"/><gpu dev="2"/><gpu dev="1"/><gpu dev="0"/><gpu dev="3"/><net dev="2"/></channel>
  </graph>
  <graph id="1" pattern="3" nchannels="1">
    <channel><net dev="1"/><gpu dev="1"/><gpu dev="0"/><gpu dev="2"/><gpu dev="3"/><net dev="1"/></channel>
  </graph>
</graphs>
"""


def laid_out(tmp_path: Path, text: str) -> JobRun:
    file = tmp_path / "jobs.yaml"
    file.write_text(f"jobs: [{{name: job, hosts: all, bytes: 1000, {text}}}]")
    return read_job_run(file, LEAVES)


@pytest.mark.parametrize("count", [2, 3, 4, 7, 16])
def test_two_trees_reach_all_and_share_the_work(count):
    both = double_trees(count)
    for parents in both:
        for rank in range(count):
            way = [rank]
            while parents[way[-1]] >= 0:
                way.append(parents[way[-1]])
            assert len(way) <= int(np.log2(count)) + 2
            assert way[-1] == parents.index(-1)
        assert max(parents.count(rank) for rank in range(count)) <= 2
    assert len(set(both[0]) & set(both[1]) - {-1}) <= 1, "who passes on in one tree is a leaf in the other"


@pytest.mark.parametrize(
    "text",
    ["double-tree:bytes=1001,ranks=5", "double-tree:bytes=1000,chunks=3", "rail:bytes=4000,group=4,ranks=12,nvlink=1T"],
)
def test_these_reduce_everything_everywhere(text):
    graph = job_by_name(text, LEAVES)
    ranks = int(graph.tasks["source"].max()) + 1
    # Inside machines nothing is sent: what a rank knows, its machine knows.
    group = 4 if text.startswith("rail") else 1
    for host, held in enumerate(knows(graph)[:ranks]):
        assert {other for other in range(ranks) if other % group == host % group} <= held
    assert run(graph).completed


def test_rails_send_across_machines_only(tmp_path):
    jobs = laid_out(tmp_path, "collective: rail-all-reduce, group: 4, nvlink: 800G")
    sent = between(jobs.graph)
    assert set(sent) == {(host, (host + 4) % 16) for host in range(16)}
    assert all(abs(size - 1000) <= 6 for size in sent.values()), "six messages, each rounded"
    (step,) = jobs.operations
    # Rings of 4 with flows of 1000 bytes: 4 * 1000 * 4 / 6 bytes of each rank; a byte takes 10 ps by NVLink.
    assert step.bytes == 2667
    computed = set(jobs.graph.tasks["compute_ps"].tolist())
    assert computed == {0, 2000 * 10}


def test_nccl_says_which_places_reduce_across_machines(tmp_path):
    file = tmp_path / "graph.xml"
    file.write_text(NCCL)
    ring = laid_out(tmp_path, f"collective: rail-all-reduce, graph: {file}")
    assert set(between(ring.graph)) == {(host, (host + 4) % 16) for host in range(16) if host % 4 in (0, 2)}
    file.write_text(NCCL.replace('pattern="4"', 'pattern="5"'))
    tree = laid_out(tmp_path, f"collective: rail-all-reduce, graph: {file}")
    assert {host % 4 for pair in between(tree.graph) for host in pair} == {1}
    assert run(tree.graph).completed


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('pattern="4"', 'pattern="9"'), None),
        (('<net dev="0"/></channel>', '<net dev="3"/></channel>'), r"devices \[0, 3\]; one for both"),
        (("</graphs>", ""), "graph.xml: "),
        (('net dev="2"', 'net dev="7"'), "each needs a GPU"),
        (('net dev="2"', 'net dev="x"'), "device 'x', which is not a number"),
    ],
)
def test_nccl_graphs_that_are_none(tmp_path, change, message):
    file = tmp_path / "graph.xml"
    file.write_text(NCCL.replace(*change) if message else "<graphs/>")
    with pytest.raises(DetourError, match=message or "no graph with pattern"):
        laid_out(tmp_path, f"collective: rail-all-reduce, graph: {file}")


def test_tokens_go_to_hot_experts_and_back(tmp_path):
    jobs = laid_out(tmp_path, "collective: moe, skew: 'moe:1.2', expert: 10us, iterations: 2")
    sent = between(jobs.graph)
    assert len(sent) == 16 * 15
    assert sum(sent.values()) == pytest.approx(2 * 2 * 16 * 15 * 1000, rel=1e-3)
    come = np.zeros(16)
    for (_, host), size in between(job_by_name("moe:bytes=16000,skew=moe:1.2", LEAVES)).items():
        come[host] += size
    assert come.max() > 2 * come.mean()
    assert [step.name for step in jobs.operations] == ["moe", "moe"]
