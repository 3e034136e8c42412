# SPDX-License-Identifier: Apache-2.0
"""A step of a collective over several planes, in which a switch dies: how long it takes by who chooses paths.

Hosts exchange an all-to-all, or each sends to the next (`ring`), the same bytes a host. In the middle of the step a
leaf of one plane, or a spine, goes down for good, or a leaf goes down and comes back three times (`flap`). Nobody tells
switches or senders. All schemes have the same paths, transport, congestion control and marking.

`ideal_us`: what the ports of the busiest hosts need for its frames, those of data and as many answers, on all planes;
where a leaf dies, on one less from the beginning. Delays and the window's growth are not in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from detour.base.dataplane import PACKET_BYTES, PAYLOAD
from detour.base.errors import DetourError
from detour.base.tables import Table
from detour.base.times import US
from detour.engine.jitter import AUTO
from detour.experiments.columns import combined, grouped, largest, mean, row, shown, table, taken
from detour.experiments.steady import draws_of
from detour.fabric.backends.virtual.fabric import VirtualFabric
from detour.fabric.backends.virtual.scheme import LinkSettings, RunSettings, scheme
from detour.hosts.frames.sizes import AETH, BTH, ETHERNET, ICRC, IPV6, SACK, UDP
from detour.topo import Topology, parse_topology
from detour.topo.topology import HostPair

StepPattern: TypeAlias = Literal["all-to-all", "ring"]
StepEvent: TypeAlias = Literal["none", "leaf", "spine", "flap"]

STEP_PATTERNS: tuple[StepPattern, ...] = get_args(StepPattern)
STEP_EVENTS: tuple[StepEvent, ...] = get_args(StepEvent)
STEP_TOPOLOGIES = ("clos:planes=8,leaves=2,spines=4,hosts=4", "clos:planes=4,leaves=4,spines=2,hosts=2")
"""the first is what rules were chosen on, the second a hold-out"""
STEP_SCHEMES = ("PathSet", "PathSet-trim", "MRC-like-32", "MRC-like-32-trim", "SprayLERP", "REPS", "Oblivious")
PLANE_BYTES = {"quick": 1_000_000, "normal": 5_000_000, "full": 20_000_000}
"""that a host sends for each plane"""
_WINDOW = 2048
_ANSWER_BYTES = ETHERNET + IPV6 + UDP + BTH + AETH + SACK + ICRC
_FLAPS = 3
_POLL_PS = 2 * US
_MOST_TIMES = 20
"""as long as the ideal, after which a step is given up"""


@dataclass(frozen=True, kw_only=True)
class StepCase:
    """A case to run. `plane_bytes`: that a host sends for each plane."""

    topology: str
    pattern: StepPattern
    event: StepEvent
    scheme: str
    plane_bytes: int
    seed: int = 1


@dataclass(frozen=True, kw_only=True)
class StepPoint(StepCase):
    """One run."""

    experiment: str = "planes"


def select(extent: str = "normal", schemes: Sequence[str] = STEP_SCHEMES, seeds: int | None = None) -> list[StepPoint]:
    """The points: every scheme in every cell. Raises `DetourError`: there is no such scheme."""
    return [
        StepPoint(
            topology=topology, pattern=pattern, event=event, scheme=scheme(name).name, seed=1 + draw,
            plane_bytes=PLANE_BYTES[extent],
        )
        for topology in (STEP_TOPOLOGIES[:1] if extent == "quick" else STEP_TOPOLOGIES)
        for pattern in STEP_PATTERNS
        for event in STEP_EVENTS
        for name in schemes
        for draw in range(draws_of(extent) if seeds is None else seeds)
    ]  # fmt: skip


def seconds(point: StepPoint) -> float:
    return 0.5 + point.plane_bytes / 2e6


@dataclass(frozen=True, kw_only=True)
class StepRun(StepCase):
    """The result of a point. `retired`: paths that senders left."""

    step_us: float
    ideal_us: float
    of_ideal: float
    retransmitted: int
    retired: int
    timeouts: int
    drops: int


def run(point: StepPoint) -> StepRun:
    topology = parse_topology(point.topology)
    pairs = step_pairs(topology, point.pattern)
    hosts = len(topology.hosts)
    size = point.plane_bytes * topology.planes * hosts // len(pairs)
    ideal = ideal_us(topology, size * len(pairs) // hosts, point.event)
    settings = RunSettings(window=_WINDOW, seed=point.seed, jitter_ps=AUTO)
    with VirtualFabric(topology, scheme(point.scheme), settings, queue_pairs=len(pairs)) as fabric:
        fabric.connect(pairs)
        fabric.send(size)
        for at_us, links, up in _changes(topology, point.event, ideal):
            fabric.run(round(at_us * US))
            for link in links:
                fabric.set_link(link, up)
        while fabric.unfinished() and fabric.now_ps < _MOST_TIMES * ideal * US:
            fabric.run(fabric.now_ps + _POLL_PS)
        if fabric.unfinished():
            raise DetourError(f"{point.scheme}: a step of {ideal:.0f} us is not over after {fabric.now_ps / US:.0f} us")
        step_us = fabric.last_done_ps / US
        return taken(
            StepRun,
            point,
            step_us=round(step_us, 3),
            ideal_us=round(ideal, 3),
            of_ideal=round(step_us / ideal, 4),
            retransmitted=int(fabric.column("st_retransmitted").sum()),
            retired=int(fabric.column("st_failovers").sum()),
            timeouts=int(fabric.column("st_rtos").sum()),
            drops=int(fabric.network.port_stats()["queue_drops"].sum()),
        )


def step_pairs(topology: Topology, pattern: StepPattern) -> list[HostPair]:
    """Return the pairs of sender and receiver."""
    hosts = range(len(topology.hosts))
    if pattern == "ring":
        return [(host, (host + 1) % len(hosts)) for host in hosts]
    return [(a, b) for a in hosts for b in hosts if a != b]


def ideal_us(topology: Topology, host_bytes: int, event: StepEvent) -> float:
    """See the module; every host sends so many bytes, and gets as many."""
    planes = topology.planes - (event in ("leaf", "flap"))
    frames = host_bytes / PAYLOAD
    return frames * (PACKET_BYTES + _ANSWER_BYTES) * 8e6 / (LinkSettings().rate_bps * planes)


def _changes(topology: Topology, event: StepEvent, ideal: float) -> list[tuple[float, list[int], bool]]:
    """Times in us, and the links that go down then, or come up: those of the first plane's first leaf or spine."""
    if event == "none":
        return []
    tier = 2 if event == "spine" else 1
    switch = next(switch for switch in topology.switches if switch.tier == tier)
    links = [peer.link for peer in switch.ports if peer is not None]
    if event != "flap":
        return [(ideal / 2, links, False)]
    times = [ideal * (4 + k) / 12 for k in range(2 * _FLAPS)]
    return [(at, links, bool(k % 2)) for k, at in enumerate(times)]


# -- results ------------------------------------------------------------------------------------------------


@row
class StepRow:
    """A cell: means over `draws`, and the longest step of them. `of_ideal`: times the ideal."""

    topology: str = shown("topology")
    pattern: StepPattern = shown("step")
    event: StepEvent = shown("dies")
    scheme: str = shown("scheme")
    step_us: float = shown("us", ".0f", over=mean(3))
    ideal_us: float = shown("ideal", ".0f", over=mean(3), means="of frames and answers on the planes that are left")
    of_ideal: float = shown("of ideal", ".3f", over=mean(4))
    worst_of_ideal: float = shown("worst", ".3f", means="of the draws")
    retransmitted: int = shown("sent again", over=mean(0))
    retired: int = shown("paths left", over=mean(0))
    timeouts: int = shown("timeouts", over=sum, wide=True)
    drops: int = shown("dropped", over=mean(0), wide=True)
    draws: int


@dataclass(frozen=True)
class StepFindings:
    """The cells, in the order of the points."""

    rows: Sequence[StepRow]


def collect(results: Sequence[StepRun]) -> StepFindings:
    """Draw of a cell make a row."""
    cells = grouped(results, lambda run: (run.topology, run.pattern, run.event, run.scheme))
    return StepFindings(
        [
            combined(StepRow, runs, worst_of_ideal=largest(run.of_ideal for run in runs), draws=len(runs))
            for runs in cells.values()
        ]
    )


def tables(findings: StepFindings) -> list[Table[Any]]:
    """All cells."""
    return [table(StepRow, findings.rows, "A step over several planes, in which a switch dies")]
