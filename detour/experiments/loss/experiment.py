# SPDX-License-Identifier: Apache-2.0
"""The cost of losses and reordering to one connection, and how connections share a link that is full.

Two switches with one link of 100 Gb/s between them, 16 hosts at each; a round trip is 4.2 us. Either one connection,
while the link between the switches loses frames or delivers them late, in both directions; or several connections from
different hosts to different hosts, whose only queue is at that link. A point is one run of one transport with one
congestion control.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from detour.base.dataplane import PACKET_BYTES
from detour.base.errors import DetourError
from detour.base.tables import Table, percent
from detour.base.times import US
from detour.control.policy import Amount, RedMarking, StepMarking
from detour.engine.jitter import AUTO
from detour.experiments import running
from detour.experiments.columns import cell, combined, grouped, mean, row, shown, table, taken
from detour.experiments.running import RunTimes, jain
from detour.experiments.steady import draws_of, spread
from detour.fabric.backends.virtual.fabric import ENDLESS, VirtualFabric
from detour.fabric.backends.virtual.scheme import LinkSettings, RunSettings, Scheme
from detour.hosts.config import LITERAL_LOSS
from detour.topo import parse_topology

_TOPOLOGY = "leaf-spine:leaves=2,spines=1,hosts=16"
K_BYTES = 80_000
"""where switches begin to mark (for DCQCN: 100 to 400 kB)"""
_LINKS = LinkSettings(host_delay_ps=475_000, local_delay_ps=475_000, global_delay_ps=475_000)
LOSSES = (0.001, 0.01, 0.05)
REORDERING = 0.1
"""fraction of frames that are late, by up to `LATE_PACKETS` packet times, evenly spread"""
LATE_PACKETS = 10
SENDERS = (2, 4, 8, 16)
_VIRTUAL_US = {"quick": 2_000, "normal": 10_000, "full": 40_000}
_PACKET_TIME_PS = PACKET_BYTES * 8_000_000_000_000 // _LINKS.rate_bps

_OURS = {name: not value for name, value in LITERAL_LOSS.items()}
_MARKING = StepMarking(Amount(K_BYTES, "bytes"))
_RISING = RedMarking(Amount(100_000, "bytes"), Amount(400_000, "bytes"), 0.2)
"""for DCQCN, as ConWeave has it at 100 Gb/s"""
LOSS_SCHEMES: dict[tuple[str, str], Scheme] = {
    ("lerp", "default"): Scheme("lerp", "lerp", "dctcp", "shortest", _MARKING, hosts=tuple(_OURS.items())),
    ("lerp", "dctcp"): Scheme("lerp-dctcp", "lerp", "dctcp", "shortest", _MARKING),
    ("lerp", "fixed"): Scheme("lerp-fixed", "lerp", "fixed", "shortest", _MARKING),
    ("gbn", "dcqcn"): Scheme("gbn-dcqcn", "gbn", "dcqcn", "shortest", _RISING),
}
"""by transport and control. `default`: what connections have unless they ask for something else; `dctcp`: the letter of
RFC 8257, every loss halves the window and order shows it; `fixed`: a window of 128 packets"""


@dataclass(frozen=True, kw_only=True)
class LossCase:
    """A case to run. `loss`, `reordering`: probabilities; `senders`: connections that share the link."""

    transport: str
    control: str
    loss: float = 0.0
    reordering: float = 0.0
    senders: int = 1
    seed: int = 1


@dataclass(frozen=True, kw_only=True)
class LossPoint(LossCase, RunTimes):
    """One run."""

    experiment: str = "loss"


def select(
    extent: str = "normal", loss: Sequence[float] = LOSSES, senders: Sequence[int] = SENDERS, seeds: int | None = None
) -> list[LossPoint]:
    """The points: every transport without loss, with each loss, with reordering, and with contention. Raises
    `DetourError`: no such probability, or more senders than hosts."""
    for probability in loss:
        if not 0 < probability < 1:
            raise DetourError(f"a loss of {probability:g} is not a probability between 0 and 1")
    hosts = len(parse_topology(_TOPOLOGY).hosts) // 2
    for count in senders:
        if not 2 <= count <= hosts:
            raise DetourError(f"{count} senders; expected 2 to {hosts}")
    plain = LossPoint(virtual_us=_VIRTUAL_US[extent], transport="", control="")
    middle = sorted(loss)[len(loss) // 2] if loss else 0.0
    conditions = dict.fromkeys([(0.0, 0.0), *((lost, 0.0) for lost in loss), (0.0, REORDERING), (middle, REORDERING)])
    return [
        replace(point, transport=transport, control=control, seed=1 + draw)
        for transport, control in LOSS_SCHEMES
        for point in (
            *(replace(plain, loss=lost, reordering=late) for lost, late in conditions),
            *(replace(plain, senders=count) for count in senders if control != "fixed"),
        )
        for draw in range(draws_of(extent) if seeds is None else seeds)
    ]


def seconds(point: LossPoint) -> float:
    return 4.0 + point.virtual_us / 1000 * 0.4


@dataclass(frozen=True, kw_only=True)
class LossRun(LossCase):
    """The result of a point. `mean_queue_bytes`: the bytes that data packets found waiting on their way, on average
    over half as long again as the run took; everything else is of the run."""

    goodput_gbps: float
    steady: bool
    virtual_ms: float
    jain: float
    mean_queue_bytes: int
    drops: int
    lost: int
    spurious: int
    retransmitted: int
    timeouts: int


def run(point: LossPoint) -> LossRun:
    topology = parse_topology(_TOPOLOGY)
    half = len(topology.hosts) // 2
    scheme = LOSS_SCHEMES[point.transport, point.control]
    # Who shares a full queue depends on phases; a connection alone does not.
    jitter_ps = AUTO if point.senders > 1 else None
    settings = RunSettings(links=_LINKS, seed=point.seed, jitter_ps=jitter_ps)
    with VirtualFabric(topology, scheme, settings, queue_pairs=point.senders) as fabric:
        link = next(link for link in topology.links if link.kind != "host")
        faults = {"loss": point.loss, "late": point.reordering, "late_ps": LATE_PACKETS * _PACKET_TIME_PS}
        fabric.network.set_faults(fabric.link_ends(link.index)[0], **faults)
        fabric.connect([(number, half + number) for number in range(point.senders)])
        fabric.send(ENDLESS)
        steady = running.settle(fabric, point)
        counted = {name: int(fabric.column(f"st_{name}").sum()) for name in ("lost", "spurious", "retransmitted")}
        return taken(
            LossRun,
            point,
            goodput_gbps=round(steady.goodput_gbps, 3),
            steady=steady.steady,
            virtual_ms=round(steady.seconds * 1e3, 3),
            jain=round(jain(steady.per_connection_gbps), 4),
            mean_queue_bytes=_mean_queue(fabric, point),
            drops=int(fabric.network.port_stats()["queue_drops"].sum()),
            timeouts=int(fabric.column("st_rtos").sum()),
            **counted,
        )


def _mean_queue(fabric: VirtualFabric, point: LossPoint) -> int:
    """Bytes that data packets meet on average from now on: what they report as delay, times the rate."""

    def reported() -> tuple[int, int]:
        return int(fabric.column("st_rx_delay_sum").sum()), int(fabric.column("st_rx_delay_samples").sum())

    before = reported()
    fabric.run(fabric.now_ps + point.virtual_us * US // 2)
    ticks, samples = (after - earlier for after, earlier in zip(reported(), before, strict=True))
    return round(ticks / max(samples, 1) * fabric.config.tick_ps * _LINKS.rate_bps // (8 * 10**12))


# -- results ------------------------------------------------------------------------------------------------


@row
class GoodputRow:
    """One connection on a lossy link: its goodput as a fraction (0 to 1) of what the same transport has without loss,
    the mean over `draws`, with their sample standard deviation; `spurious_fraction`: of packets declared lost, those
    that were not."""

    transport: str = shown("transport")
    control: str = shown("control")
    loss: float = shown("loss", ".1%")
    reordering: float = shown("late", ".0%", means="frames that others overtake")
    fraction_of_lossless: float = shown("of lossless", ".3f")
    spread: float | None = shown("±", ".3f")
    draws: int
    goodput_gbps: float = shown("Gb/s", ".1f", over=mean(3))
    spurious_fraction: float | None = shown("spurious", ".0%", means="of packets declared lost")
    timeouts: int = shown("timeouts", over=sum, wide=True)
    steady: bool = shown("steady", over=all, wide=True)


@row
class ContentionRow:
    """Several connections on a full link: means over `draws`. `k_bytes`: where marks begin, if that is one place."""

    transport: str = shown("transport")
    control: str = shown("control")
    senders: int = shown("senders")
    goodput_gbps: float = shown("Gb/s", ".1f", over=mean(3))
    jain: float = shown("Jain", ".4f", over=mean(4))
    mean_queue_bytes: int = shown(
        "queue", lambda size: f"{size / 1e3:.1f} kB", over=lambda sizes: round(fmean(sizes)),
        means="what data packets met, on average",
    )  # fmt: skip
    k_bytes: int | None

    @cell("of K", means=f"K: {K_BYTES / 1e3:g} kB")
    def _of_k(self) -> str | None:
        return percent(self.k_bytes and self.mean_queue_bytes / self.k_bytes)

    drops: float = shown("drops", ".0f", over=fmean)
    draws: int
    steady: bool = shown("steady", over=all, wide=True)


@dataclass(frozen=True)
class LossFindings:
    """`rows`: losses and reordering; `contention`: shared links."""

    rows: Sequence[GoodputRow]
    contention: Sequence[ContentionRow]


def collect(results: Sequence[LossRun]) -> LossFindings:
    """The rows, in the order of the points."""
    cells = grouped(results, lambda run: (run.transport, run.control, run.loss, run.reordering, run.senders))
    rows, contention = [], []
    for (transport, control, _, _, senders), runs in cells.items():
        if senders > 1:
            marks = K_BYTES if LOSS_SCHEMES[transport, control].ecn == _MARKING else None
            contention.append(combined(ContentionRow, runs, k_bytes=marks, draws=len(runs)))
            continue
        good = {run.seed: run.goodput_gbps for run in cells.get((transport, control, 0.0, 0.0, 1), [])}
        whole = [run for run in runs if good.get(run.seed)]
        if whole:
            fractions = [run.goodput_gbps / good[run.seed] for run in whole]
            lost = sum(run.lost for run in whole)
            rows.append(
                combined(
                    GoodputRow,
                    whole,
                    fraction_of_lossless=round(fmean(fractions), 4),
                    spread=spread(fractions, 4),
                    draws=len(whole),
                    spurious_fraction=round(sum(run.spurious for run in whole) / lost, 4) if lost else None,
                )
            )
    return LossFindings(rows, contention)


def tables(findings: LossFindings) -> list[Table[Any]]:
    """One connection on a lossy link, and several on a full link."""
    return [
        table(GoodputRow, findings.rows, f"One connection, 100 Gb/s ({_TOPOLOGY})"),
        table(ContentionRow, findings.contention, "Several connections on one link"),
    ]
