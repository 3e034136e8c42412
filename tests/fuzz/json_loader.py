# SPDX-License-Identifier: Apache-2.0
"""Target `json`: mutated BMv2 JSON. It is refused by a DetourError with one line of text, or it works.

What is accepted gets random state and mutated packets as in `pipeline`, so that a program from whoever sets
pipelines cannot touch memory that is not its own either.
"""

from __future__ import annotations

import random
import time
from contextlib import suppress
from typing import Any

from detour.base.errors import DetourError
from detour.engine.compiler.program import Program
from detour.engine.state import SwitchState
from tests.differential.packets import PacketMaker, Pool
from tests.fuzz import seeds
from tests.fuzz.board import Board
from tests.fuzz.budget import Budget, Finding
from tests.fuzz.guard import guarded_state
from tests.fuzz.json_mutations import Mutator
from tests.fuzz.pipeline import Round
from tests.fuzz.populate import Populator

_PACKETS = 256
_FRAMES = 12
_LONGEST_TEXT = 1000


def run(board: Board, seed: int, budget: Budget) -> dict[str, Any]:
    """Tries mutants until the budget is used up; returns what became of them."""
    names = [seeds.FABRIC, *seeds.corpus()]
    donors = [seeds.source(name) for name in names]
    totals = {"mutants": 0, "accepted": 0, "refused": 0, "texts": 0, "packets": 0, "slowest_ms": 0}
    texts: set[str] = set()
    for number in budget.rounds(lambda: totals["mutants"]):
        rng = random.Random(f"{seed} {number}")
        name = names[0] if rng.random() < 0.1 else rng.choice(names)
        text = Mutator(donors, rng).mutant(seeds.text(name))
        board.note(program=name, seed=seed, round=number)
        board.show(text.encode(errors="surrogatepass"))
        start = time.perf_counter()
        refusal = attempt(board, name, text, seed, number)
        totals["slowest_ms"] = max(totals["slowest_ms"], round(1000 * (time.perf_counter() - start)))
        totals["mutants"] += 1
        totals["refused" if refusal else "accepted"] += 1
        totals["packets"] += 0 if refusal else _PACKETS
        texts.add(refusal)
    totals["texts"] = len(texts)
    return totals


def attempt(board: Board, name: str, text: str, seed: int, number: int) -> str:
    """Loads a mutant of program `name` and runs it; the text of the refusal, empty if it was accepted."""
    try:
        program = Program.from_json(text, use_cache=False)
        with guarded_state():
            state = SwitchState(program, seed)
    except DetourError as e:
        refusal = str(e)
        if not refusal or "\n" in refusal or len(refusal) > _LONGEST_TEXT:
            raise Finding(f"mutant {number} of {name}: the refusal is not one line: {refusal[:2000]!r}") from e
        return refusal
    except Exception as e:
        raise Finding(f"mutant {number} of {name}: {type(e).__name__}: {e}"[:_LONGEST_TEXT]) from e
    rng = random.Random(f"{seed} {number} packets")
    original = seeds.source(name)
    pool = Pool(original, rng)
    with guarded_state(), suppress(Exception):  # a mutant may have tables that nothing can be put into
        Populator(state, pool, rng).everything()
    maker = PacketMaker(original, pool, rng)
    packets = [maker.frame()[1] for _ in range(_FRAMES)]
    subject = seeds.Subject(program, state, packets, seeds.words(name))
    Round(board, f"mutant {number} of {name}", subject, rng).run(_PACKETS)
    return ""
