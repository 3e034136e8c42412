# SPDX-License-Identifier: Apache-2.0
"""Memory of a GPU, against numbers of the papers that its formulas are from."""

from __future__ import annotations

import pytest

from detour.fabric.workloads.gpu_memory import Activations, state_bytes
from detour.fabric.workloads.models import ModelRun

GPT3 = Activations(tokens=2048, sequence=2048, hidden=12288)
WIDTH = 2048 * 12288
"""s b h"""


@pytest.mark.parametrize(("zero", "gigabytes"), [(0, 120), (1, 31.4), (2, 16.6), (3, 1.9)])
def test_states_of_zero(zero, gigabytes):
    """Rajbhandari et al., figure 1: 7.5 billion parameters, 64 ranks."""
    assert sum(state_bytes(7.5e9, zero, 64)) / 1e9 == pytest.approx(gigabytes, abs=0.05)


def test_activations_of_a_layer():
    """Korthikanti et al., table 2, of GPT-3: 5 a s / h is 80."""
    assert GPT3.of_layer == WIDTH * (34 + 80)
    layer = {
        (8, False, None): 10 + 24 / 8 + 80 / 8, (8, True, None): (34 + 80) / 8, (8, False, "selective"): 10 + 24 / 8,
        (8, True, "selective"): 34 / 8, (8, True, "full"): 2,
    }  # fmt: skip
    for (tp, sequence, recompute), expected in layer.items():
        divided = Activations(
            tokens=2048, sequence=2048, hidden=12288, tp=tp, sequence_parallel=sequence, recompute=recompute
        )
        assert divided.of_layer == pytest.approx(WIDTH * expected)
    selective = Activations(tokens=2048, sequence=2048, hidden=12288, recompute="selective")
    assert 1 - selective.of_layer / GPT3.of_layer == pytest.approx(0.70, abs=0.005), "section 5"


def test_recomputing_costs_operations():
    """Attention's scores and what is made of them, 4 t s h of a layer's 24 t h^2 + 4 t s h, or all."""
    backward = {}
    for kind in (None, "selective", "full"):
        job = ModelRun(params=175e9, layers=96, hidden=12288, tp=8, recompute=kind).job("")
        backward[kind] = int(job["backward"][:-2]) / int(job["forward"][:-2])
    assert backward[None] == pytest.approx(2, rel=1e-6)
    assert backward["selective"] == pytest.approx(2 + 2048 / (6 * 12288 + 2048), rel=1e-6)
    assert backward["full"] == pytest.approx(3, rel=1e-6)


@pytest.mark.parametrize(("chunks", "more"), [(None, 1), (3, 1 + 7 / 24)])
def test_pipelines_hold_all_layers(chunks, more):
    """Section 4.2.3: the first stage holds L layers' activations, (p - 1) / (p m) more if it is interleaved."""
    run = ModelRun(
        params=175e9, layers=96, hidden=12288, tp=8, pp=8, batch=64, interleave=chunks, sequence_parallel=True,
        recompute="selective",
    )  # fmt: skip
    assert run.memory().activations == pytest.approx(96 * WIDTH * 34 / 8 * more)
    assert run.memory().optimizer == pytest.approx(12 * 175e9 / 64, rel=0.03)


def test_what_context_and_experts_hold():
    whole, halves = (ModelRun(params=7e9, dp=2, batch=2, context=context).memory() for context in (1, 2))
    assert halves.activations == whole.activations // 2
    assert halves.parameters == whole.parameters
    shared = ModelRun(params=7e9, dp=2, batch=2, context=2, zero=1).memory()
    assert shared.optimizer == pytest.approx(halves.optimizer / 4, abs=1)
    dense, sparse = (ModelRun(params=1e9, dp=8, ep=8, experts=count, batch=8) for count in (0, 16))
    assert sparse.memory().parameters - dense.memory().parameters == 2 * 8 * dense.shape()[1] ** 2 * dense.shape()[0]
