# SPDX-License-Identifier: Apache-2.0
"""Which program a switch of a lab gets, from its source or built before."""

from __future__ import annotations

import json
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
from detour.fabric.labs.programs import contents_of, programs_of
from detour.fabric.labs.reading import read_lab

ReadLab = Callable[..., Lab]
PROGRAM = json.dumps({"parsers": [], "pipelines": [], "actions": []})
P4 = """
#include <v1model.p4>
struct none {}
parser P(packet_in packet, out none h, inout none m, inout standard_metadata_t std) {
    state start { transition accept; }
}
control Checks(inout none h, inout none m) { apply {} }
control NAME(inout none h, inout none m, inout standard_metadata_t std) {
    table routes { key = { std.ingress_port: exact; } actions = { NoAction; } }
    apply { routes.apply(); }
}
control Out(inout none h, inout none m, inout standard_metadata_t std) { apply {} }
control Emit(packet_out packet, in none h) { apply {} }
V1Switch(P(), Checks(), NAME(), Out(), Checks(), Emit()) main;
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


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
    with pytest.raises(DetourError, match=r"several programs: a.json, b.json; give one with --program"):
        programs_of(parsed)
    (tmp_path / "b.p4info.txtpb").write_text("")
    given = f"{tmp_path / 'b.p4info.txtpb'},{tmp_path / 'b.json'}"
    assert files(parsed, given) == (tmp_path / "b.json", tmp_path / "b.p4info.txtpb")


def test_none_at_all(lab: ReadLab) -> None:
    parsed = lab(topology__json=tutorial())
    with pytest.raises(DetourError, match=r"s1 has no program, and .* has none; give one with --program"):
        programs_of(parsed)
    assert programs_of(parsed, empty=True) == {"s1": None, "s2": None}


def app(**switch: Any) -> dict[str, Any]:
    topology = {"links": [["h1", "s1"]], "hosts": {"h1": {}}, "switches": {"s1": switch}}
    return {"p4_src": "a.p4", "topology": topology}


def test_a_source_goes_before_what_was_built_of_it(lab: ReadLab, tmp_path: Path) -> None:
    parsed = lab(p4app__json=app(), a__p4=P4, build_in_a__json=PROGRAM)
    json_file, p4info = files(parsed)
    assert tmp_path / "build" not in json_file.parents
    assert p4info is not None
    (tmp_path / "a.p4").unlink()
    assert files(lab(p4app__json=app(), a__json=PROGRAM)) == (tmp_path / "a.json", None)


EXERCISE = {
    "topology__json": tutorial(),
    "a__p4": P4.replace("NAME", "Starter"),
    "solution_in_a__p4": P4.replace("NAME", "Solution"),
}
"""no switch names a program: a controller sets it"""


def solved(tmp_path: Path) -> Lab:
    return read_lab(LabFolder.given(str(tmp_path), solution=True))


def test_a_solution_is_not_what_was_built_of_the_starter(lab: ReadLab, tmp_path: Path) -> None:
    lab(**EXERCISE, build_in_a__json=PROGRAM)
    program = programs_of(solved(tmp_path), empty=True)["s1"]
    assert program is not None
    assert "Solution.routes" in program.json.read_text()
    runtime = {"p4info": "build/a.p4.p4info.txtpb", "bmv2_json": "build/a.json"}
    lab(topology__json=tutorial(switches={"s1": {"runtime_json": "r.json"}, "s2": {}}), r__json=runtime)
    named = solved(tmp_path).switch("s1").program
    assert named is not None
    assert (named.source, named.json) == (tmp_path / "solution" / "a.p4", None)


@pytest.mark.parametrize("built", [False, True])
def test_a_fresh_exercise_with_a_controller_gets_build_and_logs(lab: ReadLab, tmp_path: Path, built: bool) -> None:
    lab(**EXERCISE, **({"build_in_a__json": PROGRAM} if built else {}))
    for solution, name in ((False, "Starter"), (True, "Solution")):
        parsed = replace(solved(tmp_path), solution=solution)
        fill_build(parsed, programs_of(parsed, empty=True), silent)
        assert f"{name}.routes" in (tmp_path / "build" / "a.json").read_text()
        assert (tmp_path / "build" / "a.p4.p4info.txtpb").is_file()
        assert (tmp_path / "logs").is_dir()


def test_switches_have_programs_of_their_own(lab: ReadLab, tmp_path: Path) -> None:
    document = app(p4_src="b.p4")
    document["topology"]["switches"]["s2"] = {}
    programs = programs_of(lab(p4app__json=document, a__p4=P4, b__p4=P4))
    assert {name: files.json.name for name, files in programs.items() if files} == {"s1": "b.json", "s2": "a.json"}


def test_what_is_no_program_is_named(lab: ReadLab) -> None:
    parsed = lab(topology__json=tutorial(), a__json=PROGRAM)
    with pytest.raises(DetourError, match=r"a.json: "):
        contents_of(parsed, programs_of(parsed))


def test_compiled_into_the_cache(lab: ReadLab, tmp_path: Path) -> None:
    parsed = lab(p4app__json=app(), a__p4=P4)
    compiled, p4info = files(parsed)
    assert tmp_path / "cache" in compiled.parents
    assert p4info is not None
    assert "NAME.routes" in p4info.read_text()
    written = compiled.stat().st_mtime_ns
    assert files(parsed) == (compiled, p4info)
    assert compiled.stat().st_mtime_ns == written
    (tmp_path / "a.p4").write_text(P4.replace("routes", "ways"))
    assert files(parsed)[0] != compiled
    (tmp_path / "a.p4").write_text("no P4 at all")
    with pytest.raises(DetourError, match=r"a.p4:1:\d+: "):
        programs_of(parsed)
