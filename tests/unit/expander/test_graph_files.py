# SPDX-License-Identifier: Apache-2.0
"""Networks from files: what attributes mean, that every form says the same, and what is refused."""

import json
from itertools import pairwise
from pathlib import Path

import networkx as nx
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from detour.base.errors import DetourError
from detour.base.times import US
from detour.control.expander.demand import all_to_all, near_worst, upper_bound
from detour.control.expander.proof import prove
from detour.control.expander.routes import PathPolicy, compute, longest_searched
from detour.control.expander.throughput import throughput
from detour.control.graph_files import network_from, open_topology, read_graph
from detour.control.policy import Policy
from detour.control.routes.queueing import plan_channels
from detour.fabric.backends.virtual.scheme import LinkSettings, RunSettings
from detour.fabric.traffic.expander import ExpanderFabric, scheme_of
from detour.topo.expander.given import expander_of_graph, expander_of_topology


def house() -> nx.Graph:
    """Five switches, six links, of which one is fast and one is long."""
    graph = nx.Graph([("a", "b"), ("b", "c"), ("c", "d"), ("d", "e"), ("e", "a"), ("a", "c")])
    graph.nodes["b"]["hosts"] = 3
    graph.nodes["e"]["hosts"] = 0
    graph.edges["b", "c"]["speed"] = 4.0
    graph.edges["c", "d"]["delay_us"] = 2.5
    return graph


def written(graph: nx.Graph, folder: Path, form: str) -> str:
    """The text that names the graph's file."""
    path = folder / f"house.{form}"
    match form:
        case "graphml":
            nx.write_graphml(graph, path)
        case "json":
            path.write_text(json.dumps(nx.node_link_data(graph, edges="links")))
        case "edges":
            nx.write_edgelist(graph, path)
    return f"graph:{path}"


@pytest.mark.parametrize("form", ["graphml", "json"])
def test_files_say_what_the_graph_does(tmp_path, form):
    network, direct = read_graph(written(house(), tmp_path, form)), expander_of_graph(house(), "here")
    for part in ("hosts", "links", "layer", "speed", "delay_ps"):
        assert getattr(network, part).tolist() == getattr(direct, part).tolist()
    assert network.hosts.tolist() == [1, 3, 1, 1, 0]
    link = network.topology.link
    assert (link("s1-s2").speed, link("s2-s3").delay_ps) == (4.0, 2_500_000)
    assert (link("s0-s1").speed, link("s0-s1").delay_ps) == (1.0, None)


def test_a_list_of_edges_has_hosts_from_its_text(tmp_path):
    network = read_graph(written(house(), tmp_path, "edges") + ",hosts=2")
    assert network.hosts.tolist() == [2] * 5
    assert sorted(network.speeds.tolist()) == [1, 1, 1, 1, 1, 4]


def test_the_spec_names_the_file_as_it_was(tmp_path):
    text = written(house(), tmp_path, "edges")
    first = read_graph(text)
    assert read_graph(first.spec) == first
    assert open_topology(first.spec) == first.topology
    assert expander_of_topology(first.topology).layer.tolist() == first.layer.tolist()
    (tmp_path / "house.edges").write_text("a b\nb c\n")
    assert read_graph(text) != first
    with pytest.raises(DetourError, match="has changed since"):
        read_graph(first.spec)


def test_throughput_counts_what_links_carry(tmp_path):
    """Two switches of two hosts: what one link of speed 3 carries is one and a half times what they send."""
    path = tmp_path / "two.edges"
    path.write_text("a b {'speed': 3}\n")
    network = read_graph(f"graph:{path},hosts=2")
    demand = near_worst(network)
    for method in ("exact", "approximate"):
        result = throughput(network, PathPolicy(2), demand, method)
        assert result.theta == pytest.approx(1.5, rel=0.01)
    assert upper_bound(network, demand) == pytest.approx(1.5)


def test_faster_links_carry_more_where_paths_share_them():
    slow, fast = house(), house()
    slow.edges["b", "c"]["speed"] = 1.0
    results = []
    for graph in (slow, fast):
        network = expander_of_graph(graph, f"house {graph.edges['b', 'c']['speed']}")
        demand = all_to_all(network)
        exact, near = (throughput(network, PathPolicy(4, 2), demand, m, 0.001) for m in ("exact", "approximate"))
        assert near.theta <= exact.theta * 1.0001 <= near.theta * (1 + near.gap) * 1.001
        assert exact.theta <= upper_bound(network, demand) * 1.0001
        results.append(exact.theta)
    assert results[1] > 1.2 * results[0]


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(2, 10), st.floats(0.0, 0.5), st.integers(0, 10**6), st.integers(1, 3))
@example(10, 0.5, 706, 1)  # all of 13 hops would take too long to search
def test_any_connected_graph_is_routed_and_cannot_deadlock(n, p, seed, priorities):
    graph = nx.compose(nx.gnp_random_graph(n, p, seed), nx.random_labeled_tree(n, seed=seed))
    network = expander_of_graph(graph, f"random {n} {p} {seed}")
    longest = min(13, longest_searched(network)) if priorities == 1 else 13
    routes = compute(network, PathPolicy(3, priorities, max_hops=longest))
    assert {tuple(pair) for pair in routes.pairs.tolist()} == {(a, b) for a in graph for b in graph if a != b}
    waits = [nx.DiGraph() for _ in range(priorities)]
    for source, target, switches, levels in routes:
        hops = list(pairwise(switches))
        assert (switches[0], switches[-1], len(set(switches))) == (source, target, len(switches))
        number = {node: index for index, node in enumerate(graph)}
        assert all(graph.has_edge(*(list(graph)[end] for end in hop)) for hop in hops), number
        assert levels == sorted(levels)
        for (one, other), (low, high) in zip(pairwise(hops), pairwise(levels), strict=True):
            if low == high:
                waits[low].add_edge(one, other)
    assert all(nx.is_directed_acyclic_graph(each) for each in waits)
    assert prove(routes).deadlock_free


def test_switches_of_a_file_guard_their_classes(tmp_path):
    topology = open_topology(written(house(), tmp_path, "graphml"))
    entries = [list(plan_channels(topology, s, Policy(valiant=False, channels=1))) for s in topology.switches]
    assert any(entries)


def test_cables_are_as_fast_and_as_long_as_the_file_says():
    """A message over one link: eight times the speed takes the serialization of a packet less at the switch, and a
    delay of 10 us comes to 9 us more than the usual one."""
    ended = {}
    for name, more in (("usual", {}), ("fast", {"speed": 8}), ("long", {"delay_us": 10})):
        graph = nx.Graph([("a", "b", more)])
        network = expander_of_graph(graph, name)
        settings = RunSettings(links=LinkSettings(rate_bps=1_000_000_000))
        with ExpanderFabric(network, scheme_of(name, 1), settings, queue_pairs=1) as fabric:
            fabric.connect([(0, 1)])
            fabric.send(1000)
            fabric.run(200 * US)
            assert fabric.unfinished() == 0
            ended[name] = int(fabric.completion_times_ps()[0])
    assert ended["long"] - ended["usual"] == 2 * 9 * US
    assert 6 * US < ended["usual"] - ended["fast"] < 9 * US


REFUSED = [
    ("a b\nc d\n", "no path leads from a to c (FILE,drop=parts leaves out all but the largest part)"),
    ("a b {'speed': 0}\n", "speed 0 carries nothing"),
    ("a b {'speed': -1}\n", "speed is a number from 0 to 1000, not -1"),
    ("a b {'delay_us': -1}\n", "delay_us is a number from 0"),
    ("a b {'speed'\n", "line 1: this is not a list of edges"),
    ("a b\nlonely\n", "'lonely' is not two names"),
    ("", "it has no links"),
    ("\n".join(f"hub leaf{i}" for i in range(256)), "256 links to others; at most 255"),
]


@pytest.mark.parametrize(("text", "reason"), REFUSED)
def test_bad_files_are_one_line(tmp_path, refused, text, reason):
    path = tmp_path / "bad.edges"
    path.write_text(text)
    assert reason in refused("fcplus", "paths", "--topo", f"graph:{path}", "--json")


def pair(attribute: str) -> str:
    """Two nodes and their link, as JSON."""
    return f'{{"nodes": [{{"id": 1, {attribute}}}, {{"id": 2}}], "links": [{{"source": 1, "target": 2}}]}}'


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("x.json", '{"nodes": [{"id": 1, "kind": "host"}, {"id": 2}], "links": []}', r"nodes\[0\]: node 1 is a host"),
        ("x.json", pair('"hosts": "two"'), "not 'two'"),
        ("x.json", pair('"hosts": 0'), "1 of them with hosts; expected at least two"),
    ],
)
def test_other_forms_are_refused_with_the_reason(tmp_path, name, content, reason):
    (tmp_path / name).write_text(content)
    with pytest.raises(DetourError, match=reason):
        network_from(f"graph:{tmp_path / name}")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("graph:", "give a file"),
        ("graph:/no/such.json", "No such file"),
        ("graph:/no/such.json,seed=3", "there is no parameter seed"),
        ("graph:/no/such.json,hosts=x", "is not a whole number"),
        ("graph:/no/such.json,hosts=-1", "less than 0"),
        ("d1", "is neither an expander nor a file"),
    ],
)
def test_texts_that_name_no_network(text, reason):
    with pytest.raises(DetourError, match=reason):
        network_from(text)


def test_a_whole_network_has_no_parts(refused, run_json):
    assert "--topo already describes the network; --n is not for it" in refused(
        "fcplus", "build", "--topo", "jellyfish:n=12,s=4,hosts=1", "--n", "12"
    )
    assert (
        run_json("fcplus", "build", "--topo", "jellyfish:n=12,s=4,hosts=1")["spec"]
        == "jellyfish:n=12,s=4,hosts=1,seed=1"
    )
