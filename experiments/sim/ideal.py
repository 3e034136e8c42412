# SPDX-License-Identifier: Apache-2.0
"""How long a flow takes in a fabric that is empty: the way of least delay, every packet at the rate of its links.

Packets are stored and forwarded; a message is over when the sender has the last answer, as in ns-3's RDMA models. All
headers count, and what links add to a frame. `tests/unit/experiments/test_sim.py` compares it with runs of single
flows, to the picosecond.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from detour.base.arrays import Int64Array
from detour.base.dataplane import PAYLOAD
from detour.fabric.footings.virtual.scheme import LinkSettings
from detour.fabric.workloads.flow_table import FlowTable
from detour.hosts.frames.wire import AETH, BTH, DATA_OVERHEAD, ETHERNET, ICRC, IPV6, SACK, UDP
from detour.topo import Topology

ANSWER_BYTES = ETHERNET + IPV6 + UDP + BTH + AETH + SACK + ICRC
_PS_BITS = 8 * 10**12
_PAD = 4


@dataclass(frozen=True)
class Way:
    """Links one after the other: `rates` in bits a second, and all their delays."""

    rates: tuple[int, ...]
    delay_ps: int


def ideal_ps(topology: Topology, links: LinkSettings, flows: FlowTable) -> Int64Array:
    """(flows,) what each takes alone, from its beginning to the last answer."""
    ways = _Ways(topology, links)
    switch = np.array([host.switch for host in topology.hosts])
    ends = np.stack([switch[flows["source"]], switch[flows["target"]]])
    found: dict[tuple[Way, int], int] = {}
    times = np.empty(len(flows), np.int64)
    for row, (source, target, size, a, b) in enumerate(
        zip(flows["source"].tolist(), flows["target"].tolist(), flows["bytes"].tolist(), *ends.tolist(), strict=True)
    ):
        way = ways.between(source, target, a, b)
        if (way, size) not in found:
            found[way, size] = message_ps(way, size, links.overhead_bytes)
        times[row] = found[way, size]
    return times


def message_ps(way: Way, size: int, overhead_bytes: int = 0) -> int:
    """A message of `size` bytes alone on a way, and the answer to its last packet back."""
    packets = -(-size // PAYLOAD)
    last = size - (packets - 1) * PAYLOAD
    whole, tail = (_frame(part) + overhead_bytes for part in (PAYLOAD, last))
    before, slowest, at = 0, 0, 0
    for rate in way.rates:
        # When the whole packets have left this link, and then the last one, which waits for them and for itself.
        slowest = max(slowest, _ps(whole, rate))
        before += _ps(whole, rate)
        ahead = before + (packets - 2) * slowest if packets > 1 else 0
        at = max(ahead, at) + _ps(tail, rate)
    answer = sum(_ps(ANSWER_BYTES + overhead_bytes, rate) for rate in way.rates)
    return at + answer + 2 * way.delay_ps


def _frame(payload: int) -> int:
    return DATA_OVERHEAD + -(-payload // _PAD) * _PAD


def _ps(frame: int, rate: int) -> int:
    return frame * _PS_BITS // rate


class _Ways:
    """Ways between hosts, by their switches: least in the time of one packet, so shortest where links are alike."""

    def __init__(self, topology: Topology, links: LinkSettings) -> None:
        self._count = len(topology.switches)
        self._terms: dict[tuple[int, int], tuple[int, int]] = {}
        self._host = [(0, 0)] * len(topology.hosts)
        for link in topology.links:
            rate = round(links.speed_bps(link.kind) * link.speed)
            delay = links.delay_ps(link.kind) if link.delay_ps is None else link.delay_ps
            if link.kind == "host":
                self._host[link.b[0]] = rate, delay
                continue
            for ends in ((link.a[0], link.b[0]), (link.b[0], link.a[0])):
                known = self._terms.get(ends)
                if known is None or self._cost((rate, delay)) < self._cost(known):
                    self._terms[ends] = rate, delay
        self._matrix = self._graph()
        self._before: dict[int, NDArray[np.int32]] = {}
        self._known: dict[tuple[int, int], tuple[tuple[int, int], ...]] = {}

    @staticmethod
    def _cost(terms: tuple[int, int]) -> int:
        return terms[1] + _ps(_frame(PAYLOAD), terms[0])

    def _graph(self) -> object:
        from scipy.sparse import csr_matrix

        ends = np.array(list(self._terms), np.int64).reshape(-1, 2)
        costs = np.array([self._cost(terms) for terms in self._terms.values()], np.float64)
        return csr_matrix((costs, (ends[:, 0], ends[:, 1])), shape=(self._count, self._count))

    def between(self, source: int, target: int, a: int, b: int) -> Way:
        """From host to host, whose switches are `a` and `b`."""
        if (a, b) not in self._known:
            self._known[a, b] = tuple(self._terms[ends] for ends in self._hops(a, b))
        terms = (self._host[source], *self._known[a, b], self._host[target])
        return Way(tuple(rate for rate, _ in terms), sum(delay for _, delay in terms))

    def _hops(self, a: int, b: int) -> list[tuple[int, int]]:
        from scipy.sparse.csgraph import dijkstra

        if a not in self._before:
            _, before = dijkstra(self._matrix, indices=a, return_predecessors=True)
            self._before[a] = before
        hops: list[tuple[int, int]] = []
        while b != a:
            previous = int(self._before[a][b])
            hops.append((previous, b))
            b = previous
        return hops[::-1]
