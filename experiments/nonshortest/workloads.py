# SPDX-License-Identifier: Apache-2.0
"""The workloads of section IV of the non-shortest-path paper: who sends to whom, and what can arrive at most.

UNF: any host to any host of another group. ADV1: all from one group to one other. ADV2: from all groups to one. N pairs
are drawn without repetition, so Table II's counts, which are those of all pairs, are upper bounds of N.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from detour.base.errors import DetourError
from detour.topo import Topology
from detour.topo.topology import HostPair

PATTERNS = ("unf", "adv1", "adv2")

_RULES = {
    "unf": "total_hosts * (total_hosts - hosts_per_group)",
    "adv1": "hosts_per_group * hosts_per_group",
    "adv2": "(number_of_groups - 1) * hosts_per_group * hosts_per_group",
}


def pair_count(topology: Topology, pattern: str) -> int:
    """How many pairs a pattern has in all (Table II).

    Raises:
        DetourError: there is no such pattern, or the topology has no two groups of equal size.
    """
    if pattern not in _RULES:
        raise DetourError(f"there is no traffic pattern {pattern!r}; allowed: {', '.join(PATTERNS)}")
    per_group = _hosts_per_group(topology, pattern)
    hosts = len(topology.hosts)
    if pattern == "unf":
        return hosts * (hosts - per_group)
    return per_group * per_group * (1 if pattern == "adv1" else topology.groups - 1)


def _hosts_per_group(topology: Topology, pattern: str) -> int:
    sizes = set(Counter(host.group for host in topology.hosts).values())
    if topology.groups < 2:
        raise DetourError(f"pattern {pattern} needs two groups of hosts; {topology.spec} has {topology.groups}")
    if len(sizes) > 1:
        raise DetourError(f"pattern {pattern} needs groups of equal size; {topology.spec} has {sorted(sizes)} hosts")
    return sizes.pop()


def sample(topology: Topology, pattern: str, count: int, seed: int) -> list[HostPair]:
    """`count` pairs of a pattern, drawn without repetition; groups are drawn as well.

    Raises:
        DetourError: Table II's count is exceeded, or there is no such pattern.
    """
    most = pair_count(topology, pattern)
    if not 1 <= count <= most:
        raise DetourError(
            f"{count} pairs of {pattern} on {topology.spec}: there are 1 to {most}, {_RULES[pattern]} (Table II)"
        )
    rng = random.Random(f"{pattern} {seed}")
    per_group = _hosts_per_group(topology, pattern)
    by_group = [[h.index for h in topology.hosts if h.group == group] for group in range(topology.groups)]
    if pattern == "unf":
        return [_unf_pair(number, by_group, topology, per_group) for number in rng.sample(range(most), count)]
    first, second = rng.sample(range(topology.groups), 2)
    targets = by_group[second]
    sources = by_group[first]
    if pattern == "adv2":
        sources = [host for group, hosts in enumerate(by_group) if group != second for host in hosts]
    return [(sources[n // per_group], targets[n % per_group]) for n in rng.sample(range(most), count)]


def _unf_pair(number: int, by_group: list[list[int]], topology: Topology, per_group: int) -> HostPair:
    """Pair `number` of all of UNF's, in order of source and destination."""
    source, rest = divmod(number, len(topology.hosts) - per_group)
    group, position = divmod(rest, per_group)
    group += group >= topology.hosts[source].group
    return source, by_group[group][position]


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
    between = _links_between(topology)
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


def _links_between(topology: Topology) -> Counter[tuple[int, int]]:
    """Global links by (group, group), in both directions."""
    found: Counter[tuple[int, int]] = Counter()
    for link in topology.links:
        if link.kind == "global":
            a, b = (topology.switches[end[0]].group for end in (link.a, link.b))
            found[a, b] += 1
            found[b, a] += 1
    return found


def matching(pairs: Sequence[HostPair]) -> int:
    """Size of the largest set of pairs in which no source and no destination occurs twice (augmenting paths)."""
    targets: dict[int, list[int]] = {}
    for a, b in pairs:
        targets.setdefault(a, []).append(b)
    taken: dict[int, int] = {}
    return sum(_augment(source, targets, taken) for source in targets)


def _augment(start: int, targets: dict[int, list[int]], taken: dict[int, int]) -> bool:
    """Finds a place for `start` by moving others; `taken` maps destination to source."""
    for target in targets[start]:
        if target not in taken:
            taken[target] = start
            return True
    came_from: dict[int, tuple[int, int]] = {}  # destination -> (source that wants it, destination which that one has)
    queue = [(start, -1)]
    for source, has in queue:
        for target in targets[source]:
            if target in came_from:
                continue
            came_from[target] = source, has
            if target not in taken:
                while target != -1:
                    source, has = came_from[target]
                    taken[target] = source
                    target = has
                return True
            queue.append((taken[target], target))
    return False
