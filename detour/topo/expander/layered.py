# SPDX-License-Identifier: Apache-2.0
"""FC+ (non-uniform virtual layers) and FC (uniform ones): Zhang et al., "FC+", section III; Zhao et al., NSDI 2023."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from detour.base.arrays import Int32Array, Int64Array
from detour.base.errors import DetourError
from detour.topo.expander.network import Expander, switch_count
from detour.topo.expander.wiring import SwitchPair, join

EXPANDER_PORTS = 32  # of a switch, where none are given (section V)
LARGEST_GROUP = 5  # eq. (4): layers a group may have


def layer_count(s: int) -> int:
    """k of FC+, eq. (2). Raises `DetourError`: s is odd or too small."""
    if s < 4 or s % 2:
        raise DetourError(f"fcplus: s={s} must be even and at least 4, as k = (s-2)/2 + 2 (eq. 2)")
    return (s - 2) // 2 + 2


def choose_v(s: int) -> int:
    """The paper's strategy: the smallest v that satisfies eq. (5) and makes N_gl = (s-2) / (2(v-2)) whole. Raises
    `DetourError`: s is odd or too small."""
    k = layer_count(s)
    least = max(3, 2 + -(-(s - 2) // (2 * LARGEST_GROUP)))
    return next(v for v in range(least, k + 1) if (s - 2) % (2 * (v - 2)) == 0)


def layers_per_group(s: int, v: int) -> int:
    """N_gl, eq. (3). Raises `DetourError`: v does not divide s - 2 as it must."""
    k = layer_count(s)
    if not 3 <= v <= k:
        raise DetourError(f"fcplus: v={v} must be from 3 to k={k} virtual switches")
    layers = Fraction(s - 2, 2 * (v - 2))
    if layers.denominator != 1:
        allowed = [w for w in range(3, k + 1) if (s - 2) % (2 * (w - 2)) == 0]
        raise DetourError(
            f"fcplus: s-2={s - 2} is not divisible by 2(v-2)={2 * (v - 2)} (eq. 3: every group has as many layers);"
            f" v may be {', '.join(map(str, allowed))}"
        )
    return int(layers)


def fcplus(
    n: int, s: int, v: int | None = None, hosts: int | None = None, p: int = EXPANDER_PORTS, seed: int = 1
) -> Expander:
    """An FC+ of n switches with p ports, s of them to other switches, split into v virtual switches (section III-A).

    Layers of a group are of equal size; a virtual switch of a group has N_gl links up and as many down.

    `n`: switches. `s`: links of a switch to others. `v`: virtual switches of a switch; None: the paper's strategy.
    `hosts`: of a switch; None: p - s. `p`: ports of a switch. `seed`: of the assignment and the wiring. Raises
    `DetourError`: the rule that the parameters break."""
    v = choose_v(s) if v is None else v
    group = layers_per_group(s, v)
    hosts = p - s if hosts is None else hosts
    switch_count("fcplus", n, s, hosts)
    if n % group:
        raise DetourError(
            f"fcplus: n={n} is not divisible by N_gl={group} (a group's {group} layers have as many switches)"
        )
    rng = np.random.default_rng(seed)
    # at[j, i]: layer of virtual switch j+1 of switch i
    at = np.empty((v, n), np.int32)
    at[0], at[v - 1] = 1, layer_count(s)
    for j in range(1, v - 1):
        at[j, rng.permutation(n)] = 2 + (j - 1) * group + np.arange(n) // (n // group)
    degree = np.array([1, *[group] * (v - 2), 1])
    spec = f"fcplus:n={n},s={s},v={v},hosts={hosts},seed={seed}"
    return _wired("fcplus", spec, hosts, at, degree, rng)


def _wired(
    family: str, spec: str, hosts: int, at: Int32Array, degree: Int64Array, rng: np.random.Generator
) -> Expander:
    """Joins adjacent layers at random: `degree[j]` links up and as many down for virtual switch j+1, none beyond the
    ends."""
    taken: set[SwitchPair] = set()
    links, virtual, layer = [], [], []
    for low in range(1, int(at.max())):
        stubs = [_stubs(at, degree, which) for which in (low, low + 1)]
        kind = [{int(i): int(j) for i, j in zip(*stub, strict=True)} for stub in stubs]
        a, b = join(stubs[0][0], stubs[1][0], taken, rng, f"{spec}, layers {low} and {low + 1}")
        links.append(np.stack([a, b], axis=1))
        virtual.append(
            np.array([(kind[0][x] + 1, kind[1][y] + 1) for x, y in zip(a.tolist(), b.tolist(), strict=True)])
        )
        layer.append(np.tile([low, low + 1], (a.size, 1)))
    parts = (np.concatenate(part).astype(np.int32) for part in (links, virtual, layer))
    return Expander(family, spec, np.full(at.shape[1], hosts, np.int32), *parts, layers=int(at.max())).checked()


def _stubs(at: Int32Array, degree: Int64Array, layer: int) -> tuple[Int32Array, Int32Array]:
    """(switches, their virtual switches from 0) in a layer, an entry for every link to one side."""
    j, i = np.nonzero(at == layer)
    return np.repeat(i, degree[j]).astype(np.int32), np.repeat(j, degree[j]).astype(np.int32)


def gap_degrees(s: int, k: int) -> list[int]:
    """Links of a switch between layers 1 and 2, 2 and 3...: s/2 in all, as even as they can be, more at the bottom.
    Raises `DetourError`: s is odd, or there are more pairs of layers than links."""
    if s % 2:
        raise DetourError(f"fc: s={s} is odd, but every link between layers takes a port in either")
    if not 2 <= k <= s // 2 + 1:
        raise DetourError(f"fc: k={k} layers; s={s} allows 2 to {s // 2 + 1}")
    even, rest = divmod(s // 2, k - 1)
    return [even + (gap < rest) for gap in range(k - 1)]


def fc(n: int, s: int, k: int, hosts: int | None = None, p: int = EXPANDER_PORTS, seed: int = 1) -> Expander:
    """A Flattened Clos: every switch has a virtual switch in each of k layers. Raises `DetourError`: the rule that the
    parameters break."""
    gaps = gap_degrees(s, k)
    hosts = p - s if hosts is None else hosts
    switch_count("fc", n, s, hosts)
    rng = np.random.default_rng(seed)
    spec = f"fc:n={n},s={s},k={k},hosts={hosts},seed={seed}"
    taken: set[SwitchPair] = set()
    links, layer = [], []
    for low, degree in enumerate(gaps, 1):
        stubs = np.repeat(np.arange(n, dtype=np.int32), degree)
        a, b = join(stubs, stubs, taken, rng, f"{spec}, layers {low} and {low + 1}")
        links.append(np.stack([a, b], axis=1))
        layer.append(np.tile(np.array([low, low + 1], np.int32), (a.size, 1)))
    at = np.concatenate(layer)
    return Expander("fc", spec, np.full(n, hosts, np.int32), np.concatenate(links), at, at, k).checked()
