# SPDX-License-Identifier: Apache-2.0
"""Routings that cannot deadlock beside each other: what lossless priorities they need, how long their paths are, and
what they carry.

DF-KSP has K paths a pair (on networks that are not wired in layers with one priority: up*/down* paths). The others are
of InfiniBand, whose switches forward by destination: a tree for every host of a switch. LASH is given the paths of
DFSSSP, which are the best balanced shortest ones here, and KSP's K paths besides. What a pair sends is split among its
paths in the proportions that carry most, in all schemes. Every routing is checked by `proof`, which knows nothing of
how it was made.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from detour.base.errors import DetourError
from detour.control.expander import COMPARED_ROUTINGS, forests, lanes, nue, tagger
from detour.control.expander.demand import Demand
from detour.control.expander.proof import Proof, prove
from detour.control.expander.routes import MAX_HOPS, ExpanderRoutes, PathPolicy, compute, longest_searched, of_pairs
from detour.control.expander.throughput import solve
from detour.topo.expander.network import Expander


class _Routed(NamedTuple):
    """Routes, the priorities that they take, and what the checker says of them."""

    routes: ExpanderRoutes
    priorities: int
    proof: Proof
    escaped: float


@dataclass(frozen=True)
class Compared:
    """A routing. `bound`: the priorities that it was given, None if it takes what it needs; `priorities` that it uses;
    `theta` is attained, at most `theta` * (1 + `gap`) is possible; `escaped`: the share of Nue's trees that follow the
    spanning tree; `seconds` for routes and priorities."""

    scheme: str
    bound: int | None
    priorities: int
    acyclic: bool
    paths: float
    mean_hops: float
    max_hops: int
    theta: float
    gap: float
    escaped: float
    seconds: float


@dataclass(frozen=True)
class Comparison:
    """`tagger`: priorities that Tagger needs for KSP's paths, which change their priority on the way."""

    spec: str
    pattern: str
    k: int
    trees: int
    tagger: int
    rows: list[Compared]


@dataclass(frozen=True)
class Terms:
    """Terms of a comparison: `k` paths of DF-KSP and KSP, `trees` of the others (None: a tree for every host), `bounds`
    for those that take any number of priorities; `max_hops`: longest path of DF-KSP and KSP."""

    k: int = 32
    trees: int | None = None
    bounds: Sequence[int] = (1, 2)
    schemes: Sequence[str] = COMPARED_ROUTINGS
    gap: float = 0.01
    seed: int = 1
    max_hops: int = MAX_HOPS

    def check(self) -> None:
        """Refuse what makes no sense. Raises `DetourError`: which value, and what would do."""
        unknown = next((name for name in self.schemes if name not in COMPARED_ROUTINGS), None)
        if unknown is not None or not self.schemes:
            raise DetourError(f"routing {unknown!r}; there are {', '.join(COMPARED_ROUTINGS)}")
        wrong = next((bound for bound in self.bounds if not 1 <= bound <= 8), None)
        if wrong is not None or not self.bounds:
            raise DetourError(f"{wrong} priorities; expected 1 to 8")
        if self.seed < 0:
            raise DetourError(f"a seed of {self.seed} is less than 0")


def compare(
    network: Expander, pattern: str, demand: Demand, terms: Terms,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> Comparison:  # fmt: skip
    """Every routing of `terms` on a network; throughput is that of the demand, whose pattern is called so. Raises
    `DetourError`: the terms make no sense, or a routing has no paths for a pair."""
    terms.check()
    given = {"df-ksp": terms.bounds, "nue": terms.bounds}
    todo = [(scheme, bound) for scheme in terms.schemes for bound in given.get(scheme, (None,))]
    ksp = compute(network, PathPolicy(terms.k, 0, max_hops=terms.max_hops))
    rows = []
    for done, (scheme, bound) in enumerate(todo):
        report(done, len(todo))
        rows.append(_row(network, demand, terms, scheme, bound, ksp))
    report(len(todo), len(todo))
    trees = forests.trees_of(network, terms.trees)
    return Comparison(network.spec, pattern, terms.k, trees, tagger.assign(ksp).priorities, rows)


def _row(
    network: Expander, demand: Demand, terms: Terms, scheme: str, bound: int | None, ksp: ExpanderRoutes
) -> Compared:
    began = time.monotonic()
    routed = _routed(network, terms, scheme, bound, ksp)
    seconds = time.monotonic() - began
    carried = solve(of_pairs(routed.routes, demand.pairs), demand, gap=terms.gap)
    return Compared(
        scheme=scheme, bound=bound, priorities=routed.priorities, acyclic=routed.proof.deadlock_free,
        paths=round(routed.routes.mean_paths, 3), mean_hops=round(routed.routes.mean_length, 4),
        max_hops=int(routed.routes.length.max(initial=0)), theta=round(carried.theta, 5), gap=round(carried.gap, 5),
        escaped=round(routed.escaped, 4), seconds=round(seconds, 3),
    )  # fmt: skip


def _routed(network: Expander, terms: Terms, scheme: str, bound: int | None, ksp: ExpanderRoutes) -> _Routed:
    if scheme == "df-ksp":
        assert bound is not None
        ordered = bound == 1 and network.layers == network.size
        most = min(terms.max_hops, longest_searched(network)) if ordered else terms.max_hops
        routes = compute(network, PathPolicy(terms.k, bound, max_hops=most))
        proof = prove(routes)
        return _Routed(routes, sum(layer.channels > 0 for layer in proof.priorities), proof, 0.0)
    escaped = 0.0
    if scheme == "nue":
        assert bound is not None
        grown = nue.nue(network, bound, terms.trees, terms.seed)
        assigned, escaped = grown.lanes, grown.escaped / grown.trees
    elif scheme == "ksp-lash":
        assigned = lanes.lash(ksp)
    else:
        balanced = forests.balanced(network, terms.trees, terms.seed)
        assigned = lanes.lash(balanced) if scheme == "lash" else lanes.break_cycles(balanced)
    return _Routed(assigned.routes, assigned.lanes, prove(assigned.routes, assigned.lane), escaped)
