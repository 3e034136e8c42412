# SPDX-License-Identifier: Apache-2.0
"""Which program a switch of a lab gets, with and without a compiler."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from written_labs import tutorial

from detour.base.errors import DetourError
from detour.base.progress import silent
from detour.fabric.labs.controllers import fill_build
from detour.fabric.labs.folder import LabFolder
from detour.fabric.labs.model import Lab
from detour.fabric.labs.programs import P4C, contents_of, programs_of
from detour.fabric.labs.reading import read_lab

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


FAKE_P4C = """#!/bin/sh
# Like p4c as far as labs call it; its JSON says which source it was made of.
[ "$1" = --version ] && echo 1 && exit
for source; do :; done
[ "$3" = -E ] && cat "$source" && exit
echo '{"parsers": [], "pipelines": [], "actions": [], "of": "'$PWD/$source'"}' > "$4"
touch "$6"
"""


@pytest.fixture
def fake_p4c(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / P4C).write_text(FAKE_P4C)
    (tmp_path / "bin" / P4C).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


EXERCISE = {"topology__json": tutorial(), "a__p4": f"{P4}// starter", "solution_in_a__p4": f"{P4}// solution"}
"""no switch names a program: a controller sets it"""


def solved(tmp_path: Path) -> Lab:
    return read_lab(LabFolder.given(str(tmp_path), solution=True))


def test_a_solution_is_not_what_was_built_of_the_starter(lab: ReadLab, tmp_path: Path) -> None:
    lab(**EXERCISE, build_in_a__json=PROGRAM)
    with pytest.raises(DetourError, match=r"solution/a.p4 is not compiled, and p4c-bm2-ss is not on PATH"):
        programs_of(solved(tmp_path))
    runtime = {"p4info": "build/a.p4.p4info.txtpb", "bmv2_json": "build/a.json"}
    lab(topology__json=tutorial(switches={"s1": {"runtime_json": "r.json"}, "s2": {}}), r__json=runtime)
    program = solved(tmp_path).switch("s1").program
    assert program is not None
    assert (program.source, program.json) == (tmp_path / "solution" / "a.p4", None)


@pytest.mark.parametrize("built", [False, True])
def test_a_fresh_exercise_with_a_controller_gets_build_and_logs(
    lab: ReadLab, tmp_path: Path, fake_p4c: None, built: bool
) -> None:
    lab(**EXERCISE, **({"build_in_a__json": PROGRAM} if built else {}))
    for solution, source in ((False, tmp_path / "a.p4"), (True, tmp_path / "solution" / "a.p4")):
        parsed = replace(solved(tmp_path), solution=solution)
        fill_build(parsed, programs_of(parsed, empty=True), silent)
        assert json.loads((tmp_path / "build" / "a.json").read_text())["of"] == str(source)
        assert (tmp_path / "build" / "a.p4.p4info.txtpb").is_file()
        assert (tmp_path / "logs").is_dir()


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
