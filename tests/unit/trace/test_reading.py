# SPDX-License-Identifier: Apache-2.0
"""`detour trace --read`, `detour web --trace`: files of 4ward's and BMv2's messages, and of our own."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from detour import cli
from detour.base.errors import DetourError
from detour.cli.web.traces import TraceAnswers
from detour.fabric.tracing.reading import read_trace
from tests.unit.trace.logged import COMPILED

_FOURWARD = r"""
events { packet_ingress { dataplane_ingress_port: 3 p4rt_ingress_port: "Ethernet0" } }
events { pipeline_stage { stage_name: "parser" stage_kind: PARSER direction: ENTER } }
events {
  parser_transition { from_state: "start" to_state: "ipv4" select_value: "0x0800" select_expression: "x" }
  source_info { file: "a.p4" line: 7 column: 3 source_fragment: "start" }
}
events { pipeline_stage { stage_name: "parser" stage_kind: PARSER direction: EXIT } }
events { pipeline_stage { stage_name: "ingress" stage_kind: CONTROL direction: ENTER } }
events { branch { control_name: "I" taken: false } }
events {
  table_lookup {
    table_name: "route" hit: true action_name: "forward"
    matched_entry {
      table_id: 7
      match { field_id: 1 lpm { value: "\n\000\000\000" prefix_len: 8 } }
      match { field_id: 2 ternary { value: "\001" mask: "\377" } }
      match { field_id: 3 range { low: "\001" high: "\t" } }
      action { action { action_id: 9 params { param_id: 1 value: "\002" } } }
    }
  }
}
events { action_execution { action_name: "forward" params { key: "port" value: "\001\000" } } }
events { table_lookup { table_name: "ecmp" hit: true matched_entry { action { action_profile_group_id: 4 } } } }
events { extern_call { extern_instance_name: "c" method: "count" } }
events { log_message { message: "here" } }
events { assertion { passed: true } }
events { clone { session_id: 5 } }
events { clone_session_lookup { session_id: 5 session_found: true dataplane_egress_port: 9 } }
events { of_a_later_version { anything: 1 } }
fork_outcome {
  reason: ACTION_SELECTOR
  branches { label: "member 0" subtree {
    events { mark_to_drop { reason: MARK_TO_DROP } }
    packet_outcome { drop { reason: MARK_TO_DROP } } } }
  branches { label: "member 1" subtree {
    events { deparser_emit { header_type: "ethernet_t" byte_length: 14 } }
    packet_outcome { output { dataplane_egress_port: 2 payload: "\000\377A" } } } }
}
"""
_BMV2 = """# comments are allowed
input { packet_id: 4 ingress_port: 1 }
root {
  events { pipeline_stage { stage_name: "parser" stage_kind: PARSER direction: ENTER } }
  events { pipeline_stage { stage_name: "parser" stage_kind: PARSER direction: EXIT } }
  events { pipeline_stage { stage_name: "ingress" stage_kind: CONTROL direction: ENTER } }
  events { pipeline_stage { stage_name: "ingress" stage_kind: CONTROL direction: EXIT } }
  transmit { egress_port: 6 packet_size: 60 }
}
"""


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    def written(text: str, name: str = "trace.txtpb") -> Path:
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return written


def test_a_file_of_4wards_as_text(write: Callable[[str], Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["trace", "--read", str(write(_FOURWARD)), "-v"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "switch, port 3",
        "    comes in by port 3",
        "  parser",
        "    start -> ipv4  (x = 0x0800)  a.p4:7 start",
        "  ingress",
        "    if: false",
        "    route: hit",
        "      entry: field 1=167772160/8, field 2=1&&&255, field 3=1..9 -> forward",
        "    forward(port=256)",
        "    ecmp: hit",
        "      entry:  -> group 4",
        "    count c()",
        '    log "here"',
        "    assertion(value=True)",
        "    clone(session=5)",
        "    clone(session=5, configured=True, port=9)",
        "  action selector: one of these",
        "    member 0",
        "        mark_to_drop",
        "      dropped: mark to drop",
        "    member 1",
        "        emit ethernet_t",
        "      out by port 2",
        "dropped at switch: mark to drop",
        "arrives at port 2 of switch, 3 bytes",
    ]


def test_a_file_of_bmv2s(write: Callable[[str], Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["trace", "--read", str(write(_BMV2))]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "switch, port 1",
        "    comes in by port 1",
        "  parser",
        "  ingress",
        "  out by port 6",
        "arrives at port 6 of switch, 60 bytes",
    ]


def _kinds(trace: dict[str, Any]) -> Iterator[str]:
    """Of the events that the messages have fields for."""
    quiet = ("stage", "multicast")  # the traffic manager is not a stage of theirs
    yield from (event["kind"] for event in trace["events"] if event["kind"] not in quiet)
    for branch in trace.get("fork", {}).get("branches", ()):
        yield from _kinds(branch["trace"])


@pytest.mark.parametrize("name", ["clone_ingress", "assert_assume", "action_profile", "multicast", "drop_rules"])
def test_what_is_written_is_read_again(
    name: str, write: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    files = f"{COMPILED / name}.p4info.txtpb,{COMPILED / name}.json"
    arguments = ["trace", "--program", files, "--packet", "01" * 64, "--port", "2", "--all"]
    assert cli.main([*arguments, "--format", "json"]) == 0
    own = write(document := capsys.readouterr().out, "own.json")
    [before] = json.loads(document)["hops"]
    assert cli.main([*arguments, "--format", "4ward", "-v"]) == 0
    [hop] = read_trace(write(capsys.readouterr().out))["hops"]
    assert list(_kinds(hop["trace"])) == list(_kinds(before["trace"]))
    assert {name: hop[name] for name in ("switch", "port", "at_ns")} == {"switch": "switch", "port": 2, "at_ns": 0}
    assert _ends(hop["trace"]) == _ends(before["trace"])
    queues = [[e for e in _events(trace) if e["kind"] == "queue"] for trace in (hop["trace"], before["trace"])]
    assert queues[0] == queues[1]

    for which in ("4ward", "bmv2"):  # without extensions: nothing of ours, and through a file of ours it is the same
        assert cli.main([*arguments, "--format", which]) == 0
        plain = capsys.readouterr().out
        assert "detour." not in plain
        assert cli.main(["trace", "--read", str(own), "--format", which]) == 0
        assert capsys.readouterr().out == plain


def _events(trace: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from trace["events"]
    for branch in trace.get("fork", {}).get("branches", ()):
        yield from _events(branch["trace"])


def _ends(trace: dict[str, Any]) -> list[Any]:
    """Outcomes, without places in the source, which 4ward's lack."""
    if "fork" not in trace:
        outcome = trace["outcome"]
        return [outcome.get("output", outcome.get("dropped", {}).get("reason"))]
    fork = trace["fork"]
    shares = [fork["reason"], fork["all"], *((b["label"], b["fraction"]) for b in fork["branches"])]
    return [shares, [_ends(branch["trace"]) for branch in fork["branches"]]]


def test_a_path_of_several_switches(write: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["trace", "h0", "h5", "--topo", "dragonfly:p=1,a=2,h=2"]
    assert cli.main([*arguments, "--format", "4ward", "-v"]) == 0
    document = read_trace(write(capsys.readouterr().out))
    assert cli.main([*arguments, "--json"]) == 0
    before = json.loads(capsys.readouterr().out)
    ports = [[(hop["switch"], hop["port"], hop["at_ns"]) for hop in each["hops"]] for each in (document, before)]
    assert ports[0] == ports[1]
    assert len(ports[0]) > 1
    assert [len(each["packets"]) for each in document["outcomes"]] == [1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it begins with none of events"),
        ("nonsense: 1", "it begins with none of events"),
        ('{"hops": 1}', "'outcomes'"),
        ("{", "Expecting property name"),
        ("events {", "line 1"),
        ("events { }\n\nevents { branch { taken: maybe } }", "line 3"),
        ("fork_outcome { }", "no event"),
    ],
)
def test_what_is_no_trace_is_refused(text: str, message: str, write: Callable[..., Path]) -> None:
    with pytest.raises(DetourError, match="no trace of detour, 4ward or BMv2") as raised:
        read_trace(write(text))
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_deep_nesting_is_refused(write: Callable[..., Path]) -> None:
    deep = 'fork_outcome { branches { label: "" subtree { events { } ' * 2000 + "} } }" * 2000
    with pytest.raises(DetourError, match="no trace"):
        read_trace(write("events { } " + deep))


@pytest.mark.parametrize("more", [["--topo", "d1"], ["h0", "h1"], ["--run", "x"], ["--flow", "0"], ["--all"]])
def test_nothing_else_goes_with_a_file(more: list[str], refused: Callable[..., str]) -> None:
    assert "--read" in refused("trace", "--read", "x", *more)


def test_the_page_of_files(write: Callable[..., Path]) -> None:
    files = [write(_FOURWARD, "a"), write(_BMV2, "b")]
    answers = TraceAnswers(files)
    state = answers.questions["state"]({})
    assert (state["kind"], state["writable"]) == ("program", False)
    assert answers.questions["packets"]({}) == [{"id": 2, "about": str(files[1])}, {"id": 1, "about": str(files[0])}]
    packet = answers.questions["packet"]({"id": "1"})
    assert packet["hops"] == read_trace(files[0])["hops"]
    pipeline = answers.questions["pipeline"]({})
    nodes = {part["name"]: {node["id"]: node["kind"] for node in part["nodes"]} for part in pipeline["parts"]}
    assert nodes["parser"] == {"parser/begin": "end", "parser/start": "state"}
    tables = {"ingress/route": "table", "ingress/ecmp": "table"}
    assert nodes["ingress"] == {"ingress/begin": "end", "ingress/I": "condition", **tables}
    assert pipeline["deparser"] == ["ethernet_t"]
    edges = [(edge["from"], edge["to"]) for part in pipeline["parts"] for edge in part["edges"]]
    assert ("ingress/I", "ingress/route") in edges
    with pytest.raises(DetourError, match="it shows files"):
        answers.do("restart", {})
