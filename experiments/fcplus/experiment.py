# SPDX-License-Identifier: Apache-2.0
"""The FC+ paper's evaluation: Tables I to VIII and Figs. 3 to 7; a point is a network and a question."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from detour.base.progress import silent
from detour.experiments.fcplus import networks as fcplus_networks
from detour.experiments.fcplus import packet_level as fcplus_packet_level
from detour.experiments.fcplus import paper
from detour.experiments.fcplus.packet_level import NETWORKS, PACKET_KINDS
from detour.experiments.store import Point

WORKER = "detour.experiments.fcplus.experiment:run"
FIRST_SET = (52, 100, 152, 200, 252, 300, 400, 500)
SECOND_SET = (100, 300, 500, 1000, 1500, 2000)
FIGURE_3 = {14: 240, 18: 240, 22: 240, 26: 240, 30: 280}
"""s: switches, a number that every N_gl divides"""
SAMPLE = 60
"""sources whose pairs stand for all, where all would take long"""
GAP = {"near-worst": 0.002, "uniform": 0.01, "all-to-all": 0.01}
"""of approximated throughput, at most"""


# -- which points -------------------------------------------------------------------------------------------


def select(extent: str, seeds: int = 1, sizes: str = "equal") -> list[Point]:
    """The points of an extent: "quick", "normal" or "full"; `seeds` wirings of every throughput point; `sizes` of the
    messages at packet level."""
    full = extent == "full"
    points = [
        *_counts(full),
        *_table_5(seeds),
        *_table_8(seeds),
        *_figure_3(),
        *_figures_4_and_5(full),
        *_figure_6(full),
        *fcplus_packet_level.select(full, sizes),
    ]
    unique = {str(sorted(point.items())): point for point in points}
    return list(unique.values())


def _point(kind: str, n: int, s: int, **rest: Any) -> Point:
    return {"experiment": "fcplus", "kind": kind, "n": n, "s": s, "seed": 1} | rest


def _flow(n: int, s: int, network: str, pattern: str, k: int, **rest: Any) -> Point:
    return _point("throughput", n, s, network=network, pattern=pattern, k=k, ties="diverse", v=None) | rest


def _counts(full: bool) -> list[Point]:
    sources = None if full else SAMPLE
    points = [_point("fc-paths", n, 18, layers=paper.fc_layers(n, 18)) for n in (*paper.TABLE_1, *paper.TABLE_6)]
    points += [_point("fc-paths", n, 22, layers=paper.fc_layers(n, 22)) for n in paper.TABLE_7 if full or n <= 1000]
    points += [_point("k2", n, 18, k=k, sources=sources) for n, row in paper.TABLE_2.items() for k in row]
    points += [_point("fc-counts", n, 18, layers=k, sources=sources) for n, row in paper.TABLE_3.items() for k in row]
    points += [_point("fcplus-counts", n, 18, v=v, sources=sources) for n, row in paper.TABLE_4.items() for v in row]
    return points


def _table_5(seeds: int) -> list[Point]:
    return [
        _flow(400, 18, "FC+ 1L", "near-worst", 32, v=v, ties=ties, seed=seed)
        for v in paper.TABLE_5
        for ties in ("plain", "diverse")
        for seed in range(1, seeds + 1)
    ]


def _table_8(seeds: int) -> list[Point]:
    return [
        _flow(120, 22, network, pattern, 32, ties=ties, seed=seed)
        for network in NETWORKS
        for pattern in paper.TABLE_8[network]
        for ties in (("diverse", "plain") if network not in ("FC", "Clos") else ("diverse",))
        for seed in range(1, 1 + (max(5, seeds) if pattern == "near-worst" else seeds))
    ]


def _figure_3() -> list[Point]:
    points = []
    for s, n in FIGURE_3.items():
        for v in range(3, (s - 2) // 2 + 3):
            group, rest = divmod(s - 2, 2 * (v - 2))
            if rest == 0 and n % group == 0:
                points.append(_flow(n, s, "FC+ 1L", "near-worst", 32, v=v))
    return points


def _figures_4_and_5(full: bool) -> list[Point]:
    points = []
    for n in FIRST_SET:
        for pattern in ("near-worst", "uniform", "all-to-all"):
            if full or n <= {"near-worst": 500, "uniform": 300, "all-to-all": 200}[pattern]:
                points += [_flow(n, 18, network, pattern, 32) for network in NETWORKS]
        points += [_flow(n, 18, name, "near-worst", k) for name in ("FC+ 2L", "KSP") for k in (64, 128)]
    return points


def _figure_6(full: bool) -> list[Point]:
    points = []
    for n in SECOND_SET:
        if full or n <= 1000:
            points += [_flow(n, 22, network, "near-worst", 40) for network in NETWORKS]
            points += [_point("length", n, 22, network=name, k=40) for name in NETWORKS[:3]]
    return points + [_point("length", n, 18, network=name, k=32) for n in FIRST_SET for name in NETWORKS[:3]]


def seconds(point: Point) -> float:
    """Roughly what a point costs on one core."""
    from detour.control.expander.throughput import suits_highs

    n, s, kind = point["n"], point["s"], point["kind"]
    if kind in PACKET_KINDS:
        return fcplus_packet_level.seconds(point)
    if kind == "length":
        return 0.1 + (n / 2000) ** 2 * 80
    if kind == "fc-paths":
        return 0.1 + (n / 500) ** 1.5 * 2 * (4 if point["layers"] > 5 else 1)
    if kind == "k2":
        return 0.1 + (40 if point["k"] == 100 and n > 500 else n / 200)
    if kind == "fcplus-counts":
        return n / (10 if point["v"] == 3 else 60)
    if kind == "fc-counts":
        return 4.0 if point["layers"] == 10 else point["layers"] / 20
    if point["network"] == "Clos":
        return 0.1
    pairs = {"near-worst": 1, "uniform": n / 8, "all-to-all": n}[point["pattern"]] * n
    paths = pairs * (6 if point["network"] == "FC" else point["k"])
    if suits_highs(int(paths), n * s):
        return 0.5 + paths * (n * s) ** 2 / 2e10
    return 0.5 + paths / (4e3 if point["pattern"] == "near-worst" else 2.5e4)


def prepare(points: Sequence[Point]) -> None:
    """Compiles what points need, once, before several processes do it at the same time."""
    planned = [p for p in points if p["kind"] not in PACKET_KINDS]
    if planned:
        for small in (
            _flow(12, 6, "FC+ 2L", "uniform", 4, v=3, hosts=1),
            _point("fc-paths", 52, 18, layers=4),
            _point("k2", 52, 18, k=4, sources=2),
        ):
            run(small)
    if len(planned) < len(points):
        from detour.engine import warm

        warm.ensure(silent)


# -- one point ----------------------------------------------------------------------------------------------


def run(point: Point) -> dict[str, Any]:
    """What is asked of one network; the point's own values are repeated in the result."""
    began = time.monotonic()
    found = {
        "fc-paths": _fc_paths,
        "fc-counts": _fc_counts,
        "fcplus-counts": _fcplus_counts,
        "k2": _k2,
        "length": _length,
        "throughput": _throughput,
        "packets": fcplus_packet_level.run,
        "deadlock": fcplus_packet_level.run,
    }[point["kind"]](point)
    values = {key: value for key, value in point.items() if key != "experiment"}
    return values | found | {"seconds": round(time.monotonic() - began, 2)}


def _fc_paths(point: Point) -> dict[str, Any]:
    from detour.control.expander.counts import mean_paths
    from detour.control.expander.routes import PathPolicy, compute
    from detour.topo.expander import fc

    network, hops = fc(point["n"], point["s"], point["layers"], seed=point["seed"]), 2 * (point["layers"] - 1)
    pairs = _sampled(network, SAMPLE)
    disjoint = compute(network, PathPolicy(64, 1, disjoint=True, max_hops=hops), pairs)
    return {
        "up_down": round(float(mean_paths(network, hops, sources=SAMPLE).sum()), 3),
        "disjoint": round(disjoint.mean_paths, 3),
    }


def _fc_counts(point: Point) -> dict[str, Any]:
    from detour.control.expander.counts import mean_paths
    from detour.topo.expander import fc

    network = fc(point["n"], point["s"], point["layers"], seed=point["seed"])
    found = mean_paths(network, 2 * (point["layers"] - 1), sources=point["sources"])
    return {"n_p": round(float(found.sum()), 3), **{f"n_p{h}": round(float(found[: h + 1].sum()), 3) for h in (6, 4)}}


def _fcplus_counts(point: Point) -> dict[str, Any]:
    from detour.control.expander.counts import mean_paths
    from detour.control.expander.routes import PathPolicy, compute
    from detour.topo.expander import fcplus

    network = fcplus(point["n"], point["s"], point["v"], seed=point["seed"])
    routes = compute(network, PathPolicy(32, 1))
    mean = np.add.reduceat(routes.length, routes.first[:-1], dtype=np.int64) / np.diff(routes.first)
    return {
        "longest": round(float(mean.max()), 3),
        "shortest": round(float(mean.min()), 3),
        "n_p4": round(float(mean_paths(network, 4).sum()), 3),
    }


def _k2(point: Point) -> dict[str, Any]:
    from detour.control.expander.counts import examined
    from detour.control.expander.routes import PathPolicy, compute
    from detour.topo.expander import fcplus

    network = fcplus(point["n"], point["s"], seed=point["seed"])
    found = examined(compute(network, PathPolicy(point["k"], 2), _sampled(network, point["sources"])))
    return {"k2": round(found.mean, 3), "exact": found.exact}


def _sampled(network: Any, sources: int | None) -> Any:
    """All pairs of so many sources, spread evenly (None: of all)."""
    from detour.control.expander.routes import all_pairs

    pairs = all_pairs(network)
    if sources is None or sources >= network.tors.size:
        return pairs
    chosen = network.tors[np.linspace(0, network.tors.size - 1, sources).astype(np.int64)]
    return pairs[np.isin(pairs[:, 0], chosen)]


def _length(point: Point) -> dict[str, Any]:
    from detour.control.expander.routes import compute

    network = fcplus_networks.network(point)
    return {
        "mean_length": round(compute(network, fcplus_networks.policy(point), _sampled(network, SAMPLE)).mean_length, 4)
    }


def _throughput(point: Point) -> dict[str, Any]:
    from detour.control.expander import demand, throughput
    from detour.topo.expander.folded import choose_shape

    network = fcplus_networks.network(point)
    if point["network"] == "Clos":
        # Nothing is oversubscribed above the edge switches: the links up of one against its servers.
        theta = choose_shape(int(network.hosts.sum()), point["n"]).up / int(network.hosts.max())
        return {"theta": round(theta, 5), "upper_bound": round(theta, 5), "gap": 0.0, "method": "closed form"}
    wanted = demand.demand_of(point["pattern"], network, point["seed"])
    found = throughput.throughput(network, fcplus_networks.policy(point), wanted, gap=GAP[point["pattern"]])
    bound = demand.upper_bound(network, wanted)
    return {
        "theta": round(found.theta, 5),
        "upper_bound": round(bound, 5),
        "gap": round(found.gap, 5),
        "method": found.method,
    }


# -- tables -------------------------------------------------------------------------------------------------


def collect(results: Iterable[dict[str, Any] | None]) -> dict[str, Any]:
    """`points`: all; `table_1` to `table_8`: rows with ours beside the paper's, where ours was run."""
    points = [result for result in results if result is not None]
    return {
        "points": points,
        "table_1": _fc_rows(points, 18, paper.TABLE_1, both=True),
        "table_2": [
            {"n": p["n"], "k": p["k"], "k2": p["k2"], "paper": paper.TABLE_2[p["n"]][p["k"]]}
            for p in points
            if p["kind"] == "k2"
        ],
        "table_3": [
            {key: p[key] for key in ("n", "layers", "n_p", "n_p6", "n_p4")}
            | {"paper": list(paper.TABLE_3[p["n"]][p["layers"]])}
            for p in points
            if p["kind"] == "fc-counts"
        ],
        "table_4": [
            {key: p[key] for key in ("n", "v", "longest", "shortest", "n_p4")}
            | {"paper": list(paper.TABLE_4[p["n"]][p["v"]])}
            for p in points
            if p["kind"] == "fcplus-counts"
        ],
        "table_5": _table_5_rows(points),
        "table_6": _fc_rows(points, 18, paper.TABLE_6, both=False),
        "table_7": _fc_rows(points, 22, paper.TABLE_7, both=False),
        "table_8": _table_8_rows(points),
        **fcplus_packet_level.collect(points),
    }


def _fc_rows(points: list[dict[str, Any]], s: int, theirs: dict[int, Any], both: bool) -> list[dict[str, Any]]:
    rows = []
    for p in points:
        if p["kind"] == "fc-paths" and p["s"] == s and p["n"] in theirs:
            row = {"n": p["n"], "layers": p["layers"], "disjoint": p["disjoint"]}
            printed = theirs[p["n"]]
            rows.append(
                row | {"up_down": p["up_down"], "paper_up_down": printed[0], "paper_disjoint": printed[1]}
                if both
                else row | {"paper_disjoint": printed}
            )
    return rows


def theta_of(points: list[dict[str, Any]], **values: Any) -> float | None:
    """Median theta of the points with these values, None if there is none."""
    found = [
        p["theta"]
        for p in points
        if p["kind"] == "throughput" and all(p.get(key) == value for key, value in values.items())
    ]
    return round(statistics.median(found), 5) if found else None


def _table_5_rows(points: list[dict[str, Any]]) -> list[dict[str, Any]]:
    rows = []
    for v, printed in paper.TABLE_5.items():
        found = {ties: theta_of(points, n=400, s=18, v=v, ties=ties) for ties in ("plain", "diverse")}
        if any(found.values()):
            rows.append({"v": v, **found, "paper": printed})
    return rows


def _table_8_rows(points: list[dict[str, Any]]) -> list[dict[str, Any]]:
    rows = []
    for network, printed in paper.TABLE_8.items():
        for pattern, value in printed.items():
            same = {"n": 120, "s": 22, "network": network, "pattern": pattern, "k": 32}
            found = {ties: theta_of(points, **same, ties=ties) for ties in ("plain", "diverse")}
            if any(found.values()):
                rows.append({"network": network, "pattern": pattern, **found, "paper": value})
    return rows
