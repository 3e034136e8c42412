# SPDX-License-Identifier: Apache-2.0
"""`detour conformance`: our server passes every check that it offers, and each check is failed by some bad server."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from xml.etree import ElementTree

import pytest
from finsy.proto import p4r

from detour.base.errors import DetourError
from detour.cli import main
from detour.conformance import run as conformance
from detour.conformance.checks import all_checks
from detour.conformance.link import RpcAnswer, RpcLink
from detour.conformance.model import (
    CheckResult,
    ConformanceCheck,
    ConformanceReport,
    ConformanceVerdict,
    RequirementLevel,
    ServerUnderTest,
    read_sentences,
    sentence_of,
)
from detour.conformance.report import check_table, read_reports, read_runs
from detour.conformance.session import CheckSession, RequirementMissed
from detour.engine.network import Network
from detour.engine.p4runtime import P4RuntimeServer
from tests.ptf.p4rt import clone_session
from tests.unit.p4runtime.conformance_faults import FAULTS, Fault, FaultyLink, WrongCodes
from tests.unit.p4runtime.harness import PROGRAMS, Client, Names, counter, digest, group, member, multicast, register
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[3]
STORED = ROOT / "docs" / "conformance"

P4INFO = str(conformance.CONFORMANCE_DATA / "conformance.p4info.txtpb")
NOT_OFFERED = {"meter.counters", "direct_meter.counters", "multicast.backup", "multicast.same_backup", "extern.unknown"}
STRINGS = {check.id for check in all_checks(["18"]) if ".string." in check.id}
"""of translated strings, which the suite's own program does not have"""
DOWN_PORT = 7
BEFORE = {"before.Write", "before.Read", "before.GetForwardingPipelineConfig"}
"""asked once, before any check; what they make of the answers is tried by hand"""


@contextmanager
def serving() -> Iterator[str]:
    """A server with two switches; its address. Port 7 of both is down."""
    with Network(packets=1024) as network:
        network.add_switch(1)
        network.add_switch(2)
        network.connect((1, DOWN_PORT), (2, DOWN_PORT))
        network.start()
        network.set_link((1, DOWN_PORT), False)
        with P4RuntimeServer(network) as server:
            server.add_device(1)
            server.add_device(2)
            yield server.target


def whole(address: str) -> ServerUnderTest:
    """That server, with what all checks need."""
    return ServerUnderTest(address, second_device=2, down_port=DOWN_PORT)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with serving() as address:
        yield address


def test_there_are_enough_checks() -> None:
    checks = all_checks()
    assert len(checks) >= 300
    assert len({check.requirement for check in checks}) == len(checks)
    assert {check.level for check in checks} == {"must", "should", "unspecified"}


def test_each_sentence_is_for_a_check() -> None:
    found = {check.id: sentence_of(check.id) for check in all_checks()}
    for sentence in read_sentences():
        assert all(
            any(fnmatchcase(id_, pattern) and found[id_] is sentence for id_ in found) for pattern in sentence.checks
        ), sentence.checks


@pytest.mark.skipif(
    "P4RUNTIME_SPEC" not in os.environ, reason="P4RUNTIME_SPEC (docs/v1/P4Runtime-Spec.adoc) is not set"
)
def test_sentences_are_quoted_from_the_specification() -> None:
    specification = plain(Path(os.environ["P4RUNTIME_SPEC"]).read_text())
    for sentence in read_sentences():
        if sentence.level is not RequirementLevel.UNSPECIFIED:
            parts = [plain(part).rstrip(".") for part in sentence.text.partition(": ")[2].split(" ... ")]
            assert re.search(".*?".join(map(re.escape, parts)), specification), sentence.text


def plain(text: str) -> str:
    """Without the markup of AsciiDoc, in lower case."""
    text = re.sub(r"(?:xref|link):[^\[\s]+\[([^\]]*)\]|\[([^\]]*)\]\(#[^)]*\)", r"\1\2", text)
    text = re.sub(r"<<#[^>]*>>|cite:\[[^\]]*\]|&#8212;|[`*_]", "", text)
    return re.sub(r" ([,.;:])", r"\1", re.sub(r"\s+", " ", text)).lower()


@pytest.mark.slow
def test_our_server_passes(address: str) -> None:
    report = conformance.run(whole(address))
    assert {
        r.id: r.got
        for r in report.results
        if r.verdict not in (ConformanceVerdict.PASS, ConformanceVerdict.NOT_OFFERED)
    } == {}
    assert {r.id for r in report.results if r.verdict is ConformanceVerdict.NOT_OFFERED} == NOT_OFFERED | STRINGS
    assert all(r.sent and r.got for r in report.results if r.id not in STRINGS)
    stored = {id_: check["verdict"] for id_, check in read_runs(RUNS)["detour"].items()}
    assert {r.id: str(r.verdict) for r in report.results} == stored


def outcome(session: CheckSession, link: FaultyLink, check: ConformanceCheck, fault: Fault) -> CheckResult:
    """A check of a server with a fault, which is there neither before nor after the check."""

    def run(session: CheckSession) -> None:
        fault.count.clear()
        link.fault = fault
        try:
            check.run(session)
        finally:
            link.fault = Fault()

    return conformance.run_check(session, replace(check, run=run))


def can_fail(
    session: CheckSession, link: FaultyLink, check: ConformanceCheck, faults: list[Callable[[], Fault]]
) -> bool:
    """Whether some fault makes it fail for its own reason, not because something that it needs is refused. That fault
    becomes the first: it often does for the next check as well."""
    good = Fault()
    outcome(session, link, check, good)
    for number, make in enumerate(faults):
        fault = make()
        fault.last = dict(good.count)
        result = outcome(session, link, check, fault)
        if result.prepared and result.verdict not in (ConformanceVerdict.PASS, ConformanceVerdict.NOT_OFFERED):
            faults.insert(0, faults.pop(number))
            return True
    return False


CHAPTERS = ["5", "8", "9", "10", "12", "13", "14", "15", "16", "17", "18"]


@pytest.mark.long
@pytest.mark.parametrize("chapter", CHAPTERS)
def test_each_check_can_fail(chapter: str) -> None:
    checks = [check for check in all_checks([chapter]) if check.id not in BEFORE | STRINGS]
    assert checks
    assert survivors(checks) == []


def survivors(checks: list[ConformanceCheck], config: p4r.ForwardingPipelineConfig | None = None) -> list[str]:
    """Those that no fault makes fail; `config`: the program, None for the suite's own."""
    with serving() as address:
        link = FaultyLink(address)
        try:
            with conformance.opened(link, replace(whole(address), config=config)) as (session, _):
                session.wait_s = 0.5
                faults = list(FAULTS)
                return [check.id for check in checks if not can_fail(session, link, check, faults)]
        finally:
            link.close()


def test_each_check_of_strings_can_pass_and_fail() -> None:
    config = conformance.read_config(PROGRAMS / "strings.p4info.txtpb", PROGRAMS / "strings.json")
    with serving() as address:
        results = conformance.run(replace(whole(address), config=config), ["18"]).results
    assert {r.id for r in results if r.verdict is ConformanceVerdict.PASS} >= STRINGS
    checks = [check for check in all_checks(["18"]) if check.id in STRINGS]
    assert survivors(checks, config) == []


def test_the_chapters_are_all() -> None:
    chapters = {check.section.split(".")[0] for check in all_checks()}
    assert chapters == set(CHAPTERS)


@pytest.mark.parametrize("name", sorted(BEFORE))
def test_what_is_asked_before_a_pipeline_can_fail(name: str) -> None:
    """The answers are taken before any check, so they are altered there."""
    with serving() as address:
        link = RpcLink(address)
        with conformance.opened(link, ServerUnderTest(address)) as (session, _):
            check = next(check for check in all_checks() if check.id == name)
            assert conformance.run_check(session, check).verdict is ConformanceVerdict.PASS
            method = name.partition(".")[2]
            request, _ = session.before_pipeline[method]
            wrong = p4r.GetForwardingPipelineConfigResponse(config=p4r.ForwardingPipelineConfig())
            session.before_pipeline[method] = request, RpcAnswer(0, messages=[wrong])
            assert conformance.run_check(session, check).verdict is ConformanceVerdict.FAIL
        link.close()


def test_only_what_is_demanded_can_fail(address: str) -> None:
    def misses(session: CheckSession) -> None:
        raise RequirementMissed("something else")

    verdicts = {"table_entry.priority_0": "fail", "table_entry.size": "differs", "clone.length_negative": "unspecified"}
    link = RpcLink(address)
    with conformance.opened(link, ServerUnderTest(address)) as (session, _):
        checks = [replace(check, run=misses) for check in all_checks() if check.id in verdicts]
        results = [conformance.run_check(session, check) for check in checks]
    link.close()
    assert {result.id: result.verdict for result in results} == verdicts


# -- the server is left as it was


def test_the_server_is_left_as_it_was(names: Names) -> None:
    with serving() as address:
        client = Client(address)
        stream = client.ready()
        route = names.entry("lpm_route", (1, 128), action=("forward", 7), metadata=b"mine")
        default = names.entry("exact_two", action=("forward", 3), is_default_action=True)
        hop = member(names.ids["ecmp"], 5, names.action("forward", 4))
        hops = group(names.ids["ecmp"], 6, (5, 2))
        rest = [multicast(9, (1, 2)), clone_session(8, (1, 1)), digest(names.ids["learn_t"], 3, 10, 20)]
        client.insert(hop)
        client.insert(hops, route, *rest)
        client.modify(default, counter(names.ids["port_counter"], 3, 17, 99), register(names.ids["words"], 2, 5))
        table = p4r.TableEntry(table_id=names.ids["exact_two"], is_default_action=True)
        asked = [p4r.Entity(table_entry=table), counter(names.ids["port_counter"]), register(names.ids["words"])]
        asked += [p4r.Entity(table_entry=p4r.TableEntry()), member(names.ids["ecmp"], 0), group(names.ids["ecmp"], 0)]
        before = client.read(*asked, *rest)
        stream.close()
        while isinstance(stream.ending(), p4r.StreamMessageResponse):
            pass
        report = conformance.run(ServerUnderTest(address), ["9.1.4", "12.1"])
        assert report.notes == []
        assert client.read(*asked, *rest) == before
        assert len(before) > 100
        client.close()


def test_a_server_with_a_primary_is_left_alone() -> None:
    with serving() as address:
        client = Client(address)
        client.primary()
        with pytest.raises(DetourError, match="has a primary controller"):
            conformance.run(ServerUnderTest(address))
        client.close()


# -- the command


def test_the_command_writes_json_junit_and_a_page(
    address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    junit, page = tmp_path / "c.xml", tmp_path / "c.html"
    arguments = [
        "conformance",
        "--grpc",
        address,
        "--device-id",
        "1",
        "--second-device",
        "2",
        "--down-port",
        str(DOWN_PORT),
        "--section",
        "9.4.3",
        "--section",
        "17",
        "--json",
    ]
    assert main([*arguments, "--junit", str(junit), "--html", str(page)]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report.keys() == {"checks", "summary"}
    assert report["summary"] == {"pass": 3, "fail": 0, "differs": 0, "not_offered": 2, "unspecified": 0}
    assert {frozenset(check) for check in report["checks"]} == {
        frozenset(("id", "section", "requirement", "level", "quote", "verdict", "sent", "got", "expected"))
    }
    suite = ElementTree.parse(junit).getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("5", "0", "2")
    assert "capabilities.version" in page.read_text()


def test_the_command_returns_1_when_something_fails(
    address: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conformance, "RpcLink", faulty(WrongCodes))
    assert main(["conformance", "--grpc", address, "--section", "9.9", "--section", "17", "-v"]) == 1
    shown = capsys.readouterr().out
    assert "capabilities.unknown_device" in shown
    assert "expected:" in shown


def test_ctrl_c_shows_what_is_known(
    address: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(session: CheckSession, check: ConformanceCheck) -> CheckResult:
        if check.id == "table.exact.delete_id_0":
            raise KeyboardInterrupt
        return run_check(session, check)

    run_check = conformance.run_check
    monkeypatch.setattr(conformance, "run_check", interrupted)
    assert main(["conformance", "--grpc", address, "--section", "8", "--section", "17", "--json"]) == 130
    report = json.loads(capsys.readouterr().out)
    assert 0 < report["summary"]["pass"] == len(report["checks"])
    assert main(["conformance", "--grpc", address, "--section", "8", "--section", "17"]) == 130
    assert "interrupted; " in capsys.readouterr().out


def faulty(make: Callable[[], Fault]) -> Callable[[str], RpcLink]:
    def link(address: str) -> RpcLink:
        made = FaultyLink(address)
        made.fault = make()
        return made

    return link


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--grpc", "127.0.0.1:1"], "no P4Runtime server answers at 127.0.0.1:1"),
        (["--grpc", "ADDRESS", "--section", "99"], "no check is in section 99"),
        (["--grpc", "ADDRESS", "--skip", "nothing"], "there is no check nothing"),
        (["--grpc", "ADDRESS", "--device-id", "77"], "; the server has device 1 and 2: --device-id 1"),
        ([], "name a server by --grpc, or stored runs by --from"),
        (["--from", "nowhere.json"], "nowhere.json: No such file"),
        (["--from", __file__], "was not written by `detour conformance --json`"),
        (["--grpc", "ADDRESS", "--second-device", "77"], "device 77 at"),
        (["--grpc", "ADDRESS", "--p4info", "x"], "--p4info and --config go together"),
        (["--grpc", "ADDRESS", "--p4info", "x", "--config", "y"], "y: No such file"),
        (["--grpc", "ADDRESS", "--p4info", P4INFO, "--config", __file__], "does not take the suite's pipeline"),
    ],
)  # fmt: skip
def test_wrong_arguments(address: str, arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conformance", *(address if a == "ADDRESS" else a for a in arguments)]) == 2
    error = capsys.readouterr().err
    assert text in error
    assert error.count("\n") == 1


OTHERS = ["oddities", *(pytest.param(name, marks=pytest.mark.long) for name in ("meters", "strings"))]


@pytest.mark.parametrize("program", OTHERS)
def test_another_program(program: str, address: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Objects that it does not have are not offered; packets are not sent."""
    files = ["--p4info", str(PROGRAMS / f"{program}.p4info.txtpb"), "--config", str(PROGRAMS / f"{program}.json")]
    left_out = ["arbitration.zero"]
    if program == "strings":  # its ports are strings, which are not padded
        left_out += ["multicast.port_padded", "clone.port_padded"]
    skipped = [word for check in left_out for word in ("--skip", check)]
    assert main(["conformance", "--grpc", address, *files, "--json", *skipped]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["summary"]["pass"] > 150
    verdicts = {check["id"]: check["verdict"] for check in report["checks"]}
    assert verdicts["packet.payload"] == "not_offered"
    assert "arbitration.zero" not in verdicts


def test_the_plugin_makes_a_test_of_each_check(address: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "detour.conformance.pytest_plugin"]
    options = ["--p4runtime", address, "--p4runtime-section", "9.4.3", "--p4runtime-section", "17", "-c", os.devnull]
    done = subprocess.run(
        [*command, *options, str(tmp_path)], capture_output=True, text=True, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert "3 passed, 2 skipped" in done.stdout, done.stdout + done.stderr


# -- stored runs


RUNS = [STORED / "detour.json.xz", STORED / "simple_switch_grpc.json.xz"]


def test_stored_runs_are_of_these_checks() -> None:
    keys = ("section", "requirement", "level", "quote")
    expected = {check.id: [getattr(check, key) for key in keys] for check in all_checks()}
    for name, run in read_runs(RUNS).items():
        assert {id_: [check[key] for key in keys] for id_, check in run.items()} == expected, name


def test_what_fails_in_the_stored_run_of_bmv2_is_what_the_reports_are_about() -> None:
    run = read_runs(RUNS)["simple_switch_grpc"]
    assert {id_ for id_, check in run.items() if check["verdict"] in ("fail", "differs")} == known_failures()


def test_the_page_has_the_table_of_the_stored_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    page = ROOT / "docs" / "p4runtime.md"
    copy = tmp_path / page.name
    copy.write_text(page.read_text())
    arguments = [word for path in RUNS for word in ("--from", str(path.relative_to(ROOT)))]
    assert main(["conformance", *arguments, "--write", str(copy)]) == 0
    assert copy.read_text() == page.read_text()
    assert page.read_text().count("| section | about |") == 1


def test_a_table_says_how_many_checks_have_which_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [("a.x", "9.1.2", "pass"), ("a.y", "9.1.2", "fail"), ("b.z", "9.1.8", "not_offered"), ("c.z", "12", "pass")]
    checks = [{"id": i, "section": s, "requirement": i, "verdict": v} for i, s, v in rows]
    (tmp_path / "one.json").write_text(json.dumps({"checks": checks}))
    assert main(["conformance", "--from", str(tmp_path / "one.json"), "--json"]) == 0
    sections = json.loads(capsys.readouterr().out)
    assert [(row["section"], row["about"], row["checks"]) for row in sections] == [
        ("9.1", ["a", "b"], 3),
        ("12", ["c"], 1),
    ]
    assert sections[0]["verdicts"] == {"one": {"pass": 1, "fail": 1, "not_offered": 1}}
    assert main(["conformance", "--from", str(tmp_path / "one.json")]) == 0
    assert "1 pass, 1 fail, 1 not offered" in capsys.readouterr().out
    table = check_table(read_runs([tmp_path / "one.json"]), {"a.y": "PI#1"})
    assert table.cells(True)[1] == ["9.1.2", "a.y", "a.y", "", "", "fail", "PI#1"]


# -- detour switch


@pytest.mark.parametrize(
    ("options", "sections", "failing", "packets"),
    [
        (["--cpu-port", "510"], ["5", "9.2", "9.5", "16", "17"], 0, "pass"),
        pytest.param(["--cpu-port", "510"], None, 0, "pass", marks=pytest.mark.long),
        (["--cpu-port", "510", "--promote-backup"], ["5", "16.2"], 8, "pass"),
        ([], ["5", "16"], 0, "not_offered"),
    ],
)
def test_detour_switch_follows_the_specification_unless_asked_not_to(
    options: list[str], sections: list[str] | None, failing: int, packets: str
) -> None:
    address = f"127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "detour", "switch", "--no-p4", "--device-id", "1", "--"]
    process = subprocess.Popen(
        [*command, "--grpc-server-addr", address, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        until(lambda: listens(address))
        report = conformance.run(ServerUnderTest(address), sections)
        assert report.summary["fail"] == failing
        assert {result.verdict for result in report.results if result.id == "packet.backup_in"} == {packets}
    finally:
        process.terminate()
        process.wait()


# -- BMv2


@pytest.mark.long
@pytest.mark.skipif(shutil.which("simple_switch_grpc") is None, reason="BMv2 is not here")
def test_bmv2_fails_what_it_is_known_to_fail() -> None:
    """The list is docs/conformance/reports.txt, where public reports are named. Checks of digests and idle
    timeouts wait for BMv2's clock, so they may fail besides on a busy machine. Chapters run side by side: most of the
    time each waits for what BMv2 does not answer."""
    with ThreadPoolExecutor(4) as pool:
        results = [result for report in pool.map(of_bmv2, CHAPTERS) for result in report.results]
    assert len(results) == len(all_checks())
    failing = {r.id for r in results if r.verdict in (ConformanceVerdict.FAIL, ConformanceVerdict.DIFFERS)}
    known = known_failures()
    assert known <= failing
    assert {each for each in failing - known if not each.startswith(("digest.", "idle."))} == set()


def of_bmv2(chapter: str) -> ConformanceReport:
    with simple_switch() as (address, restart):
        return conformance.run(ServerUnderTest(address), [chapter], restart=restart)


def known_failures() -> set[str]:
    return set(read_reports(STORED / "reports.txt"))


@contextmanager
def simple_switch() -> Iterator[tuple[str, Callable[[], None]]]:
    """A simple_switch_grpc, and what starts it again."""
    address = f"127.0.0.1:{free_port()}"
    command = ["simple_switch_grpc", "--no-p4", "--device-id", "1", "-L", "off", "--thrift-port", str(free_port())]
    command += ["--", "--grpc-server-addr", address]
    processes: list[subprocess.Popen[bytes]] = []

    def start() -> None:
        if processes:
            processes[-1].wait()
        processes.append(
            subprocess.Popen([*command, "--cpu-port", "510"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        )
        until(lambda: listens(address))

    try:
        start()
        yield address, start
    finally:
        processes[-1].kill()
        processes[-1].wait()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def listens(address: str) -> bool:
    host, port = address.split(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0
