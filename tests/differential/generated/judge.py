# SPDX-License-Identifier: Apache-2.0
"""Generated tests on both switches. BMv2 judges p4testgen, too: where it contradicts a test, the test is wrong.

p4testgen is wrong of our programs where a packet goes round (the port that it comes in by then is another one in
simple_switch), where meters are, and about draws: it takes the draw that it needs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from detour.fabric.tracing.stf_player import StfSwitch
from tests.differential.generated.play import Played, engine, play
from tests.differential.generated.suite import GeneratedTest


class Verdict(Enum):
    """On a test."""

    MET = "met by both"
    WRONG = "contradicted by BMv2, and the engine does as it does"
    CHANCE = "a draw decides"
    FAILED = "met by BMv2, not by the engine"
    DIFFERENT = "contradicted by BMv2, and the engine does something else"

    @property
    def bad(self) -> bool:
        """Whether the engine is to blame."""
        return self in {Verdict.FAILED, Verdict.DIFFERENT}


@dataclass(frozen=True)
class Judged:
    """A test and what became of it."""

    test: GeneratedTest
    engine: Played
    bmv2: Played

    @property
    def verdict(self) -> Verdict:
        """Of this test."""
        same = self.engine.outputs == self.bmv2.outputs
        if same and not self.engine.problem:
            return Verdict.MET  # BMv2's frames have waited in real time; what else they are the engine's are, too
        if any("random" in step for step in self.engine.reached):
            return Verdict.CHANCE
        if not self.bmv2.problem:
            return Verdict.FAILED
        return Verdict.WRONG if same else Verdict.DIFFERENT

    def __str__(self) -> str:
        outputs = "".join(
            f"\n  {name}: {[[(port, frame.hex()) for port, frame in outs] for outs in played.outputs]} {played.problem}"
            for name, played in (("engine", self.engine), ("BMv2", self.bmv2))
        )
        return f"{self.verdict.value}:{outputs}\n{self.test.text}"


def play_on_engine(program: str, tests: Sequence[GeneratedTest]) -> list[Played]:
    """Play tests on the engine."""
    with engine(program) as switch:
        return [play(test, switch) for test in tests]


def judge(tests: Sequence[GeneratedTest], ours: Sequence[Played], bmv2: StfSwitch) -> list[Judged]:
    """Judge what has become of tests on the engine by what becomes of them on BMv2."""
    return [Judged(test, played, play(test, bmv2)) for test, played in zip(tests, ours, strict=True)]


def counted(judged: Sequence[Judged]) -> str:
    """How many there are of each verdict."""
    counts = Counter(each.verdict for each in judged)
    return ", ".join(f"{counts[verdict]} {verdict.value}" for verdict in Verdict if counts[verdict])


def widest(judged: Sequence[Judged], count: int) -> list[GeneratedTest]:
    """`count` tests that both meet and that reach most together: each next one adds most; then as they come."""
    left = [each for each in judged if each.verdict is Verdict.MET]
    chosen: list[GeneratedTest] = []
    reached: set[tuple[str, ...]] = set()
    while left and len(chosen) < count:
        best = max(left, key=lambda each: len(each.engine.reached - reached))
        left.remove(best)
        reached |= best.engine.reached
        chosen.append(best.test)
    return chosen
