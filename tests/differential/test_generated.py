# SPDX-License-Identifier: Apache-2.0
"""Tests of our programs that p4testgen has made (generated/README.md)."""

from __future__ import annotations

import os

import pytest

from tests.differential.generated import testgen
from tests.differential.generated.bmv2 import StfBmv2, missing
from tests.differential.generated.judge import Verdict, judge
from tests.differential.generated.play import engine, play
from tests.differential.generated.suite import PROGRAMS, blob, stored

pytestmark = pytest.mark.slow

NO_BMV2 = missing()
NO_TESTGEN = NO_BMV2 or testgen.missing()
NEW = int(os.environ.get("DETOUR_GENERATED", "40"))
"""new tests of each program"""


@pytest.mark.parametrize("program", PROGRAMS)
def test_stored_ones_on_the_engine(program: str) -> None:
    tests = stored(program)
    assert len(tests) == 60
    with engine(program) as switch:
        problems = {test.name: play(test, switch).problem for test in tests}
    assert not {name: problem for name, problem in problems.items() if problem}


def test_a_test_can_fail() -> None:
    """Each with an octet of what is expected, or of the packet, turned."""
    tests = [test for test in stored("fabric") if "expect" in test.text]
    assert len(tests) > 20
    for test in tests[:20]:
        start, _, rest = test.text.partition("\nexpect ")
        port, frame = rest.split(" ", 1)
        turned = type(test)(f"{start}\nexpect {port} {int(frame[:2], 16) ^ 0x40:02X}{frame[2:]}")
        with engine("fabric") as switch:
            assert "byte 0 is " in play(turned, switch).problem


@pytest.mark.skipif(NO_BMV2 is not None, reason=str(NO_BMV2))
@pytest.mark.parametrize("program", PROGRAMS)
def test_stored_ones_on_bmv2(program: str) -> None:
    with StfBmv2(blob(program)) as bmv2:
        assert [str(each) for each in judge(program, stored(program), bmv2) if each.verdict is not Verdict.MET] == []


@pytest.mark.skipif(NO_TESTGEN is not None, reason=str(NO_TESTGEN))
@pytest.mark.parametrize("program", PROGRAMS)
def test_new_ones_on_both(program: str) -> None:
    tests = testgen.generate(program, NEW, seed=1, report=print)
    assert len(tests) >= NEW
    with StfBmv2(blob(program)) as bmv2:
        judged = judge(program, tests, bmv2)
    assert not [str(each) for each in judged if each.verdict.bad]
    assert sum(each.verdict is Verdict.MET for each in judged) > len(tests) // 2
