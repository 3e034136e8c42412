# SPDX-License-Identifier: Apache-2.0
"""Expanders: degrees, layers, no loops and parallel links, rules that are refused, topologies that can be booted."""

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from detour.base.errors import DetourError
from detour.control.expander.demand import hop_distances
from detour.topo import parse_topology
from detour.topo.expander import Expander, booted, equal_cost_clos, fc, fcplus, jellyfish, slimfly, xpander
from detour.topo.expander.folded import choose_shape
from detour.topo.expander.layered import choose_v, gap_degrees, layers_per_group
from detour.topo.failures import parse_failure

SOME = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)


def is_simple(network: Expander) -> bool:
    ends = {tuple(sorted(link)) for link in network.links.tolist()}
    return len(ends) == len(network.links) and all(a != b for a, b in ends)


def layer_members(network: Expander) -> dict[int, set[int]]:
    """Switches that have a link end in each layer."""
    members: dict[int, set[int]] = {}
    for switch, layer in zip(network.links.ravel().tolist(), network.layer.ravel().tolist(), strict=True):
        members.setdefault(layer, set()).add(switch)
    return members


@SOME
@given(st.sampled_from([(10, 4), (10, 6), (18, 4), (18, 6), (18, 10), (22, 4), (6, 3)]), st.integers(0, 9), st.data())
def test_fcplus_is_what_section_three_says(shape, times, data):
    s, v = shape
    group = layers_per_group(s, v)
    n = group * (times + -(-3 * s // group))
    network = fcplus(n, s, v, hosts=2, seed=data.draw(st.integers(0, 10**6)))
    assert is_simple(network)
    assert set(network.degrees.tolist()) == {s}
    assert network.layers == (s - 2) // 2 + 2
    # Links join adjacent layers, and every layer of a group has n / N_gl switches.
    assert set(abs(network.layer[:, 0] - network.layer[:, 1]).tolist()) == {1}
    sizes = {layer: len(members) for layer, members in layer_members(network).items()}
    assert sizes.pop(1) == sizes.pop(network.layers) == n
    assert set(sizes.values()) == {n // group}
    check_virtual_switches(network, v, group)


def check_virtual_switches(network: Expander, v: int, group: int) -> None:
    """Each is in one layer of its group and has N_gl links up and N_gl down, 1 at the ends."""
    up: dict[tuple[int, int, int], list[int]] = {}
    for ends, virtual, layer in zip(
        network.links.tolist(), network.virtual.tolist(), network.layer.tolist(), strict=True
    ):
        for i in (0, 1):
            counts = up.setdefault((ends[i], virtual[i], layer[i]), [0, 0])
            counts[layer[i] < layer[1 - i]] += 1
    assert len(up) == network.size * v  # so no virtual switch is in two layers
    for (_, j, layer), counts in up.items():
        if j in (1, v):
            assert counts == ([0, 1] if j == 1 else [1, 0])
        else:
            assert counts == [group, group]
            assert (layer - 2) // group == j - 2


@SOME
@given(st.integers(2, 8), st.integers(0, 1000), st.integers(20, 60))
def test_fc_has_every_switch_in_every_layer(k, seed, n):
    network = fc(n, 14, k, hosts=1, seed=seed)
    assert is_simple(network)
    assert set(network.degrees.tolist()) == {14}
    assert {layer: len(members) for layer, members in layer_members(network).items()} == dict.fromkeys(
        range(1, k + 1), n
    )


@SOME
@given(st.integers(3, 9), st.integers(2, 6), st.integers(0, 1000))
def test_flat_expanders_are_regular_and_connected(s, times, seed):
    n = (s + 1) * times
    assume(n * s % 2 == 0)
    for network in (jellyfish(n, s, hosts=1, seed=seed), xpander(n, s, hosts=1, seed=seed)):
        assert is_simple(network)
        assert set(network.degrees.tolist()) == {s}
        hop_distances(network)
    lifted = xpander(n, s, hosts=1, seed=seed)
    assert all(a // times != b // times for a, b in lifted.links.tolist())


@pytest.mark.parametrize("q", [3, 5, 7, 11, 13])
def test_slim_fly_has_the_degree_that_it_should_and_diameter_two(q):
    network = slimfly(2 * q * q, (3 * q - (1 if q % 4 == 1 else -1)) // 2, hosts=1)
    assert is_simple(network)
    assert set(network.degrees.tolist()) == {network.degrees[0]}
    assert 2 * len(network.links) == network.size * int(network.degrees[0])
    assert hop_distances(network).max() == 2


@SOME
@given(st.integers(3, 6), st.integers(0, 1000))
def test_every_switch_is_a_layer_and_all_but_one_have_a_link_up(s, seed):
    network = jellyfish(6 * s, s, hosts=1, seed=seed)
    height = dict(zip(network.links.ravel().tolist(), network.layer.ravel().tolist(), strict=True))
    assert sorted(height.values()) == list(range(1, network.size + 1))
    ups = {min(link, key=height.__getitem__) for link in network.links.tolist()}
    assert ups == set(range(network.size)) - {0}


def test_same_seed_same_wiring_and_another_one_another():
    again = [fcplus(60, 18, 4, seed=seed).links for seed in (3, 3, 4)]
    assert np.array_equal(again[0], again[1])
    assert not np.array_equal(again[0], again[2])


@pytest.mark.parametrize(("s", "v"), [(18, 4), (22, 4), (10, 3), (30, 9)])
def test_the_papers_strategy(s, v):
    assert choose_v(s) == v
    assert layers_per_group(s, v) <= 5


def test_fc_shares_its_links_out_evenly():
    assert gap_degrees(18, 4) == [3, 3, 3]
    assert gap_degrees(18, 5) == [3, 2, 2, 2]
    assert gap_degrees(18, 10) == [1] * 9


def test_the_clos_of_table_eight():
    network = equal_cost_clos(1200, 120)
    assert choose_shape(1200, 120) == (58, 4, 11, 22)
    assert (network.size, int(network.hosts.sum()), network.tors.size) == (124, 1200, 58)
    assert is_simple(network)
    assert int((network.hosts + network.degrees).max()) <= 32
    assert set(network.degrees[-22:].tolist()) == {32}
    # Any edge reaches any other over the cores of all pods.
    assert hop_distances(network)[np.ix_(network.tors, network.tors)].max() == 4


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (lambda: fcplus(121, 22), "n=121 is not divisible by N_gl=5"),
        (lambda: fcplus(120, 21), "s=21 must be even"),
        (lambda: fcplus(120, 18, 5), "v may be 3, 4, 6, 10"),
        (lambda: fcplus(120, 18, 11), "from 3 to k=10"),
        (lambda: fcplus(16, 18, 4), "n=16, but s=18 links to different switches take 19 or more"),
        (lambda: fcplus(-3, 22), "n=-3, but s=22 links to different switches take 23 or more"),
        (lambda: slimfly(-4, 22), "n=18, s=5 and n=50, s=7 are the nearest"),
        (lambda: equal_cost_clos(-112, 120), "expected at least 1"),
        (lambda: fcplus(120, 32), "leave at least 1 port"),
        (lambda: fcplus(20, 18, 4), "no wiring without loops and parallel links"),
        (lambda: fc(100, 18, 11), "allows 2 to 10"),
        (lambda: fc(100, 17, 4), "s=17 is odd"),
        (lambda: jellyfish(21, 3), "n*s=21*3 is odd"),
        (lambda: xpander(21, 3), "not divisible by s+1=4"),
        (lambda: equal_cost_clos(10, 120), "no third layer"),
        (lambda: slimfly(120, 22), "n=98, s=11 and n=162, s=13 are the nearest"),
        (lambda: slimfly(50, 8), "there is no graph of n=50 and s=8; "),
        (lambda: slimfly(578, 25, p=20), "-5 hosts a switch"),
    ],
)
def test_impossible_parameters_are_refused_with_the_rule(build, text):
    with pytest.raises(DetourError) as error:
        build()
    assert text in str(error.value)


@pytest.mark.parametrize(
    "spec",
    [
        "fcplus:n=24,s=10,v=4,hosts=2,seed=5", "fc:n=24,s=10,k=4,hosts=2,seed=5",
        "jellyfish:n=20,s=4,hosts=2,seed=5", "xpander:n=20,s=4,hosts=2,seed=5", "slimfly:n=18,s=5,hosts=2",
        "equal-cost-clos:servers=60,switches=40,p=8",
    ],
)  # fmt: skip
def test_topologies_from_texts(spec):
    topology = parse_topology(spec)
    network = booted.network_of(spec)
    assert topology.spec == network.spec == spec
    assert len(topology.hosts) == int(network.hosts.sum())
    # Column c of a switch is its port hosts + 1 + c.
    for switch in topology.switches:
        for column, peer in enumerate(network.channels.neighbour[switch.index].tolist()):
            if peer >= 0:
                behind = switch.peer(int(network.hosts[switch.index]) + 1 + column)
                assert behind is not None
                assert behind.index == peer


def test_default_v_and_hosts_are_spelled_out():
    assert parse_topology("fcplus:n=60,s=22").spec == "fcplus:n=60,s=22,v=4,hosts=10,seed=1"


def test_a_network_with_links_down_has_the_same_columns_and_no_way_over_them():
    network = fcplus(24, 10, 4, hosts=2, seed=3)
    names = [f"s{s}-s{network.channels.neighbour[s, c]}" for s, c in ((0, 0), (5, 3))]
    broken = network.under(frozenset(parse_failure(network.topology, name) for name in names))
    gone = {frozenset(int(end[1:]) for end in name.split("-")) for name in names}
    assert {frozenset(network.links[row].tolist()) for row in broken.down} == gone
    assert broken.speeds.sum() == len(network.links) - 2
    assert broken != network
    assert broken.without(()) == network
    for whole, left in zip(network.channels, broken.channels, strict=True):
        for s, c in np.ndindex(*whole.shape):
            dead = frozenset((s, int(network.channels.neighbour[s, c]))) in gone
            assert left[s, c] == (-1 if dead else whole[s, c])


def test_between_parts_it_is_farther_than_any_path_goes():
    network = fcplus(12, 6, 3, hosts=1, seed=1)
    cut = [row for row, ends in enumerate(network.links.tolist()) if 4 in ends]
    parts = network.without(cut)
    with pytest.raises(DetourError, match="there is no path from s0 to s4"):
        hop_distances(parts)
    distances = hop_distances(parts, partial=True)
    others = [x for x in range(12) if x != 4]
    assert (distances[4, others] == 12).all()
    assert (distances[others, 4] == 12).all()
    assert distances[np.ix_(others, others)].max() < 6
    assert hop_distances(network, partial=True).tolist() == hop_distances(network).tolist()
