# SPDX-License-Identifier: Apache-2.0
"""Graphs of tasks: what is refused, and that everything happens at the very moment at which it must."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from detour.base.errors import DetourError
from detour.base.times import MS, NS, US
from detour.fabric.backends.virtual.fabric import VirtualFabric
from detour.fabric.backends.virtual.scheme import (
    ROCE_WITH_PFC,
    SHORTEST_LERP,
    SPRAY_LERP,
    TELEMETRY_GBN,
    LinkSettings,
    RunSettings,
    Scheme,
)
from detour.fabric.traffic.placed_tasks import PlacedTasks
from detour.fabric.traffic.tasks import TaskResult, TaskRun, connections_of, run_tasks
from detour.fabric.workloads.ideal import ideal_ps, wire_terms
from detour.fabric.workloads.tasks import TASK_FIELDS, TaskGraph, TaskList, flow_graph
from detour.topo import Topology, parse_topology

LEAVES = parse_topology("leaf-spine:leaves=4,spines=2,hosts=2")
UNEQUAL = LinkSettings(100_000_000_000, 500 * NS, 300 * NS, overhead_bytes=20)
SLOW_TRUNKS = replace(
    LEAVES,
    spec="leaf-spine with slow trunks",
    links=tuple(link if link.kind == "host" else replace(link, speed=0.4) for link in LEAVES.links),
)


def run(graph: TaskGraph, scheme: Scheme = SHORTEST_LERP, until: int = 20 * MS, *, lanes: int = 4) -> TaskResult:
    with VirtualFabric(LEAVES, scheme, queue_pairs=connections_of(graph, lanes)) as fabric:
        return run_tasks(fabric, graph, until, lanes=lanes)


# -- what is refused ----------------------------------------------------------------------------------------


def cycle(tasks: TaskList) -> None:
    a, b, c = (tasks.compute(0, 1) for _ in range(3))
    tasks.wait(a, b)
    tasks.wait(b, c)
    tasks.wait(c, a)


def foreign(tasks: TaskList) -> None:
    tasks.message(2, 3, 1, after=[tasks.message(0, 1, 1)])


def begun_elsewhere(tasks: TaskList) -> None:
    tasks.wait(tasks.message(1, 2, 1), tasks.message(0, 1, 1), on_start=True)


@pytest.mark.parametrize(
    ("add", "says"),
    [
        (lambda tasks: tasks.message(0, 4, 1), "task 0: there is no host h4; there are h0 to h3"),
        (lambda tasks: tasks.message(-1, 2, 1), "task 0: there is no host h-1"),
        (lambda tasks: tasks.message(2, 2, 1), "h2 would send to itself"),
        (lambda tasks: tasks.message(0, 1, 0), "a message of 0 bytes; it must have at least one"),
        (lambda tasks: tasks.message(0, 1, -5), "a message of -5 bytes"),
        (lambda tasks: tasks.message(0, 1, 1 << 50), "at most 2\\*\\*40"),
        (lambda tasks: tasks.message(0, 1, 1 << 70), "beyond 64 bits"),
        (lambda tasks: tasks.message(0, 1, 1, start_ps=-1), "start_ps is -1"),
        (lambda tasks: tasks.compute(0, -7, label="line 3"), "^line 3: compute_ps is -7"),
        (lambda tasks: tasks.compute(0, 1, after=[7]), "task 0 would wait for task 7; there are tasks 0 to 0"),
        (foreign, "task 1 at h2 waits for task 0, an event at another host"),
        (begun_elsewhere, "waits for task 1, an event at another host"),
        (cycle, "in a cycle: task 0 -> task 2 -> task 1 -> task 0"),
        (lambda tasks: None, "there is no task"),
    ],
)
def test_graphs_that_cannot_run_are_refused(add: Callable[[TaskList], object], says: str) -> None:
    def graph() -> TaskGraph:
        tasks = TaskList(4)
        add(tasks)
        return tasks.graph()

    with pytest.raises(DetourError, match=says):
        graph()


def test_a_cycle_behind_a_chain_is_shown_without_the_chain() -> None:
    tasks = TaskList(1)
    chain = [tasks.compute(0, 1) for _ in range(30)]
    for earlier, later in pairwise(chain):
        tasks.wait(later, earlier)
    tasks.wait(chain[20], chain[22])
    with pytest.raises(DetourError, match=r"cycle: task 20 -> task 21 -> task 22 -> task 20$|task 22 -> task 20 -> "):
        tasks.graph()


def test_numbers_of_hosts_do_not_wrap() -> None:
    with pytest.raises(DetourError, match="there is no host"):
        flow_graph(4, [1 << 32], [1], [100])


def test_a_graph_must_fit_its_fabric() -> None:
    with VirtualFabric(LEAVES, SHORTEST_LERP, queue_pairs=1) as fabric:
        with pytest.raises(DetourError, match=r"has 9 hosts, but leaf-spine:.* has 8"):
            TaskRun(fabric, flow_graph(9, [0], [1], [100]))
        run = TaskRun(fabric, flow_graph(8, [0, 1], [1, 0], [100, 100]), keep=True)
        with pytest.raises(DetourError, match="2 connections with paths of their own; expected at most 1"):
            PlacedTasks(run)


# -- times --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("topology", "links"), [(LEAVES, LinkSettings()), (SLOW_TRUNKS, UNEQUAL)], ids=["equal", "unequal"]
)
def test_a_message_alone_takes_its_ideal_time_to_the_picosecond(topology: Topology, links: LinkSettings) -> None:
    sizes = [1, 999, 1000, 1001, 2001, 123_456]
    graph = flow_graph(8, 0, [5] * 6 + [1] * 6, sizes * 2, np.arange(12) * 200 * US)
    ideal = ideal_ps(graph, wire_terms(topology, links))
    with VirtualFabric(topology, SHORTEST_LERP, RunSettings(links), queue_pairs=connections_of(graph)) as fabric:
        result = run_tasks(fabric, graph, 20 * MS)
    assert result.flow_completion_ps().tolist() == ideal.task_ps.tolist()
    assert result.sent_ps.tolist() == (np.arange(12) * 200 * US).tolist()
    assert ideal.total_ps == result.finish_ps.max()


def test_tasks_begin_when_the_last_thing_that_they_wait_for_happens() -> None:
    tasks = TaskList(8)
    out = tasks.message(0, 5, 50_000, step="out")
    back = tasks.message(5, 0, 3000, after=[out], compute_ps=3 * US, step="back")
    behind = tasks.message(0, 5, 700, after=[out], step="back")
    beside = tasks.message(0, 3, 700)
    tasks.wait(beside, out, on_start=True)
    computed = tasks.compute(5, 7 * US, after=[out], start_ps=1)
    late = tasks.message(5, 1, 1, after=[computed, back], start_ps=90 * US)
    result = run(tasks.graph())
    assert result.completed
    assert result.sent_ps[[out, beside]].tolist() == [0, 0], "it waits for the beginning only"
    assert result.ready_ps[back] == result.finish_ps[out], "the receiver knows when it has all bytes"
    assert result.sent_ps[back] == result.finish_ps[out] + 3 * US
    assert result.sent_ps[behind] == result.acked_ps[out] > result.finish_ps[out], "the sender when it is told"
    assert result.finish_ps[computed] == result.finish_ps[out] + 7 * US
    assert result.sent_ps[late] == 90 * US
    assert result.flow_completion_ps()[computed] == -1
    spans = result.step_spans_ps().tolist()
    assert spans == [[0, result.finish_ps[out]], [result.finish_ps[out], result.finish_ps[[back, behind]].max()]]


def test_a_serial_host_computes_one_thing_at_a_time() -> None:
    """Messages without computing are not held up."""
    tasks = TaskList(8, serial=True)
    first, second, third = (tasks.compute(0, time * US) for time in (5, 3, 2))
    other = tasks.compute(1, 4 * US)
    sent = tasks.message(0, 1, 100, after=[second], compute_ps=US)
    free = tasks.message(0, 1, 100)
    begun = tasks.compute(2, 0)
    another = tasks.compute(0, 9 * US, unit=1)
    tasks.wait(tasks.message(0, 3, 1), third, on_start=True)
    result = run(tasks.graph())
    assert (result.start_ps[[first, second, third, other]] / US).tolist() == [0, 5, 8, 0]
    assert (result.finish_ps[[first, second, third, other]] / US).tolist() == [5, 8, 10, 4]
    assert (result.start_ps[sent], result.sent_ps[sent]) == (10 * US, 11 * US)
    assert result.sent_ps[free] == result.finish_ps[begun] == 0
    assert result.finish_ps[another] == 9 * US, "another unit"
    assert result.sent_ps[8] == 8 * US, "its turn has come, not its readiness"


def test_communication_kernels_slow_what_their_host_computes() -> None:
    """By a quarter from 4 us on, until 12 us: two kernels at once take no more than one."""
    tasks = TaskList(8, serial=True)
    first, booked = tasks.compute(0, 6 * US), tasks.compute(0, 9 * US)
    other_unit, other_host = tasks.compute(0, 6 * US, unit=1), tasks.compute(1, 6 * US)
    for begin, end in ((4, 8), (6, 12)):
        tasks.compute(0, 0, start_ps=begin * US, slows=1 << 14)
        tasks.compute(0, 0, start_ps=end * US, slows=-(1 << 14))
    result = run(tasks.graph())
    assert result.finish_ps[first] == 4 * US + 2 * US * 4 // 3, "2 us are left when the kernel begins"
    assert result.start_ps[booked] == result.finish_ps[first]
    # In 8 us with a kernel it computes 6 us, so all 15 us take 17.
    assert result.finish_ps[booked] == pytest.approx(17 * US, abs=2)
    assert result.finish_ps[[other_unit, other_host]].tolist() == [6 * US, 6 * US]


@pytest.mark.parametrize(("duration_ps", "unit", "slows"), [(5, 0, 1), (0, -1, 1), (0, 0, 1 << 16)])
def test_kernels_that_mean_nothing_are_refused(duration_ps: int, unit: int, slows: int) -> None:
    tasks = TaskList(2, serial=True)
    tasks.compute(0, duration_ps, unit=unit, slows=slows)
    with pytest.raises(DetourError, match="slows a unit"):
        tasks.graph()


def reference(graph: TaskGraph) -> tuple[np.ndarray, np.ndarray]:
    """Begin and end of computations on serial hosts, the slow way: always the task that is ready first, then the one
    of the lowest number."""
    n = len(graph)
    begin, end = np.full(n, -1), np.full(n, -1)
    free = np.zeros(graph.hosts, np.int64)
    open_ = set(range(n))
    waits: dict[int, list[tuple[int, bool]]] = {k: [] for k in range(n)}
    for (a, b), start in zip(graph.dependencies.tolist(), graph.starts.tolist(), strict=True):
        waits[b].append((a, start))
    while open_:
        ready = {}
        for k in open_:
            if all(begin[a] >= 0 for a, _ in waits[k]):
                met = [begin[a] if start else end[a] for a, start in waits[k]]
                ready[k] = max([int(graph.tasks["start_ps"][k]), *met])
        k = min(ready, key=lambda k: (ready[k], k))
        host = graph.tasks["source"][k]
        begin[k] = max(ready[k], free[host])
        end[k] = free[host] = begin[k] + graph.tasks["compute_ps"][k]
        open_.remove(k)
    return begin, end


def test_computations_are_those_of_a_slow_reference() -> None:
    random = np.random.default_rng(5)
    tasks = TaskList(3, serial=True)
    mine: dict[int, list[int]] = {0: [], 1: [], 2: []}
    for _ in range(150):
        host = int(random.integers(3))
        some = random.choice(mine[host], min(len(mine[host]), int(random.integers(3))), replace=False)
        # Times from 1 on: what becomes ready at the moment at which others begin is a matter of order.
        k = tasks.compute(host, int(random.integers(1, 1000)), start_ps=int(random.integers(20_000)))
        for earlier in some.tolist():
            tasks.wait(k, earlier, on_start=bool(random.integers(2)))
        mine[host].append(k)
    graph = tasks.graph()
    begin, end = reference(graph)
    result = run(graph)
    assert result.start_ps.tolist() == begin.tolist()
    assert result.finish_ps.tolist() == end.tolist()


# -- connections --------------------------------------------------------------------------------------------


def test_messages_beyond_the_send_queue_wait_and_keep_their_order() -> None:
    graph = flow_graph(8, [0] * 50, [5] * 50, np.arange(1, 51) * 100)
    result = run(graph, lanes=1)
    assert result.completed
    assert set(result.lane.tolist()) == {0}
    assert (np.diff(result.finish_ps) > 0).all()
    assert result.sent_ps.tolist() == [0] * 50


def test_messages_take_idle_connections_in_turn() -> None:
    graph = flow_graph(8, [0] * 6, [5] * 6, 1000, [0, 0, 0, 0, 100 * US, 200 * US])
    assert connections_of(graph, 3) == 3
    assert run(graph, lanes=3).lane.tolist() == [0, 1, 2, 0, 1, 2]


def test_tasks_can_name_their_connection() -> None:
    tasks = TaskList(8)
    for number in (2, 0, 2):
        tasks.message(0, 5, 1000, connection=number)
    tasks.message(0, 1, 1000)
    graph = tasks.graph()
    assert connections_of(graph) == 4
    with VirtualFabric(LEAVES, SHORTEST_LERP, queue_pairs=4) as fabric:
        run_ = TaskRun(fabric, graph)
        assert run_.connections.tolist() == [[0, 1], [0, 5], [0, 5], [0, 5]]
        assert run_.connection_bytes().tolist() == [1000, 1000, 1, 2000]
        assert run_.index(0, 5, 2) == 3
        fabric.run(MS)
        assert run_.over
        assert run_.result().lane.tolist() == [3, 1, 3, 0]


def test_more_messages_at_once_than_a_completion_queue_holds() -> None:
    """Their completions are the event queue's."""
    count = 1500
    result = run(flow_graph(8, [0] * count, [5] * count, 100), lanes=128)
    assert result.completed


# -- whole runs ---------------------------------------------------------------------------------------------


def mixed() -> TaskGraph:
    random = np.random.default_rng(3)
    tasks = TaskList(8, serial=True)
    for k in range(120):
        a, b = random.choice(8, 2, replace=False).tolist()
        previous = [n for n in range(k) if a in ENDS[n]][-2:]
        ENDS.append((a, b))
        tasks.message(a, b, int(random.integers(1, 60_000)), after=previous, compute_ps=int(random.integers(2 * US)))
    return tasks.graph()


ENDS: list[tuple[int, int]] = []
MIXED = mixed()


@pytest.mark.parametrize("scheme", [SHORTEST_LERP, SPRAY_LERP, TELEMETRY_GBN, ROCE_WITH_PFC], ids=lambda s: s.name)
def test_every_transport_carries_tasks(scheme: Scheme) -> None:
    result = run(MIXED, scheme)
    assert result.completed
    assert not result.failed.any()
    first, then = MIXED.dependencies.T
    same = MIXED.tasks["source"][then] == MIXED.tasks["source"][first]
    finished = np.where(same, result.acked_ps[first], result.finish_ps[first])
    last = np.zeros(len(MIXED), np.int64)
    np.maximum.at(last, then, finished)
    assert result.ready_ps.tolist() == last.tolist()
    ideal = ideal_ps(MIXED, wire_terms(LEAVES, LinkSettings()))
    assert (result.flow_completion_ps() >= ideal.task_ps).all()
    assert result.finish_ps.max() >= ideal.total_ps


def test_the_same_run_is_the_same_however_it_is_cut_and_divided() -> None:
    whole = run(MIXED)
    with VirtualFabric(LEAVES, SHORTEST_LERP, queue_pairs=connections_of(MIXED)) as fabric:
        in_parts = TaskRun(fabric, MIXED)
        while not in_parts.over:
            fabric.run(fabric.now_ps + 3 * US)
        cut = in_parts.result()
    with VirtualFabric(LEAVES, SHORTEST_LERP, queue_pairs=connections_of(MIXED)) as fabric:
        together = TaskRun(fabric, MIXED)
        fabric.network._may_divide = False
        fabric.run(20 * MS)
        undivided = together.result()
    for other in (cut, undivided):
        for name in ("ready_ps", "start_ps", "sent_ps", "finish_ps", "lane"):
            assert getattr(other, name).tolist() == getattr(whole, name).tolist()


def test_what_waits_for_a_host_that_is_cut_off_does_not_happen() -> None:
    tasks = TaskList(8)
    lost = tasks.message(0, 5, 1000)
    never = tasks.message(5, 1, 1000, after=[lost])
    tasks.message(1, 2, 1000)
    graph = tasks.graph()
    with VirtualFabric(LEAVES, SHORTEST_LERP, queue_pairs=3) as fabric:
        fabric.set_link(LEAVES.link("s2-h5").index, False)
        result = run_tasks(fabric, graph, MS)
    assert not result.completed
    assert result.finished.tolist() == [False, False, True]
    assert (result.sent_ps[never], result.finish_ps[lost]) == (-1, -1)
    assert result.end_ps == MS
    assert result.step_spans_ps().shape == (0, 2)


def test_a_connection_that_gives_up_fails_all_that_waits_for_it() -> None:
    graph = flow_graph(8, [0] * 40, [5] * 40, 1000)
    with VirtualFabric(LEAVES, SHORTEST_LERP, queue_pairs=1) as fabric:
        fabric.hs.cfg[0]["retry_ps"] = 2 * MS
        fabric.set_link(LEAVES.link("s2-h5").index, False)
        result = run_tasks(fabric, graph, 100 * MS, lanes=1)
    assert result.failed.all()
    assert result.end_ps < 100 * MS
    assert not result.finished.any()


def test_graphs_are_arrays_of_one_type() -> None:
    with pytest.raises(DetourError, match="TASK_FIELDS"):
        TaskGraph(2, np.zeros(3))
    tasks = np.zeros(1, TASK_FIELDS)
    tasks["destination"], tasks["bytes"] = 1, 5
    with pytest.raises(DetourError, match="there is no step 0; there are 0"):
        TaskGraph(2, tasks)
