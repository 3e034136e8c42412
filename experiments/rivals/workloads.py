# SPDX-License-Identifier: Apache-2.0
"""Who sends to whom, and what happens meanwhile, when schemes that choose paths are compared.

Patterns of the non-shortest-path paper and its hold-outs are those of `nonshortest.workloads`, at three loads where
they have loads. Added: `ring` (every host to the next, as collectives send), `all-to-all`, `incast` (as many hosts as a
group has send to one, with a permutation of all others in the background), and two events in the middle of endless
permutations: `failed-link`, `half-rate-link`, of the global link that most connections' shortest paths take.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Literal, TypeAlias

from detour.base.errors import DetourError
from detour.experiments.nonshortest import workloads
from detour.topo import Topology
from detour.topo.topology import HostPair

Load: TypeAlias = Literal["light", "medium", "heavy"]
LOADS: tuple[Load, ...] = ("light", "medium", "heavy")
LOADED = ("unf", "adv1", "adv2", "advc", "two-jobs")
"""patterns of which a part is taken, as large as a load says; the others are whole"""
EVENTS = ("failed-link", "half-rate-link")
RIVAL_PATTERNS = (*LOADED, "permutation", "bit-reverse", "ring", "all-to-all", "incast", *EVENTS)


def draw(topology: Topology, pattern: str, load: Load | None, seed: int) -> list[HostPair]:
    """The pairs of a run.

    Raises:
        DetourError: there is no such pattern, or none on this topology.
    """
    if pattern not in RIVAL_PATTERNS:
        raise DetourError(f"there is no traffic pattern {pattern!r}; allowed: {', '.join(RIVAL_PATTERNS)}")
    if pattern in LOADED:
        return workloads.sample(topology, pattern, _count(topology, pattern, load or "light"), seed)
    hosts = range(len(topology.hosts))
    if pattern == "ring":
        return [(host, (host + 1) % len(hosts)) for host in hosts]
    if pattern == "all-to-all":
        return [(a, b) for a in hosts for b in hosts if a != b]
    if pattern == "incast":
        return _incast(topology, seed)
    name = "permutation" if pattern in EVENTS else pattern
    return workloads.sample(topology, name, workloads.pair_count(topology, name), seed)


def _count(topology: Topology, pattern: str, load: Load) -> int:
    """Pairs of a load; medium is the geometric mean of the paper's two (`workloads.pairs_of_load`)."""
    light, heavy = (workloads.pairs_of_load(topology, pattern, one) for one in ("light", "heavy"))
    return {"light": light, "medium": round((light * heavy) ** 0.5), "heavy": heavy}[load]


def _incast(topology: Topology, seed: int) -> list[HostPair]:
    """Senders of the incast come first; the rest is a permutation of hosts that have no part in it."""
    rng = random.Random(f"incast {seed}")
    group = Counter(host.group for host in topology.hosts).most_common(1)[0][1]
    order = rng.sample(range(len(topology.hosts)), len(topology.hosts))
    receiver, senders, others = order[0], order[1 : 1 + group], order[1 + group :]
    return [(sender, receiver) for sender in senders] + list(zip(others, others[1:] + others[:1], strict=True))


def busiest_global_link(topology: Topology, pairs: list[HostPair]) -> int:
    """The link between two groups between which most pairs send; of several the first.

    Raises:
        DetourError: no link of this topology is a global one.
    """
    groups = Counter(
        tuple(sorted((topology.hosts[a].group, topology.hosts[b].group)))
        for a, b in pairs
        if topology.hosts[a].group != topology.hosts[b].group
    )
    links: dict[tuple[int, ...], int] = {}
    for link in topology.links:
        if link.kind == "global":
            ends = tuple(sorted(topology.switches[end[0]].group for end in (link.a, link.b)))
            links.setdefault(ends, link.index)
    if not links:
        raise DetourError(f"{topology.spec} has no global links; failed-link and half-rate-link need one")
    return links[max(links, key=lambda ends: (groups[ends], -links[ends]))]
