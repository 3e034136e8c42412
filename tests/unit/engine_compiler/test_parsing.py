# SPDX-License-Identifier: Apache-2.0
"""Parser: stacks, unions, variable lengths, lookahead, errors, value sets."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from detour.base.errors import DetourError
from detour.engine.compiler.program import Program
from tests.packet_runner import PacketRunner
from tests.unit.trace.logged import COMPILED

from .bitstring import Spec, join, split
from .conftest import MiniSwitch, program

SUMMARY: Spec = [("error", 32), ("labels", 32), ("ahead", 16), ("hit", 8), ("union", 8)]
LABEL: Spec = [("label", 20), ("tc", 3), ("bottom", 1), ("ttl", 8)]
NO_ERROR, TOO_SHORT, STACK_FULL, HEADER_TOO_SHORT, INVALID_ARGUMENT, TIMEOUT, ODD = range(7)


def send(data: bytes) -> tuple[dict[str, int], bytes]:
    """What the program says of a packet, and the packet as it left."""
    ((_, out),) = MiniSwitch(program("parsing")).send(0, data)
    return split(SUMMARY, out), out[12:]


def labels(*bottoms: int) -> bytes:
    return b"\x01" + b"".join(join(LABEL, {"label": 100 + i, "bottom": b}) for i, b in enumerate(bottoms))


def test_a_stack_is_filled_up_to_the_last_label() -> None:
    data = labels(0, 0, 1) + b"rest"
    summary, out = send(data)
    assert (summary["error"], summary["labels"], out) == (NO_ERROR, 2, data)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (labels(0, 0, 0, 1) + b"rest", STACK_FULL),
        *((labels(0, 0, 1)[:-cut], TOO_SHORT) for cut in range(1, 13)),
        (b"\x02\x5d" + bytes(40), HEADER_TOO_SHORT),
    ],
    ids=["one label more than the stack takes", *(f"cut {n}" for n in range(1, 13)), "variable length too long"],
)
def test_where_parsing_ends(data: bytes, error: int) -> None:
    summary, out = send(data)
    assert (summary["error"], out) == (error, data)


@pytest.mark.parametrize("words", range(13))
def test_variable_length_in_the_middle_of_a_header(words: int) -> None:
    data = b"\x02" + bytes([0x50 | words]) + bytes(range(1, words + 1)) + b"\x77" + b"behind"
    summary, out = send(data)
    assert (summary["error"], out) == (NO_ERROR, data)


@pytest.mark.parametrize("count", range(9))
def test_variable_length_that_begins_inside_a_byte(count: int) -> None:
    data = b"\x03" + bytes([count << 4 | 0xA]) + bytes(0x31 + i for i in range(count)) + b"\xbc" + b"behind"
    summary, out = send(data)
    assert (summary["error"], out) == (NO_ERROR, data)
    summary, out = send(data[: 2 + count])
    assert (summary["error"], out) == (TOO_SHORT, data[: 2 + count])


def test_stack_of_unions() -> None:
    data = b"\x04\x0a\x11\x0b\x22\x33end"
    summary, out = send(data)
    assert (summary["error"], out) == (NO_ERROR, b"\x04\x11\x22\x33end")
    data = b"\x04\x0a\x11\x0a\x22\x0b\x33\x44"
    summary, out = send(data)
    assert (summary["error"], out) == (STACK_FULL, b"\x04\x11\x22\x33\x44")


def test_members_of_a_union() -> None:
    assert send(b"\x09\x0a\x01")[0]["union"] == 1
    assert send(b"\x09\x0c\x01")[0]["union"] == 2
    assert send(b"\x09\x0c")[0] == {"error": TOO_SHORT, "labels": 0, "ahead": 0, "hit": 0, "union": 0}


def test_lookahead() -> None:
    summary, out = send(b"\x05\x12\x34\x56")
    assert (summary["ahead"], out) == (0x1234, b"\x05\x12\x34\x56")
    assert send(b"\x05\x12")[0]["error"] == TOO_SHORT


def test_advance() -> None:
    assert send(b"\x06\x10abc") == ({"error": 0, "labels": 0, "ahead": 0, "hit": 0, "union": 0}, b"\x06bc")
    assert send(b"\x06\x11abc")[0]["error"] == INVALID_ARGUMENT
    assert send(b"\x06\x28abc")[0]["error"] == TOO_SHORT


def test_verify() -> None:
    assert send(b"\x07\x02\x00x")[0]["error"] == NO_ERROR
    assert send(b"\x07\x03\x00x")[0]["error"] == ODD


def test_a_state_that_takes_no_bytes_does_not_run_for_ever() -> None:
    assert send(b"\x08")[0]["error"] == TIMEOUT


def test_masks_and_value_sets() -> None:
    assert send(b"\x47")[0]["hit"] == 2
    switch = MiniSwitch(program("parsing"))
    assert split(SUMMARY, switch.send(0, b"\x99")[0][1])["hit"] == 0
    members = switch.state.value_sets["TheParser.special"]
    members.replace([0x98, 0x99])
    assert split(SUMMARY, switch.send(0, b"\x99")[0][1])["hit"] == 1
    assert split(SUMMARY, switch.send(0, b"\x97")[0][1])["hit"] == 0
    members.replace([])
    assert split(SUMMARY, switch.send(0, b"\x99")[0][1])["hit"] == 0


def test_an_empty_packet() -> None:
    assert send(b"") == ({"error": TOO_SHORT, "labels": 0, "ahead": 0, "hit": 0, "union": 0}, b"")


# -- bit<0> --------------------------------------------------------------------------------------------------


NOTHING: dict[str, Any] = {"type": "field", "value": ["h", "nothing"]}


def with_nothing(name: str) -> Any:
    """A program of the corpus, with a field of 0 bits in front of each field of `h`."""
    document = json.loads((COMPILED / f"{name}.json").read_text())
    kind = next(h["header_type"] for h in document["headers"] if h["name"] == "h")
    fields = next(k for k in document["header_types"] if k["name"] == kind)["fields"]
    fields[:] = [each for f in fields for each in (["nothing", 0, False], f)][1:]
    fields.insert(0, ["nothing", 0, False])
    fields[2] = ["nothing_else", 0, False]
    return document


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
    usual, wrapped = (PacketRunner(Program.from_json(each)) for each in (COMPILED / "drop_rules.json", changed))
    for op in range(10):
        packet = bytes([op, 7, 1, 2, 3])
        assert wrapped.run(packet, port=2).data == usual.run(packet, port=2).data


def test_a_key_without_bits_is_refused() -> None:
    changed = with_nothing("table_exact")
    key = next(t["key"] for p in changed["pipelines"] for t in p["tables"] if t["key"])
    key[0]["target"] = NOTHING["value"]
    with pytest.raises(DetourError, match=r"table key 'h.nothing' has 0 bits"):
        Program.from_json(changed)


# -- stacks and unions in controls ---------------------------------------------------------------------------


def stacked(op: int, index: int = 0, value: int = 0, items: bytes = b"") -> tuple[int, bytes, list[int]]:
    """(result, what follows the operation header, errors)."""
    switch = MiniSwitch(program("stacks"))
    ((_, out),) = switch.send(0, bytes([op, index, value, 0]) + items + b"\0")
    assert out[-1] == 0
    return out[3], out[4:-1], switch.errors


def items(*ids: int) -> bytes:
    return b"".join(bytes([i, i, i, i]) for i in ids)


@pytest.mark.parametrize("index", [4, 5, 127, 255])
def test_index_out_of_bounds(index: int) -> None:
    """simple_switch aborts; here it is an error, reads give 0 and writes go nowhere."""
    assert stacked(5, index, 0, items(11, 12, 13, 14)) == (0, items(11, 12, 13, 14), [3])
    assert stacked(6, index, 99, items(11, 12, 13, 14)) == (0, items(11, 12, 13, 14), [3])


def test_comparison() -> None:
    assert stacked(9, 0, 0, items(5, 5))[0] == 1
    assert stacked(9, 0, 0, items(5, 6))[0] == 2
    assert stacked(9, 0, 0, items(5))[0] == 2
    assert stacked(9)[0] == 1


def test_a_header_made_valid_again_is_zero() -> None:
    assert stacked(11, 0, 0, items(7, 8)) == (0, b"\0\0\0\0" + items(8), [])
