# SPDX-License-Identifier: Apache-2.0
"""Throughput: the largest factor by which all demands can grow while the paths carry them (multi-commodity flow).

    maximise theta  so that  sum of a pair's flows = theta * demand  and  flows over a channel <= what it carries

Exactly with HiGHS; for what is too large for it, from both sides with `approximate`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from detour.base.arrays import FloatArray, Int64Array
from detour.base.errors import DetourError
from detour.control.expander import approximate
from detour.control.expander.demand import Demand
from detour.control.expander.enumeration import native
from detour.control.expander.routes import ExpanderRoutes, PathPolicy, SourcesProgress, channels_of, compute
from detour.control.linear import programme, solver
from detour.topo.expander.network import Expander

if TYPE_CHECKING:
    import highspy

EXACT_PATHS = 150_000  # paths that HiGHS is given at most unless it is asked for by name
EXACT_WORK = 1e12
"""paths times the square of the channels, likewise: its factors are all but dense, and this is about 40 s"""
CROSSOVER_PATHS = 5_000  # beyond, interior point without crossover: less exact in the last digits and much faster
METHODS = ("auto", "exact", "approximate")


class Throughput(NamedTuple):
    """`theta` is attained; the largest throughput of these routes is at most `theta` * (1 + `gap`)."""

    theta: float
    gap: float
    method: str


def _capacity(routes: ExpanderRoutes) -> FloatArray:
    """(channels,) what each carries, by its number."""
    return routes.network.speeds[native(routes.network.channels).link.ravel()]


def _solved(routes: ExpanderRoutes, demand: Demand, corner: bool) -> tuple[approximate.ThroughputBounds, FloatArray]:
    """Bounds and flows (paths,) by linear programming; `corner`: with crossover, if the program is small. Raises
    `DetourError`: HiGHS ends with nothing that could be used."""
    begin, channels = channels_of(routes)
    used, rows = np.unique(channels, return_inverse=True)
    capacity = _capacity(routes)[used]
    crossover = corner and routes.total <= CROSSOVER_PATHS
    model = solver(solver="ipm", run_crossover="on" if crossover else "off")
    model.passModel(_model(routes.first, begin, rows, capacity, demand.amount))
    model.run()
    status, solution = model.getModelStatus(), model.getSolution()
    flows, prices = np.array(solution.col_value)[1:], np.abs(np.array(solution.row_dual)[: used.size])
    # Without crossover HiGHS may call a solution unknown that misses its tolerances: the bounds tell how good it is.
    if flows.size != routes.total or flows.max(initial=0) <= 0 or prices.max(initial=0) <= 0:
        raise DetourError(f"HiGHS stopped with {model.modelStatusToString(status)!r} on {routes.total} paths")
    rows = rows.astype(np.int32)
    bounds = approximate.bounds_of(routes.first, begin, rows, demand.amount, flows, prices, capacity)
    return bounds, flows


def exact(routes: ExpanderRoutes, demand: Demand) -> approximate.ThroughputBounds:
    """Theta by linear programming, as bounds that are computed from HiGHS's flows and prices and hold by themselves.
    Raises `DetourError`: HiGHS ends with nothing that could be used."""
    return _solved(routes, demand, corner=True)[0]


def fractions(routes: ExpanderRoutes, demand: Demand, gap: float = 0.01) -> FloatArray:
    """Split of the demands among their paths that carries the most: (paths,), those of a pair add up to 1. Of
    all optimal flows the interior point in their middle is taken: it spreads over what is equally good. Raises
    `DetourError`: HiGHS fails."""
    if routes.total <= EXACT_PATHS:
        flows = _solved(routes, demand, corner=False)[1]
    else:
        begin, channels = channels_of(routes)
        flows = approximate.solve(routes.first, begin, channels, demand.amount, gap, capacity=_capacity(routes))[1]
    return approximate.shares_of(routes.first, flows)


def _model(
    first: Int64Array, begin: Int64Array, rows: Int64Array, capacity: FloatArray, amount: FloatArray
) -> highspy.HighsLp:
    """Column 0 is theta, then the paths. Rows: channels (<= capacity), then pairs (flows - theta * demand = 0)."""
    pairs, total, length, channels = amount.size, begin.size - 1, np.diff(begin), capacity.size
    at = np.concatenate([[0], pairs + np.cumsum(np.concatenate([[0], length + 1]))])
    index, value = np.empty(at[-1], np.int64), np.ones(at[-1])
    index[:pairs], value[:pairs] = channels + np.arange(pairs), -amount
    last = at[2:] - 1
    index[last] = channels + np.repeat(np.arange(pairs), np.diff(first))
    inner = np.ones(at[-1], np.bool_)
    inner[:pairs], inner[last] = False, False
    index[inner] = rows
    lower = np.concatenate([np.full(channels, -np.inf), np.zeros(pairs)])
    upper = np.concatenate([capacity, np.zeros(pairs)])
    return programme(np.concatenate([[1.0], np.zeros(total)]), (lower, upper), (at, index, value), maximise=True)


def solve(routes: ExpanderRoutes, demand: Demand, method: str = "auto", gap: float = 0.01) -> Throughput:
    """Theta of a demand over given routes (of the same pairs, in the same order).

    `routes`: paths of the demand's pairs; `demand`: what is to be carried; `method`: "exact", "approximate", or "auto"
    by size; `gap`: how far apart the bounds of the approximation may be. Raises `DetourError`: the method is unknown,
    or HiGHS fails."""
    if method not in METHODS:
        raise DetourError(f"method {method!r}; there are {', '.join(METHODS)}")
    if not np.array_equal(routes.pairs, demand.pairs):
        raise DetourError("routes and demand are of different pairs")
    channels = int((routes.network.channels.neighbour >= 0).sum())
    if method == "exact" or (method == "auto" and suits_highs(routes.total, channels)):
        bounds, how = exact(routes, demand), "exact"
    else:
        begin, taken = channels_of(routes)
        capacity = _capacity(routes)
        bounds = approximate.solve(routes.first, begin, taken, demand.amount, gap, capacity=capacity)[0]
        how = "approximate"
    return Throughput(bounds.lower, max(0.0, bounds.upper / bounds.lower - 1), how)


def suits_highs(paths: int, channels: int) -> bool:
    """Return whether "auto" takes HiGHS for so many paths over so many channels."""
    return paths <= EXACT_PATHS and paths * channels**2 <= EXACT_WORK


def throughput(
    network: Expander, policy: PathPolicy, demand: Demand, method: str = "auto", gap: float = 0.01,
    report: SourcesProgress | None = None,
) -> Throughput:  # fmt: skip
    """Compute the routes that a demand needs, then its theta."""
    return solve(compute(network, policy, demand.pairs, report), demand, method, gap)
