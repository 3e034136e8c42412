# SPDX-License-Identifier: Apache-2.0
"""`detour test` beside P4Testgen (`p4testgen`), and what was measured."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.differential.p4testgen import COMMAND, compared, summary

ROOT = Path(__file__).parents[2]
KINDS = ROOT / "tests" / "unit" / "testgen" / "kinds.p4"


@pytest.mark.skipif(shutil.which(COMMAND) is None, reason=f"{COMMAND} is not on PATH")
def test_no_program_is_covered_less(tmp_path: Path) -> None:
    result = compared(KINDS, 20.0, tmp_path)
    assert result is not None
    mine, theirs = result["detour"], result["p4testgen"]
    # Of the 12, one is in contradictory conditions, and one needs a certain random number.
    assert (mine["covered"], mine["proven"], mine["reachable"]) == (10, 1, 12)
    assert mine["covered"] >= theirs["covered"]
    assert theirs["tests"] > 0 or "failed" in theirs


def test_the_document_says_what_was_measured() -> None:
    results = json.loads((ROOT / "docs" / "p4testgen.json").read_text())
    text = " ".join((ROOT / "docs" / "test-generation.md").read_text().split())
    assert summary(results) in text
