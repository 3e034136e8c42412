# SPDX-License-Identifier: Apache-2.0
"""The FC+ paper's evaluation: Tables I to VIII and Figs. 3 to 7; a point is a network and a question."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from importlib import import_module
from itertools import product
from typing import Any

import numpy as np
from msgspec import UNSET

from detour.base.errors import DetourError
from detour.base.progress import silent
from detour.experiments.fcplus import paper
from detour.experiments.fcplus.results import (
    NETWORKS,
    FcCountsPoint,
    FcPathsPoint,
    FcplusCountsPoint,
    FcplusPoint,
    FlowPoint,
    K2Point,
    LengthPoint,
    PacketsPoint,
    StuckPoint,
    TransportPoint,
    answered,
    network_of,
    policy_of,
)
from detour.experiments.fcplus.settings import SETTINGS_SEED, candidates, chosen_setting
from detour.experiments.steady import DRAWS

FIRST_SET = (52, 100, 152, 200, 252, 300, 400, 500)
SECOND_SET = (100, 300, 500, 1000, 1500, 2000)
FIGURE_3 = {14: 240, 18: 240, 22: 240, 26: 240, 30: 280}
"""s: switches, a number that every N_gl divides"""
SAMPLE = 60
"""sources whose pairs stand for all, where all would take long"""
GAP = {"near-worst": 0.002, "uniform": 0.01, "all-to-all": 0.01}
"""of approximated throughput, at most"""


# -- which points -------------------------------------------------------------------------------------------


def select(extent: str, seeds: int | None = None, sizes: str = "equal", part: str = "paper") -> list[FcplusPoint]:
    """The points of an extent: "quick", "normal" or "full"; `seeds` wirings of every throughput point (None: 1, of
    transports as many as a comparison has); `sizes` of the messages at packet level; `part`: the paper's evaluation,
    routings under real "transports", or the "settings" that are tried for these. Raises `DetourError`: less than one
    wiring."""
    if seeds is not None and seeds < 1:
        raise DetourError(f"--seeds {seeds} is less than 1")
    full = extent == "full"
    if part == "transports":
        return [*transports(extent, seeds)]
    if part == "settings":
        return [*transport_settings()]
    seeds = seeds or 1
    points = [
        *_counts(full),
        *_table_5(seeds),
        *_table_8(seeds),
        *_figure_3(),
        *_figures_4_and_5(full),
        *_figure_6(full),
        *packet_level(full, sizes),
    ]
    return list(dict.fromkeys(points))


def _flow(n: int, s: int, network: str, pattern: str, k: int, **rest: Any) -> FlowPoint:
    return FlowPoint(n=n, s=s, network=network, pattern=pattern, k=k, **rest)


def _fc_points(s: int, sizes: Iterable[int]) -> list[FcplusPoint]:
    return [FcPathsPoint(n=n, s=s, layers=paper.fc_layers(n, s)) for n in sizes]


def _counts(full: bool) -> list[FcplusPoint]:
    rest: dict[str, Any] = {"s": 18, "sources": None if full else SAMPLE}
    points = _fc_points(18, (*paper.TABLE_1, *paper.TABLE_6))
    points += _fc_points(22, (n for n in paper.TABLE_7 if full or n <= 1000))
    points += [K2Point(n=n, k=k, **rest) for n, row in paper.TABLE_2.items() for k in row]
    points += [FcCountsPoint(n=n, layers=k, **rest) for n, row in paper.TABLE_3.items() for k in row]
    points += [FcplusCountsPoint(n=n, v=v, **rest) for n, row in paper.TABLE_4.items() for v in row]
    return points


def _table_5(seeds: int) -> list[FlowPoint]:
    return [
        _flow(400, 18, "FC+ 1L", "near-worst", 32, v=v, ties=ties, seed=seed)
        for v in paper.TABLE_5
        for ties in ("plain", "diverse")
        for seed in range(1, seeds + 1)
    ]


def _table_8(seeds: int) -> list[FlowPoint]:
    return [
        _flow(120, 22, network, pattern, 32, ties=ties, seed=seed)
        for network in NETWORKS
        for pattern in paper.TABLE_8[network]
        for ties in (("diverse", "plain") if network not in ("FC", "Clos") else ("diverse",))
        for seed in range(1, 1 + (max(5, seeds) if pattern == "near-worst" else seeds))
    ]


def _figure_3() -> list[FlowPoint]:
    points = []
    for s, n in FIGURE_3.items():
        for v in range(3, (s - 2) // 2 + 3):
            group, rest = divmod(s - 2, 2 * (v - 2))
            if rest == 0 and n % group == 0:
                points.append(_flow(n, s, "FC+ 1L", "near-worst", 32, v=v))
    return points


def _figures_4_and_5(full: bool) -> list[FlowPoint]:
    points = []
    for n in FIRST_SET:
        for pattern in ("near-worst", "uniform", "all-to-all"):
            if full or n <= {"near-worst": 500, "uniform": 300, "all-to-all": 200}[pattern]:
                points += [_flow(n, 18, network, pattern, 32) for network in NETWORKS]
        points += [_flow(n, 18, name, "near-worst", k) for name in ("FC+ 2L", "KSP") for k in (64, 128)]
    return points


def _figure_6(full: bool) -> list[FcplusPoint]:
    points: list[FcplusPoint] = []
    for n in SECOND_SET:
        if full or n <= 1000:
            points += [_flow(n, 22, network, "near-worst", 40) for network in NETWORKS]
            points += [LengthPoint(n=n, s=22, network=name, k=40) for name in NETWORKS[:3]]
    return points + [LengthPoint(n=n, s=18, network=name, k=32) for n in FIRST_SET for name in NETWORKS[:3]]


ARRIVALS_US = {"normal": 600, "full": 5_000}
"""for how long messages arrive"""
_SMALL = StuckPoint(n=12, s=6, v=3, hosts=3, k=8, each=4, us=2_000, network="KSP", dcqcn=False)
_LARGE = StuckPoint(n=120, s=22, v=None, hosts=10, k=32, each=4, us=300, network="KSP", dcqcn=False)
_DOWN = "s6-s1,s0-s10,s7-s2"
"""links of the small network whose failure locks it up where packets in the last class stay there"""


def packet_level(full: bool, sizes: str = "equal") -> list[FcplusPoint]:
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
        for network in ("KSP", "FC+ 1L", "FC+ 2L")
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
    chosen = {pair: chosen_setting(*pair) for pair in product(TRANSPORT_NAMES, ROUTING_NAMES)}
    return [
        TransportPoint(routing=routing, transport=transport, pattern=pattern, seed=seed, setting=setting, **size)
        for pattern in _COMPARED
        for (transport, routing), setting in chosen.items()
        for seed in range(1, draws + 1)
    ]


def transport_settings() -> list[TransportPoint]:
    """All that is tried to find the best settings, on the small network."""
    size = {"seed": SETTINGS_SEED, **_SMALL_TRANSPORTS}
    return [
        TransportPoint(routing=routing, transport=transport, pattern=pattern, setting=setting, **size)
        for transport, routing in product(TRANSPORT_NAMES, ROUTING_NAMES)
        for setting in candidates(transport, routing)
        for pattern in _COMPARED
    ]


def _flow_seconds(point: FlowPoint) -> float:
    from detour.control.expander.throughput import suits_highs

    n, s = point.n, point.s
    if point.network == "Clos":
        return 0.1
    pairs = {"near-worst": 1, "uniform": n / 8, "all-to-all": n}[point.pattern] * n
    paths = pairs * (6 if point.network == "FC" else point.k)
    if suits_highs(int(paths), n * s):
        return 0.5 + paths * (n * s) ** 2 / 2e10
    return 0.5 + paths / (4e3 if point.pattern == "near-worst" else 2.5e4)


def prepare(points: Sequence[FcplusPoint]) -> None:
    """Compile what points need, once, before several processes do it at the same time."""
    planned = [point for point in points if not isinstance(point, PacketsPoint | StuckPoint | TransportPoint)]
    if planned:
        for small in (
            _flow(12, 6, "FC+ 2L", "uniform", 4, v=3, hosts=1),
            FcPathsPoint(n=52, s=18, layers=4),
            K2Point(n=52, s=18, k=4, sources=2),
        ):
            run(small)
    if len(planned) < len(points):
        from detour.engine import warm

        warm.ensure(silent)


# -- one point ----------------------------------------------------------------------------------------------


def _fc_paths(point: FcPathsPoint) -> FcPathsPoint:
    from detour.control.expander.counts import mean_paths
    from detour.control.expander.routes import PathPolicy, compute
    from detour.topo.expander import fc

    network, hops = fc(point.n, point.s, point.layers, seed=point.seed), 2 * (point.layers - 1)
    pairs = _sampled(network, SAMPLE)
    disjoint = compute(network, PathPolicy(64, 1, disjoint=True, max_hops=hops), pairs)
    up_down = round(float(mean_paths(network, hops, sources=SAMPLE).sum()), 3)
    return answered(point, up_down=up_down, disjoint=round(disjoint.mean_paths, 3))


def _fc_counts(point: FcCountsPoint) -> FcCountsPoint:
    from detour.control.expander.counts import mean_paths
    from detour.topo.expander import fc

    network = fc(point.n, point.s, point.layers, seed=point.seed)
    paths = mean_paths(network, 2 * (point.layers - 1), sources=point.sources)
    n_p, n_p6, n_p4 = (round(float(some.sum()), 3) for some in (paths, paths[:7], paths[:5]))
    return answered(point, n_p=n_p, n_p6=n_p6, n_p4=n_p4)


def _fcplus_counts(point: FcplusCountsPoint) -> FcplusCountsPoint:
    from detour.control.expander.counts import mean_paths
    from detour.control.expander.routes import PathPolicy, compute
    from detour.topo.expander import fcplus

    network = fcplus(point.n, point.s, point.v, seed=point.seed)
    routes = compute(network, PathPolicy(32, 1))
    mean = np.add.reduceat(routes.length, routes.first[:-1], dtype=np.int64) / np.diff(routes.first)
    return answered(
        point,
        longest=round(float(mean.max()), 3),
        shortest=round(float(mean.min()), 3),
        n_p4=round(float(mean_paths(network, 4).sum()), 3),
    )


def _k2(point: K2Point) -> K2Point:
    from detour.control.expander.counts import examined
    from detour.control.expander.routes import PathPolicy, compute
    from detour.topo.expander import fcplus

    network = fcplus(point.n, point.s, seed=point.seed)
    paths = examined(compute(network, PathPolicy(point.k, 2), _sampled(network, point.sources)))
    return answered(point, k2=round(paths.mean, 3), exact=paths.exact)


def _sampled(network: Any, sources: int | None) -> Any:
    """All pairs of so many sources, spread evenly (None: of all)."""
    from detour.control.expander.routes import all_pairs

    pairs = all_pairs(network)
    if sources is None or sources >= network.tors.size:
        return pairs
    chosen = network.tors[np.linspace(0, network.tors.size - 1, sources).astype(np.int64)]
    return pairs[np.isin(pairs[:, 0], chosen)]


def _length(point: LengthPoint) -> LengthPoint:
    from detour.control.expander.routes import compute

    network = network_of(point)
    routes = compute(network, policy_of(point), _sampled(network, SAMPLE))
    return answered(point, mean_length=round(routes.mean_length, 4))


def _throughput(point: FlowPoint) -> FlowPoint:
    from detour.control.expander import demand, throughput
    from detour.topo.expander.folded import choose_shape

    network = network_of(point)
    if point.network == "Clos":
        # Nothing is oversubscribed above the edge switches: the links up of one against its servers.
        theta = round(choose_shape(int(network.hosts.sum()), point.n).up / int(network.hosts.max()), 5)
        return answered(point, theta=theta, upper_bound=theta, gap=0.0, method="closed form")
    volumes = demand.demand_of(point.pattern, network, point.seed)
    flow = throughput.throughput(network, policy_of(point), volumes, gap=GAP[point.pattern])
    return answered(
        point,
        theta=round(flow.theta, 5),
        upper_bound=round(demand.upper_bound(network, volumes), 5),
        gap=round(flow.gap, 5),
        method=flow.method,
    )


def _in_virtual_time(module: str) -> Callable[[Any], FcplusPoint]:
    """`run` of a module that is loaded when a point is run: it takes the engine along."""
    return lambda point: import_module(f"detour.experiments.fcplus.{module}").run(point)


_PACKETS_SECONDS = {"near-worst": 0.032, "uniform": 0.028, "all-to-all": 0.026}
"""of a microsecond of arrivals"""
_KINDS: dict[type[FcplusPoint], tuple[Callable[[Any], FcplusPoint], Callable[[Any], float]]] = {
    FcPathsPoint: (_fc_paths, lambda p: 0.1 + (p.n / 500) ** 1.5 * 2 * (4 if p.layers > 5 else 1)),
    FcCountsPoint: (_fc_counts, lambda p: 4.0 if p.layers == 10 else p.layers / 20),
    FcplusCountsPoint: (_fcplus_counts, lambda p: p.n / (10 if p.v == 3 else 60)),
    K2Point: (_k2, lambda p: 0.1 + (40 if p.k == 100 and p.n > 500 else p.n / 200)),
    LengthPoint: (_length, lambda p: 0.1 + (p.n / 2000) ** 2 * 80),
    FlowPoint: (_throughput, _flow_seconds),
    PacketsPoint: (_in_virtual_time("packets"), lambda p: 15 + p.us * _PACKETS_SECONDS[p.pattern]),
    StuckPoint: (_in_virtual_time("deadlock"), lambda p: 4 + p.n * p.s * p.us / 25_000),
    TransportPoint: (_in_virtual_time("transports"), lambda p: 1 + p.n * p.hosts * p.us / 40_000),
}
"""by kind of point: what computes it, and roughly what that costs on one core"""


def seconds(point: FcplusPoint) -> float:
    return _KINDS[type(point)][1](point)


def run(point: FcplusPoint) -> FcplusPoint:
    """The point with what is asked of its network."""
    began = time.monotonic()
    result = _KINDS[type(point)][0](point)
    return replace(result, seconds=round(time.monotonic() - began, 2))
