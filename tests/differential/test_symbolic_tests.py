# SPDX-License-Identifier: Apache-2.0
"""What `detour test` generates, on simple_switch: every test holds there too."""

from __future__ import annotations

from pathlib import Path

import pytest

from detour.p4.build import Build, build
from detour.testgen.generate import Plan, generate
from tests.differential.programs import Program, programs
from tests.differential.stf_on_bmv2 import play_all

KINDS = Path(__file__).parents[1] / "unit" / "testgen" / "kinds.p4"
COPIES = {"action_profile_shared", "clone_egress", "clone_ingress", "copies_of_copies", "recirculate", "resubmit"}
RUN = [
    program
    for number, program in enumerate(programs())
    if (number % 5 == 0 and not program.name.startswith("selector_")) or program.name in COPIES
]
"""without groups of action profiles, at which simple_switch_grpc crashes over Thrift: below they are written over
P4Runtime"""
SELECTORS = [program for program in programs() if program.name.startswith("selector_")]
SOON = {*RUN[::4], *(program for program in RUN if program.name in ("copies_of_copies", "recirculate"))}
"""not only in `make test-long`"""


def _wrong(program: Build) -> list[str]:
    tests = generate(program.json, Plan(seconds=20)).tests
    assert tests
    return play_all(program, tests)


@pytest.mark.bmv2
@pytest.mark.parametrize(
    "program", [pytest.param(each, id=each.name, marks=() if each in SOON else pytest.mark.long) for each in RUN]
)
def test_tests_of_the_corpus_hold_on_bmv2(program: Program) -> None:
    assert not _wrong(Build(program.json, program.p4info))


@pytest.mark.bmv2
def test_tests_of_all_match_kinds_hold_on_bmv2() -> None:
    assert not _wrong(build(KINDS))


@pytest.mark.bmv2
@pytest.mark.parametrize("program", [pytest.param(each, id=each.name) for each in SELECTORS])
def test_bmv2_chooses_the_same_members_of_groups(program: Program) -> None:
    tests = [t for t in generate(program.json, Plan(seconds=20)).tests if any("group of" in each for each in t.covers)]
    assert tests
    assert not play_all(Build(program.json, program.p4info), tests)
