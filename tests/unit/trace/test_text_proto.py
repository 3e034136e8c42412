# SPDX-License-Identifier: Apache-2.0
"""`detour trace --format`: the text of 4ward's and of BMv2's messages, and charts."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from detour import cli
from detour.fabric.tracing.mermaid import mermaid
from detour.fabric.tracing.text_proto import text_protos
from tests.unit.trace.logged import COMPILED

_SOURCE = {"file": 'a"b.p4', "line": 7, "column": 3, "text": "x"}


def _stage(name: str) -> dict[str, Any]:
    return {"kind": "stage", "stage": name, "source": None}


def _hop() -> dict[str, Any]:
    looked = {"kind": "table_lookup", "table": "t", "hit": False, "key": [], "entry": None, "source": _SOURCE}
    acts = {"kind": "action", "action": "a", "table": "t", "parameters": {"p": 0x1FF}, "source": None}
    out = {"events": [_stage("egress")], "outcome": {"output": {"port": 2, "hex": "00ff41"}}}
    lost = {"events": [], "outcome": {"dropped": {"reason": "dropped in ingress", "source": None}}}
    branches = [{"label": "original", "fraction": 1, "trace": lost}, {"label": "c", "fraction": 1, "trace": out}]
    fork = {"reason": "clone in ingress", "all": True, "branches": branches}
    return {"switch": "s", "port": 1, "trace": {"events": [_stage("ingress"), looked, acts], "fork": fork}}


def test_4wards_tree() -> None:
    [text] = text_protos(_hop(), "4ward")
    joined = " ".join(text.split())
    stage = 'events { pipeline_stage { stage_name: "ingress" stage_kind: CONTROL direction: '
    assert joined.startswith(stage + "ENTER } }")
    source = 'source_info { file: "a\\"b.p4" line: 7 column: 3 source_fragment: "x" }'
    assert f'table_lookup {{ table_name: "t" hit: false action_name: "a" }} {source}' in joined
    assert 'action_execution { action_name: "a" params { key: "p" value: "\\001\\377" } }' in joined
    assert (
        'fork_outcome { reason: CLONE branches { label: "original" subtree { packet_outcome { drop { reason: ' in joined
    )
    assert 'output { dataplane_egress_port: 2 payload: "\\000\\377A" }' in joined
    assert joined.count("ENTER") == joined.count("EXIT") == 2


def test_bmv2s_copies() -> None:
    lost, sent = (" ".join(text.split()) for text in text_protos(_hop(), "bmv2"))
    assert lost.startswith("input { packet_id: 0 ingress_port: 1 } root { events { pipeline_stage")
    assert lost.endswith("drop { } }")
    assert sent.endswith("transmit { egress_port: 2 packet_size: 3 } }")
    assert sent.count("ENTER") == sent.count("EXIT") == 2
    assert "table" not in sent


def test_a_chart_has_boxes_forks_and_ends() -> None:
    sent_on = {"switch": 's"<2', "port": 3, "trace": {"events": [], "outcome": {"output": {"port": 1, "hex": ""}}}}
    assert mermaid([_hop(), sent_on]).splitlines() == [
        "flowchart TD",
        '  subgraph hop0["s, port 1"]',
        '    n0["ingress<br>t: miss<br>a(p=511)"]',
        '    n1{"clone in ingress: all of these"}',
        "    n0 --> n1",
        '    n2(["dropped in ingress"])',
        '    n1 -->|"original"| n2',
        '    n3["egress"]',
        '    n1 -->|"c"| n3',
        '    n4(["out by port 2"])',
        "    n3 --> n4",
        "  end",
        '  subgraph hop1["s#quot;#lt;2, port 3"]',
        '    n5(["out by port 1"])',
        "  end",
        "  n4 --> hop1",
    ]


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("clone_ingress", "clone, session"),
        ("assert_assume", "an assertion holds"),
        ("parser_no_match", "to accept"),
        ("parser_verify", "<br>Odd"),
        ("counter_direct", "waits 0 ticks"),
    ],
)
def test_charts_of_programs(name: str, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    files = f"{COMPILED / name}.p4info.txtpb,{COMPILED / name}.json"
    arguments = ["trace", "--program", files, "--packet", "01" * 64]
    assert cli.main([*arguments, "--format", "mermaid"]) == 0
    assert line in capsys.readouterr().out
    assert cli.main([*arguments, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["hops"]


@pytest.mark.parametrize("which", ["4ward", "bmv2"])
def test_the_command_prints_it(which: str, capsys: pytest.CaptureFixture[str], refused: Callable[..., str]) -> None:
    files = f"{COMPILED / 'counter_direct'}.p4info.txtpb,{COMPILED / 'counter_direct'}.json"
    arguments = ["trace", "--program", files, "--packet", "010203", "--format", which]
    assert cli.main(arguments) == 0
    text = capsys.readouterr().out
    assert text.startswith("# switch, port 1\n")
    assert text.count("{") == text.count("}") > 10
    assert 'stage_name: "deparser"' in text
    assert "--format shows one packet" in refused(*arguments, "--json")
