# SPDX-License-Identifier: Apache-2.0
"""`reproduce queues`: the formulas, and short runs of every kind beside them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from detour.base.errors import DetourError
from detour.experiments.queues import experiment as queues
from detour.experiments.queues.experiment import QueueBench


def test_the_formulas_are_those_of_the_books() -> None:
    assert queues.waits([queues.fixed(0.8, 1.0)]) == [pytest.approx(0.8 / (2 * 0.2))]
    assert queues.waits([queues.exponential(0.8, 1.0)]) == [pytest.approx(0.8 / 0.2)]
    # Kleinrock's conservation law: what priorities give to one class they take from others.
    classes = [queues.fixed(0.3, 1.5), queues.fixed(0.2, 1.0), queues.exponential(0.3, 0.5)]
    load = sum(each.load for each in classes)
    residual = sum(each.rate * each.square for each in classes) / 2
    kept = sum(each.load * wait for each, wait in zip(classes, queues.waits(classes), strict=True))
    assert kept == pytest.approx(load * residual / (1 - load))


def test_a_queue_measures_itself() -> None:
    """Frames of 100, 200 and 300 ns that come at once wait 0, 100 and 300 ns, and find 0, 0 and 1 waiting."""
    with QueueBench() as bench:
        bench.offer(np.zeros(3, np.int64), np.array([100, 200, 300]), np.array([5, 5, 5]))
        bench.drain()
        counts = bench.counts()
    assert counts[5] == (queues.QueueCounts(3, 600, 400_000, 1))
    assert all(count.packets == 0 for number, count in enumerate(counts) if number != 5)


@pytest.mark.parametrize("kind", ["md1", "mm1", "priority"])
def test_waits_are_those_of_theory(kind: str) -> None:
    rows = queues.run(queues.QueuePoint(kind=kind, load=0.5, packets=2_000_000)).rows
    assert len(rows) == (6 if kind == "priority" else 2)
    for row in rows:
        assert row.measured == pytest.approx(row.theory, rel=0.03), row
    again = queues.run(queues.QueuePoint(kind=kind, load=0.5, packets=2_000_000)).rows
    assert again == rows


@pytest.mark.parametrize("kind", ["drr", "strict", "rates"])
def test_shares_are_those_of_theory(kind: str) -> None:
    for row in queues.run(queues.QueuePoint(kind=kind, packets=100_000)).rows:
        assert row.error <= queues.GOAL, row


def test_findings_name_the_largest_error() -> None:
    near = queues.QueueRow(
        kind="md1", what="mean wait", load=0.5, queue=0, measured=0.501, theory=0.5, error=0.002, unit="services",
        packets=10,
    )  # fmt: skip
    far = replace(near, kind="mm1", measured=1.02, theory=1.0, error=0.02)
    assert queues.collect([queues.QueueRun([near])]) == queues.QueueFindings([near], 0.002, True)
    result = queues.collect([queues.QueueRun([near]), queues.QueueRun([far])])
    assert (result.largest_error, result.within) == (0.02, False)
    assert not queues.collect([]).within
    assert [len(one.rows) for one in queues.tables(result)] == [2]


def test_loads_at_which_queues_grow_for_ever_are_refused() -> None:
    with pytest.raises(DetourError, match="below 1"):
        queues.select("quick", [0.5, 1.0])
    kinds = [point.kind for point in queues.select("quick", [0.5])]
    assert kinds == ["md1", "mm1", "priority", "drr", "strict", "rates"]
    few, many = queues.select("quick", [0.8, 0.9])[:2]
    assert many.packets == 4 * few.packets
