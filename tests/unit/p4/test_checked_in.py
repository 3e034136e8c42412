# SPDX-License-Identifier: Apache-2.0
"""The checked-in build belongs to the sources, and p4c still makes the same of them."""

import json
import shutil

import pytest

from detour.p4 import checked_in


@pytest.mark.parametrize("program", checked_in.programs())
def test_build_belongs_to_sources(program):
    assert program not in checked_in.stale(), "p4src changed: run `make p4`"


SOURCES = [checked_in.SOURCES / f"{program}.p4" for program in checked_in.programs()] + checked_in.lab_sources()


@pytest.mark.skipif(shutil.which("p4c-bm2-ss") is None, reason="p4c-bm2-ss is not on PATH")
@pytest.mark.parametrize(
    "source", [pytest.param(p, id=p.stem, marks=pytest.mark.long if p.stem != "fabric" else ()) for p in SOURCES]
)
def test_rebuild_gives_the_same(source, tmp_path):
    checked_in.compile_to(source.stem, tmp_path, source.parent, "p4c")
    build = source.parent / "build"
    new, old = (json.loads((folder / f"{source.stem}.json").read_text()) for folder in (tmp_path, build))
    new.pop("__meta__", None)
    old.pop("__meta__", None)
    assert new == old
    p4info = f"{source.stem}.p4info.txtpb"
    assert (tmp_path / p4info).read_text() == (build / p4info).read_text()


@pytest.mark.parametrize("source", checked_in.lab_sources(), ids=lambda source: source.stem)
def test_builds_of_labs_belong_to_their_sources(source):
    if not (source.parent / "build").is_dir():
        pytest.skip(f"docs/labs/{source.parent.name} is not built: run `make p4`")
    assert source.parent.name not in checked_in.stale_labs(), "docs/labs changed: run `make p4`"


def test_a_changed_source_is_noticed(tmp_path, monkeypatch):
    shutil.copytree(checked_in.SOURCES, tmp_path / "p4src")
    monkeypatch.setattr(checked_in, "SOURCES", tmp_path / "p4src")
    monkeypatch.setattr(checked_in, "BUILD", tmp_path / "p4src" / "build")
    assert checked_in.stale() == []
    header = tmp_path / "p4src" / "include" / "headers.p4"
    header.write_text(header.read_text() + "// changed\n")
    assert checked_in.stale() == checked_in.programs()
