# SPDX-License-Identifier: Apache-2.0
"""Topologies that containerlab and ibnetdiscover describe, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from detour import cli
from detour.base.errors import DetourError
from detour.control.graph_files import open_topology
from detour.topo.topology import Topology

LAB = """\
name: dc
topology:
  kinds:
    nokia_srlinux: {image: srlinux}
    linux: {image: alpine}
  nodes:
    leaf1: {kind: nokia_srlinux}
    leaf2: {kind: nokia_srlinux}
    spine1: {kind: nokia_srlinux}
    client1: {kind: linux}
    stub: {kind: linux, image: frrouting/frr}
    gpu: {kind: linux, group: server}
  links:
    - endpoints: ["client1:eth1", "leaf1:e1-1"]
    - endpoints: ["gpu:eth2", "leaf2:e1-1"]
    - endpoints: ["leaf1:e1-49", "spine1:e1-1"]
    - type: veth
      endpoints:
        - {node: leaf2, interface: e1-49}
        - {node: spine1, interface: e1-2}
    - endpoints: ["stub:eth1", "spine1:e1-3"]
    - endpoints: ["leaf1:e1-10", "host:veth7"]
    - {type: mgmt-net, endpoint: {node: leaf2, interface: e1-11}, host-interface: x}
"""

FABRIC = """\
#
# Topology file: generated on Thu Jan 15 14:53:53 2026
#
vendid=0x2c9
switchguid=0xe41d01(e41d01)
Switch\t36 "S-e41d01"\t\t# "MF0;leaf1:MQM8700/U1" enhanced port 0 lid 3 lmc 0
[1]\t"H-f45201"[1](f45211) \t\t# "node01 HCA-1" lid 5 4xHDR
[2]\t"H-f45202"[1](f45221) \t\t# "node02 HCA-1" lid 6 2xHDR
[21]\t"S-e41d03"[1]\t\t# "spine1" lid 4 4xHDR
[22]\t"S-e41d03"[2]\t\t# "spine1" lid 4 4xHDR
[41]\t"H-e41d09"[1](e41d09)\t\t# "Mellanox Technologies Aggregation Node" lid 9 4xHDR

Switch\t36 "S-e41d02"\t\t# "leaf2" enhanced port 0 lid 2 lmc 0
[1]\t"H-f45201"[2](f45212) \t\t# "node01 HCA-1" lid 7 4xHDR
[21]\t"S-e41d03"[3]\t\t# "spine1" lid 4 4xFDR10

Switch\t36 "S-e41d03"\t\t# "spine1" enhanced port 0 lid 4 lmc 0
[1]\t"S-e41d01"[21]\t\t# "MF0;leaf1:MQM8700/U1" lid 3 4xHDR
[2]\t"S-e41d01"[22]\t\t# "MF0;leaf1:MQM8700/U1" lid 3 4xHDR
[3]\t"S-e41d02"[21]\t\t# "leaf2" lid 2 4xFDR10

Ca\t2 "H-f45201"\t\t# "node01 HCA-1"
[1](f45211) \t"S-e41d01"[1]\t\t# lid 5 lmc 0 "MF0;leaf1:MQM8700/U1" lid 3 4xHDR
[2](f45212) \t"S-e41d02"[1]\t\t# lid 7 lmc 0 "leaf2" lid 2 4xHDR

Ca\t2 "H-f45202"\t\t# "node02 HCA-1"
[1](f45221) \t"S-e41d01"[2]\t\t# lid 6 lmc 0 "MF0;leaf1:MQM8700/U1" lid 3 2xHDR

Ca\t1 "H-e41d09"\t\t# "Mellanox Technologies Aggregation Node"
[1](e41d09) \t"S-e41d01"[41]\t\t# lid 9 lmc 0 "leaf1" lid 3 4xHDR
"""


def links(topology: Topology) -> dict[tuple[str, ...], float]:
    """Rates in Gb/s by the names of both ends."""
    far = {link.index: topology.hosts if link.kind == "host" else topology.switches for link in topology.links}
    return {
        tuple(sorted((topology.switches[link.a[0]].name, far[link.index][link.b[0]].name))): topology.rate_bps
        * link.speed / 1e9
        for link in topology.links
    }  # fmt: skip


def test_a_lab_of_containerlab(tmp_path):
    (tmp_path / "dc.clab.yml").write_text(LAB)
    topology = open_topology(f"{tmp_path}/dc.clab.yml")
    assert links(topology).keys() == {
        ("client1", "leaf1"), ("gpu", "leaf2"), ("leaf1", "spine1"), ("leaf2", "spine1"), ("spine1", "stub"),
    }  # fmt: skip
    assert {host.name for host in topology.hosts} == {"client1", "gpu"}
    assert topology.link("leaf1:e1-49") == topology.link("spine1-leaf1")


def test_its_names_are_those_of_the_configuration(tmp_path):
    (tmp_path / "dc.clab.yml").write_text(LAB)
    (tmp_path / "jobs.json").write_text('[{"collective": "ring-all-reduce", "hosts": "all"}]')
    command = ["place", f"{tmp_path}/jobs.json", "--topo", f"{tmp_path}/dc.clab.yml", "--seeds", "1"]
    assert cli.main([*command, "--format", "frr", "--out", f"{tmp_path}/out"]) == 0
    assert {"leaf1.conf", "spine1.conf", "client1.sh", "gpu.sh"} <= {file.name for file in (tmp_path / "out").iterdir()}
    conf = (tmp_path / "out" / "leaf1.conf").read_text()
    assert "hostname leaf1\n" in conf
    assert "interface e1-49\n" in conf
    assert "dev eth2" in (tmp_path / "out" / "gpu.sh").read_text()
    wired = yaml.safe_load((tmp_path / "out" / "fabric.clab.yml").read_text())["topology"]["links"]
    assert {"endpoints": ["leaf2:e1-49", "spine1:e1-2"]} in wired
    assert links(open_topology(f"{tmp_path}/out/fabric.clab.yml")) == links(open_topology(f"{tmp_path}/dc.clab.yml"))
    assert cli.main([*command, "--format", "json", "--out", f"{tmp_path}/out"]) == 0
    names = json.loads((tmp_path / "out" / "placement.json").read_text())["names"]
    assert sorted(names.values()) == ["client1", "gpu", "leaf1", "leaf2", "spine1", "stub"]


def test_names_that_shells_would_execute_are_not_taken(tmp_path):
    evil = LAB.replace("client1:eth1", "client1:$(reboot)").replace("leaf1", "'leaf1;reboot'").replace("\"'", '"')
    evil = evil.replace("reboot':e", "reboot:e")
    (tmp_path / "dc.clab.yml").write_text(evil)
    (tmp_path / "jobs.json").write_text('[{"collective": "ring-all-reduce", "hosts": "all"}]')
    command = ["place", f"{tmp_path}/jobs.json", "--topo", f"{tmp_path}/dc.clab.yml", "--seeds", "1"]
    assert cli.main([*command, "--format", "frr", "--out", f"{tmp_path}/out"]) == 0
    assert not [file for file in (tmp_path / "out").iterdir() if "reboot" in file.name + file.read_text()]


@pytest.mark.parametrize("name", ["net.ibnetdiscover", "net.out"])
def test_what_ibnetdiscover_prints(tmp_path, name):
    (tmp_path / name).write_text(FABRIC)
    topology = open_topology(f"{tmp_path}/{name}")
    assert links(topology) == {
        ("MF0;leaf1:MQM8700/U1", "node01 HCA-1/1"): 200, ("MF0;leaf1:MQM8700/U1", "node02 HCA-1"): 100,
        ("leaf2", "node01 HCA-1/2"): 200, ("MF0;leaf1:MQM8700/U1", "spine1"): 200, ("leaf2", "spine1"): 40,
    }  # fmt: skip
    assert topology.link("MF0;leaf1:MQM8700/U1-spine1#2").speed == topology.link("MF0;leaf1:MQM8700/U1-spine1").speed


BAD = [
    ("x.clab.yml", "topology: {nodes: {a: 3}}", r"nodes.a: it is a mapping, not 3"),
    ("x.clab.yml", "nodes: []", "it is not a containerlab file: that has topology: with nodes: and links:"),
    ("x.clab.yml", "a: [", "line 1: expected"),
    ("x.clab.yml", "a: 1\na: 2", "line 1: `a` appears twice"),
    ("x.clab.yml", "topology: {nodes: {a: {}, b: }, links: 7}", "links is a list, not 7"),
    ("x.clab.yml", "topology: {nodes: {a: {}, b: }}", "it has no links"),
    ("x.clab.yml", LAB.replace('"leaf1:e1-1"', "7"), r"links\[0\]: a link is like endpoints:"),
    ("x.clab.yml", LAB.replace('"leaf1:e1-1"', '"leaf1"'), r"links\[0\]: a link is like endpoints:"),
    ("x.clab.yml", LAB.replace("leaf1:e1-1", "leaf9:e1-1"), r"links\[0\]: the link client1-leaf9 leads to leaf9"),
    ("x.clab.yml", LAB.replace('"leaf1:e1-1"]', '"leaf1:e1-1"]\n      impairments: {delay: 5}'),
     r"links\[0\]: impairments: '5' is not a time"),
    ("x.ibnet", "", "it has no Switch"),
    ("x.ibnet", 'Switch 36 "S-1" # "a" x', "it has no cables"),
    ("x.ibnet", '[1] "S-1"[2]', "line 1: a cable before the first Switch or Ca"),
    ("x.ibnet", 'Switch 36 "S-1"\n[1] "S-2"[1]', "line 2: the cable leads to S-2, which is neither a Switch nor a Ca"),
    ("x.ibnet", 'Switch 36 "S-1" # "a" x\n[1] S-2', r'line 2: a cable is like \[1\] "S-0002c9"\[13\]'),
    ("x.ibnet", 'Switch 36 "S-1"\nSwitch 36 "S-1"', r"line 2: S-1 is already defined \(line 1\)"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "reason"), BAD)
def test_bad_files_are_one_line_and_exit_code_2(tmp_path: Path, name, content, reason, capsys):
    (tmp_path / name).write_text(content)
    (tmp_path / "jobs.json").write_text("[]")
    with pytest.raises(DetourError, match=reason):
        open_topology(f"{tmp_path}/{name}")
    assert cli.main(["place", f"{tmp_path}/jobs.json", "--topo", f"{tmp_path}/{name}"]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"detour: {tmp_path}/{name}")
    assert error.count("\n") == 1
