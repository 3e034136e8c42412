# SPDX-License-Identifier: Apache-2.0
"""Graphs of flat fabrics have the properties that their theory promises, and `detour topo` measures them."""

import json

import networkx
import numpy as np
import pytest

from detour.base.errors import DetourError
from detour.cli import main
from detour.topo import parse_topology
from detour.topo.expander import Expander
from detour.topo.expander.booted import network_of
from detour.topo.expander.fields import field, prime_power
from detour.topo.expander.polar import polarfly, polarstar
from detour.topo.measures import disjoint_paths, link_matrices, measure


def joined(network: Expander) -> np.ndarray:
    return link_matrices(network.topology)[0]


@pytest.mark.parametrize("q", [2, 4, 5, 8, 9, 27])
def test_fields_are_fields(q):
    plus, times = field(q)
    elements = np.arange(q)
    a, b, c = np.meshgrid(elements, elements, elements[:9])
    assert np.array_equal(times[a, plus[b, c]], plus[times[a, b], times[a, c]])
    assert np.array_equal(times[a, times[b, c]], times[times[a, b], c])
    assert np.array_equal(times, times.T)
    assert np.array_equal(times[1], elements)
    assert all(sorted(row) == elements.tolist() for row in times[1:].tolist())


def test_prime_powers():
    assert [q for q in range(1, 33) if prime_power(q)] == [
        2,
        3,
        4,
        5,
        7,
        8,
        9,
        11,
        13,
        16,
        17,
        19,
        23,
        25,
        27,
        29,
        31,
        32,
    ]
    assert prime_power(27) == (3, 3)


@pytest.mark.parametrize("q", [2, 3, 4, 7, 8, 9, 13])
def test_polarfly_has_quadrics_diameter_two_and_at_most_one_common_neighbour(q):
    network = polarfly(q)
    links = joined(network)
    assert network.size == q * q + q + 1
    assert sorted(network.degrees.tolist()) == [q] * (q + 1) + [q + 1] * (q * q)
    assert links.max() == 1
    common = links @ links
    apart = ~np.eye(network.size, dtype=bool)
    assert common[apart].max() == 1
    assert ((common + links)[apart] > 0).all()


@pytest.mark.parametrize(("q", "s"), [(2, 3), (3, 0), (3, 3), (4, 4), (5, 7)])
def test_polarstar_is_regular_with_diameter_three(q, s):
    network = polarstar(q, s)
    links = joined(network)
    assert network.size == (q * q + q + 1) * (2 * s + 2)
    assert set(network.degrees.tolist()) == {q + 1 + s}
    assert links.max() == 1
    near = links + np.eye(network.size, dtype=int)
    assert (near @ near @ near > 0).all()


@pytest.mark.parametrize(
    ("spec", "degree"),
    [
        ("rng:n=96,d=8,hosts=1,seed=1", 8),
        ("rng:n=96,d=8,hosts=1,seed=1,grown=5", 8),
        ("rng:n=128,d=16,hosts=1,seed=2,boxes=16", 16),
        ("rng:n=128,d=16,hosts=1,seed=1,boxes=16,grown=32", 16),
    ],
)
def test_rng_is_regular_simple_and_close_to_the_best_spectral_gap(spec, degree):
    network = network_of(spec)
    assert set(network.degrees.tolist()) == {degree}
    assert joined(network).max() == 1
    found = measure(network.topology)
    assert found.diameter <= 4
    assert found.ramanujan_gap is not None
    assert found.spectral_gap > found.ramanujan_gap - 0.05
    assert found.disjoint_paths is not None
    assert found.disjoint_paths.least == degree
    assert parse_topology(network.topology.spec) == network.topology


def test_growth_by_a_panel_keeps_most_links():
    before, after = (network_of(f"rng:n=160,d=8,hosts=1,seed=1,boxes=10{grown}") for grown in ("", ",grown=32"))
    old, new = ({tuple(link) for link in network.links.tolist()} for network in (before, after))
    assert after.size == 192
    # A panel of 2 boxes cuts 4 of 20 cables; one link more is exchanged here and there.
    assert len(old & new) >= 0.7 * len(old)


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("rng:n=5,d=3,hosts=1", r"n\*d=5\*3 is odd"),
        ("rng:n=24,d=6,hosts=2,boxes=3", "24 switches with d=6 lanes have 144; these must be equal"),
        ("rng:n=32,d=8,hosts=2,boxes=2", "it takes 5"),
        ("rng:n=24,d=6,hosts=0", "hosts=0 is less than 1"),
        ("polarfly:q=6", "5 and 7 are nearest"),
        ("polarstar:q=4,s=2", "0 or 3 modulo 4"),
    ],
)
def test_numbers_that_make_no_graph_are_refused(spec, says):
    with pytest.raises(DetourError, match=says):
        parse_topology(spec)


@pytest.mark.parametrize("spec", ["polarfly:q=3,hosts=1", "fat-tree:k=4", "rng:n=20,d=4,hosts=1", "d1"])
def test_measures_agree_with_networkx(spec):
    topology = parse_topology(spec)
    links = link_matrices(topology)[0]
    graph = networkx.from_numpy_array(links)
    tors = [index for index, hosts in enumerate(topology.hosts_of) if hosts]
    lengths = dict(networkx.all_pairs_shortest_path_length(graph))
    far = [lengths[a][b] for a in tors for b in tors if a != b]
    found = measure(topology)
    assert (found.diameter, found.mean_distance) == (max(far), pytest.approx(np.mean(far)))
    values = networkx.normalized_laplacian_spectrum(graph)
    assert found.spectral_gap == pytest.approx(sorted(values)[1])
    for a, b in [(tors[0], tors[-1]), (tors[1], tors[2])]:
        assert disjoint_paths(links, a, b) == networkx.edge_connectivity(graph, a, b)


def test_a_bisection_bound_is_the_cut_that_is_known():
    assert measure(parse_topology("fat-tree:k=4")).bisection == 1.0
    assert measure(parse_topology("leaf-spine:leaves=4,spines=2,hosts=4")).bisection == 0.5
    two_groups = parse_topology("dragonfly:p=1,a=2,h=1,g=2")
    found = measure(two_groups).bisection
    assert found == pytest.approx(2 / 2)


def test_the_command_prints_what_it_promises(capsys):
    assert main(["topo", "polarfly:q=7,hosts=4", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["switches"], found["links"], found["hosts"], found["degree"], found["diameter"]) == (
        57,
        224,
        228,
        8,
        2,
    )
    assert found["disjoint_paths"]["least"] == 7
    assert found["cost"] == {"switches": 57, "switches_and_optics": pytest.approx(57 + 0.01 * 448)}
    assert main(["topo", "polarfly:q=7,hosts=4", "--optics", "0.1"]) == 0
    assert "cost in switches         57, with optics 101.8" in capsys.readouterr().out
    assert main(["topo", "polarfly:q=7,hosts=4", "--optics", "-1"]) == 2
    assert "--optics -1.0 is less than 0" in capsys.readouterr().err
    assert main(["topo", "d1"]) == 0
    assert "diameter, mean distance  3, " in capsys.readouterr().out
