# SPDX-License-Identifier: Apache-2.0
"""Who sends to whom, and what can arrive at most."""

from itertools import product

import pytest

from detour.base.errors import DetourError
from detour.experiments.nonshortest import paper
from detour.experiments.nonshortest.workloads import HOLD_OUTS, PATTERNS, ceiling, pair_count, pairs_of_load, sample
from detour.topo import parse_topology
from detour.topo.topology import HostPair

D1 = parse_topology("d1")


@pytest.mark.parametrize("name", paper.TOPOLOGIES)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_counts_are_those_of_table_2(name: str, pattern: str) -> None:
    assert pair_count(parse_topology(paper.TOPOLOGIES[name]), pattern) == paper.TABLE_2[name, pattern]


def groups(pairs: list[HostPair]) -> set[tuple[int, int]]:
    return {(D1.hosts[a].group, D1.hosts[b].group) for a, b in pairs}


def test_all_pairs_are_drawn_once() -> None:
    assert sorted(sample(D1, "unf", 4608, 3)) == [
        (a.index, b.index) for a, b in product(D1.hosts, D1.hosts) if a.group != b.group
    ]
    assert len(set(sample(D1, "adv1", 64, 3))) == 64
    assert len(set(sample(D1, "adv2", 512, 3))) == 512


def test_groups_of_the_adversarial_patterns() -> None:
    for seed in range(20):
        assert len(groups(sample(D1, "adv1", 64, seed))) == 1
        result = groups(sample(D1, "adv2", 512, seed))
        assert len({to for _, to in result}) == 1
        assert len(result) == 8
    assert len({next(iter(groups(sample(D1, "adv1", 4, seed)))) for seed in range(50)}) > 30


@pytest.mark.parametrize("pattern", HOLD_OUTS)
@pytest.mark.parametrize("spec", ["d1", "dragonfly:p=4,a=4,h=2"])
def test_all_pairs_of_the_other_patterns_are_drawn_once(spec: str, pattern: str) -> None:
    topology = parse_topology(spec)
    count = pair_count(topology, pattern)
    pairs = sample(topology, pattern, count, 3)
    assert len(set(pairs)) == count
    assert all(a != b and {a, b} <= set(range(len(topology.hosts))) for a, b in pairs)
    with pytest.raises(DetourError, match=f"there are 1 to {count}, "):
        sample(topology, pattern, count + 1, 3)


def test_a_permutation_has_every_host_once_at_each_end() -> None:
    pairs = sample(D1, "permutation", 72, 3)
    assert sorted(a for a, _ in pairs) == sorted(b for _, b in pairs) == list(range(72))
    assert sample(D1, "permutation", 72, 4) != pairs


def test_advc_goes_to_the_groups_that_follow() -> None:
    assert groups(sample(D1, "advc", pair_count(D1, "advc"), 3)) == {
        (group, (group + step) % 9) for group in range(9) for step in (1, 2)
    }


def test_bit_reverse_is_its_own_inverse() -> None:
    pairs = set(sample(D1, "bit-reverse", 56, 3))
    assert {(b, a) for a, b in pairs} == pairs
    assert (1, 32) in pairs
    assert max(map(max, pairs)) < 64


def test_two_jobs_do_not_send_to_each_other() -> None:
    pairs = sample(D1, "two-jobs", pair_count(D1, "two-jobs"), 3)
    partners: dict[int, set[int]] = {}
    for a, b in pairs:
        partners.setdefault(a, {a}).add(b)
    jobs = {frozenset(job) for job in partners.values()}
    assert sorted(map(len, jobs)) == [36, 36]
    assert len(frozenset.union(*jobs)) == 72


@pytest.mark.parametrize(
    ("pattern", "light", "heavy"),
    [("unf", 288, 1_152), ("adv1", 8, 64), ("adv2", 8, 64), ("permutation", 72, 72), ("two-jobs", 288, 1_152)],
)
def test_loads(pattern: str, light: int, heavy: int) -> None:
    assert (pairs_of_load(D1, pattern, "light"), pairs_of_load(D1, pattern, "heavy")) == (light, heavy)


def test_draws_follow_the_seed() -> None:
    assert sample(D1, "unf", 50, 7) == sample(D1, "unf", 50, 7)
    assert sample(D1, "unf", 50, 7) != sample(D1, "unf", 50, 8)


def test_sources_are_drawn_evenly() -> None:
    counts = [0] * 72
    for seed in range(40):
        for source, _ in sample(D1, "unf", 72, seed):
            counts[source] += 1
    assert 15 < min(counts) <= max(counts) < 70  # 40 expected, 6.3 is the standard deviation


@pytest.mark.parametrize(
    ("pattern", "count", "rule"),
    [
        ("adv1", 65, r"1 to 64, hosts_per_group \* hosts_per_group \(Table II\)"),
        ("adv2", 513, "1 to 512"),
        ("unf", 4609, r"1 to 4608, total_hosts"),
        ("adv1", 0, "0 pairs"),
        ("adv3", 1, "allowed: unf, adv1, adv2"),
    ],
)
def test_refusals(pattern: str, count: int, rule: str) -> None:
    with pytest.raises(DetourError, match=rule):
        sample(D1, pattern, count, 1)


def test_one_group_is_refused() -> None:
    with pytest.raises(DetourError, match="needs two groups"):
        sample(parse_topology("leaf-spine:leaves=2,spines=2,hosts=2"), "unf", 1, 1)


def test_ceilings_are_the_papers() -> None:
    for name, most in (("D1", 800), ("D2", 1800), ("D3", 3200)):
        topology = parse_topology(paper.TOPOLOGIES[name])
        for pattern in ("adv1", "adv2"):
            pairs = sample(topology, pattern, paper.TABLE_2[name, pattern], 1)
            assert ceiling(topology, pairs).gbps(10**11) == most
    one = sample(D1, "adv1", 64, 1)
    assert ceiling(D1, one, shortest_only=True).gbps(10**11) == 100
    assert ceiling(D1, one, shortest_only=True).bound == "direct links between groups"


def test_few_pairs_are_bound_by_their_hosts() -> None:
    hosts = [h.index for h in D1.hosts if h.group == 2]
    assert ceiling(D1, [(0, hosts[0]), (0, hosts[1])]).links == 1
    assert ceiling(D1, [(0, hosts[0]), (1, hosts[0]), (2, hosts[1])]).links == 2


def test_fewer_global_links_than_hosts() -> None:
    thin = parse_topology("dragonfly:p=4,a=2,h=1")
    pairs = [(a.index, b.index) for a, b in product(thin.hosts, thin.hosts) if (a.group, b.group) == (0, 1)]
    assert ceiling(thin, pairs).links == 2
    assert "global links" in ceiling(thin, pairs).bound
