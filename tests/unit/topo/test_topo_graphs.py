# SPDX-License-Identifier: Apache-2.0
"""Topologies to networkx and back, networks of no family, and networkx as another opinion on distances."""

import networkx as nx
import numpy as np
import pytest

from detour.base.errors import DetourError
from detour.control.planner import plan
from detour.control.verifier.verifier import verify
from detour.topo import from_networkx, parse_topology, to_networkx
from detour.topo.graph import GLOBAL, LOCAL, distances

SPECS = [
    "d1", "dragonfly:p=2,a=4,h=2,g=5", "leaf-spine:leaves=4,spines=2,hosts=3", "fat-tree:k=4", "fcplus:n=12,s=6",
    "jellyfish:n=12,s=6",
]  # fmt: skip


@pytest.mark.parametrize("spec", SPECS)
def test_there_and_back(spec):
    topology = parse_topology(spec)
    again = from_networkx(to_networkx(topology))
    assert (again.switches, again.hosts, again.links) == (topology.switches, topology.hosts, topology.links)
    assert (again.groups, again.valiant_groups) == (topology.groups, topology.valiant_groups)
    assert again == from_networkx(to_networkx(again))
    assert again.spec.startswith("graph:")


def with_hosts(graph: nx.Graph, count: int = 1) -> nx.Graph:
    for switch in list(graph):
        for i in range(count):
            graph.add_edge(switch, f"host {switch} {i}")
            graph.nodes[f"host {switch} {i}"]["kind"] = "host"
    return graph


@pytest.mark.parametrize("make", [nx.petersen_graph, lambda: nx.cycle_graph(5), lambda: nx.grid_2d_graph(3, 4)])
def test_a_network_of_no_family_is_planned_and_proven(make):
    graph = with_hosts(make(), 2)
    topology = from_networkx(graph)
    report = verify(plan(topology), topology)
    assert report.ok, report.problems
    assert report.pairs == len(topology.hosts) * (len(topology.hosts) - 1)


@pytest.mark.parametrize("spec", SPECS)
def test_distances_are_those_of_networkx(spec):
    topology = parse_topology(spec)
    graph = to_networkx(topology).subgraph(switch.name for switch in topology.switches)
    weights = {"local": LOCAL, "global": GLOBAL}
    theirs = dict(nx.all_pairs_dijkstra_path_length(nx.Graph(graph), weight=lambda a, b, data: weights[data["kind"]]))
    ours = distances(topology)
    for a in topology.switches:
        assert np.array_equal(ours[a.index], [theirs[a.name][b.name] for b in topology.switches])


def host(graph: nx.Graph, name: str, *switches: str) -> None:
    graph.add_node(name, kind="host")
    graph.add_edges_from((name, switch) for switch in switches)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda g: g.add_edge("a", "a"), "a is joined to itself"),
        (lambda g: host(g, "h", "a", "b"), "host h has more than one link"),
        (lambda g: g.add_node("h", kind="host"), "host h has no link"),
        (lambda g: (host(g, "h"), host(g, "i", "h")), "hosts h and i are joined|hosts i and h are joined"),
        (lambda g: g.add_node("c", group=2), "group 2 and no group 1"),
        (lambda g: g.add_node("c", group=-1), "groups are numbers from 0 on"),
        (lambda g: g.add_node("c", tier=3), "tiers 0 to 2"),
        (lambda g: g.add_edge("a", "b", kind="long"), "of kind 'long'"),
        (lambda g: g.add_edge("a", "b", ports={"a": 1}), "no port number for each"),
        (lambda g: (host(g, "h", "a"), g.add_edge("a", "b", ports={"a": 1, "b": 1})), "port 1 of a is taken"),
        (lambda g: g.add_edge("a", "b", ports={"a": 509, "b": 1}), "not 1 to 508"),
        (lambda g: (host(g, "h", "b"), host(g, "i", "a")), "in the order of their switches"),
        (lambda g: g.add_edges_from(("a", f"x{i}") for i in range(509)), "509 ports|510 ports"),
    ],
)
def test_what_is_no_network(change, says):
    graph = nx.Graph([("a", "b")])
    change(graph)
    with pytest.raises(DetourError, match=says):
        from_networkx(graph)


def test_links_have_no_direction():
    with pytest.raises(DetourError, match="no direction"):
        from_networkx(nx.DiGraph([("a", "b")]))
