# SPDX-License-Identifier: Apache-2.0
"""The checked-in builds are what our compiler makes of the sources, and p4c's behave the same."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from detour.p4 import checked_in
from tests.differential.p4c_corpus import ours, reference, traffic
from tests.ptf.p4rt import Schema

SOURCES = checked_in.sources()


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_the_build_is_what_the_compiler_makes(source: Path) -> None:
    assert checked_in.is_current(source), "run `make p4`"


@pytest.mark.skipif(reference.missing() is not None, reason="p4c is not on PATH")
@pytest.mark.parametrize(
    "source", [pytest.param(p, id=p.stem, marks=pytest.mark.long if p.stem != "fabric" else ()) for p in SOURCES]
)
def test_the_build_of_p4c_behaves_the_same(source: Path) -> None:
    theirs, mine = reference.compiled(source), ours.compiled(source)
    assert Schema.load(theirs.p4info).p4info == mine.p4info
    assert not traffic.compare(theirs, mine, seed=source.stem, frames=200)


def test_a_changed_source_is_noticed(tmp_path: Path) -> None:
    shutil.copytree(checked_in.P4SRC, tmp_path / "p4src")
    source = tmp_path / "p4src" / "trim.p4"
    assert checked_in.is_current(source)
    header = tmp_path / "p4src" / "include" / "trimming.p4"
    header.write_text("\n" + header.read_text())
    assert not checked_in.is_current(source)
