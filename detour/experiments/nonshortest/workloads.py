# SPDX-License-Identifier: Apache-2.0
"""Workloads: who sends to whom, and what can arrive at most.

Those of section IV of the non-shortest-path paper are UNF: any host to any host of another group. ADV1: all from one
group to one other. ADV2: from all groups to one. N pairs are drawn without repetition, so Table II's counts, which are
those of all pairs, are upper bounds of N.

Four more are hold-outs, on which no setting of any scheme was chosen: `permutation`, of all hosts; `advc`, from every
group to the h that follow it, h global links a switch (adversarial consecutive: Fuentes et al., "Throughput unfairness
in Dragonfly networks under realistic traffic patterns", 2015); `bit-reverse`, as FFTs send; `two-jobs`: hosts belong to
one of two jobs at random, and those of a job send to each other.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from detour.base.errors import DetourError
from detour.experiments.nonshortest.paper import LoadLevel
from detour.topo import Topology
from detour.topo.topology import HostPair

PATTERNS = ("unf", "adv1", "adv2")
"""the paper's"""
HOLD_OUTS = ("permutation", "advc", "bit-reverse", "two-jobs")


def pair_count(topology: Topology, pattern: str) -> int:
    """Number of pairs a pattern has in all. Raises `DetourError`: there is no such pattern, or the topology has no two
    groups of equal size."""
    if pattern not in _RULES:
        raise DetourError(f"there is no traffic pattern {pattern!r}; allowed: {', '.join(_RULES)}")
    return _RULES[pattern].count(topology, _hosts_per_group(topology, pattern))


def pairs_of_load(topology: Topology, pattern: str, load: LoadLevel) -> int:
    """The number of pairs that stands for a load. The paper does not give those of its loads; ours is a choice.

    ADV1, ADV2: light is as many connections as a group has hosts, heavy eight times that. Other patterns: light is four
    times, heavy sixteen times the hosts (on D1 "1000 connections or more" of UNF are medium and high load, section
    IV-B), or all that the pattern has."""
    if pattern in ("adv1", "adv2"):
        return _hosts_per_group(topology, pattern) * (1 if load == "light" else 8)
    return min(len(topology.hosts) * (4 if load == "light" else 16), pair_count(topology, pattern))


def _hosts_per_group(topology: Topology, pattern: str) -> int:
    sizes = set(Counter(host.group for host in topology.hosts).values())
    if topology.groups < 2:
        raise DetourError(f"pattern {pattern} needs two groups of hosts; {topology.spec} has {topology.groups}")
    if len(sizes) > 1:
        raise DetourError(f"pattern {pattern} needs groups of equal size; {topology.spec} has {sorted(sizes)} hosts")
    return sizes.pop()


def _followers(topology: Topology) -> int:
    """Groups that a group of `advc` sends to: as many as a switch has global links, but not all others."""
    degree = Counter(end[0] for link in topology.links if link.kind == "global" for end in (link.a, link.b))
    return min(max(degree.values(), default=1), topology.groups - 1)


def _mirrored(hosts: int) -> list[HostPair]:
    """Hosts whose numbers have the same bits in reverse order, of as many as a power of two has."""
    bits = hosts.bit_length() - 1
    pairs = [(number, int(f"{number:0{bits}b}"[::-1], 2)) for number in range(1 << bits)]
    return [(a, b) for a, b in pairs if a != b]


def sample(topology: Topology, pattern: str, count: int, seed: int) -> list[HostPair]:
    """`count` pairs of a pattern, drawn without repetition; groups, permutations and jobs are drawn as well. Raises
    `DetourError`: there are not so many, or there is no such pattern."""
    most = pair_count(topology, pattern)
    if not 1 <= count <= most:
        raise DetourError(
            f"{count} pairs of {pattern} on {topology.spec}: there are 1 to {most}, {_RULES[pattern].text}"
        )
    rng = random.Random(f"{pattern} {seed}")
    by_group = [[h.index for h in topology.hosts if h.group == group] for group in range(topology.groups)]
    numbered = _RULES[pattern].numbered(topology, by_group, rng)
    return [numbered(number) for number in rng.sample(range(most), count)]


Numbered = Callable[[int], HostPair]
"""a pair by its number among all of a pattern"""
Groups = list[list[int]]
"""hosts by group"""


def _unf(topology: Topology, by_group: Groups, rng: random.Random) -> Numbered:
    per_group = len(by_group[0])

    def pair(number: int) -> HostPair:
        source, rest = divmod(number, len(topology.hosts) - per_group)
        group, position = divmod(rest, per_group)
        group += group >= topology.hosts[source].group
        return source, by_group[group][position]

    return pair


def _adv1(topology: Topology, by_group: Groups, rng: random.Random) -> Numbered:
    first, second = rng.sample(range(topology.groups), 2)
    return _each_to_each(by_group[first], by_group[second])


def _adv2(topology: Topology, by_group: Groups, rng: random.Random) -> Numbered:
    _, target = rng.sample(range(topology.groups), 2)
    sources = [host for group, hosts in enumerate(by_group) if group != target for host in hosts]
    return _each_to_each(sources, by_group[target])


def _each_to_each(sources: Sequence[int], targets: Sequence[int]) -> Numbered:
    return lambda number: (sources[number // len(targets)], targets[number % len(targets)])


def _permutation(topology: Topology, by_group: Groups, rng: random.Random) -> Numbered:
    """One circle through all hosts in random order, so that nobody sends to itself."""
    order = rng.sample(range(len(topology.hosts)), len(topology.hosts))
    return lambda number: (order[number], order[(number + 1) % len(order)])


def _advc(topology: Topology, by_group: Groups, rng: random.Random) -> Numbered:
    followers, per_group = _followers(topology), len(by_group[0])

    def pair(number: int) -> HostPair:
        source, rest = divmod(number, followers * per_group)
        step, position = divmod(rest, per_group)
        return source, by_group[(topology.hosts[source].group + 1 + step) % topology.groups][position]

    return pair


def _two_jobs(topology: Topology, by_group: Groups, rng: random.Random) -> Numbered:
    order = rng.sample(range(len(topology.hosts)), len(topology.hosts))
    half = len(order) // 2
    jobs, first = (order[:half], order[half:]), half * (half - 1)

    def pair(number: int) -> HostPair:
        job, number = (jobs[0], number) if number < first else (jobs[1], number - first)
        source, target = divmod(number, len(job) - 1)
        return job[source], job[target + (target >= source)]

    return pair


class _Rule(NamedTuple):
    """A pattern: how many pairs it has, in words and of (topology, hosts of a group), and which they are."""

    text: str
    count: Callable[[Topology, int], int]
    numbered: Callable[[Topology, Groups, random.Random], Numbered]


_RULES = {
    "unf": _Rule(
        "total_hosts * (total_hosts - hosts_per_group) (Table II)",
        lambda topology, group: len(topology.hosts) * (len(topology.hosts) - group), _unf,
    ),
    "adv1": _Rule("hosts_per_group * hosts_per_group (Table II)", lambda topology, group: group * group, _adv1),
    "adv2": _Rule(
        "(number_of_groups - 1) * hosts_per_group * hosts_per_group (Table II)",
        lambda topology, group: (topology.groups - 1) * group * group, _adv2,
    ),
    "permutation": _Rule("one for every host", lambda topology, _: len(topology.hosts), _permutation),
    "advc": _Rule(
        "total_hosts * h * hosts_per_group",
        lambda topology, group: len(topology.hosts) * _followers(topology) * group, _advc,
    ),
    "bit-reverse": _Rule(
        "one for every host number that is not its own mirror image",
        lambda topology, _: len(_mirrored(len(topology.hosts))),
        lambda topology, by_group, rng: _mirrored(len(topology.hosts)).__getitem__,
    ),
    "two-jobs": _Rule(
        "those of different hosts of one job",
        lambda topology, _: sum(n // 2 * (n // 2 - 1) for n in (len(topology.hosts), len(topology.hosts) + 1)),
        _two_jobs,
    ),
}  # fmt: skip


# -- ceilings -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ceiling:
    """The most that can arrive, in links of full rate, and the bound that says so."""

    links: int
    bound: str

    def gbps(self, rate_bps: int) -> float:
        """As a rate."""
        return self.links * rate_bps / 1e9


def ceiling(topology: Topology, pairs: Sequence[HostPair], *, shortest_only: bool = False) -> Ceiling:
    """Upper bound of what a set of pairs can carry, the least of these three (none of them counts ACKs or probes):

    * hosts' links: the largest matching of sources with destinations. Rates that fill no host's link beyond 1 are a
      convex combination of matchings (Birkhoff, von Neumann), so this is exact as far as hosts are concerned.
    * links out of and into groups: per group the smaller of its hosts that take part and its global links.
    * `shortest_only`: the direct links of the pairs of groups that occur.
    """
    groups = [(topology.hosts[a].group, topology.hosts[b].group) for a, b in pairs]
    # Global links by (group, group), in both directions.
    between: Counter[tuple[int, int]] = Counter()
    for link in topology.links:
        if link.kind == "global":
            a, b = (topology.switches[end[0]].group for end in (link.a, link.b))
            between[a, b] += 1
            between[b, a] += 1
    bounds = [Ceiling(matching(pairs), "links of hosts")]
    for side, what in ((0, "global links out of groups"), (1, "global links into groups")):
        hosts = {(group[side], pair[side]) for group, pair in zip(groups, pairs, strict=True) if group[0] != group[1]}
        inside = len({pair[side] for group, pair in zip(groups, pairs, strict=True) if group[0] == group[1]})
        used = Counter(group for group, _ in hosts)
        total = sum(min(n, sum(k for ends, k in between.items() if ends[0] == g)) for g, n in used.items())
        bounds.append(Ceiling(total + inside, what))
    if shortest_only:
        direct = sum(between[ends] for ends in {ends for ends in groups if ends[0] != ends[1]})
        bounds.append(Ceiling(direct + sum(a == b for a, b in groups), "direct links between groups"))
    return min(bounds, key=lambda bound: bound.links)


def matching(pairs: Sequence[HostPair]) -> int:
    """Size of the largest set of pairs in which no source and no destination occurs twice."""
    import networkx

    graph = networkx.Graph((source, ~target) for source, target in pairs)  # numbers below 0 are destinations
    return len(networkx.bipartite.hopcroft_karp_matching(graph, {source for source, _ in pairs})) // 2
