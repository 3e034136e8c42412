# SPDX-License-Identifier: Apache-2.0
"""Target `tables`: random changes of random tables, with packets in between, against a list that is searched.

The arrays behind the tables end at forbidden memory and go back to the system when they are replaced, so that a
stale address is a crash. What the engine refuses must be what does not fit, and must change nothing.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from tests.fuzz.board import Board
from tests.fuzz.budget import Budget
from tests.fuzz.guard import guarded_state
from tests.fuzz.table_entries import Entries
from tests.fuzz.table_members import Members
from tests.fuzz.table_program import any_layout
from tests.fuzz.table_traffic import Traffic
from tests.fuzz.tried import Tried

_STEPS = 400
_SELDOM = 0.002


def run(board: Board, seed: int, budget: Budget) -> dict[str, Any]:
    """Tries tables until the budget is used up; returns how many changes and lookups there were."""
    totals = {"tables": 0, "changes": 0, "refused": 0, "lookups": 0, "most_entries": 0}
    with guarded_state():
        for number in budget.rounds(lambda: totals["changes"]):
            rng = random.Random(f"{seed} {number}")
            layout = any_layout(rng)
            board.note(seed=seed, round=number, layout=repr(layout))
            tried = Tried(board, layout, rng, f"table {number}")
            _try(tried, _STEPS)
            totals["changes"] += tried.changes
            totals["refused"] += tried.refusals
            totals["lookups"] += tried.lookups
            totals["most_entries"] = max(totals["most_entries"], tried.most)
            totals["tables"] += 1
    return totals


def _try(tried: Tried, steps: int) -> None:
    """Random steps, packets after some of them."""
    traffic = Traffic(tried)
    entries = Entries(tried, traffic.packets)
    weights, ways = zip(*_ways(tried, entries, traffic), strict=True)
    rng = tried.rng
    for _ in range(steps):
        rng.choices(ways, weights)[0]()
        tried.changes += 1
        if rng.random() < 0.3:
            traffic.packets(8)
        if rng.random() < _SELDOM:
            entries.grow()
        if rng.random() < _SELDOM:
            entries.clear()
    traffic.packets(50)
    entries.read_back()


def _ways(tried: Tried, entries: Entries, traffic: Traffic) -> list[tuple[int, Callable[[], None]]]:
    """(weight, step) of everything that can be done with the table."""
    ways: list[tuple[int, Callable[[], None]]] = [
        (12, entries.insert), (6, entries.delete), (4, entries.modify), (2, entries.wrong_handle),
        (2, entries.wrong_key), (2, entries.set_default), (1, entries.read_back), (2, traffic.arrays),
    ]  # fmt: skip
    members = Members(tried)
    if tried.profile is not None:
        ways += [(4, members.member), (3, members.remove_member), (2, members.port)]
    if tried.layout.profile == "selector":
        ways += [(4, members.group), (2, members.remove_group)]
    return ways
