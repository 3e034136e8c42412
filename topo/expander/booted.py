# SPDX-License-Identifier: Apache-2.0
"""Expanders by their text, and as topologies that a fabric can boot."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from detour.base.errors import DetourError
from detour.topo.expander import flat, folded, layered
from detour.topo.expander.network import Expander
from detour.topo.keyvalues import split_spec, whole_number
from detour.topo.topology import Topology

EXPANDER_FAMILIES: dict[str, Callable[..., Expander]] = {
    "fcplus": layered.fcplus,
    "fc": layered.fc,
    "jellyfish": flat.jellyfish,
    "xpander": flat.xpander,
    "slimfly": flat.slimfly,
    "equal-cost-clos": folded.equal_cost_clos,
}


@lru_cache(maxsize=16)
def network_of(spec: str) -> Expander:
    """The expander that a topology's `spec` names.

    Raises:
        DetourError: it names none.
    """
    name, values = split_spec(spec)
    if name not in EXPANDER_FAMILIES:
        raise DetourError(f"{spec} is no expander; there are {', '.join(EXPANDER_FAMILIES)}")
    return EXPANDER_FAMILIES[name](**{key: whole_number(spec, key, value) for key, value in values.items()})


def fcplus(**values: Any) -> Topology:
    """`layered.fcplus` as a topology."""
    return layered.fcplus(**values).topology


def fc(**values: Any) -> Topology:
    """`layered.fc` as a topology."""
    return layered.fc(**values).topology


def jellyfish(**values: Any) -> Topology:
    """`flat.jellyfish` as a topology."""
    return flat.jellyfish(**values).topology


def xpander(**values: Any) -> Topology:
    """`flat.xpander` as a topology."""
    return flat.xpander(**values).topology


def slimfly(**values: Any) -> Topology:
    """`flat.slimfly` as a topology."""
    return flat.slimfly(**values).topology


def equal_cost_clos(**values: Any) -> Topology:
    """`folded.equal_cost_clos` as a topology."""
    return folded.equal_cost_clos(**values).topology
