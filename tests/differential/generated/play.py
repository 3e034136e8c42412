# SPDX-License-Identifier: Apache-2.0
"""Plays generated tests on the engine and on BMv2, one switch for all tests of a program."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from detour.base.errors import DetourError
from detour.control.p4runtime.pipeline import PipelineConfig
from detour.engine.trace.tree import Event
from detour.fabric.tracing.program import TracedProgram
from detour.fabric.tracing.stf_player import StfSwitch, play_stf
from tests.differential.fabric import canonical
from tests.differential.generated.suite import GeneratedTest, blob, p4info
from tests.differential.packets import Frame


@dataclass(frozen=True, slots=True)
class Played:
    """What became of a test. `problem`: what is not as it wants it; empty if all is. `outputs`: what came out, per
    packet, without what differs from run to run. `reached`: steps of the program, where these are known."""

    problem: str
    outputs: list[list[Frame]]
    reached: frozenset[tuple[str, ...]] = frozenset()


@contextmanager
def engine(program: str) -> Iterator[TracedProgram]:
    """The engine."""
    files = PipelineConfig.given(f"{p4info(program)},{blob(program)}")
    with TracedProgram(files, cpu_port=0) as switch:  # p4testgen's port to the controller is one like others
        yield switch


def play(test: GeneratedTest, switch: StfSwitch) -> Played:
    """On a switch that has been used before."""
    switch.api.standard.bm_reset_state()
    try:
        run = play_stf(Path(test.name), test.statements, switch)
    except DetourError as error:
        return Played(str(error), [])
    outputs = [sorted(canonical((each.port, each.frame), out) for out in each.outputs()) for each in run.packets]
    problems = [f"line {each.line}: {each.text}" for each in run.mismatches]
    problems += [f"{run.unchecked} frames that it does not name"] if run.unchecked else []
    events = (event for each in run.packets for hop in each.traced.hops for event in hop.trace.all_events())
    return Played("; ".join(problems), outputs, frozenset(map(_step, events)))


def _step(event: Event) -> tuple[str, ...]:
    place = event.source and (event.source.file, event.source.line)
    chosen = [event.facts.get(name) for name in ("state", "next", "table", "hit", "action", "extern", "value", "error")]
    return (event.kind, str(place), *map(str, chosen if event.kind != "assign" else ()))
