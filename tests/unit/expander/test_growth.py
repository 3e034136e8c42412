# SPDX-License-Identifier: Apache-2.0
"""Growth by single switches: as few links as can be are rewired, and every path stays one in as many priorities."""

import itertools

import networkx as nx
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from detour.base.errors import DetourError
from detour.control.expander.demand import near_worst
from detour.control.expander.proof import prove
from detour.control.expander.routes import PathPolicy, compute, longest_searched, share_over
from detour.control.graph_files import network_from, open_topology
from detour.topo import parse_topology
from detour.topo.expander import Expander, equal_cost_clos
from detour.topo.expander.booted import network_of
from detour.topo.expander.given import expander_of_graph, expander_of_topology
from detour.topo.expander.growth import Growth, grow

SPECS = (
    "fcplus:n=24,s=10,v=4,hosts=2", "fc:n=30,s=14,k=4,hosts=2", "jellyfish:n=30,s=7,hosts=2",
    "xpander:n=30,s=5,hosts=2", "slimfly:n=50,s=7,hosts=2",
)  # fmt: skip


def ends_of(network: Expander) -> set[tuple[int, int]]:
    return {(int(a), int(b)) for a, b in np.sort(network.links, axis=1)}


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(SPECS), st.integers(1, 4), st.integers(0, 99))
def test_links_that_move_are_as_few_as_can_be(spec, count, seed):
    base = network_of(spec if "slimfly" in spec else f"{spec},seed={seed}")
    growth = grow(base, count)
    network, old = growth.network, ends_of(base)
    degree = int(base.degrees[0])
    assert network.size == base.size + count
    assert network.degrees[: base.size].tolist() == base.degrees.tolist()
    assert set(network.degrees[base.size :].tolist()) == {degree - degree % 2}
    taken = {pair for step in growth.steps for pair in step.rewired}
    for step in growth.steps:
        assert len(step.rewired) == step.least == degree // 2
    assert set(old - ends_of(network)) == taken & old
    assert network.hosts[base.size :].tolist() == [2] * count


def stretched(growth: Growth, switches: list[int]) -> list[int]:
    """An old path with the new switches in the middle of the links that made way for them."""
    path = switches
    for step in growth.steps:
        longer = [path[0]]
        for a, b in itertools.pairwise(path):
            longer += [step.switch, b] if (min(a, b), max(a, b)) in step.rewired else [b]
        path = longer
    return path


def turns(network: Expander, switches: list[int]) -> int:
    """How often a walk goes down and up again."""
    ch, position, count = network.channels, 0, 0
    for a, b in itertools.pairwise(switches):
        c = int(np.flatnonzero(ch.neighbour[a] == b)[0])
        count += int(ch.leave[a, c]) < position
        position = int(ch.enter[a, c])
    return count


@pytest.mark.parametrize("spec", SPECS)
def test_every_old_path_stays_one_in_as_many_priorities(spec):
    base = network_of(spec)
    growth = grow(base, 3)
    longer = 0
    for _, _, switches, priorities in compute(base, PathPolicy(3, 2)):
        path = stretched(growth, switches)
        longer += len(path) > len(switches)
        assert turns(growth.network, path) == priorities[-1]
    assert longer


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("priorities", [1, 2])
def test_what_has_grown_is_routed_and_cannot_deadlock(spec, priorities):
    network = network_of(f"{spec},grown=3")
    routes = compute(network, PathPolicy(4, priorities, max_hops=5 if priorities == 1 else 12))
    assert len(routes.pairs) == network.size * (network.size - 1)
    assert prove(routes).deadlock_free
    assert len(near_worst(network).pairs) == network.size


@pytest.mark.parametrize("spec", SPECS)
def test_one_by_one_is_the_same_as_all_at_once(spec):
    base = network_of(spec)
    two, three = grow(base, 2), grow(base, 3)
    assert three.steps[:2] == two.steps
    topology = parse_topology(three.network.spec)
    assert topology == three.network.topology
    assert network_of(topology.spec).links.tolist() == three.network.links.tolist()
    assert grow(base, 0).network.spec == base.spec


def test_share_of_paths_over_links():
    network = network_of(SPECS[2])
    routes = compute(network, PathPolicy(2, 0))
    links = list(ends_of(network))[:3]
    hit = [any((min(hop), max(hop)) in links for hop in itertools.pairwise(path)) for _, _, path, _ in routes]
    assert share_over(routes, links) == pytest.approx(sum(hit) / len(hit))


def test_what_cannot_grow_says_so():
    with pytest.raises(DetourError, match="cannot grow by switches"):
        grow(equal_cost_clos(60, 12, 8), 1)
    with pytest.raises(DetourError, match="0 to 1000"):
        grow(network_of(SPECS[0]), 1001)
    with pytest.raises(DetourError, match="build a larger network"):
        grow(network_of(SPECS[0]), 500)


def drawn(n: int, p: float, seed: int) -> Expander:
    """A connected graph whose switches have different numbers of links and hosts, and links of their own speeds."""
    graph = nx.compose(nx.gnp_random_graph(n, p, seed), nx.random_labeled_tree(n, seed=seed))
    for node in graph:
        graph.nodes[node]["hosts"] = 1 + node % 3
    for a, b in graph.edges:
        graph.edges[a, b].update(speed=1 + (a + b) % 4, delay_us=float(a % 3))
    return expander_of_graph(graph, f"drawn {n} {p} {seed}")


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(6, 20), st.floats(0.2, 0.6), st.integers(0, 10**6), st.integers(1, 2), st.integers(1, 2))
def test_any_graph_grows_by_few_links(n, p, seed, count, priorities):
    base = drawn(n, p, seed)
    growth = grow(base, count)
    network, old = growth.network, ends_of(base)
    for step in growth.steps:
        assert len(step.rewired) == max(1, sorted(base.degrees.tolist())[(n - 1) // 2] // 2)
        assert network.degrees[step.switch] >= 2
    assert len(network.links) == len(base.links) + sum(len(step.rewired) for step in growth.steps)
    assert network.degrees[:n].tolist() == base.degrees.tolist()
    assert old - ends_of(network) == {pair for step in growth.steps for pair in step.rewired} & old
    for _, _, switches, levels in compute(base, policy_for(base, priorities), partial=True):
        assert turns(network, stretched(growth, switches)) == levels[-1]
    assert prove(compute(network, policy_for(network, priorities), partial=True)).deadlock_free


def policy_for(network: Expander, priorities: int) -> PathPolicy:
    return PathPolicy(2, priorities, max_hops=min(13, longest_searched(network)))


def test_halves_of_a_link_are_like_the_link():
    base = drawn(12, 0.4, 3)
    (step,) = grow(base, 1).steps
    network = grow(base, 1).network
    assert network.speed is not None
    assert network.delay_ps is not None
    assert base.speed is not None
    was = {(int(a), int(b)): row for row, (a, b) in enumerate(base.links.tolist())}
    now = {(int(a), int(b)): row for row, (a, b) in enumerate(network.links.tolist())}
    for pair in step.rewired:
        for end in pair:
            half = now[end, step.switch]
            assert network.speed[half] == base.speed[was[pair]]
            assert base.delay_ps is not None
            assert network.delay_ps[half] == base.delay_ps[was[pair]]


def test_a_network_from_a_file_grows_by_its_text(tmp_path, run_json):
    for folder in (tmp_path / "one", tmp_path / "two"):
        folder.mkdir()
        nx.write_graphml(nx.grid_2d_graph(4, 4, periodic=True), folder / "torus.graphml", named_key_ids=True)
    text = f"graph:{tmp_path}/one/torus.graphml,hosts=2"
    network = network_from(f"{text},grown=3")
    assert network.size == 19
    assert set(network.degrees.tolist()) == {4}
    assert network_from(network.spec) == network
    topology = open_topology(network.spec)
    assert expander_of_topology(topology).layer.tolist() == network.layer.tolist()
    # The same file elsewhere is the same network.
    assert network_from(text.replace("one", "two") + ",grown=3").links.tolist() == network.links.tolist()
    # What switches do is what the routes say, and cannot deadlock.
    proven = run_json("fcplus", "prove", "--topo", f"{text},grown=3", "--priorities", "2", "--k", "4")
    assert all(proven[part]["acyclic"] for part in ("installed", "plain_traffic", "failed"))
    report = run_json("fcplus", "grow", "--topo", text, "--add", "3", "--priorities", "2", "--k", "4")
    assert (report["spec"], report["rewired"], report["least"]) == (network.spec, 6, 6)
    assert all(report["acyclic"])
    for wrong, reason in (("grown=3,grown=2", "given twice"), ("grown=-1", "less than 0"), ("grown=2000", "0 to 1000")):
        with pytest.raises(DetourError, match=reason):
            network_from(f"{text},{wrong}")
    with pytest.raises(DetourError, match="has grown already"):
        grow(network, 1)
