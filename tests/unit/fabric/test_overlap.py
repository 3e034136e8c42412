# SPDX-License-Identifier: Apache-2.0
"""Training steps whose communication runs beside computing: times and volumes that are calculated by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from detour.base.errors import DetourError
from detour.base.times import MS, US
from detour.control.placement.training import TrainingShape
from detour.fabric.backends.virtual.fabric import VirtualFabric
from detour.fabric.backends.virtual.scheme import SHORTEST_LERP, LinkSettings
from detour.fabric.traffic.tasks import connections_of, run_tasks
from detour.fabric.workloads.collectives import Ranks, any_connection
from detour.fabric.workloads.ideal import group_computing_ps, ideal_ps, wire_terms
from detour.fabric.workloads.schedules import Buckets
from detour.fabric.workloads.tasks import TaskGraph, TaskList, flow_graph
from detour.fabric.workloads.training import Overlap, StepTimes, TrainingStep
from detour.topo import parse_topology

LEAF = parse_topology("leaf-spine:leaves=2,spines=1,hosts=8")
WIRE = wire_terms(LEAF, LinkSettings())


def step(shape: dict[str, Any], times: dict[str, int], **overlap: Any) -> TaskGraph:
    """All ranks are below the same switch."""
    ranks = TrainingShape(**shape)
    tasks = TaskList(16, serial=True)
    training = TrainingStep(ranks, StepTimes(**times), lambda what: any_connection, Overlap(**overlap))
    training.run(tasks, Ranks.fresh(range(ranks.ranks), "step"))
    return tasks.graph()


def ideal(shape: dict[str, Any], times: dict[str, int], **overlap: Any) -> int:
    return ideal_ps(step(shape, times, **overlap), WIRE).total_ps


def message_ps(size: int) -> int:
    return int(ideal_ps(flow_graph(16, 0, 1, size), WIRE).total_ps)


TWO = {"dp": 2, "layers": 4, "gradient_bytes": 400_000}
LONG, SHORT = {"forward_ps": 200 * US, "backward_ps": 400 * US}, {"forward_ps": 8 * US, "backward_ps": 8 * US}


@pytest.mark.parametrize("times", [LONG, SHORT], ids=["computing", "network"])
def test_buckets_are_reduced_while_earlier_layers_are_computed(times):
    """An all-reduce of two ranks is two messages, one after the other."""
    forward, backward, bucket = times["forward_ps"], times["backward_ps"], 2 * message_ps(50_000)
    assert ideal(TWO, times) == forward + backward + 2 * message_ps(200_000)
    expected = forward + (backward + bucket if times is LONG else backward // 4 + 4 * bucket)
    assert ideal(TWO, times, bucket_bytes=100_000) == expected
    # A bucket of three layers, and one of the last layer.
    last = max(forward + backward, forward + backward * 3 // 4 + 2 * message_ps(150_000)) + bucket
    assert ideal(TWO, times, bucket_bytes=300_000) == last


def test_only_the_last_microbatch_reduces():
    graph = step(TWO | {"microbatches": 3}, LONG, bucket_bytes=100_000)
    assert graph.message_bytes == 2 * 400_000
    assert ideal(TWO | {"microbatches": 3}, LONG, bucket_bytes=100_000) == 3 * 600 * US + 2 * message_ps(50_000)


@pytest.mark.parametrize(("zero", "rounds"), [(0, 2), (1, 2), (2, 4), (3, 9)])
def test_zero_sends_what_its_paper_says(zero, rounds):
    """Section 7: twice the gradients with stages 1 and 2, three times with 3; with three microbatches for each."""
    shape = {"dp": 4, "layers": 4, "gradient_bytes": 400_000, "microbatches": 3, "zero": zero}
    graph = step(shape, SHORT)
    sent = np.bincount(graph.tasks["source"], weights=graph.tasks["bytes"], minlength=16)
    assert sent[:4].tolist() == [rounds * 300_000] * 4
    assert {flow.bytes for flow in TrainingShape(**shape).flows()} == {rounds * 300_000}


def test_weights_are_gathered_ahead():
    shape, gather = TWO | {"zero": 3}, message_ps(50_000)
    # Each layer waits for its weights, twice; the last gradients are reduced behind the last layer.
    assert ideal(shape, LONG) == 600 * US + 8 * gather + gather
    assert ideal(shape, LONG, prefetch=True) == 600 * US + gather + gather
    # The network is slower: each layer's weights take longer than a layer.
    assert ideal(shape, SHORT, prefetch=True) == 8 * gather + 2 * US + gather


def test_optimizers_of_others_change_weights():
    shape, half = TWO | {"zero": 1}, message_ps(200_000)
    assert ideal(shape, LONG) == 600 * US + 2 * half
    assert ideal(shape, LONG, prefetch=True) == message_ps(50_000) + 600 * US + half
    both = ideal(shape, LONG, prefetch=True, bucket_bytes=100_000)
    assert both == message_ps(50_000) + 600 * US + message_ps(50_000)


@pytest.mark.parametrize("chunks", [1, 2, 4])
def test_interleaving_makes_the_bubble_smaller(chunks):
    """(p - 1) / v of a microbatch's passes (Narayanan et al., section 2.2)."""
    shape = {"pp": 4, "microbatches": 8, "layers": 4, "interleave": chunks, "stage_bytes": 64}
    times = {"forward_ps": 100 * US, "backward_ps": 200 * US}
    graph = step(shape, times)
    (computing,) = group_computing_ps(graph, np.zeros(len(graph), np.int64), 1).tolist()
    assert computing == (8 * chunks + 3) * 300 * US // chunks
    assert graph.message_bytes == 64 * 8 * 2 * (4 * chunks - 1)


@pytest.mark.parametrize("attention_ps", [400 * US, 4 * US], ids=["computing", "network"])
def test_keys_and_values_go_around_a_ring(attention_ps):
    shape = {"context": 4, "layers": 1, "context_bytes": 50_000}
    times = {"forward_ps": attention_ps + 6 * US, "backward_ps": 2 * attention_ps + 6 * US}
    block = attention_ps // 4
    forward = 6 * US + 3 * max(block, message_ps(50_000)) + block
    backward = 6 * US + 3 * max(2 * block, message_ps(100_000)) + 2 * block
    assert ideal(shape, times | {"attention_ps": attention_ps}) == forward + backward


def test_experts_compute_while_tokens_are_exchanged():
    shape = {"dp": 2, "ep": 2, "layers": 1, "expert_bytes": 200_000}
    times = {"forward_ps": 0, "backward_ps": 0, "expert_ps": 100 * US}
    assert ideal(shape, times) == 300 * US + 4 * message_ps(100_000)
    assert ideal(shape, times, expert_chunks=4) == 300 * US + 4 * message_ps(25_000)


def test_sequence_parallelism_divides_all_reduces():
    shape, times = {"tp": 2, "layers": 2, "tensor_bytes": 100_000}, LONG
    assert ideal(shape, times, sequence_parallel=True) == ideal(shape, times) == 600 * US + 8 * 2 * message_ps(50_000)


def test_collectives_take_their_share_of_computing():
    """The second layer is computed beside a bucket that takes longer, the last bucket beside nothing."""
    shape = {"dp": 2, "layers": 2, "gradient_bytes": 4_000_000}
    times = {"forward_ps": 20 * US, "backward_ps": 60 * US}
    graph = step(shape, times, bucket_bytes=2_000_000, sm_share=0.25)
    with VirtualFabric(LEAF, SHORTEST_LERP, queue_pairs=connections_of(graph)) as fabric:
        result = run_tasks(fabric, graph, 10 * MS)
    assert result.completed
    computed = np.flatnonzero((graph.tasks["compute_ps"] > 0) & (graph.tasks["source"] == 0))
    took = (result.finish_ps - result.start_ps)[computed] / US
    assert took.tolist() == pytest.approx([20, 30, 40], abs=1e-3)


def test_buckets():
    assert Buckets(10, 4).sizes == [2, 3, 2, 3]
    assert Buckets(2, 4).sizes == [1, 1], "layers of no bytes have none"
    buckets = Buckets(100, 4, 30)
    assert buckets.sizes == [30, 30, 30, 10]
    assert [buckets.complete(layer) for layer in range(4)] == [[], [30], [30], [30, 10]]
    assert [buckets.needed(layer) for layer in range(4)] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("job", "message"),
    [
        ({"bucket_bytes": -1}, "bucket_bytes is -1"),
        ({"expert_chunks": 0}, "expert_chunks is 0"),
        ({"prefetch": "yes"}, "prefetch is 'yes'; it must be true or false"),
        ({"sm_share": 1}, "sm_share is 1; it must be a number from 0 to below 1"),
    ],
)
def test_overlap_that_means_nothing(job, message):
    with pytest.raises(DetourError, match=message):
        Overlap.of(job)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ({"zero": 4}, "zero is 4"),
        ({"context": 2}, "need"),
        ({"interleave": 2, "layers": 2}, "there is one stage"),
        ({"interleave": 2, "layers": 3, "pp": 2, "stage_bytes": 1}, "layers is 3"),
        ({"interleave": 2, "layers": 2, "pp": 2, "stage_bytes": 1, "microbatches": 3}, "microbatches is 3"),
    ],
)
def test_shapes_that_do_not_divide(shape, message):
    with pytest.raises(DetourError, match=message):
        TrainingShape(**shape)
