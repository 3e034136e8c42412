# SPDX-License-Identifier: Apache-2.0
"""Target `usid`: packets for a uSID node through fabric.p4 and the controller, against the model of one.

A round is a batch of packets that depends on nothing but the seed and its number, so that it can be repeated alone.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from tests.differential.rfc.compare import compare
from tests.differential.rfc.packets import PacketMaker
from tests.differential.rfc.through import fabric
from tests.fuzz.board import Board
from tests.fuzz.budget import Budget, Finding

PACKETS_PER_ROUND = 5000
PACKETS_PER_BATCH = 500


def run(board: Board, seed: int, budget: Budget) -> dict[str, Any]:
    """Sends packets until the budget is used up; returns how many, and what became of them by the model."""
    seen: Counter[str] = Counter()
    totals = {"packets": 0}
    with fabric() as switch:
        for number in budget.rounds(lambda: totals["packets"]):
            board.note(seed=seed, round=number)
            maker = PacketMaker(f"{seed} {number}")
            for _ in range(PACKETS_PER_ROUND // PACKETS_PER_BATCH):
                problems = compare(switch, [maker.packet() for _ in range(PACKETS_PER_BATCH)], seen)
                if problems:
                    raise Finding(f"{len(problems)} of {PACKETS_PER_BATCH} packets: {problems[0]}")
                board.beat()
            totals["packets"] += PACKETS_PER_ROUND
    return totals | dict(sorted(seen.items()))
