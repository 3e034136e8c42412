# SPDX-License-Identifier: Apache-2.0
"""Claims of others that linear programmes and counting decide, without a packet: paths that share no link, ratios of
worst matchings, lengths of paths, numbers of switches, and what cliques and matchings of few switches get.

A ratio is what hosts send to what arrives under a random matching in which every switch sends all to one other. RNG's
paper computes it as we do, by a programme over all paths that Spraypoint's switches may choose. It leaves the split
among them to the programme; switches split evenly, by hashes, and what that carries is given beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from detour.control.expander.cuts import next_hop_cuts, path_cuts
from detour.control.expander.demand import Demand, demand_of
from detour.control.expander.families import weighted_routes
from detour.control.expander.optimum import optimum
from detour.control.expander.routes import ExpanderRoutes, PathPolicy, compute
from detour.control.expander.splits import split_loads, spraypoint
from detour.control.expander.throughput import solve
from detour.control.routes.spraypoint import SpraypointParameters
from detour.experiments.flat.points import Claim, ClaimsPoint, ClaimsRun, claim
from detour.topo.expander import Expander, jellyfish, xpander
from detour.topo.expander.booted import network_of

GAP, _ROUGH_GAP = 0.01, 0.03
_SPRAYPOINT_PATHS = 512
"""of a pair, for the programme: nearly all that have five links at most"""
_MOST_PATHS = 300_000
RNG_PAPER, WMP_PAPER = "RNG (arXiv 2604.15261)", "WMP-PolarFly (whitepaper v4.0)"


class Scale(NamedTuple):
    """An RNG with as many hosts as links a switch, and Spraypoint's waypoints."""

    switches: int
    degree: int
    waypoints: int

    @property
    def parameters(self) -> SpraypointParameters:
        """Spraypoint's."""
        return SpraypointParameters(p=self.waypoints)

    def network(self, seed: int) -> Expander:
        """Return a wiring."""
        return network_of(f"rng:n={self.switches},d={self.degree},hosts={self.degree},seed={seed}")


PAPER, MODEL, SMALL = Scale(960, 64, 4), Scale(512, 32, 4), Scale(160, 20, 2)
SCALES = {"paper": PAPER, "model": MODEL, "small": SMALL}
"""that of the paper; one with the same d / n that runs as packets; one for a look"""


def ksp(network: Expander, demand: Demand, k: int, ties: str) -> ExpanderRoutes:
    """K shortest paths. `ties`: of those of equal length the first found (`plain`), or those that share least
    (`diverse`)."""
    return compute(network, PathPolicy(k, 0, ties, max_hops=5), demand.pairs)


class DisjointFigures(NamedTuple):
    """Edge-disjoint paths (pairs,) that Spraypoint allows, and the medians of K shortest paths by (K, ties)."""

    spraypoint: np.ndarray
    medians: dict[tuple[int, str], float]


def disjoint_figures(scale: Scale, pairs: int, seed: int) -> DisjointFigures:
    """Counted for some pairs of a random matching."""
    network = scale.network(seed)
    demand = demand_of("random-matching", network, seed)
    demand = Demand(demand.pairs[:pairs], demand.amount[:pairs])
    counts = next_hop_cuts(network, demand.pairs, partial(spraypoint, settings=scale.parameters))
    medians = {
        (k, ties): float(np.median(path_cuts(ksp(network, demand, k, ties))))
        for k in (8, 64)
        for ties in ("plain", "diverse")
    }
    return DisjointFigures(counts, medians)


class RatioFigures(NamedTuple):
    """Ratios under one random matching: over the paths that Spraypoint allows, split evenly among them (`hashed`) and
    over K shortest paths; `links` of a path of Spraypoint's, mean."""

    spraypoint: float
    hashed: float
    links: float
    ksp: dict[tuple[int, str], float]


def ratio_figures(scale: Scale, seed: int) -> RatioFigures:
    """Return the figures of one wiring and one matching, to within `GAP`."""
    network = scale.network(seed)
    demand = demand_of("random-matching", network, seed)
    loads = split_loads(network, demand, partial(spraypoint, settings=scale.parameters))
    return RatioFigures(
        1 / _spraypoint_theta(network, demand, scale),
        float(loads.max()),
        float(loads.sum() / demand.amount.sum()),
        {
            (k, ties): 1 / solve(ksp(network, demand, k, ties), demand, "approximate", GAP).theta
            for k in (8, 64)
            for ties in ("plain", "diverse")
        },
    )


def _spraypoint_theta(network: Expander, demand: Demand, scale: Scale) -> float:
    k = max(8, min(_SPRAYPOINT_PATHS, _MOST_PATHS // len(demand.pairs)))
    paths = weighted_routes("spraypoint", network, demand.pairs, k=k, spraypoint=scale.parameters)
    return solve(paths.routes, demand, "approximate", GAP).theta


def tree_switches(servers: int, radix: int, ratio: int, *, at_leaf: bool) -> int:
    """Switches of a three-level tree oversubscribed `ratio` to 1: at the leaves, or between pods and spines."""
    lean = radix // (1 + ratio)  # ports up of the oversubscribed level
    up, higher = (lean, radix // 2) if at_leaf else (radix // 2, lean)
    leaves = _parts(servers, radix - up)
    uplinks = servers * up / (radix - up)
    return leaves + _parts(uplinks, radix - higher) + _parts(uplinks * higher / (radix - higher), radix)


def _parts(amount: float, size: int) -> int:
    return int(np.ceil(amount / size - 1e-9))


def tree_theta(demand: Demand, degree: int) -> float:
    """Return what a tree with the same switches at the leaves carries, 3 to 1 between pods and spines, at most 1: 3/2
    `degree` leaves make a pod, from which `degree`^2/2 links lead."""
    pods = demand.pairs // (3 * degree // 2)
    leaving = pods[:, 0] != pods[:, 1]
    most = max(float(np.bincount(ends[leaving], demand.amount[leaving], minlength=1).max()) for ends in pods.T)
    return min(1.0, degree * degree / 2 / most) if most else 1.0


def active_figures(scale: Scale, pattern: str, seeds: int) -> tuple[float, float]:
    """Theta (at most 1) of RNG with Spraypoint and of the tree under traffic of few switches, means over seeds."""
    found = []
    for seed in range(1, seeds + 1):
        network = scale.network(seed)
        demand = demand_of(pattern, network, seed)
        found.append((min(1.0, _spraypoint_theta(network, demand, scale)), tree_theta(demand, scale.degree)))
    rng, tree = np.mean(found, axis=0).tolist()
    return rng, tree


class NeighbourFigures(NamedTuple):
    """Theta of neighbour matching on PolarFly, with one host a link: over WMP's own paths, with paths of four links
    too, and over all; `links` of WMP's paths under a random matching by its weights, mean; `bare`: links between
    switches without a neighbour in common."""

    own: float
    relieved: float
    optimum: float
    links: float
    bare: int


def neighbour_figures(q: int, seed: int = 1) -> NeighbourFigures:
    """See there."""
    network = network_of(f"polarfly:q={q},hosts={q + 1}")
    demand = demand_of("neighbour-matching", network, seed)
    own = weighted_routes("shortest-union", network, demand.pairs)
    relieved = weighted_routes("wmp", network, demand.pairs, k=q + 1, seed=seed)
    apart = demand_of("random-matching", network, seed)
    routes, weights = weighted_routes("wmp", network, apart.pairs, k=q + 1, seed=seed)
    pairs = weighted_routes("shortest-union", network, network.links).routes
    theta = [solve(paths.routes, demand, gap=GAP).theta for paths in (own, relieved)]
    bare = int((np.diff(pairs.first) == 1).sum())
    links = float(weights @ routes.length) / len(apart.pairs)
    return NeighbourFigures(theta[0], theta[1], optimum(network, demand).theta, links, bare)


def _disjoint(scale: Scale, draws: int) -> Iterator[Claim]:
    figures = disjoint_figures(scale, 300, 1)
    over_50, over_60 = ((figures.spraypoint > share * scale.degree).mean() for share in (50 / 64, 60 / 64))
    least, median = int(figures.spraypoint.min()), float(np.median(figures.spraypoint))
    yield claim(
        f"Spraypoint has more than {50 / 64:.0%} of d edge-disjoint paths for nearly all pairs, {60 / 64:.0%} for half",
        RNG_PAPER,
        "50 for nearly all, 60 for half (d = 64)",
        f"{over_50:.0%} and {over_60:.0%} of pairs; median {median:g}, least {least} of {scale.degree}",
        "yes" if over_50 > 0.95 and over_60 >= 0.5 else "partly" if over_50 > 0.95 else "no",
    )
    plain, diverse = ([figures.medians[k, ties] for k in (8, 64)] for ties in ("plain", "diverse"))
    yield claim(
        "8-KSP and 64-KSP have far fewer",
        RNG_PAPER,
        "median 5 and 35",
        f"median {plain[0]:g} and {plain[1]:g} (ties to the first path), {diverse[0]:g} and {diverse[1]:g} (to paths"
        " that share least)",
        "yes" if diverse[1] < 0.8 * median else "partly",
    )


def _ratios(scale: Scale, draws: int) -> Iterator[Claim]:
    figures = [ratio_figures(scale, seed) for seed in range(1, draws + 1)]
    worst = max(one.spraypoint for one in figures)
    hashed, links = max(one.hashed for one in figures), float(np.mean([one.links for one in figures]))
    yield claim(
        "Spraypoint's ratio under the worst random matching",
        RNG_PAPER,
        "3.25",
        f"{worst:.2f} with the best split, {hashed:.1f} with the even one of hashes",
        "partly" if abs(worst / 3.25 - 1) < 0.06 else "no",
    )
    plain, diverse = ([max(one.ksp[k, ties] for one in figures) for k in (8, 64)] for ties in ("plain", "diverse"))
    yield claim(
        "8-KSP's and 64-KSP's ratios are worse",
        RNG_PAPER,
        "21.3 and 4.7",
        f"{plain[0]:.1f} and {plain[1]:.1f} (ties to the first path), {diverse[0]:.1f} and {diverse[1]:.1f} (to paths"
        " that share least)",
        "yes" if diverse[1] > worst else "partly",
    )
    yield claim(
        "RNG's paths have 4 to 5 links, WMP's 2 to 3", WMP_PAPER, "4-5", f"RNG's {links:.2f}, mean",
        "yes" if links >= 4 else "no",
    )  # fmt: skip


def _savings(scale: Scale, draws: int) -> Iterator[Claim]:
    servers, radix = scale.switches * scale.degree, 2 * scale.degree
    spine, leaf = (tree_switches(servers, radix, 3, at_leaf=at_leaf) for at_leaf in (False, True))
    at_spine, at_leaf = (1 - scale.switches / count for count in (spine, leaf))
    yield claim(
        "RNG takes 45 % fewer switches than an oversubscribed tree",
        RNG_PAPER,
        "45 %",
        f"{at_spine:.0%} ({scale.switches} for {spine}) if it is oversubscribed 3:1 at the spine, {at_leaf:.0%} (for"
        f" {leaf}) at the leaves",
        "partly",
    )
    flat, clos = 993, [tree_switches(993 * 96, 128, 3, at_leaf=at_leaf) for at_leaf in (False, True)]
    least, most = (1 - flat / count for count in sorted(clos))
    yield claim(
        "PolarFly takes 40-60 % fewer switches than a Clos of the same oversubscription (q = 31, 96 servers)",
        WMP_PAPER,
        "40-60 %",
        f"{least:.0%} or {most:.0%} (3:1 at the leaves or the spine); 3:1 of ports, not of what worst matchings get",
        "partly" if most >= 0.4 else "no",
    )


def _active(scale: Scale, draws: int) -> Iterator[Claim]:
    def beside(pattern: str) -> float:
        rng, tree = active_figures(scale, pattern, draws)
        return rng / tree - 1

    many, few = beside("clique:0.8"), beside("clique:0.08")
    yield claim(
        "Cliques get up to 30 % more than in the tree, and 5-10 % less if few switches take part",
        RNG_PAPER,
        "+30 %; -5 to -10 % below 0.1",
        f"{many:+.0%} at 0.8, {few:+.0%} at 0.08",
        "yes" if many > 0.2 and -0.12 < few < 0 else "partly" if many > 0.1 else "no",
    )
    some, all_of_it = beside("matching:0.3"), beside("matching:1")
    yield claim(
        "Matchings get less than in the tree where less than 0.4 of the switches take part",
        RNG_PAPER,
        "less below 0.4 (Fig. 13)",
        f"{some:+.0%} at 0.3, {all_of_it:+.0%} at 1",
        "yes" if some < 0 <= all_of_it else "partly" if some < 0 else "no",
    )


def _neighbours(scale: Scale, draws: int) -> Iterator[Claim]:
    for q in (7, 11):
        figures, links = neighbour_figures(q), q * (q + 1) ** 2 // 2
        yield claim(
            f"WMP has about q edge-disjoint paths for every pair (section 3.6; q = {q})",
            WMP_PAPER,
            f"about {q}",
            f"not between adjacent switches: {figures.bare} of {links} links have no second path of up to three links."
            f" Neighbour matching gets {figures.own:.2f}, {figures.relieved:.2f} with paths of four links, of"
            f" {figures.optimum:.2f}",
            "no",
        )
    yield claim(
        "WMP's paths have 2.6 links", WMP_PAPER, "L = 2.6", f"{neighbour_figures(7).links:.2f} at q = 7", "partly"
    )


def _older(scale: Scale, draws: int) -> Iterator[Claim]:
    network = xpander(117, 8, 4)  # beside a fat-tree of 180 switches of 12 ports and 432 hosts
    skewed, even = (
        min(1.0, *(optimum(network, demand_of(pattern, network), _ROUGH_GAP).theta for pattern in patterns))
        for patterns in (("clique:0.2", "hubs:0.1"), ("all-to-all", "longest-matching"))
    )
    yield claim(
        "Xpander of 2/3 of the switches carries what a full fat-tree does if traffic is skewed",
        "Kassing et al. (SIGCOMM 2017)",
        "as much",
        f"{skewed:.2f} of the hosts' rate where few switches take part or are hubs, {even:.2f} at worst",
        "yes" if skewed > 0.97 else "partly" if skewed > 0.8 else "no",
    )
    flat = jellyfish(80, 25, 39)
    gain = {
        pattern: 3 * optimum(flat, demand_of(pattern, flat), _ROUGH_GAP).theta - 1
        for pattern in ("clique:0.3", "all-to-all")
    }
    yield claim(
        "A flat network carries over 50 % more than a leaf-spine of the same switches (3:1)",
        "Harsh et al. (HotNets 2020)",
        "over 50 %",
        f"{gain['clique:0.3']:+.0%} if 0.3 of the switches take part, {gain['all-to-all']:+.0%} all to all",
        "yes" if min(gain.values()) > 0.5 else "partly" if max(gain.values()) > 0.5 else "no",
    )


QUESTIONS: dict[str, Callable[[Scale, int], Iterator[Claim]]] = {
    "disjoint": _disjoint, "ratios": _ratios, "savings": _savings, "active": _active, "neighbours": _neighbours,
    "older": _older,
}  # fmt: skip


def run(point: ClaimsPoint) -> ClaimsRun:
    """The claims of a question, judged."""
    found = tuple(QUESTIONS[point.question](SCALES[point.scale], point.draws))
    return ClaimsRun(question=point.question, scale=point.scale, draws=point.draws, claims=found)
