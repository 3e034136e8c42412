# SPDX-License-Identifier: Apache-2.0
"""fabric.p4 does what the tests expect that were generated of it (`make check`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from detour.engine.compiler.covering import COLLECTOR, Collector
from detour.engine.coverage.document import document_of
from detour.testgen.regress import rerun
from tests.unit.testgen.stored import FABRIC, unpack


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tests").mkdir()
    unpack(tmp_path / "tests")
    return tmp_path / "tests"


def test_fabric_is_as_its_tests_expect(folder: Path) -> None:
    with COLLECTOR.set_to(collector := Collector()):
        count, found = rerun(FABRIC, folder, "fabric")
    assert count > 50
    assert not [(each.test, each.texts) for each in found]
    totals = document_of(collector).programs["fabric"].totals()
    missing = {what: counts["reachable"] - counts["covered"] for what, counts in totals.items()}
    # Of packets that wait in queues (14 branches), and of those that recirculate more than five times.
    assert missing == {"statements": 17, "branches": 15, "actions": 0}


def test_a_changed_fabric_is_not(folder: Path, tmp_path: Path) -> None:
    for file in sorted(folder.iterdir())[:-5]:
        file.unlink()
    text = FABRIC.read_text()
    assert text.count('"0x86dd"') >= 1
    (tmp_path / "fabric.json").write_text(text.replace('"0x86dd"', '"0x86de"'))
    assert rerun(tmp_path / "fabric.json", folder, "fabric")[1]
