# SPDX-License-Identifier: Apache-2.0
"""Runs that may deadlock: until queues are stuck for good or the time is over, and on to see that they are."""

from __future__ import annotations

from dataclasses import dataclass

from detour.base.times import US
from detour.fabric.backends.virtual.fabric import VirtualFabric
from detour.fabric.backends.virtual.watch import QueueId, queue_name

CHECK_PS = 20 * US
AFTER_PS = 200 * US
"""for which the run goes on: nothing may move through the queues in question"""


@dataclass(frozen=True)
class StuckRun:
    """`queues` that are stuck, and `names` of them; `circle`: those that wait for each other, by name; rates
    from the very begin until this was found, or the time was over, and after; `remains`: all were stuck later on."""

    queues: tuple[QueueId, ...]
    names: tuple[str, ...]
    circle: tuple[str, ...]
    ended_ps: int
    goodput_gbps_before: float
    goodput_gbps_after: float
    remains: bool

    @property
    def found_at_us(self) -> float | None:
        """None without deadlock."""
        return self.ended_ps / US if self.queues else None


def run_until_stuck(fabric: VirtualFabric, until_ps: int) -> StuckRun:
    """Lets connections that send already go on until then, or until queues are stuck, and for `AFTER_PS` more."""
    stuck = fabric.deadlock()
    while not stuck and fabric.now_ps < until_ps:
        fabric.run(fabric.now_ps + CHECK_PS)
        stuck = fabric.deadlock()
    ended, before = fabric.now_ps, received(fabric)
    circle = fabric.network.deadlock_circle() if stuck else []
    fabric.run(ended + AFTER_PS)
    return StuckRun(
        tuple(stuck),
        tuple(queue_name(fabric.topology, queue) for queue in stuck),
        tuple(queue_name(fabric.topology, queue) for queue in circle),
        ended,
        before * 8e3 / ended,
        (received(fabric) - before) * 8e3 / AFTER_PS,
        bool(stuck) and set(stuck) <= set(fabric.deadlock()),
    )


def received(fabric: VirtualFabric) -> int:
    """Bytes that have arrived on all connections."""
    return int(fabric.column("st_rx_bytes").sum())
