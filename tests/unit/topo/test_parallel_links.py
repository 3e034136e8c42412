# SPDX-License-Identifier: Apache-2.0
"""Parallel links from files of every form: named, routed, placed, failed, drawn and exported one by one."""

import json
from pathlib import Path

import pytest

from detour.base.errors import DetourError
from detour.base.times import US
from detour.cli.web.layers import graph_of
from detour.control import schema
from detour.control.entries import TableEntry
from detour.control.expander.routes import PathPolicy, compute
from detour.control.graph_files import open_topology, read_graph
from detour.control.placement.jobs import flows_of, parse_text
from detour.control.placement.place import place
from detour.control.placement.repair import repair
from detour.control.planner import plan
from detour.control.rerouting import FlowReport, ReroutingController, Thresholds
from detour.control.routers.nodes import sending_hosts
from detour.control.verifier.trace import Tracer
from detour.control.verifier.verifier import verify
from detour.fabric.backends.virtual.fabric import VirtualFabric
from detour.fabric.backends.virtual.scheme import SHORTEST_LERP
from detour.topo import Topology, parse_failure
from detour.topo.clos import leaf_spine
from detour.topo.draw import svg
from detour.topo.expander.growth import grow
from detour.topo.paths import named_switches, parse_stop, path_usids, shortest_paths

LAB = """\
name: two
topology:
  nodes:
    a: {kind: linux, image: frr}
    b: {kind: linux, image: frr}
    h0: {kind: linux, group: host}
    h1: {kind: linux, group: host}
    h2: {kind: linux, group: host}
    h3: {kind: linux, group: host}
  links:
    - endpoints: ["a:eth1", "b:eth1"]
    - endpoints: ["b:eth2", "a:eth2"]
      impairments: {delay: 2us, rate: 40000000, loss: 1.5}
    - endpoints: ["a:eth3", "h0:eth1"]
    - endpoints: ["a:eth4", "h1:eth1"]
    - endpoints: ["b:eth3", "h2:eth1"]
    - endpoints: ["b:eth4", "h3:eth1"]
"""
ENDS = [("a", "b"), ("b", "a"), ("a", "h0"), ("a", "h1"), ("b", "h2"), ("b", "h3")]
_NODES = "".join(f'<node id="{name}"/>' for name in ("a", "b", "h0", "h1", "h2", "h3"))
_NUMBER = {name: number for number, name in enumerate(("a", "b", "h0", "h1", "h2", "h3"))}
FORMS = {
    "net.clab.yml": LAB,
    "net.csv": "a,b\n" + "".join(f"{a},{b}\n" for a, b in ENDS),
    "net.json": json.dumps({
        "nodes": [{"id": name} for name in _NUMBER], "edges": [{"source": a, "target": b} for a, b in ENDS],
    }),
    "net.graphml": f'<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><graph edgedefault="undirected">{_NODES}'
    + "".join(f'<edge source="{a}" target="{b}"/>' for a, b in ENDS) + "</graph></graphml>",
    "net.gml": "graph [\n" + "".join(f'node [ id {number} label "{name}" ]\n' for name, number in _NUMBER.items())
    + "".join(f"edge [ source {_NUMBER[a]} target {_NUMBER[b]} ]\n" for a, b in ENDS) + "]\n",
    "net.ibnet": 'Switch 36 "S-1" # "a" x\n[1] "S-2"[1]\n[2] "S-2"[2]\n[3] "H-0"[1]\n[4] "H-1"[1]\n'
    'Switch 36 "S-2" # "b" x\n[3] "H-2"[1]\n[4] "H-3"[1]\n'
    + "".join(f'Ca 1 "H-{n}" # "h{n}" x\n' for n in range(4)),
    "net.txt": "?SNDlib native format; type: network; version: 1.0\nNODES (\n"
    + "".join(f"{name}\n" for name in _NUMBER) + ")\nLINKS (\n"
    + "".join(f"L{n} ( {a} {b} ) 0.00 0.00 0.00 0.00 ( 40.0 1.0 )\n" for n, (a, b) in enumerate(ENDS)) + ")\n",
}  # fmt: skip
SNDLIB = """\
<?xml version="1.0"?>
<network xmlns="http://sndlib.zib.de/network" version="1.0"><meta><unit>MBITPERSEC</unit></meta><networkStructure>
<nodes coordinatesType="geographical"><node id="A"><coordinates><x>0.0</x><y>0.0</y></coordinates></node>
<node id="B"><coordinates><x>1.0</x><y>0.0</y></coordinates></node></nodes><links>
<link id="L1"><source>A</source><target>B</target><preInstalledModule><capacity>9920.0</capacity></preInstalledModule>
<additionalModules><addModule><capacity>40000.0</capacity></addModule></additionalModules></link>
<link id="L2"><source>B</source><target>A</target><additionalModules><addModule><capacity>40000.0</capacity></addModule>
<addModule><capacity>2500.0</capacity></addModule></additionalModules></link></links></networkStructure></network>
"""


def read(folder: Path, name: str) -> Topology:
    (folder / name).write_text(FORMS[name])
    return open_topology(f"{folder}/{name}")


@pytest.fixture
def lab(tmp_path: Path) -> Topology:
    return read(tmp_path, "net.clab.yml")


@pytest.mark.parametrize("name", FORMS)
def test_every_form_keeps_them(tmp_path, name):
    topology = read(tmp_path, name)
    assert [link.name for link in topology.links if link.kind != "host"] == ["a-b", "a-b#2"]
    assert topology.link("b-a#2") is topology.link("s0-s1#2") is topology.links[-1]
    assert verify(plan(topology), topology).ok
    routes = [entry for entry in plan(topology)[1] if isinstance(entry, TableEntry) and entry.table == schema.ROUTE]
    (route,) = {frozenset(each["port"] for each in entry.members()) for entry in routes if len(entry.members()) > 1}
    assert route == {3, 4}
    assert open_topology(topology.spec) == topology


def test_impairments_of_containerlab_are_used(lab, tmp_path, caplog):
    assert lab.link("a-b#2").delay_ps == 2 * US
    assert lab.rate_bps * lab.link("a-b#2").speed == 40e9
    assert (lab.link("a-b").delay_ps, lab.link("a-b").speed) == (None, 1.0)
    (tmp_path / "again.clab.yml").write_text(LAB)
    open_topology(f"{tmp_path}/again.clab.yml")
    assert "again.clab.yml: attributes that mean nothing here are ignored: impairments.loss\n" in caplog.text


def test_capacities_and_places_of_sndlib_are_used(tmp_path):
    (tmp_path / "net.xml").write_text(SNDLIB)
    topology = open_topology(f"{tmp_path}/net.xml")
    first, second = topology.links_between(0, 1)
    assert (first.name, second.name) == ("A-B", "A-B#2")
    assert [round(topology.rate_bps * link.speed) for link in (first, second)] == [9_920_000_000, 2_500_000_000]
    assert first.delay_ps == pytest.approx(111_194.93 * 5000, rel=1e-6)
    (tmp_path / "bad.xml").write_text(SNDLIB.replace("9920.0", "much"))
    with pytest.raises(DetourError, match=r"bad\.xml, link L1: a capacity is a number"):
        open_topology(f"{tmp_path}/bad.xml")


def test_loops_are_left_out_and_attributes_of_others_ignored_with_a_line_each(tmp_path, caplog):
    rows = [{"source": a, "target": b, "speed": "100 Gbps", "bandwidth": 3} for a, b in [*ENDS, ("b", "b")]]
    (tmp_path / "net.json").write_text(json.dumps({"nodes": [{"id": name} for name in _NUMBER], "links": rows}))
    topology = open_topology(f"{tmp_path}/net.json")
    assert len(topology.links) == len(ENDS)
    assert [record.message.partition("net.json")[2] for record in caplog.records] == [
        ": left out a link from a node to itself: b",
        ": attributes that mean nothing here are ignored: speed, bandwidth",
    ]


def test_paths_name_them_by_their_ua(lab):
    source, target = lab.hosts[0], lab.hosts[2]
    ways = list(shortest_paths(lab, 0, 1))
    assert [lab.path_names(way) for way in ways] == [["a", "b"], ["a", "b#2"]]
    assert [path_usids(lab, way, target) for way in ways] == [(0xE003, target.node_id), (0xE004, target.node_id)]
    tracer = Tracer(plan(lab), lab)
    for way in ways:
        usids = path_usids(lab, way, target)
        assert tracer.trace(source, target, usids=usids).path(lab) == way == named_switches(lab, source, usids)
    assert named_switches(lab, source, (lab.switches[1].node_id, target.node_id)) is None
    assert parse_stop(lab, "b#2") == ways[1][1]
    with pytest.raises(DetourError, match="a and b have 2 links, no #3"):
        path_usids(lab, (0, parse_stop(lab, "b#3")), target)


def test_one_fails_alone(lab):
    failures = frozenset({parse_failure(lab, "a-b#2")})
    assert [lab.path_names(way) for way in shortest_paths(lab, 0, 1, failures)] == [["a", "b"]]
    entries = plan(lab, None, failures)
    assert verify(entries, lab, failures).ok
    trace = Tracer(entries, lab, failures).trace(lab.hosts[0], lab.hosts[2], usids=(0xE004, lab.hosts[2].node_id))
    assert not trace.delivered
    assert list(shortest_paths(lab, 0, 1, failures | {parse_failure(lab, "a-b")})) == []


def test_both_carry(lab):
    with VirtualFabric(lab, SHORTEST_LERP, queue_pairs=32) as fabric:
        fabric.connect([(0, 2)] * 8 + [(1, 3)] * 8)
        fabric.send(100_000)
        fabric.run(1000 * US)
        assert fabric.unfinished() == 0
        stats = fabric.network.port_stats()
        sent = dict(zip(zip(stats["device_id"], stats["port"], strict=True), stats["tx_bytes"], strict=True))
    assert min(sent[1, 3], sent[1, 4]) > 300_000


def jobs(topology: Topology, pairs: str, times: int = 1):
    job = f"{{collective: point-to-point, connections: {times}, pairs: {pairs}}}"
    return flows_of(parse_text(f"jobs: [{job}]"), topology)


def test_flows_are_placed_on_them_and_moved_when_one_fails(lab):
    placement = place(lab, jobs(lab, "[[h0, h2], {from: h1, to: h3, path: [a, b#2]}]"))
    assert [lab.path_names(placement.path(flow)) for flow in (0, 1)] == [["a", "b"], ["a", "b#2"]]
    assert (placement.collisions, placement.lower_bound) == (0, 0)
    # FRR and SONiC know uAs behind their node's uSID alone.
    assert [*sending_hosts(lab, placement)[1].lists.values()] == [{"fcbb:bb00:1:e004:8003::": 1}]
    free = place(lab, jobs(lab, "[[h0, h2], [h1, h3]]"))
    assert free.collisions == 0
    repaired = repair(free, frozenset({parse_failure(lab, "a-b")}))
    assert [lab.path_names(repaired.placement.path(flow)) for flow in (0, 1)] == [["a", "b#2"], ["a", "b#2"]]
    assert len(repaired.moved) == 1


def test_cables_of_a_clos_are_ways_of_their_own():
    """Two leaves, two spines, two cables each: four flows meet nowhere. Without one cable three carry twelve flows."""
    topology = leaf_spine(leaves=2, spines=2, hosts=4, cables=2)
    pairs = "[[h0, h4], [h1, h5], [h2, h6], [h3, h7]]"
    placement = place(topology, jobs(topology, pairs))
    assert (placement.method, placement.busiest, placement.collisions) == ("colouring", 1, 0)
    double = place(topology, jobs(topology, pairs, times=3))
    repaired = repair(double, frozenset({parse_failure(topology, "s0-s2#2")})).placement
    assert (double.busiest, repaired.busiest) == (3, 4)
    assert repaired.busiest == repaired.bound


def test_the_controller_tells_them_apart(lab):
    controller = ReroutingController(lab, Thresholds())
    first, second = shortest_paths(lab, 0, 1)
    controller.add("ill", first)
    controller.add("well", second)
    reports = [FlowReport("ill", 1e9, 0.5, 1.0, 0.0, 0.0), FlowReport("well", 1e9, 0.0, 0.0, 0.0, 0.0)]
    assert controller.decide(reports, 10**12) == {"ill": second}


def test_expander_routes_take_each(tmp_path):
    (tmp_path / "net.edges").write_text("a b\nb a\nb c\n")
    network = read_graph(f"graph:{tmp_path}/net.edges")
    routes = compute(network, PathPolicy(k=4, priorities=1))
    assert [network.topology.path_names(path) for path, _ in routes.of(0, 2)] == [["a", "b", "c"], ["a", "b#2", "c"]]
    with pytest.raises(DetourError, match="it has parallel links; only networks without them can grow"):
        grow(network, 1)


def test_they_are_drawn_side_by_side(lab):
    lines = [line for line in svg(lab).splitlines() if line.startswith("<line")]
    assert len(set(lines)) == len(lab.links)
    at = [link.get("at") for link in graph_of(lab)["links"]]
    assert at[:4] == [None] * 4
    assert at[4] != at[5]
    assert at[4] != at[5][::-1]
