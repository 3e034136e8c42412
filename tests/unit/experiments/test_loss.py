# SPDX-License-Identifier: Apache-2.0
"""`reproduce loss`: what is run, what is made of it, and that losses without a queue cost next to nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from detour.base.errors import DetourError
from detour.experiments.loss import experiment as loss
from detour.experiments.loss.experiment import LOSS_SCHEMES, LossPoint, LossRun


def ran(transport: str, control: str, gbps: float, **changes: object) -> LossRun:
    base = LossRun(
        transport=transport, control=control, goodput_gbps=gbps, steady=True, virtual_ms=1.0, jain=1.0,
        mean_queue_bytes=0, drops=0, lost=0, spurious=0, retransmitted=0, timeouts=0,
    )  # fmt: skip
    return replace(base, **changes)  # type: ignore[arg-type]


def test_all_transports_have_the_same_conditions_and_times() -> None:
    points = loss.select("normal")
    conditions = {
        key: {(p.loss, p.reordering, p.seed, p.virtual_us) for p in points if (p.transport, p.control) == key}
        for key in LOSS_SCHEMES
    }
    assert len({frozenset(some) for some in conditions.values()}) == 1
    assert {p.senders for p in points} == {1, 2, 4, 8, 16}


@pytest.mark.parametrize(
    ("losses", "senders", "words"),
    [
        ((0.0,), (), "is not a probability"),
        ((1.0,), (), "is not a probability"),
        ((), (17,), "17 senders"),
        ((), (1,), "1 senders"),
    ],
)
def test_what_cannot_be_run(losses: tuple[float, ...], senders: tuple[int, ...], words: str) -> None:
    with pytest.raises(DetourError, match=words):
        loss.select("quick", losses, senders)


def test_fractions_are_of_the_same_draw() -> None:
    result = loss.collect(
        [
            ran("lerp", "default", 90.0),
            ran("lerp", "default", 80.0, seed=2),
            ran("lerp", "default", 81.0, loss=0.01, lost=10, spurious=4),
            ran("lerp", "default", 40.0, loss=0.01, seed=2, lost=10, steady=False),
            ran("gbn", "dcqcn", 50.0, loss=0.01),
            ran("lerp", "default", 88.0, senders=4, jain=0.9, mean_queue_bytes=70_000),
        ]
    )
    assert [(row.loss, row.fraction_of_lossless, row.draws, row.steady) for row in result.rows] == [
        (0.0, 1.0, 2, True),
        (0.01, 0.7, 2, False),
    ]
    assert result.rows[1].spurious_fraction == 0.2
    assert result.rows[1].spread == pytest.approx(0.2828, abs=1e-4)
    assert [(row.senders, row.jain, row.mean_queue_bytes) for row in result.contention] == [(4, 0.9, 70_000)]


def test_loss_without_a_queue_costs_little_and_by_the_letter_of_rfc_8257_much() -> None:
    def goodput(control: str, share: float) -> float:
        return loss.run(LossPoint(transport="lerp", control=control, loss=share, virtual_us=1_500)).goodput_gbps

    assert goodput("default", 0.01) > 0.98 * goodput("default", 0.0)
    assert goodput("dctcp", 0.01) < 0.6 * goodput("dctcp", 0.0)


def test_late_packets_cost_little() -> None:
    point = LossPoint(transport="lerp", control="default", virtual_us=1_500)
    good, late = loss.run(point), loss.run(replace(point, reordering=0.1))
    assert late.goodput_gbps > 0.95 * good.goodput_gbps
    assert late.spurious > 0
