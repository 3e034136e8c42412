# SPDX-License-Identifier: Apache-2.0
"""Any number of threads gives the same results as one, and as a fabric that is not divided: every table of hosts, every
counter of ports and switches, counters and registers of P4 programs."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

import numpy as np
import pytest

from detour.base.errors import DetourError
from detour.experiments.bench.parallel import state_of
from detour.fabric.backends.virtual import scheme as schemes
from detour.fabric.backends.virtual.fabric import VirtualFabric
from detour.fabric.backends.virtual.scheme import LinkSettings, RunSettings
from detour.topo import parse_topology
from detour.topo.failures import Failure

pytestmark = pytest.mark.slow

US, MS = 10**6, 10**9


@dataclass(frozen=True)
class Case:
    topology: str
    scheme: str
    seed: int
    loss: float = 0.0
    fails: bool = False

    def __str__(self) -> str:
        return f"{self.topology} {self.scheme} {self.seed}"


CASES = [
    Case("dragonfly:p=2,a=4,h=2", "TelemetryLERP", 1),
    Case("dragonfly:p=2,a=4,h=2", "SprayLERP", 2, fails=True),
    Case("dragonfly:p=2,a=4,h=2", "Benchmark", 3),
    Case("dragonfly:p=2,a=4,h=2", "ShortestPath", 4),
    Case("dragonfly:p=2,a=4,h=2", "UGAL-L", 5),
    Case("dragonfly:p=2,a=4,h=2", "TelemetryGBN", 6, loss=0.001),
    Case("fat-tree:k=4", "LERP-shortest", 7, loss=0.01),
    Case("fat-tree:k=4", "REPS", 8, fails=True),
    Case("fat-tree:k=4", "MRC-like-NSCC", 9),
    Case("leaf-spine:leaves=4,spines=4,hosts=3", "Oblivious", 10),
    Case("leaf-spine:leaves=4,spines=4,hosts=3", "PLB", 11, loss=0.002, fails=True),
    Case("jellyfish:n=12,s=4,hosts=2", "LERP-shortest", 12),
]


def _results(case: Case, threads: int, divided: bool = True) -> tuple[dict[str, np.ndarray], int]:
    """Everything that a run leaves behind, and the threads that executed it."""
    topology = parse_topology(case.topology)
    rng, count = random.Random(case.seed), len(topology.hosts)
    pairs = [(a, (a + rng.randrange(1, count)) % count) for a in range(count) for _ in range(2)]
    links = replace(LinkSettings(), global_delay_ps=US)
    settings = RunSettings(links, seed=case.seed, loss=case.loss, window=64)
    with VirtualFabric(
        topology, schemes.scheme(case.scheme), settings, queue_pairs=len(pairs), threads=threads
    ) as fabric:
        fabric.network._may_divide = divided
        fabric.connect(pairs)
        fabric.send(rng.choice([100_000, 150_000]))
        fabric.run(20 * US)
        if case.fails:
            link = next(link for link in topology.links if link.kind != "host")
            failed = frozenset([Failure("link", link.index)])
            fabric.apply_failures(failed)
            fabric.replan(failed)
        for until in (20 * US + 1, 21 * US, 300 * US):
            fabric.run(until)
        used = fabric.network.threads
        return state_of(fabric), used


@pytest.mark.parametrize("case", CASES, ids=str)
def test_same_results(case):
    """Of the first case on each topology with every number of threads."""
    first = next(each for each in CASES if each.topology == case.topology)
    _same_results(case, (1, 2, 3, 4) if case is first else (3,))


@pytest.mark.long
@pytest.mark.parametrize("case", CASES, ids=str)
def test_same_results_of_any_number_of_threads(case):
    _same_results(case, (1, 2, 4))


def _same_results(case, numbers):
    undivided, one = _results(case, 1, divided=False)
    assert one == 1
    for threads in numbers:
        state, used = _results(case, threads)
        assert used == threads
        assert [name for name, value in undivided.items() if not np.array_equal(value, state[name])] == []


def _incast(threads: int, frames: int) -> int:
    topology = parse_topology("leaf-spine:leaves=4,spines=4,hosts=4")
    settings = replace(RunSettings(window=256), frames=frames)
    with VirtualFabric(topology, schemes.SHORTEST_LERP, settings, queue_pairs=64, threads=threads) as fabric:
        fabric.connect([(source, 0) for source in range(1, 16)])
        fabric.send(3_000_000)
        fabric.run(20 * MS)
        assert fabric.unfinished() == 0
        return fabric.last_done_ps


def test_free_slots_come_back_from_where_traffic_goes():
    """30,000 packets in one direction, with few more slots than there are packets under way."""
    assert _incast(2, 5_000) == _incast(1, 5_000)


def test_packets_that_do_not_fit_into_the_pool_are_an_error():
    with pytest.raises(DetourError, match="the packet pool is exhausted"):
        _incast(2, 60)
