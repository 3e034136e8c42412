# SPDX-License-Identifier: Apache-2.0
"""FORS beside other ways to exchange the same messages on the same fabric: time against the bound, by failed links.

* `fors`: the plan, phases without contention, a barrier between them.
* `mcf`: a maximum concurrent flow between leaves says what part of every message goes over which way, and all is sent
  at once (path-based multicommodity flow, Basu et al., arXiv 2309.13541; on two levels a path is a spine).
* `birkhoff`: phases by Birkhoff's decomposition of the servers' matrix, each flow on the working way that is emptiest
  in its phase. It knows servers, and nothing of leaves' links.
* `fast`: FAST (Lei et al., arXiv 2505.09764), where servers are GPUs of machines with a network inside (`scale_up`):
  bytes are levelled over it first, then phases between machines (`rivals_fast`). A machine of one server has nothing
  to level; FAST is `birkhoff` then. `fast-fors`: the same with phases of FORS, which knows links.
* `minhop`: a linear shift under OpenSM's Min-Hop, a barrier between phases.
* `ecmp`: every message on a working way drawn at random, all at once.
* `ecmp-spray`: the same draw with SprayLERP's transport: marking, congestion control and recovery of losses.
* `spray`: SprayLERP. All at once, every packet on a path of its own, by what the connection knows of its paths.

`ideal` is what links and servers need for it without latency, headers and barriers (a phase lasts as long as its
fullest link or busiest server takes; spraying divides every message evenly over the working ways), `measured` what
it took in virtual time, from the release of the first phase until the last byte has arrived, been acknowledged and the
barrier's root knows; both over the same bound. With `scale_up`, what servers of a machine have for each other goes over
the network inside for everybody, and the bound is that of machines that use all of their links.

A page has one block for each table, between two comments; the first is the command that writes it. What is there is
written anew, what is not comes at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from detour.base.arrays import Int64Array
from detour.base.errors import DetourError
from detour.base.tables import Table, left, markdown, right, write_block
from detour.control.fors import random_failures, solve
from detour.control.fors.fabric import FatTree
from detour.control.fors.lp_bound import lp_bound
from detour.control.fors.paths import TreePaths
from detour.experiments.columns import row, shown
from detour.experiments.fors.exchange import PHASE_US, ExchangeRun, execute, planned_sizes
from detour.experiments.fors.rival_messages import birkhoff, concurrent_flow, evenly, hashed, unpinned
from detour.experiments.fors.rivals_fast import (
    InsideWork,
    Levelled,
    ScaleUp,
    beside,
    between_machines,
    fast,
    machines_bound,
)
from detour.experiments.fors.rivals_tiers import tier_bound, tier_min_hop
from detour.fabric.traffic.phased import Pace, PhasedMessages
from detour.fabric.traffic.pinned import SprayTuning, Tuning


@dataclass(frozen=True)
class RivalWay:
    """One way to exchange the messages: `planned`, by which links are counted, and what is `sent`, if that is not the
    same (who sprays names no spines); `tuning`: the transport. `inside`: what networks inside machines do of it."""

    scheme: str
    planned: PhasedMessages
    tuning: Tuning
    sent: PhasedMessages | None = None
    inside: InsideWork | None = None

    @property
    def messages(self) -> PhasedMessages:
        """The messages that hosts are given to send."""
        return self.planned if self.sent is None else self.sent


@row
class RivalRow:
    """One way on one fabric. Times over the bound; those that are None were not measured."""

    failures: int = shown("failed")
    scheme: str = shown("scheme")
    phases: int = shown("phases")
    pieces: int
    ideal: float = shown("ideal", ".3f", means="what links and servers need")
    measured: float | None = shown("measured", ".3f", means="in virtual time", default=None)
    most_flows_on_a_link: int | None = shown("on a link", means="most flows at a time", default=None)
    retransmitted_packets: int | None = shown("sent again", means="packets", default=None)
    delivered: bool | None = None


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
    scale_up: str | None = None
    """servers of a machine, and the speed of the network inside, like 4:9"""


def _bound(fabric: FatTree, sizes: Int64Array, scale_up: ScaleUp | None) -> int:
    """Bytes of a server's link that every way takes."""
    if fabric.cores:
        return tier_bound(fabric, sizes)
    return lp_bound(fabric, sizes).bytes if scale_up is None else machines_bound(fabric, sizes, scale_up)


def compare(
    fabric: FatTree,
    sizes: Int64Array,
    failures: Sequence[int],
    name: str,
    tuning: Tuning,
    *,
    scale_up: ScaleUp | None = None,
    measure: bool = True,
    report: Callable[[str], None] = lambda text: None,
) -> Rivals:
    """Every scheme with so many links failed at random (seed of `tuning`), more of them beside those of fewer. Raises
    `DetourError`: that many cannot fail, cables are slower than servers' links, sizes are unlike on three levels, or
    servers do not make machines."""
    if scale_up is not None and fabric.cores:
        raise DetourError(f"{fabric.name}: --scale-up is for two levels (ft:...)")
    rows: list[RivalRow] = []
    bounds: dict[int, float] = {}
    failed: dict[int, list[str]] = {}
    for count in sorted(set(failures)):
        broken = random_failures(fabric, count, tuning.seed)
        bound = _bound(broken, sizes, scale_up)
        if not bound:
            raise DetourError(f"{fabric.name}: no server sends to another one")
        bounds[count] = round(bound * 8e6 / tuning.rate_bps, 3)
        failed[count] = broken.failed_names()
        for way in rival_schemes(broken, sizes, tuning, scale_up):
            report(f"{way.scheme} with {count} failed links")
            rows.append(_row(broken, sizes, bound, count, way, measure=measure))
    mean = round(float(sizes.sum()) / max(np.count_nonzero(sizes), 1))
    gbps = tuning.rate_bps / 1e9
    machines = None if scale_up is None else f"{scale_up.hosts}:{scale_up.speed}"
    return Rivals(fabric.name, fabric.servers, name, mean, gbps, tuning.seed, bounds, failed, rows, machines)


def _row(fabric: FatTree, sizes: Int64Array, bound: int, count: int, way: RivalWay, *, measure: bool) -> RivalRow:
    messages = way.messages
    phases = phase_bytes(fabric, way.planned)
    ideal = round((float(phases.sum()) if way.inside is None else way.inside.whole(phases)) / bound, 4)
    planned = RivalRow(failures=count, scheme=way.scheme, phases=messages.phases, pieces=len(messages), ideal=ideal)
    if not measure:
        return planned
    mean = max(round(float(sizes.mean())), 1)
    result = execute(ExchangeRun(fabric, messages=messages, pace=Pace(mean), tuning=way.tuning))
    took = _whole_us(way, result.phase_lengths_us) / (bound * 8e6 / way.tuning.rate_bps)
    return replace(
        planned,
        measured=round(took, 4),
        most_flows_on_a_link=None if way.sent is not None else result.most_flows_on_a_link.max,
        retransmitted_packets=result.exchange.retransmitted_packets,
        delivered=result.exchange.delivered == result.exchange.messages,
    )


def _whole_us(way: RivalWay, phases_us: Sequence[float]) -> float:
    """Phases as long as they were, and what networks inside machines do before, during and after them."""
    if way.inside is None:
        return sum(phases_us)
    us = 8e6 / way.tuning.rate_bps
    return way.inside.whole(np.array(phases_us) / us) * us


def phase_bytes(fabric: FatTree, messages: PhasedMessages) -> np.ndarray:
    """Bytes of a server's link that phases take at least, each as long as its busiest server or fullest link needs."""
    assert messages.size is not None
    numbers, phase = np.unique(messages.phase, return_inverse=True)
    size, paths = messages.size, TreePaths(fabric)
    longest = np.zeros(len(numbers))
    for end in (messages.src, messages.dst):
        load = np.bincount(phase * fabric.slots + end, size, len(numbers) * fabric.slots)
        longest = np.maximum(longest, load.reshape(len(numbers), -1).max(axis=1))
    crossed = paths.directed(messages.src // fabric.hosts, messages.dst // fabric.hosts, messages.path)
    row, column = np.nonzero(crossed >= 0)
    links = 2 * len(paths.links)
    load = np.bincount(phase[row] * links + crossed[row, column], size[row], len(numbers) * links)
    return np.ceil(np.maximum(longest, load.reshape(-1, links).max(axis=1) / paths.lanes))


def rival_schemes(
    fabric: FatTree, sizes: Int64Array, tuning: Tuning, scale_up: ScaleUp | None = None
) -> Iterator[RivalWay]:
    """All, in the order of the table. With `scale_up` FAST among them, and nothing inside machines is on the fabric."""
    if scale_up is None or fabric.cores:
        yield from _on_the_fabric(fabric, sizes, tuning)
        return
    level = Levelled.of(sizes, scale_up)
    for way in _on_the_fabric(fabric, between_machines(sizes, scale_up.hosts), tuning):
        yield replace(way, inside=beside(sizes, scale_up, way.messages.phases))
        if way.scheme == "birkhoff":
            sent = fast(fabric, level, tuning.rate_bps * PHASE_US // 8_000_000)
            yield RivalWay("fast", sent, tuning, inside=level.work(sent))
            sent = _planned(fabric, "fors", level.peers(), tuning)
            yield RivalWay("fast-fors", sent, tuning, inside=level.work(sent))


def _on_the_fabric(fabric: FatTree, sizes: Int64Array, tuning: Tuning) -> Iterator[RivalWay]:
    """Yield the rivals that send everything over the fabric. Another scheme is one more line here."""
    yield RivalWay("fors", _planned(fabric, "fors", sizes, tuning), tuning)
    yield RivalWay("mcf", concurrent_flow(fabric, sizes), tuning)
    yield RivalWay("birkhoff", birkhoff(fabric, sizes, tuning.rate_bps * PHASE_US // 8_000_000), tuning)
    yield RivalWay("minhop", _planned(fabric, "minhop", sizes, tuning), tuning)
    drawn = hashed(fabric, sizes, tuning.seed)
    yield RivalWay("ecmp", drawn, tuning)
    yield RivalWay("ecmp-spray", drawn, SprayTuning(**vars(tuning), choosing=False))
    yield RivalWay("spray", evenly(fabric, sizes), SprayTuning(**vars(tuning)), unpinned(fabric, sizes))


def _planned(fabric: FatTree, routing: str, sizes: Int64Array, tuning: Tuning) -> PhasedMessages:
    if fabric.cores:
        size = int(sizes.max())
        messages = PhasedMessages.of(solve(fabric)) if routing == "fors" else tier_min_hop(fabric)
        return replace(messages, size=np.full(len(messages), size, np.int64))
    return planned_sizes(ExchangeRun(fabric, routing, tuning=tuning, sizes=sizes))[0]


# -- pages --------------------------------------------------------------------------------------------------


def write_table(page: Path, command: str, rivals: Rivals) -> None:
    """Write the block of `command` (its options, without `--write`). Raises `DetourError` as `write_block` does."""
    write_block(page, command, f"{_caption(rivals)}\n\n{markdown(_table(rivals))}")


def _caption(rivals: Rivals) -> str:
    what = "in brackets ideal" if rivals.rows[0].measured is not None else "ideal"
    machines = f", machines {rivals.scale_up}" if rivals.scale_up else ""
    messages = f"{rivals.sizes}, {rivals.mean_bytes:,} bytes"
    return f"{rivals.topology}, {rivals.servers} servers{machines}, {messages}; {what}:"


def _table(rivals: Rivals) -> Table[int]:
    cells: dict[tuple[int, str], str] = {}
    for rival in rivals.rows:
        text = f"{rival.ideal:.3f}" if rival.measured is None else f"{rival.measured:.3f} ({rival.ideal:.3f})"
        cells[rival.failures, rival.scheme] = text
    schemes = dict.fromkeys(row.scheme for row in rivals.rows)
    columns = [left(name, lambda count, name=name: cells[count, name]) for name in schemes]
    return Table((right("f", str), *columns), list(rivals.bounds_us))
