# SPDX-License-Identifier: Apache-2.0
"""Generated tests on simple_switch_grpc: what `play_stf` plays them on, with BMv2 in place of the engine.

    python -m tests.differential.stf_on_bmv2 ipv4 trim                # those of detour/p4src/build
    python -m tests.differential.stf_on_bmv2 fabric my.p4 --seconds 110

Entries of action profiles are written over P4Runtime: over Thrift groups crash simple_switch_grpc.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from detour.base.places import BUILD
from detour.engine.bmv2api.client import Connection
from detour.fabric.tracing.results import Arrived, Ending, TracedPacket
from detour.fabric.tracing.stf import parse_stf
from detour.fabric.tracing.stf_player import play_stf
from detour.p4.build import Build, build
from detour.testgen.generate import Plan, generate
from detour.testgen.p4runtime import Entities
from detour.testgen.switch import differences
from detour.testgen.testcase import Test
from tests.differential.p4testgen import use_cpu_time
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

    def over_p4runtime(self, test: Test, entities: Entities) -> list[str]:
        """The same, with entries and default actions written over P4Runtime."""
        bare = replace(test, entries=[], defaults=[])
        with Client(self._switch.address) as client:
            for each in entities.of(replace(test, settings=[])):
                kind = "MODIFY" if getattr(each, "is_default_action", False) else "INSERT"
                client.write((kind, each.encode(entities.schema)))
            return self.play(bare.stf())

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


def play_all(program: Build, tests: Sequence[Test]) -> list[str]:
    """Plays tests; what is not as they expect it. A reset leaves clone sessions, which are deleted, and handles of
    multicast nodes counting on, takes constant entries away, and P4Runtime's server does not know of it: then each test
    has a switch of its own."""
    source = json.loads(program.json.read_text())
    tables: list[Any] = [table for pipeline in source["pipelines"] for table in pipeline["tables"]]
    profiles = {table["name"] for table in tables if "action_profile" in table}
    constant, entities = any(table.get("entries") for table in tables), Entities(program.p4info)

    def has_profile(test: Test) -> bool:
        return any(entry.table in profiles for entry in test.entries)

    apart = [test for test in tests if constant or test.of("group") or has_profile(test)]
    together = [test for test in tests if not any(test is each for each in apart)]
    wrong: list[str] = []
    for group in ([together] if together else []) + [[test] for test in apart]:
        with Bmv2Stf(program) as switch:
            for test in group:
                played = switch.over_p4runtime(test, entities) if has_profile(test) else switch.play(test.stf())
                wrong += [f"{each}\n{test.stf()}" for each in played]
                switch.play("\n".join(f"mirroring_delete {session.at}" for session in test.of("session")))
                switch.api.standard.bm_reset_state()
    return wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="+", metavar="NAME|P4")
    parser.add_argument("--seconds", type=float, default=60.0, help="of CPU for the tests of a program (60)")
    options = parser.parse_args()
    use_cpu_time()
    for name in options.programs:
        own = Build(BUILD / f"{name}.json", BUILD / f"{name}.p4info.txtpb")
        program = build(Path(name)) if name.endswith(".p4") else own
        tests = generate(program.json, Plan(seconds=options.seconds, p4info=program.p4info)).tests
        wrong = play_all(program, tests)
        print(*wrong, f"{name}: {len(tests)} tests, {len(wrong)} differences", sep="\n", flush=True)


if __name__ == "__main__":
    main()
