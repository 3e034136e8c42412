# SPDX-License-Identifier: Apache-2.0
"""Messages for the packet level of the FC+ paper: when which host sends how much to which other one, and by what path.

The paper names patterns, load and DCQCN's thresholds, but no distribution of sizes. Its 99th percentiles of completion
time are 2 to 5 times the medians, which only messages of about the same size show: `EQUAL` is the default. `WEB_SEARCH`
is the workload of DCTCP (Alizadeh et al., SIGCOMM 2010) as HPCC's ns-3 has it, the simulator of reference [11].
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from detour.base.dataplane import PACKET_BYTES, PAYLOAD
from detour.control.expander.demand import Demand
from detour.control.expander.routes import ExpanderRoutes
from detour.topo.expander.network import Expander

WEB_SEARCH = (
    *((0, 0.0), (10_000, 0.15), (20_000, 0.20), (30_000, 0.30), (50_000, 0.40), (80_000, 0.53), (200_000, 0.60)),
    *((1_000_000, 0.70), (2_000_000, 0.80), (5_000_000, 0.90), (10_000_000, 0.97), (30_000_000, 1.0)),
)
"""(bytes, fraction of the messages that are no longer), linear in between; mean 1.7 MB"""
EQUAL = ((500_000, 0.0), (500_000, 1.0))
"""messages of 500 kB each, 0.18 ms of a server's link"""
SIZES = {"equal": EQUAL, "web-search": WEB_SEARCH}
TICK_PS = 1_000_000
"""arrivals happen at whole microseconds"""


class MessageArrivals(NamedTuple):
    """In the order of their arrival: `at_ps`, `source` and `target` host, `size` in bytes of payload, `pair` of the
    demand, `draw` in [0, 1) that picks the path. All of shape (n,)."""

    at_ps: NDArray[np.int64]
    source: NDArray[np.int64]
    target: NDArray[np.int64]
    size: NDArray[np.int64]
    pair: NDArray[np.int64]
    draw: NDArray[np.float64]


def mean_size(sizes: str) -> float:
    """Mean bytes of a message."""
    size, fraction = np.array(SIZES[sizes]).T
    return float(((size[1:] + size[:-1]) / 2 * np.diff(fraction)).sum())


def wire_bytes(size: NDArray[np.int64]) -> NDArray[np.int64]:
    """Bytes on a wire of messages."""
    return size + -(-size // PAYLOAD) * (PACKET_BYTES - PAYLOAD)


def draw(
    network: Expander, demand: Demand, load: float, rate_bps: int, duration_ps: int, sizes: str, seed: int
) -> MessageArrivals:
    """Poisson arrivals for `duration_ps`. A demand of 1 is `load` of a host's line rate, headers included.

    The hosts of a switch share its demands evenly. Times, sizes, and what else does not depend on the network are the
    same for all networks with as many servers, so that what differs between them is not the luck of the draw.
    """
    times, lengths, places, rng = (np.random.default_rng([seed, number]) for number in range(4))
    bytes_each = mean_size(sizes) * PACKET_BYTES / PAYLOAD
    mean = load * rate_bps / 8 / bytes_each * float(demand.amount.sum()) * duration_ps / 1e12
    # All that may be needed is drawn: how many come has no influence on what they are.
    count = int(times.poisson(mean))
    at = np.sort(times.random(count)) * duration_ps
    size, fraction = np.array(SIZES[sizes]).T
    drawn = np.maximum(1, np.interp(lengths.random(count), fraction, size)).astype(np.int64)
    pick = places.random((count, 3))
    total = np.cumsum(demand.amount) / demand.amount.sum()
    pair = np.minimum(np.searchsorted(total, pick[:, 0], side="right"), len(total) - 1)
    first = np.concatenate([[0], np.cumsum(network.hosts)])
    source, target = (
        first[switch] + (pick[:, 1 + side] * network.hosts[switch]).astype(np.int64)
        for side, switch in enumerate(demand.pairs[pair].T)
    )
    at_ps = at.astype(np.int64) // TICK_PS * TICK_PS
    return MessageArrivals(at_ps, source, target, drawn, pair, rng.random(count))


def choose_paths(
    routes: ExpanderRoutes, fractions: NDArray[np.float64], messages: MessageArrivals
) -> NDArray[np.int64]:
    """The row of `routes` for every message: one of its pair's, with the probability that `fractions` gives."""
    total = np.concatenate([[0.0], np.cumsum(fractions)])
    low, high = routes.first[messages.pair], routes.first[messages.pair + 1]
    wanted = total[low] + messages.draw * (total[high] - total[low])
    rows = np.searchsorted(total, wanted, side="right") - 1
    return np.clip(rows, low, high - 1)
