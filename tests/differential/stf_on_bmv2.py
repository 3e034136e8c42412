# SPDX-License-Identifier: Apache-2.0
"""STF on simple_switch_grpc: what `play_stf` plays tests on, with BMv2 in place of the engine."""

from __future__ import annotations

import json
from pathlib import Path

from detour.engine.bmv2api.client import Connection
from detour.fabric.tracing.results import Arrived, Ending, TracedPacket
from detour.fabric.tracing.stf import parse_stf
from detour.fabric.tracing.stf_player import play_stf
from detour.p4.build import Build
from detour.testgen.switch import differences
from tests.differential.reference import DROP_PORT, PRIORITIES
from tests.differential.stream import PacketStream
from tests.ptf.bmv2 import Bmv2
from tests.ptf.p4rt import Client, Schema


class Bmv2Stf:
    """One switch with a program. A context manager."""

    def __init__(self, program: Build) -> None:
        self._switch = Bmv2(priorities=PRIORITIES, drop_port=DROP_PORT)
        with Client(self._switch.address) as client:
            client.set_pipeline(Schema.load(program.p4info).config(program.json.read_bytes()))
        self._stream = PacketStream(self._switch)
        self.api: Connection = self._switch.thrift()

    def play(self, text: str) -> list[str]:
        """What is not as a test expects it."""
        return differences(play_stf(Path("generated.stf"), parse_stf(text), self))

    def trace(self, frame: bytes, port: int) -> TracedPacket:
        (frames,) = self._stream.run([(port, frame)])
        return TracedPacket([], [Ending(1.0, [Arrived("bmv2", out, None, data)]) for out, data in frames])

    def wait(self, duration_ps: int) -> None:
        pass

    def __enter__(self) -> Bmv2Stf:
        return self

    def __exit__(self, *exc: object) -> None:
        self._stream.close()
        self._switch.close()


def play_all(program: Build, tests: list[str]) -> list[str]:
    """Plays tests, each text of STF; what is not as they expect it. A reset leaves handles of multicast nodes counting
    on, and takes constant entries away: then each test has a switch of its own."""
    source = json.loads(program.json.read_text())
    constant = any(table.get("entries") for pipeline in source["pipelines"] for table in pipeline["tables"])
    apart = [text for text in tests if constant or "mc_node" in text]
    together = [text for text in tests if text not in apart]
    wrong: list[str] = []
    for group in ([together] if together else []) + [[text] for text in apart]:
        with Bmv2Stf(program) as switch:
            for text in group:
                wrong += [f"{each}\n{text}" for each in switch.play(text)]
                switch.api.standard.bm_reset_state()
    return wrong
