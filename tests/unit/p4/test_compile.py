# SPDX-License-Identifier: Apache-2.0
"""The driver, `detour compile`, `detour-p4c`, and programs in the cache."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from detour.base.errors import DetourError, InternalError
from detour.base.places import P4SRC
from detour.cli import p4c
from detour.control.p4runtime.pipeline import PipelineConfig
from detour.engine.switch import options as switch_options
from detour.p4 import elaborate
from detour.p4.build import build
from detour.p4.compile import Refused, compile_file, compiled

PROGRAM = """#include <v1model.p4>
#include "types.p4"
parser P(packet_in packet, out headers h, inout none m, inout standard_metadata_t std) {
    state start { packet.extract(h.one); transition accept; }
}
control Checks(inout headers h, inout none m) { apply {} }
control In(inout headers h, inout none m, inout standard_metadata_t std) {
    action send(bit<9> port) { std.egress_spec = port; }
    table t {
        key = { h.one.a: exact; }
        actions = { send; NoAction; }
        default_action = NoAction;
        const entries = { 1: send(PORT); }
    }
    apply { t.apply(); }
}
control Out(inout headers h, inout none m, inout standard_metadata_t std) { apply {} }
control Emit(packet_out packet, in headers h) { apply { packet.emit(h); } }
V1Switch(P(), Checks(), In(), Out(), Checks(), Emit()) main;
"""
TYPES = "header one_t { bit<8> a; }\nstruct headers { one_t one; }\nstruct none {}\n"


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "types.p4").write_text(TYPES)
    source = Path("a.p4")
    source.write_text(PROGRAM.replace("PORT", "2").replace("types.p4", "parts/types.p4"))
    return source


def test_json_p4info_and_entries(program: Path) -> None:
    result = compile_file(program, "v1model", entries=True)
    assert result.errors == []
    assert result.json is not None
    assert result.json["program"] == "a.p4"
    assert result.p4info is not None
    assert [table.preamble.name for table in result.p4info.tables] == ["In.t"]
    assert result.entries is not None
    assert len(result.entries.updates) == 1
    assert {path.name for path in result.files} == {"a.p4", "types.p4", "core.p4", "v1model.p4"}


def test_another_architecture_is_refused(program: Path) -> None:
    result = compile_file(program, "psa")
    assert result.json is None
    assert "V1Switch, not a PSA_Switch" in result.errors[0].text
    assert "no architecture" in compile_file(program, "tna").errors[0].text
    program.write_text(TYPES)
    assert "no main" in compile_file(program).errors[0].text


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DetourError, match=r"none.p4: No such file"):
        compile_file(tmp_path / "none.p4")


def test_refused_names_the_first_error(program: Path) -> None:
    program.write_text("const bit<8> a = b;\nconst bit<8> c = d;\n")
    with pytest.raises(Refused, match=r"a.p4:1:18: .*; 1 more error$"):
        compiled(program)


def test_a_bug_is_told_with_the_source_at_which_it_was(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(program: Any) -> None:
        table = next(one for one in program.declarations if one.name == "In").locals[1]
        raise KeyError(table.name)

    monkeypatch.setattr(elaborate, "elaborate", broken)
    with pytest.raises(InternalError, match=r"(?s)a.p4:9:11 .*KeyError.*bug of the compiler.*at:\n    table t"):
        compile_file(program)


def test_the_text_of_a_file_may_be_another_one(program: Path) -> None:
    result = compile_file(program, edited={program: "nothing"})
    assert result.errors[0].span.line == 1


# ---------------------------------------------------------------- the cache


def test_compiled_once_by_content(program: Path) -> None:
    first = build(program)
    when = first.json.stat().st_mtime_ns
    assert build(program) == first
    assert first.json.stat().st_mtime_ns == when
    types = program.parent / "parts" / "types.p4"
    types.write_text(TYPES + "// other\n")
    assert build(program) != first
    types.write_text(TYPES)
    assert build(program) == first


def test_commands_that_take_json_take_p4(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = PipelineConfig.given("a.p4")
    assert json.loads(given.blob.read_text())["program"] == "a.p4"
    parsed = switch_options.parse(["a.p4"])
    assert not isinstance(parsed, str)
    assert parsed.config == given.blob
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")
    assert PipelineConfig.given("a.p4").blob.is_file()


# ---------------------------------------------------------------- commands


def test_the_command_writes_files(program: Path, run_json: Callable[..., Any]) -> None:
    words = ["-o", "a.json", "--p4info", "a.p4info.txtpb", "--entries", "e.json", "--arch", "v1model"]
    answer = run_json("compile", str(program), *words)
    assert answer["errors"] == answer["warnings"] == []
    assert 0 < answer["seconds"] < 60
    assert "In.t" in Path("a.json").read_text()
    assert "In.t" in Path("a.p4info.txtpb").read_text()
    assert json.loads(Path("e.json").read_text())["updates"]


def test_the_command_tells_errors(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from detour.cli import main

    program.write_text(program.read_text().replace("h.one.a: exact", "h.one.b: exact"))
    assert main(["compile", "a.p4", "--json"]) == 2
    (error,) = json.loads(capsys.readouterr().out)["errors"]
    assert (error["file"], error["line"]) == ("a.p4", 10)
    assert main(["compile", "a.p4"]) == 2
    told = capsys.readouterr().err
    assert "a.p4:10:" in told
    assert "h.one.b: exact" in told
    assert "^" in told


def test_warnings_are_left_out_or_errors(program: Path, run_json: Callable[..., Any]) -> None:
    from detour.cli import main

    text = program.read_text().replace("apply { t.apply(); }", "bit<8> unused_one; apply { t.apply(); }")
    program.write_text(text)
    (warning,) = run_json("compile", "a.p4")["warnings"]
    assert "unused_one" in warning["message"]
    for words in (["-W", "none"], ["-W", f"no-{warning['kind']}"]):
        assert run_json("compile", "a.p4", *words)["warnings"] == []
    assert main(["compile", "a.p4", "-W", "error"]) == 2
    program.write_text(text.replace("unused_one;", "unused_one; unused_on = 1;"))
    compiled = compile_file(program)
    assert (len(compiled.errors), compiled.warnings) == (1, [])


def test_macros_and_folders(program: Path, run_json: Callable[..., Any]) -> None:
    program.write_text(PROGRAM)
    run_json("compile", "a.p4", "-I", "parts", "-D", "PORT=3", "-o", "a.json")
    assert p4c.main(["-Iparts", "-DPORT=3", "a.p4", "-o", "b.json"]) == 0
    assert Path("a.json").read_text() == Path("b.json").read_text()


@pytest.mark.skipif(shutil.which("p4c-bm2-ss") is None, reason="p4c-bm2-ss is not on PATH")
def test_the_reference_compiles_where_it_is_asked_for(program: Path, run_json: Callable[..., Any]) -> None:
    run_json("compile", "a.p4", "--compiler", "p4c", "-o", "a.json", "--p4info", "a.txtpb")
    assert json.loads(Path("a.json").read_text())["__meta__"]["compiler"].endswith("p4c")
    assert build(program, "p4c").json != build(program).json


def test_in_place_of_p4c(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "--std",
        "p4-16",
        "--target",
        "bmv2",
        "--arch",
        "v1model",
        "--Wdisable=unused",
        "--p4runtime-format",
        "text",
    ]
    words += ["--p4runtime-files", "out.txt,more.txt", "-o", "built/", "a.p4", "--emit-externs"]
    assert p4c.main(words) == 0
    assert Path("built/a.json").is_file()
    assert "In.t" in Path("more.txt").read_text()
    assert p4c.main(["--p4runtime-entries-files=e.bin", "a.p4"]) == 0
    assert Path("e.bin").stat().st_size > 20
    capsys.readouterr()
    assert p4c.main(["-E", "a.p4"]) == 0
    Path("again.p4").write_text(capsys.readouterr().out)
    assert p4c.main(["again.p4", "-o", "again.json"]) == 0
    assert p4c.main(["--version"]) == p4c.main(["--help"]) == 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--std p4-14 a.p4", "only P4_16"),
        ("--target dpdk a.p4", "the targets are"),
        ("--nonsense a.p4", "no option --nonsense"),
        ("a.p4 b.p4", "give one program"),
        ("-o a.json", "give a P4 program"),
        ("a.p4 -o", "-o needs a value"),
        ("none.p4", "No such file"),
        ("-E none.p4", "No such file"),
    ],
)
def test_what_it_does_not_take(program: Path, capsys: pytest.CaptureFixture[str], words: str, says: str) -> None:
    assert p4c.main(words.split()) == 2
    assert says in capsys.readouterr().err


def test_the_benchmark(run_json: Callable[..., Any]) -> None:
    (row,) = run_json("bench", "compile", "--programs", str(P4SRC / "queues.p4"), "--times", "1")["programs"]
    assert (row["name"], row["lines"] > 100, row["seconds"] > 0) == ("queues", True, True)
    assert row["p4c_seconds"] is None or row["p4c_seconds"] > 0
    assert row["mib"] < 150
