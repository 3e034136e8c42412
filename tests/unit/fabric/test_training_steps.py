# SPDX-License-Identifier: Apache-2.0
"""Training steps: the order of 1F1B, what is sent and computed, and steps from the shape of a model."""

from __future__ import annotations

import hashlib
import json
import lzma
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as some

from detour.base.errors import DetourError
from detour.base.times import MS, US
from detour.control.placement.jobs import read_jobs
from detour.control.placement.training import TrainingShape
from detour.fabric.backends.virtual.fabric import VirtualFabric
from detour.fabric.backends.virtual.scheme import SHORTEST_LERP, LinkSettings
from detour.fabric.traffic.tasks import TaskResult, connections_of, run_tasks
from detour.fabric.workloads.ideal import ideal_ps, wire_terms
from detour.fabric.workloads.jobs import JobRun, job_by_name, read_job_run
from detour.fabric.workloads.models import ModelRun
from detour.fabric.workloads.schedules import passes
from detour.fabric.workloads.tasks import TASK_FIELDS, TaskGraph
from detour.topo import Topology, parse_topology

DOCS = Path(__file__).resolve().parents[3] / "docs"
LEAVES = parse_topology("leaf-spine:leaves=4,spines=4,hosts=4")
DENSE = {
    "collective": "training-step", "hosts": "h0-h15", "tp": 2, "pp": 4, "dp": 2, "microbatches": 3, "layers": 2,
    "stage_bytes": 40_000, "tensor_bytes": 10_000, "gradient_bytes": 200_000, "forward": "100us", "backward": "200us",
    "head": "10us",
}  # fmt: skip
EXPERTS = {
    "collective": "training-step", "hosts": "h0-h15", "pp": 2, "dp": 8, "ep": 4, "microbatches": 2, "layers": 2,
    "stage_bytes": 40_000, "gradient_bytes": 200_000, "expert_bytes": 40_000, "expert_gradient_bytes": 100_000,
    "forward": "100us", "backward": "200us", "expert": "100us", "skew": "moe:1.0", "iterations": 2,
}  # fmt: skip


def file_of(folder: Path, **job: Any) -> Path:
    file = folder / "job.yaml"
    file.write_text(yaml.safe_dump({"jobs": [{"name": "step"} | job]}))
    return file


def job_run(folder: Path, **job: Any) -> JobRun:
    return read_job_run(file_of(folder, **job), LEAVES)


def run(graph: TaskGraph) -> TaskResult:
    with VirtualFabric(LEAVES, SHORTEST_LERP, queue_pairs=connections_of(graph, 1)) as fabric:
        return run_tasks(fabric, graph, 100 * MS, lanes=1)


# -- 1F1B ---------------------------------------------------------------------------------------------------


@given(some.integers(1, 8), some.integers(1, 12), some.integers(1, 3), some.data())
def test_stages_do_one_forward_and_one_backward_pass_in_turn(stages, microbatches, chunks, data):
    if stages == 1:
        chunks = 1
    if chunks > 1:
        microbatches = stages * data.draw(some.integers(1, 3))
    shape = TrainingShape(
        pp=stages, microbatches=microbatches, interleave=chunks, layers=chunks, stage_bytes=1
    )  # fmt: skip
    stage = data.draw(some.integers(0, stages - 1))
    ordered = passes(shape, stage)
    for way in ("forward", "backward"):
        for chunk in range(chunks):
            through = [each.microbatch for each in ordered if (each.way, each.chunk) == (way, chunk)]
            assert through == list(range(microbatches))
    most = stages - stage if chunks == 1 else 2 * (stages - 1 - stage) + (chunks - 1) * stages + 1
    under_way = 0
    for each in ordered:
        under_way += 1 if each.way == "forward" else -1
        assert 0 <= under_way <= min(most, microbatches * chunks), "activations that are held"


def test_chunks_are_interleaved_as_in_the_paper():
    """Narayanan et al., figure 4: the last of two stages with two chunks, by microbatch and chunk."""
    shape = TrainingShape(pp=2, microbatches=2, interleave=2, layers=2, stage_bytes=1)
    ordered = [f"{each.way[0]}{each.microbatch}{'ab'[each.chunk]}" for each in passes(shape, 1)]
    assert ordered == ["f0a", "f1a", "f0b", "b0b", "f1b", "b1b", "b0a", "b1a"]


def test_a_pipeline_takes_what_it_must():
    # (m + p - 1) passes of each kind, and a message between two stages for all but the last of the way there and back.
    graph = job_by_name("pipeline:bytes=1000,ranks=4,microbatches=6,forward=10us,backward=20us", LEAVES)
    ideal = ideal_ps(graph, wire_terms(LEAVES, LinkSettings()))
    message = int(ideal.task_ps[graph.is_message].max())
    taken = int(run(graph).finish_ps.max())
    assert ideal.total_ps <= taken
    assert taken == pytest.approx((6 + 4 - 1) * 30 * US, abs=6 * 6 * message)


# -- what is sent and computed ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        {}, {"zero": 1}, {"zero": 2, "bucket_bytes": 60_000}, {"zero": 3, "prefetch": True}, {"sm_share": 0.1},
        {"bucket_bytes": 30_000, "sm_share": 0.2}, {"sequence_parallel": True}, {"interleave": 2, "microbatches": 4},
        {"pp": 2, "context": 2, "context_bytes": 8_000, "attention": "30us", "zero": 1, "prefetch": True},
    ],
    ids=lambda change: "-".join(change) or "dense",
)  # fmt: skip
def test_dense_steps_send_what_a_placement_counts(tmp_path, change):
    sends_what_is_counted(tmp_path, DENSE | change)


@pytest.mark.parametrize("change", [{}, {"expert_chunks": 2}, {"zero": 3}, {"bucket_bytes": 50_000}])
def test_experts_send_what_a_placement_counts(tmp_path, change):
    sends_what_is_counted(tmp_path, EXPERTS | change)


def sends_what_is_counted(tmp_path: Path, job: dict[str, Any]) -> None:
    """In a run that comes to its end."""
    steps = job.get("iterations", 1)
    flows = read_jobs(file_of(tmp_path, **job), LEAVES)
    ends = zip(flows.source.tolist(), flows.target.tolist(), strict=True)
    counted: Counter[tuple[int, int]] = Counter()
    for pair, size in zip(ends, flows.size.tolist(), strict=True):
        counted[pair] += size
    sent: Counter[tuple[int, int]] = Counter()
    graph = job_run(tmp_path, **job).graph
    assert run(graph).completed
    for row in graph.tasks:
        if row["destination"] >= 0:
            sent[int(row["source"]), int(row["destination"])] += int(row["bytes"])
    assert set(sent) == set(counted)
    for pair, size in counted.items():
        assert sent[pair] / steps == pytest.approx(size, rel=1e-3), pair


def test_ranks_compute_what_they_are_told(tmp_path):
    jobs = job_run(tmp_path, **DENSE)
    tasks = jobs.graph.tasks
    computed = [int(tasks["compute_ps"][tasks["source"] == host].sum()) for host in range(16)]
    assert computed == [3 * 300 * US] * 12 + [3 * 330 * US] * 4, "the last stage makes the logits as well"
    kinds = Counter(step.name for step in jobs.operations)
    assert kinds == {"compute": 1, "tensor": 4 * 2 * 3 * 2 * 4, "gradient": 8, "forward": 36, "backward": 36}
    assert run(jobs.graph).completed


def test_hot_experts_compute_longer(tmp_path):
    even, hot = (job_run(tmp_path, **EXPERTS | {"skew": skew}) for skew in ("uniform", "moe:1.0"))
    times = []
    for jobs in (even, hot):
        tasks = jobs.graph.tasks
        times.append([int(tasks["compute_ps"][tasks["source"] == host].sum()) for host in range(16)])
    assert len({*times[0][:8]}) == 1
    assert max(times[1]) > max(times[0])
    assert sum(times[1]) == pytest.approx(sum(times[0]), rel=1e-6)
    assert run(hot.graph).finish_ps.max() > run(even.graph).finish_ps.max()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tp": 3}, "tp \\* pp \\* dp is 24, but there are 16 hosts"),
        ({"tp": "two"}, "'two'"),
        ({"stage_bytes": 0}, "need `stage_bytes`"),
        ({"layers": 0}, "layers is 0"),
        ({"forward": "fast"}, "forward: 'fast'"),
        ({"skew": "hot", "ep": 2, "expert_bytes": 1000}, "skew 'hot'"),
        ({"ep": 3}, "must divide dp"),
        ({"bytes": 3}, "unknown key `bytes`"),
        ({"context": 2, "context_bytes": 1}, "tp \\* pp \\* dp \\* context is 32, but"),
        ({"prefetch": 1}, "job step: prefetch is 1"),
    ],
)
def test_wrong_shapes_are_refused(tmp_path, change, message):
    with pytest.raises(DetourError, match=message):
        job_run(tmp_path, **DENSE | change)


def digest(graph: TaskGraph) -> str:
    parts = [graph.tasks[name].tobytes() for name in TASK_FIELDS.names or () if name != "slows"]
    parts += [graph.dependencies.tobytes(), graph.starts.tobytes(), "|".join(graph.steps).encode()]
    return hashlib.sha256(b"".join(parts)).hexdigest()[:16]


def test_jobs_without_overlap_are_the_graphs_that_they_always_were(tmp_path):
    assert digest(job_run(tmp_path, **DENSE).graph) == "6de87e68bbaa4864"
    assert digest(job_run(tmp_path, **EXPERTS).graph) == "a8bfddecaca44f36"
    pipeline = job_by_name("pipeline:bytes=1000,ranks=4,microbatches=6,forward=10us,backward=20us", LEAVES)
    assert digest(pipeline) == "d4441da6f7e7e19d"


# -- from the shape of a model ------------------------------------------------------------------------------


def test_published_models_have_their_shapes():
    # Brown et al., table 2.1, and Narayanan et al., table 1.
    for params, shape in ((1.3e9, (24, 2048)), (13e9, (40, 5120)), (175e9, (96, 12288))):
        layers, width = ModelRun(params=params).shape()
        assert layers == shape[0]
        assert width == pytest.approx(shape[1], rel=0.02)
        built = ModelRun(params=params, layers=shape[0], hidden=shape[1])
        assert built.parameters() == pytest.approx(params, rel=0.03)


def test_a_step_has_the_flops_of_its_paper():
    # 96 B s l h^2 (1 + s / 6h + V / 16 l h) with recomputation (Narayanan et al., equation 3).
    model = ModelRun(params=175e9, layers=96, hidden=12288, tp=8, pp=12, batch=24, recompute="full", flops=312e12)
    job = model.job("gpt3")
    s, h, layers, vocabulary = 2048, 12288, 96, 51_200
    flops = 96 * 24 * s * layers * h**2 * (1 + s / (6 * h) + vocabulary / (16 * layers * h))
    rate = 312e12 * 0.4 * 8

    def seconds(key: str) -> float:
        return float(job[key].removesuffix("ns")) / 1e9

    passes = 24 * (12 * (seconds("forward") + seconds("backward")) + 3 * seconds("head"))
    # Logits are computed once forward and twice backward, nobody recomputes them: 6 B s h V of the paper's 6.
    assert passes == pytest.approx(flops / rate, rel=1e-3)
    assert job["gradient_bytes"] == 2 * model.parameters() // 96
    assert job["stage_bytes"] == 2 * s * h // 8


def test_nvlink_takes_time_and_the_fabric_takes_bytes():
    inside, over = (
        ModelRun(params=1.3e9, tp=8, batch=8, nvlink_bps=rate).job("gpt") for rate in (3_600_000_000_000, None)
    )
    assert (inside["tensor_bytes"], over["tensor_bytes"]) == (0, 2 * 2048 * 2048)
    more_ns = int(inside["forward"][:-2]) - int(over["forward"][:-2])
    assert more_ns == pytest.approx(24 * 2 * 2 * 7 / 8 * over["tensor_bytes"] * 8 / 3600, rel=1e-3)


def test_experts_hold_most_weights():
    dense = ModelRun(params=7e9, dp=16, batch=16)
    sparse = ModelRun(params=7e9, dp=16, batch=16, experts=8, ep=8)
    assert sparse.parameters() > 5 * dense.parameters()
    job = sparse.job("moe")
    _, h = sparse.shape()
    assert job["expert_bytes"] == 2 * 2 * 2048 * h
    assert job["expert_gradient_bytes"] == 2 * 8 * h**2 * 32
    shape = TrainingShape(**{key: job[key] for key in ("dp", "ep", "layers", "expert_bytes", "skew")})
    assert shape.tokens.sum() == pytest.approx(8 * job["expert_bytes"] * 7 / 8, rel=1e-3)


@pytest.mark.parametrize(
    ("change", "message"),
    [({"pp": 7}, "layers is 40"), ({"dp": 3}, "batch is 8"), ({"experts": 8, "ep": 3, "dp": 8}, "dp is 8")],
)
def test_models_that_do_not_divide(change, message):
    with pytest.raises(DetourError, match=message):
        ModelRun(**{"params": 13e9, "batch": 8} | change).job("gpt")


@cache
def _gpt_175b() -> tuple[Topology, TaskGraph]:
    topology = parse_topology("leaf-spine:leaves=128,spines=8,hosts=8")
    return topology, read_job_run(DOCS / "jobs/gpt175b.yaml", topology).graph


@pytest.mark.long
@pytest.mark.parametrize(("file", "gbps"), [("gpt175b", 100), ("gpt175b-400g", 400)])
def test_the_stored_step_of_gpt_175b(file: str, gbps: int) -> None:
    """The runs (docs/training-step.md) took more than an hour and are not repeated: they are of the job file's
    messages, none of which was faster than its links."""
    topology, graph = _gpt_175b()
    stored = json.loads(lzma.decompress((DOCS / f"{file}.json.xz").read_bytes()))
    run, mtu = stored["run"], 4096
    links = LinkSettings(rate_bps=gbps * 10**9)
    alone = ideal_ps(graph, wire_terms(topology, links, mtu)).task_ps[graph.is_message]
    sent, finish = (np.array(stored["messages"][name]) * 1000 for name in ("sent_ns", "finish_ns"))
    assert (finish - sent >= alone - 1000).all()
    assert run["step_us"] == finish.max() / US
    packets = -(-graph.tasks["bytes"][graph.is_message] // mtu)
    assert stored["packets"] == packets.sum() + run["retransmitted"] // mtu
    assert (run["ended_by"], run["completed"]) == ("delivered", 1.0)
