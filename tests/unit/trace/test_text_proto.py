# SPDX-License-Identifier: Apache-2.0
"""`detour trace --format`: the text of 4ward's and of BMv2's messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from detour import cli
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


@pytest.mark.parametrize("which", ["4ward", "bmv2"])
def test_the_command_prints_it(which: str, capsys: pytest.CaptureFixture[str], refused: Callable[..., str]) -> None:
    files = f"{COMPILED / 'counter_direct'}.p4info.txtpb,{COMPILED / 'counter_direct'}.json"
    arguments = ["trace", "--program", files, "--packet", "010203", "--format", which]
    assert cli.main(arguments) == 0
    text = capsys.readouterr().out
    assert text.startswith("# switch, port 1\n")
    assert text.count("{") == text.count("}") > 10
    assert 'stage_name: "deparser"' in text
    assert "--format is of one packet" in refused(*arguments, "--json")
