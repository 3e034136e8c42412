# SPDX-License-Identifier: Apache-2.0
"""Workloads for other simulators: what is read again runs as what was written."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from detour.base.errors import DetourError
from detour.base.times import MS, US
from detour.experiments.sim.workloads import open_workload
from detour.fabric.backends.virtual.fabric import VirtualFabric
from detour.fabric.backends.virtual.scheme import SHORTEST_LERP
from detour.fabric.traffic.tasks import connections_of, run_tasks
from detour.fabric.workloads.chakra import read_chakra
from detour.fabric.workloads.chakra_nodes import read_nodes
from detour.fabric.workloads.exports import goal_binary, goal_text, rank_operations, write_chakra, write_goal
from detour.fabric.workloads.goal import read_goal
from detour.fabric.workloads.jobs import job_by_name
from detour.fabric.workloads.tasks import TaskGraph, TaskList
from detour.topo import parse_topology

TOPOLOGY = parse_topology("leaf-spine:leaves=2,spines=2,hosts=4")
WORKLOADS = [
    "ring:bytes=1e5,reduce=2us,iterations=2,compute=5us", "hierarchical:bytes=1e5,group=4",
    "moe:bytes=1e5,skew=moe:1.0",
    "pipeline:bytes=1e4,ranks=4,microbatches=3,forward=5us,backward=10us", "double-tree:bytes=1e5,start=3us",
]  # fmt: skip


def finish_ps(graph: TaskGraph) -> int:
    with VirtualFabric(TOPOLOGY, SHORTEST_LERP, queue_pairs=connections_of(graph, 1)) as fabric:
        result = run_tasks(fabric, graph, 50 * MS, lanes=1)
    assert result.completed
    return int(result.finish_ps.max())


def sizes(graph: TaskGraph) -> list[tuple[int, ...]]:
    rows = graph.tasks[graph.is_message]
    return sorted(zip(*(rows[name].tolist() for name in ("source", "destination", "bytes")), strict=True))


@pytest.mark.parametrize("text", WORKLOADS)
def test_what_was_written_runs_as_before(tmp_path, text):
    graph = job_by_name(text, TOPOLOGY)
    usual = finish_ps(graph)
    (schedule,) = write_goal(tmp_path / "x.goal", graph)
    (packed,) = write_goal(tmp_path / "x.bin", graph, binary=True)
    traces = write_chakra(tmp_path / "x.et", graph)
    assert [file.name for file in traces] == [f"x.{host}.et" for host in range(4 if "ranks=4" in text else 8)]
    for again in (read_goal(schedule, 8), read_goal(packed, 8), read_chakra(traces[0], 8)):
        assert sizes(again) == sizes(graph)
        # Which of several ready messages of a host goes first is not in the files.
        assert finish_ps(again) == pytest.approx(usual, rel=0.02)


@some.composite
def graphs(draw) -> TaskGraph:
    tasks = TaskList(4, serial=draw(some.booleans()))
    heard: list[tuple[int, int]] = []
    for _ in range(draw(some.integers(1, 12))):
        host = draw(some.integers(0, 3))
        mine = [task for task, where in heard if where == host]
        after = draw(some.lists(some.sampled_from(mine), unique=True, max_size=3)) if mine else []
        compute_ps = draw(some.sampled_from([0, US, 7 * US]))
        if draw(some.booleans()):
            other = (host + draw(some.integers(1, 3))) % 4
            size = draw(some.integers(1, 5000))
            task = tasks.message(host, other, size, after=after, compute_ps=compute_ps)
            heard.append((task, other))
        else:
            task = tasks.compute(host, compute_ps, after=after)
        heard.append((task, host))
    tasks.message(0, 1, 1)
    return tasks.graph()


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(graphs())
def test_both_forms_of_a_schedule_say_the_same(tmp_path: Path, graph: TaskGraph):
    ranks = rank_operations(graph)
    files = tmp_path / "a.goal", tmp_path / "b.bin"
    files[0].write_text(goal_text(ranks))
    files[1].write_bytes(goal_binary(ranks))
    text, packed = (read_goal(file, 4) for file in files)
    assert (text.tasks == packed.tasks).all()
    pairs = [sorted(zip(*each.dependencies.T.tolist(), each.starts.tolist(), strict=True)) for each in (text, packed)]
    assert pairs[0] == pairs[1]


def test_binary_schedules_are_those_of_txt2bin():
    # The digest is that of what ATLAHS' txt2bin makes of the text (spcl/atlahs, 8837294).
    graph = job_by_name("ring:bytes=1e5,ranks=4,reduce=2us,iterations=2,compute=5us", TOPOLOGY)
    ranks = rank_operations(graph)[:4]
    assert hashlib.sha256(goal_text(ranks).encode()).hexdigest() == TEXT_DIGEST
    assert hashlib.sha256(goal_binary(ranks)).hexdigest() == BINARY_DIGEST


TEXT_DIGEST = "5ec82bd3920995c164e97a2cd0216cec33222747c82f2abc75d7c3da61a49ba1"
BINARY_DIGEST = "62e7cb32b5f2740934dec2a2dbb6524eafab157227e0c3668a35aab55a14d146"


def test_a_binary_schedule_is_known_by_its_beginning(tmp_path):
    graph = job_by_name("ring:bytes=1e4,ranks=4", TOPOLOGY)
    (file,) = write_goal(tmp_path / "schedule", graph, binary=True)
    assert len(open_workload(f"{tmp_path}/schedule", TOPOLOGY, 10**11, 1).graph) == len(read_goal(file, 8))


@pytest.mark.parametrize("kept", [8, 13, 30, 200, -4])
def test_binary_schedules_that_are_cut_off(tmp_path, kept):
    data = goal_binary(rank_operations(job_by_name("ring:bytes=1e4,ranks=4", TOPOLOGY)))
    (tmp_path / "x.bin").write_bytes(data[:kept])
    with pytest.raises(DetourError, match=r"x\.bin: it is truncated or damaged"):
        read_goal(tmp_path / "x.bin", 8)


def test_receives_from_anybody_are_refused_in_both_forms(tmp_path):
    ranks = rank_operations(job_by_name("ring:bytes=1e4,ranks=2", TOPOLOGY))
    receive = next(each for each in ranks[0] if each.kind == 2)
    receive.peer = 2**32 - 1
    (tmp_path / "x.bin").write_bytes(goal_binary(ranks))
    with pytest.raises(DetourError, match=r"any source \(-1\)"):
        read_goal(tmp_path / "x.bin", 8)


def test_who_waits_for_a_beginning_waits_for_what_that_waits_for(tmp_path):
    tasks = TaskList(2, serial=True)
    first = tasks.compute(0, 3 * US)
    long = tasks.compute(0, 50 * US, after=[first], unit=1)
    then = tasks.compute(0, 5 * US)
    tasks.wait(then, long, on_start=True)
    tasks.message(0, 1, 1000, after=[then])
    (file, _) = write_chakra(tmp_path / "x.et", tasks.graph())
    nodes = read_nodes(file)
    assert [node.after for node in nodes if node.kind == "COMP_NODE"] == [(), (0,), (0,)]
    assert np.all([node.micros for node in nodes][:3] == [3, 50, 5])


def test_rounding_to_microseconds_does_not_add_up(tmp_path):
    tasks = TaskList(2, serial=True)
    waits = tasks.compute(0, 1_400_000)
    for _ in range(4):
        waits = tasks.compute(0, 1_400_000, after=[waits])
    tasks.message(0, 1, 1000, after=[waits])
    (file, _) = write_chakra(tmp_path / "x.et", tasks.graph())
    assert [node.micros for node in read_nodes(file) if node.kind == "COMP_NODE"] == [1, 2, 1, 2, 1]


def test_times_of_a_host_are_waited_for_together(tmp_path):
    tasks = TaskList(8, serial=True)
    tasks.message(0, 1, 1000, start_ps=3 * MS)
    tasks.message(0, 2, 1000, start_ps=MS)
    tasks.message(0, 3, 1000, after=[tasks.compute(0, 20 * US, start_ps=MS)])
    graph = tasks.graph()
    traces = write_chakra(tmp_path / "x.et", graph)
    nodes = [node for node in read_nodes(traces[0]) if node.kind == "COMP_NODE"]
    assert [(node.micros, node.after) for node in nodes] == [(20, (4,)), (1000, ()), (2000, (4,))]
    for again in (read_chakra(traces[0], 8), read_goal(write_goal(tmp_path / "x.goal", graph)[0], 8)):
        assert finish_ps(again) == pytest.approx(finish_ps(graph), rel=0.01)
