# SPDX-License-Identifier: Apache-2.0
"""The goals of QCN-Switch-fast, beside MIN and PB of the same runs, and whether it reaches them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from detour.base.tables import Table
from detour.experiments.columns import row, shown, table
from detour.experiments.qcn.experiment import FAIR_LOAD, QcnResult

JUDGED = "QCN-Switch-fast"
ACCEPTED = 0.98
"""share of what is offered below which a network is saturated"""


@row
class QcnGoal:
    """`least`, or `most`: what is allowed; `measured`: the worst of the runs that it is about."""

    goal: str = shown("goal")
    least: float | None = shown("at least", "g")
    most: float | None = shown("at most", "g")
    measured: float | None = shown("measured", ".4g")
    met: bool = shown("met")


def goal_of(text: str, measured: float | None, *, least: float | None = None, most: float | None = None) -> QcnGoal:
    """A goal and whether it is met; nothing measured is a miss."""
    low = least is None or (measured is not None and measured >= least)
    high = most is None or (measured is not None and measured <= most)
    return QcnGoal(goal=text, least=least, most=most, measured=measured, met=low and high)


def of_curves(results: Sequence[QcnResult], *, small: bool) -> list[QcnGoal]:
    """Return the goals for steady load. `small`: p = 2."""
    of = {(one.routing, one.pattern, one.load): one for one in results}
    mine = [one for one in results if one.routing == JUDGED]

    def ratios(name: str, pattern: str, value: Callable[[QcnResult], float]) -> list[float]:
        """The ratios to another routing's, at every load that both were measured at."""
        runs = [one for one in mine if one.pattern == pattern and (name, pattern, one.load) in of]
        return [value(one) / value(of[name, pattern, one.load]) for one in runs]

    goals = []
    if uniform := ratios("MIN", "UN", lambda one: one.accepted):
        goals.append(goal_of("UN: accepted, of MIN's, at every load", min(uniform), least=0.995))
    for pattern in ("ADV", "MIX", "ADVc"):
        highest, best = (
            max((one.accepted for one in results if (one.routing, one.pattern) == (name, pattern)), default=0.0)
            for name in (JUDGED, "PB")
        )
        if highest and best:
            goals.append(goal_of(f"{pattern}: saturation, of PB's", highest / best, least=0.98))
    ahead = [one.accepted for one in mine if one.pattern == "ADV+h"]
    if ahead and small:
        goals.append(goal_of("ADV+h: saturation", max(ahead), least=0.40))
    below = [
        one.latency_ns / of["PB", one.pattern, one.load].latency_ns
        for one in mine
        if ("PB", one.pattern, one.load) in of
        and min(one.accepted, of["PB", one.pattern, one.load].accepted) >= ACCEPTED * one.load
    ]
    if below:
        goals.append(goal_of("latency below saturation, of PB's", max(below), most=1.1))
    if mine:
        # Below, what sources draw in a window differs by more.
        high = [one.injected for one in mine if one.load >= FAIR_LOAD]
        shares = [min(injected) * len(injected) / sum(injected) for injected in high]
        if shares:
            text = f"least injection of a switch of group 0, of the mean, from load {FAIR_LOAD:g} on"
            goals.append(goal_of(text, min(shares), least=0.95))
        goals.append(goal_of("notifications, of the hosts' links", max(one.notified for one in mine), most=0.002))
    return goals


def tables(goals: Sequence[QcnGoal]) -> list[Table[Any]]:
    """The goals, those that are missed marked."""
    missed = [f"missed: {goal.goal}" for goal in goals if not goal.met]
    return [table(QcnGoal, goals, f"goals of {JUDGED}", notes=missed)] if goals else []
