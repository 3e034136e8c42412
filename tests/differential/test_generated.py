# SPDX-License-Identifier: Apache-2.0
"""Tests of our programs that p4testgen has made (generated/README.md)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache

import pytest

from tests.differential.generated import testgen
from tests.differential.generated.bmv2 import StfBmv2, missing
from tests.differential.generated.judge import Verdict, judge, play_on_engine
from tests.differential.generated.play import Played
from tests.differential.generated.suite import PROGRAMS, GeneratedTest, blob, stored

pytestmark = pytest.mark.slow

NO_BMV2 = missing()
NO_TESTGEN = NO_BMV2 or testgen.missing()
NEW = int(os.environ.get("DETOUR_GENERATED", "40"))
"""new tests of each program"""


@cache
def stored_and_played(program: str) -> tuple[Sequence[GeneratedTest], list[Played]]:
    """The stored tests and what becomes of them on the engine."""
    tests = stored(program)
    return tests, play_on_engine(program, tests)


@pytest.mark.parametrize("program", PROGRAMS)
def test_stored_ones_on_the_engine(program: str) -> None:
    tests, played = stored_and_played(program)
    assert len(tests) == 60
    assert not {test.name: each.problem for test, each in zip(tests, played, strict=True) if each.problem}


def test_a_test_can_fail() -> None:
    """Each with an octet of what is expected, or of the packet, turned."""
    tests = [test for test in stored("fabric") if "expect" in test.text]
    assert len(tests) > 20
    turned = []
    for test in tests[:20]:
        start, _, rest = test.text.partition("\nexpect ")
        port, frame = rest.split(" ", 1)
        turned.append(GeneratedTest(f"{start}\nexpect {port} {int(frame[:2], 16) ^ 0x40:02X}{frame[2:]}"))
    assert all("byte 0 is " in played.problem for played in play_on_engine("fabric", turned))


@pytest.mark.skipif(NO_BMV2 is not None, reason=str(NO_BMV2))
@pytest.mark.parametrize("program", PROGRAMS)
def test_stored_ones_on_bmv2(program: str) -> None:
    with StfBmv2(blob(program)) as bmv2:
        judged = judge(*stored_and_played(program), bmv2)
    assert [str(each) for each in judged if each.verdict is not Verdict.MET] == []


@pytest.mark.skipif(NO_TESTGEN is not None, reason=str(NO_TESTGEN))
@pytest.mark.parametrize("program", PROGRAMS)
def test_new_ones_on_both(program: str) -> None:
    try:
        tests = testgen.generate(program, NEW, seed=1, report=print)
    except testgen.Refused as refused:
        pytest.skip(str(refused))
    assert len(tests) >= NEW
    possible = [test for test in tests if test.possible]
    with StfBmv2(blob(program)) as bmv2:
        judged = judge(possible, play_on_engine(program, possible), bmv2)
    assert not [str(each) for each in judged if each.verdict.bad]
    assert sum(each.verdict is Verdict.MET for each in judged) > len(tests) // 2
