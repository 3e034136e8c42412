# SPDX-License-Identifier: Apache-2.0
"""Topologies that InfraGraph describes, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from detour import cli
from detour.base.errors import DetourError
from detour.control.graph_files import open_topology
from detour.topo.topology import Topology

FILE = """\
name: two racks
devices:
- name: cx5
  components: [{name: port, choice: port, count: 2}, {name: asic, choice: cpu, count: 1}]
- name: server
  components:
  - {name: xpu, choice: xpu, count: 2}
  - {name: nic, choice: nic, count: 2}
  - {name: cx5, choice: device, count: 1}
- name: switch
  components: [{name: asic, choice: cpu, count: 1}, {name: port, choice: port, count: 16}]
instances:
- {name: host, device: server, count: 3}
- {name: leaf, device: switch, count: 2}
- {name: spine, device: switch, count: 1}
links:
- {name: fast, physical: {bandwidth: {choice: gigabits_per_second, gigabits_per_second: 400}}}
- name: slow
  physical: {bandwidth: {choice: gigabytes_per_second, gigabytes_per_second: 12.5}, latency: {choice: us, us: 0.3}}
edges:
- {ep1: {instance: "host[:2]", component: nic}, ep2: {instance: "leaf[0]", component: port}, link: fast}
- {ep1: {instance: "host[2]", component: "nic[0]"}, ep2: {instance: "leaf[1]", component: "port[0]"}, link: slow}
- ep1: {instance: "host[-1]", component: "cx5.port[1]"}
  ep2: {instance: "leaf[1]", component: "port[1]"}
  scheme: one2one
  link: fast
- {ep1: {instance: leaf, component: "port[8:10]"}, ep2: {instance: spine, component: "port[0:4]"}, link: fast}
"""
DOCUMENT: dict[str, Any] = yaml.safe_load(FILE)


def opened(folder: Path, document: Any, name: str = "net.yaml") -> Topology:
    file = folder / name
    file.write_text(json.dumps(document) if name.endswith("json") else yaml.safe_dump(document, sort_keys=False))
    return open_topology(str(file))


@pytest.mark.parametrize("name", ["net.yaml", "net.json", "net"])
def test_machines_are_hosts_by_their_nics(tmp_path, name):
    topology = opened(tmp_path, DOCUMENT, name)
    hosts = [f"host.{machine}.nic.{nic}" for machine in (0, 1) for nic in (0, 1)]
    assert [host.name for host in topology.hosts] == [*hosts, "host.2.nic.0", "host.2.cx5.0.port.1"]
    assert [switch.name for switch in topology.switches] == ["leaf.0", "leaf.1", "spine.0"]
    gbps = topology.rate_bps / 1e9
    terms = {link.name: (link.speed * gbps, link.delay_ps) for link in topology.links}
    assert terms["leaf.1-host.2.nic.0"] == (100, 300_000)
    assert terms["leaf.1-host.2.cx5.0.port.1"] == (400, None), "NICs of unlike rates"
    assert terms["leaf.0-spine.0#2"] == terms["leaf.1-spine.0"] == (400, None), "parallel links"


def test_a_second_cable_at_a_nic_is_another_host(tmp_path):
    more = {
        "ep1": {"instance": "host[0]", "component": "nic[0]"},
        "ep2": {"instance": "leaf[1]", "component": "port[5]"},
    }
    many = {
        "ep1": {"instance": "host[1]", "component": "xpu"},
        "ep2": {"instance": "leaf[1]", "component": "port[6:8]"},
    }
    edges = [*DOCUMENT["edges"], more | {"link": "none"}, more, many | {"scheme": "many2many"}]
    topology = opened(tmp_path, DOCUMENT | {"edges": edges})
    more_hosts = {host.name for host in topology.hosts} - {host.name for host in opened(tmp_path, DOCUMENT).hosts}
    xpus = {f"host.1.xpu.{number}{plug}" for number in (0, 1) for plug in ("", "+1")}
    assert more_hosts == {"host.0.nic.0+1", *xpus}, "the same cable twice is one"


def test_jobs_are_placed_on_it(tmp_path, capsys):
    opened(tmp_path, DOCUMENT)
    job = tmp_path / "job.yaml"
    job.write_text('jobs: [{collective: ring-all-reduce, hosts: ["host.0.nic.0", "host.2.nic.0"], bytes: 100000}]')
    options = ["--topo", str(tmp_path / "net.yaml"), "--run", "--scheme", "placed", "--json"]
    assert cli.main(["place", str(job), *options]) == 0
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    assert run["ended_by"] == "delivered"
    assert run["step_us"] >= 2 * 50_000 * 8 / 100_000, "at the rate of the slower NIC"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"edges": []}, "it has no edges between instances"),
        ({"devices": {}}, "instances.host: there is no device 'server'"),
        ({"instances": [{"device": "switch"}]}, r"instances\[0\]: it has no name"),
        ({"instances": [{"name": "host", "device": "server", "count": "two"}]}, "the count of host is 'two'"),
        ({"edges": [{"ep1": 3}]}, r"edges\[0\].ep1: an end is like"),
        ({"edges": [{"ep1": {"instance": "rack[0]", "component": "nic"}}]}, "there is no instance 'rack'"),
        ({"edges": [{"ep1": {"instance": "host", "component": "fan"}}]}, "device server has no component 'fan'"),
        ({"edges": [{"ep1": {"instance": "host[3]", "component": "nic"}}]}, r"'host\[3\]' is not a name with an index"),
        ({"edges": [DOCUMENT["edges"][1] | {"scheme": "ring"}]}, "the scheme is 'ring'"),
        (
            {"links": [{"name": "slow", "physical": {"bandwidth": {"gigatransfers_per_second": 32}}}]},
            "bandwidth of link slow is",
        ),
        ({"devices": [{"name": "server", "components": [{"name": "server", "choice": "device"}]}]}, "of itself"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(tmp_path, change, message):
    with pytest.raises(DetourError, match=message):
        opened(tmp_path, DOCUMENT | change)
