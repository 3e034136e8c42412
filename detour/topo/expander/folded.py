# SPDX-License-Identifier: Apache-2.0
"""The Clos that an expander is compared with: three layers, as many servers, about as many switches.

Every edge switch has u of p ports up and the others for servers. Pods have p/2 edge switches at most and u aggregation
switches with p/2 links down and p/2 up; cores have all p ports down. Above the edge nothing is oversubscribed, so the
throughput of any traffic is u to the most servers of an edge switch. u is chosen so that the number of switches comes
closest to the one asked for (Zhao et al., NSDI 2023, appendix A.3: the largest throughput for the cost). With p=32,
1200 servers and 120 switches this gives the paper's 124 switches and 0.524 = 11/21.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from detour.base.errors import DetourError
from detour.topo.expander.layered import EXPANDER_PORTS
from detour.topo.expander.network import Expander


class ClosShape(NamedTuple):
    """Sizes of a Clos: edge switches, pods, links up of an edge switch (= aggregation switches of a pod), cores."""

    edges: int
    pods: int
    up: int
    cores: int

    @property
    def switches(self) -> int:
        return self.edges + self.pods * self.up + self.cores


def shape_of(servers: int, p: int, up: int) -> ClosShape:
    """The smallest Clos for so many servers."""
    edges = -(-servers // (p - up))
    pods = -(-edges // (p // 2))
    return ClosShape(edges, pods, up, -(-pods * up // 2))


def choose_shape(servers: int, switches: int, p: int = EXPANDER_PORTS) -> ClosShape:
    """The shape whose number of switches comes closest, the one with more links up if two do. Raises `DetourError`: p
    is not an even number of at least 4, or the cores could not be wired without parallel links."""
    if p < 4 or p % 2:
        raise DetourError(f"clos: p={p} is not an even number of at least 4")
    if servers < 1:
        raise DetourError(f"clos: {servers} servers; expected at least 1")
    shapes = [shape_of(servers, p, up) for up in range(1, p)]
    shapes = [shape for shape in shapes if shape.cores >= p // 2 and shape.pods > 1]
    if not shapes:
        raise DetourError(f"clos: {servers} servers need no third layer of {p}-port switches")
    return min(shapes, key=lambda shape: (abs(shape.switches - switches), -shape.up))


def equal_cost_clos(servers: int, switches: int, p: int = EXPANDER_PORTS) -> Expander:
    """A Clos with `servers` servers and about `switches` switches: edges first, then pod by pod, then cores. Raises
    `DetourError`: see `choose_shape`."""
    shape = choose_shape(servers, switches, p)
    hosts = np.zeros(shape.switches, np.int32)
    hosts[: shape.edges] = servers // shape.edges
    hosts[: servers % shape.edges] += 1
    links: list[tuple[int, int]] = []
    first_core = shape.edges + shape.pods * shape.up
    for edge in range(shape.edges):
        pod = edge % shape.pods
        links += [(edge, shape.edges + pod * shape.up + a) for a in range(shape.up)]
    down = len(links)
    for aggregation in range(shape.pods * shape.up):
        # The cores in turn: each gets as many links from every pod, give or take one.
        start = aggregation * (p // 2)
        links += [(shape.edges + aggregation, first_core + (start + i) % shape.cores) for i in range(p // 2)]
    layer = np.tile(np.array([2, 3], np.int32), (len(links), 1))
    layer[:down] = (1, 2)
    spec = f"equal-cost-clos:servers={servers},switches={switches},p={p}"
    ends = np.array(links, np.int32)
    return Expander("equal-cost-clos", spec, hosts, ends, np.ones_like(ends), layer, 3).checked()
