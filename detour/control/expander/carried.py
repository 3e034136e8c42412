# SPDX-License-Identifier: Apache-2.0
"""The most that a network carries of a demand in all, where no pair gets more than a share of what it asks for.

    maximise sum of flows  so that  a pair's flows <= limit * demand  and  flows over a channel <= what it carries

`throughput` asks what *every* pair can have, and one bad link decides; measured rates are sums, which this bounds.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from detour.base.arrays import FloatArray, Int64Array
from detour.base.errors import DetourError
from detour.control.expander.demand import Demand
from detour.control.expander.routes import ExpanderRoutes, channels_of
from detour.control.expander.splits import Splitting, split_loads
from detour.control.expander.throughput import solve
from detour.control.linear import programme, solver
from detour.topo.expander.network import Expander

MOST_PATHS = 40_000
"""for which HiGHS is asked; for more the sum is taken to be what every pair can have (`throughput`), which is less"""
_GAP = 0.01


class _Columns(NamedTuple):
    """Channels of flows: flow j has `channel[begin[j]:begin[j + 1]]`, `share` of each; `pair` (flows,)."""

    begin: Int64Array
    channel: Int64Array
    share: FloatArray
    pair: Int64Array


def carried_over_paths(routes: ExpanderRoutes, demand: Demand, limit: float) -> float:
    """The share of a demand that paths of its pairs (in the same order) carry, at most `limit`, if senders split their
    traffic among them at will. Raises `DetourError`: HiGHS fails."""
    if routes.total > MOST_PATHS:
        return min(limit, solve(routes, demand, "approximate", _GAP).theta)
    begin, channels = channels_of(routes)
    pair = np.repeat(np.arange(len(routes.pairs)), np.diff(routes.first))
    return _carried(
        routes.network, demand, _Columns(begin, channels.astype(np.int64), np.ones(channels.size), pair), limit
    )


def carried_by_shares(network: Expander, demand: Demand, splitting: Splitting, limit: float) -> float:
    """The same where switches split traffic in fixed shares (`splits`). Raises `DetourError`: a switch has no next hop,
    or HiGHS fails."""
    parts = [_used(network, demand, splitting, pair) for pair in range(len(demand.pairs))]
    begin = np.concatenate([[0], np.cumsum([channel.size for channel, _ in parts])])
    channel, share = (np.concatenate(some) for some in zip(*parts, strict=True))
    return _carried(network, demand, _Columns(begin, channel, share, np.arange(len(parts))), limit)


def _used(network: Expander, demand: Demand, splitting: Splitting, pair: int) -> tuple[Int64Array, FloatArray]:
    """Channels that a unit of a pair's traffic takes, and the share of each."""
    unit = Demand(demand.pairs[pair : pair + 1], np.ones(1))
    loads = split_loads(network, unit, splitting).ravel()
    used = np.flatnonzero(loads)
    return used, loads[used]


def _carried(network: Expander, demand: Demand, columns: _Columns, limit: float) -> float:
    speeds = network.speeds[network.channels.link.ravel()]
    used, rows = np.unique(columns.channel, return_inverse=True)
    flows, pairs = columns.pair.size, demand.amount.size
    # By columns: the channels of a flow, and the row of its pair behind them.
    at = columns.begin + np.arange(flows + 1)
    index, value = np.empty(at[-1], np.int64), np.ones(at[-1])
    inner = np.ones(at[-1], np.bool_)
    inner[at[1:] - 1] = False
    index[inner], value[inner] = rows.ravel(), columns.share
    index[~inner] = used.size + columns.pair
    upper = np.concatenate([speeds[used], limit * demand.amount])
    model = solver(solver="ipm", run_crossover="off")
    bounds = np.full(used.size + pairs, -np.inf), upper
    model.passModel(programme(np.ones(flows), bounds, (at, index, value), maximise=True))
    model.run()
    total = model.getInfo().objective_function_value
    if not 0 < total < np.inf:
        raise DetourError(f"HiGHS stopped with {model.modelStatusToString(model.getModelStatus())!r} on {flows} flows")
    return min(limit, float(total) / float(demand.amount.sum()))
