# SPDX-License-Identifier: Apache-2.0
"""BMv2 JSON as older compilers wrote it: `behavioral-model` has such files for its own tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from detour.engine.compiler.load import load
from detour.engine.compiler.model import Model
from detour.engine.compiler.program import Program
from detour.testgen.switch import TestSwitch, differences
from tests.unit.trace.logged import COMPILED

from .bitstring import split
from .conftest import PROGRAMS, MiniSwitch
from .test_parsing import SUMMARY

Json = Any
_DEFAULTS = ([], {}, None, False)


def _corpus(name: str) -> Json:
    return json.loads((COMPILED / f"{name}.json").read_text())


def _older(document: Json) -> Json:
    """Without what BMv2 does not need: types and masks of transitions, empty lists, flags, ids of a table's actions."""
    document = {key: value for key, value in document.items() if value not in _DEFAULTS and key != "__meta__"}
    for state in (state for parser in document["parsers"] for state in parser["parse_states"]):
        for key in ("parser_ops", "transition_key"):
            state |= {key: state.pop(key)} if state[key] else {}
        for transition in state["transitions"]:
            if transition.pop("type") == "default":
                transition["value"] = "default"
            if transition["mask"] is None:
                del transition["mask"]
    for part in (*document["headers"], *document.get("checksums", ())):
        for flag, default in (("metadata", False), ("verify", True), ("update", True)):
            if part.get(flag) == default:
                del part[flag]
    for table in (table for pipeline in document["pipelines"] for table in pipeline["tables"]):
        del table["action_ids"]
        if "action_profile" in table:
            (profile,) = (p for pipeline in document["pipelines"] for p in pipeline.get("action_profiles", ()))
            table |= {"act_prof_name": table.pop("action_profile"), "selector": profile["selector"]}
    for pipeline in document["pipelines"]:
        pipeline.pop("action_profiles", None)
    return document


@pytest.mark.parametrize("name", ["checksum_ipv4", "selector_crc16", "lookahead", "register_48", "egress_table"])
def test_an_older_form_is_the_same_program(name: str) -> None:
    present, older = load(_corpus(name)), load(_older(_corpus(name)))
    for kind in ("headers", "parsers", "deparsers", "checksums"):
        assert older.json[kind] == present.json[kind]

    def tables(model: Model) -> list[Any]:
        each = model.tables.values()
        return [(t.name, t.key, [a.name for a in t.actions], t.profile and t.profile.selector) for t in each]

    assert tables(older) == tables(present)


def test_without_a_group_there_is_none_to_take_back() -> None:
    source = _corpus("small_router")
    for kind in source["header_types"]:
        if kind["name"] == "standard_metadata":
            kind["fields"] = [f if f[0] != "mcast_grp" else ["other", 16, False] for f in kind["fields"]]
    assert Program(source).model.headers["standard_metadata"].type.bits


def test_the_checksum_of_the_type_ipv4() -> None:
    source = _corpus("checksum_ipv4")
    plain = MiniSwitch(Program(source))
    for checksum in source["checksums"]:
        checksum |= {"type": "ipv4", "if_cond": None}
        del checksum["calculation"]
    typed = MiniSwitch(Program(source))
    for total in (0x14, 0x1234, 0xFFFF):
        frame = b"\x45\0" + total.to_bytes(2, "big") + bytes.fromhex("0000000040110000c0a80001c0a80002")
        assert typed.send(1, frame) == plain.send(1, frame)


def test_a_value_set_is_compared_under_its_mask() -> None:
    source = json.loads((PROGRAMS / "parsing.json").read_text())
    transitions = [t for p in source["parsers"] for s in p["parse_states"] for t in s["transitions"]]
    (in_set,) = [t for t in transitions if t["type"] == "parse_vset"]
    in_set["mask"] = "0xf0"
    switch = MiniSwitch(Program(source))
    switch.state.value_sets[in_set["value"]].replace([0x97])
    hits = [split(SUMMARY, switch.send(0, bytes([first]))[0][1])["hit"] for first in (0x90, 0x9F, 0xA7)]
    assert hits == [1, 1, 0]


def test_fields_of_p4_14s_headers_are_those_of_standard_metadata() -> None:
    """As the first compilers to JSON wrote them. A field of standard_metadata that the switch does not know keeps what
    the program writes."""
    source = _corpus("clone_and_multicast")
    text = json.dumps(source)
    for field in ("mcast_grp", "egress_rid"):
        text = text.replace(f'"standard_metadata", "{field}"', f'"intrinsic_metadata", "{field}"')
    source = json.loads(text.replace('["scalars", "meta_t.mark"]', '["standard_metadata", "clone_spec"]'))
    for kind in source["header_types"]:
        if kind["name"] == "standard_metadata":
            kind["fields"] = [f for f in kind["fields"] if f[0] not in ("mcast_grp", "egress_rid")]
            kind["fields"].append(["clone_spec", 32, False])
    fields = [["mcast_grp", 4, False], ["egress_rid", 16, False], ["mcast_hash", 16, False]]
    source["header_types"].append({"name": "intrinsic_metadata_t", "id": 99, "fields": fields})
    header = {"name": "intrinsic_metadata", "id": 99, "header_type": "intrinsic_metadata_t", "metadata": True}
    source["headers"].append({**header, "pi_omit": True})
    source["field_aliases"] = []
    play = Path(__file__).resolve().parents[2] / "programs" / "stf" / "clone_and_multicast.stf"
    with TestSwitch(Program(source)) as switch:
        run = switch.play(play.read_text())
    assert len(run.packets) > 2
    assert not differences(run)


def test_keys_keep_the_names_of_p4_14() -> None:
    source = _corpus("table_exact")
    table = next(t for p in source["pipelines"] for t in p["tables"] if t["key"])
    table["key"][0] |= {"target": ["intrinsic_metadata", "mcast_grp"], "name": None}
    source["header_types"].append({"name": "intrinsic_metadata_t", "id": 99, "fields": [["mcast_grp", 16, False]]})
    source["headers"].append(
        {"name": "intrinsic_metadata", "id": 99, "header_type": "intrinsic_metadata_t", "metadata": True}
    )
    source["field_aliases"] = []
    field = load(source).tables[table["name"]].key[0]
    assert (field.name, field.header) == ("intrinsic_metadata.mcast_grp", "standard_metadata")
    # As p4c writes it of P4_16: another name of standard_metadata's field.
    source["field_aliases"] = [["intrinsic_metadata.mcast_grp", ["standard_metadata", "mcast_grp"]]]
    assert load(source).tables[table["name"]].key[0].header == "intrinsic_metadata"
