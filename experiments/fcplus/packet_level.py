# SPDX-License-Identifier: Apache-2.0
"""Which points of the packet level there are, and their tables: Table VIII's completion times, deadlocks; routings
under real transports, which the paper does not have.

What computes them (`packets.py`, `deadlock.py`, `transports.py`) is loaded when a point is run: it takes the engine
along.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from msgspec import UNSET

from detour.experiments.fcplus import paper
from detour.experiments.fcplus.results import (
    CompletionRow,
    DeadlockRow,
    FcplusPoint,
    FcplusResult,
    NetworkOrder,
    OverDraws,
    PacketsPoint,
    PacketsResult,
    StuckPoint,
    StuckResult,
    TransportPoint,
    TransportResult,
    TransportRow,
    TransportSetting,
)
from detour.experiments.fcplus.settings import SETTINGS_SEED, candidates, chosen_setting, text_of
from detour.experiments.steady import DRAWS, spread

NETWORKS = ("FC+ 2L", "FC+ 1L", "KSP", "FC", "Clos")
ARRIVALS_US = {"normal": 600, "full": 5_000}
"""for how long messages arrive"""
SAME = 0.02
"""completion times that differ by less are of equal rank: the paper's FC+ 2L and KSP are within 0.8 % of one another
for two of its three patterns"""
_DEADLOCK_ROUTES = ("KSP", "FC+ 1L", "FC+ 2L")
_SMALL = StuckPoint(n=12, s=6, v=3, hosts=3, k=8, each=4, us=2_000, network="KSP", dcqcn=False)
_LARGE = StuckPoint(n=120, s=22, v=None, hosts=10, k=32, each=4, us=300, network="KSP", dcqcn=False)
_DOWN = "s6-s1,s0-s10,s7-s2"
"""links of the small network whose failure locks it up where packets in the last class stay there"""


def select(full: bool, sizes: str = "equal") -> list[FcplusPoint]:
    """Five networks under three patterns; routes with and without deadlock on a small network and the paper's, and on
    the small one while links are down."""
    times = ARRIVALS_US["full" if full else "normal"]
    packets = [
        PacketsPoint(n=120, s=22, network=network, pattern=pattern, k=32, us=times, sizes=sizes)
        for pattern in paper.TABLE_8_FCT
        for network in NETWORKS
    ]
    deadlock = [
        replace(size, network=network, dcqcn=dcqcn)
        for size in (_SMALL, _LARGE)
        for dcqcn in (False, True)
        for network in _DEADLOCK_ROUTES
    ]
    failed = [
        replace(_SMALL, network=network, fail=_DOWN, guard=guard)
        for network, guard in (("FC+ 1L", False), ("FC+ 1L", UNSET), ("FC+ 2L", UNSET))
    ]
    return [*packets, *deadlock, *failed]


ROUTING_NAMES = ("FC+ 1L", "FC+ 2L", "ECMP", "KSP", "shortest-union", "UGAL-L", "UGAL-L per packet", "SprayLERP")
TRANSPORT_NAMES = ("lossless", "lossy", "shallow")
"""RoCEv2 with PFC; LERP without; the same with little memory. `transports.TRANSPORTS` says what each is"""
_COMPARED = ("near-worst", "uniform")
_SMALL_TRANSPORTS: dict[str, Any] = {"n": 32, "s": 10, "hosts": 5, "us": 1000, "load": 0.6}
_LARGE_TRANSPORTS: dict[str, Any] = {"n": 120, "s": 22, "hosts": 10, "us": 600, "load": 0.6}


def transports(extent: str, seeds: int | None = None) -> list[TransportPoint]:
    """Every routing under every transport and two patterns, at its best setting: on 32 switches, or ("full") the
    paper's 120. `seeds`: draws, None for as many as a comparison has (`experiments.steady`), one if "quick"."""
    draws = seeds or (1 if extent == "quick" else DRAWS)
    size = _LARGE_TRANSPORTS if extent == "full" else _SMALL_TRANSPORTS
    return [
        TransportPoint(
            routing=routing,
            transport=transport,
            pattern=pattern,
            seed=seed,
            setting=chosen_setting(transport, routing),
            **size,
        )
        for pattern in _COMPARED
        for transport in TRANSPORT_NAMES
        for routing in ROUTING_NAMES
        for seed in range(1, draws + 1)
    ]


def transport_settings() -> list[TransportPoint]:
    """All that is tried to find the best settings, on the small network."""
    return [
        TransportPoint(
            routing=routing,
            transport=transport,
            pattern=pattern,
            seed=SETTINGS_SEED,
            setting=setting,
            **_SMALL_TRANSPORTS,
        )
        for transport in TRANSPORT_NAMES
        for routing in ROUTING_NAMES
        for setting in candidates(transport, routing)
        for pattern in _COMPARED
    ]


def run(point: PacketsPoint | StuckPoint | TransportPoint) -> PacketsResult | StuckResult | TransportResult:
    """Computes a point of any kind."""
    if isinstance(point, TransportPoint):
        from detour.experiments.fcplus import transports as fcplus_transports

        return fcplus_transports.run(point)
    from detour.experiments.fcplus import deadlock as fcplus_deadlock
    from detour.experiments.fcplus import packets as fcplus_packets

    return fcplus_packets.run(point) if isinstance(point, PacketsPoint) else fcplus_deadlock.run(point)


def seconds(point: PacketsPoint | StuckPoint | TransportPoint) -> float:
    """Roughly what a point costs on one core, compiling left out."""
    if isinstance(point, TransportPoint):
        return 1 + point.n * point.hosts * point.us / 40_000
    if isinstance(point, PacketsPoint):
        return 15 + point.us * {"near-worst": 0.032, "uniform": 0.028, "all-to-all": 0.026}[point.pattern]
    return 4 + point.n * point.s * point.us / 25_000


# -- tables -------------------------------------------------------------------------------------------------


def completion(results: Sequence[FcplusResult]) -> list[CompletionRow]:
    """Table VIII's completion times beside the paper's."""
    return [_row(result) for result in results if isinstance(result, PacketsResult)]


def _row(result: PacketsResult) -> CompletionRow:
    printed = paper.TABLE_8_FCT[result.pattern][result.network]
    return CompletionRow(
        network=result.network,
        pattern=result.pattern,
        sizes=result.sizes,
        us=result.us,
        seed=result.seed,
        messages=result.messages,
        unfinished=result.unfinished,
        deadlock=result.deadlock,
        mean_hops=result.mean_hops,
        pauses=result.pauses,
        p50=result.slowdown.p50,
        p99=result.slowdown.p99,
        p50_us=result.fct_us.p50,
        p99_us=result.fct_us.p99,
        paper_p50=printed[0],
        paper_p99=printed[1],
    )


def orders(rows: Sequence[CompletionRow]) -> list[NetworkOrder]:
    """Networks by median, per pattern."""
    found = []
    for pattern in paper.TABLE_8_FCT:
        mine = [row for row in rows if row.pattern == pattern]
        names = [network for network in NETWORKS if any(row.network == network for row in mine)]
        ours = {name: statistics.median(row.p50 for row in mine if row.network == name) for name in names}
        theirs = {name: paper.TABLE_8_FCT[pattern][name][0] for name in names}
        if mine:
            by_ours, by_theirs = sorted(ours, key=ours.__getitem__), sorted(theirs, key=theirs.__getitem__)
            found.append(NetworkOrder(pattern, by_ours, by_theirs, agrees(ours, theirs)))
    return found


def agrees(ours: dict[str, float], theirs: dict[str, float]) -> bool:
    """Whether no two networks are the other way round, where either side tells them apart by more than `SAME`."""
    names = list(ours)
    for i, a in enumerate(names):
        for b in names[i + 1 :]:
            close = any(abs(side[a] - side[b]) <= SAME * max(side[a], side[b]) for side in (ours, theirs))
            if not close and (ours[a] < ours[b]) != (theirs[a] < theirs[b]):
                return False
    return True


def deadlocks(results: Sequence[FcplusResult]) -> list[DeadlockRow]:
    """One row a run."""
    return [
        DeadlockRow(
            network=result.network,
            n=result.n,
            s=result.s,
            dcqcn=result.dcqcn,
            seed=result.seed,
            deadlock=result.deadlock,
            stuck_queues=result.stuck_queues,
            remains=result.remains,
            found_at_us=result.found_at_us,
            goodput_gbps_before=result.goodput_gbps_before,
            goodput_gbps_after=result.goodput_gbps_after,
            pauses=result.pauses,
            drops=result.drops,
            possible=result.network == "KSP" or result.guard is False,
            failed="" if result.fail is UNSET else result.fail,
            guarded=result.guard is not False,
            goodput_gbps_anew=None if result.goodput_gbps_anew is UNSET else result.goodput_gbps_anew,
        )
        for result in results
        if isinstance(result, StuckResult)
    ]


def transport_rows(results: Sequence[TransportResult]) -> list[TransportRow]:
    """A row for every pattern, transport, routing and setting, over its draws; the sweep's are none."""
    found: dict[tuple[str, str, str, str, int], list[TransportResult]] = {}
    for one in results:
        if one.seed != SETTINGS_SEED:
            setting = text_of(one.setting) if isinstance(one.setting, TransportSetting) else ""
            found.setdefault((one.pattern, one.transport, one.routing, setting, one.n), []).append(one)
    return [_transport_row(*names[:4], some) for names, some in found.items()]


def _transport_row(
    pattern: str, transport: str, routing: str, setting: str, some: Sequence[TransportResult]
) -> TransportRow:
    return TransportRow(
        pattern=pattern,
        transport=transport,
        routing=routing,
        setting=setting,
        draws=len(some),
        offered_gbps=round(statistics.fmean(one.offered_gbps for one in some), 1),
        goodput_gbps=_over_draws([one.goodput_gbps for one in some], 1),
        settled_gbps=_over_draws([one.settled_gbps for one in some], 1),
        steady=sum(one.steady for one in some),
        p50=_over_draws([one.slowdown.p50 for one in some], 3),
        p99=_over_draws([one.slowdown.p99 for one in some], 3),
        p99_us=_over_draws([one.fct_us.p99 for one in some], 1),
        mean_hops=round(statistics.fmean(one.mean_hops for one in some), 3),
        buffer_kb=round(max(one.buffer_peak_bytes for one in some) / 1000, 1),
        pauses=sum(one.pauses for one in some),
        drops=sum(one.drops for one in some),
        retransmitted=sum(one.retransmitted for one in some),
        unfinished=sum(one.unfinished for one in some),
        deadlocks=sum(one.deadlock for one in some),
    )


def _over_draws(values: Sequence[float], digits: int) -> OverDraws:
    around = spread(values)
    return OverDraws(round(statistics.fmean(values), digits), None if around is None else round(around, digits))
