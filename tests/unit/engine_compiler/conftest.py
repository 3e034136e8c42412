# SPDX-License-Identifier: Apache-2.0
"""Programs of tests/programs/compiler, compiled once a session."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from detour.engine.compiler.program import Program
from tests.packet_runner import PacketRunner

PROGRAMS = Path(__file__).resolve().parents[2] / "programs" / "compiler"


@cache
def program(name: str) -> Program:
    """A compiled test program."""
    return Program.from_json(PROGRAMS / f"{name}.json")


class MiniSwitch(PacketRunner):
    """Packets come in a tick apart; `send` returns what leaves, as (port, packet)s."""

    def __init__(self, program: Program, seed: int = 1) -> None:
        super().__init__(program, seed=seed)
        self.now = 0
        self.errors: list[int] = []

    def send(self, port: int, data: bytes) -> list[tuple[int, bytes]]:
        self.now += 1
        result = self.run(data, port, self.now)
        self.errors += [result.error] if result.error else []
        return [] if result.data is None else [(result.egress_spec, result.data)]
