# SPDX-License-Identifier: Apache-2.0
"""Names of switches, hosts, links and ports: a file's own and those by number, found and shown."""

import networkx as nx
import pytest

from detour.base.errors import DetourError
from detour.control.graph_files import open_topology
from detour.topo import Topology, from_networkx, parse_failure, parse_topology, to_networkx
from detour.topo.paths import parse_usid_list, usid_list_text

LAB = """topology:
  nodes:
    r-1: {kind: linux, image: frr}
    r-2: {kind: linux, image: frr}
    h1: {kind: linux, image: frr}
  links:
    - endpoints: ["r-1:eth1", "r-2:eth1"]
    - endpoints: ["r-2:eth2", "h1:Ethernet0"]
    - endpoints: ["r-1:eth3", "h1:eth9"]
"""


def hyphened() -> Topology:
    """Names with hyphens, parallel links (one of them listed backwards), and hosts."""
    graph = nx.MultiGraph()
    graph.add_nodes_from(["tor-1-a", "tor-1", "a"], kind="switch")
    graph.add_nodes_from(["gpu-0", "h3"], kind="host")
    graph.add_edges_from([("tor-1-a", "tor-1"), ("tor-1", "tor-1-a"), ("tor-1-a", "a")])
    graph.add_edges_from([("gpu-0", "tor-1-a"), ("h3", "a")])
    return from_networkx(graph)


@pytest.mark.parametrize(
    ("text", "kind", "name"),
    [
        ("tor-1-a-tor-1", "link", "tor-1-a-tor-1"),
        ("tor-1-tor-1-a", "link", "tor-1-a-tor-1"),
        ("tor-1-tor-1-a#2", "link", "tor-1-a-tor-1#2"),
        ("s1-s0#2", "link", "tor-1-a-tor-1#2"),
        ("s0-tor-1", "link", "tor-1-a-tor-1"),
        ("tor-1-a-a", "link", "tor-1-a-a"),
        ("tor-1-a:2", "link", "tor-1-a-tor-1"),
        ("tor-1-a", "switch", "tor-1-a"),
        ("s2", "switch", "a"),
        ("gpu-0", "link", "tor-1-a-gpu-0"),
        ("h0", "link", "tor-1-a-gpu-0"),
        ("h3", "link", "a-h3"),
        ("s2-h1", "link", "a-h3"),
    ],
)
def test_names_are_found(text, kind, name):
    topology = hyphened()
    failure = parse_failure(topology, text)
    assert failure.kind == kind
    assert (topology.links if kind == "link" else topology.switches)[failure.index].name == name


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("tor-9", "has .*tor-1"),
        ("tor-1-a:7", r"tor-1-a has ports 1 to 4"),
        ("a-tor-1", "a and tor-1 are not neighbours"),
        ("tor-1-a-tor-1#3", "has fewer links between tor-1-a and tor-1"),
        ("b", r"has tor-1-a, tor-1, a \(s0 to s2 by number\)"),
        ("h7", r"has gpu-0, h3 \(h0 to h1 by number\)"),
    ],
)
def test_what_there_is_not_is_refused(text, reason):
    with pytest.raises(DetourError, match=reason):
        parse_failure(hyphened(), text)


def test_a_link_that_names_leave_open_is_refused():
    graph = nx.Graph([("a-b", "c"), ("a", "b-c"), ("c", "a"), ("c", "h"), ("a", "g")])
    graph.add_nodes_from(["g", "h"], kind="host")
    topology = from_networkx(graph)
    with pytest.raises(DetourError, match="may be s2-s3 or s0-s1: say which by a port"):
        topology.link("a-b-c")
    assert topology.link("s0-s1") != topology.link("s2-s3")


def test_a_files_own_name_wins():
    graph = nx.Graph([("s1", "s0"), ("s1", "x"), ("s0", "y"), ("s0", "h3")])
    graph.add_nodes_from(["x", "y"], kind="host")
    topology = from_networkx(graph)
    assert topology.names == {"s0": "s1", "s1": "s0", "s2": "h3", "h0": "x", "h1": "y"}
    assert [topology.switch(name).index for name in ("s0", "s1", "s2", "h3")] == [1, 0, 2, 2]
    with pytest.raises(DetourError, match="has a switch of that name"):
        topology.host("h3")
    assert from_networkx(to_networkx(topology)).names == topology.names


def test_hosts_that_are_added_take_neither_names_nor_interfaces(tmp_path):
    (tmp_path / "x.clab.yml").write_text(LAB)
    topology = open_topology(f"{tmp_path}/x.clab.yml")
    assert [switch.name for switch in topology.switches] == ["r-1", "r-2", "h1"]
    assert [host.name for host in topology.hosts] == ["h0", "h1_", "h2"]
    assert topology.link("r-2:eth2") == topology.link("h1:Ethernet0") == topology.link("r-2-h1")
    assert topology.link("r-2-h1_") == topology.link("s1:1")
    assert open_topology(topology.spec) == topology
    grown = open_topology(f"{tmp_path}/x.clab.yml,grown=1")
    assert [switch.name for switch in grown.switches] == ["r-1", "r-2", "h1", "s3"]


def test_lists_of_usids_are_never_taken_for_others():
    graph = nx.path_graph(["a", "p1", "tor", "10"])
    for end in ("a", "10"):
        graph.add_edge(end, f"host-{end}")
        graph.nodes[f"host-{end}"]["kind"] = "host"
    topology = from_networkx(graph)
    assert parse_usid_list(topology, "tor,s3,host-10") == (3, 4, 0x8001)
    text = usid_list_text(topology, (0, 1, 2, 3), 1)
    assert text == "0x2,0x3,0x4,0x8001"
    assert parse_usid_list(topology, text) == (2, 3, 4, 0x8001)
    for unclear in ("a", "p1", "10"):
        with pytest.raises(DetourError, match="may be the switch of that name"):
            parse_usid_list(topology, unclear)


def test_names_do_not_change_what_is_built_in():
    d1 = parse_topology("d1")
    assert d1.names == {}
    assert {d1.links[0].name, d1.switches[3].name, d1.hosts[5].name} == {"s0-h0", "s3", "h5"}
