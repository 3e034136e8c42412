# SPDX-License-Identifier: Apache-2.0
"""The `topology.json` that p4-utils' controllers read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from forwarding_lab import IPS, MACS, write_app, write_tutorial

from detour.fabric.labs.controllers import ControllerTopology
from detour.fabric.labs.folder import LabFolder
from detour.fabric.labs.programs import contents_of, programs_of
from detour.fabric.labs.reading import read_lab


@pytest.fixture
def app(tmp_path: Path, without_p4c: None) -> Path:
    return write_app(tmp_path / "lab", (9090, 9091), (9559, 9560))


def topology(folder: Path) -> ControllerTopology:
    lab = read_lab(LabFolder.given(str(folder)))
    return ControllerTopology(lab, contents_of(lab, programs_of(lab)))


def test_it_is_there_while_the_lab_is_up(app: Path) -> None:
    said: list[str] = []
    file, written = app / "topology.json", topology(app)
    written.write(said.append)
    document = json.loads(file.read_text())
    nodes = {node["id"]: node for node in document["nodes"]}
    assert nodes["s1"]["json_path"] == str(app / "build" / "table_exact.json")
    assert nodes["s1"]["p4rt_path"] == str(app / "build" / "table_exact.p4info.txtpb")
    assert (nodes["s2"]["thrift_port"], nodes["s2"]["grpc_port"], nodes["s2"]["device_id"]) == (9091, 9560, 2)
    assert nodes["h1"]["ip"] == f"{IPS['h1']}/24"
    assert document["edges"] == document["links"]
    edge = next(each for each in document["edges"] if {each["node1"], each["node2"]} == {"h1", "s1"})
    assert (edge["addr1"], edge["port2"], edge["intfName2"]) == (MACS["h1"], 1, "s1-eth1")
    again = topology(app)  # the file makes no other lab of the folder, and one that was left is written anew
    again.write(said.append)
    again.remove()
    again.remove()
    assert not file.exists()
    assert said == []


def test_what_has_been_changed_stays(app: Path) -> None:
    written = topology(app)
    written.write(lambda text: None)
    (app / "topology.json").write_text("{}")
    written.remove()
    assert (app / "topology.json").read_text() == "{}"


def test_a_file_of_somebody_else_stays(app: Path) -> None:
    said: list[str] = []
    written = topology(app)
    (app / "topology.json").write_text('{"own": 1}')
    written.write(said.append)
    written.remove()
    assert (app / "topology.json").read_text() == '{"own": 1}'
    assert len(said) == 1
    assert "is another lab's, and stays" in said[0]


def test_labs_of_other_formats_have_none(tmp_path: Path) -> None:
    folder = write_tutorial(tmp_path / "lab")
    before = (folder / "topology.json").read_text()
    topology(folder).write(lambda text: pytest.fail(text))
    assert (folder / "topology.json").read_text() == before
