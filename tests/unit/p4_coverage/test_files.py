# SPDX-License-Identifier: Apache-2.0
"""Coverage files: merged, shown over the source, held against exceptions, and refused with one line."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from detour import cli
from detour.base.places import BUILD, P4SRC
from detour.engine.coverage.document import CoverageDocument, Point, ProgramCoverage
from detour.engine.coverage.exceptions import read_exceptions
from detour.engine.coverage.sources import over_source

IPV4 = f"{BUILD / 'ipv4.p4info.txtpb'},{BUILD / 'ipv4.json'}"
FRAME = "00" * 12 + "0800" + "4500002800000000401100000a0000010a000002" + "00" * 20
ARP = "00" * 12 + "0806" + "00" * 46
ROUTES = "Ipv4Ingress.routes"


def _traced(folder: Path, name: str, frame: str) -> Path:
    file = folder / name
    assert cli.main(["trace", "--program", IPV4, "--packet", frame, "--json", "--coverage", str(file)]) == 0
    return file


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """What an IPv4 packet and an ARP one reach of ipv4.p4."""
    folder = tmp_path_factory.mktemp("coverage")
    return _traced(folder, "first", FRAME), _traced(folder, "second", ARP)


def test_the_document(run_json: Callable[..., Any], files: tuple[Path, Path]) -> None:
    one = run_json("coverage", files[0])
    assert one.keys() == {"ipv4"}
    assert one["ipv4"].keys() == {"statements", "branches", "actions"}
    assert one["ipv4"]["actions"] == {"covered": 2, "reachable": 8}, "a miss, and the default action"
    both = run_json("coverage", *files)
    assert both["ipv4"]["actions"] == {"covered": 4, "reachable": 8}
    for kind, totals in both["ipv4"].items():
        assert totals.keys() == {"covered", "reachable"}
        assert one["ipv4"][kind]["covered"] < totals["covered"] <= totals["reachable"] == one["ipv4"][kind]["reachable"]


def test_hits_of_several_files_are_added(files: tuple[Path, Path]) -> None:
    twice = CoverageDocument.read([files[0], files[0]]).programs["ipv4"]
    once = CoverageDocument.read([files[0]]).programs["ipv4"]
    assert {k: p.hits for k, p in twice.points.items()} == {k: 2 * p.hits for k, p in once.points.items()}


def test_what_people_read(capsys: pytest.CaptureFixture[str], files: tuple[Path, Path]) -> None:
    capsys.readouterr()
    assert cli.main(["coverage", str(files[0])]) == 0
    shown = capsys.readouterr().out
    assert "        0    83:         std.egress_spec = port;" in shown
    assert "never: hit, Ipv4Ingress.forward" in shown
    assert " 79:" not in shown, "a line that was reached"
    assert cli.main(["coverage", "-v", str(files[0])]) == 0
    assert "        1    79:         mark_to_drop(std);" in capsys.readouterr().out


def test_fail_under(capsys: pytest.CaptureFixture[str], files: tuple[Path, Path]) -> None:
    assert cli.main(["coverage", str(files[0]), "--fail-under", "20"]) == 0
    capsys.readouterr()
    assert cli.main(["coverage", str(files[0]), "--fail-under", "30"]) == 1
    assert "ipv4: 2 of 8 actions are covered, less than 30 %" in capsys.readouterr().out


def test_parser_and_deparser_have_their_lines(files: tuple[Path, Path]) -> None:
    program = CoverageDocument.read([files[0]]).programs["ipv4"]
    (file,), elsewhere = over_source(program)
    assert file.path is not None
    by_line = {line.number: line for line in file.lines if line.points}
    states = {line.text.split()[1]: line.hits for line in by_line.values() if line.text.strip().startswith("state ")}
    assert states == {"start": 1, "ipv4": 1, "arp": 0}
    # `packet.emit(hdr)` names no header: these have no line of their own.
    assert {point.name for point in elsewhere} == {f"deparser emit {name}" for name in ("ethernet", "arp", "ipv4")}


def test_a_source_that_has_changed_is_not_shown(files: tuple[Path, Path], tmp_path: Path) -> None:
    program = CoverageDocument.read([files[0]]).programs["ipv4"]
    (tmp_path / "ipv4.p4").write_text("// another program\n" * 200)
    (file,), _ = over_source(program, [tmp_path])
    assert file.path != tmp_path / "ipv4.p4"
    assert file.path is not None
    (tmp_path / "ipv4.p4").write_text(file.path.read_text())
    (source,), _ = over_source(program, [tmp_path])
    assert source.path == tmp_path / "ipv4.p4"


def test_lcov(files: tuple[Path, Path], tmp_path: Path) -> None:
    assert cli.main(["coverage", *map(str, files), "--lcov", str(tmp_path / "info")]) == 0
    lines = (tmp_path / "info").read_text().splitlines()
    assert lines[0] == "TN:ipv4"
    assert lines[1].startswith("SF:/")
    assert lines[1].endswith("/p4src/ipv4.p4")
    assert lines[-1] == "end_of_record"
    data = dict(line[3:].split(",") for line in lines if line.startswith("DA:"))
    assert (data["83"], data["90"], data["93"]) == ("0", "0", "1")
    assert f"LF:{len(data)}" in lines
    assert f"LH:{sum(n != '0' for n in data.values())}" in lines
    branches = [line.split(",")[-1] for line in lines if line.startswith("BRDA:")]
    assert f"BRF:{len(branches)}" in lines
    assert f"BRH:{sum(n not in ('0', '-') for n in branches)}" in lines
    assert "-" in branches, "of the condition in egress, which no packet came to"


def test_pages(files: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert cli.main(["coverage", str(files[0]), "--html", str(tmp_path / "pages")]) == 0
    assert len(capsys.readouterr().out.split("\n")) < 9, "the lines are in the pages"
    assert 'href="program-1.html"' in (tmp_path / "pages" / "index.html").read_text()
    page = (tmp_path / "pages" / "program-1.html").read_text()
    assert "hdr.ipv4.isValid() &amp;&amp; hdr.ipv4.ttl &gt; 1" in page
    assert "<th>statements</th><th>branches</th><th>table outcomes</th>" in page
    assert 'class="l no" title="never: Ipv4Ingress.forward #0 assign"' in page
    assert "http" not in page


def test_what_is_in_a_file_cannot_become_markup(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>"
    point = {"kind": "statement", "name": evil, "outcome": evil, "file": evil, "line": 3, "column": 0, "text": evil}
    program = {"name": evil, "digest": "0", "points": [{**point, "hits": 0}]}
    (tmp_path / "f").write_text(json.dumps({"detour_coverage": 1, "programs": [program]}))
    assert cli.main(["coverage", str(tmp_path / "f"), "--html", str(tmp_path / "pages")]) == 0
    pages = list((tmp_path / "pages").iterdir())
    assert len(pages) == 2
    assert not any("<script" in page.read_text() for page in pages)


def test_what_the_compiler_made_is_counted_and_not_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = {"act_0 #0 assign": "", "node_29": "true", "deparser emit udp": ""}
    points = [
        {"kind": "branch" if outcome else "statement", "name": name, "outcome": outcome, "file": "", "line": 0,
         "column": 0, "text": "", "hits": 0} for name, outcome in names.items()
    ]  # fmt: skip
    programs = [{"name": "p", "digest": "0", "points": points}]
    (tmp_path / "f").write_text(json.dumps({"detour_coverage": 1, "programs": programs}))
    assert cli.main(["coverage", str(tmp_path / "f")]) == 0
    shown = capsys.readouterr().out
    assert "without a line of their own: 1 (and 2 that the compiler made: -v)" in shown
    assert "deparser emit udp" in shown
    assert "act_0" not in shown
    assert "node_29" not in shown


def test_a_source_is_found_whose_lines_have_more_spaces_than_p4c_quotes() -> None:
    quoted = "1; // truncated, or a header that contradicts itself"
    point = Point("statement", "a", "", "include/headers.p4", 22, 30, quoted, 0)
    (file,), _ = over_source(ProgramCoverage.of("fabric", "0", [point]))
    assert file.lines[21].text.startswith("const bit<8> DROP_MALFORMED = 1;       // truncated")


# -- exceptions


def _rules(folder: Path, text: str) -> Path:
    (folder / "rules.toml").write_text(text)
    return folder / "rules.toml"


def _exception(about: str, outcome: str | None = None, reason: str = "no packet can") -> str:
    rest = "" if outcome is None else f'outcome = "{outcome}"\n'
    return f'[[exception]]\nprogram = "ipv4"\n{about}\n{rest}reason = "{reason}"\n'


def test_exceptions_are_taken_out(files: tuple[Path, Path], tmp_path: Path, run_json: Callable[..., Any]) -> None:
    before = run_json("coverage", *files)["ipv4"]
    text = 'programs = ["ipv4"]\n' + _exception(f'table = "{ROUTES}"', "hit") + _exception('statement = "ipv4.p4:83"')
    after = run_json("coverage", *files, "--exceptions", _rules(tmp_path, text + _exception('branch = "ipv4.p4:120"')))[
        "ipv4"
    ]
    for kind, fewer in (("actions", 1), ("statements", 1), ("branches", 2)):
        assert after[kind] == {**before[kind], "reachable": before[kind]["reachable"] - fewer}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (_exception(f'table = "{ROUTES}"', "miss"), "is covered after all"),
        (_exception('statement = "ipv4.p4:79"'), "is covered after all"),
        (_exception('statement = "ipv4.p4:7"'), "has no such statement"),
        (_exception(f'table = "{ROUTES}"', "bounce"), "has no such action"),
        (_exception(f'table = "{ROUTES}"'), "outcome is missing"),
        (_exception('statement = "ipv4.p4:83"', reason=" "), "reason is missing"),
        (_exception("statement = 83"), "statement is missing or not text"),
        (_exception('statement = "a"\nbranch = "b"'), "one of statement, branch and table"),
        (_exception('state = "a"'), "'state' is unknown"),
        ('[exception]\nprogram = "ipv4"', "[[exception]]"),
        ("[[exception]]\nprogram = 3", "one of statement, branch and table"),
        ('programs = ["ipv4", "fabric"]', "there is no coverage of fabric"),
        ('programs = "ipv4"', "a list of names"),
        ("exeptions = []", "'exeptions' is unknown"),
        ("programs = [", "rules.toml: "),
    ],
)
def test_exceptions_that_are_wrong(
    files: tuple[Path, Path], tmp_path: Path, refused: Callable[..., str], text: str, reason: str
) -> None:
    assert reason in refused("coverage", *files, "--exceptions", _rules(tmp_path, text))


# -- bad input


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "No such file"),
        ("no json", "it is not JSON"),
        ("[]", "this is not a coverage file"),
        ('{"programs": []}', "this is not a coverage file"),
        ('{"detour_coverage": 2, "programs": []}', "version 2 cannot be read"),
        ('{"detour_coverage": 1}', "is damaged"),
        ('{"detour_coverage": 1, "programs": [{"name": "a", "digest": "b", "points": [{}]}]}', "is damaged"),
        ('{"detour_coverage": 1, "programs": [1]}', "is damaged"),
        ('{"detour_coverage": 1, "programs": []}', "it contains no coverage"),
    ],
)
def test_files_that_are_none(tmp_path: Path, refused: Callable[..., str], content: str | None, reason: str) -> None:
    if content is not None:
        (tmp_path / "f").write_text(content)
    line = refused("coverage", tmp_path / "f")
    assert str(tmp_path / "f") in line
    assert reason in line


def test_another_version_of_the_program(files: tuple[Path, Path], tmp_path: Path, refused: Callable[..., str]) -> None:
    document = json.loads(files[0].read_text())
    document["programs"][0]["digest"] = "another"
    (tmp_path / "old").write_text(json.dumps(document))
    assert "ipv4 is another version of that program" in refused("coverage", files[0], tmp_path / "old")


@pytest.mark.parametrize("percent", ["101", "-1", "all", "nan"])
def test_percentages_that_are_none(files: tuple[Path, Path], refused: Callable[..., str], percent: str) -> None:
    assert re.search("is not a (percentage|number)", refused("coverage", files[0], f"--fail-under={percent}"))


def test_what_cannot_be_written(files: tuple[Path, Path], tmp_path: Path, refused: Callable[..., str]) -> None:
    assert "there is no folder" in refused("coverage", files[0], "--lcov", tmp_path / "no" / "info")
    assert "is a folder" in refused("coverage", files[0], "--lcov", tmp_path)
    assert "there is no folder" in refused("coverage", files[0], "--html", tmp_path / "no" / "pages")


def test_our_own_exceptions_are_about_all_of_our_programs() -> None:
    rules = read_exceptions(P4SRC / "coverage.toml")
    assert rules.programs == tuple(sorted(path.stem for path in P4SRC.glob("*.p4")))
