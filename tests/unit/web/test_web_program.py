# SPDX-License-Identifier: Apache-2.0
"""`detour web --program`: packets through a program, nothing booted."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from detour.base.errors import DetourError
from detour.base.places import P4SRC
from detour.cli.web.program import ProgramAnswers
from detour.control.p4runtime.pipeline import PipelineConfig

IPV4 = "ffffffffffff0200000000000800" + "45000014000000004011" + "0000" + "0a000001" + "0a000002"


@pytest.fixture
def answers() -> Iterator[ProgramAnswers]:
    made = ProgramAnswers(PipelineConfig.of("ipv4"), None, True)
    yield made
    made.close()


def test_a_frame_is_traced_and_found_again(answers):
    traced = answers.do("trace_frame", {"frame": IPV4, "port": 3, "all_ways": False})
    assert traced["hops"][0]["port"] == 3
    assert traced["outcomes"][0]["dropped"]["reason"]
    assert answers.questions["packet"]({"id": str(traced["id"])}) == traced
    assert answers.questions["packets"]({}) == [{"id": traced["id"], "about": "34 bytes by port 3"}]
    assert answers.do("restart", {}) == {"entries": 0}
    again = answers.do("trace_frame", {"frame": IPV4, "port": 3})
    assert again["id"] == traced["id"] + 1
    assert again["outcomes"] == traced["outcomes"]


def test_the_page_knows_the_program(answers):
    state = answers.questions["state"]({})
    assert (state["kind"], state["writable"], state["status"]["entries"]) == ("program", True, 0)
    assert {part["name"] for part in answers.questions["pipeline"]({})["parts"]} == {"parser", "ingress", "egress"}


@pytest.mark.parametrize(
    ("operation", "arguments", "message"),
    [
        ("fail", {"name": "s0"}, "may not call"),
        ("trace", {}, "may not call"),
        ("trace_frame", {}, "frame is hex"),
        ("trace_frame", {"frame": IPV4, "port": "1"}, "port is a number"),
        ("trace_frame", {"frame": IPV4, "port": True}, "port is a number"),
        ("trace_frame", {"frame": "abc", "port": 1}, "two for each byte"),
        ("trace_frame", {"frame": "zz", "port": 1}, "not a digit of hex"),
        ("trace_frame", {"frame": "", "port": 1}, "0 bytes"),
        ("trace_frame", {"frame": "/etc/passwd.pcap", "port": 1}, "hex"),
        ("trace_frame", {"frame": IPV4, "port": 4711}, "4711"),
    ],
)
def test_what_is_wrong_is_refused(answers, operation, arguments, message):
    with pytest.raises(DetourError, match=message):
        answers.do(operation, arguments)


def test_entries_that_do_not_fit_are_refused(tmp_path):
    wrong = tmp_path / "entries.txt"
    wrong.write_text("updates { type: INSERT entity { table_entry { table_id: 4711 } } }")
    with pytest.raises(DetourError, match=r"entries\.txt: update 1"):
        ProgramAnswers(PipelineConfig.of("ipv4"), wrong, True)


def test_packets_of_tests_are_there_with_the_coverage_so_far(tmp_path):
    (tmp_path / "test0001.stf").write_text(f"packet 1 {IPV4}\nno_packet\n")
    (tmp_path / "test0002.stf").write_text(f"packet 1 {'00' * 20}\nno_packet\npacket 3 {IPV4}\n")
    made = ProgramAnswers(PipelineConfig.of("ipv4"), None, True, tests=tmp_path)
    listed = [each["about"] for each in made.questions["packets"]({})]
    assert [each.split(";")[0] for each in listed] == ["test0001, packet 1", "test0002, packet 1", "test0002, packet 2"]
    grown = [sum(int(part.split()[0]) for part in each.split("; ")[1].split(", ")) for each in listed]
    assert 0 < grown[0] < grown[1] == grown[2]
    last = made.questions["packets"]({})[-1]["id"]
    assert made.questions["packet"]({"id": str(last)})["hops"][0]["port"] == 3
    made.close()


@pytest.mark.parametrize(("folder", "message"), [("", "no files of STF"), ("missing", "no files of STF")])
def test_a_folder_without_tests_is_refused(tmp_path, folder, message):
    with pytest.raises(DetourError, match=message):
        ProgramAnswers(PipelineConfig.of("ipv4"), None, True, tests=tmp_path / folder)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return Path(shutil.copyfile(P4SRC / "ipv4.p4", tmp_path / "ipv4.p4"))


@pytest.fixture
def edited(source) -> Iterator[ProgramAnswers]:
    made = ProgramAnswers(PipelineConfig.given(str(source)), None, True, source)
    yield made
    made.close()


def test_a_packet_goes_through_the_changed_program(edited, source):
    texts = edited.questions["source"]({})["texts"]
    assert texts == {str(source): source.read_text()}
    before = edited.do("trace_frame", {"frame": IPV4, "port": 3})
    text = texts[str(source)].replace("apply {", "apply { exit;", 3)
    answer = edited.do("run", {"texts": {str(source): text}})
    assert answer["errors"] == []
    after = edited.questions["packet"]({"id": str(answer["packet"])})
    assert after["hops"] != before["hops"]
    assert edited.questions["pipeline"]({})["sources"][str(source)]["text"] == text
    assert text != source.read_text()
    assert edited.do("save", {}) == {"saved": [str(source)]}
    assert text == source.read_text()


def test_errors_stand_at_their_lines_and_the_program_goes_on(edited, source):
    text = "\n\nbit<8> x;\n"
    for operation in ("check", "run"):
        (error,) = edited.do(operation, {"texts": {str(source): text}})["errors"]
        assert (error["file"], error["line"]) == (str(source), 3)
    assert edited.do("trace_frame", {"frame": IPV4, "port": 3})["hops"]
    for texts in ({"/etc/passwd": ""}, {str(source): 1}, None):
        with pytest.raises(DetourError):
            edited.do("check", {"texts": texts})
