# SPDX-License-Identifier: Apache-2.0
"""LASH, DFSSSP and Nue: every route arrives, no lane has a cycle (networkx says so), and no lane is wasted."""

from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from detour.base.errors import DetourError
from detour.control.expander import comparison, forests, lanes, nue
from detour.control.expander.demand import near_worst
from detour.control.expander.enumeration import native
from detour.control.expander.proof import prove
from detour.control.expander.routes import PathPolicy, compute, of_pairs
from detour.topo.expander import Expander, fcplus, jellyfish, slimfly, xpander
from detour.topo.expander.given import expander_of_graph
from tests.native import from_python

add, drop = from_python(lanes.add), from_python(lanes.drop)

QUICK = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
NETWORKS = [
    fcplus(24, 10, 4, hosts=2, seed=1),
    jellyfish(20, 5, hosts=2, seed=2),
    xpander(20, 4, hosts=2, seed=3),
    slimfly(18, 5, hosts=2),
]


def ring(n: int) -> Expander:
    return expander_of_graph(nx.cycle_graph(n), f"ring {n}", 1)


@st.composite
def networks(draw: st.DrawFn) -> Expander:
    """Any connected graph of up to 12 switches, of which some may have no hosts."""
    n, seed = draw(st.integers(2, 12)), draw(st.integers(0, 10**6))
    p = draw(st.floats(0, 0.7))
    graph = nx.compose(nx.gnp_random_graph(n, p, seed), nx.random_labeled_tree(n, seed=seed))
    bare = draw(st.sets(st.integers(0, n - 1), max_size=n - 2))
    nx.set_node_attributes(graph, {x: int(x not in bare) for x in graph}, "hosts")
    return expander_of_graph(graph, f"random {n} {p} {seed} {sorted(bare)}")


def paths(routed: lanes.LaneRoutes) -> list[tuple[int, int, list[int], int]]:
    """(source, destination, switches, lane) of every path."""
    return [(a, b, switches, int(lane)) for (a, b, switches, _), lane in zip(routed.routes, routed.lane, strict=True)]


def check(network: Expander, routed: lanes.LaneRoutes) -> None:
    """Paths of all pairs, each along links to its end and simple, and lanes that networkx finds without cycles."""
    pairs = {(a, b) for a in network.tors.tolist() for b in network.tors.tolist() if a != b}
    links = {frozenset(link) for link in network.links.tolist()}
    waits = [nx.DiGraph() for _ in range(routed.lanes)]
    listed = paths(routed)
    assert {(a, b) for a, b, _, _ in listed} == pairs
    for a, b, switches, lane in listed:
        hops = list(pairwise(switches))
        assert (switches[0], switches[-1], len(set(switches))) == (a, b, len(switches))
        assert all(frozenset(hop) in links for hop in hops)
        waits[lane].add_edges_from(pairwise(hops))
    assert all(nx.is_directed_acyclic_graph(each) for each in waits)
    proof = prove(routed.routes, routed.lane)
    assert proof.deadlock_free
    assert [layer.dependencies for layer in proof.priorities] == [each.number_of_edges() for each in waits]


@QUICK
@given(networks(), st.integers(1, 3), st.integers(0, 9))
def test_lash_and_dfsssp_on_any_graph(network, trees, seed):
    routes = forests.balanced(network, trees, seed)
    shortest = dict(nx.all_pairs_shortest_path_length(nx.Graph(network.links.tolist())))
    assert all(len(switches) - 1 == shortest[a][b] for a, b, switches, _ in routes)
    assert all(1 <= count <= trees for count in np.diff(routes.first).tolist())
    for routed in (lanes.lash(routes), lanes.break_cycles(routes)):
        check(network, routed)


@QUICK
@given(networks(), st.integers(1, 4), st.integers(1, 3), st.integers(0, 9))
def test_nue_on_any_graph_in_any_number_of_lanes(network, bound, trees, seed):
    result = nue.nue(network, bound, trees, seed)
    assert result.lanes.lanes <= bound
    assert result.trees == trees * len(network.tors)
    check(network, result.lanes)


@pytest.mark.parametrize("network", NETWORKS, ids=lambda network: network.family)
def test_networks_of_the_families(network):
    routes = forests.balanced(network)
    for routed in (lanes.lash(routes), lanes.break_cycles(routes), lanes.lash(compute(network, PathPolicy(4, 0)))):
        check(network, routed)
    for bound in (1, 2):
        check(network, nue.nue(network, bound).lanes)


@QUICK
@given(networks(), st.integers(1, 3))
def test_lash_puts_a_path_behind_lanes_in_which_it_closes_a_cycle(network, trees):
    waits: list[nx.DiGraph] = []
    for _, _, switches, lane in paths(lanes.lash(forests.balanced(network, trees))):
        edges = list(pairwise(pairwise(switches)))
        for earlier in waits[:lane]:
            assert not nx.is_directed_acyclic_graph(nx.compose(earlier, nx.DiGraph(edges)))
        if lane == len(waits):
            waits.append(nx.DiGraph())
        waits[lane].add_edges_from(edges)


@pytest.mark.parametrize("n", [5, 6, 9])
def test_a_ring_takes_two_lanes_for_shortest_paths_and_nue_one(n):
    """Both ways around a ring of five and more close a cycle (Dally and Seitz, 1987); Nue leaves a link out."""
    routes = forests.balanced(ring(n), 1)
    assert lanes.lash(routes).lanes == lanes.break_cycles(routes).lanes == 2
    one, two = nue.nue(ring(n), 1, 1), nue.nue(ring(n), 2, 1)
    assert one.lanes.lanes == 1
    assert one.lanes.routes.mean_length >= two.lanes.routes.mean_length >= routes.mean_length
    assert one.lanes.routes.mean_length > routes.mean_length


def test_nue_seldom_escapes_where_there_are_many_ways():
    result = nue.nue(NETWORKS[0], 1)
    assert result.escaped <= result.trees // 10


@QUICK
@given(networks(), st.data())
def test_the_order_refuses_what_closes_a_cycle_and_nothing_else(network, data):
    """Beside a graph of networkx, with dependencies that come and go."""
    ch = native(network.channels)
    width = ch.neighbour.shape[1]
    order, graph = lanes.empty_order(ch), nx.DiGraph()
    every = [
        (x * width + c, d)
        for x, c in np.argwhere(ch.neighbour >= 0).tolist()
        for d in np.flatnonzero(ch.neighbour[ch.neighbour[x, c]] >= 0).tolist()
    ]
    for i, d in data.draw(st.lists(st.sampled_from(every), max_size=80)):
        to = int(ch.neighbour[i // width, i % width]) * width + d
        if graph.has_edge(i, to) and data.draw(st.booleans()):
            drop(i, d, order)
            graph.remove_edge(i, to)
            continue
        if graph.has_edge(i, to):
            continue
        graph.add_edge(i, to)
        fits = nx.is_directed_acyclic_graph(graph)
        assert add(i, d, ch, order) == fits
        if not fits:
            graph.remove_edge(i, to)
    assert not order.seen.any()
    assert all(order.place[a] < order.place[b] for a, b in graph.edges)


def test_a_planted_cycle_is_found():
    """The ring's paths in a single lane are what the checker must not let pass."""
    routes = forests.balanced(ring(6), 1)
    assert not prove(routes, np.zeros(routes.total, np.uint8)).deadlock_free


def test_paths_of_some_pairs():
    routes = compute(NETWORKS[1], PathPolicy(3, 2))
    some = of_pairs(routes, np.array([[7, 2], [0, 9]], np.int32))
    assert [path for _, _, path, _ in some] == [p for p, _ in routes.of(7, 2)] + [p for p, _ in routes.of(0, 9)]
    with pytest.raises(DetourError, match="from s3 to s3"):
        of_pairs(routes, np.array([[3, 3]], np.int32))


def test_all_routings_beside_each_other():
    network = NETWORKS[1]
    demand = near_worst(network)
    compared = comparison.compare(network, "near-worst", demand, comparison.Terms(6, None, (1, 3)))
    assert [(row.scheme, row.bound) for row in compared.rows] == [
        ("df-ksp", 1), ("df-ksp", 3), ("ksp-lash", None), ("lash", None), ("dfsssp", None), ("nue", 1), ("nue", 3)
    ]  # fmt: skip
    assert all(row.acyclic for row in compared.rows)
    assert all(row.priorities <= row.bound for row in compared.rows if row.bound)
    by_name = {(row.scheme, row.bound): row for row in compared.rows}
    assert by_name["lash", None].mean_hops == by_name["dfsssp", None].mean_hops
    assert by_name["df-ksp", 3].theta >= by_name["df-ksp", 1].theta * 0.999
    assert compared.trees == 2


@pytest.mark.parametrize(
    ("terms", "reason"),
    [
        (comparison.Terms(bounds=(0,)), "0 priorities"),
        (comparison.Terms(schemes=("ecmp",)), "routing 'ecmp'"),
        (comparison.Terms(trees=0), "0 trees"),
        (comparison.Terms(seed=-1), "less than 0"),
    ],
)
def test_terms_that_make_no_sense(terms, reason):
    with pytest.raises(DetourError, match=reason):
        comparison.compare(NETWORKS[1], "near-worst", near_worst(NETWORKS[1]), terms)
