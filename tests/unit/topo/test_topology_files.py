# SPDX-License-Identifier: Apache-2.0
"""Topologies from files: what they say in each form, that routes over them are proven, and what is refused."""

import json
import shutil
from pathlib import Path

import networkx as nx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from detour.base.errors import DetourError
from detour.base.times import US
from detour.control.graph_files import absolute, open_topology
from detour.control.planner import plan
from detour.control.verifier.verifier import verify
from detour.fabric.backends.virtual.fabric import VirtualFabric
from detour.fabric.backends.virtual.scheme import SHORTEST_LERP
from detour.topo.topology import Topology

NODES = [("s0", "switch"), ("s1", "switch"), ("s2", "switch"), ("h0", "host"), ("h1", "host"), ("h2", "host")]
EDGES = [
    ("s0", "s1", 400, 500), ("s1", "s2", 100, None), ("s0", "s2", 200, 20000),
    ("h0", "s0", 200, 5), ("h1", "s1", 200, 5), ("h2", "s2", None, None),
]  # fmt: skip


def graph(kinds: bool = True) -> nx.Graph:
    result = nx.Graph()
    for name, kind in NODES:
        result.add_node(name, **({"kind": kind} if kinds else {}))
    for a, b, gbps, delay_ns in EDGES:
        attributes = {"gbps": gbps, "delay_ns": delay_ns}
        result.add_edge(a, b, **{key: value for key, value in attributes.items() if value is not None})
    return result


def written(folder: Path, form: str, kinds: bool = True) -> str:
    path = folder / f"net.{form}"
    match form:
        case "graphml":
            nx.write_graphml(graph(kinds), path)
        case "json":
            path.write_text(json.dumps(nx.node_link_data(graph(kinds), edges="links")))
        case "csv":
            rows = [",".join("" if value is None else str(value) for value in row) for row in EDGES]
            path.write_text("\n".join(["a,b,gbps,delay_ns", *rows]))
    return str(path)


def terms(topology: Topology) -> dict[str, tuple[float, int | None]]:
    return {link.name: (topology.rate_bps * link.speed / 1e9, link.delay_ps) for link in topology.links}


@pytest.mark.parametrize("form", ["graphml", "json", "csv"])
@pytest.mark.parametrize("kinds", [True, False])
def test_every_form_says_the_same(tmp_path, form, kinds):
    topology = open_topology(written(tmp_path, form, kinds))
    assert (len(topology.switches), len(topology.hosts)) == (3, 3)
    assert topology.rate_bps == 200_000_000_000
    assert terms(topology) == {
        "s0-s1": (400, 500_000), "s1-s2": (100, None), "s0-s2": (200, 20_000_000),
        "s0-h0": (200, 5000), "s1-h1": (200, 5000), "s2-h2": (100, None),
    }  # fmt: skip
    assert verify(plan(topology), topology).ok
    assert open_topology(topology.spec) == topology


def test_options_say_what_a_file_does_not(tmp_path):
    path = tmp_path / "bare.csv"
    path.write_text("a,b\nh0,s0\nh1,s0\n")
    bare = open_topology(str(path))
    assert (bare.rate_bps, bare.links[0].speed, bare.links[0].delay_ps) == (0, 1.0, None)
    topology = open_topology(str(path), gbps=25, delay_ns=300)
    assert (topology.rate_bps, topology.links[0].speed, topology.links[0].delay_ps) == (25_000_000_000, 1.0, 300_000)


def test_a_file_that_changed_is_refused_by_its_spec(tmp_path):
    text = written(tmp_path, "csv")
    spec = open_topology(text).spec
    Path(text).write_text("a,b\nh0,s0\nh1,s0\n")
    with pytest.raises(DetourError, match="has changed since"):
        open_topology(spec)


def test_hosts_are_numbered_switch_by_switch(tmp_path):
    path = tmp_path / "order.csv"
    path.write_text("a,b\nhx,right\nright,left\nhy,left\nhz,right\n")
    topology = open_topology(str(path))
    assert [host.switch for host in topology.hosts] == [0, 0, 1]
    path.write_text("a,b\ns1,s0\nh1,s1\nh0,s0\n")
    assert [host.switch for host in open_topology(str(path)).hosts] == [0, 1]


def test_texts_in_another_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert absolute("net.csv") == f"{tmp_path}/net.csv"
    assert absolute("own.py:ring:n=3") == f"{tmp_path}/own.py:ring:n=3"
    assert absolute("graph:net.edges,hosts=2") == f"graph:{tmp_path}/net.edges,hosts=2"
    assert absolute("dragonfly:p=2,a=4,h=2") == "dragonfly:p=2,a=4,h=2"


def test_links_are_as_fast_and_as_long_as_the_file_says(tmp_path):
    """A packet from h0 to h2 crosses 200 Gb/s and 20 us, then 100 Gb/s and the usual 1 us; its answer comes back."""
    topology = open_topology(written(tmp_path, "csv"))
    with VirtualFabric(topology, SHORTEST_LERP, queue_pairs=4) as fabric:
        fabric.connect([(0, 2)])
        fabric.send(1000)
        fabric.run(100 * US)
        took = int(fabric.completion_times_ps()[0])
    cables = 2 * (5_000 + 20_000_000 + US)
    assert cables + 8 * 1000 * 20 < took < cables + US // 2


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(2, 12), st.floats(0.0, 0.5), st.integers(0, 10**6), st.integers(1, 3))
def test_any_connected_network_is_planned_and_proven(n, p, seed, hosts):
    from detour.topo.listed import topology_of_graph

    switches = nx.compose(nx.gnp_random_graph(n, p, seed), nx.random_labeled_tree(n, seed=seed))
    for switch in range(n):
        for i in range(hosts):
            switches.add_edge(switch, f"h{switch}.{i}")
    topology = topology_of_graph("random", switches)
    report = verify(plan(topology), topology)
    assert report.ok, report.problems
    assert report.pairs == n * hosts * (n * hosts - 1)


def graphml(*elements: str) -> str:
    return "\n".join(
        [
            '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">',
            '<key id="g" for="edge" attr.name="gbps" attr.type="double"/>',
            '<graph edgedefault="undirected">',
            *elements,
            "</graph></graphml>",
        ]
    )


def listed(links: str, nodes: str = '{"id": "s"}, {"id": "h0"}, {"id": "h1"}') -> str:
    return f'{{"nodes": [{nodes}], "links": [{links}]}}'


_S_H0, _S_H1 = '{"source": "s", "target": "h0"}', '{"source": "s", "target": "h1"}'
_MANY = "a,b\n" + "".join(f"s,h{i}\n" for i in range(509))
REFUSED = [
    ("x.csv", "", "it has no links"),
    ("x.csv", "a,c\n", "line 1: columns are a,b,gbps,delay_ns"),
    ("x.csv", "a,b,gpbs\n", "line 1: columns are"),
    ("x.csv", "a,b,gbps\nh0,s,1\nh1,s,x\n", "line 3: gbps is a number, not 'x'"),
    ("x.csv", "a,b,gbps\nh0,s,1\nh1,s,0\n", "line 3: the link h1-s: gbps=0 carries nothing"),
    ("x.csv", "a,b,gbps\nh0,s,1\nh1,s,nan\n", "line 3: the link h1-s: gbps is a number from 0 to 1e\\+06, not nan"),
    ("x.csv", "a,b,delay_ns\nh0,s,1\nh1,s,-1\n", "line 3: the link h1-s: delay_ns is a number from 0"),
    ("x.csv", "a,b\nh0,s\nh1\n", "line 3: 1 values for the 2 columns"),
    ("x.csv", "a,b\nh0,s\nh1,\n", "line 3: b is empty"),
    ("x.csv", "a,b\nh0,s\nh1,s\nx,y\n", "line 4: the network is disconnected: no path leads from h0 to x"),
    ("x.csv", "a,b\ns,t\nt,h\n", "there is one host, h"),
    ("x.csv", "a,b\nh0,h1\n", "line 2: hosts h0 and h1 are joined to each other"),
    ("x.csv", _MANY, "line 2: s has 509 links; a switch has at most 508 ports"),
    ("x.csv", "a,b\nh0,s\nh\xff,s\n", "line 3: this is not UTF-8 text"),
    ("x.json", "{", "line 1: Expecting property name"),
    ("x.json", "[]", "it is not a networkx JSON file"),
    ("x.json", '{"nodes": [], "links": []}', "it has no nodes"),
    ("x.json", '{"nodes": 3, "links": []}', "nodes is a list, not 3"),
    ("x.json", listed(_S_H0, "7"), r"nodes\[0\]: it is an object, not 7"),
    ("x.json", listed(_S_H0, '{"name": "s"}'), r"nodes\[0\]: id is missing"),
    ("x.json", listed(_S_H0, '{"id": "s"}, {"id": "h0"}, {"id": "s"}'), r"nodes\[2\]: node s is already defined"),
    ("x.json", listed('{"source": "s", "target": "h9"}'), r"links\[0\]: .* s-h9 leads to h9, which is not a node"),
    ("x.json", listed(f"{_S_H0}, {_S_H1}", '{"id": "s", "kind": "router"}, {"id": "h0"}, {"id": "h1"}'),
     r"nodes\[0\]: node s is of kind 'router'; allowed: switch, host"),
    ("x.json", listed(f"{_S_H0}, {_S_H1}", '{"id": "s", "kind": "host"}, {"id": "h0"}, {"id": "h1", "kind": "host"}'),
     r"links\[1\]: host s has 2 links; a host has one"),
    ("x.json", listed(f'{_S_H0}, {{"source": "s", "target": "h1", "gbps": "4"}}'), r"links\[1\].*gbps is a number"),
    ("x.graphml", "<graphml", "line 1: this is not XML"),
    ("x.graphml", "<html></html>", "is not a GraphML file"),
    ("x.graphml", graphml('<node id="s"/>', '<node id="s"/>'), "line 5: node s is already defined \\(line 4\\)"),
    ("x.graphml", graphml('<node id="s"/>', '<edge source="s" target="t"/>'), "line 5: the link leads to 't'"),
    ("x.graphml", graphml('<node id="s"/>', '<node id="h"/>', '<edge source="s" target="h">',
                          '<data key="g">-4</data></edge>'), "line 6: the link s-h: gbps is a number from 0"),
    ("x.graphml", graphml().replace("undirected", "directed"), "it has no nodes"),
    ("x.graphml", graphml('<node id="a"/>', '<node id="b"/>', '<node id="c"/>', '<edge source="a" target="b"/>'),
     r"line 6: the network is disconnected: node c has no link \(FILE,drop=isolated leaves out nodes without links"),
    ("x.text", "nodes: 3\nlinks: 4\n", r"in no known format \(GraphML: line 1: this is not XML: .*; networkx "
     "JSON: line 1: .*; GML: .*; SNDlib: it does not begin .*; table of links: line 1: columns are .*; containerlab or "
     "InfraGraph: it is not a containerlab file: .*; ibnetdiscover: it has no Switch; .*; list of edges: tried only "
     "as graph:FILE"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "reason"), REFUSED)
def test_bad_files_are_one_line(tmp_path, name, content, reason):
    (tmp_path / name).write_bytes(content.encode("latin-1"))
    with pytest.raises(DetourError, match=reason) as caught:
        open_topology(str(tmp_path / name))
    assert str(caught.value).startswith(f"{tmp_path / name}")
    assert "\n" not in str(caught.value)


def test_a_file_of_another_name_is_tried_in_every_form(tmp_path):
    shutil.copy(written(tmp_path, "graphml"), tmp_path / "net.data")
    assert terms(open_topology(f"{tmp_path}/net.data")) == terms(open_topology(f"{tmp_path}/net.graphml"))


def test_a_folder_is_no_topology(tmp_path):
    with pytest.raises(DetourError, match="is a folder; a topology is a file"):
        open_topology(str(tmp_path))


def test_names_go_before_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d1").mkdir()
    assert open_topology("d1").family == "dragonfly"


def zoo(tmp_path: Path, directed: bool = False) -> str:
    """A network like the Topology Zoo's: places and speeds, a loop, a parallel link, two nodes aside, one alone."""
    net = nx.MultiDiGraph() if directed else nx.MultiGraph(Network="Nowhere", DateObtained="5/07/11")
    for name, north, east in (("0", 0.0, 0.0), ("1", 0.0, 1.0), ("2", 1.0, 1.0), ("3", 5.0, 5.0), ("4", 5.0, 5.0)):
        net.add_node(name, label=f"City {name}", Country="Nowhere", Internal=1, Latitude=north, Longitude=east)
    net.add_node("5", label="alone")
    net.add_edge("0", "1", LinkLabel="10 Gbps", LinkSpeedRaw=1e10, LinkSpeed="10")
    net.add_edge("1", "2", LinkLabel="2.5 Gbps", LinkSpeedRaw=2.5e9)
    net.add_edge("2", "0", LinkNote="fibre")
    net.add_edges_from([("0", "1"), ("2", "2"), ("3", "4")])
    path = tmp_path / f"zoo{directed}.graphml"
    nx.write_graphml(net, path)
    return str(path)


@pytest.mark.parametrize("prefix", ["", "graph:"])
@pytest.mark.parametrize("directed", [False, True])
def test_a_network_of_the_topology_zoo(tmp_path, caplog, prefix, directed):
    text = prefix + zoo(tmp_path, directed)
    for drop, reason in (("", "node 5 has no link"), (",drop=isolated", "no path leads from 0 to 3")):
        with pytest.raises(DetourError, match=reason):
            open_topology(f"{text}{drop}")
    caplog.clear()
    topology = open_topology(f"{text},hosts=2,drop=all")
    assert "left out a link from a node to itself: 2" in caplog.text
    assert "dropped 3: node 3, node 4, node 5" in caplog.text
    assert caplog.text.count("attributes that mean nothing here are ignored: ") == 1
    assert "Country, Internal, LinkLabel" in caplog.text
    assert [len(hosts) for hosts in topology.hosts_of] == [2, 2, 2]
    degree = 111_194.93  # metres of a degree of the equator, on a sphere of 6371 km
    terms_by_link = {name: (round(gbps, 6), delay) for name, (gbps, delay) in terms(topology).items()}
    assert terms_by_link["0-h0"] == (10, None)
    assert terms_by_link["0-1"][0] == terms_by_link["0-2"][0] == 10
    assert terms_by_link["1-2"][0] == 2.5
    assert terms_by_link["0-1#2"] == (10, terms_by_link["0-1"][1])
    assert terms_by_link["0-1"][1] == pytest.approx(degree * 5000, rel=1e-6)
    assert terms_by_link["0-2"][1] == pytest.approx(2**0.5 * degree * 5000, rel=1e-3)
    assert open_topology(topology.spec) == topology
    assert verify(plan(topology), topology).ok


def test_links_that_say_nothing_have_the_rate_that_is_given(tmp_path):
    topology = open_topology(f"{zoo(tmp_path)},drop=all", gbps=100)
    rates = {name: round(gbps, 6) for name, (gbps, _) in terms(topology).items()}
    hosts = {"0-h0": 100, "1-h1": 100, "2-h2": 100}
    assert rates == {**hosts, "0-1": 10, "0-1#2": 100, "0-2": 100, "1-2": 2.5}


def test_an_edge_each_way_is_one_link(tmp_path):
    net = nx.MultiDiGraph([("a", "b"), ("b", "a"), ("b", "c")])
    nx.write_graphml(net, tmp_path / "net.graphml")
    assert [link.name for link in open_topology(f"{tmp_path}/net.graphml").links if link.kind != "host"] == [
        "a-b", "b-c"
    ]  # fmt: skip
    net.add_edge("b", "a")
    nx.write_graphml(net, tmp_path / "net.graphml")
    names = {link.name for link in open_topology(f"{tmp_path}/net.graphml").links if link.kind != "host"}
    assert names == {"a-b", "a-b#2", "b-c"}
    net = nx.MultiDiGraph([("a", "b", {"gbps": 1.0}), ("b", "a", {"gbps": 2.0})])
    nx.write_graphml(net, tmp_path / "net.graphml")
    with pytest.raises(DetourError, match=r"line \d+: the link b-a is not as fast or as long as a-b \(line \d+\)"):
        open_topology(f"{tmp_path}/net.graphml")


def test_a_file_without_hosts_says_that_it_gets_some(tmp_path, caplog):
    (tmp_path / "bare.csv").write_text("a,b\ns,t\nt,u\n")
    topology = open_topology(f"{tmp_path}/bare.csv")
    assert [len(hosts) for hosts in topology.hosts_of] == [1, 1, 1]
    assert "bare.csv names no hosts: every switch gets one" in caplog.text
    assert open_topology(topology.spec) == topology


def test_nothing_may_be_left(tmp_path):
    (tmp_path / "net.json").write_text('{"nodes": [{"id": 1}, {"id": 2}], "links": [{"source": 1, "target": 1}]}')
    with pytest.raises(DetourError, match="nothing is left without nodes without links"):
        open_topology(f"{tmp_path}/net.json,drop=isolated")


def test_a_value_of_null_says_nothing(tmp_path):
    link = '{"source": 1, "target": 2, "gbps": null, "delay_ns": null}'
    (tmp_path / "net.json").write_text(f'{{"nodes": [{{"id": 1}}, {{"id": 2}}], "links": [{link}]}}')
    topology = open_topology(f"{tmp_path}/net.json")
    assert (topology.rate_bps, topology.links[-1].speed, topology.links[-1].delay_ps) == (0, 1.0, None)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        (",drop=bridges", "drop=bridges: allowed are isolated, parts"),
        (",hosts=2", "the file has hosts, like h0"),
        (",seed=2", r"there is no parameter seed; allowed: \[hosts=\]"),
    ],
)
def test_values_behind_a_file_that_mean_nothing(tmp_path, values, reason):
    with pytest.raises(DetourError, match=reason):
        open_topology(written(tmp_path, "csv") + values)


def test_a_command_takes_a_file(tmp_path, refused):
    jobs = tmp_path / "jobs.yaml"
    jobs.write_text("jobs:\n  - {name: a, collective: ring, hosts: [0, 1, 2]}\n")
    assert "none.csv: No such file" in refused("place", str(jobs), "--topo", f"{tmp_path}/none.csv", "--json")
