# SPDX-License-Identifier: Apache-2.0
"""Networks that grow by single switches: a new one is put into the middle of links that are there.

Of a link between a and b the new switch x makes two, a-x and x-b, at a layer between those of a and b. So what went up
or down over the link still does, over one link more, and turns where it did: every path that there was is still one in
as many priorities. A link that is taken frees two ports, and all ports are in use, so d links of the new switch need
d/2 old ones: no growth can do with fewer (Jellyfish's does as well: Singla et al., NSDI 2012, section 3).

Which links: in FC+ and FC as many in each gap between layers as a switch of the network has, at random; the new layers
lie half-way between the old ones. Elsewhere, where every switch is a layer by itself, links that pass over a place in
the middle of the order, at random: there the new switch comes in, and who had a link up still has one. Ends are
different, so the new switch has no parallel links.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from detour.base.arrays import Int32Array, Int64Array
from detour.base.errors import DetourError
from detour.topo.expander.given import GIVEN, remember
from detour.topo.expander.layered import gap_degrees, layers_per_group
from detour.topo.expander.network import Expander
from detour.topo.expander.wiring import SwitchPair, ordered

GROWING = ("fcplus", "fc", "jellyfish", "xpander", "slimfly", "rng", GIVEN)  # families that can grow
_DIGEST = re.compile(r"(#[0-9a-f]{16})?$")
"""of a file, at the end of a network's text"""
MAX_GROWN = 1000


@dataclass(frozen=True)
class Step:
    """A switch that was added: its number, the links that were taken away for it (their ends), and the least number of
    links that any wiring has to take away to give it as many: half of its own."""

    switch: int
    rewired: tuple[SwitchPair, ...]
    least: int


@dataclass(frozen=True, eq=False)
class Growth:
    """The network with the new switches, and how each came in."""

    network: Expander
    steps: tuple[Step, ...]


@lru_cache(maxsize=16)
def grow(network: Expander, count: int) -> Growth:
    """Add `count` switches with as many links and hosts as the others have (one link less if that is odd; in a graph
    that was given the median, and two links at least). The same network grows in the same way, and what has grown by
    three is what has grown by two and then by one. Raises `DetourError`: the network is of a family that cannot grow,
    or no links are left that may be taken."""
    if network.family not in GROWING:
        raise DetourError(f"{network.spec}: it cannot grow by switches; {', '.join(GROWING)} can")
    if not 0 <= count <= MAX_GROWN:
        raise DetourError(f"{network.spec}: grown={count}; expected 0 to {MAX_GROWN}")
    if count and network.copies.any():
        raise DetourError(f"{network.spec}: it has parallel links; only networks without them can grow")
    if network.family == GIVEN and ",grown=" in network.spec:
        raise DetourError(f"{network.spec}: it has grown already; add all switches to the file's network at once")
    layered = network.layers < network.size
    # Layers get room between them: l becomes 2l, and 2l + 1 is new.
    doubled = replace(network, layer=2 * network.layer, layers=2 * network.layers)
    now = doubled if layered and count else network
    steps = []
    for number in range(count):
        graph = network.links.tobytes() + network.hosts.tobytes()
        rng = np.random.default_rng(
            [*hashlib.sha256(graph if network.family == GIVEN else network.spec.encode()).digest()[:16], number]
        )
        if layered:
            rows, between = _in_gaps(network, now, rng)
        else:
            rows, between = _over_the_middle(network, now, rng)
        now, step = _insert(now, rows, between, _median(network.hosts[network.tors]))
        steps.append(step)
    spec = _DIGEST.sub(rf",grown={count}\1", network.spec, count=1) if count else network.spec
    grown = replace(now, spec=spec).checked()
    if count and network.family == GIVEN:
        remember(grown)
    return Growth(grown, tuple(steps))


def _median(values: Int32Array) -> int:
    """The lower one of two."""
    return int(np.sort(values)[(values.size - 1) // 2])


def _in_gaps(network: Expander, now: Expander, rng: np.random.Generator) -> tuple[Int64Array, Int32Array]:
    """Rows of links that have not been taken yet, as many in each gap as a switch has, and the layers between."""
    degree, low = int(network.degrees[0]), now.layer.min(axis=1)
    whole = now.layer.max(axis=1) - low == 2
    if network.family == "fc":
        degrees = dict(enumerate(gap_degrees(degree, network.layers), 1))
    else:
        group = layers_per_group(degree, int(network.virtual.max()))
        starts = range(2, network.layers, group)
        degrees = {1: 1, **{start + int(rng.integers(group)): group for start in starts}}
    rows: list[int] = []
    taken: set[int] = set()
    for gap, count in degrees.items():
        some = _apart(now, np.flatnonzero(whole & (low == 2 * gap)), count, taken, rng)
        if len(some) < count:
            raise _too_few(now, len(some), count)
        rows += some
    chosen = np.array(rows, np.int64)
    return chosen, low[chosen] + 1


def _over_the_middle(network: Expander, now: Expander, rng: np.random.Generator) -> tuple[Int64Array, Int32Array]:
    """Rows of links from above to below a place in the order, and the layer where the new switch comes in: at the
    middle, or in a graph that was given as near as can be."""
    low, high = now.layer.min(axis=1), now.layer.max(axis=1)
    count = max(1, _median(network.degrees) // 2)
    middle = now.layers // 2
    for cut in _places(middle, now.layers) if network.family == GIVEN else (middle,):
        rows = _apart(now, np.flatnonzero((low <= cut) & (high > cut)), count, set(), rng)
        if len(rows) == count:
            return np.array(rows, np.int64), np.full(count, cut + 1, np.int32)
    raise _too_few(now, len(rows), count)


def _places(middle: int, layers: int) -> list[int]:
    """All places between two layers, the nearest to the middle first."""
    return sorted(range(1, layers), key=lambda cut: (abs(cut - middle), cut))


def _apart(now: Expander, rows: Int64Array, count: int, taken: set[int], rng: np.random.Generator) -> list[int]:
    """So many of these links, or as many as are found, of which no two have a switch in common, none of them in
    `taken`, to which theirs go."""
    apart: list[int] = []
    for row in rng.permutation(rows).tolist():
        if len(apart) == count:
            break
        ends = set(now.links[row].tolist())
        if not ends & taken:
            taken |= ends
            apart.append(row)
    return apart


def _too_few(now: Expander, rewired: int, count: int) -> DetourError:
    return DetourError(
        f"{now.spec}: {rewired} links without a switch in common are left where {count} are wanted for a new"
        f" one; build a larger network instead"
    )


def _insert(now: Expander, rows: Int64Array, between: Int32Array, hosts: int) -> tuple[Expander, Step]:
    """The network with one more switch in the middle of links `rows`, at layers `between` of its own."""
    x = now.size
    layer, layers = now.layer, now.layers
    if layers == x:  # every switch is a layer: those above the new one move up
        layer, layers = np.where(layer >= between[0], layer + 1, layer), layers + 1
    own = 1 + np.searchsorted(np.unique(between), between).astype(np.int32)
    ends, old_virtual, old_layer = now.links[rows], now.virtual[rows], layer[rows]
    halves = []
    for side in (0, 1):
        halves.append(
            (
                np.stack([ends[:, side], np.full(rows.size, x)], axis=1),
                np.stack([old_virtual[:, side], own], axis=1),
                np.stack([old_layer[:, side], between], axis=1),
            )
        )
    kept = np.delete(np.arange(len(now.links)), rows)
    parts = [
        np.concatenate([whole[kept], *(half[i] for half in halves)]).astype(np.int32)
        for i, whole in enumerate((now.links, now.virtual, layer))
    ]
    more: dict[str, Any] = {
        name: np.concatenate([whole[kept], whole[rows], whole[rows]])
        for name in ("speed", "delay_ps")
        if (whole := getattr(now, name)) is not None
    }
    if now.interfaces is not None:  # the new switch's ports have no names
        called = [np.stack([now.interfaces[rows, side], np.full(rows.size, "")], axis=1) for side in (0, 1)]
        more["interfaces"] = np.concatenate([now.interfaces[kept], *called])
    count = np.append(now.hosts, hosts).astype(np.int32)
    grown = Expander(now.family, now.spec, count, *parts, layers=layers, rate_bps=now.rate_bps, names=now.names, **more)
    taken = tuple(sorted(ordered(int(a), int(b)) for a, b in ends.tolist()))
    return grown, Step(x, taken, rows.size)
