# SPDX-License-Identifier: Apache-2.0
"""Expanders that are not wired in layers: Jellyfish (Singla et al., NSDI 2012), Xpander (Valadarsky et al., CoNEXT
2016), Slim Fly (Besta and Hoefler, SC 2014).

Any connected graph has layers all the same: every switch is one by itself, the farther from switch 0 the lower, so that
every other switch has a link up. Paths that go up and then down are those of up*/down* routing (Schroeder et al., 1991)
and join all switches in a single lossless priority. A path of h links turns up again at most h/2 times, so h/2 + 1
priorities, rounded down, are enough for all of them: two where the diameter is three, whatever the size.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

from detour.base.arrays import Int32Array, Int64Array
from detour.base.errors import DetourError
from detour.topo.expander.fields import field, prime_power
from detour.topo.expander.layered import EXPANDER_PORTS
from detour.topo.expander.network import Expander, switch_count
from detour.topo.expander.wiring import ordered, regular

_TRIES = 50


def jellyfish(n: int, s: int, hosts: int | None = None, p: int = EXPANDER_PORTS, seed: int = 1) -> Expander:
    """A random graph of n switches with s links each. Raises `DetourError`: the rule that the parameters break."""
    hosts = p - s if hosts is None else hosts
    switch_count("jellyfish", n, s, hosts)
    return random_regular("jellyfish", f"jellyfish:n={n},s={s},hosts={hosts},seed={seed}", n, s, hosts, seed)


def random_regular(family: str, spec: str, n: int, degree: int, hosts: int, seed: int, links: str = "s") -> Expander:
    """A connected random graph of n switches with `degree` links each, which the family calls `links`. Raises
    `DetourError`: there is none."""
    if n * degree % 2:
        raise DetourError(f"{family}: n*{links}={n}*{degree} is odd, but every link has two ends")
    rng = np.random.default_rng(seed)
    return _flat(family, spec, n, hosts, lambda: np.stack(regular(n, degree, rng, spec), axis=1))


def xpander(n: int, s: int, hosts: int | None = None, p: int = EXPANDER_PORTS, seed: int = 1) -> Expander:
    """A random lift of the complete graph of s+1 nodes: s+1 metanodes, each two of them joined by a random matching.
    Raises `DetourError`: the rule that the parameters break."""
    hosts = p - s if hosts is None else hosts
    switch_count("xpander", n, s, hosts)
    if n % (s + 1):
        raise DetourError(f"xpander: n={n} is not divisible by s+1={s + 1} metanodes of equal size")
    spec = f"xpander:n={n},s={s},hosts={hosts},seed={seed}"
    rng, size = np.random.default_rng(seed), n // (s + 1)
    members = np.arange(n, dtype=np.int32).reshape(s + 1, size)

    def lift() -> Int32Array:
        meshed = [(members[a], rng.permutation(members[b])) for a in range(s + 1) for b in range(a + 1, s + 1)]
        return np.concatenate([np.stack(ends, axis=1) for ends in meshed]).astype(np.int32)

    return _flat("xpander", spec, n, hosts, lift)


def _flat(family: str, spec: str, n: int, hosts: int, wire: Callable[[], Int32Array]) -> Expander:
    """Wires until all is of one piece, which with more than 3 links a switch almost every wiring is."""
    for _ in range(_TRIES):
        links = wire()
        if breadth_first(n, links, 0).size == n:
            return ordered_network(family, spec, np.full(n, hosts, np.int32), links)
    raise DetourError(f"{spec}: {_TRIES} wirings were not connected; use more links per switch")


def ordered_network(family: str, spec: str, hosts: Int32Array, links: Int32Array, **more: Any) -> Expander:
    """Every switch is a layer: switch 0 the highest, the others below it in the order of a breadth-first search. The
    links join all switches; see `Expander` for what is given, `more` by the names of its fields."""
    n = hosts.size
    layer = np.empty(n, np.int32)
    layer[breadth_first(n, links, 0)] = n - np.arange(n)
    parts = hosts, links, np.ones_like(links), layer[links]
    return Expander(family, spec, *parts, layers=n, **more).checked()


def breadth_first(n: int, links: Int32Array, root: int) -> Int64Array:
    """List the switches, of `n`, that `links` (each from its first end to its second) join to `root`, nearest first.
    Among one switch's neighbours, those that its own links lead to come before those whose links lead to it, each by
    number."""
    import networkx  # takes a tenth of a second, and most commands need none of it

    neighbours: list[list[int]] = [[] for _ in range(n)]
    for a, b in sorted(links.tolist()):
        neighbours[a].append(b)
    for b, a in sorted(links[:, ::-1].tolist()):
        neighbours[b].append(a)
    graph = networkx.empty_graph(n)
    edges = networkx.generic_bfs_edges(graph, root, neighbours.__getitem__)
    return np.array([root, *(b for _, b in edges)], np.int64)


def slimfly(n: int, s: int, hosts: int | None = None, p: int = EXPANDER_PORTS) -> Expander:
    """The graphs of McKay, Miller and Siran that Slim Fly is: diameter 2, n = 2 q^2 switches for an odd prime power q
    with s = (3 q - d) / 2 links each, where d is 1 or -1 and q - d a multiple of 4. Raises `DetourError`: there is no
    such graph, with the nearest that there are."""
    hosts = p - s if hosts is None else hosts
    orders = [q for q in range(3, 2 * math.isqrt(max(12, n)), 2) if prime_power(q)]
    links = {2 * q * q: (3 * q - _remainder(q)) // 2 for q in orders}
    if links.get(n) != s:
        near = sorted(sorted(links, key=lambda size: abs(size - n))[:2])
        options = " and ".join(f"n={size}, s={links[size]}" for size in near)
        raise DetourError(f"slimfly: there is no graph of n={n} and s={s}; {options} are the nearest")
    switch_count("slimfly", n, s, hosts)
    spec = f"slimfly:n={n},s={s},hosts={hosts}"
    return ordered_network("slimfly", spec, np.full(n, hosts, np.int32), _mms(math.isqrt(n // 2)))


def _remainder(q: int) -> int:
    """1 or -1: what an odd number has beyond a multiple of 4."""
    return 1 if q % 4 == 1 else -1


def _mms(q: int) -> Int32Array:
    """Links of the graph for an odd prime power q: switch x * q + y is (0, x, y), q^2 further is (1, x, y) (SC 2014,
    section II-B)."""
    plus, times = field(q)
    powers = field(q).powers(field(q).primitive)
    if _remainder(q) == 1:
        own = [range(0, q - 1, 2), range(1, q - 1, 2)]
    else:
        half = (q - 1) // 2  # odd here
        own = [[*range(0, half, 2), *range(half, q - 1, 2)], [*range(1, half + 1, 2), *range(half + 1, q - 1, 2)]]
    links = set()
    for side, exponents in enumerate(own):
        for x, y, k in product(range(q), range(q), exponents):
            at = side * q * q + x * q
            links.add(ordered(at + y, at + int(plus[y, powers[k]])))
    for m, c, x in product(range(q), repeat=3):
        links.add((x * q + int(plus[times[m, x], c]), q * q + m * q + c))
    return np.array(sorted(links), np.int32)
