# SPDX-License-Identifier: Apache-2.0
"""PolarFly (Lakhotia et al., SC 2022) and PolarStar (SPAA 2024): expanders from the points of a projective plane.

PolarFly's switches are the q^2 + q + 1 points of PG(2, q); two are linked if their dot product is 0. Points that are
orthogonal to themselves (quadrics, q + 1 of them) have q links, the others q + 1. Two switches have exactly one
neighbour in common or, if one of them is that neighbour, are linked: diameter 2, and no cycle of four links.

PolarStar puts a small graph in the place of every point. Links between two copies follow a matching f, and a quadric's
copy is matched with itself, so that all switches have q + 1 + s links and the diameter is 3. The small graph here is an
inductive quad: s + 1 pairs {v, f(v)}; between two pairs one switch is linked to both of the other pair, so that each
link of the complete graph is there or its image under f is. All have s links where every pair leads an even number of
others, which is possible if s is 0 or 3 modulo 4.
"""

from __future__ import annotations

import numpy as np

from detour.base.arrays import Int32Array
from detour.base.errors import DetourError
from detour.topo.expander.fields import field, prime_power
from detour.topo.expander.flat import ordered_network
from detour.topo.expander.network import Expander
from detour.topo.expander.wiring import SwitchPair, ordered
from detour.topo.topology import check_counts

MAX_ORDER = 127
"""16,257 switches; more uSIDs than there are beyond 180"""


def polarfly(q: int, hosts: int = 1) -> Expander:
    """The orthogonality graph of PG(2, q), `q` a prime power. Raises `DetourError`: q is none, or too large."""
    _check("polarfly", q, hosts)
    products = _dot_products(q)
    links = np.argwhere(np.triu(products == 0, 1)).astype(np.int32)
    return ordered_network("polarfly", f"polarfly:q={q},hosts={hosts}", np.full(len(products), hosts, np.int32), links)


def polarstar(q: int, s: int, hosts: int = 1) -> Expander:
    """The star product of PolarFly's graph and an inductive quad with `s` links a switch: (q^2 + q + 1) (2 s + 2)
    switches. Raises `DetourError`: q is not a prime power, or s is not 0 or 3 modulo 4."""
    _check("polarstar", q, hosts)
    if s < 0 or s % 4 not in (0, 3):
        raise DetourError(f"polarstar: s={s} links inside a copy; expected 0, 3, 4, 7, 8..., 0 or 3 modulo 4")
    size, orthogonal = 2 * s + 2, _dot_products(q) == 0
    quad = np.array(_inductive_quad(s + 1), np.int32).reshape(-1, 2)
    matched = np.arange(size) ^ 1  # v and f(v) are 2i and 2i + 1
    points = np.arange(len(orthogonal))
    inside = (quad[None] + size * points[:, None, None]).reshape(-1, 2)
    a, b = np.nonzero(np.triu(orthogonal, 1))
    between = np.stack([size * a[:, None] + np.arange(size), size * b[:, None] + matched], axis=-1).reshape(-1, 2)
    quadrics = np.flatnonzero(np.diag(orthogonal))
    loops = np.stack([size * quadrics[:, None] + matched[::2] - 1, size * quadrics[:, None] + matched[::2]], axis=-1)
    links = np.concatenate([inside, between, loops.reshape(-1, 2)]).astype(np.int32)
    spec = f"polarstar:q={q},s={s},hosts={hosts}"
    return ordered_network("polarstar", spec, np.full(size * points.size, hosts, np.int32), links)


def _check(family: str, q: int, hosts: int) -> None:
    check_counts(family, hosts=hosts)
    if not 2 <= q <= MAX_ORDER or prime_power(q) is None:
        near = [order for order in range(2, MAX_ORDER + 1) if prime_power(order)]
        near = sorted(sorted(near, key=lambda order: abs(order - q))[:2])
        raise DetourError(
            f"{family}: q={q} is not a prime power up to {MAX_ORDER}; {near[0]} and {near[1]} are nearest"
        )


def _dot_products(q: int) -> Int32Array:
    """(n, n) dot products of the points of PG(2, q), each by its vector whose first element that is not 0 is 1."""
    plus, times = field(q)
    points = [(1, y, z) for y in range(q) for z in range(q)] + [(0, 1, z) for z in range(q)] + [(0, 0, 1)]
    x, y, z = (times[np.ix_(values, values)] for values in np.array(points).T)
    return plus[plus[x, y], z]


def _inductive_quad(pairs: int) -> list[SwitchPair]:
    """Links of the quad; pair i is the switches 2i and 2i + 1. Pairs lead others as in a tournament on a circle; of an
    even number the last one leads none, so that all lead an even number."""
    circle = pairs if pairs % 2 else pairs - 1
    links = []
    for i in range(circle):
        led = [(i + step) % circle for step in range(1, (circle + 1) // 2)]
        led += [circle] if circle < pairs else []
        for turn, j in enumerate(led):
            links += [ordered(2 * i + turn % 2, 2 * j + side) for side in (0, 1)]
    return links
