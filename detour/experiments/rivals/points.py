# SPDX-License-Identifier: Apache-2.0
"""Points that compare schemes which choose paths: topologies, patterns, sizes of messages, schemes, draws; and the runs
behind docs/rivals.md, in a file that the repository keeps: more are added, and the page is made again.

Patterns of the non-shortest-path paper and its hold-outs are those of `nonshortest.workloads`, at three loads where
they have loads. Added: `ring` (every host to the next, as collectives send), `all-to-all`, `incast` (as many hosts as a
group has send to one, with a permutation of all others in the background), and two events in the middle of endless
permutations: `failed-link`, `half-rate-link`, of the global link that most connections' shortest paths take.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from detour.base.dataplane import PACKET_BYTES
from detour.base.errors import DetourError
from detour.base.records import decoder, extended
from detour.base.times import US
from detour.experiments.nonshortest import workloads
from detour.experiments.nonshortest.experiment import find_topology
from detour.experiments.nonshortest.workloads import ceiling
from detour.experiments.rivals.schemes import RIVAL_SCHEMES
from detour.experiments.running import RunTimes
from detour.experiments.steady import draws_of
from detour.experiments.store import archived
from detour.fabric.backends.virtual.scheme import (
    BENCHMARK_DCTCP,
    SPRAY_LERP,
    TELEMETRY_LERP,
    LinkSettings,
    scheme,
)
from detour.topo import Topology
from detour.topo.topology import HostPair

Load: TypeAlias = Literal["light", "medium", "heavy"]
LOADS: tuple[Load, ...] = get_args(Load)
LOADED = ("unf", "adv1", "adv2", "advc", "two-jobs")
"""patterns of which a part is taken, as large as a load says; the others are whole"""
EVENTS = ("failed-link", "half-rate-link")
RIVAL_PATTERNS = (*LOADED, "permutation", "bit-reverse", "ring", "all-to-all", "incast", *EVENTS)


def draw(topology: Topology, pattern: str, load: Load | None, seed: int) -> list[HostPair]:
    """The pairs of a run. Raises `DetourError`: there is no such pattern, or none on this topology."""
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
        # Senders of the incast come first; the rest is a permutation of hosts that have no part in it.
        rng = random.Random(f"incast {seed}")
        group = Counter(host.group for host in topology.hosts).most_common(1)[0][1]
        order = rng.sample(range(len(topology.hosts)), len(topology.hosts))
        receiver, senders, others = order[0], order[1 : 1 + group], order[1 + group :]
        return [(sender, receiver) for sender in senders] + list(zip(others, others[1:] + others[:1], strict=True))
    name = "permutation" if pattern in EVENTS else pattern
    return workloads.sample(topology, name, workloads.pair_count(topology, name), seed)


def _count(topology: Topology, pattern: str, load: Load) -> int:
    """Pairs of a load; medium is the geometric mean of the paper's two (`workloads.pairs_of_load`)."""
    light, heavy = (workloads.pairs_of_load(topology, pattern, end) for end in ("light", "heavy"))
    return {"light": light, "medium": round((light * heavy) ** 0.5), "heavy": heavy}[load]


def busiest_global_link(topology: Topology, pairs: list[HostPair]) -> int:
    """The link between two groups between which most pairs send; of several the first. Raises `DetourError`: no link of
    this topology is a global one."""
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


COMPARED = (SPRAY_LERP.name, TELEMETRY_LERP.name, BENCHMARK_DCTCP.name, *(rival.name for rival in RIVAL_SCHEMES))
SIZES = (0, 64_000, 1_000_000, 100_000_000)
"""bytes of a message; 0: connections that send without end"""
HOLD_OUT = ("dragonfly:p=2,a=8,h=4", "dragonfly:p=4,a=4,h=2")
"""topologies on which nothing was chosen"""
_QUICK_SCHEMES = (SPRAY_LERP.name, TELEMETRY_LERP.name, BENCHMARK_DCTCP.name, "LERP-shortest", "REPS", "Spritz-Spray")
_QUICK_PATTERNS = ("unf", "adv1", "permutation", "incast", "failed-link")
_ENDLESS_US = {"quick": 1_500, "normal": 1_500, "full": 6_000}
EVENT_US, AFTER_US, AFTERWARDS_STEP_PS = 400, 1_600, 1 * US
"""a link breaks then; for so long it is watched what becomes of it, and how often"""
_LARGER = 0.4
_HOPS_A_SECOND = 700_000


@dataclass(frozen=True, kw_only=True)
class RivalCase:
    """One scheme with one draw of pairs. `message_bytes` 0: endless connections."""

    topology: str
    pattern: str
    load: Load | None
    message_bytes: int
    scheme: str
    seed: int


@dataclass(frozen=True, kw_only=True)
class RivalPoint(RivalCase, RunTimes):
    """One run."""

    experiment: Literal["rivals"] = "rivals"


@dataclass(frozen=True)
class RivalSelection:
    """A selection of runs: all combinations that there are. `draws`: of pairs."""

    topologies: Sequence[str]
    patterns: Sequence[str]
    sizes: Sequence[int]
    schemes: Sequence[str]
    draws: int
    extent: str


def usual(extent: str) -> RivalSelection:
    """`quick`: D1, six schemes, one draw, and no other run than those that `normal` has as well; `normal`: D1 and the
    two Dragonflies on which nothing was chosen, all patterns and schemes, five draws; `full`: D2, D3 and messages of
    100 MB besides, and longer runs."""
    if extent == "quick":
        return RivalSelection(("D1",), _QUICK_PATTERNS, SIZES[:3], _QUICK_SCHEMES, 1, extent)
    topologies = ("D1", *HOLD_OUT) if extent == "normal" else ("D1", "D2", "D3", *HOLD_OUT)
    sizes = SIZES if extent == "full" else SIZES[:3]
    return RivalSelection(topologies, RIVAL_PATTERNS, sizes, COMPARED, draws_of(extent), extent)


def select(what: RivalSelection) -> list[RivalPoint]:
    """The points, checked before anything runs. Raises `DetourError`: no such topology, pattern, size or scheme."""
    points = []
    for size in what.sizes:
        if size and not 1 <= size <= 1 << 36:
            raise DetourError(f"a message of {size} bytes; expected 1 to 2**36, or 0 for connections without end")
    schemes = [scheme(chosen).name for chosen in what.schemes]
    for name in what.topologies:
        called, topology = find_topology(name)
        endless_us = _ENDLESS_US[what.extent] * min(1.0, (72 / len(topology.hosts)) ** _LARGER)
        times = RunTimes(virtual_us=round(max(600, endless_us)), tolerance=0.02)
        for pattern in what.patterns:
            for load in _loads(pattern, what.extent):
                draw(topology, pattern, load, 1)
                for size in _sizes(pattern, what.sizes):
                    workload = {"topology": called, "pattern": pattern, "load": load, "message_bytes": size}
                    points += [
                        extended(RivalPoint, times, **workload, scheme=chosen, seed=1 + number)
                        for chosen in schemes
                        for number in range(what.draws)
                    ]
    return points


def _loads(pattern: str, extent: str) -> Sequence[Load | None]:
    if pattern not in LOADED:
        return (None,)
    return ("light",) if extent == "quick" else LOADS


def _sizes(pattern: str, sizes: Sequence[int]) -> list[int]:
    """Events are watched with endless connections; an incast and an exchange have an end."""
    if pattern in EVENTS:
        return [0]
    return [size for size in sizes if size or pattern not in ("incast", "all-to-all")]


def seconds(point: RivalPoint) -> float:
    topology = find_topology(point.topology)[1]
    pairs = draw(topology, point.pattern, point.load, point.seed)
    gbps = ceiling(topology, pairs).gbps(LinkSettings().rate_bps) * 0.7
    packets = gbps * point.virtual_us * 1e3 / 8 / PACKET_BYTES
    if point.message_bytes:
        packets = len(pairs) * point.message_bytes / 1000 * 1.1
    elif point.pattern in EVENTS:
        packets = gbps * (EVENT_US + AFTER_US) * 1e3 / 8 / PACKET_BYTES
    return 4.0 + len(topology.switches) / 50 + packets * 10 / _HOPS_A_SECOND


_POINT = decoder(RivalPoint)


def points_in(file: Path, what: RivalSelection, topologies: Iterable[str] | None = None) -> list[RivalPoint]:
    """The points of a file that a selection has, in order of the tables; of all topologies unless some are named.
    Raises `DetourError`: the file cannot be read."""
    named = set(topologies or ())
    points: list[RivalPoint] = [_POINT(record["point"]) for record in archived(file).values()]

    def is_chosen(point: RivalPoint) -> bool:
        traffic = point.pattern in what.patterns and point.message_bytes in what.sizes and point.seed <= what.draws
        return traffic and (not named or point.topology in named) and point.scheme in (*what.schemes, *others)

    def place(point: RivalPoint) -> tuple[object, ...]:
        workload = RIVAL_PATTERNS.index(point.pattern), LOADS.index(point.load) if point.load else 0
        scheme = COMPARED.index(point.scheme) if point.scheme in COMPARED else len(COMPARED)
        topology = not point.topology.startswith("D"), point.topology
        return *topology, *workload, point.message_bytes, scheme, point.scheme, point.seed

    others = {point.scheme for point in points}.difference(COMPARED)
    return sorted(filter(is_chosen, points), key=place)


def selection(
    extent: str = "normal", *, source: Path | None = None, keep: Path | None = None, **asked: Sequence[Any] | int
) -> RivalSelection:
    """Make a selection: parts of a `RivalSelection`, the others as usual."""
    return replace(usual(extent), **{name: value for name, value in asked.items() if value})  # type: ignore[arg-type]


def select_asked(
    extent: str = "normal", *, source: Path | None = None, keep: Path | None = None, **asked: Any
) -> list[RivalPoint]:
    """The points of what is asked for: of `source` all that it has, also of what is not usual; those that `keep` lacks.
    Raises `DetourError`: no such topology, pattern, size or scheme, or a file that cannot be read."""
    chosen, topologies = selection(extent, **asked), asked.get("topologies")
    if source is not None:
        return points_in(source, replace(chosen, sizes=asked.get("sizes") or SIZES), topologies)
    kept = set(points_in(keep, chosen, topologies)) if keep is not None and keep.exists() else ()
    return [point for point in select(chosen) if point not in kept]
