# SPDX-License-Identifier: Apache-2.0
"""`bit<0>`: fields that are 0, whatever is written to them, and no part of packets."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from detour.base.errors import DetourError
from detour.engine.compiler.program import Program
from tests.packet_runner import PacketRunner
from tests.unit.trace.logged import COMPILED

NOTHING: dict[str, Any] = {"type": "field", "value": ["h", "nothing"]}


def with_nothing(name: str) -> Any:
    """A program of the corpus, with a field of 0 bits in front of each field of `h`."""
    found = json.loads((COMPILED / f"{name}.json").read_text())
    kind = next(h["header_type"] for h in found["headers"] if h["name"] == "h")
    fields = next(k for k in found["header_types"] if k["name"] == kind)["fields"]
    fields[:] = [each for f in fields for each in (["nothing", 0, False], f)][1:]
    fields.insert(0, ["nothing", 0, False])
    fields[2] = ["nothing_else", 0, False]
    return found


def test_it_is_read_as_0_and_takes_no_place() -> None:
    changed = with_nothing("drop_rules")
    sums = 0
    for action in changed["actions"]:
        for primitive in list(action["primitives"]):
            if primitive["op"] == "assign" and primitive["parameters"][0]["value"][0] == "h":
                plus = {"op": "+", "left": copy.deepcopy(primitive["parameters"][1]), "right": NOTHING}
                primitive["parameters"][1] = {"type": "expression", "value": {"type": "expression", "value": plus}}
                sums += 1
        action["primitives"].insert(0, {"op": "assign", "parameters": [NOTHING, {"type": "hexstr", "value": "0x1"}]})
    assert sums
    for state in changed["parsers"][0]["parse_states"]:
        if state["parser_ops"]:
            one = {"type": "hexstr", "value": "0x01"}
            state["parser_ops"].append({"op": "set", "parameters": [NOTHING, one]})
    usual, found = (PacketRunner(Program.from_json(each)) for each in (COMPILED / "drop_rules.json", changed))
    for op in range(10):
        packet = bytes([op, 7, 1, 2, 3])
        assert found.run(packet, port=2).data == usual.run(packet, port=2).data


def test_a_key_without_bits_is_refused() -> None:
    changed = with_nothing("table_exact")
    key = next(t["key"] for p in changed["pipelines"] for t in p["tables"] if t["key"])
    key[0]["target"] = NOTHING["value"]
    with pytest.raises(DetourError, match=r"table key 'h.nothing' has 0 bits"):
        Program.from_json(changed)
