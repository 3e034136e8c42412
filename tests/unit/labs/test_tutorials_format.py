# SPDX-License-Identifier: Apache-2.0
"""p4lang's tutorials: what of a topology becomes which switch, host and link, and what is refused in which line."""

from __future__ import annotations

import json
from collections.abc import Callable
from ipaddress import ip_address, ip_interface
from pathlib import Path
from typing import Any

import pytest
from written_labs import MacOf, tutorial

from detour.base.errors import DetourError
from detour.fabric.labs.folder import LabFolder
from detour.fabric.labs.model import Lab, LabEnd
from detour.fabric.labs.reading import read_lab

ReadLab = Callable[..., Lab]


def test_switches_hosts_and_links(lab: ReadLab) -> None:
    parsed = lab(topology__json=tutorial())
    assert [(s.name, s.device_id, s.grpc_port, s.thrift_port) for s in parsed.switches] == [
        ("s1", 0, 50051, 9090),
        ("s2", 1, 50052, 9091),
    ]
    h1 = parsed.host("h1")
    assert (h1.address, h1.mac, h1.gateway) == (ip_interface("10.0.1.1/24"), MacOf(1), ip_address("10.0.1.10"))
    middle = parsed.links[1]
    assert (middle.a, middle.b) == (LabEnd("s1", 2), LabEnd("s2", 2))
    assert (middle.rate_bps, middle.delay_ps) == (500_000, 5 * 10**9)
    assert parsed.links[0].rate_bps is None
    assert parsed.attachment("h2")[1] == LabEnd("s2", 1)


def test_switches_are_numbered_in_natural_order(lab: ReadLab) -> None:
    switches = {f"s{number}": {} for number in (10, 9, 2, 1)}
    parsed = lab(topology__json=tutorial(switches=switches, hosts={}, links=[]))
    assert [(s.name, s.device_id) for s in parsed.switches] == [("s1", 0), ("s2", 1), ("s9", 2), ("s10", 3)]


@pytest.mark.parametrize(
    ("latency", "ps"), [("0", 0), (3, 3 * 10**9), (0.5, 5 * 10**8), ("10us", 10**7), ("7", 7 * 10**6), ("1s", 10**12)]
)
def test_latencies_as_tc_has_them(lab: ReadLab, latency: Any, ps: int) -> None:
    links = [["h1", "s1-p1", latency], ["h2", "s2-p1"]]
    assert lab(topology__json=tutorial(links=links)).links[0].delay_ps == ps


def test_what_hosts_are_told(lab: ReadLab) -> None:
    commands = [
        "ip route add default via 10.0.1.254",
        "arp -i eth0 -s 10.0.1.254 08:00:00:00:01:00",
        "sudo ip neigh add 10.0.1.7 lladdr 08:00:00:00:01:07 dev eth0",
        "ip route add 10.0.1.0/24 dev eth0",
        "ethtool --offload eth0 rx off tx off",
    ]
    hosts = {"h1": {"ip": "10.0.1.1/24", "mac": MacOf(1), "commands": commands}}
    h1 = lab(topology__json=tutorial(hosts=hosts, links=[["h1", "s1-p1"]])).host("h1")
    assert h1.gateway == ip_address("10.0.1.254")
    assert dict(h1.neighbours) == {
        ip_address("10.0.1.254"): "08:00:00:00:01:00",
        ip_address("10.0.1.7"): "08:00:00:00:01:07",
    }


def test_cpu_port_and_queues(lab: ReadLab) -> None:
    switches = {"s1": {"cpu_port": "510", "priority_queues": 8}, "s2": {}}
    parsed = lab(topology__json=tutorial(switches=switches))
    assert (parsed.switch("s1").cpu_port, parsed.switch("s1").priorities) == (510, 8)
    assert (parsed.switch("s2").cpu_port, parsed.switch("s2").priorities) == (None, 1)


def test_program_of_the_file_of_entries(lab: ReadLab, tmp_path: Path) -> None:
    runtime = {"target": "bmv2", "p4info": "build/a.p4.p4info.txtpb", "bmv2_json": "build/a.json"}
    switches = {"s1": {"runtime_json": "s1-runtime.json"}, "s2": {}}
    files = {"topology__json": tutorial(switches=switches), "s1-runtime__json": runtime, "a__p4": "// nothing"}
    program = lab(**files).switch("s1").program
    assert program is not None
    assert (program.source, program.json, program.p4info) == (tmp_path / "a.p4", None, None)
    program = lab(**files, build_in_a__json="{}").switch("s1").program
    assert program is not None
    assert program.json == tmp_path / "build" / "a.json"


def test_the_solution_goes_first(lab: ReadLab, tmp_path: Path) -> None:
    runtime = {"p4info": "build/a.p4.p4info.txtpb", "bmv2_json": "build/a.json"}
    switches = {"s1": {"runtime_json": "s1-runtime.json"}, "s2": {}}
    files = {"topology__json": tutorial(switches=switches), "s1-runtime__json": runtime, "a__p4": "// starter"}
    lab(**files, solution_in_a__p4="// solution")
    program = read_lab(LabFolder.given(str(tmp_path), solution=True)).switch("s1").program
    assert program is not None
    assert program.source == tmp_path / "solution" / "a.p4"


def test_topology_in_a_folder_of_its_own(lab: ReadLab, tmp_path: Path) -> None:
    switches = {"s1": {"runtime_json": "pod-topo/s1-runtime.json"}, "s2": {}}
    runtime = {"p4info": "build/a.p4.p4info.txtpb", "bmv2_json": "build/a.json"}
    files = {"pod-topo_in_topology__json": tutorial(switches=switches), "pod-topo_in_s1-runtime__json": runtime}
    assert lab(a__p4="", **files).switch("s1").runtime == tmp_path / "pod-topo" / "s1-runtime.json"
    named = read_lab(LabFolder.given(str(tmp_path / "pod-topo" / "topology.json")))
    assert named.switch("s1").runtime == tmp_path / "pod-topo" / "s1-runtime.json"
    with pytest.raises(DetourError, match=r"several topologies; name one of pod-topo/topology.json, x/topology.json"):
        lab(x_in_topology__json=tutorial())
    assert lab(Makefile="TOPO = pod-topo/topology.json\n").switches


LINK = ["h1", "s1-p1"]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"links": [["h1", "s9-p1"]]}, r"line \d+: there is no node 's9'; switches: s1, s2; hosts: h1, h2"),
        ({"links": [LINK, ["h2", "s1-p1"]]}, r"line \d+: port 1 of s1 has a second link \(the first: .*, line \d+\)"),
        ({"links": [LINK, ["h1", "s1-p2"]]}, "h1 has a second link"),
        ({"links": [LINK]}, "host h2 has no link"),
        ({"links": [["h1", "h2"]]}, "both hosts"),
        ({"links": [["h1", "s1"]]}, "'s1' is neither a host nor a switch with its port like s1-p2"),
        ({"links": [["h1", "s1-p511"]]}, "s1 cannot have port 511; expected 0 to 510"),
        ({"links": [["h1", "s1-p1", "soon"]]}, "'soon' is not a delay"),
        ({"links": [["h1", "s1-p1", "1ms", -1]]}, "a bandwidth of -1 Mb/s"),
        ({"links": [["h1"]]}, r"a link is \[node, node\]"),
        ({"hosts": {"h1": {"ip": "10.0.1", "mac": MacOf(1)}}}, "ip of h1 is '10.0.1'; expected an address"),
        ({"hosts": {"h1": {"ip": "10.0.1.1/24", "mac": "nine"}}}, "'nine' is not a MAC address"),
        ({"hosts": {"h1": {"mac": MacOf(1)}}}, "'ip' is missing"),
        ({"hosts": {"h1": {"ip": "10.0.1.1/24", "mac": MacOf(1), "os": ""}}}, "host h1 has no 'os'; allowed: ip, mac"),
        ({"switches": {"s1": {"runtime_json": "not.json"}}}, "the file of entries 'not.json' does not exist"),
        ({"switches": {"s1": {"cpu_port": 511}, "s2": {}}}, "s1 has CPU port 511; expected 1 to 510"),
        ({"switches": {"s1": {"cpu_port": 1}, "s2": {}}}, "port 1 of s1 is its CPU port"),
        ({"switches": {"s1": {"priority_queues": 9}, "s2": {}}}, "s1 has 9 queues per port; expected 1 to 8"),
        ({"switches": {"s1": {"prog": ""}}}, "switch s1 has no 'prog'; allowed: runtime_json"),
    ],
)
def test_what_is_refused(lab: ReadLab, tmp_path: Path, changes: dict[str, Any], text: str) -> None:
    with pytest.raises(DetourError, match=text) as raised:
        lab(topology__json=tutorial(**changes))
    assert str(tmp_path / "topology.json") in str(raised.value)


def test_the_line_is_that_of_the_link(lab: ReadLab, tmp_path: Path) -> None:
    text = json.dumps(tutorial(links=[]))[:-3] + '[\n["h1", "s1-p1"],\n\n["h2", "s7-p1"]]}'
    with pytest.raises(DetourError, match=r"topology.json, line 4: there is no node 's7'"):
        lab(topology__json=text)


def test_an_unknown_command_is_named(lab: ReadLab) -> None:
    hosts = {"h1": {"ip": "10.0.1.1/24", "mac": MacOf(1), "commands": ["iptables -F"]}}
    with pytest.raises(DetourError, match="line 3: the command 'iptables -F' is not supported by built-in hosts"):
        lab(topology__json=tutorial(hosts=hosts, links=[LINK]))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"hosts": {},\n "switches": {}\n "links": []}', "line 3: Expecting ',' delimiter"),
        ('{"hosts": {},\n "hosts": {}, "switches": {}, "links": []}', "line 1: 'hosts' appears twice in this object"),
        ("[]", "line 1: expected an object in braces"),
        ("[" * 100_000, "nested too deep"),
    ],
)
def test_files_that_are_no_json(lab: ReadLab, text: str, reason: str) -> None:
    with pytest.raises(DetourError, match=reason):
        lab(topology__json=text)


def test_a_folder_that_holds_no_lab(tmp_path: Path) -> None:
    with pytest.raises(DetourError, match=r"is not a lab; expected topology.json"):
        read_lab(LabFolder.given(str(tmp_path)))
    with pytest.raises(DetourError, match="there is no such folder or file"):
        LabFolder.given(str(tmp_path / "missing"))
    with pytest.raises(DetourError, match="--solution needs a folder solution"):
        LabFolder.given(str(tmp_path), solution=True)
