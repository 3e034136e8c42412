# SPDX-License-Identifier: Apache-2.0
"""Generated tests of one JSON of a program, played on the other one, and on BMv2."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from google.protobuf import text_format

from detour.base.errors import DetourError
from detour.engine.compiler.program import Program
from detour.p4.build import Build
from detour.testgen.generate import Plan, generate
from detour.testgen.switch import TestSwitch, differences
from tests.differential.p4c_corpus.ours import Compiled
from tests.differential.p4c_corpus.reference import Reference
from tests.differential.p4c_corpus.traffic import NotCompared

SECONDS = 2
"""for the tests of a JSON"""


def compare_tests(theirs: Reference, mine: Compiled, *, bmv2: bool = False) -> str:
    """Generate tests of p4c's JSON and of ours, and play them on the other one; with `bmv2`, ours on simple_switch.

    Returns:
        The first difference; empty if there is none.

    Raises:
        NotCompared: p4c's JSON does not run, or there are no tests of ours.
    """
    if theirs.leaves_loops:
        raise NotCompared("p4c's JSON runs the bodies of its loops once")
    with tempfile.TemporaryDirectory() as folder:
        own = Build(Path(folder) / "own.json", Path(folder) / "own.p4info.txtpb")
        own.json.write_text(json.dumps(mine.json))
        own.p4info.write_text(text_format.MessageToString(mine.p4info))
        try:
            tests = generate(own.json, Plan(seconds=SECONDS, p4info=own.p4info)).tests
            expected = generate(theirs.json, Plan(seconds=SECONDS)).tests
        except DetourError as why:
            raise NotCompared(str(why)) from None
        for on, made, played in (("ours", expected, own.json), ("p4c's", tests, theirs.json)):
            with TestSwitch(Program.from_json(played)) as switch:
                for test in made:
                    if wrong := differences(switch.play(test.stf())):
                        return f"{on}: {wrong[0]}\n{test.stf()}"
        if bmv2:
            from tests.differential.stf_on_bmv2 import play_all

            try:
                return "".join(f"BMv2: {each}" for each in play_all(own, tests)[:1])
            except DetourError as why:  # finsy does not take the P4Info
                raise NotCompared(str(why)) from None
    return ""
