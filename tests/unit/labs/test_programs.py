# SPDX-License-Identifier: Apache-2.0
"""Which program a switch of a lab gets, with and without a compiler."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from written_labs import tutorial

from detour.base.errors import DetourError
from detour.fabric.labs.model import Lab
from detour.fabric.labs.programs import contents_of, programs_of

ReadLab = Callable[..., Lab]
PROGRAM = json.dumps({"parsers": [], "pipelines": [], "actions": []})
P4 = "no P4 at all\n"

pytestmark = pytest.mark.usefixtures("without_p4c")


def files(lab: Lab, given: str | None = None) -> tuple[Path, Path | None]:
    program = programs_of(lab, given)["s1"]
    assert program is not None
    return program.json, program.p4info


def test_the_only_pair_in_the_folder(lab: ReadLab, tmp_path: Path) -> None:
    parsed = lab(topology__json=tutorial(), a__json=PROGRAM, a__p4info__txtpb="", b__json=PROGRAM)
    assert files(parsed) == (tmp_path / "a.json", tmp_path / "a.p4info.txtpb")


def test_the_only_pair_in_build(lab: ReadLab, tmp_path: Path) -> None:
    parsed = lab(topology__json=tutorial(), build_in_a__json=PROGRAM, build_in_a__p4__p4info__txtpb="")
    assert files(parsed) == (tmp_path / "build" / "a.json", tmp_path / "build" / "a.p4.p4info.txtpb")


def test_a_json_alone_will_do(lab: ReadLab, tmp_path: Path) -> None:
    assert files(lab(topology__json=tutorial(), a__json=PROGRAM)) == (tmp_path / "a.json", None)


def test_several_must_be_told_apart(lab: ReadLab, tmp_path: Path) -> None:
    parsed = lab(topology__json=tutorial(), a__json=PROGRAM, b__json=PROGRAM)
    with pytest.raises(DetourError, match=r"several programs: a.json, b.json; name one with --program"):
        programs_of(parsed)
    (tmp_path / "b.p4info.txtpb").write_text("")
    given = f"{tmp_path / 'b.p4info.txtpb'},{tmp_path / 'b.json'}"
    assert files(parsed, given) == (tmp_path / "b.json", tmp_path / "b.p4info.txtpb")


def test_none_at_all(lab: ReadLab) -> None:
    parsed = lab(topology__json=tutorial())
    with pytest.raises(DetourError, match=r"s1 has no program, and .* holds none; name one with --program"):
        programs_of(parsed)
    assert programs_of(parsed, empty=True) == {"s1": None, "s2": None}


def app(**switch: Any) -> dict[str, Any]:
    topology = {"links": [["h1", "s1"]], "hosts": {"h1": {}}, "switches": {"s1": switch}}
    return {"p4_src": "a.p4", "topology": topology}


def test_a_source_that_was_compiled_earlier(lab: ReadLab, tmp_path: Path) -> None:
    parsed = lab(p4app__json=app(), a__p4=P4)
    with pytest.raises(DetourError, match=r"a.p4 is not compiled, and p4c-bm2-ss is not on PATH"):
        programs_of(parsed)
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "a.json").write_text(PROGRAM)
    assert files(parsed) == (tmp_path / "build" / "a.json", None)


def test_switches_have_programs_of_their_own(lab: ReadLab, tmp_path: Path) -> None:
    document = app(p4_src="b.p4")
    document["topology"]["switches"]["s2"] = {}
    programs = programs_of(lab(p4app__json=document, a__p4=P4, a__json=PROGRAM, b__p4=P4, b__json=PROGRAM))
    assert {name: files.json.name for name, files in programs.items() if files} == {"s1": "b.json", "s2": "a.json"}


def test_what_is_no_program_is_named(lab: ReadLab) -> None:
    parsed = lab(topology__json=tutorial(), a__json=PROGRAM)
    with pytest.raises(DetourError, match=r"a.json: "):
        contents_of(parsed, programs_of(parsed))


@pytest.mark.skipif(shutil.which("p4c-bm2-ss") is None, reason="p4c-bm2-ss is not on PATH")
def test_p4c_compiles_into_the_cache(lab: ReadLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    source = Path(__file__).parents[3] / "docs" / "labs" / "ecn" / "ecn.p4"
    parsed = lab(p4app__json=app(), a__p4=source.read_text())
    compiled, p4info = files(parsed)
    assert tmp_path not in compiled.parents
    assert p4info is not None
    assert "LabIngress.routes" in p4info.read_text()
    written = compiled.stat().st_mtime_ns
    assert files(parsed) == (compiled, p4info)
    assert compiled.stat().st_mtime_ns == written
    (tmp_path / "a.p4").write_text(source.read_text().replace("table routes", "table ways").replace("routes.", "ways."))
    assert files(parsed)[0] != compiled
    (tmp_path / "a.p4").write_text(P4)
    with pytest.raises(DetourError, match=r"a.p4: p4c-bm2-ss: .*a.p4\(1\).*error"):
        programs_of(parsed)
