# SPDX-License-Identifier: Apache-2.0
"""FORS beside other ways to exchange the same messages on the same fabric: time against the bound, by failed links.

* `fors`: the plan, phases without contention, a barrier between them.
* `mcf`: a maximum concurrent flow between leaves says what part of every message goes over which spine, and all is sent
  at once (path-based multicommodity flow, Basu et al., arXiv 2309.13541, on a fabric of two levels, where a path is a
  spine).
* `birkhoff`: phases by Birkhoff's decomposition of the servers' matrix, as FAST has it (Lei et al., arXiv 2505.09764),
  each flow on the working spine that is emptiest in its phase. It knows servers, and nothing of leaves' links. FAST's
  first step, which evens out skew inside a server over a faster network, has no counterpart: a leaf has none.
* `minhop`: a linear shift under OpenSM's Min-Hop, a barrier between phases.
* `ecmp`: every message on a working spine drawn at random, all at once.
* `ecmp-spray`: the same draw with SprayLERP's transport: marking, congestion control and recovery of losses.
* `spray`: SprayLERP. All at once, every packet on a path of its own, by what the connection knows of its paths.

`ideal` is what links and servers need for it without latency, headers and barriers (a phase lasts as long as its
fullest link or busiest server takes; spraying divides every message evenly over the working spines), `measured` what
it took in virtual time, from the release of the first phase until the last byte has arrived, been acknowledged and the
barrier's root knows; both over the same bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from detour.base.arrays import Int64Array
from detour.base.errors import DetourError
from detour.control.fors import FatTree2, random_failures
from detour.control.fors.plan import INSIDE
from detour.control.fors.preemptive import Crossbars, turns
from detour.control.fors.unequal import equal_phases
from detour.control.fors.volumes import spine_shares, volume_bound
from detour.experiments.fors.exchange import PHASE_US, ExchangeRun, execute, planned_sizes
from detour.fabric.traffic.phased import Pace, PhasedMessages
from detour.fabric.traffic.pinned import SprayTuning, Tuning

_PARTS = 8
"""as in `unequal`: the bound is divided into so many parts for each server, the shortest phases"""


@dataclass(frozen=True)
class RivalWay:
    """One way to exchange the messages: `planned`, by which links are counted, and what is `sent`, if that is not the
    same (who sprays names no spines); `tuning`: the transport."""

    scheme: str
    planned: PhasedMessages
    tuning: Tuning
    sent: PhasedMessages | None = None

    @property
    def messages(self) -> PhasedMessages:
        """What hosts are given to send."""
        return self.planned if self.sent is None else self.sent


@dataclass(frozen=True)
class RivalRow:
    """One way on one fabric. Times over the bound; `measured` is None where nothing was run."""

    failures: int
    scheme: str
    phases: int
    pieces: int
    ideal: float
    measured: float | None
    most_flows_on_a_link: int | None
    retransmitted_packets: int | None
    delivered: bool | None


@dataclass(frozen=True)
class Rivals:
    """The table. `bounds_us`: by failed links, at the rate of servers' links; `failed`: the links."""

    topology: str
    servers: int
    sizes: str
    mean_bytes: int
    rate_gbps: float
    seed: int
    bounds_us: dict[int, float]
    failed: dict[int, list[str]]
    rows: list[RivalRow]


def compare(
    fabric: FatTree2,
    sizes: Int64Array,
    failures: Sequence[int],
    name: str,
    tuning: Tuning,
    *,
    measure: bool = True,
    report: Callable[[str], None] = lambda text: None,
) -> Rivals:
    """Every scheme with so many links failed at random (seed of `tuning`), more of them beside those of fewer.

    Raises:
        DetourError: that many cannot fail, or cables are slower than servers' links.
    """
    rows: list[RivalRow] = []
    bounds: dict[int, float] = {}
    failed: dict[int, list[str]] = {}
    for count in sorted(set(failures)):
        broken = random_failures(fabric, count, tuning.seed)
        bound = volume_bound(broken, sizes).bytes
        if not bound:
            raise DetourError(f"{fabric.name}: nobody sends anything to another server")
        bounds[count] = round(bound * 8e6 / tuning.rate_bps, 3)
        failed[count] = broken.failed_names()
        for way in rival_schemes(broken, sizes, tuning):
            report(f"{way.scheme} with {count} failed links")
            rows.append(_row(broken, sizes, bound, count, way, measure=measure))
    mean = round(float(sizes.sum()) / max(np.count_nonzero(sizes), 1))
    gbps = tuning.rate_bps / 1e9
    return Rivals(fabric.name, fabric.servers, name, mean, gbps, tuning.seed, bounds, failed, rows)


def _row(fabric: FatTree2, sizes: Int64Array, bound: int, count: int, way: RivalWay, *, measure: bool) -> RivalRow:
    messages = way.messages
    ideal = round(ideal_bytes(fabric, way.planned) / bound, 4)
    if not measure:
        return RivalRow(count, way.scheme, messages.phases, len(messages), ideal, None, None, None, None)
    mean = max(round(float(sizes.mean())), 1)
    found = execute(ExchangeRun(fabric, messages=messages, pace=Pace(mean), tuning=way.tuning))
    took = sum(found.phase_lengths_us) / (bound * 8e6 / way.tuning.rate_bps)
    counts = found.exchange
    return RivalRow(
        count,
        way.scheme,
        messages.phases,
        len(messages),
        ideal,
        round(took, 4),
        None if way.sent is not None else found.most_flows_on_a_link.max,
        counts.retransmitted_packets,
        counts.delivered == counts.messages,
    )


def ideal_bytes(fabric: FatTree2, messages: PhasedMessages) -> int:
    """Bytes of a server's link that phases take at least, each as long as its busiest server or fullest link needs."""
    assert messages.size is not None
    numbers, phase = np.unique(messages.phase, return_inverse=True)
    size, away = messages.size, messages.spine != INSIDE
    longest = np.zeros(len(numbers))
    for end in (messages.src, messages.dst):
        load = np.bincount(phase * fabric.slots + end, size, len(numbers) * fabric.slots)
        longest = np.maximum(longest, load.reshape(len(numbers), -1).max(axis=1))
        link = (end // fabric.hosts * fabric.spines + messages.spine)[away]
        links = fabric.leaves * fabric.spines
        load = np.bincount(phase[away] * links + link, size[away], len(numbers) * links).reshape(-1, links)
        longest = np.maximum(longest, (load / np.maximum(fabric.room().ravel(), 1)).max(axis=1))
    return round(float(np.ceil(longest).sum()))


def rival_schemes(fabric: FatTree2, sizes: Int64Array, tuning: Tuning) -> Iterator[RivalWay]:
    """All, in the order of the table. Another scheme is one more line here."""
    yield RivalWay("fors", planned_sizes(ExchangeRun(fabric, "fors", tuning=tuning, sizes=sizes))[0], tuning)
    yield RivalWay("mcf", concurrent_flow(fabric, sizes), tuning)
    yield RivalWay("birkhoff", birkhoff(fabric, sizes, tuning.rate_bps * PHASE_US // 8_000_000), tuning)
    yield RivalWay("minhop", planned_sizes(ExchangeRun(fabric, "minhop", tuning=tuning, sizes=sizes))[0], tuning)
    drawn = hashed(fabric, sizes, tuning.seed)
    yield RivalWay("ecmp", drawn, tuning)
    yield RivalWay("ecmp-spray", drawn, SprayTuning(**vars(tuning), choosing=False))
    yield RivalWay("spray", evenly(fabric, sizes), SprayTuning(**vars(tuning)), unpinned(fabric, sizes))


def _pairs(fabric: FatTree2, sizes: Int64Array) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Sources, destinations and bytes of all messages."""
    servers = np.flatnonzero(fabric.taking_part()).astype(np.int64)
    s, d = np.nonzero(sizes)
    return servers[s], servers[d], sizes[s, d].astype(np.int64)


def concurrent_flow(fabric: FatTree2, sizes: Int64Array) -> PhasedMessages:
    """Every message divided over spines as the maximum concurrent flow between leaves is, all at once."""
    return _divided(fabric, sizes, spine_shares(fabric, sizes))


def evenly(fabric: FatTree2, sizes: Int64Array) -> PhasedMessages:
    """Every message divided evenly over the spines that both leaves reach, all at once."""
    alive = fabric.alive()
    both = alive[:, None, :] & alive[None, :, :]
    return _divided(fabric, sizes, both / np.maximum(both.sum(axis=2, keepdims=True), 1))


def unpinned(fabric: FatTree2, sizes: Int64Array) -> PhasedMessages:
    """Every message whole and without a spine, all at once."""
    src, dst, size = _pairs(fabric, sizes)
    return PhasedMessages(np.zeros_like(src), src, dst, np.full(len(src), INSIDE, np.int64), size=size)


def _divided(fabric: FatTree2, sizes: Int64Array, share: np.ndarray) -> PhasedMessages:
    """`share`: (leaves, leaves, spines) parts of what a leaf has for another."""
    columns: list[list[int]] = [[], [], [], []]
    for src, dst, size in zip(*(column.tolist() for column in _pairs(fabric, sizes)), strict=True):
        u, v = src // fabric.hosts, dst // fabric.hosts
        if u == v:
            parts = {INSIDE: size}
        else:
            edges = np.rint(np.cumsum(share[u, v]) * size).astype(int)
            parts = dict(enumerate(np.diff(edges, prepend=0).tolist()))
        for spine, part in parts.items():
            if part:
                for column, value in zip(columns, (src, dst, spine, part), strict=True):
                    column.append(value)
    src, dst, spine, sent = (np.array(column, np.int64) for column in columns)
    return PhasedMessages(np.zeros_like(src), src, dst, spine, size=sent)


def hashed(fabric: FatTree2, sizes: Int64Array, seed: int) -> PhasedMessages:
    """Every message on a working spine drawn at random, all at once."""
    src, dst, size = _pairs(fabric, sizes)
    rng, alive = np.random.default_rng([seed, 31]), fabric.alive()
    spine = np.full(len(src), INSIDE, np.int64)
    for k, (u, v) in enumerate(zip((src // fabric.hosts).tolist(), (dst // fabric.hosts).tolist(), strict=True)):
        if u != v:
            spine[k] = rng.choice(np.flatnonzero(alive[u] & alive[v]))
    return PhasedMessages(np.zeros_like(src), src, dst, spine, size=size)


def birkhoff(fabric: FatTree2, sizes: Int64Array, phase_cost: int) -> PhasedMessages:
    """Phases that are optimal for servers, each flow on the working spine with fewest flows of its phase at its links.

    `phase_cost`: bytes, as in `plan_unequal`; equal sizes get a linear shift, which is such a decomposition.
    """
    count = fabric.servers
    everywhere = Crossbars(np.zeros(count, np.int64), np.ones((1, 1), bool), np.zeros((1, 1)))
    phases = equal_phases(sizes)
    if phases is None:
        busiest = int(max(sizes.sum(axis=0).max(), sizes.sum(axis=1).max()))
        tried = [turns(sizes, everywhere, busiest, busiest // (parts * count)) or [] for parts in (_PARTS, 8 * _PARTS)]
        best = min(tried, key=lambda one: sum(turn.length + phase_cost for turn in one))
        phases = [(turn.matching.src, turn.matching.dst, turn.sent) for turn in best]
    servers = np.flatnonzero(fabric.taking_part()).astype(np.int64)
    parts = []
    for number, (s, d, sent) in enumerate(phases):
        src, dst = servers[s], servers[d]
        parts.append((np.full(len(src), number), src, dst, _emptiest(fabric, src, dst), sent))
    phase, src, dst, spine, sent = (np.concatenate(column).astype(np.int64) for column in zip(*parts, strict=True))
    return PhasedMessages(phase, src, dst, spine, size=sent)


def _emptiest(fabric: FatTree2, src: Int64Array, dst: Int64Array) -> Int64Array:
    """Spines for one phase: flow by flow the one whose fuller link has least."""
    room = fabric.room()
    up, down = np.zeros(room.shape), np.zeros(room.shape)
    spine = np.full(len(src), INSIDE, np.int64)
    for k, (u, v) in enumerate(zip((src // fabric.hosts).tolist(), (dst // fabric.hosts).tolist(), strict=True)):
        if u == v:
            continue
        usable = np.flatnonzero((room[u] > 0) & (room[v] > 0))
        fuller = np.maximum((up[u] + 1) / np.maximum(room[u], 1), (down[v] + 1) / np.maximum(room[v], 1))
        spine[k] = usable[np.argmin(fuller[usable])]
        up[u, spine[k]] += 1
        down[v, spine[k]] += 1
    return spine
