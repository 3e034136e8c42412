# SPDX-License-Identifier: Apache-2.0
"""Files of entries of p4lang's tutorials: what becomes of each value, and what does not fit, by line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from finsy.proto import p4i, p4r
from google.protobuf import text_format

from detour.base.errors import DetourError
from detour.fabric.labs.entries import LabUpdate, read_entries

P4INFO = text_format.Parse(
    """
    tables { preamble { id: 1 name: "Ingress.lpm" alias: "lpm" }
      match_fields { id: 1 name: "ip" bitwidth: 32 match_type: LPM } action_refs { id: 11 } action_refs { id: 12 } }
    tables { preamble { id: 2 name: "Ingress.acl" alias: "acl" }
      match_fields { id: 1 name: "mac" bitwidth: 48 match_type: EXACT }
      match_fields { id: 2 name: "proto" bitwidth: 8 match_type: TERNARY }
      match_fields { id: 3 name: "port" bitwidth: 16 match_type: RANGE } action_refs { id: 12 } }
    actions { preamble { id: 11 name: "Ingress.forward" alias: "forward" }
      params { id: 1 name: "mac" bitwidth: 48 } params { id: 2 name: "port" bitwidth: 9 } }
    actions { preamble { id: 12 name: "Ingress.drop" alias: "drop" } }
    """,
    p4i.P4Info(),
)
FORWARD = {"action_name": "Ingress.forward", "action_params": {"mac": "08:00:00:00:01:11", "port": 1}}
DROP = {"action_name": "drop", "action_params": {}}
LPM = {"table": "Ingress.lpm", "match": {"ip": ["10.0.1.0", 24]}} | FORWARD
ACL = {"table": "acl", "match": {"mac": 1, "proto": [6, 255], "port": [1, 9]}, "priority": 5} | DROP


def read(tmp_path: Path, *entries: Any, **more: Any) -> list[LabUpdate]:
    file = tmp_path / "s1-runtime.json"
    file.write_text(json.dumps({"target": "bmv2", "table_entries": entries} | more, indent=1))
    return read_entries(file, P4INFO)


def entry(tmp_path: Path, source: dict[str, Any]) -> p4r.TableEntry:
    return read(tmp_path, source)[0].update.entity.table_entry


def test_an_entry_with_addresses(tmp_path: Path) -> None:
    read_entry = entry(tmp_path, LPM)
    assert (read_entry.table_id, read_entry.priority) == (1, 0)
    assert (read_entry.match[0].lpm.value, read_entry.match[0].lpm.prefix_len) == (b"\x0a\x00\x01\x00", 24)
    assert read_entry.action.action.action_id == 11
    assert {p.param_id: p.value for p in read_entry.action.action.params} == {
        1: bytes.fromhex("080000000111"),
        2: b"\x01",
    }


def test_ternary_and_range_by_alias(tmp_path: Path) -> None:
    read_entry = entry(tmp_path, ACL)
    fields = {m.field_id: m for m in read_entry.match}
    assert (read_entry.table_id, read_entry.priority) == (2, 5)
    assert fields[1].exact.value == b"\x01"
    assert (fields[2].ternary.value, fields[2].ternary.mask) == (b"\x06", b"\xff")
    assert (fields[3].range.low, fields[3].range.high) == (b"\x01", b"\x09")


def test_fields_that_match_anything_are_left_out(tmp_path: Path) -> None:
    read_entry = entry(tmp_path, ACL | {"match": {"mac": 1, "proto": [0, 0], "port": [0, 65535]}})
    assert [m.field_id for m in read_entry.match] == [1]
    assert not entry(tmp_path, LPM | {"match": {"ip": ["0.0.0.0", 0]}}).match


def test_the_default_action(tmp_path: Path) -> None:
    update = read(tmp_path, {"table": "Ingress.lpm", "default_action": True} | DROP)[0].update
    assert update.type == p4r.Update.MODIFY
    assert update.entity.table_entry.is_default_action


def test_negative_numbers_are_twos_complements(tmp_path: Path) -> None:
    read_entry = entry(tmp_path, ACL | {"match": {"mac": -1, "proto": [6, 255]}})
    assert next(m for m in read_entry.match if m.field_id == 1).exact.value == b"\xff" * 6


def test_groups_and_sessions(tmp_path: Path) -> None:
    replicas = [{"egress_port": 1, "instance": 1}, {"egress_port": 2, "instance": 3}]
    group, session = read(
        tmp_path,
        multicast_group_entries=[{"multicast_group_id": 7, "replicas": replicas}],
        clone_session_entries=[{"clone_session_id": 5, "replicas": replicas[:1], "packet_length_bytes": 128}],
    )
    written = group.update.entity.packet_replication_engine_entry.multicast_group_entry
    assert (written.multicast_group_id, [(r.egress_port, r.instance) for r in written.replicas]) == (
        7,
        [(1, 1), (2, 3)],
    )
    cloned = session.update.entity.packet_replication_engine_entry.clone_session_entry
    assert (cloned.session_id, cloned.packet_length_bytes, len(cloned.replicas)) == (5, 128, 1)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        (LPM | {"table": "routes"}, "there is no table 'routes'; there is Ingress.lpm, Ingress.acl"),
        (LPM | {"match": {"dst": 1}}, "there is no field of table Ingress.lpm 'dst'; there is ip"),
        (LPM | {"action_name": "jump"}, "there is no action 'jump'; there is Ingress.forward, Ingress.drop"),
        (ACL | FORWARD, "table Ingress.acl has no action 'Ingress.forward'; it has Ingress.drop"),
        (LPM | {"action_params": {"port": 1}}, "takes mac, port; given is port"),
        (LPM | {"action_params": {"mac": 1, "port": 512}}, r"port is 512, which does not fit 9 bits \(0 to 511\)"),
        (LPM | {"action_params": {"mac": "10.0.0.1", "port": 1}}, "'10.0.0.1', which has 32 bits; expected 48"),
        (LPM | {"action_params": {"mac": "here", "port": 1}}, "mac is 'here'; texts are MAC, IPv4 or IPv6 addresses"),
        (LPM | {"action_params": {"mac": True, "port": 1}}, "mac is True; expected a number"),
        (LPM | {"match": {"ip": "10.0.1.1"}}, r"ip is '10.0.1.1'; expected \[value, prefix length\]"),
        (LPM | {"match": {"ip": ["10.0.1.1", 33]}}, "ip has prefix length 33; expected 0 to 32"),
        (
            LPM | {"match": {"ip": ["10.0.9.9", 24]}},
            r"ip is \['10.0.9.9', 24\]: bits .* must be 0, so expected 0xa000900",
        ),
        (LPM | {"priority": 3}, "has no ternary, range or optional field, so no priority"),
        (ACL | {"priority": 0}, "needs a priority above 0"),
        (ACL | {"match": {"proto": [6, 255]}}, "matches mac exactly, so its value must be there"),
        (ACL | {"match": {"mac": 1, "port": [9, 1]}}, "the low end is above the high one"),
        (LPM | {"colour": "red"}, "an entry has no 'colour'; allowed: table, match"),
        ("drop all", "an object in braces"),
    ],
)
def test_what_does_not_fit(tmp_path: Path, fields: Any, text: str) -> None:
    with pytest.raises(DetourError, match=rf"s1-runtime.json, line \d+: .*{text}"):
        read(tmp_path, fields)


def test_the_line_is_that_of_the_entry(tmp_path: Path) -> None:
    first = read(tmp_path, LPM)[0].where
    assert first.endswith("line 4")
    with pytest.raises(DetourError, match="line 18: "):
        read(tmp_path, LPM, LPM | {"table": "x"})


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"target": "tofino"}, "target is 'tofino'; there is only bmv2"),
        ({"routes": []}, "a file of entries has no 'routes'"),
        ({"multicast_group_entries": [{"multicast_group_id": 0, "replicas": []}]}, "multicast_group_id is 0"),
        ({"multicast_group_entries": [{"multicast_group_id": 1}]}, "replicas is not a list like"),
        ({"clone_session_entries": [{"clone_session_id": 1, "replicas": [{"egress_port": 600}]}]}, "port is 600"),
    ],
)
def test_what_a_file_cannot_say(tmp_path: Path, more: dict[str, Any], text: str) -> None:
    with pytest.raises(DetourError, match=text):
        read(tmp_path, **more)
