# SPDX-License-Identifier: Apache-2.0
"""Expanders without layers: Jellyfish (Singla et al., NSDI 2012) and Xpander (Valadarsky et al., CoNEXT 2016)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from detour.base.arrays import Int32Array
from detour.base.errors import DetourError
from detour.topo.expander.layered import EXPANDER_PORTS
from detour.topo.expander.network import Expander, switch_count
from detour.topo.expander.wiring import regular

_TRIES = 50


def jellyfish(n: int, s: int, hosts: int | None = None, p: int = EXPANDER_PORTS, seed: int = 1) -> Expander:
    """A random graph of n switches with s links each.

    Raises:
        DetourError: the rule that the parameters break.
    """
    hosts = p - s if hosts is None else hosts
    switch_count("jellyfish", n, s, hosts)
    if n * s % 2:
        raise DetourError(f"jellyfish: n*s={n}*{s} is odd, but every link has two ends")
    spec = f"jellyfish:n={n},s={s},hosts={hosts},seed={seed}"
    rng = np.random.default_rng(seed)
    return _flat("jellyfish", spec, n, hosts, lambda: np.stack(regular(n, s, rng, spec), axis=1))


def xpander(n: int, s: int, hosts: int | None = None, p: int = EXPANDER_PORTS, seed: int = 1) -> Expander:
    """A random lift of the complete graph of s+1 nodes: s+1 metanodes, each two of them joined by a random matching.

    Raises:
        DetourError: the rule that the parameters break.
    """
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
        none = np.zeros_like(links)
        graph = csr_array((np.ones(len(links)), (links[:, 0], links[:, 1])), shape=(n, n))
        if connected_components(graph, directed=False, return_labels=False) == 1:
            return Expander(family, spec, np.full(n, hosts, np.int32), links, none, none, 0).checked()
    raise DetourError(f"{spec}: {_TRIES} wirings fell into parts; it takes more links a switch")
