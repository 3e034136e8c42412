# SPDX-License-Identifier: Apache-2.0
"""Expanders by their text, and as topologies that a fabric can boot."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from detour.base.errors import DetourError
from detour.topo.expander import flat, folded, layered, polar, quasirandom
from detour.topo.expander.given import GIVEN, expander_of_topology
from detour.topo.expander.growth import grow
from detour.topo.expander.network import Expander
from detour.topo.keyvalues import split_spec, whole_number
from detour.topo.topology import Topology

EXPANDER_FAMILIES: dict[str, Callable[..., Expander]] = {
    "fcplus": layered.fcplus, "fc": layered.fc, "jellyfish": flat.jellyfish, "xpander": flat.xpander,
    "slimfly": flat.slimfly, "equal-cost-clos": folded.equal_cost_clos, "rng": quasirandom.quasi_random,
    "polarfly": polar.polarfly, "polarstar": polar.polarstar,
}  # fmt: skip


@lru_cache(maxsize=16)
def network_of(spec: str) -> Expander:
    """The expander that a topology's `spec` names. Raises `DetourError`: it names none."""
    name, values = split_spec(spec)
    if name not in EXPANDER_FAMILIES:
        raise DetourError(f"{spec} is not an expander; there are {', '.join(EXPANDER_FAMILIES)}")
    return _built(name, **{key: whole_number(spec, key, value) for key, value in values.items()})


def _built(family: str, **numbers: int) -> Expander:
    build = EXPANDER_FAMILIES[family]
    if family == "rng":  # wired through boxes it grows in a way of its own
        return build(**numbers)
    grown = numbers.pop("grown", 0)
    network = build(**numbers)
    return grow(network, grown).network if grown else network


def booted(family: str) -> Callable[..., Topology]:
    """Return the function that builds a topology of the family, grown by `grown` switches, from the numbers that its
    function in `EXPANDER_FAMILIES` takes."""
    return lambda **numbers: _built(family, **numbers).topology


def is_expander(topology: Topology) -> bool:
    """Return whether a topology is one of these families, or a graph that was given."""
    return topology.family in (*EXPANDER_FAMILIES, GIVEN)


def expander_of(topology: Topology) -> Expander:
    """The expander whose `topology` this is, of a family or given. Raises `DetourError`: it is none."""
    return expander_of_topology(topology) if topology.family == GIVEN else network_of(topology.spec)
