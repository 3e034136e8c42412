# SPDX-License-Identifier: Apache-2.0
"""RNG: quasi-random regular graphs of ToR switches as Amazon builds them (arXiv 2604.15261, sections 4, 6, appendix A).

Without boxes the graph is a random regular one. With ShuffleBoxes, passive panels, a switch has d/4 uplinks of four
fibre pairs (lanes), and every lane is a link of its own. A box has 32 ports of four pairs for switches (r-ports) and 4
ports of 32 pairs for other boxes (c-ports); inside, each r-port has one pair at each c-port. Uplinks go to random
r-ports, cables join c-ports at random, no two boxes twice, so that r-port i of one box meets r-port i of another. Lanes
that would join a switch to itself, or twice to the same one, are avoided by exchanging r-ports. From four uplinks on
the spectral gap is that of random graphs; with two it is smaller.

Growth without boxes is by single switches in the middle of links (`growth`). With boxes it is by panels: the new boxes'
c-ports are put in the middle of random cables, but for the share that stays within the panel, 1/R for R panels.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from detour.base.arrays import Int32Array, Int64Array
from detour.base.errors import DetourError
from detour.topo.expander.flat import breadth_first, ordered_network, random_regular
from detour.topo.expander.growth import MAX_GROWN, grow
from detour.topo.expander.network import Expander, switch_count
from detour.topo.expander.wiring import SwitchPair, join, ordered, regular
from detour.topo.topology import check_counts

R_PORTS, C_PORTS = 32, 4
"""of a ShuffleBox; an r-port has as many fibre pairs as there are c-ports, and the other way round"""
_ROUNDS = 100


def quasi_random(n: int, d: int, hosts: int, seed: int = 1, boxes: int = 0, grown: int = 0) -> Expander:
    """n ToR switches with d lanes to others, `grown` of them added afterwards. `boxes`: how many ShuffleBoxes the first
    n are wired through (0: none). Raises `DetourError`: the rule that the numbers break."""
    check_counts("rng", hosts=hosts)
    switch_count("rng", n, d, hosts, links="d")
    spec = f"rng:n={n},d={d},hosts={hosts},seed={seed}"
    if not boxes:
        network = random_regular("rng", spec, n, d, hosts, seed, links="d")
        return grow(network, grown).network if grown else network
    spec += f",boxes={boxes}" + (f",grown={grown}" if grown else "")
    if not 0 <= grown <= MAX_GROWN:
        raise DetourError(f"{spec}: 0 to {MAX_GROWN} switches can be added")
    _check_boxes(spec, n, d, boxes)
    if boxes <= C_PORTS:
        raise DetourError(f"{spec}: {boxes} boxes; with {C_PORTS} cables each, no two boxes joined twice, it takes 5")
    rng = np.random.default_rng(seed)
    cables = np.stack(regular(boxes, C_PORTS, rng, f"{spec}, cables between boxes"), axis=1)
    r_ports = rng.permutation(np.repeat(np.arange(n), d // C_PORTS))
    links = _untangled(spec, r_ports, cables, 0, rng)
    if grown:
        more = grown * d // (C_PORTS * R_PORTS)
        _check_boxes(spec, grown, d, more)
        cables = _with_panel(spec, cables, boxes, more, rng)
        added = rng.permutation(np.repeat(np.arange(n, n + grown), d // C_PORTS))
        links = _untangled(spec, np.concatenate([r_ports, added]), cables, r_ports.size, rng)
    if breadth_first(n + grown, links, 0).size < n + grown:
        raise DetourError(f"{spec}: the wiring falls into parts; take another seed or more lanes a switch")
    return ordered_network("rng", spec, np.full(n + grown, hosts, np.int32), links)


def _check_boxes(spec: str, switches: int, d: int, boxes: int) -> None:
    if d % C_PORTS or boxes < 1 or switches * d != C_PORTS * R_PORTS * boxes:
        raise DetourError(
            f"{spec}: {boxes} boxes have {C_PORTS * R_PORTS * boxes} fibre pairs for switches, {switches} switches"
            f" with d={d} lanes have {switches * d}; these must be equal, and d divisible by {C_PORTS}"
        )


def _with_panel(spec: str, cables: Int32Array, boxes: int, more: int, rng: np.random.Generator) -> Int32Array:
    """(cables, 2) boxes that cables join, after a panel of `more` boxes came to one of `boxes`."""
    c_ports = rng.permutation(np.repeat(np.arange(boxes, boxes + more, dtype=np.int32), C_PORTS))
    home = c_ports.size * more // (boxes + more) // 2 if more > C_PORTS else 0  # cables; fewer boxes would need two
    opened, used = [], Counter[int]()
    for cable in rng.permutation(len(cables)).tolist():  # of one box no more cables than there are new boxes
        if len(opened) < c_ports.size // 2 - home and max(used[box] for box in cables[cable].tolist()) < more:
            used.update(cables[cable].tolist())
            opened.append(cable)
    kept = np.delete(cables, opened, axis=0)
    taken = {ordered(int(a), int(b)) for a, b in kept}
    own, away = c_ports[: 2 * home], c_ports[2 * home :]
    what = f"{spec}, cables of the new panel"
    joined = [join(own[:home], own[home:], taken, rng, what, mix=True)] if home else []
    joined.append(join(cables[opened].ravel(), away, taken, rng, what))
    return np.concatenate([kept, *(np.stack(ends, axis=1) for ends in joined)])


def _untangled(spec: str, r_ports: Int64Array, cables: Int32Array, first: int, rng: np.random.Generator) -> Int32Array:
    """(links, 2) switches at the ends of all lanes, once uplinks have exchanged r-ports, in place, so that no switch is
    linked to itself or twice to another: those from `first` on, and the others only where that is not enough (one
    switch is behind two lanes of an r-port). `r_ports`: the switch at each."""
    opposite = _opposite(cables)
    lanes = _Lanes(r_ports, opposite)
    for turn in range(_ROUNDS):
        wrong = [port for port in range(r_ports.size) if lanes.wrong(port)]
        if not wrong:
            ends = np.stack([np.repeat(r_ports, C_PORTS), r_ports[opposite].ravel()], axis=1).astype(np.int32)
            return ends[np.repeat(np.arange(r_ports.size), C_PORTS) < opposite.ravel()]
        for port in wrong:
            if port >= first:
                lanes.exchange(port, int(rng.integers(first, r_ports.size)))
            elif turn >= _ROUNDS // 4:
                lanes.exchange(port, int(rng.integers(first)))
    raise DetourError(f"{spec}: no wiring without parallel links was found; it takes more switches or fewer lanes")


def _opposite(cables: Int32Array) -> Int64Array:
    """(r-ports, 4) the r-port at the far end of each lane: that of the same number in the box that the cable joins."""
    ends = np.concatenate([cables, cables[:, ::-1]])
    box = ends[np.argsort(ends[:, 0], kind="stable"), 1].reshape(-1, C_PORTS)
    return (box[:, None] * R_PORTS + np.arange(R_PORTS)[:, None]).reshape(-1, C_PORTS)


class _Lanes:
    """Counts how often every two switches are linked while r-ports are exchanged."""

    def __init__(self, r_ports: Int64Array, opposite: Int64Array) -> None:
        self.r_ports, self.opposite = r_ports, opposite.tolist()
        self.count: Counter[SwitchPair] = Counter()
        for port in range(r_ports.size):
            self.count.update(self._pairs(port))  # lanes count at either end, so 2 is a single link

    def _pairs(self, port: int) -> list[SwitchPair]:
        here = int(self.r_ports[port])
        return [ordered(here, int(self.r_ports[far])) for far in self.opposite[port]]

    def wrong(self, port: int) -> int:
        """Number of a port's lanes that lead back to its own switch, or to one that another lane leads to."""
        return sum(a == b or self.count[a, b] > 2 for a, b in self._pairs(port))

    def exchange(self, one: int, other: int) -> None:
        """Exchange the switches at two ports, unless that makes more lanes wrong than before."""
        touched = {one, other, *self.opposite[one], *self.opposite[other]}
        before = sum(map(self.wrong, touched))
        self._swap(touched, one, other)
        if sum(map(self.wrong, touched)) > before:
            self._swap(touched, one, other)

    def _swap(self, touched: set[int], one: int, other: int) -> None:
        for port in touched:
            self.count.subtract(self._pairs(port))
        self.r_ports[[one, other]] = self.r_ports[[other, one]]
        for port in touched:
            self.count.update(self._pairs(port))
