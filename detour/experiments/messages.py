# SPDX-License-Identifier: Apache-2.0
"""Messages between the hosts of a network, as they arrive, and how long they took.

messages = draw(network, demand, load=0.5, rate_bps=25_000_000_000, duration_ps=600 * US, sizes="equal", seed=1)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from detour.base.dataplane import PACKET_BYTES, PAYLOAD
from detour.base.times import US
from detour.control.expander.demand import Demand
from detour.topo.expander import Expander
from detour.topo.topology import HostPair

if TYPE_CHECKING:  # points are read without the engine
    from detour.fabric.backends.virtual.fabric import VirtualFabric
    from detour.fabric.backends.virtual.scheme import LinkSettings


@dataclass(frozen=True)
class Percentiles:
    """Percentiles over messages."""

    mean: float
    p50: float
    p90: float
    p99: float

    @classmethod
    def of(cls, values: NDArray[Any]) -> Percentiles:
        """Percentiles of some values, to three digits."""
        return cls(*(round(float(value), 3) for value in (values.mean(), *np.percentile(values, (50, 90, 99)))))


WEB_SEARCH = (
    *((0, 0.0), (10_000, 0.15), (20_000, 0.20), (30_000, 0.30), (50_000, 0.40), (80_000, 0.53), (200_000, 0.60)),
    *((1_000_000, 0.70), (2_000_000, 0.80), (5_000_000, 0.90), (10_000_000, 0.97), (30_000_000, 1.0)),
)
"""(bytes, fraction of the messages that are no longer), linear in between; mean 1.7 MB"""
EQUAL = ((500_000, 0.0), (500_000, 1.0))
"""messages of 500 kB each, 0.18 ms of a server's link"""
SHORT = ((100_000, 0.0), (100_000, 1.0))
SIZES = {"equal": EQUAL, "web-search": WEB_SEARCH, "short": SHORT}
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

    @property
    def pairs(self) -> list[HostPair]:
        """The hosts of every message."""
        return list(zip(self.source.tolist(), self.target.tolist(), strict=True))

    def by_time(self) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """Each time at which messages arrive, and their numbers."""
        ticks, begin = np.unique(self.at_ps, return_index=True)
        yield from zip(ticks.tolist(), np.split(np.arange(len(self.at_ps)), begin[1:]), strict=True)


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


def ideal_ps(size: NDArray[np.int64], links: LinkSettings) -> NDArray[np.int64]:
    """Completion time on an idle path over two switches: all bytes at line rate, one packet more for each of the two
    switches, and six links there and back (the ACK's own time is left out)."""
    sent = wire_bytes(size) + 2 * np.minimum(wire_bytes(size), PACKET_BYTES)
    return sent * 8 * 10**12 // links.rate_bps + 6 * links.host_delay_ps


def measure(
    fabric: VirtualFabric, messages: MessageArrivals, which: slice = slice(None)
) -> tuple[NDArray[np.float64], dict[str, Any]]:
    """Slowdowns of messages, and what results have of times and memory. `which`: the connections that carried them."""
    done = fabric.column("st_last_done_ps")[which]
    taken = np.where(done > 0, done, fabric.now_ps) - messages.at_ps
    slowdown = taken / ideal_ps(messages.size, fabric.settings.links)
    stats = [fabric.network.buffer_stats(switch.device_id) for switch in fabric.topology.switches]
    return slowdown, {
        "messages": len(taken),
        "fct_us": Percentiles.of(taken / US),
        "slowdown": Percentiles.of(slowdown),
        "unfinished": fabric.unfinished(which),
        "pauses": sum(s["pauses_sent"] for s in stats),
        "drops": sum(s["headroom_drops"] + s["buffer_drops"] for s in stats),
        "retransmitted": int(fabric.column("st_retransmitted")[which].sum()),
        "buffer_peak_bytes": max(s["buffer_peak"] for s in stats),
    }
